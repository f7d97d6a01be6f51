"""Counts what should not be tried often, in the database: for all processes, through restarts."""

from __future__ import annotations

import math
import time

from sqlalchemy import Connection, delete, insert, select, update

from fhirapp.auth.models import Attempt, digest


class TooOften(Exception):
    """There were too many failures; seconds says how long to wait."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"wait {seconds} seconds")
        self.seconds = seconds


def wait_seconds(connection: Connection, key: str, limit: int) -> int:
    """Return how long to wait, 0 where fewer than limit attempts were counted."""
    times, until = counted(connection, key)
    return max(1, math.ceil(until - time.time())) if times >= limit else 0


def counted(connection: Connection, key: str) -> tuple[int, int]:
    """Return how many attempts are counted, and when they are forgotten, a Unix time; 0 and 0."""
    row = connection.execute(
        select(Attempt.times, Attempt.expires_at).where(Attempt.digest == digest(key))
    ).first()
    return (row.times, row.expires_at) if row and row.expires_at > time.time() else (0, 0)


def count(connection: Connection, key: str, seconds: int) -> None:
    """Count one attempt; the window of so many seconds begins with the first. Within writing()."""
    now = int(time.time())
    connection.execute(delete(Attempt).where(Attempt.expires_at <= now))
    changed = connection.execute(
        update(Attempt).where(Attempt.digest == digest(key)).values(times=Attempt.times + 1)
    )
    if changed.rowcount == 0:
        row = {"digest": digest(key), "times": 1, "expires_at": now + seconds}
        connection.execute(insert(Attempt), [row])


def forget(connection: Connection, key: str) -> None:
    """Begin anew: it was tried with success."""
    connection.execute(delete(Attempt).where(Attempt.digest == digest(key)))
