"""Date parameters: when. Source: FHIR R4 search §3.1.1.4.5 and §3.1.1.4.6; decisions 2.7."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp.fhir.temporal import EARLIEST, LATEST, Interval, instant_of, interval, period_interval
from fhirapp.search.condition import AnyCondition, Condition, IndexCondition
from fhirapp.search.index import DateRow, IndexRow
from fhirapp.search.parameter import Context, Key, Parameter, never_missing
from fhirapp.search.values import SHOWN, split

LOWER = ("gt", "ge", "sa")
UPPER = ("lt", "le", "eb")
PREFIXES = ("eq", "ne", *LOWER, *UPPER, "ap")


class Searched(NamedTuple):
    """A searched date: its prefix, empty where it has none, and the interval it covers."""

    prefix: str
    interval: Interval


@dataclass(frozen=True)
class Date(Parameter):
    """A date parameter.

    With closed_range, two values must be a lower and an upper bound (service.md 4, rule 4).
    """

    closed_range: bool = False

    kind = "date"
    row = DateRow
    # Of a Period without bounds, which covers all time.
    nothing = (EARLIEST, LATEST)
    last = (2 * LATEST, 2 * EARLIEST)

    def index(self, value: Any) -> list[IndexRow]:
        covered = period_interval(value) if isinstance(value, dict) else interval(value)
        return [DateRow(self.name, *covered)]

    def conditions(
        self, modifier: str, values: Sequence[str], context: Context
    ) -> list[AnyCondition]:
        if self.closed_range and len(values) > 1 and modifier != "missing":
            self.check_modifier(modifier)
            self._check_closed(values)
            return [self._within([self.parse(value) for value in values], context)]
        return super().conditions(modifier, values, context)

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        sql, bounds = compare(self.parse(value), "k.low", "k.high")
        return IndexCondition(self.table(context), f"k.param = ? AND {sql}", (self.name, *bounds))

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        prefix, interval = covered(self.parse(value))
        start, end = _written(interval.low), _written(interval.high)
        return _MEANINGS[prefix].format(start=start, end=end)

    def _within(self, bounds: Sequence[Searched], context: Context) -> AnyCondition:
        """Return the condition that one value lies within all bounds: one look, not one each."""
        compared = [compare(bound, "k.low", "k.high") for bound in bounds]
        return IndexCondition(
            self.table(context),
            " AND ".join(["k.param = ?", *(sql for sql, _ in compared)]),
            (self.name, *(value for _, values in compared for value in values)),
        )

    def parse(self, value: str) -> Searched:
        """Read a prefix and a date. Raises InvalidParameter."""
        prefix = value[:2] if value[:2] in PREFIXES else ""
        # A plus sign that the client did not escape arrives as a space.
        text = value[len(prefix) :].replace(" ", "+")
        try:
            return Searched(prefix, interval(text))
        except ValueError as error:
            raise self.invalid(f"{value[:SHOWN]!r} {error}") from None

    def _check_closed(self, values: Sequence[str]) -> None:
        wanted = "two values must form a closed range: one with gt, ge or sa, one with lt, le or eb"
        if len(values) > 2 or any(len(split(value, ",")) > 1 for value in values):
            raise self.invalid(wanted)
        searched = [self.parse(value) for value in values]
        lower = [one for one in searched if one.prefix in LOWER]
        upper = [one for one in searched if one.prefix in UPPER]
        if len(lower) != 1 or len(upper) != 1:
            raise self.invalid(wanted)
        # ge2024-03-01 with le2024-03-01 is that day; gt2024-03-01 with le2024-03-01 is nothing.
        start = lower[0].interval.low if lower[0].prefix == "ge" else lower[0].interval.high
        end = upper[0].interval.high if upper[0].prefix == "le" else upper[0].interval.low
        if start >= end:
            raise self.invalid(f"{wanted}; here nothing lies between the two")


@dataclass(frozen=True)
class LastUpdated(Date):
    """`_lastUpdated`: when the version was published, an instant in a column of its own."""

    name: str = "_lastUpdated"
    paths: tuple[str, ...] = ("meta.lastUpdated",)
    doc: str = "When the resource last changed"
    spec: str = "http://hl7.org/fhir/SearchParameter/Resource-lastUpdated"

    indexed = False

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        sql, bounds = compare(self.parse(value), "r.last_updated", "r.last_updated", instants=True)
        return Condition(sql, bounds)

    def missing(self, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        return never_missing(self.name, value)

    def sort_key(self, context: Context, *, descending: bool) -> Key:  # noqa: ARG002
        return Key("{row}.last_updated", descending=descending)


# What each prefix finds, a value being an interval of time too; start and end are of the searched.
_MEANINGS = {
    "": "lies within [{start}, {end}) UTC",
    "eq": "lies within [{start}, {end}) UTC",
    "ne": "does not lie within [{start}, {end}) UTC",
    "gt": "reaches to {end} UTC or later",
    "lt": "begins before {start} UTC",
    "ge": "lies within [{start}, {end}) UTC or reaches further",
    "le": "lies within [{start}, {end}) UTC or begins before it",
    "sa": "begins at {end} UTC or later",
    "eb": "ends before {start} UTC",
    "ap": "overlaps [{start}, {end}) UTC, which is wider by a tenth of its distance to now",
}


def covered(searched: Searched) -> Searched:
    """Return the interval that is really searched: of `ap` one that is wider."""
    prefix, (start, end) = searched
    if prefix != "ap":
        return searched
    # FHIR R4 §3.1.1.4.5 recommends a tenth of the distance to now.
    margin = abs(int(time.time() * 1000) - start) // 10
    return Searched(prefix, Interval(start - margin, end + margin))


def _written(milliseconds: int) -> str:
    """Return a moment as briefly as it can be: 2024-03-01, 2024-03-01T09:00:00+00:00."""
    text = instant_of(milliseconds)
    return text.removesuffix("T00:00:00.000+00:00").replace(".000+", "+")


def compare(
    searched: Searched, low: str, high: str, *, instants: bool = False
) -> tuple[str, tuple[Any, ...]]:
    """Return the SQL that compares a stored interval [low, high) with a searched one.

    low and high are SQL expressions; with instants both are the text of one moment, which is an
    interval of a millisecond.
    """
    prefix, (start, end) = covered(searched)
    first: Any = instant_of(start) if instants else start
    last: Any = instant_of(end) if instants else end
    # For a moment m, high is m + 1 ms: m + 1 <= end says m < end, and m + 1 > end says m >= end.
    ends_by, ends_after = ("<", ">=") if instants else ("<=", ">")
    within = f"({low} >= ? AND {high} {ends_by} ?)"
    match prefix:
        case "" | "eq":
            return within, (first, last)
        case "ne":
            return f"NOT {within}", (first, last)
        case "gt":
            return f"{high} {ends_after} ?", (last,)
        case "lt":
            return f"{low} < ?", (first,)
        case "ge":
            return f"({high} {ends_after} ? OR {within})", (last, first, last)
        case "le":
            return f"({low} < ? OR {within})", (first, first, last)
        case "sa":
            return f"{low} >= ?", (last,)
        case "eb":
            return f"{high} {ends_by} ?", (first,)
        case _:
            return f"({low} < ? AND {high} {ends_after} ?)", (last, first)
