"""Damage of SQLite's file: checked before the server answers, or meanwhile where it is large."""

from __future__ import annotations

import logging
import sqlite3
from pathlib import Path
from threading import Thread

from fhirapp.config import ConfigurationError
from fhirapp.db.sqlite_file import integrity_faults, is_damage, opened
from fhirapp.disk import reason_of, sibling
from fhirapp.file_locks import lock

# A file up to this size is checked before the server answers.
_CHECKED_FIRST = 128 * 1024 * 1024
_MAGIC = b"SQLite format 3\0"
_log = logging.getLogger(__name__)


def check_before(database: Path) -> None:
    """Check a SQLite file before it is served. Raises ConfigurationError if it is damaged.

    A large one is left to check_meanwhile().
    """
    _note(database).unlink(missing_ok=True)
    is_checked = _is_sqlite(database) and database.stat().st_size <= _CHECKED_FIRST
    if is_checked and (fault := fault_of(database)):
        raise ConfigurationError(f"The database {database} is damaged ({fault}); restore a backup.")


def check_meanwhile(database: Path) -> Thread | None:
    """Check a large file in a thread of one of the server's processes; return the thread.

    The result is written beside the file, for all processes.
    """
    if not database.exists() or database.stat().st_size <= _CHECKED_FIRST:
        return None

    def check() -> None:
        try:
            with lock(sibling(database, ".checking"), wait=False, create=True) as is_ours:
                if is_ours is False:
                    return
                if fault := fault_of(database):
                    _log.error("the database %s is damaged: %s", database, fault)
                    _note(database).write_text(fault, encoding="utf-8")
        except OSError as error:
            _log.warning("the database is not checked: %s", reason_of(error))

    thread = Thread(target=check, name="check of the database", daemon=True)
    thread.start()
    return thread


def known_damage(database: Path) -> str:
    """Return the fault that check_meanwhile() found, empty if none."""
    try:
        return _note(database).read_text(encoding="utf-8")
    except OSError:
        return ""


def fault_of(database: Path) -> str:
    """Return the first fault that SQLite finds in a file; empty if it finds none.

    A file that is locked, or cannot be read now, is not damaged.
    """
    try:
        with opened(database) as connection:
            return next(iter(integrity_faults(connection.execute, quick=True)), "")
    except sqlite3.Error as error:
        if is_damage(error):
            return reason_of(error)
        _log.warning("the database %s cannot be checked: %s", database, reason_of(error))
        return ""


def _is_sqlite(path: Path) -> bool:
    """Return whether a file is SQLite's. Others are refused elsewhere."""
    try:
        with path.open("rb") as file:
            return file.read(len(_MAGIC)) == _MAGIC
    except OSError:
        return False


def _note(database: Path) -> Path:
    return sibling(database, ".damaged")
