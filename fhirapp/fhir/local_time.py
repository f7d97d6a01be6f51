"""Times as people read them: in the clinic's zone, with its name. Records keep UTC.

A date alone (2024-03-01, 2024-03, 2024) is in no zone, and stays as it is. decisions 2.17.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, tzinfo

from fhirapp.fhir import temporal
from fhirapp.fhir.temporal import Interval

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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


def begin_of(day: date) -> datetime:
    """Return when a day begins at the clinic."""
    return datetime.combine(day, time(), zone())


def interval(text: str) -> Interval:
    """Return the interval that a person means, as that of a search; the clinic's zone is implied.

    Raises ValueError.
    """
    found = temporal.interval(text)
    if _NAMES_ZONE.fullmatch(text, 10):
        return found
    return Interval(_moved(found.low), _moved(found.high))


def _moved(milliseconds: int) -> int:
    """Return when the clinic's clocks show what those of UTC show at a moment."""
    try:
        shown = _EPOCH + timedelta(milliseconds=milliseconds)
        return temporal.to_milliseconds(shown.replace(tzinfo=zone()))
    except OverflowError:
        return milliseconds
