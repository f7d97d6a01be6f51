"""The database's plan of a search as a small picture, and as a list of sentences beside it.

Each step is a box, in the database's order and set in below the step that needs it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from fhirapp.db.plan import SCAN, SEARCH, SORT, PlanStep
from fhirapp.web.texts import _

# Of the picture, in its own units: a box, how far one is set in, how deep, and how many are drawn.
WIDTH, _HEIGHT, _GAP, _INDENT = 320, 44, 10, 16
_DEEPEST, _MOST = 5, 12
_LONGEST = 36
_KEY = "PRIMARY KEY"


class Box(NamedTuple):
    """A step of the picture: its box, the line that leads to it, and what it does in a sentence.

    access is that of the step, which decides the colour.
    """

    number: int
    access: str
    title: str
    detail: str
    sentence: str
    x: int
    y: int
    # As the path of an SVG has it.
    line: str

    @property
    def width(self) -> int:
        return WIDTH - self.x - 1


class Picture(NamedTuple):
    """The boxes of a plan; left_out counts the steps that are not drawn."""

    boxes: Sequence[Box]
    height: int
    left_out: int

    @property
    def width(self) -> int:
        return WIDTH

    @property
    def label(self) -> str:
        """The picture in words, for who does not see it."""
        return "; ".join(f"{box.number} {box.title} {box.detail}".strip() for box in self.boxes)


def picture_of(plan: Sequence[PlanStep]) -> Picture:
    """Return the picture of a plan's first steps."""
    boxes: list[Box] = []
    # Where the line begins that leads to a step of each depth: below the step that needs it.
    begins = dict.fromkeys(range(_DEEPEST + 1), _HEIGHT // 2)
    # Of several indexes each has a step that says no more than this.
    shown = [step for step in plan if not re.fullmatch(r"INDEX \d+", step.text)]
    for number, step in enumerate(shown[:_MOST], 1):
        depth = min(step.depth, _DEEPEST)
        x, y = _INDENT * (depth + 1), (number - 1) * (_HEIGHT + _GAP) + 1
        line = f"M{x - _INDENT // 2} {begins[depth]}V{y + _HEIGHT // 2}H{x}"
        begins |= dict.fromkeys(range(depth + 1, _DEEPEST + 1), y + _HEIGHT)
        boxes.append(
            Box(number, step.access, _title(step), step.table, _sentence(step), x, y, line)
        )
    return Picture(boxes, len(boxes) * (_HEIGHT + _GAP), max(0, len(shown) - _MOST))


def _title(step: PlanStep) -> str:
    if step.access == SEARCH:
        if step.by.endswith(_KEY):
            return _("Search by key")
        return _("Search by index") if step.by else _("Full-text search")
    if step.access == SCAN:
        return _("Index scan") if step.by else _("Full table scan")
    return _("Sort") if step.access == SORT else _cut(_plain(step))


def _sentence(step: PlanStep) -> str:
    """Return what a step does: its table, its index, and by what it looks there."""
    table, index = step.table, step.by
    condition = step.text.partition(" (")[2].removesuffix(")")
    if step.access == SEARCH and index.endswith(_KEY):
        sentence = _("Finds rows of %(table)s by their key", table=table)
    elif step.access == SEARCH and index:
        sentence = _("Finds rows of %(table)s by the index %(index)s", table=table, index=index)
    elif step.access == SEARCH:
        sentence = _("Finds rows by full-text search in %(table)s", table=table)
    elif step.access == SCAN and index:
        sentence = _(
            "Scans %(table)s in the order of the index %(index)s", table=table, index=index
        )
    elif step.access == SCAN:
        sentence = _("Reads every row of %(table)s, without an index", table=table)
    elif step.access == SORT:
        sentence = _("Sorts the results: no index provides this order")
    else:
        return _plain(step)
    return f"{sentence}: {condition}" if condition else sentence


# What SQLite calls the parts of a statement; other steps are shown as the database has them.
_PARTS = {
    "LIST SUBQUERY": _("Subquery, run once"),
    "SCALAR SUBQUERY": _("Scalar subquery, run once"),
    "CORRELATED LIST SUBQUERY": _("Subquery, run for each row"),
    "CORRELATED SCALAR SUBQUERY": _("Scalar subquery, run for each row"),
    "MULTI-INDEX OR": _("Several indexes combined (OR)"),
    "MATERIALIZE": _("Materialized subquery"),
    "CO-ROUTINE": _("Subquery, read row by row"),
    "SCAN": _("Scan the subquery"),
    "SEARCH": _("Search the subquery"),
}


def _plain(step: PlanStep) -> str:
    # What follows is a number, or the name of a list.
    known = _PARTS.get(step.text) or _PARTS.get(step.text.rpartition(" ")[0])
    return _(known) if known else step.text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
