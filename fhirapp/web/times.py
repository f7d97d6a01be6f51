"""Days and times as pages show them, in the clinic's zone."""

from __future__ import annotations

from datetime import UTC, datetime

from fhirapp.fhir import temporal
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
    """Return the day of a moment in seconds since 1970: 3 May 2026. The page names the zone."""
    if not seconds:
        return _("never")
    then = _local(seconds)
    return _day(then.year, then.month, then.day)


def moment(seconds: int | None) -> str:
    """Return a moment in seconds since 1970: 3 May 2026, 14:05 CDT."""
    return moment_of(_local(seconds)) if seconds else _("never")


def moment_of(then: datetime) -> str:
    """Return a local time, with its zone."""
    return _(
        "%(day)s, %(time)s %(zone)s",
        day=_day(then.year, then.month, then.day),
        time=f"{then:%H:%M}",
        zone=temporal.zone_name(then),
    )


def exact(instant: str) -> str:
    """Return an instant to the second: 3 May 2026, 14:05:09 CDT."""
    return temporal.exact(temporal.local(datetime.fromisoformat(instant)))


def partial(fhir: str) -> str:
    """Return the day of a FHIR date or time: 12 April 1958, April 1958, 1958."""
    parts = [int(part) for part in temporal.day_of(fhir).split("-")]
    if len(parts) == 3:
        return _day(*parts)
    if len(parts) == 2:
        return _("%(month)s %(year)s", month=_(_MONTHS[parts[1] - 1]), year=parts[0])
    return fhir


def _local(seconds: int) -> datetime:
    return temporal.local(datetime.fromtimestamp(seconds, UTC))


def _day(year: int, month: int, day: int) -> str:
    return _("%(day)s %(month)s %(year)s", day=day, month=_(_MONTHS[month - 1]), year=year)
