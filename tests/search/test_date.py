"""Dates in a search: every prefix against every pair of intervals, and what a range is.

The oracle says what FHIR R4 search §3.1.1.4.5 says, in its words; it knows no SQL.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from datetime import datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.fhir.temporal import EARLIEST, LATEST, Interval, instant_of, interval, period_interval
from fhirapp.search.date import PREFIXES, Date, SearchedDate, compare, range_condition
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.effort import sample

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

REPEATABLE = settings(max_examples=sample(20, 300))
DATE = Date("date", ("date",), "When", closed_range=True)


def contains(outer: Interval, inner: Interval) -> bool:
    """Say whether the range outer fully contains the range inner."""
    return outer.low <= inner.low and inner.high <= outer.high


def overlap(one: Interval, other: Interval) -> bool:
    return one.low < other.high and other.low < one.high


def oracle(prefix: str, searched: Interval, target: Interval) -> bool:
    """Say whether a resource's value, the target, matches. FHIR R4 search §3.1.1.4.5."""
    above = Interval(searched.high, LATEST + 1)
    below = Interval(EARLIEST - 1, searched.low)
    match prefix:
        case "" | "eq":
            return contains(searched, target)
        case "ne":
            return not contains(searched, target)
        case "gt":
            return overlap(above, target)
        case "lt":
            return overlap(below, target)
        case "ge":
            return overlap(above, target) or contains(searched, target)
        case "le":
            return overlap(below, target) or contains(searched, target)
        case "sa":
            return not overlap(searched, target) and contains(above, target)
        case "eb":
            return not overlap(searched, target) and contains(below, target)
    raise AssertionError(prefix)


EXACT = [prefix for prefix in ("", *PREFIXES) if prefix != "ap"]


def asked(searched: SearchedDate, target: Interval) -> bool:
    """Ask a database whether a stored interval matches."""
    sql, values = compare(searched, "k.low", "k.high")
    with closing(sqlite3.connect(":memory:")) as connection:
        stored = f"SELECT count(*) FROM (SELECT {target.low} AS low, {target.high} AS high) k"
        return bool(connection.execute(f"{stored} WHERE {sql}", values).fetchone()[0])


@pytest.mark.parametrize("prefix", EXACT)
def test_a_prefix_means_what_fhir_says_for_each_relation_of_two_intervals(prefix):
    """All pairs of intervals with ends from a few points: every relation there can be."""
    points = range(5)
    pairs = [Interval(low, high) for low in points for high in points if low < high]
    for searched in pairs:
        for target in pairs:
            found = asked(SearchedDate(prefix, searched), target)
            assert found is oracle(prefix, searched, target), (searched, target)


WHEN = st.datetimes(datetime.fromisoformat("0001-01-02"), datetime.fromisoformat("9999-12-30"))
NEAR = st.timedeltas(timedelta(days=-800), timedelta(days=800)).map(
    lambda delta: datetime.fromisoformat("2024-02-29T12:00") + delta
)
SPELLED = st.builds(
    lambda moment, length: moment.isoformat(timespec="milliseconds")[:length],
    WHEN | NEAR,
    # A year, a month, a day, a minute, a second, a millisecond.
    st.sampled_from([4, 7, 10, 16, 19, 23]),
)
STORED = st.one_of(
    SPELLED.map(interval),
    st.builds(
        lambda start, end: period_interval({"start": start, "end": end}),
        SPELLED | st.none(),
        SPELLED | st.none(),
    ),
).filter(lambda covered: covered.low < covered.high)


@REPEATABLE
@given(st.sampled_from(EXACT), SPELLED, STORED)
def test_a_prefix_means_what_fhir_says_for_dates_and_periods(prefix, value, target):
    searched = DATE.parse(prefix + value)
    assert asked(searched, target) is oracle(prefix, interval(value), target)


MOMENT = st.integers(interval("0001-01-02").low, interval("9999-12-30").high)


@REPEATABLE
@given(st.sampled_from(EXACT), SPELLED, MOMENT)
def test_a_moment_kept_as_text_is_an_interval_of_a_millisecond(prefix, value, moment):
    """`_lastUpdated` compares the text of instants."""
    searched = DATE.parse(prefix + value)
    low, high = searched.interval
    for stored in (moment, low, high, low - 1):
        target = Interval(stored, stored + 1)
        sql, values = compare(searched, "t", "t", instants=True)
        with closing(sqlite3.connect(":memory:")) as connection:
            row = connection.execute(
                f"SELECT count(*) FROM (SELECT ? AS t) WHERE {sql}", (instant_of(stored), *values)
            )
            assert bool(row.fetchone()[0]) is oracle(prefix, searched.interval, target)


@REPEATABLE
@given(SPELLED, STORED)
def test_approximately_is_within_a_tenth_of_the_distance_to_now(value, target):
    """FHIR R4 search §3.1.1.4.5: overlap, with a margin that is recommended to be 10%."""
    searched = interval(value)
    margin = abs(time.time() * 1000 - searched.low) / 10
    found = asked(SearchedDate("ap", searched), target)
    # Of the boundary itself nothing is said: the clock goes on.
    within, beyond = int(margin * 0.99), int(margin * 1.01) + 9
    if overlap(Interval(searched.low - within, searched.high + within), target):
        assert found
    if not overlap(Interval(searched.low - beyond, searched.high + beyond), target):
        assert not found


READ = [
    ("2024", "", "2024"),
    ("eq2024-02", "eq", "2024-02"),
    ("sa2024-02-29T10:00", "sa", "2024-02-29T10:00Z"),
    # a plus sign that the client did not escape
    ("ge2024-02-29T10:00:00 01:00", "ge", "2024-02-29T09:00:00Z"),
    ("ap2024-02-29T10:00:00+01:00", "ap", "2024-02-29T09:00:00Z"),
]


def test_a_prefix_and_a_date_are_read():
    for value, prefix, covered in READ:
        assert DATE.parse(value) == (prefix, interval(covered))


def test_every_pair_of_bounds_is_a_range_in_either_order(fhir):
    """What a range finds is what each bound alone finds, both at once."""
    for lower in ["gt", "ge", "sa"]:
        for upper in ["lt", "le", "eb"]:
            first, last = f"{lower}2022-01-01", f"{upper}2024-06"
            both = set(fhir.ids(f"DocumentReference?date={first}"))
            both &= set(fhir.ids(f"DocumentReference?date={last}"))
            assert both
            for query in (f"date={first}&date={last}", f"date={last}&date={first}"):
                assert set(fhir.ids(f"DocumentReference?{query}")) == both


@REPEATABLE
@given(st.sampled_from(PREFIXES), SPELLED, st.sampled_from(PREFIXES), SPELLED, STORED)
def test_index_bounds_of_a_date_leave_out_no_match(first, low, second, high, stored):
    bounds = [SearchedDate(first, interval(low)), SearchedDate(second, interval(high))]
    leads = range_condition("date", bounds)
    compared = [compare(one, "k.low", "k.high") for one in bounds]
    fits = " AND ".join(sql for sql, _ in compared)
    values = (*stored, *(value for _, given in compared for value in given), *leads.values)
    row = "(SELECT 'date' AS param, ? AS low, ? AS high) k"
    with closing(sqlite3.connect(":memory:")) as connection:
        left_out = f"SELECT count(*) FROM {row} WHERE {fits} AND NOT ({leads.sql})"
        assert connection.execute(left_out, values).fetchone() == (0,)
