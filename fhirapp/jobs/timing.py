"""The times of a schedule."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, tzinfo
from typing import NamedTuple

from fhirapp.config import RefusedCommand

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_TIMING = re.compile(
    r"(?:hourly|every ([1-9][0-9]{0,3}) minutes?"
    r"|(?:daily|weekly ([a-z]+)) ((?:[01]?[0-9]|2[0-3]):[0-5][0-9]))"
)
_MOST_MINUTES = 1_440


class Timing(NamedTuple):
    """When a schedule is due: every so many minutes, at a time of day or of a weekday, hourly."""

    minutes: int | None = None
    at: time | None = None
    weekday: int | None = None

    @classmethod
    def of(cls, text: str) -> Timing:
        """Return the timing that a text describes. Raises RefusedCommand."""
        found = _TIMING.fullmatch(" ".join(text.lower().split()))
        minutes, day, clock = found.groups() if found else (None, None, None)
        known = [name for name in _DAYS if day in (name, name[:3])]
        if found is None or (day and not known) or int(minutes or 1) > _MOST_MINUTES:
            raise RefusedCommand(
                "%(text)r is not a valid schedule. Use hourly, every 15 minutes (at most 1440), "
                "daily 02:00 or weekly sunday 02:00.",
                text=text,
            )
        at = datetime.strptime(clock, "%H:%M").time() if clock else None  # noqa: DTZ007
        return cls(int(minutes) if minutes else None, at, _DAYS.index(known[0]) if day else None)

    def __str__(self) -> str:
        if self.minutes is not None:
            return f"every {self.minutes} minute{'s' * (self.minutes > 1)}"
        if self.at is None:
            return "hourly"
        clock = f"{self.at:%H:%M}"
        return f"daily {clock}" if self.weekday is None else f"weekly {_DAYS[self.weekday]} {clock}"

    def after(self, moment: int, zone: tzinfo) -> int:
        """Return when it is due next after a moment, both in seconds since 1970.

        A time of day that the clock passes twice is due the first time; a time that is skipped when
        the clock is put forward is due when it would have been.
        """
        if self.minutes is not None:
            seconds = self.minutes * 60
            return (moment // seconds + 1) * seconds
        local = datetime.fromtimestamp(moment, zone)
        if self.at is None:
            return moment + 3_600 - local.minute * 60 - local.second
        # A day more than a week: today's time may have passed.
        days = [local.date() + timedelta(days=days) for days in range(9)]
        wanted = [day for day in days if self.weekday in (None, day.weekday())]
        moments = (int(datetime.combine(day, self.at, zone).timestamp()) for day in wanted)
        return next(due_at for due_at in moments if due_at > moment)
