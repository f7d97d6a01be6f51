"""Real records in the wrong order, compressed, damaged, twice: the same as the clean ones."""

from __future__ import annotations

import gzip
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
from flask import Flask

from fhirapp.config import settings_of
from fhirapp.db import Reader, db
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.exchange.imports.report import Report
from tests.support.shell import MAIN, environment, fhirapp

DAMAGED = 10


def load(app: Flask, folder: Path) -> Report:
    with app.app_context():
        return import_paths([folder], types(), settings_of(app))


def content(app: Flask) -> dict[str, Any]:
    """Return every version without the time it was published at, and what makes it found.

    What tells of the import itself is left out.
    """
    found: dict[str, Any] = {}
    with app.app_context():
        reader = Reader(db.engine)
        for name, definition in types().items():
            if name == "Provenance":
                continue
            table = definition.sql_table
            columns = "id, version_id, is_current, deleted, patient_id, digest, body"
            for row in reader.all(f"SELECT {columns} FROM {table}", ()):
                body = json.loads(row[6]) if row[6] else {"meta": {}}
                body["meta"].pop("lastUpdated", None)
                found[f"{name}/{row[0]}/{row[1]}"] = (*row[2:5], bytes(row[5] or b""), body)
            for index in definition.tables:
                fields = ", ".join(f"i.{column.name}" for column in index.columns)
                asked = f"SELECT t.id, {fields} FROM {index.name} i JOIN {table} t USING (pk)"
                rows = [(row[0], *row[2:]) for row in reader.all(asked, ())]
                found[index.name] = sorted(rows)
        reader.close()
    return found


@pytest.fixture(scope="module")
def records(synthea_folder: Path) -> dict[str, list[bytes]]:
    """The lines of each file."""
    files = sorted(synthea_folder.glob("*.ndjson"))
    return {path.name: path.read_bytes().splitlines() for path in files}


class Inputs(NamedTuple):
    """The same records: clean, without those that are damaged; and mixed, with them.

    places are those of the damaged lines, mended a file of these lines as they were.
    """

    clean: Path
    mixed: Path
    places: set[str]
    mended: Path


@pytest.fixture(scope="module")
def inputs(
    records: dict[str, list[bytes]],
    make_app: Callable[..., Flask],
    tmp_path_factory: pytest.TempPathFactory,
) -> Inputs:
    """Write the inputs."""
    random, folder = Random(5), tmp_path_factory.mktemp("records")
    stored = types(make_app(seed=False))
    served = [
        (name, number)
        for name, lines in records.items()
        for number in range(len(lines))
        if name.partition(".")[0] in stored
    ]
    damaged = set(random.sample(served, DAMAGED))
    clean, mixed, mended = folder / "clean", folder / "mixed", folder / "mended.ndjson"
    clean.mkdir()
    mixed.mkdir()
    shuffled = []
    for name, lines in records.items():
        whole = [line for number, line in enumerate(lines) if (name, number) not in damaged]
        (clean / name).write_bytes(b"\n".join(whole))
        shuffled += [
            (line[: len(line) // 2] if (name, number) in damaged else line, (name, number))
            for number, line in enumerate(lines)
        ]
    random.shuffle(shuffled)
    places = set()
    for part in range(7):
        lines = shuffled[part::7]
        path = mixed / (f"{part}.ndjson.gz" if part % 2 else f"{part}.ndjson")
        text = b"\n".join(line for line, _ in lines)
        path.write_bytes(gzip.compress(text) if part % 2 else text)
        places |= {f"{path}:{number}" for number, (_, one) in enumerate(lines, 1) if one in damaged}
    mended.write_bytes(b"\n".join(records[name][number] for name, number in sorted(damaged)))
    return Inputs(clean, mixed, places, mended)


def test_records_in_any_order_compressed_damaged_and_twice_are_the_clean_ones_less_the_damaged(
    inputs, make_app
):
    one, other = make_app(seed=False), make_app(seed=False)
    assert load(one, inputs.clean).complete
    first, second = load(other, inputs.mixed), load(other, inputs.mixed)
    for report in (first, second):
        assert {fault.place for fault in report.faults} == inputs.places
        assert report.rejected_lines == DAMAGED
    assert {outcome for counts in second.changes.values() for outcome in counts} == {"same"}
    assert content(other) == content(one)
    # The ten, mended, are what was missing.
    third = load(other, inputs.mended)
    assert third.complete
    assert sum(counts["new"] for counts in third.changes.values()) == DAMAGED


def test_a_backup_in_the_middle_of_that_import_restores_and_passes_the_drill(inputs, tmp_path):
    here, elsewhere, backup = tmp_path / "here", tmp_path / "elsewhere", tmp_path / "a.backup"
    assert fhirapp(here, "db", "upgrade").returncode == 0
    run = subprocess.Popen(
        [sys.executable, "-c", MAIN, "import", str(inputs.mixed)],
        env=environment(here),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until = time.monotonic() + 60
        while not held(here):
            assert time.monotonic() < until
        assert run.poll() is None
        assert fhirapp(here, "backup", str(backup)).returncode == 0
    finally:
        assert run.wait(120) == 1
    assert fhirapp(here, "backup", "--verify", str(backup)).returncode == 0
    assert fhirapp(elsewhere, "restore", str(backup)).returncode == 0
    assert fhirapp(elsewhere, "db", "check").returncode == 0
    assert 0 < held(elsewhere) <= held(here)
    # The import is begun again there: it comes to the same.
    assert fhirapp(elsewhere, "import", str(inputs.mixed)).returncode == 1
    assert held(elsewhere) == held(here)


def held(instance: Path) -> int:
    """Return how many encounters are stored."""
    with closing(sqlite3.connect(instance / "fhirapp.db")) as connection:
        return int(connection.execute("SELECT count(*) FROM encounter").fetchone()[0])
