"""The matches of an answer as a table: columns that fit their type, an absence told in words."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from html import unescape
from typing import Any, NamedTuple

from fhirapp.web.texts import _

Resource = Mapping[str, Any]
# More rows are no table to look at.
MOST_ROWS = 200
_LONGEST = 200
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d.*)")
_TAGS = re.compile(r"<[^>]*>")


class Cell(NamedTuple):
    """What stands in a cell; refers is what it points to, Patient/p1; is_known is not: in words."""

    text: str
    refers: str = ""
    is_known: bool = True


class Table(NamedTuple):
    """A table; left_out is how many matches have no row, beside how many came with the matches."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    left_out: int = 0
    beside: int = 0


class _Column(NamedTuple):
    heading: str
    read: Callable[[Resource], Cell]


def table_of(content: Any) -> Table | None:
    """Return the table of a Bundle's matches, or of one resource; None where there are none."""
    found, beside = _matches(content)
    if found is None:
        return None
    kinds = {str(one.get("resourceType")) for one in found}
    columns = _columns(kinds.pop() if len(kinds) == 1 else "")
    rows = [[_named(one), *(column.read(one) for column in columns)] for one in found[:MOST_ROWS]]
    headings = [_("What"), *(column.heading for column in columns)]
    return Table(headings, rows, max(0, len(found) - MOST_ROWS), beside)


def brief(resource: Resource) -> str:
    """Return what a resource is, in short: AllergyIntolerance/al-1 · Latex."""
    name = _name(resource)
    for element in ("code", "type", "name", "class"):
        said = _said(resource.get(element))
        if said:
            return f"{name} · {said[:80]}"
    return name


def _matches(content: Any) -> tuple[list[Resource] | None, int]:
    if not isinstance(content, dict):
        return None, 0
    if content.get("resourceType") != "Bundle":
        is_outcome = content.get("resourceType") == "OperationOutcome"
        return (None, 0) if is_outcome or "resourceType" not in content else ([content], 0)
    found: list[Resource] = []
    beside = 0
    for entry in content.get("entry", ()):
        mode = entry.get("search", {}).get("mode", "match")
        resource = entry.get("resource")
        if mode == "match" and isinstance(resource, dict):
            found.append(resource)
        elif mode == "match":
            found.append(_deleted(entry))
        elif mode == "include":
            beside += 1
    return found, beside


def _deleted(entry: Mapping[str, Any]) -> Resource:
    """Return what there is of an entry without a resource: a deletion, in a history."""
    kind, _slash, rest = str(entry.get("request", {}).get("url", "")).partition("/")
    return {"resourceType": kind, "id": rest, "text": {"div": _("deleted")}}


def _name(resource: Resource) -> str:
    named = (str(resource.get(one) or "") for one in ("resourceType", "id"))
    return "/".join(filter(None, named))[:_LONGEST]


def _named(resource: Resource) -> Cell:
    name = _name(resource)
    version = resource.get("meta", {}).get("versionId")
    return Cell(name, f"{name}/_history/{version}" if version else name)


def _columns(kind: str) -> Sequence[_Column]:
    if kind == "AllergyIntolerance":
        return (
            _text(_("Substance"), _("substance not known"), "code"),
            _text(_("Status"), _("status not known"), "clinicalStatus"),
            _text(_("Verification"), _("not told whether it is confirmed"), "verificationStatus"),
            _text(_("Criticality"), _("criticality not known"), "criticality"),
            _text(_("Patient"), _("patient not known"), "patient"),
            _text(_("Recorded"), _("not told when"), "recordedDate"),
        )
    if kind == "DocumentReference":
        return (
            _text(_("Type"), _("type not known"), "type"),
            _text(_("Date"), _("not told when"), "date"),
            _text(_("Author"), _("author not known"), "author"),
            _text(_("Status"), _("status not known"), "status"),
            _text(_("Patient"), _("patient not known"), "subject"),
        )
    return (_Column(_("Text"), _narrative),)


def _text(heading: str, unknown: str, element: str) -> _Column:
    """Return the column of an element, and what is said where there is none."""

    def read(resource: Resource) -> Cell:
        value = resource.get(element)
        said = _said(value)
        first = next(iter(value), None) if isinstance(value, list) else value
        refers = first.get("reference", "") if isinstance(first, dict) else ""
        return Cell(said, str(refers)) if said else Cell(unknown, is_known=False)

    return _Column(heading, read)


def _said(value: Any) -> str:
    """Return what an element says: a text, a code's words, a name, whom a reference means."""
    if isinstance(value, list):
        said = ", ".join(filter(None, map(_said, value[:5])))
        return _cut(f"{said} …" if len(value) > 5 else said)
    if isinstance(value, str):
        # So that a moment is broken between day and time.
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
    said = " ".join(unescape(_TAGS.sub(" ", div[:5000])).split())
    return Cell(_cut(said)) if said else Cell(_("it says nothing in words"), is_known=False)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
