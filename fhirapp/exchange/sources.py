"""Where an import reads from: NDJSON files, in the order that lets references be resolved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from fhirapp.config import ConfigurationError
from fhirapp.fhir import json as fhir_json
from fhirapp.store.definition import Definition

# Types that are not served come last: they are only counted.
_LAST = 1_000
_SUFFIX = ".ndjson"


class Line(NamedTuple):
    """A line of a file: a resource, or so it should be."""

    path: Path
    number: int
    text: bytes

    @property
    def place(self) -> str:
        """Where a person finds it: file:line."""
        return f"{self.path}:{self.number}"


def find_files(paths: Sequence[Path], definitions: Mapping[str, Definition]) -> list[Path]:
    """Return the NDJSON files, those first whose type the others point to.

    A folder stands for the .ndjson files in it and below it. Raises ConfigurationError.
    """
    files: list[Path] = []
    for path in paths:
        if path.is_dir():
            found = sorted(path.rglob(f"*{_SUFFIX}"))
            if not found:
                raise ConfigurationError(f"The folder {path} holds no {_SUFFIX} file.")
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise ConfigurationError(f"There is no file or folder {path}.")
    unique = list(dict.fromkeys(files))
    return sorted(unique, key=lambda path: _rank(path, definitions))


def _rank(path: Path, definitions: Mapping[str, Definition]) -> int:
    """Return the rank of the type that a file's first resource has."""
    for line in read_lines(path):
        try:
            resource = fhir_json.loads(line.text)
        except ValueError:
            return _LAST
        type_name = resource.get("resourceType") if type(resource) is dict else None
        definition = definitions.get(str(type_name))
        return definition.rank if definition else _LAST
    return _LAST


def read_lines(path: Path) -> Iterator[Line]:
    """Yield the lines that are not blank, numbered from 1. Raises ConfigurationError."""
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                if number == 1:
                    text = text.removeprefix(b"\xef\xbb\xbf")
                if text.strip():
                    yield Line(path, number, text)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}.") from None
