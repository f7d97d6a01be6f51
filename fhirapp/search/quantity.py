"""Quantity parameters of durations: how long. Source: FHIR R4 search §3.1.1.4.8 to §3.1.1.4.11.

Durations have units of time in UCUM (FHIR R4 datatypes, Duration). Searched with a unit, they are
compared in milliseconds, so that `90||min` finds 1.5 h; without one, by the number as it stands.
Without a prefix a number has the precision that it is written with: 30 is 29.5 up to 30.5.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

from fhirapp.fhir.temporal import Interval
from fhirapp.fhir.words import worded
from fhirapp.search.date import PREFIXES, Date, SearchedDate
from fhirapp.search.index import DateRow, IndexRow
from fhirapp.search.parameter import Context
from fhirapp.search.values import SHOWN, AnyCondition, any_of, split

UCUM = "http://unitsofmeasure.org"
# UCUM §34, table 5: in milliseconds. A month and a year are the mean Julian ones.
UNITS: Mapping[str, Decimal] = {
    unit: Decimal(milliseconds)
    for unit, milliseconds in (
        ("ms", 1), ("s", 1_000), ("min", 60_000), ("h", 3_600_000), ("d", 86_400_000),
        ("wk", 604_800_000), ("mo", 2_629_800_000), ("a", 31_557_600_000),
    )
}  # fmt: skip
# Suffix of the rows of the number alone, in thousandths.
NUMBER = ":number"
_THOUSANDTHS = Decimal(1_000)
# The difference of two must fit in 64 bits: the databases index how long a row is.
_MOST = 2**61
# The comparisons that a prefix stands for: a value is a point.
_COMPARED = {
    "": ("eq",),
    "ap": ("eq",),
    "ne": ("lt", "gt"),
    "sa": ("gt",),
    "eb": ("lt",),
    "ge": ("gt", "eq"),
    "le": ("lt", "eq"),
}
_NUMBER = re.compile(r"-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?")
_MEANINGS = {
    "": worded("is %(number)s"),
    "eq": worded("is %(number)s"),
    "ne": worded("is not %(number)s"),
    "ap": worded("is about %(number)s"),
    "gt": worded("is more than %(number)s"),
    "sa": worded("is more than %(number)s"),
    "ge": worded("is at least %(number)s"),
    "lt": worded("is less than %(number)s"),
    "eb": worded("is less than %(number)s"),
    "le": worded("is at most %(number)s"),
}


class SearchedQuantity(NamedTuple):
    """A searched quantity: a phrase for it, the suffix of its rows, and how they are compared."""

    words: str
    suffix: str
    comparisons: tuple[SearchedDate, ...]


@dataclass(frozen=True)
class Duration(Date):
    """A quantity parameter whose values are durations."""

    kind = "quantity"
    # Of a value whose unit is no unit of time: an empty interval.
    absent = (_MOST, -_MOST)
    sorts_last = (_MOST, -_MOST)

    def index(self, value: Any) -> list[IndexRow]:
        amount, comparator = value.get("value"), str(value.get("comparator") or "")
        if amount is None:
            return []
        number, code = Decimal(str(amount)), value.get("code")
        is_known = value.get("system") == UCUM and code in UNITS
        length = _interval_of(number * UNITS[code], comparator) if is_known else self.absent
        alone = _interval_of(number * _THOUSANDTHS, comparator)
        return [DateRow(self.name, *length), DateRow(self.name + NUMBER, *alone)]

    @property
    def sorted_names(self) -> tuple[str, ...]:
        return self.names

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        quantity = self._parse(value)
        rows = replace(self, name=self.name + quantity.suffix)
        return any_of([rows._within([comparison], context) for comparison in quantity.comparisons])

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        return self._parse(value).words

    def interval(self, value: str) -> None:  # noqa: ARG002
        return None

    def _parse(self, value: str) -> SearchedQuantity:
        """Parse a prefix, a number and a unit. Raises InvalidParameter."""
        prefix = value[:2] if value[:2] in PREFIXES else ""
        text, *unit = split(value[len(prefix) :], "|")
        number = _number(text)
        if number is None or len(unit) not in (0, 2):
            fault = f"no number, number||unit or number|{UCUM}|unit"
            raise self.invalid(f"{value[:SHOWN]!r} is {fault}")
        scale, code = _THOUSANDTHS, ""
        # HAPI writes a number without a unit as 5||.
        if any(unit):
            system, code = unit
            if system not in ("", UCUM) or code not in UNITS:
                known = f"a unit of time in UCUM ({', '.join(UNITS)})"
                raise self.invalid(f"{'|'.join(unit)[:SHOWN]!r} is not {known}")
            scale = UNITS[code]
        searched = (
            f"{text} {code}" if code else worded("%(number)s, whatever its unit", number=text)
        )
        words = worded(_MEANINGS[prefix], number=searched)
        return SearchedQuantity(
            words, "" if any(unit) else NUMBER, tuple(_comparisons(prefix, number, scale))
        )


def _comparisons(prefix: str, number: Decimal, scale: Decimal) -> list[SearchedDate]:
    """Return the comparisons of which a value must fulfil one."""
    # R4: the precision counts for equality alone; `ap` is a tenth more or less.
    margin = abs(number) / 10 if prefix == "ap" else Decimal((0, (5,), _exponent(number) - 1))
    about = Interval(_whole((number - margin) * scale), _whole((number + margin) * scale))
    point = _whole(number * scale)
    exactly = Interval(point, point + 1)
    # A searched value that is finer than rows are covers a whole one.
    about = Interval(about.low, max(about.high + (prefix == "ap"), exactly.high))
    sought = about if prefix in ("", "eq", "ne", "ap") else exactly
    return [SearchedDate(comparator, sought) for comparator in _COMPARED.get(prefix, (prefix,))]


def _interval_of(amount: Decimal, comparator: str) -> Interval:
    """Return the interval that a value covers: of "< 5" everything below."""
    point = _whole(amount)
    low = -_MOST if comparator.startswith("<") else point
    return Interval(low, _MOST if comparator.startswith(">") else point + 1)


def _number(text: str) -> Decimal | None:
    # A plus sign that the client did not escape arrives as a space.
    text = text.replace(" ", "+")
    return Decimal(text) if len(text) < 40 and _NUMBER.fullmatch(text) else None


def _exponent(number: Decimal) -> int:
    return int(number.as_tuple().exponent)


def _whole(amount: Decimal) -> int:
    return max(-_MOST + 1, min(_MOST - 1, round(amount)))
