"""Every row of the tables in service.md, sections 2 to 9, is named by a test.

A test names its row at the start of its docstring: `2.3 criticality: …` is the row `criticality` of
section 2.3.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests import TESTS

_HEADING = re.compile(r"#{2,3} (?P<section>\d+(?:\.\d+)?)\.? ")
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
    """Return what the docstrings of the tests name before their first colon and space."""
    named = set()
    for path in TESTS.rglob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                name, colon, _ = (ast.get_docstring(node) or "").partition(": ")
                if colon:
                    named.add(name)
    return named


def in_scope(row: str) -> bool:
    return 2 <= float(row.split()[0]) < 10


def test_every_row_is_named_by_a_test(shared: Path) -> None:
    wanted = [row for row in rows((shared / "spec/service.md").read_text()) if in_scope(row)]
    assert len(wanted) > 60
    assert sorted(set(wanted) - named_by_tests()) == []


def test_no_test_names_a_row_that_is_not_there(shared: Path) -> None:
    there = set(rows((shared / "spec/service.md").read_text()))
    looks_like_a_row = re.compile(r"\d+(\.\d+)? (?!rule )")
    named = {name for name in named_by_tests() if looks_like_a_row.match(name)}
    assert sorted(named - there) == []
