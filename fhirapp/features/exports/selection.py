"""The rows of a `$export` as they were at one instant, while other transactions write.

Versions never change, so row numbers define an earlier state of a table: the rows up to the last
row number of that instant (the mark) that no row up to the mark replaced. A whole type is read in
short transactions. Rows that a scope, a query, a patient or other resources select are listed by
number within the transaction of the instant; each takes eight bytes of memory.

A single transaction would hold back SQLite's checkpoints for the whole export, and its log would
grow: to 92 MB instead of 18 while 20,000 small resources are written. Listing a million rows
that other resources select takes seven seconds.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from heapq import merge
from itertools import groupby
from typing import NamedTuple

from fhirapp.auth.scopes import SEARCH, Access
from fhirapp.db import Reader, db, quoted
from fhirapp.definition import Definition, Visibility, types
from fhirapp.features.exports.kickoff import SYSTEM, ExportRequest, batches, conditions_of
from fhirapp.rest.access import reach_of
from fhirapp.search.page import Selection
from fhirapp.search.query import select
from fhirapp.search.values import Condition, is_in

# Rows per SELECT of bodies.
PAGE = 50
# Rows per SELECT while listing.
_WINDOW = 10_000
# Greater than any row number.
_NEVER = 2**62
_TARGET = "target"


# (row number, body as it is served, id of the patient whose record it is of)
ServedRow = tuple[int, bytes, str | None]


class ExportPart(NamedTuple):
    """The part of an export for one type: the rows after `after` and up to mark, or those in rows.

    deleted are the ids of resources deleted since the requested time.
    """

    definition: Definition
    where: Condition
    after: int
    mark: int
    rows: array[int] | None
    deleted: Sequence[str]

    @property
    def length(self) -> int:
        """The number of rows to read or skip."""
        return max(self.mark - self.after, 0) if self.rows is None else len(self.rows)

    def pages(self) -> Iterator[tuple[int, list[ServedRow]]]:
        """Yield the next rows, each time with the number of those read or skipped.

        Each page has a transaction of its own.
        """
        yield from self._read_range() if self.rows is None else self._read_listed(self.rows)

    def _read_range(self) -> Iterator[tuple[int, list[ServedRow]]]:
        place = self.after
        sql = (
            f"r.pk > ? AND r.pk <= ? AND coalesce(r.replaced_pk, {_NEVER}) > ? AND NOT r.deleted"
            f" AND {self.where.sql} ORDER BY r.pk LIMIT {PAGE}"
        )
        while place < self.mark:
            page = self._read(sql, (place, self.mark, self.mark, *self.where.values))
            end = page[-1][0] if len(page) == PAGE else self.mark
            yield end - place, page
            place = end

    def _read_listed(self, rows: array[int]) -> Iterator[tuple[int, list[ServedRow]]]:
        for start in range(0, len(rows), PAGE):
            pks = rows[start : start + PAGE]
            where = is_in("r.pk", pks)
            yield len(pks), self._read(f"{where.sql} ORDER BY r.pk", where.values)

    def _read(self, where: str, values: Sequence[object]) -> list[ServedRow]:
        sql = f"SELECT r.pk, r.body, r.patient_id FROM {self.definition.sql_table} r WHERE {where}"
        with closing(Reader(db.engine)) as snapshot:
            return [(pk, body, patient) for pk, body, patient in snapshot.all(sql, values)]


class PartSelector:
    """Selects the parts of an export, in the snapshot of its instant.

    patients are those whose records are exported, None for all.
    """

    def __init__(
        self,
        snapshot: Reader,
        export_request: ExportRequest,
        access: Access,
        patients: Sequence[str] | None,
    ) -> None:
        self._snapshot = snapshot
        self._request = export_request
        self._access = access
        self._patients = patients

    def part_of(self, definition: Definition) -> ExportPart:
        """Return the part of the export for one type."""
        ((last,),) = self._snapshot.all(f"SELECT max(pk) FROM {definition.sql_table}")
        mark, after = int(last or 0), self._start(definition)
        own = self._own(definition, dated=True)
        selections = self._selections(definition)
        rows = None
        if selections is not None:
            lists = [self._list(selection, own, after, mark) for selection in selections]
            # Sorted row numbers, each once.
            merged = (number for number, _ in groupby(merge(*lists)))
            rows = lists[0] if len(lists) == 1 else array("q", merged)
        deleted: set[str] = set()
        if self._request.since is not None:
            own_before = self._own(definition, dated=False)
            every_row = [Selection(definition.sql_table, "1 = 1", ())]
            for selection in every_row if selections is None else selections:
                deleted.update(self._deleted(selection, own_before))
        return ExportPart(definition, own, after, mark, rows, sorted(deleted))

    def _own(self, definition: Definition, *, dated: bool) -> Condition:
        """Return the condition on a row `r` alone: its time, and whether it has a patient."""
        conditions, values = ["1 = 1"], []
        if dated:
            # || '' keeps the index of times out: rows are read in the order of their numbers.
            for sign, bound in ((">", self._request.since), ("<=", self._request.until)):
                if bound is not None:
                    conditions.append(f"r.last_updated || '' {sign} ?")
                    values.append(bound)
        if self._request.level != SYSTEM and definition.compartment and self._patients is None:
            conditions.append("r.patient_id IS NOT NULL")
        return Condition(" AND ".join(conditions), tuple(values))

    def _start(self, definition: Definition) -> int:
        """Return a row number below all rows to export."""
        if self._request.since is None:
            return 0
        earliest = f"SELECT min(pk) FROM {definition.sql_table} WHERE last_updated > ?"
        ((pk,),) = self._snapshot.all(earliest, (self._request.since,))
        return _NEVER if pk is None else int(pk) - 1

    def _selections(self, definition: Definition) -> list[Selection] | None:
        """Return the selections of rows to list, a row being in any of them; None for all rows.

        A row must match at least one of the queries of its type.
        """
        limits = reach_of(definition, self._access, SEARCH).limit([])
        queries = [
            conditions_of(definition, pairs, self._snapshot)
            for name, pairs in self._request.filters
            if name == definition.name
        ]
        whose = self._whose(definition)
        if not (limits or queries or whose is not None):
            return None
        return [
            select(
                definition.sql_table, [*query, *limits, *of_patients], self._snapshot.all
            ).of_all()
            for query in queries or [[]]
            for of_patients in ([[]] if whose is None else [[condition] for condition in whose])
        ]

    def _whose(self, definition: Definition) -> list[Condition] | None:
        """Return conditions on the patient of a row; any of them suffices.

        None if the patient does not matter, or _own() decides it.
        """
        of_targets = definition.visibility is Visibility.TARGETS
        if self._request.level == SYSTEM or (self._patients is None and not of_targets):
            return None
        if self._patients is None:
            return [_about(definition, Condition("c.patient_id IS NOT NULL"))]
        conditions = []
        for ids in batches(self._patients):
            column = f"{'c' if of_targets else 'r'}.patient_id"
            whose = replace(is_in(column, ids), narrows=True)
            conditions.append(_about(definition, whose) if of_targets else whose)
        return conditions

    def _list(self, selection: Selection, own: Condition, after: int, mark: int) -> array[int]:
        """Return the sorted row numbers of a selection at the instant."""
        sql = (
            f"SELECT r.pk FROM {selection.table} r WHERE r.pk > ? AND r.pk <= ? AND {own.sql}"
            f" AND {selection.current}"
        )
        is_few = selection.narrows or selection.is_gathered
        step = max(mark, 1) if is_few else _WINDOW
        rows = array("q")
        for start in range(after, mark, step):
            values = (start, min(start + step, mark), *own.values, *selection.values)
            rows.extend(sorted(row[0] for row in self._snapshot.all(sql, values)))
        return rows

    def _deleted(self, selection: Selection, own: Condition) -> Iterator[str]:
        """Yield the ids of resources deleted in the period that the selection matched before.

        A deletion has no content, so the conditions apply to the version `r` before it.
        """
        until = " AND d.last_updated <= ?" if self._request.until else ""
        bounds = filter(None, (self._request.since, self._request.until))
        sql = (
            f"SELECT d.id FROM {selection.table} d JOIN {selection.table} r ON r.replaced_pk = d.pk"
            f" WHERE d.deleted AND d.replaced_pk IS NULL AND d.last_updated > ?{until}"
            f" AND {own.sql} AND {selection.where}"
        )
        values = (*bounds, *own.values, *selection.values)
        return (row[0] for row in self._snapshot.all(sql, values))


def _about(definition: Definition, whose: Condition) -> Condition:
    """Return the condition that a row `r` has a target `c` for which `whose` holds."""
    targets = quoted(definition.tables.reference.name)
    records = [served for served in types().values() if served.compartment]
    if whose.narrows:
        # Start from the few matching records.
        own = " UNION ALL ".join(
            f"SELECT t.pk FROM {targets} t WHERE t.param = ? AND t.target_type = ?"
            f" AND t.target_id IN (SELECT c.id FROM {record.sql_table} c WHERE {whose.sql})"
            for record in records
        )
        values = [value for record in records for value in (_TARGET, record.name, *whose.values)]
        return Condition(f"r.pk IN ({own})", tuple(values), narrows=True)
    any_target = " OR ".join(
        f"t.target_type = ? AND EXISTS (SELECT 1 FROM {record.sql_table} c"
        f" WHERE c.id = t.target_id AND {whose.sql})"
        for record in records
    )
    values = [value for record in records for value in (record.name, *whose.values)]
    return Condition(
        f"EXISTS (SELECT 1 FROM {targets} t WHERE t.pk = r.pk AND t.param = ? AND ({any_target}))",
        (_TARGET, *values),
    )
