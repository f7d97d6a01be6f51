"""How many records there are of each type, and how many new versions came by month."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from datetime import date
from typing import NamedTuple

from fhirapp.db import reader
from fhirapp.fhir.local_time import begin_of, now
from fhirapp.fhir.temporal import instant
from fhirapp.store.definition import types

MONTHS = 24
# A count reads the index that it counts: ten million rows a second, where they are in memory. It
# is asked between counts, so one month of one type may take longer.
BUDGET_SECONDS = 3.0


class OfType(NamedTuple):
    """Records of a type that there are now; None where counting took too long."""

    name: str
    records: int | None
    # The type whose records these are made from; empty for one that stands for itself.
    source: str


class Month(NamedTuple):
    """A month, and how many versions of records came in it."""

    first: date
    versions: int


class Growth(NamedTuple):
    """New versions by month, the last one this month's, and when they were counted.

    Earlier months were not reached in time where is_whole is False; before is how many are older
    than the months, None where that was not counted.
    """

    months: Sequence[Month]
    before: int | None
    is_whole: bool
    at: int


def numbers(budget: float = BUDGET_SECONDS) -> Sequence[OfType]:
    """Count the records of each type."""
    end = time.monotonic() + budget
    found = []
    for name, one in types().items():
        count = None
        if time.monotonic() < end:
            rows = reader().all(f"SELECT count(*) FROM {one.sql_table} WHERE is_current")
            count = int(rows[0][0])
        found.append(OfType(name, count, one.view.source if one.view else ""))
    return found


def growth(today: date | None = None, budget: float = BUDGET_SECONDS) -> Growth:
    """Count new versions by month, this one first, as far back as time allows."""
    end = time.monotonic() + budget
    months: list[Month] = []
    for first, following in _months(today or now().date()):
        if time.monotonic() >= end:
            break
        months.insert(0, Month(first, _count(_begin(first), _begin(following))))
    is_whole = len(months) == MONTHS
    before = None
    if is_whole and time.monotonic() < end:
        before = _count("", _begin(months[0].first))
    return Growth(months, before, is_whole, int(time.time()))


def _months(today: date) -> Iterator[tuple[date, date]]:
    """Yield the first days of a month and of the one after it, going back from today's."""
    first = today.replace(day=1)
    for _number in range(MONTHS):
        following = date(first.year + first.month // 12, first.month % 12 + 1, 1)
        yield first, following
        first = date(first.year - (first.month == 1), (first.month - 2) % 12 + 1, 1)


def _begin(day: date) -> str:
    return instant(begin_of(day))


def _count(since: str, until: str) -> int:
    """Return how many versions of records came since one instant and before another."""
    return sum(
        int(row[0])
        for one in types().values()
        if not one.view
        for row in reader().all(
            f"SELECT count(*) FROM {one.sql_table} WHERE last_updated >= ? AND last_updated < ?",
            (since, until),
        )
    )
