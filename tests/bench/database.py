"""A database of a given size, filled by imports whose cost is kept with it."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from select import select
from typing import NamedTuple, Self

from tests.bench import records
from tests.bench.cpu import anonymous_megabytes
from tests.bench.records import Size
from tests.bench.servers import ROOT, environment

_NOTE = "loaded.json"


class Cost(NamedTuple):
    """The cost of an operation: CPU seconds, how often it ran, and the peak of RssAnon in MB."""

    cpu_seconds: float
    runs: int
    megabytes: float


@dataclass
class Database:
    """An instance folder, and what was found out about it."""

    instance: Path
    size: Size
    # The cost of the imports of allergies and of documents.
    imports: dict[str, Cost] = field(default_factory=dict)
    allergy_kilobytes: float = 0

    @property
    def bytes_on_disk(self) -> int:
        """The size of the database file, with its log merged."""
        with closing(sqlite3.connect(self.instance / "fhirapp.db")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return sum(path.stat().st_size for path in self.instance.glob("fhirapp.db*"))


def load(instance: Path, size: Size) -> Database:
    """Return the database of this size in this folder; create it if it is missing."""
    note = instance / _NOTE
    if note.exists():
        content = json.loads(note.read_text())
        if content["size"] != asdict(size):
            raise SystemExit(f"{instance} has another number of records: {content['size']}")
        imports = {name: Cost(*cost) for name, cost in content["imports"].items()}
        return Database(**{**content, "instance": instance, "size": size, "imports": imports})
    instance.mkdir(parents=True, exist_ok=True)
    database = Database(instance, size)
    with tempfile.TemporaryDirectory(dir=instance) as folder:
        files = records.write(Path(folder), size)
        # Allergies last: their cost is that in a database with all other records.
        for name in ("others", "documents", "allergies"):
            before = 0 if name == "others" else database.bytes_on_disk
            database.imports[name] = run("import", files["one"], files[name], instance=instance)
        database.allergy_kilobytes = (database.bytes_on_disk - before) / size.allergies / 1e3
    note.write_text(json.dumps(asdict(database) | {"instance": None}))
    return database


class Operation:
    """A running import or export (operations.py), whose measured work has begun."""

    def __init__(self, *words: str | Path, instance: Path, **settings: str) -> None:
        self._words = list(map(str, words))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.operations", *self._words],
            cwd=ROOT,
            env=environment(instance, **settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._read_line()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def is_running(self, wait_seconds: float = 0) -> bool:
        """Return whether the measured work goes on."""
        return not select([self._process.stdout], [], [], wait_seconds)[0]

    def cost(self) -> Cost:
        """Wait for the end of the measured work, and return its cost."""
        peak = 0.0
        while self.is_running(0.02):
            peak = max(peak, anonymous_megabytes(self._process.pid))
        return Cost(**json.loads(self._read_line()), megabytes=peak)

    def _read_line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._words} failed")
        return line


def run(*words: str | Path, instance: Path) -> Cost:
    """Run an operation, and return its cost."""
    with Operation(*words, instance=instance) as operation:
        return operation.cost()
