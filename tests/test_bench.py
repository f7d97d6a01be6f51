"""The benchmark runs on tiny numbers and prints every row; its figures are not judged here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import psycopg
import pytest

from fhirapp.config import settings_of
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.exchange.imports.runs import Options
from tests import ROOT
from tests.bench import multiplied
from tests.bench.paint import PAGES
from tests.bench.rows import Row, Target
from tests.support.databases import POSTGRESQL

TINY = ("--quick", "--allergies", "200", "--documents", "200", "--patients", "20")

# Each section's rows, and the target that a row is held to.
ROWS = {
    "CPU time per request, µs: ours, bare": {
        "allergies: read": "≤ 3 x",
        "allergies: search by patient": "≤ 4.5 x",
        "allergies: search by patient, _revinclude": "≤ 6.5 x",
        "allergies: search without parameters": "",
        "allergies: page 1, _count=100": "≤ 5 x",
        "allergies: page 2": "",
        "documents: read": "",
        "documents: search by patient": "",
        "documents: search without parameters": "",
        "documents: page 1, _count=100": "≤ 5 x",
        "documents: page 2": "",
        "CapabilityStatement": "≤ 1.5 x",
        "SMART configuration": "≤ 1.5 x",
        "JSON Web Key Set": "≤ 1.5 x",
    },
    "CPU time per request, µs: this search, by patient": {
        "allergies: token": "≤ 1.5 x",
        "allergies: date": "≤ 1.5 x",
        "allergies: _sort=-date": "≤ 1.5 x",
        "allergies: search by patient, _sort=-date": "≤ 1.5 x",
        "allergies: search by patient, _total=accurate": "≤ 1.5 x",
        "allergies: search by patient, _include": "≤ 1.5 x",
        "allergies: search by patient, 304": "≤ 1.5 x",
        "documents: _content": "≤ 1.5 x",
        "documents: _content of a common word": "≤ 1.3 x",
        "documents: _content of a common word, _sort=_score": "",
    },
    "CPU time per request, µs: far back, page 1": {
        "allergies: page 2 against page 1": "≤ 1.2 x",
        "documents: page 2 against page 1": "",
    },
    "CPU time per request, µs: 200 rows, 100 rows": {
        "allergies: read": "≤ 1.15 x",
        "allergies: search by patient": "≤ 1.15 x",
        "allergies: search by patient, _revinclude": "≤ 1.15 x",
        "allergies: search without parameters": "≤ 1.15 x",
        "documents: read": "",
        "documents: search by patient": "",
        "documents: search without parameters": "",
        "allergies: token": "≤ 1.15 x",
        "allergies: date": "≤ 1.15 x",
        "allergies: _sort=-date": "≤ 1.15 x",
        "allergies: search by patient, _sort=-date": "≤ 1.15 x",
        "allergies: search by patient, _total=accurate": "≤ 1.15 x",
        "allergies: search by patient, _include": "≤ 1.15 x",
        "allergies: search by patient, 304": "≤ 1.15 x",
        "documents: _content": "",
        "documents: _content of a common word": "",
        "documents: _content of a common word, _sort=_score": "",
    },
    "CPU time per request, µs: protected, plain": {"a route of 30 kB": "≤ 1.15 x"},
    "Requests per second (own generator): ours, bare": {
        "allergies: search by patient, 8 connections": "",
        "allergies: search by patient, 64 connections": "",
        "allergies: 64 connections against 8": "≥ 0.95 x",
        "documents: search by patient, 8 connections": "",
        "documents: search by patient, 64 connections": "",
        "documents: 64 connections against 8": "",
    },
    "Requests per second, by patient: this, against": {
        "a process for each core against one, 8": "≥ 1.8 x",
        "512 connections against 8": "≥ 0.9 x",
        "one core busy otherwise, 64": "≥ 0.7 x",
    },
    "Time of an answer, ms: p99, p50": {"half of what one process can answer": "≤ 4 x"},
    "Imported per CPU second: ours": {
        "allergies": "≥ 4,000",
        "documents of 3 kB": "≥ 2,000",
        "C-CDA documents of 90 kB": "≥ 60",
    },
    "RssAnon, MB at the most: ours": {
        "import of documents": "≤ 150",
        "import of allergies": "≤ 150",
    },
    "On disk, kB with indexes: ours": {"an allergy": "≤ 4"},
    "Exported per CPU second: ours": {"allergies": "≥ 100,000"},
    "Time of an answer, ms: with import, without": {
        "a search by patient, the slowest of 100": "≤ 2 x",
    },
    "RssAnon, MB a process: ours, bare": {
        "idle": "≤ 60",
        "after the rows of CPU time": "≤ 75",
        "after the rows of requests": "≤ 75",
    },
    "Start to first 200, s: ours, bare": {
        "GET /fhir/metadata": "≤ 0.7",
        "then a search by patient": "≤ 0.7",
    },
}
if shutil.which("chromium"):
    ROWS["First paint on loopback, ms: ours, bare"] = {
        name: f"≤ {page.limit}" for name, page in PAGES.items()
    }

_NUMBER = r"[\d,]+(?:\.\d+)?"
_ROW = re.compile(
    rf"  (?P<name>\S.*?) +{_NUMBER} +(?:{_NUMBER}|-) +(?:{_NUMBER}|-) +{_NUMBER} - {_NUMBER}"
    r"(?: +(?P<target>[≤≥] [\d.,]+(?: x)?)  (?:NOT )?met)?"
)
_TITLE = re.compile(r"(?P<title>\S.*?)  +(?P<sides>.*?) +ratio +min - max +target")


@pytest.mark.campaign(at_full_size_only=True)
def test_every_row_is_printed_beside_its_target():
    # Not with coverage, which would double what is measured.
    environ = {name: value for name, value in os.environ.items() if name[:9] != "COVERAGE_"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", *TINY],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    table, _, notes = done.stdout.partition("\n\nMachine: ")
    assert _rows(table) == ROWS
    assert "200" in notes


@pytest.mark.parametrize(
    ("row", "met"),
    [
        (Row("a ratio at its limit", [6.0], [1.0], Target(6)), True),
        (Row("a ratio above it", [6.1], [1.0], Target(6)), False),
        (Row("the median of the ratios", [2.0, 9.0, 30.0], [1.0, 3.0, 3.0], Target(3)), True),
        (Row("a rate at its limit", [4000.0], target=Target(4000, False, True)), True),
        (Row("a rate below it", [3999.0], target=Target(4000, False, True)), False),
        (Row("the largest", [80.0, 91.0], [9.0, 9.0], Target(90, True, True), max), False),
        (Row("no target", [1.0], [1.0]), None),
    ],
    ids=lambda value: value.name if isinstance(value, Row) else "",
)
def test_a_target_is_met_or_not(row, met):
    assert row.met is met


def test_a_number_wider_than_its_column_stays_apart():
    wide = Row("wide", [123456789012.0], [1234567890123.0])
    assert re.split(r"  *", str(wide).strip()) == [
        *("wide", "123,456,789,012", "1,234,567,890,123", "0.10", "0.10", "-", "0.10")
    ]


@pytest.mark.databases(POSTGRESQL)
def test_a_copied_block_is_what_an_import_of_it_stores(make_app, tmp_path):
    stored = []
    for imported in ([0], [0, 1]):
        app = make_app(seed=False)
        with app.app_context():
            settings = settings_of(app)
            for block in imported:
                folder = tmp_path / f"{len(imported)}-{block}"
                folder.mkdir()
                files = multiplied.write_block(folder, block)
                import_paths(files, types(), settings, Options(provenance=False))
        with psycopg.connect(settings.database_url, autocommit=True) as connection:
            if imported == [0]:
                multiplied.multiply(connection, 1, 1)
            stored.append(_stored(connection))
    copied, both = stored
    assert len(both["allergy_intolerance"]) == 2 * multiplied.ALLERGIES
    assert copied == both


def _stored(connection: psycopg.Connection) -> dict[str, list[str]]:
    """Return the rows of each table, without numbers, times and digests."""
    found = {}
    for table in ("patient", "allergy_intolerance", "provenance"):
        without = "to_jsonb(t) - '{pk,last_updated,digest,body}'::text[]"
        body = "regexp_replace(convert_from(body, 'UTF8'), '\"lastUpdated\".*', '')"
        found[table] = f"SELECT ({without})::text || {body} FROM {table} t"
        for index in ("date", "reference", "string", "token", "words"):
            name = f"{table}_{index}"
            if connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() != (None,):
                found[name] = (
                    f"SELECT id || (to_jsonb(i) - 'pk')::text FROM {name} i JOIN {table} USING (pk)"
                )
    return {
        name: sorted(row for (row,) in connection.execute(query)) for name, query in found.items()
    }


def _rows(table: str) -> dict[str, dict[str, str]]:
    """Read the printed table: by section, each row's target; a line of another form fails."""
    found: dict[str, dict[str, str]] = {}
    for line in filter(None, table.splitlines()):
        if title := _TITLE.fullmatch(line):
            sides = ", ".join(re.split(r"  +", title["sides"]))
            rows = found.setdefault(f"{title['title']}: {sides}", {})
        else:
            row = _ROW.fullmatch(line)
            assert row is not None, line
            rows[row["name"]] = row["target"] or ""
    return found
