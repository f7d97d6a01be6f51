"""A SQLite file beside the one that is served: copied, checked, its schema read."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fhirapp.config import ConfigurationError
from fhirapp.disk import need_space, reason_of, sibling, sync

# Of 16 kB: as many are copied at a time, so that the copy can be stopped between.
_PAGES = 1_000
_PATIENCE_SECONDS = 5
# Faults of a file that are listed.
_MOST_FAULTS = 20


@contextmanager
def opened(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a SQLite file that is there; nothing is made."""
    address = f"file:{quote(str(path))}?mode=rw"
    with closing(
        sqlite3.connect(address, uri=True, timeout=_PATIENCE_SECONDS, isolation_level=None)
    ) as connection:
        yield connection


def copy_database(source: Path, target: Path) -> None:
    """Copy a database into a new file. Raises ConfigurationError, and leaves no file then."""
    need_space(target.parent, _size(source), f"a copy of {source.name}")
    try:
        with opened(source) as reader, closing(sqlite3.connect(target)) as copy:
            # One snapshot for all pages: else SQLite begins again at each write of another.
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_master").fetchone()
            copy.execute("PRAGMA synchronous = OFF")
            reader.backup(copy, pages=_PAGES, sleep=0)
            # One file, without a log beside it.
            copy.execute("PRAGMA journal_mode = DELETE")
        target.chmod(0o600)
        sync(target)
    except (sqlite3.Error, OSError) as error:
        target.unlink(missing_ok=True)
        raise ConfigurationError(
            f"The database {source} cannot be copied into {target.parent} ({reason_of(error)})."
        ) from None


def _size(database: Path) -> int:
    """Return how many bytes a copy may take, the log's among them."""
    log = sibling(database, "-wal")
    return database.stat().st_size + (log.stat().st_size if log.exists() else 0)


def faults_of(path: Path) -> list[str]:
    """Return what SQLite finds wrong with a file, the first of it; nothing where it is whole."""
    try:
        with opened(path) as connection:
            return integrity_faults(connection.execute) + key_faults(connection.execute)
    except sqlite3.Error as error:
        return [reason_of(error)]


def integrity_faults(execute: Any, *, quick: bool = False) -> list[str]:
    """Return what SQLite's own check of pages, rows and indexes finds wrong."""
    pragma = "quick_check" if quick else "integrity_check"
    rows = execute(f"PRAGMA {pragma}({_MOST_FAULTS})").fetchall()
    # A row may have several lines, under the heading *** in database main ***.
    lines = [line for (text,) in rows for line in str(text).splitlines() if "***" not in line]
    return [] if lines == ["ok"] else lines


def is_damage(error: sqlite3.Error) -> bool:
    """Return whether an error means that a file is damaged, or is no database."""
    # The higher bits have the reason.
    return error.sqlite_errorcode & 0xFF in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)


def key_faults(execute: Any) -> list[str]:
    """Return which rows point to rows of another table that do not exist."""
    pairs = execute('SELECT DISTINCT "table", parent FROM pragma_foreign_key_check').fetchall()
    return [
        f"rows of {table} point to rows of {parent} that do not exist" for table, parent in pairs
    ]


def schema_of(path: Path) -> str | None:
    """Return the number of the schema of fhirapp's that a file has, None where it has none."""
    try:
        with opened(path) as connection:
            row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    except sqlite3.DatabaseError as error:
        # SQLITE_ERROR: there is no such table.
        if is_damage(error) or error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            return None
        raise
    return str(row[0]) if row else None
