"""Dates, times and the stretches of time that they cover. FHIR R4 datatypes §2.24.0.1."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.fhir.temporal import (
    EARLIEST,
    LATEST,
    Interval,
    check_date,
    instant,
    instant_of,
    interval,
    moment_of,
    normalise_date_time,
    period_interval,
    to_milliseconds,
)

REPEATABLE = settings(max_examples=30)
SECOND, MINUTE, DAY = 1_000, 60_000, 86_400_000


def at(*parts: int) -> int:
    """Return milliseconds since 1970 of a moment in UTC."""
    return int(datetime(*parts, tzinfo=UTC).timestamp()) * 1_000


def test_date_covers_the_time_of_its_own_precision(subtests):
    for value, low, high in [
        ("2024", at(2024, 1, 1), at(2025, 1, 1)),
        ("2024-02", at(2024, 2, 1), at(2024, 3, 1)),
        ("2023-02", at(2023, 2, 1), at(2023, 3, 1)),
        ("2024-12", at(2024, 12, 1), at(2025, 1, 1)),
        ("2024-02-29", at(2024, 2, 29), at(2024, 3, 1)),
        ("2000-02-29", at(2000, 2, 29), at(2000, 3, 1)),
        ("1969-12-31", -DAY, 0),
        # a search may leave out the seconds and the zone, which is UTC then
        ("2024-03-01T09:30", at(2024, 3, 1, 9, 30), at(2024, 3, 1, 9, 31)),
        ("2024-03-01T09:30Z", at(2024, 3, 1, 9, 30), at(2024, 3, 1, 9, 31)),
        ("2024-03-01T09:30-05:00", at(2024, 3, 1, 14, 30), at(2024, 3, 1, 14, 31)),
        ("2024-03-01T09:30:07", at(2024, 3, 1, 9, 30, 7), at(2024, 3, 1, 9, 30, 8)),
        ("2024-03-01T00:00:00+14:00", at(2024, 2, 29, 10), at(2024, 2, 29, 10) + SECOND),
        ("2024-03-01T23:00:00-13:59", at(2024, 3, 2, 12, 59), at(2024, 3, 2, 12, 59) + SECOND),
        ("1970-01-01T00:00:00.5Z", 500, 501),
        # finer than a millisecond is cut, not rounded
        ("1970-01-01T00:00:00.0019Z", 1, 2),
        ("1970-01-01T00:00:00.123456789Z", 123, 124),
        ("1969-12-31T23:59:59.9999Z", -1, 0),
        ("0001", at(1, 1, 1), at(2, 1, 1)),
        ("0001-01-01", at(1, 1, 1), at(1, 1, 2)),
        ("9999-12-31", at(9999, 12, 31), at(9999, 12, 31) + DAY),
        ("9999-12-31T23:59:59Z", at(9999, 12, 31) + DAY - SECOND, at(9999, 12, 31) + DAY),
    ]:
        with subtests.test(value=value):
            assert interval(value) == Interval(low, high)


def test_last_year_and_month_of_the_calendar_have_no_end_within_it(subtests):
    for value, start in [("9999", (9999, 1)), ("9999-12", (9999, 12))]:
        with subtests.test(value=value):
            assert interval(value) == Interval(at(*start, 1), LATEST)


def test_time_is_written_with_the_offset_of_utc(subtests):
    """decisions 2.17: +00:00, never Z; partial dates stay partial."""
    for value, written in [
        ("2024", "2024"),
        ("2024-02", "2024-02"),
        ("2024-02-29", "2024-02-29"),
        ("2024-03-01T09:00:00Z", "2024-03-01T09:00:00+00:00"),
        ("2024-03-01T09:00:00-00:00", "2024-03-01T09:00:00+00:00"),
        ("2024-03-01T09:00:00-05:00", "2024-03-01T14:00:00+00:00"),
        ("2024-03-01T09:00:00.5-05:00", "2024-03-01T14:00:00.500+00:00"),
        ("2024-03-01T09:00:00.000Z", "2024-03-01T09:00:00.000+00:00"),
        ("2024-03-01T09:00:00.1239Z", "2024-03-01T09:00:00.1239+00:00"),
        ("2024-03-01T09:00:00.123456789012-05:00", "2024-03-01T14:00:00.123456789012+00:00"),
        ("2024-01-01T00:00:00+14:00", "2023-12-31T10:00:00+00:00"),
        ("2024-02-28T23:30:00-01:00", "2024-02-29T00:30:00+00:00"),
        ("2023-02-28T23:30:00-01:00", "2023-03-01T00:30:00+00:00"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00+00:00"),
        ("9999-12-31T23:59:59Z", "9999-12-31T23:59:59+00:00"),
        # the leap second of 2016: no clock of ours has it
        ("2016-12-31T23:59:60Z", "2016-12-31T23:59:59+00:00"),
        ("2016-12-31T18:59:60.25-05:00", "2016-12-31T23:59:59.250+00:00"),
    ]:
        with subtests.test(value=value):
            assert normalise_date_time(value) == written


NO_DATES = (
    *("", " ", "24", "202", "20240", "0000", "0000-01-01", "-2024", "+2024", "2024-", "2024-1"),
    *("2024-00", "2024-13", "2024-01-00", "2024-01-32", "2024-1-01", "2024-01-1", "202401"),
    *("2024/01/01", "01-01-2024", "2024-W01", "2024-001", " 2024", "2024 ", "2024\n"),
    # not of the calendar
    *("2024-02-30", "2023-02-29", "1900-02-29", "2024-04-31"),
    # digits, but not these digits
    *("\u0662\u0660\u0662\u0664", "\uff12\uff10\uff12\uff14-01"),
)
NO_TIMES = (
    *("2024-01-01T", "2024-01-01T10", "2024-01-01T10:00:", "2024-01-01T1:00:00Z"),
    *("2024-01-01T24:00:00Z", "2024-01-01T10:60:00Z", "2024-01-01T10:00:61Z"),
    *("2024-01-01T10:00:00.Z", "2024-01-01T10:00:00,5Z", "2024-01-01T10:00:00z"),
    *("2024-01-01t10:00:00Z", "2024-01-01 10:00:00Z", "2024-01-01T10:00:00 Z"),
    *("2024-01-01T10:00:00+1:00", "2024-01-01T10:00:00+0100", "2024-01-01T10:00:00+01"),
    *("2024-01-01T10:00:00+14:01", "2024-01-01T10:00:00+01:60", "2024-01-01T10:00:00+15:00"),
    *("2024-02-30T10:00:00Z", "2023-02-29T10:00:00Z", "2024-13-01T10:00:00Z"),
    *("0000-01-01T10:00:00Z", "2024-01T10:00:00Z", "2024T10:00:00Z", "2024-01-01T10:00:00Z\n"),
    # in UTC these lie outside the years that there are
    *("0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00"),
)


def test_invalid_date_is_refused(subtests):
    for value in NO_DATES:
        with subtests.test(value=value):
            for read in (check_date, normalise_date_time, interval):
                with pytest.raises(ValueError, match=r"^is not a date"):
                    read(value)


def test_invalid_time_is_refused(subtests):
    for value in NO_TIMES:
        with subtests.test(value=value):
            for read in (normalise_date_time, interval):
                with pytest.raises(ValueError, match=r"^is not a date"):
                    read(value)


def test_stored_time_has_seconds_and_a_zone(subtests):
    """FHIR R4 datatypes §2.24.0.1: both SHALL be there; only a search may leave them out."""
    for value in ["2024-01-01T10:00:00", "2024-01-01T10:00Z", "2024-01-01T10:00"]:
        with subtests.test(value), pytest.raises(ValueError, match="is not a dateTime"):
            normalise_date_time(value)


def test_leap_second_can_be_searched_as_it_can_be_stored():
    """FHIR R4 search §3.1.1.4.4: a searched date has the form of a dateTime."""
    stored = normalise_date_time("2016-12-31T23:59:60Z")
    assert interval("2016-12-31T23:59:60Z") == interval(stored)


def test_period_reaches_to_the_end_of_its_end(subtests):
    for period, low, high in [
        ({"start": "2024", "end": "2024-06"}, at(2024, 1, 1), at(2024, 7, 1)),
        ({"start": "2024-01-05"}, at(2024, 1, 5), LATEST),
        ({"end": "2024-01-05"}, EARLIEST, at(2024, 1, 6)),
        ({"_start": {"id": "unknown"}}, EARLIEST, LATEST),
        ({"start": "2024-01-05T10:00:00Z", "end": "2024-01-05T10:00:00Z"},
         at(2024, 1, 5, 10), at(2024, 1, 5, 10) + 1),
    ]:  # fmt: skip
        with subtests.test(period=period):
            assert period_interval(period) == Interval(low, high)


ZONES = st.integers(-14 * 60 + 1, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))
# A day from either end of the calendar: no zone leads out of it.
MOMENTS = st.datetimes(
    datetime.fromisoformat("0001-01-02"), datetime.fromisoformat("9999-12-30"), timezones=ZONES
)
WRITTEN = st.builds(
    lambda moment, precision: moment.isoformat(timespec=precision),
    MOMENTS,
    st.sampled_from(["seconds", "milliseconds", "microseconds"]),
)
PARTIAL = st.builds(
    lambda moment, length: moment.date().isoformat()[:length], MOMENTS, st.sampled_from([4, 7, 10])
)


@REPEATABLE
@given(WRITTEN | PARTIAL)
def test_normalising_twice_is_the_same_and_covers_the_same_time(value):
    once = normalise_date_time(value)
    assert normalise_date_time(once) == once
    assert interval(once) == interval(value)


@REPEATABLE
@given(MOMENTS.map(lambda moment: moment.astimezone(UTC)))
def test_finer_date_lies_within_every_coarser_one(moment):
    text = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    steps = [text[:4], text[:7], text[:10], f"{text[:16]}Z", f"{text[:19]}Z", text]
    covered = [interval(step) for step in steps]
    for coarse, fine in pairwise(covered):
        assert coarse.low <= fine.low < fine.high <= coarse.high


@REPEATABLE
@given(MOMENTS, MOMENTS)
def test_text_order_of_instants_is_their_order_in_time(one, other):
    """Rows are sorted by the text of last_updated."""
    first, second = to_milliseconds(one), to_milliseconds(other)
    assert (instant(one) < instant(other)) == (first < second)
    assert (instant(one) == instant(other)) == (first == second)


@REPEATABLE
@given(MOMENTS)
def test_instant_is_read_back(moment):
    milliseconds = to_milliseconds(moment)
    text = instant(moment)
    assert instant_of(milliseconds) == text
    assert to_milliseconds(moment_of(text)) == milliseconds
    assert len(text) == len("2024-03-01T09:00:00.000+00:00")


def test_instants_outside_the_calendar_are_its_ends():
    assert instant_of(EARLIEST) == "0001-01-01T00:00:00.000+00:00"
    assert instant_of(LATEST) == "9999-12-31T23:59:59.999+00:00"
