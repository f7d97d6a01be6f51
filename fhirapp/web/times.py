"""Days and times as pages show them, in the clinic's zone and the page's language."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from fhirapp.fhir import temporal, words
from fhirapp.web.texts import _

SHORT_MONTHS = (
    *(_("Jan"), _("Feb"), _("Mar"), _("Apr"), _("May"), _("Jun")),
    *(_("Jul"), _("Aug"), _("Sep"), _("Oct"), _("Nov"), _("Dec")),
)


def day(seconds: int | None) -> str:
    """Return the day of a moment in seconds since 1970: 3 May 2026. The page names the zone."""
    if not seconds:
        return _("never")
    return _day(_local(seconds))


def moment(seconds: int | None) -> str:
    """Return a moment in seconds since 1970: 3 May 2026, 14:05 CDT."""
    return moment_of(_local(seconds)) if seconds else _("never")


def moment_of(then: datetime, months: Sequence[str] = temporal.MONTHS) -> str:
    """Return a local time, with its zone."""
    return _moment(then, f"{then:%H:%M}", months)


def exact(instant: str) -> str:
    """Return an instant to the second: 3 May 2026, 14:05:09 CDT."""
    then = temporal.local(datetime.fromisoformat(instant))
    return _moment(then, f"{then:%H:%M:%S}")


def partial(fhir: str) -> str:
    """Return the day of a FHIR date or time: 12 April 1958, April 1958, 1958."""
    return words.day(fhir, translate=_)


def _local(seconds: int) -> datetime:
    return temporal.local(datetime.fromtimestamp(seconds, UTC))


def _moment(then: datetime, clock: str, months: Sequence[str] = temporal.MONTHS) -> str:
    day, zone = _day(then, months), temporal.zone_name(then)
    return _("%(day)s, %(time)s %(zone)s", day=day, time=clock, zone=zone)


def _day(then: datetime, months: Sequence[str] = temporal.MONTHS) -> str:
    return words.day(then.date().isoformat(), months, _)
