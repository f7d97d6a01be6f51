"""`fhirapp demo reset`: the first state again, once when it is due."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Table, insert, select, update
from sqlalchemy import delete as delete_rows

from fhirapp import create_app
from fhirapp.auth.models import PATIENT, Client, User, UserPatient
from fhirapp.auth.users import passwords
from fhirapp.cli.common import ready_app
from fhirapp.config import ConfigurationError
from fhirapp.db import db, writing
from fhirapp.environment import load_settings
from fhirapp.features.demo.accounts import PEOPLE, SECRET
from fhirapp.features.demo.reset import refuse_others, reset
from fhirapp.jobs import queue
from fhirapp.jobs.queue import Job
from fhirapp.jobs.schedules import run_due
from fhirapp.jobs.worker import sweep
from fhirapp.store.version import GENERATION
from tests.support.authorizing import EVERYTHING, Flow, add_program
from tests.support.browsing import Browser, add_person, id_of
from tests.support.contract import allergy, delete, publish, versions_held
from tests.support.helpers import Fhir, token_for
from tests.support.reindexing import contents
from tests.support.shell import assert_not_done, run_command
from tests.support.stored import current

# Each fills the demo anew several times, which takes a second.
pytestmark = pytest.mark.campaign

NOW = "2026-02-01T00:00:00.000+00:00"


EGG = "AllergyIntolerance/al-p3-egg"


@pytest.fixture
def demo(make_app: Callable[..., Flask]) -> Flask:
    """A demo of one's own, as it is at first."""
    app = make_app(demo=True)
    reset_demo(app, 0.0)
    return app


@pytest.fixture
def nightly(make_app: Callable[..., Flask]) -> Flask:
    """A demo that is reset nightly: looked at first at noon, changed since."""
    app = make_app(demo=True, demo_reset="nightly")
    look_at(app, [at("2026-03-10 12:00:00")])
    publish(app, allergy("new-one"), now=NOW)
    return app


def look_at(app: Flask, looks: list[float]) -> None:
    """Have the app's worker look for what is due at each of these times."""
    for now in looks:
        with app.app_context():
            while run_due(int(now)):
                pass


def at(text: str) -> float:
    return time.mktime(time.strptime(text, "%Y-%m-%d %H:%M:%S"))


def reset_demo(app: Flask, now: float = 1.0) -> int | None:
    with app.app_context():
        return reset(app, now)


def is_changed(app: Flask) -> bool:
    """Say whether a demo has what a visitor added."""
    return "new-one" in versions_held(app)["AllergyIntolerance"]


def asking(app: Flask) -> Fhir:
    return Fhir(app, token_for(app, "system/*.rs"))


def change_much(app: Flask) -> None:
    """Do what visitors do: change, add and delete records, come as new people, allow apps."""
    publish(app, allergy("al-p3-egg", "p3"), allergy("new-one"), now=NOW)
    delete(app, "DocumentReference", "doc-p1-hp-2024", now=NOW)
    flow = Flow(app, add_program(app), id_of(app, add_person(app, PATIENT, "p2")))
    flow.redeem(flow.code(EVERYTHING, patient="p2", encounter="enc-p2-2023-appendix"))
    Browser(app).sign_in("nobody", "wrong")


def rows(app: Flask, table: str) -> list[dict[str, Any]]:
    with app.app_context(), db.engine.connect() as connection:
        found = connection.execute(select(db.metadata.tables[table]))
        return [dict(row) for row in found.mappings()]


def everything(app: Flask) -> dict[str, list[str]]:
    """Return every row of every table, without what changes with each reset."""
    return {
        name: sorted(
            repr({**row, "password_hash": None})
            for row in rows(app, name)
            if row.get("name") != GENERATION
        )
        for name in db.metadata.tables
    }


def visitors_row(table: Table) -> dict[str, Any]:
    """Return a row for any table; what it refers to is in the others' rows of this kind."""
    values = {str: "visitor", int: 1_000_000, float: 1.0, bool: False, bytes: b"visitor"}
    return {column.name: values.get(column.type.python_type, {}) for column in table.columns}


def test_reset_removes_rows_of_visitors_and_restores_people_and_clients(demo):
    first = everything(demo)
    with demo.app_context(), writing() as connection:
        for table in db.metadata.sorted_tables:
            connection.execute(insert(table), [visitors_row(table)])
    changed = everything(demo)
    assert all(len(changed[name]) == len(first[name]) + 1 for name in first)
    with demo.app_context(), writing() as connection:
        another = {"password_hash": passwords.hashed("another"), "signed_in_at": 1}
        connection.execute(update(User).values(disabled=True, **another))
        connection.execute(update(Client).values(disabled=True, name="Changed"))
        connection.execute(delete_rows(UserPatient))
    reset_demo(demo)
    assert everything(demo) == first
    names = sorted(person.username for person in PEOPLE)
    assert sorted(row["username"] for row in rows(demo, "auth_user")) == names
    assert Browser(demo).sign_in("patient", SECRET).status == 200


def test_demo_is_reset_once_a_night_and_later_where_it_did_not_run(nightly):
    def is_reset_at(*looks: str) -> bool:
        publish(nightly, allergy("new-one"), now=NOW)
        look_at(nightly, [*map(at, looks)])
        return not is_changed(nightly)

    assert not is_reset_at("2026-03-10 23:59:59", "2026-03-11 02:59:59")
    assert is_reset_at("2026-03-11 03:00:07")
    assert not is_reset_at("2026-03-11 03:00:30", "2026-03-12 02:59:59")
    # A reset by hand moves no night.
    reset_demo(nightly, at("2026-03-12 02:59:59"))
    assert is_reset_at("2026-03-12 03:00:00")
    # It did not run at its hour.
    assert is_reset_at("2026-03-14 09:00:00")


def test_reset_is_a_run_of_its_schedule(nightly, monkeypatch):
    def run_of(state: str) -> Job:
        with nightly.app_context():
            (job, *_) = queue.runs_of_schedules("demo-reset")
        assert job.state == state
        return job

    look_at(nightly, [at("2026-03-11 03:00:07")])
    assert re.fullmatch(r"\d+ versions\.", run_of("done").summary)

    def fail(_app: Flask, _now: float) -> int:
        raise ConfigurationError("The seed is not whole.")

    with monkeypatch.context() as patch:
        patch.setattr("fhirapp.features.demo.reset.reset", fail)
        look_at(nightly, [at("2026-03-12 03:00:07")])
    assert run_of("failed").error == "The seed is not whole."

    def die(_app: Flask, _now: float) -> int:
        assert run_of("running").lease_until
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("fhirapp.features.demo.reset.reset", die)
        with pytest.raises(SystemExit):
            look_at(nightly, [at("2026-03-13 03:00:07")])
    with nightly.app_context():
        sweep(int(at("2026-03-13 03:01:00")))
    assert run_of("interrupted").schedule == "demo-reset"
    # The runs stay at the next reset, but no other job.
    with nightly.app_context(), writing() as connection:
        queue.add(connection, queue.new_id(), "export", "visitor", 0, runs=True)
    look_at(nightly, [at("2026-03-14 03:00:07")])
    with nightly.app_context():
        states = [(job.kind, job.state) for job in queue.jobs()]
    assert states == [("demo-reset", state) for state in ("done", "interrupted", "failed", "done")]


def test_demo_reset_command_leaves_the_clinic_database_alone(tmp_path):
    for _ in range(2):
        done = run_command(tmp_path, "demo", "reset")
        assert (done.returncode, done.stdout) == (0, "")
        assert "The demo was reset to its first state: " in done.stderr
    assert not (tmp_path / "fhirapp.db").exists()


def test_database_that_is_not_the_demo_is_not_reset(tmp_path):
    named = f"sqlite:///{tmp_path}/other.db"
    done = run_command(tmp_path, "demo", "reset", DATABASE_URL=named)
    assert_not_done(done, "Demo mode has its own database")
    assert run_command(tmp_path, "db", "upgrade").returncode == 0
    (tmp_path / "fhirapp.db").rename(tmp_path / "demo.db")
    before = (tmp_path / "demo.db").read_bytes()
    assert_not_done(run_command(tmp_path, "demo", "reset"), "was never the demo's")
    assert (tmp_path / "demo.db").read_bytes() == before
    with pytest.raises(ConfigurationError, match="Only the demo is reset"):
        refuse_others(create_app(load_settings({}, instance_path=str(tmp_path))))


def test_reset_removes_files_of_visitors(tmp_path):
    app = ready_app(demo=True, instance_path=str(tmp_path))
    left = [tmp_path / "demo" / name for name in ("uploads", "tasks", "imports", "backups")]
    clinics = tmp_path / "backups"
    for folder in (*left, clinics):
        folder.mkdir()
        (folder / "x").write_text("x")
    with app.app_context():
        reset(app, 0)
    assert [folder for folder in (*left, clinics) if folder.exists()] == [clinics]


def test_reset_restores_rows_words_and_totals(demo):
    words, total = "AllergyIntolerance?_content=peanut", "AllergyIntolerance?_summary=count"

    def found() -> Any:
        return contents(demo), asking(demo).ids(words), asking(demo).read(total)

    first = found()
    assert first[1]
    change_much(demo)
    publish(demo, allergy("peanut-too", code={"text": "Peanut"}), now=NOW)
    assert asking(demo).ids(words) == ["peanut-too", *first[1]]
    assert asking(demo).read(total)["total"] == first[2]["total"] + 2
    reset_demo(demo)
    assert found() == first


def test_sessions_and_tokens_end_with_a_reset(demo):
    browser, fhir = Browser(demo), asking(demo)
    browser.sign_in("clinician", SECRET)
    assert browser.get("/account").path == "/account"
    assert fhir.get(EGG).status_code == 200
    reset_demo(demo)
    page = browser.get("/account")
    assert page.path.startswith("/sign-in")
    assert "your session has ended" in page.words
    assert fhir.get(EGG).status_code == 401


def test_administrator_resets_the_demo_by_its_home_page(demo):
    publish(demo, allergy("walnut", code={"text": "Walnut"}), now=NOW)
    clinician, administrator = Browser(demo), Browser(demo)
    clinician.sign_in("clinician", SECRET)
    assert "Delete everything new and reset" not in clinician.get("/").buttons
    assert clinician.post_with_token("/demo/reset").status == 403
    administrator.sign_in("admin", SECRET)
    page = administrator.get("/").submit("Delete everything new and reset")
    assert "The demo was reset" in page.words
    assert "walnut" not in current(demo, "AllergyIntolerance")
