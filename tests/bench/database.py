"""A loaded database: made with `fhirapp import` as users do, its cost noted, kept where asked."""

from __future__ import annotations

import json
import os
import sqlite3
import statistics
import subprocess
import tempfile
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.bench import records
from tests.bench.questions import PAGE
from tests.bench.records import Size
from tests.bench.servers import (
    ROOT,
    Server,
    anonymous_megabytes,
    ask,
    command,
    cpu_seconds,
    environment,
)

_NOTE = "loaded.json"
# The least that two starts of the command differ by, in CPU seconds: of tiny numbers the cost of
# the records drowns in it, and the difference may even be negative.
LEAST = 0.01


@dataclass
class Database:
    """A folder that FHIRAPP_INSTANCE_PATH names, and what was found out while it was made."""

    instance: Path
    size: Size
    # Resources per CPU second of an import, the cost of starting the command taken off.
    imported: dict[str, float]
    # The same in each tenth of it, on the way.
    tenths: dict[str, list[float]]
    # Of the imports: the most of RssAnon in MB; kB that an allergy takes on disk.
    memory: dict[str, float]
    allergy_kilobytes: float
    # The address of a page far back, by type: following the links there is done once.
    deep_pages: dict[str, str]

    def remember(self) -> None:
        """Note beside the database what need not be found out again."""
        content = asdict(self) | {"instance": None}
        (self.instance / _NOTE).write_text(json.dumps(content))

    @property
    def megabytes(self) -> float:
        return _bytes(self.instance) / 1e6


def load(instance: Path, size: Size, *, timed: bool) -> Database:
    """Return the database of this size in this folder, made now unless it is there.

    timed finds out what importing costs.
    """
    note = instance / _NOTE
    if note.exists():
        content = json.loads(note.read_text())
        if content["size"] != asdict(size):
            raise SystemExit(f"{instance} holds another number of records: {content['size']}")
        return Database(**{**content, "instance": instance, "size": size})
    instance.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=instance) as folder:
        files = records.write(Path(folder), size)
        database = Database(instance, size, {}, {}, {}, 0, {})
        if timed:
            _import_timed(database, files)
        else:
            run("import", *files.values(), instance=instance)
    database.remember()
    return database


def _import_timed(database: Database, files: Mapping[str, Path]) -> None:
    """Import file by file, and note what that cost."""
    instance = database.instance
    run("import", files["others"], instance=instance)
    start = statistics.median(
        run("import", files["one"], instance=instance).cpu_seconds for _ in range(5)
    )
    # Allergies last, so that their cost is that of a database which holds everything else.
    for name, table, count in (
        ("documents", "document_reference", database.size.documents),
        ("allergies", "allergy_intolerance", database.size.allergies),
    ):
        before = _bytes(instance)
        with _rows_of(instance, table) as rows:
            cost = run("import", files[name], instance=instance, done=rows)
        database.memory[name] = cost.megabytes
        database.imported[name] = count / max(cost.cpu_seconds - start, LEAST)
        database.tenths[name] = _tenths(cost.course, count)
    database.allergy_kilobytes = (_bytes(instance) - before) / database.size.allergies / 1e3


@contextmanager
def _rows_of(instance: Path, table: str) -> Iterator[Callable[[], int]]:
    """Return how to ask for the number of rows of a table, beside whoever writes."""
    address = f"{(instance / 'fhirapp.db').as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection:

        def rows() -> int:
            (last,) = connection.execute(f"SELECT max(pk) FROM {table}").fetchone()
            return last or 0

        yield rows


def _tenths(course: Sequence[tuple[int, float]], count: int) -> list[float]:
    """Return records per CPU second in each tenth; course has (records, CPU seconds) on the way.

    The first begins when the first records are there: what a start costs is not in it.
    """
    on_the_way = [(done, seconds) for done, seconds in course if done]
    done, seconds = map(list, zip(*on_the_way, strict=True))
    marks = [done[0], *(count * tenth / 10 for tenth in range(1, 11))]
    if marks[1] <= marks[0]:
        # It was over before it could be watched.
        return []
    spent = [_at(mark, done, seconds) for mark in marks]
    return [
        (later - earlier) / max(until - since, LEAST)
        for earlier, later, since, until in zip(marks, marks[1:], spent, spent[1:], strict=False)
    ]


def _at(mark: float, done: Sequence[int], seconds: Sequence[float]) -> float:
    """Return when so many were done, between the two moments that are known."""
    place = min(bisect_left(done, mark), len(done) - 1)
    if place == 0 or done[place] == done[place - 1]:
        return seconds[place]
    part = (mark - done[place - 1]) / (done[place] - done[place - 1])
    return seconds[place - 1] + part * (seconds[place] - seconds[place - 1])


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


class Cost(NamedTuple):
    """What a command took: CPU seconds, and the most of RssAnon in MB.

    course has what was done and the CPU seconds until then, each time that it was asked.
    """

    cpu_seconds: float
    megabytes: float
    course: Sequence[tuple[int, float]]


def run(*arguments: str | Path, instance: Path, done: Callable[[], int] | None = None) -> Cost:
    """Run a command of ours in a process of its own; done tells on the way how much is done."""
    process = start(*arguments, instance=instance)
    most = 0.0
    course = []
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        most = max(most, anonymous_megabytes(process.pid))
        if done is not None:
            course.append((done(), cpu_seconds(process.pid)))
        time.sleep(0.02)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"fhirapp {arguments} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, most, course)


def start(*arguments: str | Path, instance: Path) -> subprocess.Popen[bytes]:
    """Begin a command of ours, and leave it at work."""
    return subprocess.Popen(
        command(*map(str, arguments)),
        cwd=ROOT,
        env=environment(instance),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _bytes(instance: Path) -> int:
    """Return what the database takes on disk, its log taken over."""
    with closing(sqlite3.connect(instance / "fhirapp.db")) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return sum(path.stat().st_size for path in instance.glob("fhirapp.db*"))
