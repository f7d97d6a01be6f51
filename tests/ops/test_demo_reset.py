"""`fhirapp demo reset`: the same as at first, seen whole or not at all, and once when it is due."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from threading import Event
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Table, insert, inspect, select, update
from sqlalchemy import delete as delete_rows
from sqlalchemy.exc import OperationalError

from fhirapp import create_app
from fhirapp.auth.clients.administration import issue_token
from fhirapp.auth.demo import BACKEND, PEOPLE, SECRET
from fhirapp.auth.models import PATIENT, AccessToken, Client, User, UserPatient
from fhirapp.auth.users import sessions
from fhirapp.cli.common import ready_app
from fhirapp.config import ConfigurationError, load_settings, settings_of
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.ops.prepare import prepare
from fhirapp.ops.reset import refuse_others, reset
from fhirapp.ops.schedules import run_due
from fhirapp.search.fulltext import words_table
from fhirapp.store.version import GENERATION
from fhirapp.trail.table import MODELS
from tests.support.authorizing import EVERYTHING, Flow, add_program
from tests.support.browsing import Browser, add_person, id_of
from tests.support.contract import SERVED, allergy, delete, publish, versions_held
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, ids, link, token_for
from tests.support.racing import together
from tests.support.reindexing import contents
from tests.support.shell import assert_not_done, fhirapp

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

NOW = "2026-02-01T00:00:00.000+00:00"
EGG = "AllergyIntolerance/al-p3-egg"
RESET_WHEN_DUE = """
import sys
from fhirapp import create_app
from fhirapp.config import load_settings
from fhirapp.ops import schedules
made = []
wanted = schedules.reset
schedules.reset = lambda app, now: made.append(now) or wanted(app, now)
app = create_app(load_settings(demo=True, demo_reset="hourly", instance_path=sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
with app.app_context():
    schedules.run_due(7200)
print(made)
"""


@pytest.fixture
def demo(make_app: Callable[..., Flask]) -> Flask:
    """A demo of one's own, as it is at first."""
    app = make_app(demo=True)
    put_back(app, 0.0)
    return app


@pytest.fixture
def nightly(make_app: Callable[..., Flask]) -> Flask:
    """A demo that is reset nightly: looked at first at noon, changed since."""
    app = make_app(demo=True, demo_reset="nightly")
    watch(app, [at("2026-03-10 12:00:00")])
    publish(app, allergy("new-one"), now=NOW)
    return app


def watch(app: Flask, looks: list[float]) -> None:
    """Have the app's worker look for what is due at each of these times."""
    for now in looks:
        with app.app_context():
            while run_due(int(now)):
                pass


def at(text: str) -> float:
    """Return a local time in seconds since 1970."""
    return time.mktime(time.strptime(text, "%Y-%m-%d %H:%M:%S"))


def put_back(app: Flask, now: float = 1.0) -> int | None:
    """Reset a demo."""
    with app.app_context():
        return reset(app, now)


def is_changed(app: Flask) -> bool:
    """Say whether a demo has what a visitor added."""
    return "new-one" in versions_held(app)["AllergyIntolerance"]


def asking(app: Flask) -> Fhir:
    """Return a client whose token is new."""
    return Fhir(app, token_for(app, "system/*.rs"))


def answers(app: Flask) -> dict[str, tuple[bytes, str | None, str | None]]:
    """Return the answers to every read, vread and history: body, ETag, Last-Modified."""
    fhir = asking(app)
    paths = []
    for name, resources in versions_held(app).items():
        interactions = SERVED[name].interactions
        for row_id, versions in resources.items():
            paths.append(f"{name}/{row_id}")
            if "vread" in interactions:
                paths += [f"{name}/{row_id}/_history/{one}" for one in range(1, len(versions) + 1)]
            if "history-instance" in interactions:
                paths.append(f"{name}/{row_id}/_history")
    found = {}
    for path in paths:
        answer = fhir.get(path)
        assert answer.status_code in (200, 410), (path, answer.text)
        told = answer.headers
        found[path] = (answer.data, told.get("ETag"), told.get("Last-Modified"))
    return found


def change_much(app: Flask) -> None:
    """Do what visitors do: change, add and delete records, come as new people, allow apps."""
    publish(app, allergy("al-p3-egg", "p3"), allergy("new-one"), now=NOW)
    delete(app, "DocumentReference", "doc-p1-hp-2024", now=NOW)
    flow = Flow(app, add_program(app), id_of(app, add_person(app, PATIENT, "p2")))
    flow.redeem(flow.code(EVERYTHING, patient="p2", encounter="enc-p2-2023-appendix"))
    Browser(app).sign_in("nobody", "wrong")


def rows(app: Flask, table: str) -> list[dict[str, Any]]:
    """Return a table's rows."""
    with app.app_context(), db.engine.connect() as connection:
        found = connection.execute(select(db.metadata.tables[table]))
        return [dict(row) for row in found.mappings()]


def people(app: Flask) -> list[tuple[str, ...]]:
    """Return what is known of the people, but for their passwords' hashes."""
    told = ("username", "id", "created_at", "role", "disabled", "fhir_user", "signed_in_at")
    return sorted(tuple(str(row[one]) for one in told) for row in rows(app, "auth_user"))


def test_every_answer_is_the_same_to_the_byte_after_a_reset(demo):
    first = answers(demo)
    assert len(first) > 300
    change_much(demo)
    assert answers(demo) != first
    put_back(demo)
    assert answers(demo) == first


def test_the_tables_are_the_same_to_the_row_after_a_reset(demo):
    first = contents(demo)
    change_much(demo)
    put_back(demo)
    assert contents(demo) == first


def test_words_are_found_as_at_first(demo):
    asked = "AllergyIntolerance?_content=peanut"
    first = asking(demo).ids(asked)
    assert first
    publish(demo, allergy("new-one", code={"text": "Peanut"}), now=NOW)
    assert asking(demo).ids(asked) == ["new-one", *first]
    put_back(demo)
    assert asking(demo).ids(asked) == first


def test_a_page_that_was_begun_goes_on_after_a_reset(demo):
    fhir = asking(demo)
    expected = fhir.ids("AllergyIntolerance?_count=1000")
    page = fhir.read("AllergyIntolerance?_count=10")
    begun = ids(page)
    put_back(demo)
    fhir = asking(demo)
    while (address := link(page, "next")) is not None:
        page = fhir.read(address)
        begun += ids(page)
    assert len(begun) > 10
    assert begun == expected


def test_a_total_that_was_kept_is_counted_anew(demo):
    asked = "AllergyIntolerance?_summary=count"
    first = asking(demo).read(asked)["total"]
    publish(demo, allergy("new-one"), now=NOW)
    assert asking(demo).read(asked)["total"] == first + 1
    put_back(demo)
    assert asking(demo).read(asked)["total"] == first


def everything(app: Flask) -> dict[str, list[str]]:
    """Return every row of every table, without what changes with each reset."""
    return {
        name: sorted(
            repr({**row, "password_hash": None})
            for row in rows(app, name)
            if row.get("name") != GENERATION
        )
        # The trail in PostgreSQL, where there is no demo, goes on while it is looked at.
        for name in db.metadata.tables.keys() - {model.__tablename__ for model in MODELS}
    }


def visitors_row(table: Table) -> dict[str, Any]:
    """Return a row for any table; what it refers to is in the others' rows of this kind."""
    values = {str: "visitor", int: 1_000_000, float: 1.0, bool: False, bytes: b"visitor"}
    return {column.name: values.get(column.type.python_type, {}) for column in table.columns}


def test_no_table_keeps_what_a_visitor_left(demo):
    first = everything(demo)
    with demo.app_context(), writing() as connection:
        for table in db.metadata.sorted_tables:
            connection.execute(insert(table), [visitors_row(table)])
    changed = everything(demo)
    assert all(len(changed[name]) == len(first[name]) + 1 for name in first)
    put_back(demo)
    assert everything(demo) == first
    names = sorted(person.username for person in PEOPLE)
    assert [username for username, *_ in people(demo)] == names


def test_a_reset_takes_less_than_two_seconds(demo):
    made = [allergy(f"new-{number}") for number in range(2_000)]
    publish(demo, *made, now=NOW)
    begun = time.process_time()
    put_back(demo)
    assert time.process_time() - begun < 2


def test_every_table_of_the_database_is_one_that_a_reset_knows(demo):
    with demo.app_context():
        words = [words_table(one.tables).strip('"') for one in types().values() if one.has_words]
        found = inspect(db.engine).get_table_names()
    known = (*db.metadata.tables, "alembic_version")
    assert [one for one in found if one not in known and not one.startswith(tuple(words))] == []


def test_the_demos_people_and_clients_are_as_at_first(demo):
    tables = ("auth_user_patient", "oauth_client")
    first = people(demo), *(rows(demo, name) for name in tables)
    with demo.app_context(), writing() as connection:
        changed = {"password_hash": sessions.hashed("another"), "signed_in_at": 1}
        connection.execute(update(User).values(disabled=True, **changed))
        connection.execute(update(Client).values(disabled=True, name="Changed"))
        connection.execute(delete_rows(UserPatient))
    put_back(demo, 86_400.0)
    assert (people(demo), *(rows(demo, name) for name in tables)) == first
    assert Browser(demo).sign_in("patient", SECRET).status == 200


def test_a_session_leads_to_sign_in_after_a_reset(demo):
    browser = Browser(demo)
    browser.sign_in("clinician", SECRET)
    assert browser.get("/account").path == "/account"
    put_back(demo)
    assert browser.get("/account").path.startswith("/sign-in")


def test_an_access_token_is_refused_after_a_reset(demo):
    fhir = asking(demo)
    assert fhir.get(EGG).status_code == 200
    put_back(demo)
    assert fhir.get(EGG).status_code == 401


def test_readers_see_the_old_state_or_the_new_one_and_never_half(demo):
    with demo.app_context(), writing() as connection:
        secret = issue_token(connection, scope="system/*.rs", client_id=BACKEND)
    fhir, (token,) = Fhir(demo, secret), rows(demo, "oauth_access_token")

    asked = "AllergyIntolerance?_count=1000&_revinclude=Provenance:target"
    asked += "&_include=AllergyIntolerance:patient"

    def state() -> tuple[str, ...]:
        """Return the versions of three types that one answer has; nothing where it is refused."""
        # From a new address each time: refusals are counted.
        answer = fhir.get(asked, environ_base={"REMOTE_ADDR": f"2001:db8:{next(numbers):x}::1"})
        if answer.status_code == 401:
            return ()
        assert answer.status_code == 200, answer.text
        found = [one["resource"] for one in answer.get_json(force=True).get("entry", [])]
        return tuple(f"{one['id']} {one.get('meta')}" for one in found)

    def watch_until_over() -> set[tuple[str, ...]]:
        seen = set()
        while not over.is_set():
            seen.add(state())
        return seen

    numbers = count()
    first, over = state(), Event()
    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(watch_until_over) for _ in range(3)]
        try:
            for _ in range(2):
                publish(demo, allergy("al-p3-egg", "p3"), allergy("new-one"), now=NOW)
                changed = state()
                put_back(demo)
                with demo.app_context(), writing() as connection:
                    connection.execute(insert(AccessToken), [token])
                assert state() == first != changed
        finally:
            over.set()
        seen = set().union(*(reader.result() for reader in readers))
    assert seen - {()} <= {first, changed}
    assert first in seen
    assert len(first) > 50
    assert len(changed) == len(first) + 1


def test_the_timer_resets_once_when_it_is_due_and_again_the_next_night(nightly):
    watch(nightly, [at("2026-03-10 23:59:59"), at("2026-03-11 02:59:59")])
    assert is_changed(nightly)
    watch(nightly, [at("2026-03-11 03:00:07")])
    assert not is_changed(nightly)
    publish(nightly, allergy("new-one"), now=NOW)
    watch(nightly, [at("2026-03-11 03:00:30"), at("2026-03-12 02:59:59")])
    assert is_changed(nightly)
    watch(nightly, [at("2026-03-12 03:00:00")])
    assert not is_changed(nightly)


def test_a_demo_that_did_not_run_at_its_hour_is_reset_when_it_does(nightly):
    watch(nightly, [at("2026-03-14 09:00:00")])
    assert not is_changed(nightly)


def test_a_reset_by_hand_puts_off_no_night(nightly):
    put_back(nightly, at("2026-03-11 02:00:00"))
    publish(nightly, allergy("new-one"), now=NOW)
    watch(nightly, [at("2026-03-11 02:30:00")])
    assert is_changed(nightly)
    watch(nightly, [at("2026-03-11 03:00:00")])
    assert not is_changed(nightly)


def test_a_reset_that_found_the_database_busy_is_made_at_the_next_look(nightly, monkeypatch):
    monkeypatch.setattr("fhirapp.db.BUSY_SECONDS", 0.1)
    with nightly.app_context(), writing(), pytest.raises(OperationalError):
        watch(nightly, [at("2026-03-11 03:00:00")])
    assert is_changed(nightly)
    watch(nightly, [at("2026-03-11 03:00:20")])
    assert not is_changed(nightly)


def test_a_setting_that_is_changed_changes_the_schedule(nightly):
    nightly.config["FHIRAPP"] = replace(settings_of(nightly), demo_reset="hourly")
    watch(nightly, [at("2026-03-10 12:10:00"), at("2026-03-10 12:59:59")])
    assert is_changed(nightly)
    watch(nightly, [at("2026-03-10 13:00:00")])
    assert not is_changed(nightly)
    publish(nightly, allergy("new-one"), now=NOW)
    nightly.config["FHIRAPP"] = replace(settings_of(nightly), demo_reset="off")
    watch(nightly, [at("2026-03-12 13:00:00")])
    assert is_changed(nightly)


def test_of_two_processes_one_resets(tmp_path):
    app = create_app(load_settings({}, demo=True, demo_reset="hourly", instance_path=str(tmp_path)))
    prepare(app, lambda _message: None)
    watch(app, [0])
    with app.app_context():
        db.engine.dispose()
    assert sorted(together(RESET_WHEN_DUE, tmp_path)) == ["[7200]", "[]"]


def test_the_command_resets_the_demo_alone(tmp_path):
    for _ in range(2):
        done = fhirapp(tmp_path, "demo", "reset")
        assert (done.returncode, done.stdout) == (0, "")
        assert "The demo was reset to its first state: " in done.stderr
    assert not (tmp_path / "fhirapp.db").exists()


def test_what_is_not_the_demos_is_not_reset(tmp_path):
    named = f"sqlite:///{tmp_path}/other.db"
    done = fhirapp(tmp_path, "demo", "reset", DATABASE_URL=named)
    assert_not_done(done, "Demo mode has its own database")
    assert fhirapp(tmp_path, "db", "upgrade").returncode == 0
    (tmp_path / "fhirapp.db").rename(tmp_path / "demo.db")
    before = (tmp_path / "demo.db").read_bytes()
    assert_not_done(fhirapp(tmp_path, "demo", "reset"), "was never the demo's")
    assert (tmp_path / "demo.db").read_bytes() == before
    with pytest.raises(ConfigurationError, match="Only the demo is reset"):
        refuse_others(create_app(load_settings({}, instance_path=str(tmp_path))))


def test_what_visitors_left_in_the_demos_folder_is_gone(tmp_path):
    app = ready_app(demo=True, instance_path=str(tmp_path))
    left = [tmp_path / "demo" / name for name in ("uploads", "tasks", "imports", "backups")]
    clinics = tmp_path / "backups"
    for folder in (*left, clinics):
        folder.mkdir()
        (folder / "x").write_text("x")
    with app.app_context():
        reset(app, 0)
    assert [folder for folder in (*left, clinics) if folder.exists()] == [clinics]
