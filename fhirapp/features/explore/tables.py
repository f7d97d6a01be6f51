"""An answer's resources as tables: one for each type, with the columns that the type declares.

Patients stand there by name and id. The names are read over FHIR with the token of the request, in
one search for all of a page; of a record that the token may not read the id stands alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from html import unescape
from typing import Any, NamedTuple

from markupsafe import escape

from fhirapp.definition import TableColumn, types
from fhirapp.fhir import words
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.search.values import values_at
from fhirapp.web.internal_client import ask
from fhirapp.web.labels import full_name
from fhirapp.web.texts import _

Resource = Mapping[str, Any]

# The audit trail's name for the search that reads patients' names.
VIA = "names"
# A page stays below 100 kB: it has so many rows, and so many characters of markup in them.
MOST_ROWS, MOST_MARKUP = 200, 40_000
_MOST_NAMED = 100
_LONGEST_CELL = 200
# Of a cell's markup beside its text, and of a link beside what it says.
_OF_CELL, _OF_LINK = 22, 60
_PATIENT = re.compile(f"Patient/({ID_PATTERN})")
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d.*)")
_TAGS = re.compile(r"<[^>]*>")


class Cell(NamedTuple):
    """A cell: its text, a note beneath it, and its reference, Patient/p1.

    Not is_known: the value is missing, and the text says so.
    """

    text: str
    note: str = ""
    reference: str = ""
    is_known: bool = True

    @property
    def is_unbroken(self) -> bool:
        """Whether it stays on one line, as ids, dates and codes do."""
        return " " not in self.text

    @property
    def _size(self) -> int:
        text = len(escape(self.text)) + len(escape(self.note)) + _OF_CELL
        return text + (len(self.reference) + _OF_LINK if self.reference else 0)


class Table(NamedTuple):
    """The resources of a type, those that match or those that are included.

    A row of fewer cells than there are columns ends in one that takes the rest of the line.
    """

    type_name: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    is_included: bool = False


class Tables(NamedTuple):
    """The tables of an answer; left_out counts the resources without a row."""

    tables: Sequence[Table]
    left_out: int = 0

    def patients(self) -> list[str]:
        """Return the ids of the patients in the cells, each once."""
        cells = (cell for table in self.tables for row in table.rows for cell in row)
        found = (_PATIENT.fullmatch(cell.reference) for cell in cells)
        return [*dict.fromkeys(match[1] for match in found if match)]


def tables_of(content: Any) -> Tables | None:
    """Return the tables of a Bundle, or of one resource; None where there is none to show."""
    if not isinstance(content, dict):
        return None
    entries, is_history = [{"resource": content}], False
    if content.get("resourceType") == "Bundle":
        entries, is_history = content.get("entry", ()), content.get("type") == "history"
    elif content.get("resourceType", "OperationOutcome") == "OperationOutcome":
        return None
    shown: dict[tuple[bool, str], list[Sequence[Cell]]] = {}
    rows = left_out = 0
    left = MOST_MARKUP
    for entry in entries:
        mode = entry.get("search", {}).get("mode", "match")
        if mode == "outcome":
            continue
        if left <= 0 or rows == MOST_ROWS:
            left_out += 1
            continue
        type_name, row = _row(entry, is_history=is_history)
        shown.setdefault((mode == "include", type_name), []).append(row)
        rows += 1
        left -= sum(cell._size for cell in row)
    tables = [
        Table(type_name, _headings(type_name), group, is_included)
        for (is_included, type_name), group in sorted(shown.items(), key=lambda item: item[0][0])
    ]
    return Tables(tables, left_out)


def names_of_patients(ids: Sequence[str], secret: str) -> dict[str, str]:
    """Return the names of these patients by reference, Patient/p1, of those a token may read.

    One search, which the audit trail has as any other; none for nobody.
    """
    if not ids:
        return {}
    path = f"/fhir/Patient?_id={','.join(ids[:_MOST_NAMED])}&_elements=name"
    answer = ask(path, secret, headers={"Accept": "application/fhir+json"}, via=VIA)
    if answer.status != 200:
        return {}
    found = (entry["resource"] for entry in answer.json().get("entry", ()))
    return {
        f"Patient/{patient['id']}": full_name(patient)
        for patient in found
        if patient["resourceType"] == "Patient" and patient.get("name")
    }


def around(content: Any) -> list[tuple[str, str]]:
    """Return what a Bundle holds beside its resources: its type, total, the addresses it links."""
    if not isinstance(content, dict) or content.get("resourceType") != "Bundle":
        return []
    plain = [
        (name, str(value))
        for name, value in content.items()
        if name != "resourceType" and isinstance(value, str | int)
    ]
    links = content.get("link", ())
    return plain + [(f"link: {link.get('relation')}", str(link.get("url"))) for link in links]


def _columns(type_name: str) -> Sequence[TableColumn]:
    definition = types().get(type_name)
    return definition.table_columns if definition else ()


def _headings(type_name: str) -> list[str]:
    return ["id", *([_(column.heading) for column in _columns(type_name)] or [_("Text")])]


def _row(entry: Mapping[str, Any], *, is_history: bool) -> tuple[str, Sequence[Cell]]:
    """Return an entry's type and cells; of a deletion in a history a cell that says so."""
    resource = entry.get("resource")
    if not isinstance(resource, dict):
        type_name, _slash, rest = str(entry.get("request", {}).get("url", "")).partition("/")
        return type_name, [Cell(rest[:_LONGEST_CELL]), Cell(_("deleted"))]
    name, type_name = name_of(resource), str(resource.get("resourceType"))
    version = resource.get("meta", {}).get("versionId")
    is_version = is_history and bool(version)
    identity = Cell(
        str(resource.get("id") or name)[:_LONGEST_CELL],
        _("version %(version)s", version=version) if is_version else "",
        f"{name}/_history/{version}" if is_version else name,
    )
    cells = [_cell(resource, column) for column in _columns(type_name)]
    return type_name, [identity, *(cells or [_narrative(resource)])]


def _cell(resource: Resource, column: TableColumn) -> Cell:
    definition = types()[str(resource["resourceType"])]
    resource = definition.schema.searched(resource)
    for path in column.paths:
        values = values_at(resource, path)
        if period := _period(values):
            return period
        if text := text_of(values):
            references = (value.get("reference") for value in values if isinstance(value, dict))
            # The time of day stands beneath its day.
            day, time = match.groups() if (match := _MOMENT.fullmatch(text)) else (text, "")
            return Cell(day, time, str(next(references, "") or ""))
    return Cell(_(column.missing), is_known=False)


def _period(values: Sequence[Any]) -> Cell | None:
    """Return a period whose ends have times of day: its days, and the times beneath them."""
    if len(values) != 1 or not isinstance(values[0], dict):
        return None
    ends = [_MOMENT.fullmatch(str(values[0].get(name, ""))) for name in ("start", "end")]
    if not (ends[0] and ends[1]):
        return None
    start, end = ends[0], ends[1]
    between = _("%(start)s to %(end)s", start=start[1], end=end[1])
    days = start[1] if start[1] == end[1] else between
    return Cell(days, _("%(start)s to %(end)s", start=start[2], end=end[2]))


def _narrative(resource: Resource) -> Cell:
    div = resource.get("text", {}).get("div", "")
    text = " ".join(unescape(_TAGS.sub(" ", div[:5000])).split())
    if text:
        return Cell(words.shortened(text, _LONGEST_CELL))
    return Cell(_("no narrative"), is_known=False)


def name_of(resource: Resource) -> str:
    """Return what a resource is called in a reference: Patient/p1."""
    parts = (str(resource.get(element) or "") for element in ("resourceType", "id"))
    return "/".join(filter(None, parts))[:_LONGEST_CELL]


def text_of(value: Any) -> str:
    """Return an element in a line: a code's display, a name, a period, what a reference names."""
    if isinstance(value, list):
        if any(isinstance(item, dict) and {"family", "given"} & item.keys() for item in value):
            value = words.names_in_order(value)
        texts = [*dict.fromkeys(filter(None, map(text_of, value[:5])))]
        more = " …" if len(value) > 5 else ""
        return words.shortened(", ".join(texts) + more, _LONGEST_CELL)
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    if isinstance(value, int | Decimal):
        return str(value)
    if isinstance(value, dict):
        return words.shortened(_text_of_parts(value), _LONGEST_CELL)
    return words.shortened(value, _LONGEST_CELL) if isinstance(value, str) else ""


def _text_of_parts(value: Mapping[str, Any]) -> str:
    """Return a value that has parts in a line."""
    if "start" in value or "end" in value:
        start, end = (_MOMENT.sub(r"\1 \2", value.get(end, "…")) for end in ("start", "end"))
        return _("%(start)s to %(end)s", start=start, end=end)
    if isinstance(value.get("value"), int | Decimal):
        return words.quantity(value)
    # A Coding is its own coding.
    codings = [*value.get("coding", ()), value]
    return (
        words.concept({**value, "coding": codings})
        or words.reference(value)
        # Of an identifier.
        or str(value.get("value") or "")
        or words.human_name(value, prefix=False)
    )
