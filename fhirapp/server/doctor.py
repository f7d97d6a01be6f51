"""`fhirapp doctor`: what an operator should see to, each with what to do about it.

It looks from where it runs, and changes nothing. What cannot be asked is a finding too, so one
fault hides no other.
"""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import ssl
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from datetime import UTC, datetime
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from flask import Flask, current_app
from sqlalchemy import func, select, text

from fhirapp import trail
from fhirapp.auth.models import ADMINISTRATOR, User
from fhirapp.auth.oauth import openid
from fhirapp.auth.server_secrets import server_secrets
from fhirapp.config import (
    COMMAND_LINE,
    ENVIRONMENT,
    SECRET_KEY,
    STORED,
    ConfigurationError,
    Settings,
    settings_of,
)
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.disk import because, beside, database_path, megabytes
from fhirapp.documents.extractor import Extractor
from fhirapp.documents.media import Unreadable
from fhirapp.documents.ocr import why_unusable
from fhirapp.features.backups.backup import why_no_backup
from fhirapp.features.backups.rotation import backups
from fhirapp.features.imports.watched import FAILED_FOLDER
from fhirapp.fhir.temporal import moment_of
from fhirapp.files import shared_files
from fhirapp.jobs import schedule
from fhirapp.jobs import table as jobs
from fhirapp.jobs.kinds import count_failed
from fhirapp.keys import key_of
from fhirapp.server import live_settings
from fhirapp.server.proxies import NO_ADDRESS, PLAIN, reach_of, seems_behind_proxy
from fhirapp.server.readiness import fault_of, why_not_ready
from fhirapp.store.migrate import schema_version, shown
from fhirapp.trail.joins import verify_trail

# How a finding is: as it should be; worth knowing; to be mended.
GOOD, NOTE, WRONG = "good", "note", "wrong"
OLD_BACKUP_DAYS, OLD_DRILL_DAYS, OLD_KEY_DAYS = 7, 35, 400
_CERTIFICATE_DAYS = 14
_SECONDS = 5.0
_DAY = 86_400
_LARGE_LOG = 256 * 1024 * 1024
_LEAST_FREE = 1024 * 1024 * 1024
_LEAST_INODES = 10_000
# A schedule that is due is begun within seconds.
_LATE_SECONDS = 900
# What cannot be looked at where the database cannot be read.
_OF_DATABASE = ("Clock", "Keys", "Audit trail", "Backups", "Jobs", "Schedules", "Accounts")
_NOT_CHECKED = f"Until this is fixed, not checked: {', '.join(_OF_DATABASE)}."
_MANY_BYTES, _MANY_ROWS = 16 * 1024 * 1024, 10_000
# Large and never looked at, or changed by half since.
_UNKNOWN_TABLES = text(
    "SELECT c.relname FROM pg_class c JOIN pg_stat_user_tables s ON s.relid = c.oid"
    " WHERE c.reltuples < 0 AND pg_relation_size(c.oid) > :bytes"
    " OR s.n_live_tup > :rows AND s.n_mod_since_analyze > s.n_live_tup / 2 ORDER BY c.relname"
)


class Finding(NamedTuple):
    """What was looked at, how it is, and what to do where it is not as it should be."""

    what: str
    state: str
    words: str
    advice: str = ""


def examine(app: Flask, *, quick: bool = False) -> list[Finding]:
    """Look at everything, within the app's context; quick leaves out what reads whole files."""
    settings = settings_of(app)
    checks: Mapping[str, Callable[[], Iterator[Finding]]] = {
        "Readiness": _readiness,
        "Settings": lambda: _settings(settings),
        "Address": lambda: _address(settings),
        "Clock": _clock,
        "Disk": lambda: _disk(settings),
        "Database": lambda: _database(settings, quick=quick),
        "Keys": lambda: _keys(settings),
        "Audit trail": lambda: _trail(quick=quick),
        "Files": lambda: _files(settings),
        "Backups": lambda: _backups(settings),
        "Jobs": _jobs,
        "Schedules": lambda: _schedules(settings),
        "Accounts": lambda: _accounts(settings),
        "Documents": lambda: _documents(settings),
    }
    found = [*_unusable()]
    # What SQLite's file has is looked at all the same.
    more = () if database_path(settings) else ("Database",)
    skipped = {*_OF_DATABASE, *more} if found else set()
    for what, check in checks.items():
        if what in skipped:
            continue
        try:
            found += check()
        except Exception as error:  # noqa: BLE001
            # What one check stumbles over hides no other.
            reason = because(error) if isinstance(error, OSError) else type(error).__name__
            words = f"cannot be checked ({reason})"
            found.append(Finding(what, WRONG, words, "See the server's log."))
        finally:
            db.session.rollback()
    return found


def _unusable() -> Iterator[Finding]:
    """Tell why nothing can be read of the database: each other check would stumble over that."""
    try:
        is_empty = schema_version(db.engine) is None
    except ConfigurationError as error:
        yield Finding("Database", WRONG, str(error), _NOT_CHECKED)
    else:
        if is_empty:
            words = f"{shown(db.engine)} is empty"
            yield Finding("Database", WRONG, words, "Start the server: it creates the tables.")


def _readiness() -> Iterator[Finding]:
    reason = why_not_ready()
    if reason:
        yield Finding("Readiness", WRONG, reason, "Until this is fixed, /health/ready answers 503.")
    else:
        yield Finding("Readiness", GOOD, "the server can answer requests")


def _settings(settings: Settings) -> Iterator[Finding]:
    by_origin = [
        f"{origin}: {', '.join(name for name, of in settings.origins.items() if of == origin)}"
        for origin in (COMMAND_LINE, ENVIRONMENT, STORED)
        if origin in settings.origins.values()
    ]
    yield Finding("Settings", GOOD, "; ".join(by_origin) or "all have their defaults")
    for name, reason in live_settings.chosen().ignored.items():
        yield Finding(
            *("Settings", NOTE, f"{name}, set on the admin page, has no effect: {reason}"),
            "Change it on the Settings page, or reset it to the default.",
        )


def _address(settings: Settings) -> Iterator[Finding]:
    reach = reach_of(settings)
    if reach == NO_ADDRESS:
        words = f"others can reach {settings.host}, but FHIRAPP_BASE_URL is not set"
        advice = "Set it to the address that clients use."
        yield Finding("Address", WRONG, words, advice)
        return
    if not settings.base_url:
        yield Finding("Address", GOOD, "this machine only, because FHIRAPP_BASE_URL is not set")
        return
    if reach == PLAIN:
        yield Finding(
            *("Address", WRONG, f"{settings.base_url} is not encrypted: passwords can be read"),
            "Put a reverse proxy with TLS in front, and set FHIRAPP_BASE_URL to https://…",
        )
    if seems_behind_proxy(settings):
        yield Finding(
            *("Proxy", WRONG, "there seems to be a proxy, but FHIRAPP_TRUSTED_PROXY is not set"),
            "Set it to the proxy's address or network. Until then all clients count as one.",
        )
    yield _asked(settings.base_url)


def _asked(base_url: str) -> Finding:
    """Ask the server by the address that clients use, and look at the certificate."""
    parts = urlsplit(base_url)
    host, days = parts.hostname or "", None

    def connect() -> HTTPConnection:
        if parts.scheme == "https":
            context = ssl.create_default_context()
            return HTTPSConnection(host, parts.port, timeout=_SECONDS, context=context)
        return HTTPConnection(host, parts.port, timeout=_SECONDS)

    connection = connect()
    try:
        with closing(connection):
            connection.request("GET", f"{parts.path}/health/live")
            if isinstance(connection.sock, ssl.SSLSocket):
                days = _days_left(connection.sock)
            answer = connection.getresponse()
            body = answer.read(1000)
    except ssl.SSLCertVerificationError as error:
        words = f"the certificate of {host} is not trusted ({error.verify_message})"
        return Finding("Address", WRONG, words, "Renew it, or install its issuer's certificate.")
    except (OSError, HTTPException, socket.gaierror) as error:
        words = f"{base_url} does not answer from here ({type(error).__name__})"
        return Finding("Address", NOTE, words, "Try it from another machine too.")
    if answer.status != 200 or b"alive" not in body:
        words = f"{base_url}/health/live answers {answer.status}, but not as this server would"
        return Finding("Address", WRONG, words, "Check where the proxy sends requests.")
    if _is_refused(connect(), parts):
        words = f"requests for {parts.netloc} arrive here with another name in their Host header"
        advice = (
            "Let the proxy pass on the Host header, or set FHIRAPP_TRUSTED_PROXY to its address. "
            "Until then every page is refused with 421."
        )
        return Finding("Address", WRONG, words, advice)
    if days is not None and days < _CERTIFICATE_DAYS:
        words = f"the certificate of {host} expires in {days} days"
        return Finding("Address", WRONG if days < 3 else NOTE, words, "Renew it.")
    return Finding("Address", GOOD, f"{base_url} reaches this server")


def _is_refused(connection: HTTPConnection, asked: SplitResult) -> bool:
    """Say whether the server refuses its pages since it is asked for another host's."""
    try:
        with closing(connection):
            connection.request("GET", f"{asked.path}/sign-in")
            return connection.getresponse().status == HTTPStatus.MISDIRECTED_REQUEST
    except (OSError, HTTPException):
        return False


def _days_left(line: ssl.SSLSocket) -> int | None:
    certificate = line.getpeercert() or {}
    until = certificate.get("notAfter")
    return int((ssl.cert_time_to_seconds(str(until)) - time.time()) // _DAY) if until else None


def _clock() -> Iterator[Finding]:
    """A version of the future was written by a clock that was ahead, or this one is behind."""
    newest = ""
    for definition in types().values():
        if definition.stores_body and not definition.view:
            column = definition.table.c.last_updated
            newest = max(newest, db.session.execute(select(func.max(column))).scalar() or "")
    if newest and moment_of(newest).timestamp() > time.time() + 60:
        yield Finding(
            *("Clock", WRONG, f"a record is dated {newest}, which is in the future"),
            "Set this machine's clock by NTP. Until then, searches by _lastUpdated miss it.",
        )
    else:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        yield Finding("Clock", GOOD, f"{now}; no record is dated in the future")


def _disk(settings: Settings) -> Iterator[Finding]:
    database = database_path(settings)
    size = database.stat().st_size if database and database.exists() else 0
    for folder in sorted({settings.instance, *([database.parent] if database else [])}):
        free = shutil.disk_usage(folder).free
        if free < max(_LEAST_FREE, size):
            words = f"{folder} has {megabytes(free)} left; the database takes {megabytes(size)}"
            yield Finding("Disk", WRONG, words, "A backup or an upgrade needs as much space again.")
        else:
            yield Finding("Disk", GOOD, f"{folder} has {megabytes(free)} left")
        inodes = os.statvfs(folder).f_favail if hasattr(os, "statvfs") else 0
        # File systems that make them as they need them say 0.
        if 0 < inodes < _LEAST_INODES:
            words = f"{folder} has room for only {inodes} more files"
            yield Finding("Disk", WRONG, words, "Delete files on this disk that you do not need.")


def _database(settings: Settings, *, quick: bool) -> Iterator[Finding]:
    database = database_path(settings)
    if database is None:
        version = db.session.execute(select(func.version())).scalar_one()
        yield Finding("Database", GOOD, str(version).partition(" on ")[0])
        yield from _statistics()
        return
    yield Finding("Database", GOOD, f"SQLite {sqlite3.sqlite_version}, {database}")
    if not quick and (fault := fault_of(database)):
        words = f"{database} is damaged ({fault})"
        yield Finding("Database", WRONG, words, "Restore a backup: fhirapp restore.")
    log = beside(database, "-wal")
    if log.exists() and log.stat().st_size > _LARGE_LOG:
        yield Finding(
            *("Database", NOTE, f"its log (WAL) has {megabytes(log.stat().st_size)}"),
            "Something has been reading for very long: look for an export or a backup that hangs.",
        )
    with closing(sqlite3.connect(f"{database.as_uri()}?mode=ro", uri=True)) as connection:
        if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sqlite_stat1'").fetchone():
            yield Finding(
                *("Database", NOTE, "it has planner statistics, which become outdated"),
                "Its indexes need none. In SQLite's shell, run DROP TABLE sqlite_stat1.",
            )


def _statistics() -> Iterator[Finding]:
    """Tell of tables whose rows PostgreSQL's planner does not know: its plans are then guesses."""
    rows = (
        db.session.execute(_UNKNOWN_TABLES, {"bytes": _MANY_BYTES, "rows": _MANY_ROWS})
        .scalars()
        .all()
    )
    if rows:
        yield Finding(
            *("Database", WRONG, f"planner statistics are missing or outdated: {', '.join(rows)}"),
            "Run ANALYZE, and check that autovacuum is on.",
        )
    else:
        yield Finding("Database", GOOD, "planner statistics are up to date")


def _keys(settings: Settings) -> Iterator[Finding]:
    for path in (settings.instance / SECRET_KEY, settings.instance / openid.NAME):
        if path.exists() and path.stat().st_mode & 0o077:
            words = f"other users of this machine can read {path}"
            yield Finding("Keys", WRONG, words, f"Run chmod 600 {path}")
    changed_at = server_secrets().changed_at(openid.NAME)
    if changed_at is None:
        return
    try:
        openid.published()
    except ConfigurationError as error:
        yield Finding("Keys", WRONG, str(error), "Until this is fixed, no app gets an id token.")
        return
    days = int((time.time() - changed_at) // _DAY)
    if days > OLD_KEY_DAYS:
        words = f"the key that signs id tokens is {days} days old"
        yield Finding("Keys", NOTE, words, "Create a new one: fhirapp key rotate.")
    else:
        yield Finding("Keys", GOOD, f"the key that signs id tokens is {days} days old")


def _trail(*, quick: bool) -> Iterator[Finding]:
    if reason := trail.state(current_app):
        advice = "Until it can, records cannot be read, unless FHIRAPP_AUDIT=best-effort."
        yield Finding("Audit trail", WRONG, f"it cannot be written ({reason})", advice)
    if quick:
        return
    try:
        server_secrets().check()
    except ConfigurationError:
        # Told of the keys. No head would be signed with this one.
        return
    found = verify_trail(current_app, {trail.public_key(key_of(current_app))})
    if found.fault:
        yield Finding(
            *("Audit trail", WRONG, f"it is not intact: {found.fault}"),
            "Keep it, and find out who could change it. See also: fhirapp audit verify.",
        )
    else:
        yield Finding("Audit trail", GOOD, f"{found.lines} lines in an unbroken chain")


def _files(settings: Settings) -> Iterator[Finding]:
    if not settings.files:
        return
    try:
        shared_files(settings).check()
    except ConfigurationError as error:
        advice = (
            "Until this is fixed, exports, import reports and backups fail; records can be read."
        )
        yield Finding("Files", WRONG, str(error), advice)
    else:
        yield Finding("Files", GOOD, f"{settings.files} can be written and read")


def _backups(settings: Settings) -> Iterator[Finding]:
    if settings.demo:
        return
    if why := why_no_backup(settings):
        yield Finding("Backups", NOTE, "this server cannot take any", why)
    newest = next(iter(backups(settings)), None)
    if newest is None:
        yield Finding(
            *("Backups", NOTE, "there is none in the server's folder"),
            "Take one every night, and keep it on another machine: fhirapp backup DIR --keep 14.",
        )
        return
    days = int((time.time() - newest.taken_at) // _DAY)
    state = WRONG if days > OLD_BACKUP_DAYS else GOOD
    advice = "Take one every night: fhirapp backup DIR --keep 14." if state == WRONG else ""
    yield Finding("Backups", state, f"the newest is {days} days old ({newest.name})", advice)
    drills = [one for one in jobs.jobs("drill") if one.state == jobs.DONE and not one.error]
    tried = max((one.ended_at or 0 for one in drills), default=0)
    if tried < time.time() - OLD_DRILL_DAYS * _DAY:
        yield Finding(
            *("Backups", NOTE, f"none tested on the page Backups in {OLD_DRILL_DAYS} days"),
            "Test one there. fhirapp backup --verify DIR tests one too, but is not counted here.",
        )


def _jobs() -> Iterator[Finding]:
    now = int(time.time())
    listed = jobs.jobs()
    hanging = [
        one
        for one in listed
        if one.is_under_way and (one.lease_until or now) < now - jobs.LEASE_SECONDS
    ]
    failed = [one for one in listed if one.state in (jobs.FAILED, jobs.INTERRUPTED)]
    # How long one went on that broke off is not known.
    lately = [one for one in failed if (one.ended_at or one.created_at) > now - 7 * _DAY]
    for one in hanging:
        words = f"the {one.kind} of {one.owner} has stopped reporting progress"
        yield Finding("Jobs", WRONG, words, "Is a server running? It ends or restarts it.")
    for one in lately[:5]:
        why = one.error or next(iter(one.progress.notes), "it was interrupted")
        words = f"the {one.kind} of {one.owner} failed: {why}"
        yield Finding("Jobs", NOTE, words, "See its page under Administer.")
    if not hanging and not lately:
        yield Finding("Jobs", GOOD, "none hangs, none failed in the last 7 days")


def _schedules(settings: Settings) -> Iterator[Finding]:
    now, found = time.time(), schedule.schedules()
    for one in found:
        due_at = one.due_at(settings.zone)
        if one.failures:
            note = one.why_failed or "it was interrupted"
            words = f"{one.name} failed ({one.failures} consecutive failures): {note}"
            yield Finding("Schedules", WRONG, words, "See it under Administer, Schedules.")
        if count := count_failed(one):
            failed = Path(one.options["folder"], FAILED_FOLDER)
            yield Finding(
                *(
                    "Schedules",
                    WRONG,
                    f"{one.name}: {failed} has what was not fully imported ({count})",
                ),
                "Read the reports there; put corrected files back, and delete the rest.",
            )
        if due_at is not None and due_at < now - _LATE_SECONDS and one.job_id is None:
            words = f"{one.name} has been due for {int((now - due_at) // 60)} minutes"
            yield Finding("Schedules", WRONG, words, "Is a server running? Schedules need one.")
    if found and not any(one.failures for one in found):
        yield Finding("Schedules", GOOD, f"none of {len(found)} failed in its last run")


def _accounts(settings: Settings) -> Iterator[Finding]:
    of_them = (User.role == ADMINISTRATOR, User.disabled.is_(False))
    count = select(func.count()).select_from(User).where(*of_them)
    there = db.session.execute(count).scalar_one()
    if there == 0:
        yield Finding(
            *("Accounts", WRONG, "there is no administrator"),
            "Create the first at the address that the server prints when it starts.",
        )
        return
    without = db.session.execute(count.where(User.totp_secret.is_(None))).scalar_one()
    if without and not settings.demo and not settings.oidc_issuer:
        yield Finding(
            *("Accounts", NOTE, f"{without} of {there} administrators have no second factor"),
            "Require it: FHIRAPP_SECOND_FACTOR=administrators.",
        )
    else:
        yield Finding("Accounts", GOOD, f"administrators: {there}")


def _documents(settings: Settings) -> Iterator[Finding]:
    if languages := settings.ocr_languages:
        why = why_unusable(languages)
        yield Finding(
            *("Documents", WRONG if why else GOOD),
            f"scans {'cannot be' if why else 'are'} read by OCR, in {languages}",
            why and f"FHIRAPP_OCR_LANGUAGES: {why}.",
        )
    with Extractor() as extractor:
        try:
            extractor.html_of(b"<p>", "text/html")
        except Unreadable as error:
            words = f"the document reader does not work ({error})"
            yield Finding("Documents", WRONG, words, "See the server's log.")
            return
        lacking = extractor.lacking
    if lacking:
        yield Finding(
            *("Documents", NOTE, f"the document reader is not fully sandboxed: {lacking}"),
            "Run the server on Linux; a container must allow seccomp.",
        )
    else:
        yield Finding("Documents", GOOD, "the document reader is sandboxed")
