"""Days and moments as people write them, in UTC."""

from __future__ import annotations

from datetime import UTC, datetime

from fhirapp.web.texts import _

_MONTHS = (
    _("January"),
    _("February"),
    _("March"),
    _("April"),
    _("May"),
    _("June"),
    _("July"),
    _("August"),
    _("September"),
    _("October"),
    _("November"),
    _("December"),
)


def day(seconds: int | None) -> str:
    """Return the day of a moment in seconds since 1970: 3 May 2026."""
    if not seconds:
        return _("never")
    then = datetime.fromtimestamp(seconds, UTC)
    return _day(then.year, then.month, then.day)


def moment(seconds: int | None) -> str:
    """Return a moment in seconds since 1970: 3 May 2026, 14:05 UTC."""
    if not seconds:
        return _("never")
    time = f"{datetime.fromtimestamp(seconds, UTC):%H:%M}"
    return _("%(day)s, %(time)s UTC", day=day(seconds), time=time)


def partial(fhir: str) -> str:
    """Return a FHIR date, which may be a year or a month only: 12 April 1958, April 1958, 1958."""
    parts = [int(part) for part in fhir.split("-")]
    if len(parts) == 3:
        return _day(*parts)
    if len(parts) == 2:
        return _("%(month)s %(year)s", month=_(_MONTHS[parts[1] - 1]), year=parts[0])
    return fhir


def _day(year: int, month: int, day: int) -> str:
    return _("%(day)s %(month)s %(year)s", day=day, month=_(_MONTHS[month - 1]), year=year)
