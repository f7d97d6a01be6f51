"""The matches of an answer as a table, with the columns that their type declares."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import unescape
from typing import Any, NamedTuple

from fhirapp.definition import TableColumn, types
from fhirapp.web.texts import _

Resource = Mapping[str, Any]
# With more rows, the page is too long to read.
MOST_ROWS = 200
_LONGEST = 200
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d.*)")
_TAGS = re.compile(r"<[^>]*>")


class Cell(NamedTuple):
    """The text of a cell, and its reference, Patient/p1; not is_known: the value is missing."""

    text: str
    reference: str = ""
    is_known: bool = True


class Table(NamedTuple):
    """A table; left_out counts the matches without a row, included the resources beside them."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left_out: int = 0
    included: int = 0


class _Column(NamedTuple):
    heading: str
    read: Callable[[Resource], Cell]


def table_of(content: Any) -> Table | None:
    """Return the table of a Bundle's matches, or of one resource; None where there are none."""
    matches, included = _matches(content)
    if matches is None:
        return None
    type_names = {str(match.get("resourceType")) for match in matches}
    columns = _columns(type_names.pop() if len(type_names) == 1 else "")
    rows = [
        [_identity(match), *(column.read(match) for column in columns)]
        for match in matches[:MOST_ROWS]
    ]
    headings = [_("Resource"), *(column.heading for column in columns)]
    return Table(headings, rows, max(0, len(matches) - MOST_ROWS), included)


def brief(resource: Resource) -> str:
    """Return a resource in a few words: AllergyIntolerance/al-1 · Latex."""
    name = _name(resource)
    for element in ("code", "type", "name", "class"):
        text = _text(resource.get(element))
        if text:
            return f"{name} · {text[:80]}"
    return name


def _matches(content: Any) -> tuple[list[Resource] | None, int]:
    if not isinstance(content, dict):
        return None, 0
    if content.get("resourceType") != "Bundle":
        is_outcome = content.get("resourceType") == "OperationOutcome"
        return (None, 0) if is_outcome or "resourceType" not in content else ([content], 0)
    matches: list[Resource] = []
    included = 0
    for entry in content.get("entry", ()):
        mode = entry.get("search", {}).get("mode", "match")
        resource = entry.get("resource")
        if mode == "match" and isinstance(resource, dict):
            matches.append(resource)
        elif mode == "match":
            matches.append(_deleted(entry))
        elif mode == "include":
            included += 1
    return matches, included


def _deleted(entry: Mapping[str, Any]) -> Resource:
    """Return a resource that stands for a deletion: an entry of a history without one."""
    type_name, _slash, rest = str(entry.get("request", {}).get("url", "")).partition("/")
    return {"resourceType": type_name, "id": rest, "text": {"div": _("deleted")}}


def _name(resource: Resource) -> str:
    parts = (str(resource.get(element) or "") for element in ("resourceType", "id"))
    return "/".join(filter(None, parts))[:_LONGEST]


def _identity(resource: Resource) -> Cell:
    name = _name(resource)
    version = resource.get("meta", {}).get("versionId")
    return Cell(name, f"{name}/_history/{version}" if version else name)


def _columns(type_name: str) -> Sequence[_Column]:
    """Return the columns that a type declares; the narrative where it declares none."""
    definition = types().get(type_name)
    if definition is None or not definition.table_columns:
        return (_Column(_("Text"), _narrative),)
    return [
        _Column(_(column.heading), partial(_value, column)) for column in definition.table_columns
    ]


def _value(column: TableColumn, resource: Resource) -> Cell:
    value = resource.get(column.element)
    text = _text(value)
    first = next(iter(value), None) if isinstance(value, list) else value
    reference = first.get("reference", "") if isinstance(first, dict) else ""
    return Cell(text, str(reference)) if text else Cell(_(column.missing), is_known=False)


def _text(value: Any) -> str:
    """Return an element as text: a string, a code's display, a name, a reference's display."""
    if isinstance(value, list):
        texts = ", ".join(filter(None, map(_text, value[:5])))
        return _cut(f"{texts} …" if len(value) > 5 else texts)
    if isinstance(value, str):
        # The browser may break the line between day and time.
        return _cut(_MOMENT.sub(r"\1 \2", value))
    if not isinstance(value, dict):
        return ""
    if value.get("text"):
        return _cut(str(value["text"]))
    for coding in (*value.get("coding", ()), value):
        for name in ("display", "code", "reference"):
            if coding.get(name):
                return _cut(str(coding[name]))
    parts = (*value.get("given", ()), value.get("family"))
    return _cut(" ".join(part for part in parts if isinstance(part, str)))


def _narrative(resource: Resource) -> Cell:
    div = resource.get("text", {}).get("div", "")
    text = " ".join(unescape(_TAGS.sub(" ", div[:5000])).split())
    return Cell(_cut(text)) if text else Cell(_("no narrative"), is_known=False)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
