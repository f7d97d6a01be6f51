"""The read replicas of PostgreSQL, and how each is: records.py reads there.

How far a replica is behind is measured by what is read there, the data's generation, which every
writing of records raises. A replica with the generation that the primary had a moment before lacks
nothing, however long the primary was idle (`pg_last_xact_replay_timestamp()` grows all the same),
and however much else it writes (positions in its log would differ). One with an older generation
has what was committed up to the last transaction that it replayed, by the primary's clock. One that
receives nothing is counted from then on: after a failover it may hold what the new primary never
had. docs/decisions.md, "Read replicas".
"""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from datetime import datetime
from itertools import count
from threading import Event, Thread
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary, ref

from sqlalchemy import URL, Engine, create_engine, event
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from fhirapp.config import Settings
from fhirapp.db.base import connect_args
from fhirapp.db.reader import Reader, forget_spares

# How a replica is: one that is behind is used again by itself, one that is refused is none of ours.
USED, BEHIND, AWAY, REFUSED = "used", "behind", "unreachable", "refused"

# How often each is looked at, and how long a look may take.
_LOOK_SECONDS, LOOK_TAKES = 1.0, 3.0
_NEW = "was not looked at yet"
_STATE = (
    "SELECT c.system_identifier, d.oid, CAST(CAST('store_state' AS regclass) AS oid),"
    " (SELECT version_num FROM alembic_version),"
    " CAST(coalesce((SELECT value FROM store_state WHERE name = 'generation'), '0') AS bigint),"
    " pg_is_in_recovery(), EXISTS (SELECT FROM pg_stat_wal_receiver),"
    " clock_timestamp(), pg_last_xact_replay_timestamp()"
    " FROM pg_control_system() c, pg_database d WHERE d.datname = current_database()"
)
_log = logging.getLogger(__name__)


class AskPrimary(Exception):
    """A replica cannot answer this; the primary can. Nothing of the answer was sent yet."""


class Lost(AskPrimary):
    """The replica does not answer at all."""


class _State(NamedTuple):
    """What a server says of itself; replayed is the time of the last transaction, by its origin."""

    system: int
    database: int
    # Another one after a restore.
    table: int
    schema: str
    generation: int
    is_replica: bool
    is_connected: bool
    now: datetime
    replayed: datetime | None

    @classmethod
    def of(cls, snapshot: Reader) -> _State:
        return cls(*snapshot.all(_STATE)[0])


class Standing(NamedTuple):
    """How a replica is, for operators; lag in seconds, None where it is not known."""

    name: str
    state: str
    lag: float | None
    words: str


class Replica:
    """A replica, its connections, and what was last found of it."""

    def __init__(self, url: URL, settings: Settings) -> None:
        self.name = _shown(url)
        self._most = settings.replica_lag
        self.engine = create_engine(
            url,
            hide_parameters=True,
            pool_size=2 * settings.threads + 1,
            pool_timeout=1,
            # One that is gone is found out soon: others have the same.
            connect_args=connect_args(url, connect_timeout="1", tcp_user_timeout="2000"),
        )
        self.errors = (DBAPIError, PoolTimeoutError, self.engine.dialect.loaded_dbapi.Error)
        # By time.monotonic(): when it was last known to lack nothing, and when it was compared.
        self._complete_at: float | None = None
        self._compared_at = 0.0
        self._fault, self._reason = AWAY, _NEW
        self._look: Thread | None = None
        self._look_began = 0.0
        self._was_looked_at = Event()
        # A second handle of each connection's socket: its number cannot be another's meanwhile.
        self._lines: WeakKeyDictionary[Any, socket.socket] = WeakKeyDictionary()
        event.listen(self.engine, "connect", self._keep_line)
        event.listen(self.engine, "close", self._drop_line)
        event.listen(self.engine, "engine_disposed", forget_spares)

    def _keep_line(self, connection: Any, _record: object) -> None:
        line = socket.fromfd(connection.fileno(), socket.AF_UNIX, socket.SOCK_STREAM)
        self._lines[connection] = line

    def _drop_line(self, connection: Any, _record: object) -> None:
        if line := self._lines.pop(connection, None):
            line.close()

    def is_usable(self) -> bool:
        """Say whether records may be read here now."""
        lag = self._lag()
        return not self._fault and lag is not None and lag <= self._most

    def _lag(self) -> float | None:
        """Return for how many seconds it may lack something, None where that is not known."""
        return None if self._complete_at is None else time.monotonic() - self._complete_at

    def standing(self) -> Standing:
        """Return how it is."""
        if self._fault in (AWAY, REFUSED):
            return Standing(self.name, self._fault, None, self._reason)
        if not self.is_usable():
            reason = self._reason or "is not compared with the primary"
            return Standing(self.name, BEHIND, self._lag(), reason)
        return Standing(self.name, USED, self._compared_at - (self._complete_at or 0.0), "is used")

    def lost(self, error: Exception) -> None:
        """Leave it out until it is looked at again: it does not answer."""
        self._set(AWAY, f"does not answer ({_reason(error)})")

    def tend(self, primary: Engine) -> None:
        """Begin to look at it; cut it off where the last look does not end."""
        if self._look is None or not self._look.is_alive():
            self._look_began = time.monotonic()
            self._look = Thread(target=self._look_at, args=(primary,), daemon=True)
            self._look.start()
        elif time.monotonic() - self._look_began > LOOK_TAKES:
            self._set(AWAY, f"does not answer in {LOOK_TAKES:g} seconds")
            self._cut_off()

    def _cut_off(self) -> None:
        """End its connections: who waits for an answer on one asks the primary then."""
        for line in [*self._lines.values()]:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Close its connections."""
        if self._look is not None:
            self._look.join(LOOK_TAKES)
        self.engine.dispose()

    def await_look(self, seconds: float) -> None:
        """Wait until it was looked at, but not for long."""
        self._was_looked_at.wait(seconds)

    def _look_at(self, primary: Engine) -> None:
        try:
            began = time.monotonic()
            with closing(Reader(primary)) as snapshot:
                there = _State.of(snapshot)
            with closing(ReplicaReader(self)) as snapshot:
                here = _State.of(snapshot)
        except Lost:
            self._cut_off()
        except AskPrimary as error:
            # It has no such tables, or does not show them.
            self._set(REFUSED, f"cannot be read as a replica of this database ({error})")
        except self.errors:
            # Of the primary, so there is nothing to compare with. The lag grows meanwhile.
            _log.debug("the replica %s is not compared with the primary", self.name)
        else:
            self._compare(here, there, began)
        finally:
            self._was_looked_at.set()

    def _compare(self, here: _State, there: _State, began: float) -> None:
        if misfit := _misfit(here, there):
            self._set(REFUSED, misfit)
            return
        if here.is_connected and here.table == there.table and here.generation >= there.generation:
            self._complete_at = began
        elif here.replayed is not None:
            complete_at = began - (there.now - here.replayed).total_seconds()
            self._complete_at = max(self._complete_at or complete_at, complete_at)
        self._compared_at = began
        if self._complete_at is not None and began - self._complete_at <= self._most:
            self._set("", "")
        elif here.is_connected:
            self._set(BEHIND, "is behind the primary")
        else:
            self._set(BEHIND, "receives nothing from the primary")

    def _set(self, fault: str, reason: str) -> None:
        is_new = fault != self._fault or self._reason == _NEW
        self._fault, self._reason = fault, reason
        if is_new and fault:
            _log.warning("the replica %s is left out: it %s", self.name, reason)
        elif is_new:
            _log.info("the replica %s is used", self.name)


def _misfit(here: _State, there: _State) -> str:
    """Return why a server is no replica of the primary, empty where it is one."""
    if (here.system, here.database) != (there.system, there.database):
        return "is not a replica of this database, but has another"
    if not here.is_replica:
        return "is not a replica: it can be written to"
    if here.schema != there.schema:
        return f"has schema {here.schema}, and the primary {there.schema}"
    return ""


def _shown(url: URL) -> str:
    """Return the address of a server without who signs in there, and without a password."""
    host = url.host or url.query.get("host") or "localhost"
    return f"{host}{f':{url.port}' if url.port else ''}/{url.database or ''}"


def _reason(error: Exception) -> str:
    """Return the first line of what an error says; the driver's tells no password."""
    text = str(getattr(error, "orig", None) or error).strip()
    return text.splitlines()[0] if text else type(error).__name__


class ReplicaReader(Reader):
    """A snapshot of a replica. Raises AskPrimary for whatever the database raises."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        for is_last in (False, True):
            try:
                super().__init__(replica.engine)
            except replica.errors as error:
                if stale := vars(self).pop("_pooled", None):
                    stale.invalidate()
                    if not is_last:
                        # Kept by the pool since before the replica was restarted, as all may be.
                        replica.engine.dispose()
                        continue
                if not isinstance(error, PoolTimeoutError):
                    replica.lost(error)
                raise Lost(_reason(error)) from None
            return

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        try:
            return super().all(sql, values)
        except self._replica.errors as error:
            raise self._failed(error) from None

    def slice(self, table: str, column: str, pk: int, start: int, size: int) -> bytes:
        try:
            return super().slice(table, column, pk, start, size)
        except self._replica.errors as error:
            raise self._failed(error) from None

    def _failed(self, error: Exception) -> AskPrimary:
        if self._driver.closed:
            self._replica.lost(error)
            return Lost(_reason(error))
        # Of this query alone: perhaps what is replayed removes what it reads.
        return AskPrimary(_reason(error))

    def close(self) -> None:
        if self._driver.closed:
            self._pooled.invalidate()
        else:
            super().close()


class Replicas:
    """All replicas. From the first use on, a thread looks at them every second."""

    def __init__(self, urls: Sequence[URL], settings: Settings) -> None:
        self._all = [Replica(url, settings) for url in urls]
        self._turns = count()
        self._watch: Thread | None = None
        self._ended = Event()

    def open(self) -> ReplicaReader | None:
        """Return a snapshot of the next that can be used, None where none can."""
        usable = [replica for replica in self._all if replica.is_usable()]
        turn = next(self._turns)
        for place in range(len(usable)):
            with suppress(AskPrimary):
                return ReplicaReader(usable[(turn + place) % len(usable)])
        return None

    def watch(self, primary: Engine) -> None:
        """Look at them from now on, if nobody does."""
        # A process that was forked has no thread of its parent's.
        if self._watch is None or not self._watch.is_alive():
            self._ended.clear()
            watched = (ref(self), primary, self._ended)
            self._watch = Thread(target=_watch, args=watched, daemon=True)
            self._watch.start()

    def tend(self, primary: Engine) -> None:
        """Begin to look at each."""
        for replica in self._all:
            replica.tend(primary)

    def standings(self, seconds: float) -> list[Standing]:
        """Return how each is, after waiting up to seconds for a first look."""
        until = time.monotonic() + seconds
        for replica in self._all:
            replica.await_look(max(0.0, until - time.monotonic()))
        return [replica.standing() for replica in self._all]

    def end(self) -> None:
        """Look at them no more, and close their connections."""
        self._ended.set()
        if self._watch is not None:
            self._watch.join(LOOK_TAKES)
        for replica in self._all:
            replica.end()


def _watch(replicas: ReferenceType[Replicas], primary: Engine, ended: Event) -> None:
    """Look at replicas for as long as their app is there."""
    while not ended.is_set() and (watched := replicas()) is not None:
        watched.tend(primary)
        del watched
        ended.wait(_LOOK_SECONDS)
