"""Probes of the server itself; those of features are in their folders."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing

from flask import current_app
from sqlalchemy import func, select, text

from fhirapp import audit, config
from fhirapp.audit.seals import public_key
from fhirapp.audit.verify import verify
from fhirapp.auth.oauth import signing_keys
from fhirapp.auth.server_secrets import server_secrets
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.disk import database_path, sibling
from fhirapp.documents.extractor import Extractor, missing_confinement
from fhirapp.documents.media import Unreadable
from fhirapp.documents.ocr import why_unusable
from fhirapp.feature import N_
from fhirapp.features.health import address, readiness
from fhirapp.fhir.temporal import moment_of
from fhirapp.files import shared_files
from fhirapp.jobs import queue, schedules
from fhirapp.jobs.kinds import count_failed
from fhirapp.keys import key_of
from fhirapp.probe import GOOD, NOTE, WRONG, Bytes, Cost, Finding, Gauge, Moment, Probe
from fhirapp.server import live_settings
from fhirapp.server.integrity import fault_of

OLD_KEY_DAYS = 400
_DAY = 86_400
_LARGE_LOG = 256 * 1024 * 1024
# The disk is almost full if it has no room for a copy of the database, at most this much of it, and
# the logs.
_MOST_COPIED, _SPARE = 5_000_000_000, 500_000_000
_LEAST_INODES = 10_000
# A schedule that is due begins within seconds, a queued job mostly too.
_LATE_SECONDS = 900
_DATABASE_SIZE = N_("%(database)s; its size is %(size)s.")
_TABLE_BYTES, _TABLE_ROWS = 16 * 1024 * 1024, 10_000
# Large tables that were never analyzed, or of which half has changed since.
_UNANALYZED_TABLES = text(
    "SELECT c.relname FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid"
    " WHERE c.reltuples < 0 AND pg_relation_size(c.oid) > :bytes"
    " OR s.n_live_tup > :rows AND s.n_mod_since_analyze > s.n_live_tup / 2 ORDER BY c.relname"
)


def _readiness() -> Iterator[Finding | Gauge]:
    fault = readiness.fault()
    yield fault or Finding(GOOD, N_("The server can answer requests."))
    yield Gauge("ready", "Whether requests can be answered", not fault)


_SET_BY = {
    config.COMMAND_LINE: N_("Set on the command line: %(names)s."),
    config.ENVIRONMENT: N_("Set in the environment: %(names)s."),
    config.STORED: N_("Set on the Settings page: %(names)s."),
}


def _settings() -> Iterator[Finding]:
    origins = config.settings().origins
    for origin, template in _SET_BY.items():
        if names := [name for name, of in origins.items() if of == origin]:
            yield Finding(GOOD, template, values={"names": ", ".join(names)})
    if not origins:
        yield Finding(GOOD, N_("All settings have their defaults."))
    for name, reason in live_settings.chosen().ignored.items():
        yield Finding(
            NOTE,
            N_("The setting %(name)s of the Settings page has no effect: %(reason)s"),
            N_("Change it on that page, or reset it to the default."),
            "/admin/settings",
            {"name": name, "reason": reason},
        )


def _clock() -> Iterator[Finding]:
    """A version of the future was written by a clock that was ahead, or this one is behind."""
    newest = ""
    for definition in types().values():
        if definition.stores_body and not definition.view:
            column = definition.table.c.last_updated
            newest = max(newest, db.session.execute(select(func.max(column))).scalar() or "")
    if newest and moment_of(newest).timestamp() > time.time() + 60:
        text = N_("A record is dated %(time)s, which is in the future.")
        advice = N_(
            "Set this machine's clock by NTP. Until then, searches by _lastUpdated miss it."
        )
        yield Finding(WRONG, text, advice, values={"time": newest})
    else:
        text = N_("%(time)s; no record is dated in the future.")
        yield Finding(GOOD, text, values={"time": Moment(time.time())})


def _disk() -> Iterator[Finding | Gauge]:
    database = database_path(config.settings())
    size = database.stat().st_size if database and database.exists() else 0
    folders = (config.settings().instance, *([database.parent] if database else []))
    # Once for each disk.
    for folder in {each.stat().st_dev: each for each in folders}.values():
        free = shutil.disk_usage(folder).free
        values = {"folder": folder, "free": Bytes(free), "size": Bytes(size)}
        if free < size + _SPARE:
            text = N_("The disk of %(folder)s: %(free)s free, database size %(size)s.")
            advice = N_("A backup or an upgrade needs as much space as the database.")
            is_full = free < min(size, _MOST_COPIED) + _SPARE
            yield Finding(WRONG if is_full else NOTE, text, advice, values=values)
        else:
            yield Finding(GOOD, N_("The disk of %(folder)s: %(free)s free."), values=values)
        inodes = os.statvfs(folder).f_favail if hasattr(os, "statvfs") else 0
        # File systems that create inodes on demand report 0.
        if 0 < inodes < _LEAST_INODES:
            text = N_("The disk of %(folder)s has room for only %(count)s more files.")
            advice = N_("Delete files on this disk that you do not need.")
            yield Finding(WRONG, text, advice, values=values | {"count": inodes})
    free = shutil.disk_usage(config.settings().instance).free
    yield Gauge("disk_free_bytes", "Free space on the instance folder's disk", free)


def _database() -> Iterator[Finding | Gauge]:
    database = database_path(config.settings())
    if database is None:
        version, size = db.session.execute(
            select(func.version(), func.pg_database_size(func.current_database()))
        ).one()
        values = {"database": str(version).partition(" on ")[0], "size": Bytes(size)}
        yield Finding(GOOD, _DATABASE_SIZE, values=values)
        yield Gauge("database_bytes", "Size of the database", size)
        return
    size = database.stat().st_size
    name = f"SQLite {sqlite3.sqlite_version}, {database}"
    yield Finding(GOOD, _DATABASE_SIZE, values={"database": name, "size": Bytes(size)})
    yield Gauge("database_bytes", "Size of the database", size)
    log = sibling(database, "-wal")
    if log.exists() and log.stat().st_size > _LARGE_LOG:
        text = N_("The database's log (WAL) has %(size)s.")
        advice = N_("A reader has been open for long: look for an export or a backup that hangs.")
        yield Finding(NOTE, text, advice, values={"size": Bytes(log.stat().st_size)})
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'").fetchone():
            text = N_("The database has planner statistics, which become outdated.")
            advice = N_("Its indexes need none. In SQLite's shell, run DROP TABLE sqlite_stat1.")
            yield Finding(NOTE, text, advice)


def _planner_statistics() -> Iterator[Finding]:
    """Report the tables of PostgreSQL whose plans are guesses."""
    if database_path(config.settings()) is not None:
        return
    bounds = {"bytes": _TABLE_BYTES, "rows": _TABLE_ROWS}
    tables = db.session.execute(_UNANALYZED_TABLES, bounds).scalars().all()
    if tables:
        text = N_("Planner statistics are missing or outdated: %(tables)s.")
        advice = N_("Run ANALYZE, and check that autovacuum is on.")
        yield Finding(WRONG, text, advice, values={"tables": ", ".join(tables)})
    else:
        yield Finding(GOOD, N_("Planner statistics are up to date."))


def _damage() -> Iterator[Finding]:
    database = database_path(config.settings())
    if database and (fault := fault_of(database)):
        text = N_("The database %(path)s is damaged (%(fault)s).")
        advice = N_("Restore a backup: fhirapp restore.")
        yield Finding(WRONG, text, advice, values={"path": database, "fault": fault})


def _keys() -> Iterator[Finding]:
    for path in (
        config.settings().instance / config.SECRET_KEY,
        config.settings().instance / signing_keys.NAME,
    ):
        if path.exists() and path.stat().st_mode & 0o077:
            text = N_("Other users of this machine can read %(path)s.")
            yield Finding(WRONG, text, N_("Run chmod 600 %(path)s."), values={"path": path})
    changed_at = server_secrets().changed_at(signing_keys.NAME)
    if changed_at is None:
        return
    try:
        signing_keys.published()
    except config.ConfigurationError as error:
        advice = N_("Until this is fixed, no app gets an id token.")
        yield Finding(WRONG, "%(reason)s", advice, values={"reason": str(error)})
        return
    days = int((time.time() - changed_at) // _DAY)
    text = N_("The key that signs id tokens is %(days)s days old.")
    if days > OLD_KEY_DAYS:
        advice = N_("Create a new one: fhirapp key rotate.")
        yield Finding(NOTE, text, advice, "/admin/keys", {"days": days})
    else:
        yield Finding(GOOD, text, values={"days": days})


def _audit_trail() -> Iterator[Finding | Gauge]:
    reason = audit.state(current_app)
    if reason:
        text = N_("The audit trail cannot be written (%(reason)s).")
        advice = N_(
            "Until it can, requests for records are refused, unless FHIRAPP_AUDIT=best-effort."
        )
        yield Finding(WRONG, text, advice, "/admin/audit", {"reason": reason})
    else:
        yield Finding(GOOD, N_("The audit trail can be written."))
    yield Gauge("audit_writable", "Whether the audit trail can be written", not reason)
    yield Gauge("audit_bytes", "Size of the audit trail", audit.store_of(current_app).size())


def _audit_chain() -> Iterator[Finding]:
    try:
        server_secrets().check()
    except config.ConfigurationError:
        # The probe of keys reports it. This key has signed none of the trail.
        return
    found = verify(current_app, {public_key(key_of(current_app))})
    if found.fault:
        text = N_("The audit trail is not intact: %(fault)s")
        advice = N_("Keep it, and find out who could change it. See also: fhirapp audit verify.")
        yield Finding(WRONG, text, advice, "/admin/audit", {"fault": found.fault})
    else:
        text = N_("The audit trail is intact: %(count)s entries, all as they were sealed.")
        yield Finding(GOOD, text, values={"count": found.entries})


def _files() -> Iterator[Finding | Gauge]:
    if not config.settings().files:
        return
    values: dict[str, object] = {"address": config.settings().files}
    try:
        shared_files(config.settings()).check()
    except config.ConfigurationError as error:
        text = N_("The shared file storage cannot be used (%(reason)s).")
        advice = N_("Until it can, exports, import reports and backups fail; records can be read.")
        yield Finding(WRONG, text, advice, values={"reason": str(error)})
        yield Gauge("files_reachable", "Whether shared files can be reached", False)
    else:
        yield Finding(GOOD, N_("%(address)s can be written and read."), values=values)
        yield Gauge("files_reachable", "Whether shared files can be reached", True)


def _jobs() -> Iterator[Finding | Gauge]:
    now = int(time.time())
    found = queue.jobs()
    hanging = [
        job
        for job in found
        if job.is_under_way and (job.lease_until or now) < now - queue.LEASE_SECONDS
    ]
    waiting = [
        job for job in found if job.state == queue.QUEUED and job.created_at < now - _LATE_SECONDS
    ]
    storing = [job for job in found if job.state == queue.UPLOADING]
    failed = [
        job
        for job in found
        if job.has_failed
        # The end of an interrupted job is not known.
        and (job.ended_at or job.created_at) > now - 7 * _DAY
    ]
    for job in hanging:
        text = N_("The job %(kind)s of %(owner)s has stopped reporting progress.")
        advice = N_("Is a server running? It ends or restarts the job.")
        yield Finding(WRONG, text, advice, values={"kind": job.kind, "owner": job.owner})
    for job in waiting:
        text = N_("The job %(kind)s of %(owner)s has waited for %(minutes)s minutes.")
        advice = N_("Is a server running? Other jobs of its kind may be running for long.")
        values = {"kind": job.kind, "owner": job.owner, "minutes": (now - job.created_at) // 60}
        yield Finding(NOTE, text, advice, values=values)
    for job in storing:
        text = N_("Files of the job %(kind)s of %(owner)s are still being stored: %(reason)s")
        advice = N_("The server on which the job ran stores them as soon as it can.")
        values = {"kind": job.kind, "owner": job.owner, "reason": job.progress.storage_error}
        yield Finding(NOTE, text, advice, values=values)
    for job in failed[:5]:
        reason = job.summary or config.Marked("it was interrupted")
        values = {"kind": job.kind, "owner": job.owner, "reason": reason}
        text = N_("The job %(kind)s of %(owner)s failed: %(reason)s")
        yield Finding(NOTE, text, N_("See its page under Administer."), values=values)
    if not (hanging or waiting or storing or failed):
        yield Finding(GOOD, N_("No job hangs, and none failed in the last 7 days."))
    counts: dict[tuple[str, str], int] = {}
    for job in found:
        counts[job.kind, job.state] = counts.get((job.kind, job.state), 0) + 1
    for (kind, state), count in counts.items():
        labels = {"kind": kind, "state": state}
        yield Gauge("jobs", "Jobs by kind and state", count, labels)


def _schedules() -> Iterator[Finding | Gauge]:
    now, found = time.time(), schedules.schedules()
    runs_of = schedules.runs_of(*found)
    for schedule in found:
        values: dict[str, object] = {"name": schedule.name}
        path = f"/admin/schedules/{schedule.name}"
        due_at, runs = schedule.due_at(config.settings().zone), runs_of[schedule.name]
        if runs.failures:
            reason = runs.failures[0].summary or config.Marked("see its recent runs")
            values |= {"count": len(runs.failures), "why": reason}
            text = N_("The schedule %(name)s failed (consecutive failures: %(count)s): %(why)s")
            yield Finding(WRONG, text, N_("See its recent runs."), path, values)
        if count := count_failed(schedule):
            text = N_(
                "The schedule %(name)s: entries in its folder failed/ that could not be imported "
                "completely: %(count)s"
            )
            advice = N_("Read the reports there; put corrected files back, and delete the rest.")
            yield Finding(WRONG, text, advice, path, values | {"count": count})
        if due_at is not None and due_at < now - _LATE_SECONDS and runs.current is None:
            text = N_("The schedule %(name)s has been due for %(minutes)s minutes.")
            advice = N_("Is a server running? Schedules need one.")
            minutes = int((now - due_at) // 60)
            yield Finding(WRONG, text, advice, path, values | {"minutes": minutes})
        for name, description, value in (
            ("success_seconds", "Last successful run, Unix time", runs.succeeded_at),
            ("failure_seconds", "Last failed run, Unix time", runs.failed_at),
            ("failures", "Consecutive failed runs", len(runs.failures)),
        ):
            yield Gauge(f"schedule_{name}", description, value or 0, {"schedule": schedule.name})
    if found and not any(runs.failures for runs in runs_of.values()):
        text = N_("No schedule failed in its last run (schedules: %(count)s).")
        yield Finding(GOOD, text, values={"count": len(found)})


def _sandbox() -> Iterator[Finding]:
    if missing := missing_confinement():
        yield _unconfined(missing)


def _unconfined(missing: str) -> Finding:
    text = N_("The process that reads documents is not fully sandboxed: %(what)s.")
    advice = N_("Run the server on Linux; a container must allow seccomp.")
    return Finding(NOTE, text, advice, values={"what": missing})


def _document_reader() -> Iterator[Finding]:
    if languages := config.settings().ocr_languages:
        if reason := why_unusable(languages):
            text = N_("Scans cannot be read by OCR: %(reason)s.")
            advice = N_("Change FHIRAPP_OCR_LANGUAGES, or install what is missing.")
            yield Finding(WRONG, text, advice, values={"reason": reason})
        else:
            text = N_("Scans are read by OCR in %(languages)s.")
            yield Finding(GOOD, text, values={"languages": languages})
    with Extractor() as extractor:
        try:
            extractor.html_of(b"<p>", "text/html")
        except Unreadable as error:
            text = N_("The process that reads documents does not work (%(reason)s).")
            yield Finding(WRONG, text, N_("See the server's log."), values={"reason": str(error)})
            return
        missing = extractor.lacking
    if not missing:
        yield Finding(GOOD, N_("The process that reads documents is sandboxed."))
    elif not missing_confinement():
        yield _unconfined(missing)


PROBES = (
    Probe(N_("Readiness"), _readiness, reads_database=False),
    Probe(N_("Settings"), _settings, reads_database=False),
    *address.PROBES,
    Probe(N_("Clock"), _clock, Cost.SLOW),
    Probe(N_("Disk"), _disk, reads_database=False),
    Probe(N_("Database"), _database),
    Probe(N_("Database"), _planner_statistics, Cost.SLOW),
    Probe(N_("Database"), _damage, Cost.WHOLE, reads_database=False),
    Probe(N_("Keys"), _keys, Cost.SLOW),
    Probe(N_("Audit trail"), _audit_trail),
    Probe(N_("Audit trail"), _audit_chain, Cost.WHOLE),
    Probe(N_("Files"), _files, Cost.REMOTE, reads_database=False),
    Probe(N_("Jobs"), _jobs),
    Probe(N_("Schedules"), _schedules),
    Probe(N_("Documents"), _sandbox, reads_database=False),
    Probe(N_("Documents"), _document_reader, Cost.SLOW, reads_database=False),
)
