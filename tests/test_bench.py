"""The benchmark: targets, measurements by a coarse clock, copied rows, and one short run."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests import ROOT
from tests.bench.cpu import MIN_SECONDS, TICK_SECONDS, rates
from tests.bench.report import TOO_SHORT, Row, Section, Target, table


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
