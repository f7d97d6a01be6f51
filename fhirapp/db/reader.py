"""Reading: one snapshot of the database for each request, in the driver's own SQL.

With SQLAlchemy's statement layer a search costs 45 µs more. To take a connection from its pool and
give it back costs 20 µs, and on PostgreSQL a statement that asks whether it is still there: those
that read are kept apart.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from flask import g
from sqlalchemy import Engine
from sqlalchemy.pool import PoolProxiedConnection

from fhirapp.db.base import db
from fhirapp.db.generation import generation


def quoted(name: str) -> str:
    """Return a table's name as SQL writes it: `binary` is a reserved word."""
    return f'"{name}"'


# Of one query: what takes longer is logged.
SLOW_SECONDS = 1.0
_log = logging.getLogger(__name__)
# Connections that nobody reads with now: as many as read at once. None goes back to the pool.
SPARES: MutableMapping[Engine, list[PoolProxiedConnection]] = WeakKeyDictionary()


class Reader:
    """One snapshot of the database, read in the driver's SQL with `?` for each value."""

    def __init__(self, engine: Engine) -> None:
        # How long its queries took together.
        self.seconds = 0.0
        self._generation: int | None = None
        self._is_sqlite = engine.dialect.name == "sqlite"
        self._spares = SPARES.setdefault(engine, [])
        self._errors = engine.dialect.loaded_dbapi.Error
        while self._spares:
            try:
                self._begin(self._spares.pop())
            except IndexError:
                # Another thread has taken it.
                break
            except self._errors:
                # The server was restarted since it was used.
                self._pooled.invalidate()
                del self._pooled
            else:
                return
        self._begin(engine.raw_connection())

    def _begin(self, pooled: PoolProxiedConnection) -> None:
        self._pooled = pooled
        driver: Any = pooled.driver_connection
        self._driver = driver
        if self._is_sqlite:
            driver.execute("BEGIN")
        else:
            # Else the driver begins with a statement of its own.
            driver.autocommit = True
            driver.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def all(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return every row."""
        if not self._is_sqlite:
            sql = sql.replace("?", "%s")
        began = time.perf_counter()
        rows: list[tuple[Any, ...]] = self._driver.execute(sql, values).fetchall()
        passed = time.perf_counter() - began
        self.seconds += passed
        if passed > SLOW_SECONDS:
            self._tell_slow(sql, values, passed)
        return rows

    def _tell_slow(self, sql: str, values: Sequence[Any], seconds: float) -> None:
        """Log a query that took long with its plan, and never with its values."""
        lines = ""
        # PostgreSQL's plans hold them.
        if self._is_sqlite and sql.lstrip().startswith(("SELECT", "WITH")):
            plan = self._driver.execute(f"EXPLAIN QUERY PLAN {sql}", values)
            lines = "".join(f"; {step[3]}" for step in plan)
        _log.warning("a query took %.1f s: %s%s", seconds, " ".join(sql.split()), lines)

    def first(self, sql: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """Return the first row, None where there is none."""
        rows = self.all(sql, values)
        return rows[0] if rows else None

    def generation(self) -> int:
        """Return the data's generation, which every writing of records raises."""
        if self._generation is None:
            row = self.first("SELECT value FROM store_state WHERE name = 'generation'")
            self._generation = int(row[0]) if row else 0
        return self._generation

    def slice(self, table: str, column: str, pk: int, start: int, size: int) -> bytes:
        """Return bytes of a row's binary column from start on, without reading the others.

        At most size, fewer at the end. The row must be there.
        """
        if self._is_sqlite:
            # Not substr(), for which SQLite reads the whole value.
            with self._driver.blobopen(table, column, pk, readonly=True) as blob:
                blob.seek(start)
                found: bytes = blob.read(size)
                return found
        # In binary: as text, bytes are twice as long and take five times as long.
        ((found,),) = self._driver.execute(
            f"SELECT substring({quoted(column)} FROM %s FOR %s) FROM {quoted(table)} WHERE pk = %s",
            (start + 1, size, pk),
            binary=True,
        )
        return found

    def plan(self, sql: str, values: Sequence[Any]) -> list[str]:
        """Return the lines of the database's query plan of a SELECT, indented."""
        if not self._is_sqlite:
            # Without costs: their estimates reveal how many rows there are.
            return [line for (line,) in self.all(f"EXPLAIN (COSTS FALSE) {sql}", values)]
        depths: dict[int, int] = {}
        lines = []
        for number, parent, _unused, text in self.all(f"EXPLAIN QUERY PLAN {sql}", values):
            depths[number] = depths.get(parent, -1) + 1
            lines.append(f"{'  ' * depths[number]}{text}")
        return lines

    def close(self) -> None:
        """End the snapshot and give the connection back."""
        try:
            self._driver.rollback()
        except self._errors:
            self._pooled.invalidate()
        else:
            self._spares.append(self._pooled)


_READER = "reader"


def reader() -> Reader:
    """Return this request's snapshot, taken at the first call."""
    found: Reader | None = g.get(_READER)
    if found is None:
        # Before the snapshot is taken: what is committed between the two is not in it.
        g.read_since = generation().now()
        found = g.reader = Reader(db.engine)
    return found


def read_since() -> bytes:
    """Return the generation of this request's snapshot, taking it now if there is none."""
    reader()
    since: bytes = g.read_since
    return since


def forget_reader(_error: BaseException | None = None) -> None:
    """Close this request's snapshot; the next reader() sees what was committed since."""
    found: Reader | None = g.pop(_READER, None)
    if found is not None:
        add_seconds(found.seconds)
        found.close()


_SECONDS, _CACHES = "database_seconds", "caches"


def add_seconds(seconds: float) -> None:
    """Note that this request, or command, used the database so long."""
    setattr(g, _SECONDS, g.get(_SECONDS, 0.0) + seconds)


def database_seconds() -> float:
    """Return how long this request has used the database."""
    seconds: float = g.get(_SECONDS, 0.0)
    found: Reader | None = g.get(_READER)
    return seconds + (found.seconds if found else 0.0)


def note_cache(name: str, *, hit: bool) -> None:
    """Note that this request looked into a cache of what was read, and whether it was there."""
    caches: dict[str, bool] = g.setdefault(_CACHES, {})
    caches[name] = hit


def caches_used() -> Mapping[str, bool]:
    """Return into which caches this request looked, and what it found there."""
    found: Mapping[str, bool] = g.get(_CACHES, {})
    return found


def forget_spares(engine: Engine) -> None:
    """Close the connections that are kept for an engine, when it is disposed of."""
    for spare in SPARES.pop(engine, ()):
        spare.detach()
        spare.close()
