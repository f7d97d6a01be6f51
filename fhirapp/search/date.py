"""Date parameters: when. Source: FHIR R4 search §3.1.1.4.5 and §3.1.1.4.6; decisions 2.7, 2.17.

A searched date is compared at its own precision: 11:05 is that minute, 11:05:00 that second,
11:05:00.000 that millisecond, which is a point. A date in a resource is a day, month or year, or
the moment that it names: 11:05:00 there is the point 11:05:00.000. So a time is found as follows,
`gt` standing for `gt ge sa ne`, `eq` for `eq ge le`, `lt` for `lt le eb ne`:

    in the resource   11:05   11:05:00   11:05:00.000   11:05:00.500
    11:05:00          eq      eq         eq             lt
    11:05:00.500      eq      eq         gt             eq
    11:05:00.5009     eq      eq         gt             eq
    11:05:01          eq      gt         gt             gt

Digits beyond milliseconds are kept in resources, but are not compared. `_lastUpdated` has
milliseconds always.

When the care was that a resource tells of: operations are asked for a time of care.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp.db import quoted
from fhirapp.fhir import temporal
from fhirapp.search.index import LONG, DateRow, IndexRow, IndexTables
from fhirapp.search.parameter import Context, Parameter, SortKey, never_missing
from fhirapp.search.values import (
    SHOWN,
    AnyCondition,
    Condition,
    IndexCondition,
    all_of,
    any_of,
    split,
)

LOWER = ("gt", "ge", "sa")
UPPER = ("lt", "le", "eb")
# The rows that sort what has an end and no start: by its end.
END = ":end"
PREFIXES = ("eq", "ne", *LOWER, *UPPER, "ap")


class SearchedDate(NamedTuple):
    """A searched date: its prefix, empty where it has none, and the interval it covers."""

    prefix: str
    interval: temporal.Interval


@dataclass(frozen=True)
class Date(Parameter):
    """A date parameter.

    With closed_range, two values must be a lower and an upper bound (service.md 4, rule 4).
    """

    closed_range: bool = False

    kind = "date"
    row = DateRow
    # Of a Period without bounds, which covers all time.
    nothing = (temporal.EARLIEST, temporal.LATEST)
    last = (2 * temporal.LATEST, 2 * temporal.EARLIEST)

    def index(self, value: Any) -> list[IndexRow]:
        covered = (
            temporal.period_interval(value)
            if isinstance(value, dict)
            else temporal.stored_interval(value)
        )
        rows: list[IndexRow] = [DateRow(self.name, *covered)]
        if covered.low == temporal.EARLIEST and covered.high != temporal.LATEST:
            rows.append(DateRow(self.name + END, covered.high - 1, covered.high))
        return rows

    @property
    def sorted_names(self) -> tuple[str, ...]:
        return (*self.names, *(name + END for name in self.names))

    def conditions(
        self, modifier: str, values: Sequence[str], context: Context
    ) -> list[AnyCondition]:
        if self.closed_range and len(values) > 1 and modifier != "missing":
            self.check_modifier(modifier)
            self._check_closed(values)
            return [self._within([self.parse(value) for value in values], context)]
        return super().conditions(modifier, values, context)

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        return self._within([self.parse(value)], context)

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        prefix, (low, high) = covered(self.parse(value))
        if high - low == 1:
            return _OF_A_POINT[prefix].format(point=temporal.instant_of(low))
        return _MEANINGS[prefix].format(start=_written(low), end=_written(high))

    def interval(self, value: str) -> tuple[str, str, str] | None:
        prefix, (low, high) = covered(self.parse(value))
        return (prefix, _written(low), _written(high)) if high - low > 1 else None

    def _within(self, bounds: Sequence[SearchedDate], context: Context) -> AnyCondition:
        """Return the condition that one value lies within all bounds: one look, not one each."""
        where = range_condition(self.name, bounds)
        compared = [compare(bound, "k.low", "k.high") for bound in bounds]
        return IndexCondition(
            self.table(context),
            " AND ".join([where.sql, *(sql for sql, _ in compared)]),
            (*where.values, *(value for _, values in compared for value in values)),
        )

    def parse(self, value: str) -> SearchedDate:
        """Read a prefix and a date. Raises InvalidParameter."""
        prefix = value[:2] if value[:2] in PREFIXES else ""
        # A plus sign that the client did not escape arrives as a space.
        text = value[len(prefix) :].replace(" ", "+")
        try:
            return SearchedDate(prefix, temporal.interval(text))
        except ValueError as error:
            raise self.invalid(f"{value[:SHOWN]!r} {error}") from None

    def _check_closed(self, values: Sequence[str]) -> None:
        rule = "two values must form a closed range: one with gt, ge or sa, one with lt, le or eb"
        if len(values) > 2 or any(len(split(value, ",")) > 1 for value in values):
            raise self.invalid(rule)
        searched = [self.parse(value) for value in values]
        lower = [bound for bound in searched if bound.prefix in LOWER]
        upper = [bound for bound in searched if bound.prefix in UPPER]
        if len(lower) != 1 or len(upper) != 1:
            raise self.invalid(rule)
        # ge2024-03-01 with le2024-03-01 is that day; gt2024-03-01 with le2024-03-01 is nothing.
        start = lower[0].interval.low if lower[0].prefix == "ge" else lower[0].interval.high
        end = upper[0].interval.high if upper[0].prefix == "le" else upper[0].interval.low
        if start >= end:
            raise self.invalid(f"{rule}; here nothing lies between the two")


@dataclass(frozen=True)
class LastUpdated(Date):
    """`_lastUpdated`: when the version was published, an instant in a column of its own."""

    name: str = "_lastUpdated"
    path: str = "meta.lastUpdated"
    doc: str = "When the resource last changed"

    indexed = False

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        sql, bounds = compare(self.parse(value), "r.last_updated", "r.last_updated", instants=True)
        return Condition(sql, bounds)

    def missing(self, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        return never_missing(self.name, value)

    def sort_key(self, context: Context, *, descending: bool) -> SortKey:  # noqa: ARG002
        return SortKey("{row}.last_updated", descending=descending)


# What each prefix finds, a value being an interval of time too; start and end are of the searched.
_MEANINGS = {
    "": "is within [{start}, {end}) UTC",
    "eq": "is within [{start}, {end}) UTC",
    "ne": "is not within [{start}, {end}) UTC",
    "gt": "extends to {end} UTC or later",
    "lt": "starts before {start} UTC",
    "ge": "is within [{start}, {end}) UTC or extends further",
    "le": "is within [{start}, {end}) UTC or starts before it",
    "sa": "starts at {end} UTC or later",
    "eb": "ends before {start} UTC",
    "ap": "overlaps [{start}, {end}) UTC, which is extended by a tenth of its distance to now",
}
# The same where a point is searched, which a value that covers more time can hold.
_OF_A_POINT = {
    "": "is the point {point}",
    "eq": "is the point {point}",
    "ne": "is not the point {point}",
    "gt": "extends beyond the point {point}",
    "lt": "starts before the point {point}",
    "ge": "is the point {point} or extends beyond it",
    "le": "is the point {point} or starts before it",
    "sa": "starts after the point {point}",
    "eb": "ends before the point {point}",
    "ap": "overlaps the point {point}",
}


def covered(searched: SearchedDate) -> SearchedDate:
    """Return the interval that is really searched: of `ap` one that is wider."""
    prefix, (start, end) = searched
    if prefix != "ap":
        return searched
    # FHIR R4 §3.1.1.4.5 recommends a tenth of the distance to now.
    margin = abs(int(time.time() * 1000) - start) // 10
    return SearchedDate(prefix, temporal.Interval(start - margin, end + margin))


def _written(milliseconds: int) -> str:
    """Return a moment as briefly as it can be: 2024-03-01, 2024-03-01T09:00:00+00:00."""
    text = temporal.instant_of(milliseconds)
    return text.removesuffix("T00:00:00.000+00:00").replace(".000+", "+")


def range_condition(name: str, bounds: Sequence[SearchedDate]) -> Condition:
    """Return what holds of every index row of a parameter that lies within all bounds.

    It says no more than compare(), but so that an index leads to the rows: one is in the order of
    low. What ends after a moment begins at most a day before it, or is among the LONG, which have
    an index of their own.
    """
    least: list[int] = []
    after: list[int] = []
    before: list[int] = []
    for prefix, (start, end) in map(covered, bounds):
        if prefix in ("", "eq", "sa"):
            least.append(end if prefix == "sa" else start)
        if prefix in ("gt", "ge", "ap"):
            after.append(end if prefix == "gt" else start)
        if prefix in ("lt", "eb"):
            before.append(start)
        if prefix in ("", "eq", "le", "ap"):
            before.append(end)
    upper = Condition(" AND k.low < ?", (min(before),)) if before else Condition("")
    if least or not after:
        lower = Condition(" AND k.low >= ?", (max(least),)) if least else Condition("")
        return Condition(f"k.param = ?{lower.sql}{upper.sql}", (name, *lower.values, *upper.values))
    latest = max(after)
    return Condition(
        f"(k.param = ? AND k.low > ?{upper.sql}"
        f" OR k.param = ? AND k.high - k.low > {LONG} AND k.high > ?{upper.sql})",
        (name, latest - LONG, *upper.values, name, latest, *upper.values),
    )


def compare(
    searched: SearchedDate, low: str, high: str, *, instants: bool = False
) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL that compares a stored interval [low, high) with a searched one.

    low and high are SQL expressions; with instants, both are the text of one millisecond.
    """
    prefix, (start, end) = covered(searched)
    if instants:
        return _compare_moment(prefix, low, temporal.instant_of(start), temporal.instant_of(end))
    within = f"({low} >= ? AND {high} <= ?)"
    match prefix:
        case "" | "eq":
            return within, (start, end)
        case "ne":
            return f"NOT {within}", (start, end)
        case "gt":
            return f"{high} > ?", (end,)
        case "lt":
            return f"{low} < ?", (start,)
        case "ge":
            return f"({high} > ? OR {within})", (end, start, end)
        case "le":
            return f"({low} < ? OR {within})", (start, start, end)
        case "sa":
            return f"{low} >= ?", (end,)
        case "eb":
            return f"{high} <= ?", (start,)
        case _:
            return f"({low} < ? AND {high} > ?)", (end, start)


def _compare_moment(prefix: str, moment: str, start: str, end: str) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL that compares a moment, which begins and ends at once, with [start, end)."""
    within = f"({moment} >= ? AND {moment} < ?)"
    match prefix:
        case "" | "eq" | "ap":
            return within, (start, end)
        case "ne":
            return f"NOT {within}", (start, end)
        case "gt" | "sa":
            return f"{moment} >= ?", (end,)
        case "ge":
            return f"{moment} >= ?", (start,)
        case "lt" | "eb":
            return f"{moment} < ?", (start,)
        case _:
            return f"{moment} < ?", (end,)


# A period without start and end does not say when it was.
_IS_DATED = "k.param = ? AND (k.low > ? OR k.high < ?)"
_ALWAYS = (temporal.EARLIEST, temporal.LATEST)


def care_overlap(
    tables: IndexTables, names: Sequence[str], time: temporal.Interval, *, undated: bool
) -> Condition:
    """Return the condition that a resource's care overlaps a time.

    names are date parameters, of which the first that a resource has tells its care; undated says
    whether a resource that has none of them fulfils the condition.
    """
    table = quoted(tables.date.name)
    choices: list[AnyCondition] = []
    lacks: list[AnyCondition] = []
    for name in names:
        during = f"{_IS_DATED} AND k.low < ? AND k.high > ?"
        care = IndexCondition(table, during, (name, *_ALWAYS, time.high, time.low))
        choices.append(all_of([*lacks, care]))
        lacks.append(IndexCondition(table, _IS_DATED, (name, *_ALWAYS), negated=True))
    if undated:
        choices.append(all_of(lacks))
    return any_of(choices).where()
