"""Databases of older schemas are upgraded without loss, and restored from their backups.

tests/kept/<schema>.<kind>.backup was taken by the code of that schema, of a database with rows in
every table. It is never taken again. To keep one of the present schema, run

    FHIRAPP_TEST_POSTGRESQL=… python -m tests.store.test_upgrade
"""

from __future__ import annotations

import base64
import os
import tempfile
import time
from ast import literal_eval
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask
from sqlalchemy import (
    JSON,
    Boolean,
    Column,
    Float,
    Integer,
    LargeBinary,
    create_engine,
    func,
    insert,
    make_url,
    select,
)

from fhirapp.audit.entries import entries
from fhirapp.audit.seals import public_key
from fhirapp.audit.verify import verify
from fhirapp.auth.models import ADMINISTRATOR, PATIENT
from fhirapp.auth.users import second_factor
from fhirapp.config import Settings, settings_of
from fhirapp.db import db, writing
from fhirapp.features.backups import client
from fhirapp.features.backups.archive import DATABASE, DUMP
from fhirapp.features.backups.backup import back_up, unpacked
from fhirapp.features.backups.restore import restore
from fhirapp.features.backups.schemas import major_of
from fhirapp.jobs import schedules
from fhirapp.keys import key_of
from fhirapp.store.migrate import HEAD
from tests import TESTS
from tests.support import complete, records
from tests.support.audit_events import administrator, listed
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.backups import NOW, SECRET, app_in, rows_of, settings_in
from tests.support.databases import POSTGRESQL, SERVER, SQLITE, DatabaseFactory
from tests.support.helpers import BASE_URL, shared_secret
from tests.support.importing import asking, load_lines

KEPT = TESTS / "kept"
NUMBERS = sorted(path.name.split(".")[0] for path in KEPT.glob(f"*.{SQLITE}.backup"))
# Endings of the tables that versions of a type are found by.
INDEXES = ("_date", "_reference", "_string", "_token")
# Tables of the kept databases that later migrations drop.
DROPPED = frozenset(
    {
        *("upload_piece", "log_line"),
        *(f"{name}{end}" for name in ("code_system", "concept_map") for end in ("", *INDEXES)),
    }
)
# Tables that an upgrade makes anew, and the columns whose values it changes. The index is made anew
# by the rules of this release, whose number and the generation are in store_state.
CHANGED_COLUMNS: Mapping[str, set[str]] = {
    "job": {"number", "progress"},
    "schedule": set(),
    "store_state": {"value"},
}
# Of an audit trail that a start imports; SQLite's were empty.
EARLIER_TRAIL = frozenset(f"audit_{name}" for name in ("line", "chain", "file", "entry", "seen"))
# Tables in which a restore ends what was open, and those of what the store remembers of itself.
CHANGED_BY_RESTORE = {
    "store_state",
    "auth_session",
    "auth_setup_code",
    "oauth_access_token",
    "oauth_code",
    "oauth_grant",
    "oauth_launch",
    "oauth_request",
}
NOTE = b"Anaphylaxis to peanuts in 2019."

pytestmark = [
    pytest.mark.databases(SQLITE, POSTGRESQL),
    pytest.mark.parametrize("number", NUMBERS),
]


class Clinic(NamedTuple):
    """An instance folder and the address of its database."""

    folder: Path
    url: str

    @property
    def overrides(self) -> dict[str, str]:
        return {"database_url": self.url, "base_url": BASE_URL, **shared_secret(self.url)}

    @property
    def settings(self) -> Settings:
        return settings_in(self.folder, **self.overrides)


@pytest.fixture
def backup(new_database: DatabaseFactory, number: str) -> Path:
    """The kept backup of a schema, of this kind of database."""
    return KEPT / f"{number}.{new_database.kind}.backup"


@pytest.fixture
def make_clinic(new_database: DatabaseFactory, tmp_path: Path) -> Callable[[str], Clinic]:
    """Return what makes a clinic with an empty database, in a folder of this name."""

    def make(name: str) -> Clinic:
        (tmp_path / name).mkdir()
        return Clinic(tmp_path / name, new_database())

    return make


@pytest.fixture
def old(make_clinic: Callable[[str], Clinic], backup: Path, tmp_path: Path) -> Clinic:
    """A clinic with the kept database, as the code of its schema left it."""
    clinic = make_clinic("old")
    files = tmp_path / "files"
    files.mkdir()
    unpacked(clinic.settings, backup, None, files)
    address = make_url(clinic.url)
    if (files / DUMP).exists():
        engine = create_engine(address.set(drivername="postgresql+psycopg"))
        with engine.connect() as connection:
            server = major_of(connection)
        engine.dispose()
        programs = client.client_for(server, newest=True)
        client.load(programs, address, files / DUMP, server, "", "")
        return clinic
    (files / DATABASE).rename(str(address.database))
    for path in files.iterdir():
        path.rename(clinic.folder / path.name)
    return clinic


def check_served(app: Flask) -> None:
    """Check that the records of a kept database are read and found."""
    fhir = asking(app)
    nuts = fhir.read("AllergyIntolerance/nuts")
    assert (nuts["code"]["text"], nuts["criticality"]) == ("Peanut", "high")
    assert "criticality" not in fhir.read("AllergyIntolerance/nuts/_history/1")
    assert fhir.ids("AllergyIntolerance?patient=one&criticality=high&code:text=pea") == ["nuts"]
    assert fhir.ids("DocumentReference?_content=peanuts") == ["note"]


def check_trail(app: Flask, before: Mapping[str, list[str]]) -> None:
    """Check that every entry of the trail in PostgreSQL was imported, and the trail is whole."""
    with app.app_context():
        assert verify(app, {public_key(key_of(app))}).faults == []
        found = entries(kind=None, limit=10_000)
    if settings_of(app).is_postgresql:
        assert sum(entry.event == "trail-imported" for entry in found) == 1
        lines = [row for row in before["audit_line"] if '"event":"head"' not in row]
        assert len(lines) > 5
        assert len(found) >= len(lines) + 1


def assert_same_rows(name: str, before: list[str], after: list[str]) -> None:
    """Assert that a table has its rows, in the columns that it still has."""
    if name in CHANGED_COLUMNS:
        old, new = ([literal_eval(row) for row in rows] for rows in (before, after))
        names = old[0].keys() & new[0].keys() - CHANGED_COLUMNS[name]
        before, after = (
            sorted(repr([row[column] for column in sorted(names)]) for row in rows)
            for rows in (old, new)
        )
    assert after == before, name


def test_kept_database_has_rows_in_every_table(old):
    empty = {name for name, rows in rows_of(old.url).items() if not rows}
    assert {name for name in empty if not name.endswith(INDEXES)} == set()


def test_upgrade_keeps_every_row(old, number):
    before = rows_of(old.url)
    with app_in(old.folder, **old.overrides) as app:
        after = rows_of(old.url)
        assert before.keys() - after.keys() - EARLIER_TRAIL == DROPPED
        assert before.pop("alembic_version") == [repr({"version_num": number})]
        assert after.pop("alembic_version") == [repr({"version_num": HEAD})]
        for name in before.keys() - DROPPED - EARLIER_TRAIL:
            # SQLite keeps a full text that was made anew in other pages.
            if "_words_" not in name:
                assert_same_rows(name, before[name], after[name])
        check_served(app)
        check_trail(app, before)


def test_backup_of_a_kept_schema_is_restored(old, make_clinic, backup):
    before = rows_of(old.url)
    clinic = make_clinic("new")
    restore(clinic.settings, backup, NOW, None, force=False)
    after = rows_of(clinic.url)
    unequal = DROPPED | EARLIER_TRAIL | CHANGED_BY_RESTORE | {"alembic_version"}
    for name in before.keys() - unequal:
        assert_same_rows(name, before[name], after[name])
    with app_in(clinic.folder, **clinic.overrides) as app:
        check_served(app)
        check_trail(app, before)


def fill(app: Flask, folder: Path) -> None:
    """Use the server; then put a made-up row into each table that is still empty."""
    nuts = records.allergy(
        "nuts",
        code={"text": "Peanut"},
        recordedDate="2020-03-04",
        clinicalStatus={
            "coding": [
                {
                    "system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical",
                    "code": "active",
                }
            ]
        },
    )
    attachment = {"contentType": "text/plain", "data": base64.b64encode(NOTE).decode()}
    report = {
        "resourceType": "DiagnosticReport",
        "id": "report",
        "status": "final",
        "subject": {"reference": "Patient/one"},
        "code": {"text": "Skin test"},
    }
    given = [
        *complete.RESOURCES,
        records.patient(
            "one",
            "1",
            name=[{"family": "Example"}],
            birthDate="1970-01-02",
            generalPractitioner=[{"reference": "Practitioner/complete"}],
        ),
        nuts,
        records.document("note", attachment),
        report,
    ]
    assert load_lines(app, folder, *given).complete
    # A second version.
    assert load_lines(app, folder, {**nuts, "criticality": "high"}).complete
    user_id = add_person(app, ADMINISTRATOR)
    with app.app_context(), writing() as connection:
        second_factor.enable(connection, user_id, SECRET, 1)
    flow = Flow(app, add_program(app), add_person(app, PATIENT, "one"))
    tokens = flow.tokens("openid offline_access launch/patient patient/*.rs", patient="one")
    assert flow.refresh(tokens["refresh_token"]).status_code == 200
    with app.app_context():
        schedules.add("nightly", "backup", "daily 02:00", {"folder": str(folder)}, int(time.time()))
    reader = asking(app)
    assert reader.get("AllergyIntolerance/nuts").status_code == 200
    assert listed(administrator(app))
    with app.app_context(), writing() as connection:
        for table in db.metadata.sorted_tables:
            count = connection.scalar(select(func.count()).select_from(table))
            if not count and not table.name.endswith(INDEXES):
                values = {
                    column.name: connection.scalar(select(next(iter(column.foreign_keys)).column))
                    if column.foreign_keys
                    else _made_up(column)
                    for column in table.columns
                }
                connection.execute(insert(table).values(values))


def _made_up(column: Column[Any]) -> Any:
    values = {
        Boolean: True, Integer: 1, Float: 1.5, LargeBinary: b"\0\xff", JSON: {"list": [1, None]},
    }  # fmt: skip
    matching = (value for kind, value in values.items() if isinstance(column.type, kind))
    return next(matching, f"made-up {column.name}")


def take(kind: str, url: str, target: Path) -> None:
    """Take a backup of a new database with rows in every table."""
    with tempfile.TemporaryDirectory() as name:
        clinic = Clinic(Path(name), url or f"sqlite:///{name}/fhirapp.db")
        with app_in(clinic.folder, **clinic.overrides) as app:
            fill(app, clinic.folder)
        back_up(clinic.settings, target / f"{HEAD}.{kind}.backup", NOW, None)


def keep() -> None:
    """Take a backup of each kind into tests/kept."""
    take(SQLITE, "", KEPT)
    server = make_url(os.environ[SERVER])
    engine = create_engine(
        server.set(drivername="postgresql+psycopg"), isolation_level="AUTOCOMMIT"
    )
    with engine.connect() as connection:
        connection.exec_driver_sql(
            "CREATE DATABASE fhirapp_kept TEMPLATE template0 ENCODING 'UTF8'"
        )
        try:
            url = server.set(database="fhirapp_kept").render_as_string(hide_password=False)
            take(POSTGRESQL, url, KEPT)
        finally:
            connection.exec_driver_sql("DROP DATABASE fhirapp_kept WITH (FORCE)")
    engine.dispose()


if __name__ == "__main__":
    keep()
