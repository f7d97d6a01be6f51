"""Counts what should not be tried often, in the database: for all processes, through restarts."""

from __future__ import annotations

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
    now = int(time.time())
    row = connection.execute(
        select(Attempt.times, Attempt.expires_at).where(Attempt.digest == digest(key))
    ).first()
    if row is None or row.expires_at <= now or row.times < limit:
        return 0
    return int(row.expires_at) - now


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
