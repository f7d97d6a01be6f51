"""The benchmark: targets, measurements by a coarse clock, copied rows, and one short run."""

from __future__ import annotations

import re
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
from tests.bench.cpu import MIN_SECONDS, TICK_SECONDS, rates
from tests.bench.measure import cost_per_call
from tests.bench.report import TOO_SHORT, Row, Section, Target, table
from tests.support.databases import POSTGRESQL


@pytest.mark.campaign(at_full_size_only=True)
def test_short_run_prints_a_verdict_for_each_target():
    words = ("--quick", "--allergies", "200", "--documents", "200", "--patients", "20")
    done = subprocess.run(
        [sys.executable, "-m", "tests.bench", *words], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    printed, _, notes = done.stdout.partition("\n\nMachine: ")
    rows = [line for line in printed.splitlines() if line.startswith("  ")]
    assert len(rows) > 40
    unjudged = [row for row in rows if re.search("[≤≥]", row) and not row.endswith("met")]
    assert unjudged == []
    assert [row for row in rows if re.search(r" -\d|\b(nan|inf)\b", row)] == []
    assert "200" in notes


@pytest.mark.parametrize(
    ("row", "is_met"),
    [
        (Row("a ratio at its limit", [6.0], [1.0], Target(6)), True),
        (Row("a ratio above it", [6.1], [1.0], Target(6)), False),
        (Row("the median of the ratios", [2.0, 9.0, 30.0], [1.0, 3.0, 3.0], Target(3)), True),
        (Row("a rate at its limit", [4000.0], target=Target(4000, False, True)), True),
        (Row("a rate below it", [3999.0], target=Target(4000, False, True)), False),
        (Row("a value above its limit", [80.0, 91.0, 92.0], [9.0], Target(90, True, True)), False),
        (Row("no target", [1.0], [1.0]), None),
        (Row("no values", [], target=Target(1)), None),
        (Row("no value to compare with", [1.0], [], Target(1)), None),
    ],
    ids=lambda value: value.name if isinstance(value, Row) else "",
)
def test_target_is_met_or_not(row, is_met):
    assert row.is_met is is_met


@pytest.mark.parametrize("seconds", [-0.5, 0.0, MIN_SECONDS - TICK_SECONDS])
def test_rate_over_too_short_a_time_is_not_printed(seconds):
    row = Row("allergies", rates(10_000, seconds), target=Target(1, False, True))
    assert table([Section("", "", "", [row])]).endswith(TOO_SHORT)
    assert rates(10_000, MIN_SECONDS) == [10_000 / MIN_SECONDS]


@pytest.mark.parametrize("cost", [0.00001, 0.0003, 0.02])
def test_cost_of_a_request_is_exact_with_a_clock_of_ten_milliseconds(cost):
    calls = 0

    def run(count: int) -> None:
        nonlocal calls
        calls += count

    measured, made = cost_per_call(run, lambda: calls * cost // TICK_SECONDS * TICK_SECONDS, 16)
    assert made == calls
    assert measured == pytest.approx(cost, rel=0.03)


@pytest.mark.databases(POSTGRESQL)
def test_copied_block_equals_an_import_of_it(make_app, tmp_path, monkeypatch):
    monkeypatch.setattr(multiplied, "PATIENTS", 10)
    monkeypatch.setattr(multiplied, "ALLERGIES", 50)
    stored = []
    for blocks in ([0], [0, 1]):
        app = make_app(seed=False)
        with app.app_context():
            settings = settings_of(app)
            for block in blocks:
                folder = tmp_path / f"{len(blocks)}-{block}"
                folder.mkdir()
                files = multiplied.write_block(folder, block)
                import_paths(files, types(), settings, Options(provenance=False))
        with psycopg.connect(settings.database_url, autocommit=True) as connection:
            if blocks == [0]:
                multiplied.multiply(connection, 1, 1)
            stored.append(_stored(connection))
    copied, imported = stored
    assert len(imported["allergy_intolerance"]) == 2 * multiplied.ALLERGIES
    assert copied == imported


def _stored(connection: psycopg.Connection) -> dict[str, list[str]]:
    """Return the rows of each table, without row numbers, times and digests."""
    queries = {}
    for table_name in ("patient", "allergy_intolerance", "provenance"):
        columns = "to_jsonb(t) - '{pk,last_updated,digest,body}'::text[]"
        body = "regexp_replace(convert_from(body, 'UTF8'), '\"lastUpdated\".*', '')"
        queries[table_name] = f"SELECT ({columns})::text || {body} FROM {table_name} t"
        for index in ("date", "reference", "string", "token", "words"):
            name = f"{table_name}_{index}"
            if connection.execute("SELECT to_regclass(%s)", (name,)).fetchone() != (None,):
                row = "id || (to_jsonb(i) - 'pk')::text"
                queries[name] = f"SELECT {row} FROM {name} i JOIN {table_name} USING (pk)"
    return {
        name: sorted(row for (row,) in connection.execute(query)) for name, query in queries.items()
    }
