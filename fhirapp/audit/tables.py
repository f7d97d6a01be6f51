"""What a trail in PostgreSQL is asked by: tables there, which lines are loaded into.

Whoever asks loads what is new, chain by chain, one after the other. A line has the same number for
all servers, which is the order in which lines were written, but for those of the same moment.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    bindparam,
    delete,
    exists,
    func,
    insert,
    lateral,
    select,
    true,
    update,
)

from fhirapp.audit.lines import COLUMNS, parsed, rows_of
from fhirapp.db import Reader, db
from fhirapp.trail.table import LOCK, AuditChain, AuditEntryRow, AuditLine, AuditSeen

# As read.py names them.
_NAMED = "WITH entry AS (SELECT * FROM audit_entry), seen AS (SELECT * FROM audit_seen) "
_AT_ONCE = 2_000
# How long a page waits for another that loads lines.
_PATIENCE_SECONDS = 10
# Days after which no process appends to a chain any more: each begins another every day.
_DAYS_OPEN = 2

# Each line that was loaded, with its entry.
_COMPARED = (
    f"SELECT l.pk, l.chain, l.n, l.line, {', '.join(f'e.{name}' for name in COLUMNS)}"
    " FROM audit_line l JOIN audit_chain c ON c.name = l.chain AND l.n <= c.done"
    " LEFT JOIN audit_entry e ON e.number = l.pk WHERE l.pk > ? ORDER BY l.pk LIMIT ?"
)


def rows(sql: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return a query's rows, after what is new was loaded."""
    load()
    # Not the request's snapshot, which may be older.
    with closing(Reader(db.engine)) as snapshot:
        return snapshot.all(_NAMED + sql, values)


def load() -> None:
    """Load every line that has been written until now."""
    while _is_behind():
        with db.engine.begin() as connection:
            patience = func.set_config("lock_timeout", f"{_PATIENCE_SECONDS}s", True)
            connection.execute(select(patience))
            connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
            _load_some(connection)


def mend() -> list[str]:
    """Compare the tables with the lines, and say where they tell otherwise; then load all anew.

    Whoever may write the database could hide there who looked at what, and leave the lines alone.
    """
    load()
    found: list[str] = []
    with closing(Reader(db.engine)) as snapshot:
        last = 0
        while rows := snapshot.all(_COMPARED, (last, _AT_ONCE)):
            found += _differences(snapshot, rows)
            last = rows[-1][0]
        strange = snapshot.all(
            "SELECT number FROM audit_entry e WHERE NOT EXISTS"
            " (SELECT 1 FROM audit_line l WHERE l.pk = e.number) ORDER BY number"
        )
    found += [f"the pages show an entry, {number}, that no line tells" for (number,) in strange]
    if found:
        with db.engine.begin() as connection:
            connection.execute(select(func.pg_advisory_xact_lock(LOCK)))
            connection.execute(delete(AuditSeen))
            connection.execute(delete(AuditEntryRow))
            connection.execute(update(AuditChain).values(done=0, is_over=False))
        load()
    return found


def _differences(snapshot: Reader, rows: Sequence[Any]) -> Iterator[str]:
    places = {pk: f"chain {chain}, line {n}" for pk, chain, n, *_ in rows}
    lines = {pk: entry for pk, _, _, line, *_ in rows if (entry := parsed(line)) is not None}
    # By what was read: entries that are missing have no number.
    shown = {row[0]: row[4:] for row in rows if row[4] is not None}
    entries, whose = rows_of([*lines.items()])
    expected = {entry[0]: entry for entry in entries}
    pairs = {
        (patient_id, number)
        for patient_id, number in snapshot.all(
            "SELECT patient_id, number FROM audit_seen WHERE number BETWEEN ? AND ?",
            (rows[0][0], rows[-1][0]),
        )
    }
    missing = {number for patient_id, number in whose if (patient_id, number) not in pairs}
    for pk, place in places.items():
        if shown.get(pk) != expected.get(pk) or pk in missing:
            yield f"{place}: the pages show something else than it tells"


def _new() -> Select[str, int, int, bytes]:
    """Return the next lines of the chains that go on, from where each was loaded."""
    line = lateral(
        select(AuditLine.pk, AuditLine.n, AuditLine.line)
        .where(AuditLine.chain == AuditChain.name, AuditLine.n > AuditChain.done)
        .order_by(AuditLine.n)
        .limit(_AT_ONCE)
    )
    return (
        select(AuditChain.name, line.c.pk, line.c.n, line.c.line)
        .select_from(AuditChain)
        .join(line, true())
        .where(~AuditChain.is_over)
        .order_by(line.c.pk)
        .limit(_AT_ONCE)
    )


def _is_behind() -> bool:
    newer = (
        exists()
        .where(AuditLine.chain == AuditChain.name, AuditLine.n > AuditChain.done)
        .correlate(AuditChain)
    )
    query = select(AuditChain.name).where(~AuditChain.is_over, newer).limit(1)
    with db.engine.connect() as connection:
        return connection.execute(query).first() is not None


def _load_some(connection: Connection) -> None:
    found = connection.execute(_new()).all()
    lines = [(row.pk, line) for row in found if (line := parsed(row.line)) is not None]
    entries, seen = rows_of(lines)
    if entries:
        rows = [dict(zip(COLUMNS, entry, strict=True)) for entry in entries]
        connection.execute(insert(AuditEntryRow), rows)
    if seen:
        pairs = [{"patient_id": patient_id, "number": number} for patient_id, number in seen]
        connection.execute(insert(AuditSeen), pairs)
    done = {row.name: row.n for row in found}
    if done:
        connection.execute(
            update(AuditChain)
            .where(AuditChain.name == bindparam("chain"))
            .values(done=bindparam("last")),
            [{"chain": chain, "last": last} for chain, last in done.items()],
        )
    if len(found) < _AT_ONCE:
        today = func.timezone("UTC", func.now())
        day = func.to_char(today - func.make_interval(0, 0, 0, _DAYS_OPEN), "YYYY-MM-DD")
        over = update(AuditChain).where(~AuditChain.is_over, AuditChain.name < day)
        connection.execute(over.values(is_over=True))
