"""Count attempts, to limit them: in the database or in the process.

Attempts to sign in are counted in the database, for all processes and through restarts. Failed
requests are counted by address in each process (Failures), and by all servers on one PostgreSQL
together; successes cost nothing.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from ipaddress import IPv6Address, IPv6Network
from threading import Lock

from sqlalchemy import Connection, case, delete, func, insert, select, update

from fhirapp.auth.models import Attempt, digest
from fhirapp.config import settings
from fhirapp.db import database_errors, db


class TooOften(Exception):
    """There were too many failures; seconds says how long to wait."""

    def __init__(self, seconds: int) -> None:
        super().__init__(f"wait {seconds} seconds")
        self.seconds = seconds


def wait_seconds(connection: Connection, key: str, limit: int) -> int:
    """Return how long to wait, 0 where fewer than limit attempts were counted."""
    times, until = counted(connection, key)
    return _seconds_until(until) if times >= limit else 0


def _seconds_until(moment: float) -> int:
    return max(1, math.ceil(moment - time.time()))


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
    known = update(Attempt).where(Attempt.digest == digest(key))
    if connection.execute(known.values(times=Attempt.times + 1)).rowcount == 0:
        row = {"digest": digest(key), "times": 1, "expires_at": now + seconds}
        connection.execute(insert(Attempt), [row])


def attempt(connection: Connection, key: str, limit: int, seconds: int) -> None:
    """Count an attempt. Raises TooOften where there were limit of them in so many seconds."""
    if wait := wait_seconds(connection, key, limit):
        raise TooOften(wait)
    count(connection, key, seconds)


def forget(connection: Connection, key: str) -> None:
    """Begin anew: it was tried with success."""
    connection.execute(delete(Attempt).where(Attempt.digest == digest(key)))


PER_MINUTE = 60
# Expired ones that are deleted at a time.
_SWEPT = 100


def network_of(address: str) -> str:
    """Return what is counted as one: an IPv4 address, or the /64 that one customer has of IPv6."""
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or IPv6Network((int(parsed) >> 64 << 64, 64)))


class Failures:
    """Failed attempts to authenticate, of which per_minute a minute are answered as such.

    With a purpose servers on one PostgreSQL count them together: not for what succeeds too, which
    would then write.
    """

    def __init__(self, per_minute: int = PER_MINUTE, purpose: str = "") -> None:
        self._per_minute = per_minute
        self._purpose = purpose
        self._lock = Lock()
        # How many, and when its minute ends, a Unix time; the minute that ends first comes first.
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def count(self, address: str) -> int:
        """Count one failure of an address, or of another key.

        Return the seconds to wait once there were too many, else 0.
        """
        key = network_of(address)
        with self._lock:
            times, until = self._count(key, time.time())
        # No more of them than that are written.
        if times <= self._per_minute and self._purpose and settings().is_postgresql:
            times, until = _count_of_all(f"{self._purpose} {key}")
        return _seconds_until(until) if times > self._per_minute else 0

    def _count(self, key: str, now: float) -> tuple[int, float]:
        # An end more than a minute ahead: the clock was set back.
        while self._counts and not now < next(iter(self._counts.values()))[1] <= now + 60:
            self._counts.popitem(last=False)
        times, until = self._counts.get(key, (0, now))
        if until <= now:
            self._counts.pop(key, None)
            times, until = 0, now + 60
        self._counts[key] = times + 1, until
        return self._counts[key]


def _count_of_all(key: str) -> tuple[int, float]:
    """Count one for all servers on one PostgreSQL; return how many of its minute, and its end.

    It waits for no other writer and for no disk. Where it fails none is counted: what is answered
    is a refusal anyway.
    """
    from sqlalchemy.dialects.postgresql import insert

    now = int(time.time())
    row = {"digest": digest(key), "times": 1, "expires_at": now + 60}
    added = insert(Attempt).values(row)
    is_fresh = Attempt.expires_at > now
    counted = added.on_conflict_do_update(
        index_elements=[Attempt.digest],
        set_={
            "times": case((is_fresh, Attempt.times + 1), else_=1),
            "expires_at": case((is_fresh, Attempt.expires_at), else_=added.excluded.expires_at),
        },
    ).returning(Attempt.times, Attempt.expires_at)
    expired = (
        select(Attempt.digest).where(Attempt.expires_at <= now).limit(_SWEPT)
    ).with_for_update(skip_locked=True)
    try:
        with db.engine.begin() as connection:
            connection.execute(select(func.set_config("synchronous_commit", "off", True)))
            times, until = connection.execute(counted).one()
            if times == 1:
                connection.execute(delete(Attempt).where(Attempt.digest.in_(expired)))
    except database_errors():
        return 0, 0
    return times, until
