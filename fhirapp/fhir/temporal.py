"""Dates and times as FHIR writes them, the intervals that they cover, and how people read them.

An interval is half-open, [low, high), in whole milliseconds since 1970 in UTC; low and high are
EARLIEST and LATEST where a period has no such end. Records keep UTC; people read times in the
clinic's zone. Source: FHIR R4 datatypes §2.24.0.1 and search §3.1.1.4.4.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any, NamedTuple

from fhirapp.fhir.terminology import ORIGINAL_TEXT

# Outside years 1 to 9999, and within what a 64-bit column holds.
EARLIEST = -(10**15)
LATEST = 10**15

_FIRST_INSTANT = "0001-01-01T00:00:00.000+00:00"
_LAST_INSTANT = "9999-12-31T23:59:59.999+00:00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:(?:[0-5]\d|60)(?:\.\d+)?"
_ZONE = r"(?:Z|[+-](?:(?:0\d|1[0-3]):[0-5]\d|14:00))"
_DATE = re.compile(r"\d{4}(?:-(?:0[1-9]|1[0-2])(?:-(?:0[1-9]|[12]\d|3[01]))?)?", re.ASCII)
_DATE_TIME = re.compile(rf"\d{{4}}-\d\d-\d\dT{_TIME}{_ZONE}", re.ASCII)
_FRACTION = re.compile(r"\.\d+", re.ASCII)
# A search may leave out the zone and the seconds (FHIR R4 search §3.1.1.4.4; decisions 2.7).
_SEARCHED = re.compile(
    rf"\d{{4}}-\d\d-\d\dT(?:[01]\d|2[0-3]):[0-5]\d(?::(?:[0-5]\d|60)(?:\.\d+)?)?{_ZONE}?", re.ASCII
)

MONTHS = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)


class Interval(NamedTuple):
    """A half-open stretch of time, [low, high), in milliseconds since 1970 in UTC."""

    low: int
    high: int


def normalise_date_time(value: str) -> str:
    """Return a FHIR dateTime as this server writes it; a partial date stays as it is.

    "2024-03-01T09:00:00.5-05:00" is "2024-03-01T14:00:00.500+00:00". Raises ValueError.
    decisions 2.17: always +00:00, never Z; of a fraction every digit, and at least three.
    """
    if len(value) <= 10:
        return check_date(value)
    if not _DATE_TIME.fullmatch(value):
        raise ValueError(
            "is not a dateTime; use YYYY, YYYY-MM, YYYY-MM-DD or a full time with zone"
        )
    written = _moment(value).replace(tzinfo=None).isoformat(timespec="seconds")
    fraction = _FRACTION.search(value)
    return f"{written}{fraction[0].ljust(len('.000'), '0') if fraction else ''}+00:00"


def check_date(value: str) -> str:
    """Return a FHIR date (YYYY, YYYY-MM or YYYY-MM-DD) unchanged. Raises ValueError."""
    if not _DATE.fullmatch(value) or value.startswith("0000"):
        raise ValueError("is not a date; use YYYY, YYYY-MM or YYYY-MM-DD")
    if len(value) == 10:
        try:
            datetime.fromisoformat(value)
        except ValueError:
            raise ValueError("is not a date of the calendar") from None
    return value


def interval(value: str) -> Interval:
    """Return the interval that a date or dateTime covers, at its own precision.

    "2024-02" is [2024-02-01, 2024-03-01), a time with a fraction its millisecond, which is a point.
    A zone left out is UTC. Raises ValueError.
    """
    if len(value) <= 10:
        return _date_interval(check_date(value))
    if not _SEARCHED.fullmatch(value):
        raise ValueError("is not a date; use YYYY, YYYY-MM, YYYY-MM-DD or YYYY-MM-DDThh:mm[:ss]")
    low = to_milliseconds(_moment(value))
    if "." in value:
        return Interval(low, low + 1)
    return Interval(low, low + (1_000 if value.count(":", 0, 19) == 2 else 60_000))


def stored_interval(value: str) -> Interval:
    """Return the interval that a value of a resource covers: a day, month or year, or a point.

    A time is the moment that it names, so that 11:05:00 is 11:05:00.000. Raises ValueError.
    """
    covered = interval(value)
    return covered if len(value) <= 10 else Interval(covered.low, covered.low + 1)


def period_interval(period: Mapping[str, Any]) -> Interval:
    """Return the interval of a FHIR Period: to the end of its end; open where an end is absent."""
    start, end = period.get("start"), period.get("end")
    return Interval(
        stored_interval(start).low if start else EARLIEST,
        stored_interval(end).high if end else LATEST,
    )


def comparable_period(period: dict[str, Any]) -> dict[str, Any]:
    """Return a period with both ends at one precision, where per-1 cannot compare them otherwise.

    10:00 of a day is neither before that day nor after it: the time is then cut to its day, and
    kept beside it.
    """
    if "start" not in period or "end" not in period:
        return period
    coarse, exact = sorted(("start", "end"), key=lambda name: len(period[name]))
    length = len(period[coarse])
    if length > 10 or length == len(period[exact]):
        return period
    start, end = (normalise_date_time(period[name])[:length] for name in ("start", "end"))
    if start < end and period["start"][:length] != period["end"][:length]:
        return period
    original = {"url": ORIGINAL_TEXT, "valueString": period[exact]}
    beside = period.get(f"_{exact}", {}).get("extension", ())
    return {
        **period,
        exact: period[exact][:length],
        f"_{exact}": {"extension": [*beside, original]},
    }


def to_milliseconds(moment: datetime) -> int:
    """Return milliseconds since 1970 in UTC, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def instant(moment: datetime) -> str:
    """Return a moment as meta.lastUpdated is written: always milliseconds, always +00:00."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds")


def instant_of(milliseconds: int) -> str:
    """Return the instant of a number of milliseconds since 1970, clamped to years 1 to 9999."""
    try:
        return instant(_EPOCH + milliseconds * _MILLISECOND)
    except OverflowError:
        return _FIRST_INSTANT if milliseconds < 0 else _LAST_INSTANT


def moment_of(value: str) -> datetime:
    """Return the moment of an instant."""
    return datetime.fromisoformat(value)


def _moment(value: str) -> datetime:
    """Return a date with time as an aware datetime in UTC; a leap second counts as :59."""
    if value[17:19] == "60":
        value = value[:17] + "59" + value[19:]
    try:
        moment = datetime.fromisoformat(value)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("is not a date of the calendar") from None


def _date_interval(value: str) -> Interval:
    year = int(value[:4])
    if len(value) == 10:
        start = datetime(year, int(value[5:7]), int(value[8:10]), tzinfo=UTC)
        low = to_milliseconds(start)
        return Interval(low, low + 86_400_000)
    if len(value) == 7:
        month = int(value[5:7])
        start = datetime(year, month, 1, tzinfo=UTC)
        following = (year, month + 1) if month < 12 else (year + 1, 1)
    else:
        start = datetime(year, 1, 1, tzinfo=UTC)
        following = (year + 1, 1)
    if following[0] > 9999:
        return Interval(to_milliseconds(start), LATEST)
    return Interval(to_milliseconds(start), to_milliseconds(datetime(*following, 1, tzinfo=UTC)))


_NAMES_ZONE = re.compile(r"T.*(?:Z|[+-]\d\d:\d\d)")


def _utc() -> tzinfo:
    return UTC


_find: Callable[[], tzinfo] = _utc


def init_zone(find: Callable[[], tzinfo]) -> None:
    """Ask find for the clinic's zone, each time that one is needed: it is that of the app."""
    global _find
    _find = find


def zone() -> tzinfo:
    """Return the clinic's zone; UTC where no app is running."""
    return _find()


def now() -> datetime:
    """Return the time that it is at the clinic."""
    return datetime.now(zone())


def local(then: datetime) -> datetime:
    """Return a time in the clinic's zone; at the ends of the calendar it stays as it is."""
    try:
        return then.astimezone(zone())
    except OverflowError:
        return then


def local_of(value: str) -> datetime | None:
    """Return the local time of an instant, or of a dateTime with an hour; None for a date alone."""
    if "T" not in value:
        return None
    # A leap second counts as :59, as in a search.
    text = f"{value[:17]}59{value[19:]}" if value[17:19] == "60" else value
    then = datetime.fromisoformat(text)
    return local(then if then.tzinfo else then.replace(tzinfo=UTC))


def day_of(value: str) -> str:
    """Return the day of a FHIR date or time, as a FHIR date: that of the clinic's zone."""
    then = local_of(value)
    return value if then is None else then.date().isoformat()


def zone_name(then: datetime) -> str:
    """Return what a zone is called at a time: CST, or UTC-03:00 where it has no letters.

    Where clocks are set back, the hour that comes twice is CDT first, then CST.
    """
    name = then.tzname() or ""
    return name if name[:1].isalpha() else f"UTC{then.isoformat()[-6:]}"


def exact(then: datetime) -> str:
    """Return a local time to the second: 3 May 2026, 14:05:09 CDT."""
    return f"{then.day} {then:%B} {then.year}, {then:%H:%M:%S} {zone_name(then)}"


def exact_at(seconds: int) -> str:
    """Return a Unix time as a local time to the second."""
    return exact(local(datetime.fromtimestamp(seconds, UTC)))


def local_interval(text: str) -> Interval:
    """Return the interval that a person means, as that of a search; the clinic's zone is implied.

    Raises ValueError.
    """
    span = interval(text)
    if _NAMES_ZONE.fullmatch(text, 10):
        return span
    return Interval(_moved(span.low), _moved(span.high))


def _moved(milliseconds: int) -> int:
    """Return when the clinic's clocks show what those of UTC show at a moment."""
    try:
        shown = _EPOCH + timedelta(milliseconds=milliseconds)
        return to_milliseconds(shown.replace(tzinfo=zone()))
    except OverflowError:
        return milliseconds
