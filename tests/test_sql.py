"""SQL has one idiom: reads of a snapshot are text, all else is expressions, as the manual says."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests import ROOT

PACKAGE = ROOT / "fhirapp"
_READ = re.compile(r"\s*(?:SELECT|EXISTS \(SELECT|WITH [a-z_]+ AS)\s", re.IGNORECASE)
_OTHER = re.compile(
    r"\s*(?:INSERT (?:OR [A-Z]+ )?INTO|REPLACE INTO|UPDATE (?:\S+ SET\b|\Z)|DELETE FROM|"
    r"PRAGMA|VACUUM|ATTACH|TRUNCATE|ANALYZE|ALTER TABLE|BEGIN IMMEDIATE|SET LOCAL|SET TRANSACTION|"
    r"(?:CREATE|DROP) (?:TABLE|INDEX|UNIQUE|VIRTUAL|TEMP|TEMPORARY|TRIGGER|VIEW))"
)
# Modules without any of these words hold no SQL; the others are parsed.
_MENTION = re.compile(
    r"\b(?:SELECT|INSERT|REPLACE|UPDATE|DELETE|PRAGMA|VACUUM|ATTACH|TRUNCATE|ANALYZE|ALTER|BEGIN|"
    r"SET|CREATE|DROP|exec_driver_sql|executescript)\b"
)
_ROW = re.compile(r"^\| `([a-z_/]+\.py)` \| .{20,} \|$", re.MULTILINE)


def texts(path: Path) -> list[str]:
    """Return the strings of a module, docstrings left out; of an f-string its first piece."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docs = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs
    ]


def reads_snapshots(path: Path) -> bool:
    """Say whether a module has the Reader, or is of the search, which makes its conditions."""
    imported = {
        alias.name
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    return bool(imported & {"Reader", "reader", "records"}) or path.parent.name == "search"


def runs_text(path: Path) -> bool:
    """Say whether a module runs SQL in another way than the reader's."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("exec_driver_sql", "executescript")
        for node in ast.walk(tree)
    )


def modules_with_text() -> tuple[set[str], set[str]]:
    """Return the modules that read snapshots by text, and those with other SQL."""
    reading, other = set(), set()
    for path in PACKAGE.rglob("*.py"):
        name = path.relative_to(PACKAGE).as_posix()
        if "migrations" in name:
            continue
        if not _MENTION.search(path.read_text(encoding="utf-8")):
            continue
        found = texts(path)
        if any(map(_OTHER.match, found)) or runs_text(path):
            other.add(name)
        elif any(map(_READ.match, found)):
            (reading if reads_snapshots(path) else other).add(name)
    return reading, other


def test_each_module_with_other_sql_is_listed_with_its_reason():
    page = (PACKAGE / "features/manual/docs/decisions.md").read_text(encoding="utf-8")
    section = page.partition("### SQL\n")[2].partition("\n## ")[0].partition("\n### ")[0]
    reading, other = modules_with_text()
    assert reading
    assert set(_ROW.findall(section)) == other
