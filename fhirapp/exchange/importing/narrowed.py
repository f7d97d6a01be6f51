"""Exports of a part: what such a one lacks is not gone, and nothing is deleted for it.

How an export was asked for stands in its manifest.json, as `request`: an address of Bulk Data, or
our own command.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import BinaryIO

from fhirapp.config import ConfigurationError
from fhirapp.exchange.importing.archives import Archives, Broken, is_archive
from fhirapp.exchange.importing.inputs import MANIFEST, shown
from fhirapp.exchange.remote import address, faults
from fhirapp.fhir import json as fhir_json

_COMMAND = "fhirapp export"
# Options of the command that leave nothing out.
_OF_FORM = frozenset({"--history", "--gzip"})
_LONGEST = 20_000_000
_UNTOLD = "how it was asked for, nobody can tell"


def refuse_narrowed(paths: Sequence[Path], spool: Path, archives: Archives) -> None:
    """Refuse to delete for an import of exports that were asked for a part of the records.

    spool has what came by a pipe. Raises ConfigurationError.
    """
    for where, opens in _manifests([*paths, *sorted(spool.iterdir())], archives):
        if why := _why(opens):
            raise refusal(where, why)


def refusal(where: str, why: str) -> ConfigurationError:
    """Return what is raised for an export that has not all records, with the reason."""
    return ConfigurationError(
        f"{where} is not an export of all records ({why}): what it lacks is not gone, so nothing "
        "can be deleted for it. Import it without deleting what is missing (--delete-missing), or "
        "export everything. Nothing was imported."
    )


def why_narrowed(request: object) -> str:
    """Return why an export that was asked for so may lack records, empty where it has all."""
    if not isinstance(request, str) or not request.strip():
        return _UNTOLD
    if request.startswith(_COMMAND):
        given = request.removeprefix(_COMMAND).split()
        narrows = dict.fromkeys(one for one in given if one not in _OF_FORM)
        asked = " ".join(one for one in narrows if one.startswith("--")) or " ".join(narrows)
        return f"asked for with {faults.shown(asked, 100)}" if narrows else ""
    left_out = address.left_out(request)
    return f"asked for with {left_out}" if left_out else ""


def _why(opens: Callable[[], BinaryIO]) -> str:
    try:
        with opens() as file:
            content = fhir_json.loads(file.read(_LONGEST))
    except (OSError, Broken, ValueError):
        return f"{_UNTOLD}: {MANIFEST} cannot be read"
    if not isinstance(content, dict) or not isinstance(content.get("output"), list):
        # Something else that has this name.
        return ""
    return why_narrowed(content.get("request"))


def _manifests(
    paths: Sequence[Path], archives: Archives
) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Yield what opens the manifests in folders and archives, and beside files, each once."""
    known: set[Path] = set()
    for path in paths:
        for file in path.rglob("*") if path.is_dir() else [path]:
            if not file.is_file():
                continue
            beside = file.with_name(MANIFEST)
            if beside not in known and beside.is_file():
                yield shown(file.parent), partial(_opened, beside)
            known.add(beside)
            yield from _members(file, archives)


def _members(path: Path, archives: Archives) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    try:
        members = archives.members(path) if is_archive(path) else []
    except (OSError, Broken):
        # It is rejected when its turn comes.
        return
    for member, _, opens in members:
        if Path(member).name == MANIFEST:
            yield shown(path), partial(opens, _nobody)


def _opened(path: Path) -> BinaryIO:
    return path.open("rb")


def _nobody(_count: int) -> None:
    return None
