"""What an export writes: the rows as they were at one instant, though writing goes on.

Versions never change, so a table as it was is asked for by numbers: the rows up to the last that
there was, without those that a row up to it has replaced. So a whole type is walked in short
transactions. What is narrowed (by a scope, a query, a patient), and what others decide of, is
listed by the numbers of its rows in the transaction in which the instant is taken: a row takes
eight bytes of memory.

One transaction for all would hold back SQLite's checkpoints, so that the log grows as long as the
export lasts: to 92 MB, not 18, while 20,000 small resources are written. To list a million rows
that others decide of takes seven seconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from fhirapp.auth.access import Access
from fhirapp.db import Reader, db, quoted
from fhirapp.definition import Definition, Visibility, types
from fhirapp.exchange.bulk.export_request import SYSTEM, Wanted, batches, limit_of
from fhirapp.exchange.bulk.kickoff import conditions_of
from fhirapp.search.page import Selection
from fhirapp.search.query import select
from fhirapp.search.values import AnyCondition, Condition

# Rows that are read at once: other threads wait as long as these take.
PAGE = 50
# Rows of which it is asked at once whether they are among those that are listed.
_WINDOW = 10_000
# Greater than any row's number.
_NEVER = 2**62
_TARGET = "target"

# What is called now and then, so that others have their turn.
Breathe = Callable[[], None]


class Part(NamedTuple):
    """A type's share of an export: the rows after `after` and up to mark, or those that are listed.

    deleted are the ids of what was deleted since the time that was asked for.
    """

    definition: Definition
    where: Condition
    after: int
    mark: int
    rows: array[int] | None
    deleted: Sequence[str]

    @property
    def length(self) -> int:
        """How many rows there are to look at."""
        return max(self.mark - self.after, 0) if self.rows is None else len(self.rows)

    def pages(self) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
        """Yield how many rows were looked at so far, and the (row number, body) of the next ones.

        Each page is read in a transaction of its own.
        """
        yield from self._walked() if self.rows is None else self._listed(self.rows)

    def _walked(self) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
        place = self.after
        sql = (
            f"SELECT r.pk, r.body FROM {self.definition.sql_table} r WHERE r.pk > ? AND r.pk <= ?"
            f" AND {_stood('r')} AND NOT r.deleted AND {self.where.sql} ORDER BY r.pk LIMIT {PAGE}"
        )
        while place < self.mark:
            found = _read(sql, (place, self.mark, self.mark, *self.where.values))
            place = found[-1][0] if len(found) == PAGE else self.mark
            yield place - self.after, found

    def _listed(self, rows: array[int]) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
        table = self.definition.sql_table
        for start in range(0, len(rows), PAGE):
            some = rows[start : start + PAGE]
            marks = ", ".join("?" * len(some))
            sql = f"SELECT r.pk, r.body FROM {table} r WHERE r.pk IN ({marks}) ORDER BY r.pk"
            yield start + len(some), _read(sql, some)


def _read(sql: str, values: Sequence[object]) -> list[tuple[int, bytes]]:
    with closing(Reader(db.engine)) as snapshot:
        return [(pk, body) for pk, body in snapshot.all(sql, tuple(values))]


def _stood(row: str) -> str:
    """Return the SQL that a row was its resource's newest when the last row was its value `?`."""
    return f"coalesce({row}.replaced_pk, {_NEVER}) > ?"


def marks_of(snapshot: Reader, names: Iterable[str]) -> dict[str, int]:
    """Return the number of the last row of each type."""
    tables = {name: types()[name].sql_table for name in names}
    return {
        name: int(snapshot.all(f"SELECT max(pk) FROM {table}")[0][0] or 0)
        for name, table in tables.items()
    }


def part_of(
    snapshot: Reader,
    definition: Definition,
    wanted: Wanted,
    access: Access,
    patients: Sequence[str] | None,
    mark: int,
    breathe: Breathe,
) -> Part:
    """Return a type's share, given what is wanted and what may be seen.

    patients are those whose records are wanted, None for all. The snapshot is of the instant.
    """
    own = _own(definition, wanted, patients)
    after = _first(snapshot, definition, wanted)
    selections = _selections(snapshot, definition, wanted, access, patients)
    rows = None
    if selections is not None:
        found = [_list(snapshot, one, own, after, mark, breathe) for one in selections]
        rows = _united(found)
    deleted: list[str] = []
    if wanted.since is not None:
        every = [Selection(definition.sql_table, "1 = 1", ())] if selections is None else selections
        judged = _own(definition, wanted, patients, dated=False)
        ids = [_deleted(snapshot, one, judged, wanted, mark) for one in every]
        deleted = sorted({row_id for some in ids for row_id in some})
    return Part(definition, own, after, mark, rows, deleted)


def _own(
    definition: Definition,
    wanted: Wanted,
    patients: Sequence[str] | None,
    *,
    dated: bool = True,
) -> Condition:
    """Return what a row `r` tells of itself, whenever it is asked: its time, and that it is a
    patient's.
    """
    conditions, values = ["1 = 1"], []
    if dated:
        # Not by the index of times: rows are walked in the order of their numbers.
        for sign, bound in ((">", wanted.since), ("<=", wanted.until)):
            if bound is not None:
                conditions.append(f"r.last_updated || '' {sign} ?")
                values.append(bound)
    if wanted.level != SYSTEM and definition.compartment and patients is None:
        conditions.append("r.patient_id IS NOT NULL")
    return Condition(" AND ".join(conditions), tuple(values))


def _first(snapshot: Reader, definition: Definition, wanted: Wanted) -> int:
    """Return the number of a row before all that are wanted."""
    if wanted.since is None:
        return 0
    asked = f"SELECT min(pk) FROM {definition.sql_table} WHERE last_updated > ?"
    found = snapshot.all(asked, (wanted.since,))[0][0]
    return _NEVER if found is None else int(found) - 1


def _selections(
    snapshot: Reader,
    definition: Definition,
    wanted: Wanted,
    access: Access,
    patients: Sequence[str] | None,
) -> list[Selection] | None:
    """Return what is listed, row by row: one of these must find it; None where nothing narrows."""
    limit = limit_of(definition, access)
    limits: list[AnyCondition] = [] if limit is None else [limit]
    queries = [conditions_of(definition, one) for one in wanted.filters_of(definition.name)]
    whose = _whose(definition, wanted, patients)
    if not (limits or queries or whose is not None):
        return None
    return [
        select(definition.sql_table, [*query, *limits, *of], snapshot.all).of_all()
        for query in queries or [()]
        for of in ([[]] if whose is None else [[one] for one in whose])
    ]


def _whose(
    definition: Definition, wanted: Wanted, patients: Sequence[str] | None
) -> list[Condition] | None:
    """Return the conditions of whose record a row is part of, one of which must hold.

    None where that is no matter, or the row tells it itself.
    """
    if wanted.level == SYSTEM:
        return None
    of_targets = definition.visibility is Visibility.TARGETS
    if patients is None:
        return [_about(definition, Condition("c.patient_id IS NOT NULL"))] if of_targets else None
    found = []
    for some in batches(patients):
        marks = ", ".join("?" * len(some))
        if of_targets:
            whose = Condition(f"c.patient_id IN ({marks})", tuple(some), narrows=True)
            found.append(_about(definition, whose))
        else:
            found.append(Condition(f"r.patient_id IN ({marks})", tuple(some), narrows=True))
    return found


def _about(definition: Definition, whose: Condition) -> Condition:
    """Return the condition that a target of a row `r` is of a patient's record, whose in SQL."""
    targets = quoted(definition.tables.reference.name)
    records = [one for one in types().values() if one.compartment]
    if whose.narrows:
        # Begun at the little that there is.
        own = " UNION ALL ".join(
            f"SELECT t.pk FROM {targets} t WHERE t.param = ? AND t.target_type = ?"
            f" AND t.target_id IN (SELECT c.id FROM {one.sql_table} c WHERE {whose.sql})"
            for one in records
        )
        values = [value for one in records for value in (_TARGET, one.name, *whose.values)]
        return Condition(f"r.pk IN ({own})", tuple(values), narrows=True)
    held = " OR ".join(
        f"t.target_type = ? AND EXISTS (SELECT 1 FROM {one.sql_table} c"
        f" WHERE c.id = t.target_id AND {whose.sql})"
        for one in records
    )
    values = [value for one in records for value in (one.name, *whose.values)]
    return Condition(
        f"EXISTS (SELECT 1 FROM {targets} t WHERE t.pk = r.pk AND t.param = ? AND ({held}))",
        (_TARGET, *values),
    )


def _list(
    snapshot: Reader, selection: Selection, own: Condition, after: int, mark: int, breathe: Breathe
) -> array[int]:
    """Return the numbers of the rows that a selection found at the instant, in their order."""
    sql = (
        f"SELECT r.pk FROM {selection.table} r WHERE r.pk > ? AND r.pk <= ? AND {_stood('r')}"
        f" AND NOT r.deleted AND {own.sql} AND {selection.where}"
    )
    is_few = selection.narrows or selection.is_gathered
    step = max(mark, 1) if is_few else _WINDOW
    found = array("q")
    for start in range(after, mark, step):
        values = (start, min(start + step, mark), mark, *own.values, *selection.values)
        found.extend(sorted(row[0] for row in snapshot.all(sql, values)))
        breathe()
    return found


def _united(found: Sequence[array[int]]) -> array[int]:
    """Return the numbers that are in some of these, each once, in their order."""
    if len(found) == 1:
        return found[0]
    return array("q", (number for number, _ in groupby(merge(*found))))


def _deleted(
    snapshot: Reader, selection: Selection, judged: Condition, wanted: Wanted, mark: int
) -> list[str]:
    """Return the ids of what was deleted within the time, and would have been found before.

    A deletion has no content: the version that it deleted, `r`, is judged.
    """
    until = " AND d.last_updated <= ?" if wanted.until else ""
    bounds = [wanted.since, *([wanted.until] if wanted.until else [])]
    sql = (
        f"SELECT d.id FROM {selection.table} d JOIN {selection.table} r ON r.replaced_pk = d.pk"
        f" WHERE d.deleted AND d.pk <= ? AND {_stood('d')} AND d.last_updated > ?{until}"
        f" AND {judged.sql} AND {selection.where}"
    )
    values = (mark, mark, *bounds, *judged.values, *selection.values)
    return [row[0] for row in snapshot.all(sql, values)]
