"""When to try again: what the server asks for, or longer each time. RFC 9110 §10.2.3"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import TypeVar

from fhirapp.exchange.remote.faults import Passing, RemoteError

FIRST_SECONDS = 1.0
MOST_SECONDS = 60.0
# Who asks for more is left alone: the next run goes on.
LONGEST_SECONDS = 6 * 3600.0
Got = TypeVar("Got")


@dataclass(frozen=True)
class Clock:
    """What time it is, in seconds since 1970, and how to let some pass."""

    now: Callable[[], float] = time.time
    wait: Callable[[float], None] = time.sleep


def asked_wait(retry_after: str | None, now: float) -> float | None:
    """Return the seconds that a Retry-After asks for, at least one; None where it is unreadable."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        # Longer than that is as good as never.
        return max(1.0, float(text[:9]))
    try:
        moment = parsedate_to_datetime(text)
    except (ValueError, TypeError, OverflowError):
        return None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(1.0, moment.timestamp() - now)


def next_wait(failures: int, asked: float | None = None) -> float:
    """Return how long to wait after so many failures. Raises RemoteError where that is too long."""
    if asked is None:
        return float(min(FIRST_SECONDS * 2 ** min(failures - 1, 10), MOST_SECONDS))
    if asked > LONGEST_SECONDS:
        raise RemoteError(
            f"The server asks to come back in {round(asked / 3600)} hours; run this again then, "
            "and it goes on where it stopped."
        )
    return asked


def steadily(what: str, attempts: int, clock: Clock, attempt: Callable[[], Got]) -> Got:
    """Try until it goes well; raises RemoteError after so many failures without any progress."""
    failures = 0
    while True:
        try:
            return attempt()
        except Passing as failure:
            failures = 1 if failure.progress else failures + 1
            if failures >= attempts:
                raise RemoteError(
                    f"{what} ({failure}), after {failures} attempts; run this again later, and it "
                    "goes on where it stopped."
                ) from None
            clock.wait(next_wait(failures, failure.wait))
