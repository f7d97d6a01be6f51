"""The audit trail in PostgreSQL: a chain of lines for each process that writes, joined by heads.

Several servers append to one table and never wait for each other: a chain is of one process, one
connection and one day. Its name is in the digest that its first line follows, so that no line can
be moved to another chain; and each head names the last line of every chain that went on since the
heads before it, so that a chain whose end was cut off, or that was removed, is missed by others.

A line is one INSERT, which is committed before what it tells is answered. It waits for no lock of
the records. After an error nobody knows whether the last line is there: a new chain is begun.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import cached_property
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Engine,
    Identity,
    Index,
    NullPool,
    UniqueConstraint,
    create_engine,
    func,
    insert,
    make_url,
    select,
    text,
)
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.orm import Mapped, mapped_column

from fhirapp.db import Base, RowNumber, connect_args
from fhirapp.trail.chain import Head, Trail

# What the lines that are brought in from files have below it.
FIRST_NUMBER = 1_000_000_000_000
# The day (UTC) by the clock that all servers share.
TODAY: ColumnElement[str] = func.to_char(func.timezone("UTC", func.now()), "YYYY-MM-DD")
# Held by who loads lines for the pages, removes old ones or brings files in: an arbitrary number.
LOCK = 0x61756474
# Heads that a head looks back over: more than are written while a line is being committed.
_HEADS_BACK = 8
# After the database could not be reached, how long nobody tries.
_PAUSE_SECONDS = 1.0
_STATEMENT_SECONDS = 10
_COLUMNS = ("chain", "n", "hash", "is_head", "line")
_NO_NAME = re.compile(r"[^A-Za-z0-9]+")


class AuditLine(Base):
    """A line of a chain, as its bytes; pk numbers the lines of all chains."""

    __tablename__ = "audit_line"
    pk: Mapped[int] = mapped_column(RowNumber, Identity(start=FIRST_NUMBER), primary_key=True)
    chain: Mapped[str]
    n: Mapped[int] = mapped_column(BigInteger)
    # Empty for what was torn off in a file.
    hash: Mapped[str]
    is_head: Mapped[bool]
    line: Mapped[bytes]
    __table_args__ = (
        UniqueConstraint("chain", "n", name="uq_audit_line_place"),
        Index("ix_audit_line_head", "pk", postgresql_where=text("is_head")),
    )


class AuditChain(Base):
    """A chain, how many of its lines can be asked for, and whether no more will come."""

    __tablename__ = "audit_chain"
    name: Mapped[str] = mapped_column(primary_key=True)
    done: Mapped[int] = mapped_column(BigInteger)
    is_over: Mapped[bool]
    __table_args__ = (Index("ix_audit_chain_open", "name", postgresql_where=text("NOT is_over")),)


class AuditEntryRow(Base):
    """What a line tells, by which pages and programs ask; number is the line's pk."""

    __tablename__ = "audit_entry"
    number: Mapped[int] = mapped_column(RowNumber, primary_key=True)
    at: Mapped[str]
    user_id: Mapped[str | None]
    client_id: Mapped[str | None]
    via: Mapped[str]
    method: Mapped[str]
    path: Mapped[str]
    body: Mapped[str]
    status: Mapped[int]
    milliseconds: Mapped[float]
    served: Mapped[str]
    request_id: Mapped[str]
    event: Mapped[str]
    about: Mapped[str]
    address: Mapped[str]
    __table_args__ = (
        Index("ix_audit_entry_user", "user_id", "number"),
        Index("ix_audit_entry_client", "client_id", "number"),
        Index("ix_audit_entry_event", "event", "number", postgresql_where=text("event <> ''")),
        Index("ix_audit_entry_request", "request_id"),
        Index("ix_audit_entry_about", "about", "number", postgresql_where=text("about <> ''")),
    )


class AuditSeen(Base):
    """A patient whom an entry is about."""

    __tablename__ = "audit_seen"
    patient_id: Mapped[str] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    __table_args__ = (Index("ix_audit_seen_entry", "number"),)


class AuditFile(Base):
    """What is kept beside the trail: the patients of an export, the settings of the last start."""

    __tablename__ = "audit_file"
    name: Mapped[str] = mapped_column(primary_key=True)
    content: Mapped[bytes]


MODELS = (AuditLine, AuditChain, AuditEntryRow, AuditSeen, AuditFile)


def beginning(chain: str) -> Head:
    """Return what the first line of a chain follows."""
    return Head(0, hashlib.sha256(chain.encode()).hexdigest())


def day_of(chain: str) -> str:
    """Return the day (UTC) on which a chain was begun; chains sort by it."""
    return chain[:10]


class TableTrail(Trail):
    """The trail in PostgreSQL; sign returns the line of a head of a chain, which names others."""

    def __init__(
        self, url: str, sign: Callable[[Head, str, Mapping[str, Head]], dict[str, Any]]
    ) -> None:
        super().__init__()
        self._url, self._sign = url, sign
        self._connection: Connection | None = None
        # What is below it.
        self._driver: Any = None
        self._chain_name, self._pid, self._today = "", 0, date.min
        self._failed_at = 0.0
        # Lines of files that were brought in, which the next head names.
        self.brought: dict[str, Head] = {}
        # Of a process before this one, which still uses them.
        self._inherited: list[Connection] = []

    def put(self, name: str, content: bytes) -> None:
        """Write a row."""
        from sqlalchemy.dialects import postgresql

        row = postgresql.insert(AuditFile).values(name=name, content=content)
        with self._errors(), self._engine.connect() as connection:
            connection.execute(
                row.on_conflict_do_update(
                    index_elements=[AuditFile.name], set_={"content": row.excluded.content}
                )
            )

    def get(self, name: str) -> bytes | None:
        """Read a row."""
        with self._errors(), self._engine.connect() as connection:
            query = select(AuditFile.content).where(AuditFile.name == name)
            return connection.execute(query).scalar()

    def size(self) -> int:
        """Count the tables' bytes, with their indexes."""
        sizes = [func.pg_total_relation_size(model.__tablename__) for model in MODELS]
        with self._errors(), self._engine.connect() as connection:
            return sum(connection.execute(select(*sizes)).one())

    def why_unwritable(self) -> str:
        """Look at the last failed line, at the rights, and whether this is a standby server."""
        if self.failure:
            return self.failure
        table = AuditLine.__tablename__
        right = func.has_table_privilege(table, "INSERT")
        try:
            with self._errors(), self._engine.connect() as connection:
                may, is_standby = connection.execute(select(right, func.pg_is_in_recovery())).one()
        except OSError as error:
            return str(error.strerror)
        if is_standby:
            return "the database is a standby server, which cannot be written"
        return "" if may else f"no right to write {table}"

    def close(self) -> None:
        """End this process's chain; the next line begins another."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._pid == os.getpid():
            # Closed without a rollback first, which a connection that was lost would refuse.
            connection.invalidate()
            connection.close()
        else:
            self._inherited.append(connection)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        with self._errors():
            if self._pid != os.getpid() or self._today != datetime.now(UTC).date():
                self.close()
            if self._connection is None:
                self._begin()
            yield

    @property
    def _is_at_begin(self) -> bool:
        return self._head.number == 0

    def _append(self, line: dict[str, Any]) -> None:
        is_new = self._is_at_begin
        try:
            super()._append(line)
        except self._failures:
            if is_new:
                raise
            # The server was started anew meanwhile, or somebody put a line into this chain.
            self.close()
            self._begin()
            super()._append(line)

    def _signed(self) -> dict[str, Any]:
        others = self._others() | self.brought
        line = self._sign(self._head, self._chain_name, others)
        self.brought = {}
        return line

    def _forget(self) -> None:
        self.close()
        # What is refused in the pause does not begin another: it would never end under a load.
        if not self._is_pausing:
            self._failed_at = time.monotonic()

    @property
    def _is_pausing(self) -> bool:
        return bool(self.failure) and time.monotonic() - self._failed_at < _PAUSE_SECONDS

    def _store(self, head: Head, line: bytes, *, is_head: bool) -> None:
        values = (self._chain_name, head.number, head.digest, is_head, line)
        self._driver.execute(self._insert, dict(zip(_COLUMNS, values, strict=True)))

    def _begin(self) -> None:
        """Begin a chain on a connection of its own."""
        if self._is_pausing:
            # Who waits for an address that does not answer keeps all others waiting.
            raise OSError(errno.EIO, self.failure)
        connection = self._engine.connect()
        self._pid, self._today = os.getpid(), datetime.now(UTC).date()
        self._connection = connection
        self._driver = connection.connection.driver_connection
        seconds = f"{_STATEMENT_SECONDS}s"
        settings = select(func.set_config("statement_timeout", seconds, False), TODAY)
        _, day = connection.execute(settings).one()
        host = _NO_NAME.sub("-", socket.gethostname())[:30]
        self._chain_name = f"{day}-{host}-{secrets.token_hex(6)}"
        connection.execute(insert(AuditChain).values(name=self._chain_name, done=0, is_over=False))
        self._head = beginning(self._chain_name)

    def _others(self) -> dict[str, Head]:
        """Return the last line of each other chain that went on since the heads before."""
        from sqlalchemy.dialects import postgresql

        assert self._connection is not None
        heads = select(AuditLine.pk).where(AuditLine.is_head).order_by(AuditLine.pk.desc())
        since = heads.offset(_HEADS_BACK).limit(1).scalar_subquery()
        last = (
            select(AuditLine.chain, AuditLine.n, AuditLine.hash)
            .ext(postgresql.distinct_on(AuditLine.chain))
            .where(
                AuditLine.pk >= func.coalesce(since, FIRST_NUMBER),
                AuditLine.chain != self._chain_name,
            )
            .order_by(AuditLine.chain, AuditLine.n.desc())
        )
        return {row.chain: Head(row.n, row.hash) for row in self._connection.execute(last)}

    @cached_property
    def _engine(self) -> Engine:
        return create_engine(
            self._url,
            poolclass=NullPool,
            isolation_level="AUTOCOMMIT",
            # Lines hold what was searched for.
            hide_parameters=True,
            connect_args=connect_args(make_url(self._url), application_name="fhirapp audit"),
        )

    @cached_property
    def _insert(self) -> str:
        """The INSERT of a line in SQL: through SQLAlchemy it takes four times as long."""
        line = insert(AuditLine).inline()
        return str(line.compile(dialect=self._engine.dialect, column_keys=_COLUMNS))

    @cached_property
    def _failures(self) -> tuple[type[Exception], ...]:
        return (SQLAlchemyError, self._engine.dialect.loaded_dbapi.Error)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise OSError for what the database raises."""
        try:
            yield
        except self._failures as error:
            cause = error.orig if isinstance(error, DBAPIError) else error
            reason = str(cause).strip().splitlines()
            raise OSError(errno.EIO, reason[0] if reason else type(cause).__name__) from error
