"""Every row of the tables in service.md, sections 2 to 9, is named by a test.

A test names its row at the start of its docstring or of a comment: `2.3 criticality: …` is the row
`criticality` of section 2.3.
"""

from __future__ import annotations

import re
from pathlib import Path

from tests import TESTS

_HEADING = re.compile(r"#{2,3} (?P<section>\d+(?:\.\d+)?)\.? ")
# A docstring or comment that begins with a section and a row, and not with a rule.
_NAMED = re.compile(r'^ +(?:"""|# )(\d+(?:\.\d+)? (?!rule )[^:\n]+): ', re.MULTILINE)
_ROW = re.compile(r"\| (?P<name>[^|]+?) \|")


def rows(specification: str) -> list[str]:
    """Return every table row as section and first cell: "2.3 criticality"."""
    section, found, in_table = "", [], False
    for line in specification.splitlines():
        if heading := _HEADING.match(line):
            section = heading["section"]
        if line.startswith("|---"):
            in_table = True
        elif not line.startswith("|"):
            in_table = False
        elif in_table and (row := _ROW.match(line)):
            found.append(f"{section} {row['name']}")
    return found


def named_by_tests() -> set[str]:
    """Return the rows that docstrings and comments of tests name before a colon and a space."""
    texts = (path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    return {name for text in texts for name in _NAMED.findall(text)}


def test_every_row_is_named_by_a_test_and_no_other(shared: Path) -> None:
    there = rows((shared / "spec/service.md").read_text())
    wanted = {row for row in there if 2 <= float(row.split()[0]) < 10}
    assert len(wanted) > 60
    named = named_by_tests()
    assert sorted(wanted - named) == []
    assert sorted(named - {*there}) == []
