"""Days and times as pages show them, in the clinic's zone and the page's language."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fhirapp.fhir import temporal
from fhirapp.web.texts import _

SHORT_MONTHS = (
    *(_("Jan"), _("Feb"), _("Mar"), _("Apr"), _("May"), _("Jun")),
    *(_("Jul"), _("Aug"), _("Sep"), _("Oct"), _("Nov"), _("Dec")),
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
    return _moment(then, f"{then:%H:%M}")


def exact(instant: str) -> str:
    """Return an instant to the second: 3 May 2026, 14:05:09 CDT."""
    then = temporal.local(datetime.fromisoformat(instant))
    return _moment(then, f"{then:%H:%M:%S}")


def partial(fhir: str, months: Sequence[str] = temporal.MONTHS) -> str:
    """Return the day of a FHIR date or time: 12 April 1958, April 1958, 1958."""
    parts = [int(part) for part in temporal.day_of(fhir).split("-")]
    if len(parts) == 3:
        year, month, day = parts
        return _day(year, month, day, months)
    if len(parts) == 2:
        return _("%(month)s %(year)s", month=_(months[parts[1] - 1]), year=parts[0])
    return fhir


def _local(seconds: int) -> datetime:
    return temporal.local(datetime.fromtimestamp(seconds, UTC))


def _moment(then: datetime, clock: str) -> str:
    day, zone = _day(then.year, then.month, then.day), temporal.zone_name(then)
    return _("%(day)s, %(time)s %(zone)s", day=day, time=clock, zone=zone)


def _day(year: int, month: int, day: int, months: Sequence[str] = temporal.MONTHS) -> str:
    return _("%(day)s %(month)s %(year)s", day=day, month=_(months[month - 1]), year=year)
