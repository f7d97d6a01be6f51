"""A page of results: which rows, in which order, after which place.

Later pages show the resources that there were at the first page, in their present versions. Each
keeps its place of then, even if it has changed since, so that none is missed or seen twice. Later
resources are not shown, nor those that were deleted or no longer match. The order is newest first,
or as `_sort` says. Source: FHIR R4 search §3.1.1.5.1; decisions §3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, NamedTuple

from fhirapp.fhir.outcome import InvalidParameter, UnsupportedParameter
from fhirapp.search.parameter import Context, Parameters, SortKey, Walk, is_named
from fhirapp.search.values import SHOWN, Condition, all_of
from fhirapp.search.values import Run as Run

MAX_KEYS = 5
# The best match of a search for words first; there is no `-_score`.
BY_SCORE = "_score"
Place = tuple[Any, ...]
# A sort follows its parameter's index if at least so many rows match.
WALKED_LEAST = 1_000
_EVERY = all_of(()).sql
_NEWEST = SortKey("{row}.last_updated", descending=True)


@dataclass(frozen=True)
class Order:
    """The keys that results are sorted by; the last is unique."""

    keys: tuple[SortKey, ...]

    def columns(self, row: str) -> Condition:
        """Return the keys of a row as columns k0, k1 … of a SELECT."""
        return Condition(
            ", ".join(f"{key.sql.format(row=row)} AS k{at}" for at, key in enumerate(self.keys)),
            tuple(value for key in self.keys for value in key.values),
        )

    def reversed(self) -> Order:
        """Return the order of a page that is read backwards."""
        return Order(tuple(replace(key, descending=not key.descending) for key in self.keys))

    def by(self, names: Sequence[str]) -> str:
        """Return the ORDER BY of keys that have these names in SQL."""
        return "ORDER BY " + ", ".join(
            f"{name} {'DESC' if key.descending else 'ASC'}"
            for name, key in zip(names, self.keys, strict=True)
        )

    def beyond(self, names: Sequence[str], place: Place | None) -> list[Condition]:
        """Return the condition that a row comes after a place; none without a place."""
        if place is None:
            return []
        signs = ["<" if key.descending else ">" for key in self.keys]
        if len(set(signs)) == 1:
            marks = ", ".join("?" * len(place))
            return [Condition(f"({', '.join(names)}) {signs[0]} ({marks})", tuple(place))]
        # Directions differ: less in the first key, or equal in it and less in the second …
        choices: list[str] = []
        values: list[Any] = []
        for last, sign in enumerate(signs):
            equal = [f"{name} = ?" for name in names[:last]]
            choices.append(" AND ".join([*equal, f"{names[last]} {sign} ?"]))
            values += place[: last + 1]
        return [Condition(f"({' OR '.join(choices)})", tuple(values))]

    def sorted(self, rows: Sequence[Place]) -> list[Place]:
        """Sort rows of COLUMNS and these keys."""
        ordered = list(rows)
        for at, key in reversed([*enumerate(self.keys, len(COLUMNS))]):
            ordered.sort(key=itemgetter(at), reverse=key.descending)
        return ordered


NEWEST_FIRST = Order((_NEWEST, SortKey("{row}.id", descending=True)))
_OLDEST_FIRST = NEWEST_FIRST.reversed()


def parse_sort(value: str, parameters: Parameters, context: Context) -> Order:
    """Parse `_sort`: "status,-date" is by status, then the latest first. Raises FhirError.

    Without it, and by score, the order is newest first.
    """
    if value in ("", BY_SCORE):
        return NEWEST_FIRST
    names = value.split(",")
    if len(names) > MAX_KEYS:
        raise InvalidParameter("_sort", f"takes at most {MAX_KEYS} parameters")
    keys = []
    for name in names:
        parameter = parameters.by_name.get(name.removeprefix("-"))
        if parameter is None:
            raise InvalidParameter(
                "_sort", f"{name[:SHOWN]!r} is not a search parameter of this type"
            )
        if not parameter.sortable:
            raise UnsupportedParameter("_sort", f"{parameter.name} has no order")
        keys.append(parameter.sort_key(context, descending=name.startswith("-")))
    return Order((*keys, SortKey("{row}.id", descending=keys[-1].descending)))


class Cursor(NamedTuple):
    """The place after which, or with backwards before which, a page lies.

    mark is the table's last row number when paging began. Resources first published after it are on
    no later page; changed ones keep their position.
    """

    place: tuple[Any, ...]
    backwards: bool
    mark: int


# The columns of a result; its keys follow.
COLUMNS = ("id", "version_id", "last_updated", "pk", "body", "patient_id")
_COLUMNS = ", ".join(f"r.{name}" for name in COLUMNS)


@dataclass(frozen=True)
class Selection:
    """A query as SQL: the conditions of its rows `r`, beside being current.

    is_gathered says that the rows come in no order, and are sorted before their bodies are read;
    narrows that they are few. for_all is the condition of a SELECT that looks at every match, where
    that differs from the one of a page of the newest.
    """

    table: str
    where: str
    values: tuple[Any, ...]
    is_gathered: bool = False
    narrows: bool = False
    for_all: Condition | None = None

    @property
    def current(self) -> str:
        """The WHERE of the current rows."""
        return f"r.is_current AND {self.where}"

    def total(self) -> Condition:
        """Return the SELECT that counts all matches."""
        every = self.of_all()
        return Condition(f"SELECT count(*) FROM {self.table} r WHERE {every.current}", every.values)

    def of_all(self) -> Selection:
        """Return the selection for a SELECT that looks at every match."""
        if self.for_all is None:
            return self
        where = self.for_all
        return replace(self, where=where.sql, values=where.values, for_all=None)

    def and_where(self, *conditions: Condition) -> Selection:
        """Return the selection of rows for which these conditions hold too."""
        where = all_of([Condition(self.where, self.values), *conditions])
        return Selection(self.table, where.sql, where.values, self.is_gathered, self.narrows)


def find_page(
    run: Run, selection: Selection, order: Order, cursor: Cursor | None, limit: int
) -> list[Place]:
    """Return up to limit rows, COLUMNS and then the order's keys; backwards, farthest last."""
    if order != NEWEST_FIRST:
        selection = selection.of_all()
    walk = _walk(run, selection, order)
    if cursor is None:
        return list(_read_rows(run, selection, order, walk, None, limit))
    if cursor.backwards:
        order = order.reversed()
    until = selection.and_where(Condition("r.pk <= ?", (cursor.mark,)))
    rows = list(_read_rows(run, until, order, walk, cursor.place, limit))
    if run(f"SELECT 1 FROM {selection.table} WHERE replaced_pk > ? LIMIT 1", (cursor.mark,)):
        changed = _changed(selection, order, cursor, limit)
        rows = order.sorted([*rows, *run(changed.sql, changed.values)])
    return rows[:limit]


def last_row(run: Run, selection: Selection) -> int:
    """Return the number of the table's last row, which a cursor keeps as its mark."""
    return int(run(f"SELECT max(pk) FROM {selection.table}", ())[0][0] or 0)


def _walk(run: Run, selection: Selection, order: Order) -> Walk | None:
    """Return the walk in an order; None where it is sooner to sort all matches, which are few."""
    if len(order.keys) != 2 or selection.is_gathered or selection.narrows:
        return None
    walk = order.keys[0].walk
    if walk and selection.where != _EVERY:
        # A walk to matches that are few passes most other rows.
        ((count,),) = run(
            f"SELECT count(*) FROM (SELECT 1 FROM {selection.table} r WHERE {selection.current}"
            f" ORDER BY r.last_updated DESC LIMIT {WALKED_LEAST}) c",
            selection.values,
        )
        return walk if count == WALKED_LEAST else None
    return walk


def _read_rows(
    run: Run,
    selection: Selection,
    order: Order,
    walk: Walk | None,
    place: Place | None,
    limit: int,
) -> Iterator[Place]:
    """Yield the rows after a place; for a later page, of rows that were there at the first."""
    if walk:
        yield from _walked(run, selection, order, walk, place, limit)
        return
    select = _by_last_updated if order in (NEWEST_FIRST, _OLDEST_FIRST) else _sorted
    query = select(selection, order, place, limit)
    yield from run(query.sql, query.values)


def _by_last_updated(
    selection: Selection, order: Order, place: Place | None, limit: int
) -> Condition:
    """Return the SELECT along the table's own order."""
    names = ("r.last_updated", "r.id")
    selection = selection.and_where(*order.beyond(names, place))
    by, where, table = order.by(names), selection.current, selection.table
    if selection.is_gathered:
        where = f"r.pk IN (SELECT r.pk FROM {table} r WHERE {where} {by} LIMIT {limit})"
    sql = f"SELECT {_COLUMNS}, {', '.join(names)} FROM {table} r WHERE {where} {by} LIMIT {limit}"
    return Condition(sql, selection.values)


def _sorted(selection: Selection, order: Order, place: Place | None, limit: int) -> Condition:
    """Return the SELECT that sorts all matches by their keys."""
    names = [f"k{at}" for at in range(len(order.keys))]
    columns, beyond, by = order.columns("r"), all_of(order.beyond(names, place)), order.by(names)
    inner = (
        f"SELECT r.pk AS row_number, {columns.sql} FROM {selection.table} r"
        f" WHERE {selection.current}"
    )
    sql = (
        f"SELECT {_COLUMNS}, {', '.join(names)} FROM"
        f" (SELECT * FROM ({inner}) x WHERE {beyond.sql} {by} LIMIT {limit}) y"
        f" JOIN {selection.table} r ON r.pk = y.row_number {by}"
    )
    return Condition(sql, (*columns.values, *selection.values, *beyond.values))


def _changed(selection: Selection, order: Order, cursor: Cursor, limit: int) -> Condition:
    """Return the SELECT of what has changed since the first page, with its keys of then.

    It must have matched then too: otherwise it had no place on any page.
    """
    names = [f"k{at}" for at in range(len(order.keys))]
    columns, beyond = order.columns("p"), all_of(order.beyond(names, cursor.place))
    table = selection.table
    sql = (
        f"SELECT * FROM (SELECT {_COLUMNS}, {columns.sql} FROM {table} p"
        f" JOIN {table} r ON r.id = p.id WHERE p.replaced_pk > ? AND p.pk <= ? AND NOT p.deleted"
        f" AND {selection.current} AND EXISTS (SELECT 1 FROM {table} r WHERE r.pk = p.pk"
        f" AND {selection.where})) x WHERE {beyond.sql} {order.by(names)} LIMIT {limit}"
    )
    marks = (cursor.mark, cursor.mark)
    matched = (*selection.values, *selection.values)
    return Condition(sql, (*columns.values, *marks, *matched, *beyond.values))


def _walked(
    run: Run, selection: Selection, order: Order, walk: Walk, place: Place | None, limit: int
) -> Iterator[Place]:
    """Yield rows along the index table of the one sorted parameter, then those without a value."""
    key = order.keys[0]
    stages = [_with_value, _without_value]
    if key.descending != walk.descending:
        stages.reverse()
    if place is not None and (place[0] == key.missing) == (stages[1] is _without_value):
        # The page lies in the second stage alone.
        del stages[0]
    for stage in stages:
        if limit > 0:
            selects = stage(selection, order, walk, place, limit)
            rows = [row for part in selects for row in run(part.sql, part.values)]
            if len(selects) > 1:
                rows = order.sorted(rows)[:limit]
            yield from rows
            place, limit = None, limit - len(rows)


def _with_value(
    selection: Selection, order: Order, walk: Walk, place: Place | None, limit: int
) -> list[Condition]:
    """Return the SELECTs along the walk's names, each in the order of its index; equals by id."""
    value = f"k.{walk.value}"
    names = (value, "r.id")
    # Of several values only the least counts, descending the greatest.
    conditions = [
        Condition(f"{value} <> ?", (walk.absent,)),
        Condition(
            f"NOT EXISTS (SELECT 1 FROM {walk.table} o WHERE o.pk = k.pk"
            f" AND {is_named(walk.names).replace('k.', 'o.')} AND o.{walk.value} <> ?"
            f" AND (o.{walk.value}, o.{walk.second}, o.param)"
            f" {'>' if walk.descending else '<'} ({value}, k.{walk.second}, k.param))",
            (*walk.names, walk.absent),
        ),
    ]
    if place is not None:
        # The first follows from the second; PostgreSQL's index leads by it.
        sign = "<=" if order.keys[0].descending else ">="
        conditions.append(Condition(f"{value} {sign} ?", place[:1]))
        conditions += order.beyond(names, place)
    selects = []
    for name in walk.names:
        chosen = selection.and_where(Condition("k.param = ?", (name,)), *conditions)
        # Bodies are read of the page's rows alone; otherwise SQLite would sort them with the keys.
        inner = (
            f"SELECT r.pk AS row_number, {value} AS k0, r.id AS k1 FROM {walk.table} k"
            f" JOIN {selection.table} r ON r.pk = k.pk WHERE {chosen.current}"
            f" {order.by(names)} LIMIT {limit}"
        )
        sql = (
            f"SELECT {_COLUMNS}, k0, k1 FROM ({inner}) x JOIN {selection.table} r"
            f" ON r.pk = x.row_number {order.by(('k0', 'k1'))}"
        )
        selects.append(Condition(sql, chosen.values))
    return selects


def _without_value(
    selection: Selection, order: Order, walk: Walk, place: Place | None, limit: int
) -> list[Condition]:
    """Return the SELECT of the rows that have no value, by id."""
    by_id = Order(order.keys[1:])
    chosen = selection.and_where(
        Condition(
            f"NOT EXISTS (SELECT 1 FROM {walk.table} k WHERE k.pk = r.pk"
            f" AND {is_named(walk.names)} AND k.{walk.value} <> ?)",
            (*walk.names, walk.absent),
        ),
        *by_id.beyond(["r.id"], place and place[1:]),
    )
    sql = (
        f"SELECT {_COLUMNS}, ?, r.id FROM {selection.table} r WHERE {chosen.current}"
        f" {by_id.by(['r.id'])} LIMIT {limit}"
    )
    return [Condition(sql, (order.keys[0].missing, *chosen.values))]
