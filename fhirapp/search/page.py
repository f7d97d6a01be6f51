"""A page of results: which rows, in which order, from where on.

Paging shows what there was when it began, as it is now: each resource stands where it stood at the
first page, though it may have changed since, so that it is neither missed nor seen twice. What came
later is not shown, nor what no longer matches or is no more. Source: decisions §3.

Where a page begins: an opaque, signed cursor; the server keeps nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, NamedTuple

from itsdangerous import BadData, URLSafeSerializer

from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.search.controls import NEWEST_FIRST, Order, Place
from fhirapp.search.parameter import Walk, is_named
from fhirapp.search.values import Condition


class Cursor(NamedTuple):
    """The place after which, or with backwards before which, a page lies.

    mark is the last row number there was at the first page: what is newer is on no later page.
    """

    place: tuple[Any, ...]
    backwards: bool
    mark: int


class Cursors:
    """Signs and reads cursors with the server's key."""

    def __init__(self, key: bytes) -> None:
        self._serializer = URLSafeSerializer(key, salt="cursor")

    def write(self, cursor: Cursor, fingerprint: str) -> str:
        text = self._serializer.dumps([*cursor, fingerprint])
        return text if isinstance(text, str) else text.decode()

    def read(self, value: str, fingerprint: str) -> Cursor:
        """Raises InvalidParameter when it was tampered with or belongs to another query."""
        try:
            place, backwards, mark, made_for = self._serializer.loads(value)
        except (BadData, ValueError, TypeError):
            raise InvalidParameter(
                "_cursor", "is not one of this server's; start again from the first page"
            ) from None
        if made_for != fingerprint:
            raise InvalidParameter(
                "_cursor", "belongs to another search; start again from the first page"
            )
        return Cursor(tuple(place), backwards, mark)


def fingerprint(resource_type: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return what identifies a query: type and parameters, in any order."""
    text = repr((resource_type, sorted(parameters)))
    return blake2b(text.encode(), digest_size=6).hexdigest()


Run = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
# The columns of a result; its keys follow.
COLUMNS = ("id", "version_id", "last_updated", "pk", "body")
_COLUMNS = ", ".join(f"r.{name}" for name in COLUMNS)


@dataclass(frozen=True)
class Selection:
    """A query made ready for the database: the conditions, in SQL, of the rows `r` it finds.

    It finds current ones, of which the conditions say nothing. is_gathered says that the rows come
    in no order, so that they are sorted before their bodies are read; narrows that they are few.
    throughout are the conditions for what looks at every match, where it is better asked in another
    way than a page of the newest.
    """

    table: str
    where: str
    values: tuple[Any, ...]
    is_gathered: bool = False
    narrows: bool = False
    throughout: Condition | None = None

    @property
    def current(self) -> str:
        """The WHERE of the current rows."""
        return f"r.is_current AND {self.where}"

    def total(self) -> Condition:
        """Return the SELECT that counts all matches."""
        every = self.of_all()
        return Condition(f"SELECT count(*) FROM {self.table} r WHERE {every.current}", every.values)

    def of_all(self) -> Selection:
        """Return the selection for what looks at every match."""
        if self.throughout is None:
            return self
        where = self.throughout
        return replace(self, where=where.sql, values=where.values, throughout=None)

    def and_where(self, *conditions: Condition) -> Selection:
        """Return the selection of rows for which these conditions hold too."""
        where = " AND ".join([self.where, *(one.sql for one in conditions)])
        values = (*self.values, *(value for one in conditions for value in one.values))
        return Selection(self.table, where, values, self.is_gathered, self.narrows)


def find_page(
    run: Run, selection: Selection, order: Order, cursor: Cursor | None, limit: int
) -> list[Place]:
    """Return up to limit rows, COLUMNS and then the order's keys; backwards, farthest last."""
    if order != NEWEST_FIRST:
        selection = selection.of_all()
    if cursor is None:
        return list(_stage(run, selection, order, None, limit))
    until = selection.and_where(Condition("r.pk <= ?", (cursor.mark,)))
    rows = list(_stage(run, until, order, cursor, limit))
    if run(f"SELECT 1 FROM {selection.table} WHERE replaced_pk > ? LIMIT 1", (cursor.mark,)):
        query = _moved(selection, order, cursor, limit)
        rows += run(query.sql, query.values)
        rows = order.sorted(rows, backwards=cursor.backwards, place=place_of)
    return rows[:limit]


def place_of(row: Place) -> Place:
    """Return a row's place in the order of results."""
    return row[len(COLUMNS) :]


def last_row(run: Run, selection: Selection) -> int:
    """Return the number of the table's last row, which a cursor keeps as its mark."""
    return int(run(f"SELECT max(pk) FROM {selection.table}", ())[0][0] or 0)


def _stage(
    run: Run, selection: Selection, order: Order, cursor: Cursor | None, limit: int
) -> Iterator[Place]:
    """Yield the rows whose current version is that of the first page."""
    walk = order.keys[0].walk if len(order.keys) == 2 else None
    if order == NEWEST_FIRST:
        query = _newest_first(selection, order, cursor, limit)
    elif walk and not selection.is_gathered and not selection.narrows:
        yield from _walked(run, selection, order, walk, cursor, limit)
        return
    else:
        query = _sorted(selection, order, cursor, limit)
    yield from run(query.sql, query.values)


def _newest_first(
    selection: Selection, order: Order, cursor: Cursor | None, limit: int
) -> Condition:
    """Return the SELECT along the table's own order."""
    names = ("r.last_updated", "r.id")
    backwards = cursor is not None and cursor.backwards
    if cursor is not None:
        selection = selection.and_where(order.beyond(names, cursor.place, backwards=backwards))
    by = order.by(names, backwards=backwards)
    where, table = selection.current, selection.table
    if selection.is_gathered:
        where = f"r.pk IN (SELECT r.pk FROM {table} r WHERE {where} {by} LIMIT {limit})"
    sql = f"SELECT {_COLUMNS}, {', '.join(names)} FROM {table} r WHERE {where} {by} LIMIT {limit}"
    return Condition(sql, selection.values)


def _sorted(selection: Selection, order: Order, cursor: Cursor | None, limit: int) -> Condition:
    """Return the SELECT that works out every match's keys and sorts them."""
    names = [f"k{at}" for at in range(len(order.keys))]
    backwards = cursor is not None and cursor.backwards
    columns = order.columns("r")
    inner = (
        f"SELECT r.pk AS row_number, {columns.sql} FROM {selection.table} r"
        f" WHERE {selection.current}"
    )
    beyond = Condition("1 = 1")
    if cursor is not None:
        beyond = order.beyond(names, cursor.place, backwards=backwards)
    by = order.by(names, backwards=backwards)
    sql = (
        f"SELECT {_COLUMNS}, {', '.join(names)} FROM"
        f" (SELECT * FROM ({inner}) x WHERE {beyond.sql} {by} LIMIT {limit}) y"
        f" JOIN {selection.table} r ON r.pk = y.row_number {by}"
    )
    return Condition(sql, (*columns.values, *selection.values, *beyond.values))


def _moved(selection: Selection, order: Order, cursor: Cursor, limit: int) -> Condition:
    """Return the SELECT of what changed since the first page, each where it stood then.

    It must have matched then too: what did not has no place, and the token may not see where it
    would have been.
    """
    names = [f"k{at}" for at in range(len(order.keys))]
    columns = order.columns("p")
    beyond = order.beyond(names, cursor.place, backwards=cursor.backwards)
    table = selection.table
    sql = (
        f"SELECT * FROM (SELECT {_COLUMNS}, {columns.sql} FROM {table} p"
        f" JOIN {table} r ON r.id = p.id WHERE p.replaced_pk > ? AND p.pk <= ? AND NOT p.deleted"
        f" AND {selection.current} AND EXISTS (SELECT 1 FROM {table} r WHERE r.pk = p.pk"
        f" AND {selection.where})) x WHERE {beyond.sql}"
        f" {order.by(names, backwards=cursor.backwards)} LIMIT {limit}"
    )
    found = (cursor.mark, cursor.mark)
    matched = (*selection.values, *selection.values)
    return Condition(sql, (*columns.values, *found, *matched, *beyond.values))


def _walked(
    run: Run, selection: Selection, order: Order, walk: Walk, cursor: Cursor | None, limit: int
) -> Iterator[Place]:
    """Yield rows along the index table of the one sorted parameter, then those without a value."""
    key = order.keys[0]
    backwards = cursor is not None and cursor.backwards
    stages = [(_with_value, False), (_without_value, True)]
    for select, is_last in reversed(stages) if backwards else stages:
        at_end = cursor is not None and cursor.place[0] == key.missing
        if cursor is not None and at_end != is_last and backwards == is_last:
            # The page lies beyond this stage altogether.
            continue
        inside = cursor if at_end == is_last else None
        if limit > 0:
            selects = select(selection, order, walk, inside, backwards, limit)
            rows = [row for part in selects for row in run(part.sql, part.values)]
            if len(selects) > 1:
                rows = order.sorted(rows, backwards=backwards, place=place_of)[:limit]
            limit -= len(rows)
            yield from rows


def _with_value(
    selection: Selection,
    order: Order,
    walk: Walk,
    cursor: Cursor | None,
    backwards: bool,
    limit: int,
) -> list[Condition]:
    """Return the SELECTs along the walk's names, each in the order of its index; equals by id."""
    value = f"k.{walk.value}"
    names = (value, "r.id")
    descending = order.keys[0].descending
    further = ">" if descending else "<"
    # Of several values the least counts, descending the greatest: it stands for the row once.
    conditions = [
        Condition(f"{value} <> ?", (walk.nothing,)),
        Condition(
            f"NOT EXISTS (SELECT 1 FROM {walk.table} o WHERE o.pk = k.pk"
            f" AND {is_named(walk.names).replace('k.', 'o.')} AND o.{walk.value} <> ?"
            f" AND (o.{walk.value}, o.{walk.beside}, o.param)"
            f" {further} ({value}, k.{walk.beside}, k.param))",
            (*walk.names, walk.nothing),
        ),
    ]
    if cursor is not None:
        # The first says nothing more; an index leads to it.
        sign = "<=" if descending != backwards else ">="
        conditions.append(Condition(f"{value} {sign} ?", cursor.place[:1]))
        conditions.append(order.beyond(names, cursor.place, backwards=backwards))
    found = []
    for name in walk.names:
        chosen = selection.and_where(Condition("k.param = ?", (name,)), *conditions)
        # Bodies are read of what is on the page alone: to sort equals they would be carried along.
        inner = (
            f"SELECT r.pk AS row_number, {value} AS k0, r.id AS k1 FROM {walk.table} k"
            f" CROSS JOIN {selection.table} r WHERE r.pk = k.pk AND {chosen.current}"
            f" {order.by(names, backwards=backwards)} LIMIT {limit}"
        )
        sql = (
            f"SELECT {_COLUMNS}, k0, k1 FROM ({inner}) x JOIN {selection.table} r"
            f" ON r.pk = x.row_number {order.by(('k0', 'k1'), backwards=backwards)}"
        )
        found.append(Condition(sql, chosen.values))
    return found


def _without_value(
    selection: Selection,
    order: Order,
    walk: Walk,
    cursor: Cursor | None,
    backwards: bool,
    limit: int,
) -> list[Condition]:
    key = order.keys[0]
    conditions = [
        Condition(
            f"NOT EXISTS (SELECT 1 FROM {walk.table} k WHERE k.pk = r.pk"
            f" AND {is_named(walk.names)} AND k.{walk.value} <> ?)",
            (*walk.names, walk.nothing),
        )
    ]
    descending = order.keys[1].descending != backwards
    if cursor is not None:
        sign = "<" if descending else ">"
        conditions.append(Condition(f"r.id {sign} ?", cursor.place[1:]))
    chosen = selection.and_where(*conditions)
    sql = (
        f"SELECT {_COLUMNS}, ?, r.id FROM {selection.table} r WHERE {chosen.current}"
        f" ORDER BY r.id {'DESC' if descending else 'ASC'} LIMIT {limit}"
    )
    return [Condition(sql, (key.missing, *chosen.values))]
