"""Pages through several types, one type after the other.

A cursor names the place in its type, and of each type the last row that there was at the first
page: what came later is on no later page, as in a search of one type.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from fhirapp.definition import Definition, types
from fhirapp.rest.paging import Match, cursors
from fhirapp.search import page
from fhirapp.search.parameter import SortKey


class Part(NamedTuple):
    """A type's share; mark is its last row number at the first page."""

    definition: Definition
    selection: page.Selection
    mark: int


class Begin(NamedTuple):
    """Where a page begins: after this place of this type; marks are those of the first page."""

    type: str = ""
    place: page.Place = ()
    marks: Sequence[tuple[str, int]] = ()


class Way(NamedTuple):
    """The order of each type's resources, and a place before the first."""

    order: page.Order
    start: page.Place


BY_NUMBER = Way(page.Order((SortKey("{row}.pk"),)), (0,))
BY_NEWEST = Way(page.NEWEST_FIRST, ("\U0010ffff", ""))


def rank(name: str) -> tuple[bool, str]:
    """Return what the types are sorted by: the patient, then by name."""
    return (types()[name].compartment != "id", name)


def begin_at(cursor: str | None, made_for: str) -> Begin:
    """Return where a page begins. Raises InvalidParameter for a cursor of another request."""
    return Begin(*cursors().read(cursor, made_for).place) if cursor is not None else Begin()


def part(
    run: page.Run, definition: Definition, selection: page.Selection, marks: Mapping[str, int]
) -> Part:
    """Return a type's share, with its mark of the first page."""
    mark = marks.get(definition.name)
    return Part(definition, selection, page.last_row(run, selection) if mark is None else mark)


def read_parts(
    run: page.Run, parts: Iterable[Part], begin: Begin, limit: int, way: Way
) -> list[tuple[Definition, Match]]:
    """Return up to limit resources from a place on."""
    matches: list[tuple[Definition, Match]] = []
    for share in parts:
        name, room = share.definition.name, limit - len(matches)
        if not room or (begin.type and rank(name) < rank(begin.type)):
            continue
        after = tuple(begin.place) if name == begin.type else way.start
        cursor = page.Cursor(after, backwards=False, mark=share.mark)
        rows = page.find_page(run, share.selection, way.order, cursor, room)
        matches += [(share.definition, Match.of(row)) for row in rows]
    return matches


def cursor_after(parts: Iterable[Part], definition: Definition, last: Match, made_for: str) -> str:
    """Return the cursor of the page after a resource: after where it stood at the first page."""
    marks = [(share.definition.name, share.mark) for share in parts]
    place = Begin(definition.name, last.place, marks)
    return cursors().write(page.Cursor(place, backwards=False, mark=0), made_for)
