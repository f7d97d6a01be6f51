"""The size of the database, by the purpose of its tables, and the free space of its disk."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from flask import current_app

from fhirapp.config import settings
from fhirapp.db import db, reader
from fhirapp.definition import types
from fhirapp.disk import beside, database_path
from fhirapp.ops.check import one_snapshot
from fhirapp.search.fulltext import words_table
from fhirapp.trail import trail_of
from fhirapp.web.texts import _, numeral

RECORDS, VERSIONS, ATTACHMENTS = _("records"), _("earlier versions"), _("attachments")
INDEXES, FULL_TEXT, AUDIT, ACCOUNTS = (
    _("indexes"),
    _("full text"),
    _("audit trail"),
    _("users, apps"),
)
JOBS, FREE, OWN, OTHER = _("jobs, imports"), _("free"), _("log, catalogs"), _("other data")
# In the page's order, each with what is in it.
GROUPS: Mapping[str, str] = {
    RECORDS: _("current versions"),
    VERSIONS: _("changed and deleted versions (estimated by their share)"),
    ATTACHMENTS: _("the content of documents (Binary), in all versions"),
    INDEXES: _("for searches"),
    FULL_TEXT: _("full-text index of notes and documents"),
    AUDIT: _("the trail and its index"),
    ACCOUNTS: _("users, sessions, apps, consents, tokens, refusals"),
    JOBS: _("background jobs, schedules, import state, uploads"),
    FREE: _("space of removed data, reused before the file grows"),
    OWN: _("the database's own data: write-ahead log, catalogs"),
    OTHER: _("settings, last errors, lessons"),
}
# By how a table's name begins.
_PREFIXES: Mapping[str, str] = {
    "auth_": ACCOUNTS,
    "oauth_": ACCOUNTS,
    "server_secret": ACCOUNTS,
    "audit_": AUDIT,
    "job": JOBS,
    "schedule": JOBS,
    "import_": JOBS,
    "upload_": JOBS,
    "sqlite_": OWN,
}
_MARKS = ("ix_", "uq_", "sqlite_autoindex_")
# For counting versions; asked between types.
_COUNT_SECONDS = 2.0
# To say what a page of the file belongs to, SQLite reads them all: a second for this.
MOST_BYTES = 2_000_000_000


class Storage(NamedTuple):
    """Bytes by group, all together, free on the disk (None where nobody knows), and when that was.

    Of a SQLite file that is too large to be looked through groups have audit alone.
    """

    groups: Mapping[str, int]
    total: int
    free: int | None
    at: int


def sized(count: float) -> str:
    """Return a number of bytes as people read it."""
    for unit in (_("bytes"), "kB", "MB"):
        if count < 1000:
            digits = 0 if unit == _("bytes") or count >= 100 else 1
            return f"{numeral(count, digits)} {unit}"
        count /= 1000
    return f"{numeral(count, 1)} GB"


def storage() -> Storage:
    """Measure now."""
    database = database_path(settings())
    audit = trail_of(current_app).size()
    if database is None:
        tables, size = _postgresql()
        # The trail counts its own.
        tables = {name: taken for name, taken in tables.items() if not _is_of_trail(name)}
        size -= audit
        free = None
    else:
        log = beside(database, "-wal")
        size = database.stat().st_size + (log.stat().st_size if log.exists() else 0)
        tables = _sqlite() if size <= MOST_BYTES else {}
        free = shutil.disk_usage(database.parent).free
    groups = Counter({AUDIT: audit})
    if tables:
        groups.update(_grouped(tables, _earlier_shares()))
        # Nothing else is in the files: SQLite's log, PostgreSQL's catalogs.
        groups[OWN] += max(0, size - sum(tables.values()))
        size = groups.total() - audit
    ordered = {name: groups[name] for name in GROUPS if groups[name] or name == AUDIT}
    return Storage(ordered, size + audit, free, int(time.time()))


def _earlier_shares(budget: float = _COUNT_SECONDS) -> Mapping[str, float]:
    """Return by table which part of its rows are earlier versions, as far as time allows."""
    end = time.monotonic() + budget
    shares: dict[str, float] = {}
    for one in types().values():
        if time.monotonic() < end:
            sql = f"SELECT count(*), count(CASE WHEN is_current THEN 1 END) FROM {one.sql_table}"
            ((every, current),) = reader().all(sql)
            shares[one.table.name] = 1 - current / every if every else 0.0
    return shares


def _sqlite() -> Mapping[str, int]:
    """Return the bytes of each table and index, and of free pages."""
    # Not by reader(), whose way to read would make the whole file this process's memory.
    with one_snapshot(db.engine) as connection:
        rows = connection.exec_driver_sql("SELECT name, pgsize FROM dbstat WHERE aggregate = TRUE")
        tables = {name: int(size) for name, size in rows}
        (free,) = connection.exec_driver_sql("PRAGMA freelist_count").one()
        (page,) = connection.exec_driver_sql("PRAGMA page_size").one()
        return {**tables, FREE: free * page}


def _postgresql() -> tuple[Mapping[str, int], int]:
    """Return the bytes of each table and index, long values with their table; and of all."""
    rows = reader().all(
        "SELECT c.relname, CASE c.relkind WHEN 'r' THEN pg_table_size(c.oid)"
        " ELSE pg_relation_size(c.oid) END FROM pg_class c JOIN pg_namespace n"
        " ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind IN ('r', 'i')"
    )
    ((size,),) = reader().all("SELECT pg_database_size(current_database())")
    return {name: int(bytes_) for name, bytes_ in rows}, int(size)


def _grouped(tables: Mapping[str, int], earlier: Mapping[str, float]) -> Counter[str]:
    """Return the bytes of the groups of tables and indexes; earlier are shares of versions."""
    words = [words_table(one.tables).strip('"') for one in types().values() if one.has_words]
    records = {one.table.name for one in types().values()}
    values = {table.name for one in types().values() for table in one.tables}
    groups: Counter[str] = Counter()
    for name, size in tables.items():
        # FTS5 keeps its words in tables of its own; PostgreSQL has indexes on ours.
        bare = next((name.removeprefix(one) for one in _MARKS if name.startswith(one)), name)
        is_index = bare != name or name.endswith("_pkey")
        prefixes = (group for one, group in _PREFIXES.items() if bare.startswith(one))
        if name == FREE:
            groups[FREE] += size
        elif any(bare == table or bare.startswith(f"{table}_") for table in words):
            groups[FULL_TEXT] += size
        elif name == types()["Binary"].table.name:
            groups[ATTACHMENTS] += size
        elif name in records:
            before = int(size * earlier.get(name, 0.0))
            groups.update({VERSIONS: before, RECORDS: size - before})
        elif name in values or (is_index and any(bare.startswith(f"{one}_") for one in records)):
            groups[INDEXES] += size
        else:
            groups[next(prefixes, OTHER)] += size
    return groups


def _is_of_trail(name: str) -> bool:
    """Say whether a table or index of PostgreSQL's is the audit trail's."""
    return name.removeprefix("ix_").removeprefix("uq_").startswith("audit_")
