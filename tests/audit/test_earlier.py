"""The trail of an earlier release is verified and imported once, and kept where it is not intact.

In tests/kept/trails is one in files, of the schema 0012: a first edition's lines, compressed days,
cut-off lines, an export's list; and one in PostgreSQL's tables: chains of two servers, and files
that had been imported there. Beside each is what that release showed of it.
"""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import inspect

from fhirapp.audit.entries import entries, patients_named_by
from fhirapp.audit.events import record_settings
from fhirapp.audit.seals import public_key
from fhirapp.audit.store import TABLES
from fhirapp.audit.verify import VerificationResult, verify
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.keys import key_of
from fhirapp.server.prepare import prepare
from tests import TESTS
from tests.support.trails import ON_POSTGRESQL, forget, sql

KEPT = TESTS / "kept" / "trails"


def start(app: Flask) -> list[str]:
    said: list[str] = []
    prepare(app, said.append)
    return said


def verified(app: Flask) -> VerificationResult:
    with app.app_context():
        return verify(app, {public_key(key_of(app))})


def shown(app: Flask) -> Sequence[Mapping[str, Any]]:
    """Return every entry with its patients, the oldest first, but for that of the import."""
    with app.app_context():
        found = entries(kind=None, limit=1_000)
        patients = patients_named_by([entry.number for entry in found])
    return [
        {**json.loads(json.dumps(entry._asdict())), "patients": patients.get(entry.number, [])}
        for entry in reversed(found)
        if not entry.event.startswith("trail-")
    ]


def numbered(expected: Sequence[Mapping[str, Any]]) -> Sequence[Mapping[str, Any]]:
    """Return entries with the numbers that they get here."""
    return [{**entry, "number": number} for number, entry in enumerate(expected, 1)]


@pytest.fixture
def folder(make_app: Callable[..., Flask], tmp_path: Path) -> Path:
    with tarfile.open(KEPT / "files.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path


@pytest.fixture
def begun(make_app: Callable[..., Flask], folder: Path) -> Callable[[], Flask]:
    """Return what starts a server on the folder, with the records that the trail is about."""

    def begin() -> Flask:
        original = make_app()
        url = settings_of(original).database_url
        return make_app(database_url=url, instance_path=str(folder), seed=False)

    return begin


def test_trail_in_files_is_imported_without_loss(begun, folder):
    expected = json.loads((folder / "entries.json").read_text())
    app = begun()
    assert shown(app) == numbered(expected)
    found = verified(app)
    assert (found.faults, found.entries, found.unsealed) == ([], 33, 0)
    with app.app_context():
        (imported,) = entries(kind=None, event="trail-imported")
        assert imported.body == "32 entries"
        assert [entry.event for entry in entries(kind=None, patient_id="p5")] == ["export"]
        # The settings of the last start came with it.
        record_settings(settings_of(app))
        (changed,) = entries(kind=None, event="settings-changed")
    assert not changed.body.startswith("the first start")
    assert not (folder / "audit").exists()
    assert (folder / "audit.imported-1" / "2026-03-10.ndjson").exists()
    assert start(app) == []


def test_trail_that_was_imported_before_a_process_ended_is_not_imported_again(begun, folder):
    app = begun()
    (folder / "audit.imported-1").rename(folder / "audit")
    assert start(app) == ["The earlier audit trail was verified and imported: 0 entries."]
    assert verified(app).entries == 33


def test_empty_trail_and_lines_that_are_no_entries_are_imported(begun, folder):
    for file in (folder / "audit").iterdir():
        file.unlink()
    content = b'{"at":"2026-03-06T08:00:00.000+00:00"}\n[]\n\n{"at":5,"event":"x","what":""}\n'
    odd = {"at": "2026-03-06T08:00:00.000+00:00", "event": "sign-in", "what": "a", "about": "x\0"}
    (folder / "audit" / "2026-03-05.ndjson").write_bytes(b"")
    app = begun()
    assert (shown(app), verified(app).faults) == ([], [])
    (folder / "audit").mkdir()
    lines = content + json.dumps(odd).encode() + b"\n"
    (folder / "audit" / "2026-03-06.ndjson").write_bytes(lines)
    assert start(app) == ["The earlier audit trail was verified and imported: 1 entries."]
    assert [entry["about"] for entry in shown(app)] == ["x\ufffd"]
    assert verified(app).faults == []


def replaced(path: Path, before: bytes, after: bytes) -> None:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    assert before in content
    content = content.replace(before, after, 1)
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)


def changed(audit: Path) -> None:
    replaced(audit / "2026-03-09.ndjson", b'"status":200', b'"status":404')


def changed_in_a_compressed_day(audit: Path) -> None:
    replaced(audit / "2026-03-07.ndjson.gz", b'"status":200', b'"status":404')


def damaged(audit: Path) -> None:
    path = audit / "2026-03-08.ndjson.gz"
    path.write_bytes(path.read_bytes()[:-200])


def day_removed(audit: Path) -> None:
    (audit / "2026-03-08.ndjson.gz").unlink()


def oldest_day_removed(audit: Path) -> None:
    (audit / "2026-03-06.ndjson.gz").unlink()
    (audit / "2026-03-07.ndjson.gz").unlink()


def digest_removed(audit: Path) -> None:
    path = audit / "2026-03-10.ndjson"
    *lines, last = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines, last[: last.index(b',"n":')] + b"}\n"]))


def cut_off_line_changed(audit: Path) -> None:
    replaced(audit / "2026-03-08.ndjson.gz", b'"}\n{"at":"2026-03-08T0', b'"}\n{"at":"2026-03-09T0')


def signature_changed(audit: Path) -> None:
    replaced(audit / "2026-03-10.ndjson", b'"signature":"', b'"signature":"AA')


def head_changed(audit: Path) -> None:
    replaced(audit / "2026-03-10.ndjson", b'"key":"', b'"key":"AA')


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (changed, "it or the one before was changed"),
        (changed_in_a_compressed_day, "it or the one before was changed"),
        (damaged, "it has number"),
        (day_removed, "it has number"),
        (oldest_day_removed, "it begins the trail, but should not"),
        (digest_removed, "it has no digest: it was added, or its digest was removed"),
        (cut_off_line_changed, "it or the one before was changed"),
        (signature_changed, "it or the one before was changed"),
        (head_changed, "it or the one before was changed"),
    ],
)
def test_trail_that_does_not_verify_is_kept_and_named(begun, folder, damage, fault):
    damage(folder / "audit")
    app = begun()
    (found,) = verified(app).faults
    assert fault in found
    assert "an earlier trail was not intact" in found
    with app.app_context():
        (imported,) = entries(kind=None, event="trail-unverified")
    assert fault in imported.body
    # What it tells is shown all the same.
    assert len(shown(app)) > 20
    assert (folder / "audit.unverified-1" / "2026-03-10.ndjson").exists()


def test_trail_of_another_key_does_not_verify(begun, folder):
    (folder / "secret.key").unlink()
    (found,) = verified(begun()).faults
    assert "this head is signed with another key" in found


@pytest.fixture
def tables(make_app: Callable[..., Flask]) -> Flask:
    """An app on a database of the schema 0012, with the trail of two servers."""
    app = make_app()
    for table in TABLES.tables:
        sql(app, f"DROP TABLE {table}")
    dump = (KEPT / "postgresql.sql").read_text().replace("public.", "fhirapp.")
    for statement in dump.split(";\n"):
        if statement.strip():
            sql(app, statement)
    sql(app, "UPDATE alembic_version SET version_num = '0012'")
    return app


def expected_of_tables() -> Sequence[Mapping[str, Any]]:
    return numbered(json.loads((KEPT / "postgresql.json").read_text()))


@ON_POSTGRESQL
def test_trail_in_tables_is_imported_without_loss(tables):
    said = start(tables)
    assert said[-1] == "The earlier audit trail was verified and imported: 21 entries."
    assert shown(tables) == expected_of_tables()
    found = verified(tables)
    assert (found.faults, found.entries, found.unsealed) == ([], 22, 0)
    with tables.app_context():
        assert {"audit_line", "audit_file"}.isdisjoint(inspect(db.engine).get_table_names())
        assert [entry.event for entry in entries(kind=None, patient_id="p5")] == ["export"]
    assert start(tables) == []


LAST_OF_A_CHAIN = (
    "(SELECT max(n) FROM audit_line l WHERE l.chain = audit_line.chain"
    " AND chain NOT LIKE '%ndjson%')"
)
CHANGED = (
    "UPDATE audit_line SET line = replace(encode(line, 'escape'), '\"status\":404',"
    " '\"status\":200')::bytea WHERE n = 5"
)
CHAIN_REMOVED = (
    "DELETE FROM audit_line WHERE chain = (SELECT max(chain) FROM audit_line"
    " WHERE encode(line, 'escape') LIKE '%Patient/nobody%')"
)


@ON_POSTGRESQL
@pytest.mark.parametrize(
    ("statement", "fault"),
    [
        (CHANGED, "was changed"),
        ("DELETE FROM audit_line WHERE n = 3", "it has number 4, but should have 3"),
        (
            "DELETE FROM audit_line WHERE n = 1",
            "it begins the trail, but should not",
        ),
        (f"DELETE FROM audit_line WHERE n >= {LAST_OF_A_CHAIN} - 1", "is missing, or another"),
        (CHAIN_REMOVED, "is missing, or another"),
        ("UPDATE audit_line SET n = 9 - n WHERE n IN (4, 5)", "it has number 5, but should have 4"),
    ],
)
def test_trail_in_tables_that_does_not_verify_is_kept_and_named(tables, statement, fault):
    sql(tables, "ALTER TABLE audit_line DROP CONSTRAINT uq_audit_line_place")
    sql(tables, statement)
    said = start(tables)
    assert "and kept in the table audit_line_unverified" in said[-1]
    (found,) = verified(tables).faults
    assert fault in found
    with tables.app_context():
        names = inspect(db.engine).get_table_names()
    assert {"audit_line_unverified", "audit_file_unverified"} <= {*names}
    assert start(tables) == []


@ON_POSTGRESQL
def test_files_of_a_server_join_the_table(make_app, tmp_path):
    app = make_app()
    forget(app)
    with tarfile.open(KEPT / "files.tar.xz") as packed:
        packed.extractall(settings_of(app).instance, filter="data")
    # They are signed with the key that the server had as a file.
    assert "this head is signed with another key" in " ".join(start(app))
    assert len(shown(app)) == 32
