"""The manual's table of OWASP ASVS 5.0: every control of levels 1 and 2, each shown by tests."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import pytest

from fhirapp.docs import pages
from tests import ROOT

# How many controls of levels 1 and 2 each section has: the first so many, for those of level 3 come
# last. In 1.3 two of level 3 are in between. Source: OWASP ASVS 5.0.0.
SECTIONS = {
    "1.1": 2,
    "1.2": 9,
    "1.3": 11,
    "1.4": 3,
    "1.5": 2,
    "2.1": 3,
    "2.2": 3,
    "2.3": 4,
    "2.4": 1,
    "3.2": 2,
    "3.3": 4,
    "3.4": 6,
    "3.5": 5,
    "3.7": 2,
    "4.1": 3,
    "4.2": 1,
    "4.3": 2,
    "4.4": 4,
    "5.1": 1,
    "5.2": 3,
    "5.3": 2,
    "5.4": 3,
    "6.1": 3,
    "6.2": 12,
    "6.3": 4,
    "6.4": 4,
    "6.5": 5,
    "6.6": 3,
    "6.8": 4,
    "7.1": 3,
    "7.2": 4,
    "7.3": 2,
    "7.4": 5,
    "7.5": 2,
    "7.6": 2,
    "8.1": 2,
    "8.2": 3,
    "8.3": 1,
    "8.4": 1,
    "9.1": 3,
    "9.2": 4,
    "10.1": 2,
    "10.2": 2,
    "10.3": 4,
    "10.4": 11,
    "10.5": 5,
    "10.6": 2,
    "10.7": 3,
    "11.1": 2,
    "11.2": 3,
    "11.3": 3,
    "11.4": 4,
    "11.5": 1,
    "11.6": 1,
    "12.1": 3,
    "12.2": 2,
    "12.3": 4,
    "13.1": 1,
    "13.2": 5,
    "13.3": 2,
    "13.4": 5,
    "14.1": 2,
    "14.2": 4,
    "14.3": 3,
    "15.1": 3,
    "15.2": 3,
    "15.3": 7,
    "16.1": 1,
    "16.2": 5,
    "16.3": 4,
    "16.4": 3,
    "16.5": 3,
    "17.1": 1,
    "17.2": 4,
    "17.3": 2,
}
CONTROLS = [f"{section}.{n + 1}" for section, count in SECTIONS.items() for n in range(count)]
_RANGE = re.compile(r"(\d+\.\d+)\.(\d+)(?:-(\d+))?")


class Row(NamedTuple):
    """A row of the table: its controls, what is said, and the tests it names."""

    controls: list[str]
    words: str
    tests: list[str]


@cache
def rows() -> list[Row]:
    text = pages()["security"].text.partition("<!-- asvs -->")[2].partition("<!-- /asvs -->")[0]
    found = []
    for line in text.strip().splitlines()[2:]:
        controls, words, tests = (cell.strip() for cell in line.strip("|").split(" | "))
        found.append(Row([*_controls(controls)], words, re.findall(r"`([^`]+)`", tests)))
    return found


def _controls(text: str) -> Iterator[str]:
    """Yield the controls of a cell such as `3.3.1, 3.3.3-4`."""
    for part in text.split(", "):
        match = _RANGE.fullmatch(part)
        assert match is not None, part
        for number in range(int(match[2]), int(match[3] or match[2]) + 1):
            yield f"{match[1]}.{number}"


def test_the_standard_has_so_many_controls():
    assert len(CONTROLS) == 253


def test_each_control_stands_in_the_table_once():
    there = Counter(control for row in rows() for control in row.controls)
    assert sorted(there) == sorted(CONTROLS)
    assert set(there.values()) == {1}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.controls[0])
def test_what_is_done_is_shown_by_tests_that_are_there(row):
    for name in row.tests:
        path, _colon, function = name.partition(": ")
        file = ROOT / "tests" / f"{path}.py"
        assert file.is_file(), path
        assert not function or f"def test_{function}(" in file.read_text(), name


def test_what_no_test_shows_says_why():
    """It is not here, is left to whoever runs it, or a promise of those who make it."""
    without = [row.controls[0] for row in rows() if not row.tests]
    for row in rows():
        if not row.tests and row.controls[0] not in ("15.1.1", "13.2.1"):
            assert re.search(r"Not here|Left to you", row.words), row
    assert len(without) < 20
