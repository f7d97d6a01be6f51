"""A loaded database: made with `fhirapp import` as users do, its cost noted, kept where asked."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.bench import records
from tests.bench.questions import PAGE
from tests.bench.records import Size
from tests.bench.servers import ROOT, Server, ask, command, environment

_NOTE = "loaded.json"
# The least that two starts of the command differ by, in CPU seconds: of tiny numbers the cost of
# the records drowns in it, and the difference may even be negative.
_LEAST = 0.01


@dataclass
class Database:
    """A folder that FHIRAPP_INSTANCE_PATH names, and what was found out while it was made."""

    instance: Path
    size: Size
    # Resources per CPU second of each slice, the cost of starting the command taken off.
    imported: dict[str, list[float]]
    # The address of a page far back, by type: following the links there is done once.
    deep_pages: dict[str, str]

    def remember(self) -> None:
        """Note beside the database what need not be found out again."""
        content = asdict(self) | {"instance": None}
        (self.instance / _NOTE).write_text(json.dumps(content))

    @property
    def megabytes(self) -> float:
        return sum(path.stat().st_size for path in self.instance.glob("fhirapp.db*")) / 1e6


def load(instance: Path, size: Size, slices: int) -> Database:
    """Return the database of this size in this folder, made now unless it is there.

    What importing costs is found out in so many slices; with 0 it is not.
    """
    note = instance / _NOTE
    if note.exists():
        content = json.loads(note.read_text())
        if content["size"] != asdict(size):
            raise SystemExit(f"{instance} holds another number of records: {content['size']}")
        return Database(instance, size, content["imported"], content["deep_pages"])
    instance.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=instance) as folder:
        files = records.write(Path(folder), size, slices or 1)
        imported = _import_timed(instance, files) if slices else _import_all(instance, files)
    database = Database(instance, size, imported, {})
    database.remember()
    return database


def _import_timed(instance: Path, files: Mapping[str, list[Path]]) -> dict[str, list[float]]:
    _import(instance, files["others"])
    start = statistics.median(_import(instance, files["one"]) for _ in files["allergies"])
    # Allergies last, so that their cost is that of a database which holds everything else.
    return {
        name: [
            _lines(file) / max(_import(instance, [file]) - start, _LEAST) for file in files[name]
        ]
        for name in ("documents", "allergies")
    }


def _import_all(instance: Path, files: Mapping[str, list[Path]]) -> dict[str, list[float]]:
    _import(instance, [file for part in files.values() for file in part])
    return {}


def page_address(
    database: Database, server: Server, token: str, type_name: str, number: int
) -> str:
    """Return the address of page `number` of all resources of a type."""
    path = database.deep_pages.get(type_name)
    # Where a page begins is told by ids, so the address also holds on another port.
    if path is None:
        path = f"/fhir/{type_name}?_count={PAGE}"
        for _ in range(number - 1):
            links = json.loads(ask(server.port, path, token).body)["link"]
            url = next(link["url"] for link in links if link["relation"] == "next")
            parts = urlsplit(url)
            path = f"{parts.path}?{parts.query}"
        database.deep_pages[type_name] = path
        database.remember()
    return path


def _import(instance: Path, files: Sequence[Path]) -> float:
    """Import files in a process of its own; return its CPU seconds."""
    process = subprocess.Popen(
        command("import", *map(str, files)),
        cwd=ROOT,
        env=environment(instance),
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"fhirapp import of {files} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _lines(file: Path) -> int:
    with file.open("rb") as content:
        return sum(1 for _ in content)
