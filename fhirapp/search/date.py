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

care_overlap() finds resources by the time of the care that they record, for operations.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp.db import quoted
from fhirapp.fhir import temporal
from fhirapp.fhir.words import worded
from fhirapp.search.index import LONG, DateRow, IndexRow, IndexTables
from fhirapp.search.parameter import ColumnParameter, Context, Parameter
from fhirapp.search.values import (
    SHOWN,
    AnyCondition,
    Condition,
    IndexCondition,
    all_of,
    any_of,
    split,
)


class PrefixRule(NamedTuple):
    """What a prefix finds, in SQL: a value's interval [low, high), a searched one [start, end).

    of_instants compares an instant, at, which begins and ends at once. The other fields name the
    bounds of low and high that follow, by which an index leads to the rows.
    """

    sql: str
    of_instants: str
    low_from: str
    low_before: str
    high_after: str

    @property
    def is_lower(self) -> bool:
        """Whether it is the lower bound of a closed range."""
        return bool(self.low_from or self.high_after) and not self.low_before

    @property
    def is_upper(self) -> bool:
        """Whether it is the upper bound of a closed range."""
        return bool(self.low_before) and not (self.low_from or self.high_after)


_WITHIN = "({low} >= {start} AND {high} <= {end})"
_AT = "({at} >= {start} AND {at} < {end})"
_RULES = {
    prefix: PrefixRule(*rule)
    for prefix, *rule in (
        #     intervals, instants, low from, low before, high after
        ("eq", _WITHIN, _AT, "start", "end", ""),
        ("ne", f"NOT {_WITHIN}", f"NOT {_AT}", "", "", ""),
        ("gt", "{high} > {end}", "{at} >= {end}", "", "", "end"),
        ("ge", f"({{high}} > {{end}} OR {_WITHIN})", "{at} >= {start}", "", "", "start"),
        ("sa", "{low} >= {end}", "{at} >= {end}", "end", "", ""),
        ("lt", "{low} < {start}", "{at} < {start}", "", "start", ""),
        ("le", f"({{low}} < {{start}} OR {_WITHIN})", "{at} < {end}", "", "end", ""),
        ("eb", "{high} <= {start}", "{at} < {start}", "", "start", ""),
        ("ap", "({low} < {end} AND {high} > {start})", _AT, "", "end", "start"),
    )
}
PREFIXES = tuple(_RULES)
_BOUND = re.compile(r"\{(start|end)\}")
# The rows that sort what has an end and no start: by its end.
END = ":end"
# What a prefix finds in words.
_MEANINGS = {
    "eq": worded("is within [%(start)s, %(end)s) UTC"),
    "ne": worded("is not within [%(start)s, %(end)s) UTC"),
    "gt": worded("extends to %(end)s UTC or later"),
    "lt": worded("starts before %(start)s UTC"),
    "ge": worded("is within [%(start)s, %(end)s) UTC or extends further"),
    "le": worded("is within [%(start)s, %(end)s) UTC or starts before it"),
    "sa": worded("starts at %(end)s UTC or later"),
    "eb": worded("ends before %(start)s UTC"),
    "ap": worded(
        "overlaps [%(start)s, %(end)s) UTC, which is extended by a tenth of its distance to now"
    ),
}
# The same where a point is searched, which a value that covers more time can hold.
_OF_A_POINT = {
    "eq": worded("is the point %(point)s"),
    "ne": worded("is not the point %(point)s"),
    "gt": worded("extends beyond the point %(point)s"),
    "lt": worded("starts before the point %(point)s"),
    "ge": worded("is the point %(point)s or extends beyond it"),
    "le": worded("is the point %(point)s or starts before it"),
    "sa": worded("starts after the point %(point)s"),
    "eb": worded("ends before the point %(point)s"),
    "ap": worded("overlaps the point %(point)s"),
}


class SearchedDate(NamedTuple):
    """A searched date: its prefix, empty where it has none, and the interval it covers."""

    prefix: str
    interval: temporal.Interval

    @property
    def rule(self) -> PrefixRule:
        return _RULES[self.prefix or "eq"]


@dataclass(frozen=True)
class Date(Parameter):
    """A date parameter.

    With closed_range, two values must be a lower and an upper bound (service.md 4, rule 4).
    """

    closed_range: bool = False

    kind = "date"
    row = DateRow
    # Of a Period without bounds, which covers all time.
    absent = (temporal.EARLIEST, temporal.LATEST)
    sorts_last = (2 * temporal.LATEST, 2 * temporal.EARLIEST)

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
        prefix = prefix or "eq"
        if high - low == 1:
            return worded(_OF_A_POINT[prefix], point=temporal.instant_of(low))
        return worded(_MEANINGS[prefix], start=_written(low), end=_written(high))

    def interval(self, value: str) -> tuple[str, str, str] | None:
        prefix, (low, high) = covered(self.parse(value))
        return (prefix, _written(low), _written(high)) if high - low > 1 else None

    def _within(self, bounds: Sequence[SearchedDate], context: Context) -> AnyCondition:
        """Return the condition that one and the same value lies within all bounds."""
        where = range_condition(self.name, bounds)
        compared = [compare(bound, "k.low", "k.high") for bound in bounds]
        return IndexCondition(
            context.table(self.row),
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
        lower = [bound for bound in searched if bound.rule.is_lower]
        upper = [bound for bound in searched if bound.rule.is_upper]
        if len(lower) != 1 or len(upper) != 1:
            raise self.invalid(rule)
        # ge2024-03-01 with le2024-03-01 is that day; gt2024-03-01 with le2024-03-01 is nothing.
        start = lower[0].interval.low if lower[0].prefix == "ge" else lower[0].interval.high
        end = upper[0].interval.high if upper[0].prefix == "le" else upper[0].interval.low
        if start >= end:
            raise self.invalid(f"{rule}; here nothing lies between the two")


@dataclass(frozen=True)
class LastUpdated(ColumnParameter, Date):
    """`_lastUpdated`: when the version was published, an instant in a column of its own."""

    name: str = "_lastUpdated"
    path: str = "meta.lastUpdated"
    doc: str = "When the resource last changed"

    column = "last_updated"

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        sql, bounds = compare(self.parse(value), "r.last_updated", "r.last_updated", instants=True)
        return Condition(sql, bounds)


def covered(searched: SearchedDate) -> SearchedDate:
    """Return the searched date; the interval of `ap` is widened."""
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
    """Return a condition that every index row within all bounds fulfils, and that an index serves.

    It follows from compare(). The index is in the order of low. A row that ends after a moment
    starts at most a day before it, or is LONG, and those rows have an index of their own.
    """
    least: list[int] = []
    before: list[int] = []
    after: list[int] = []
    for searched in map(covered, bounds):
        rule, (start, end) = searched.rule, searched.interval
        moments = {"start": [start], "end": [end], "": []}
        least += moments[rule.low_from]
        before += moments[rule.low_before]
        after += moments[rule.high_after]
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
    searched = covered(searched)
    rule, (start, end) = searched.rule, searched.interval
    template = rule.of_instants if instants else rule.sql
    bounds: dict[str, Any] = {"start": start, "end": end}
    if instants:
        bounds = {side: temporal.instant_of(bound) for side, bound in bounds.items()}
    values = tuple(bounds[side] for side in _BOUND.findall(template))
    return template.format(low=low, high=high, at=low, start="?", end="?"), values


# A period without start and end does not tell when it was.
_IS_DATED = "k.param = ? AND (k.low > ? OR k.high < ?)"
_ALWAYS = (temporal.EARLIEST, temporal.LATEST)


def care_overlap(
    tables: IndexTables, names: Sequence[str], time: temporal.Interval, *, undated: bool
) -> Condition:
    """Return the condition that a resource's care overlaps a time.

    names are date parameters; the first that a resource has a value of counts. undated says whether
    a resource without any value fulfils the condition.
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
