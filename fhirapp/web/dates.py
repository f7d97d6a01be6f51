"""Days and moments as people write them, in UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime


def day(seconds: int | None) -> str:
    """Return the day of a moment in seconds since 1970: 3 May 2026."""
    if not seconds:
        return "never"
    then = datetime.fromtimestamp(seconds, UTC)
    return f"{then.day} {then:%B %Y}"


def moment(seconds: int | None) -> str:
    """Return a moment in seconds since 1970: 3 May 2026, 14:05 UTC."""
    if not seconds:
        return "never"
    return f"{day(seconds)}, {datetime.fromtimestamp(seconds, UTC):%H:%M} UTC"


def partial(fhir: str) -> str:
    """Return a FHIR date, which may be a year or a month only: 12 April 1958, April 1958, 1958."""
    parts = [int(part) for part in fhir.split("-")]
    if len(parts) == 3:
        return f"{parts[2]} {date(*parts):%B} {parts[0]}"
    return f"{date(parts[0], parts[1], 1):%B} {parts[0]}" if len(parts) == 2 else fhir
