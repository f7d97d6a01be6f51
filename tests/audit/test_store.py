"""The audit store: several processes write it at once, and no crash or full disk loses an entry."""

from __future__ import annotations

import json
import logging
import os
import resource
import signal
import sqlite3
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from threading import Thread
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import create_engine, text

from fhirapp.audit import append, state, store_of
from fhirapp.audit.entries import AuditEntry, entries
from fhirapp.audit.events import record, record_export, record_settings
from fhirapp.audit.seals import Seal, public_key, seal_all
from fhirapp.audit.store import NAME, Run, columns_of
from fhirapp.audit.verify import VerificationResult, verify
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.keys import key_of
from tests.support.helpers import Fhir, token_for
from tests.support.shell import run_command
from tests.support.trails import ON_BOTH, ON_POSTGRESQL, attachment_of, noted, raw_lines, sql

READ = "AllergyIntolerance/al-p1-penicillin"


def verified(app: Flask) -> VerificationResult:
    with app.app_context():
        seal_all(app)
        return verify(app, {public_key(key_of(app))})


def shown(app: Flask, **which: Any) -> list[AuditEntry]:
    with app.app_context():
        return [*entries(**{"kind": None, "limit": 10_000, **which})]


def line(what: str) -> dict[str, Any]:
    return {"at": "2026-01-01T00:00:00.000+00:00", "event": "sign-in", "what": what}


def in_child(app: Flask, work: Callable[[], None]) -> int:
    """Do something in a process of its own; return its id."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            with app.app_context():
                work()
            status = 0
        finally:
            os._exit(status)
    return pid


@ON_BOTH
@pytest.mark.process
def test_processes_that_append_and_seal_at_once_lose_nothing(own_app):
    with own_app.app_context():
        append(line("first"))

    def work_of(name: str) -> Callable[[], None]:
        def work() -> None:
            for count in range(200):
                append(line(f"{name} {count}"))
                if count % 50 == 0:
                    seal_all(own_app)

        return work

    children = [in_child(own_app, work_of(name)) for name in "abc"]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 3
    with own_app.app_context():
        append(line("last"))
    found = verified(own_app)
    assert (found.faults, found.entries, found.unsealed) == ([], 602, 0)
    bodies = [entry.body for entry in reversed(shown(own_app))]
    assert (bodies[0], bodies[-1], len(set(bodies))) == ("first", "last", 602)
    for name in "abc":
        own = [body for body in bodies if body.startswith(f"{name} ")]
        assert own == [f"{name} {count}" for count in range(200)]


@ON_BOTH
@pytest.mark.process
def test_killed_process_loses_no_committed_entry(own_app):
    reading, writing = os.pipe()

    def work() -> None:
        for count in range(100_000):
            append(line(str(count)))
            os.write(writing, b"x")

    pid = in_child(own_app, work)
    for _ in range(50):
        os.read(reading, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(writing)
    written = 50 + len(os.read(reading, 1_000_000))
    with own_app.app_context():
        append(line("last"))
    assert verified(own_app).faults == []
    bodies = [entry.body for entry in reversed(shown(own_app))]
    # One may be there that nobody was told of.
    assert bodies[:written] == [str(count) for count in range(written)]
    assert (len(bodies) - written in (1, 2), bodies[-1]) == (True, "last")


@ON_BOTH
def test_threads_append_while_the_store_is_read_and_sealed(own_app):
    def work(name: str) -> None:
        with own_app.app_context():
            for count in range(50):
                append(line(f"{name} {count}"))
                if count % 10 == 0:
                    entries(kind=None)
                    seal_all(own_app)

    threads = [Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (verified(own_app).faults, len(shown(own_app))) == ([], 200)


@ON_POSTGRESQL
def test_threads_do_not_wait_for_one_connection(own_app):
    with own_app.app_context():
        store = store_of(own_app)
        append(line("first"))
        (only,) = store._spares
        # As while another thread appends.
        store._spares.clear()
        append(line("second"))
        assert len(store._spares) == 1
        store._spares.append(only)
        append(line("third"))
    assert [entry.body for entry in shown(own_app)] == ["third", "second", "first"]


@contextmanager
def full_disk(room: int) -> Iterator[None]:
    """Let no file have more bytes, so that what is written to a longer one fails."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 100, 5_000])
def test_full_disk_loses_no_other_entry_and_the_gap_is_recorded(make_app, caplog, room):
    app = make_app(audit="best-effort")
    client = Fhir(app, token_for(app, "system/*.rs"))
    client.get("Patient/p1")
    with full_disk(room), caplog.at_level(logging.ERROR):
        assert [client.get("Patient/p2").status_code for _ in range(3)] == [200] * 3
    assert caplog.text.count("the audit trail cannot be written") == 1
    client.get("Patient/p3")
    assert "the audit trail is written again; it lacks 3 entries" in caplog.text
    assert [entry.path[-2:] for entry in shown(app, kind="records")] == ["p3", "p1"]
    (missing,) = shown(app, event="missing")
    assert missing.body == "3"
    assert verified(app).faults == []


def test_entry_waits_for_another_writer_and_is_refused_after_a_while(own_app, watched, monkeypatch):
    monkeypatch.setattr("fhirapp.audit.store._BUSY_SECONDS", 0.2)
    with own_app.app_context():
        store_of(own_app).close()
    with closing(sqlite3.connect(settings_of(own_app).instance / NAME)) as other:
        other.execute("BEGIN IMMEDIATE")
        answer = watched.get(READ)
        assert answer.status_code == 503
        assert "database is locked" in answer.text
    assert watched.get(READ).status_code == 200
    assert [event["what"] for event in noted(own_app) if event.get("event") == "missing"] == ["1"]


def test_removed_file_is_made_anew_for_the_next_entry(own_app, watched):
    watched.get(READ)
    for file in settings_of(own_app).instance.glob(f"{NAME}*"):
        file.unlink()
    # The thread that seals looks for it every second.
    assert verified(own_app).entries == 0
    assert watched.get(READ).status_code == 200
    assert len(shown(own_app, kind="records")) == 1


def test_process_closes_its_file_into_one(own_app, watched):
    watched.get(READ)
    with own_app.app_context():
        db.engine.dispose()
    (file,) = settings_of(own_app).instance.glob(f"{NAME}*")
    assert (file.name, stat.S_IMODE(file.stat().st_mode)) == (NAME, 0o600)


@contextmanager
def administering(app: Flask) -> Iterator[Callable[[str], None]]:
    """Run statements in another database of the same server; NAME is the app's."""
    with app.app_context():
        url = db.engine.url
    engine = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield lambda statement: connection.execute(
            text(statement.replace("NAME", str(url.database)))
        )
    engine.dispose()


END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'NAME'"


@ON_POSTGRESQL
def test_restarted_database_costs_no_answer(own_app, watched):
    assert watched.get(READ).status_code == 200
    with administering(own_app) as run:
        run(END)
    assert watched.get(READ).status_code == 200
    assert len(shown(own_app, kind="records")) == 2
    assert verified(own_app).faults == []


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the database tried at each request."""
    monkeypatch.setattr("fhirapp.audit.store._PAUSE_SECONDS", 0)


@ON_POSTGRESQL
@pytest.mark.usefixtures("_at_once")
def test_requests_are_refused_while_the_database_is_away(own_app, watched):
    assert watched.get(READ).status_code == 200
    with administering(own_app) as run:
        run("ALTER DATABASE NAME ALLOW_CONNECTIONS FALSE")
        run(END)
        try:
            assert [watched.get(READ).status_code for _ in range(3)] == [503] * 3
        finally:
            run("ALTER DATABASE NAME ALLOW_CONNECTIONS TRUE")
    assert watched.get(READ).status_code == 200
    assert verified(own_app).faults == []


@ON_POSTGRESQL
@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(("audit", "status"), [("required", 503), ("best-effort", 200)])
def test_setting_decides_whether_an_unwritable_table_refuses_requests(
    make_app, caplog, audit, status
):
    app = make_app(audit=audit)
    client = Fhir(app, token_for(app, "system/*.rs"))
    assert client.get(READ).status_code == 200
    sql(app, "ALTER TABLE audit_entry RENAME TO elsewhere")
    answers = [client.get(READ) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status] * 2
    assert "the audit trail cannot be written" in caplog.text
    if status == 503:
        assert b"penicillin" not in answers[0].data.lower()
        assert "audit_entry" in answers[0].get_json(force=True)["issue"][0]["diagnostics"]
    assert "audit_entry" in state(app)
    sql(app, "ALTER TABLE elsewhere RENAME TO audit_entry")
    assert client.get(READ).status_code == 200
    assert state(app) == ""
    missing = [int(event["what"]) for event in noted(app) if event.get("event") == "missing"]
    assert sum(missing) == 2
    assert verified(app).faults == []


@ON_POSTGRESQL
def test_each_server_shows_and_verifies_the_entries_of_the_others(make_app):
    first = make_app()
    second = make_app(database_url=settings_of(first).database_url, seed=False)
    token = token_for(first, "system/*.rs")
    for app, patient in ((first, "p1"), (second, "p2"), (first, "p3")):
        Fhir(app, token).get(f"Patient/{patient}")
    with first.app_context():
        record_export({"p4", "p5"}, "a test")
    for app in (first, second):
        paths = [entry.path[-2:] for entry in shown(app, kind="records")]
        assert paths == ["p3", "p2", "p1"]
        assert [entry.path[-2:] for entry in shown(app, patient_id="p2")] == ["p2"]
        assert [entry.event for entry in shown(app, patient_id="p5")] == ["export"]
    assert verified(first) == verified(second)
    assert not (settings_of(first).instance / NAME).exists()


@ON_BOTH
def test_control_characters_of_an_event_hide_no_entry(own_app):
    with own_app.app_context():
        record("sign-in", about="user/\0", what="a\0b")
        record("sign-in", what="c")
    newest, odd = shown(own_app)
    assert (newest.body, odd.body, odd.about) == ("c", "a b", "user/ ")
    assert shown(own_app, about="user/ ") == [odd]
    assert verified(own_app).faults == []


def test_columns_repeat_parts_of_the_line(watched, own_app):
    watched.get(f"{READ}?_format=json")
    ((*columns, text_),) = sql(
        own_app,
        "SELECT at, user_id, client_id, via, status, event, about, request_id, line"
        " FROM audit_entry WHERE event = ''",
    )
    content = json.loads(text_)
    assert tuple(columns) == columns_of(content)
    assert columns == [content["at"], None, content["client"], "", 200, "", "", content["request"]]
    assert content["patients"] == ["p1"]


@pytest.mark.parametrize(
    "which",
    [
        {"patient_id": "p1"},
        {"patient_id": "p1", "kind": None, "before": 9},
        {"user_id": "u"},
        {"client_id": "c", "before": 9},
        {"event": "sign-in", "kind": None},
        {"about": "user/u", "kind": "administration"},
    ],
    ids=repr,
)
def test_query_reads_an_index_and_sorts_nothing(own_app, monkeypatch, which):
    plans: list[str] = []
    reading = store_of(own_app).reading

    @contextmanager
    def explained() -> Iterator[Run]:
        with reading() as run:

            def explain(statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
                plans.extend(row[3] for row in run(f"EXPLAIN QUERY PLAN {statement}", values))
                return run(statement, values)

            yield explain

    with own_app.app_context():
        seal_all(own_app)
        monkeypatch.setattr(store_of(own_app), "reading", explained)
        entries(**which)
    assert plans
    assert all(plan.startswith("SEARCH") for plan in plans), plans


@ON_BOTH
def test_changed_settings_are_recorded_at_the_start_without_secrets(make_app):
    hidden = "hunter2"
    address = f"postgresql://me:{hidden}@db/x"
    app = make_app(base_url="https://fhir.clinic.example")
    settings = settings_of(app)
    with app.app_context():
        for started in (
            *(settings, settings),
            replace(settings, page_size=7, database_url=address, oidc_client_secret=hidden),
        ):
            record_settings(started)
    last, first = shown(app, event="settings-changed")
    assert first.body == "the first start that this trail has"
    assert last.body == "database_url; oidc_client_secret; page_size '100' to '7'"
    stored = attachment_of(app, last.request_id)
    assert stored["page_size"] == "7"
    assert not any(hidden in content for content in [*raw_lines(app), json.dumps(stored)])


@pytest.mark.process
def test_audit_commands_print_a_head_and_verify_the_trail(tmp_path):
    run_command(tmp_path, "user", "add", "ann", "--role", "clinician", "--invite")
    head = run_command(tmp_path, "audit", "head").stdout
    seal = Seal.of_json(json.loads(head))
    assert (
        seal.k,
        seal.entries,
        json.loads(run_command(tmp_path, "audit", "head").stdout)["k"],
    ) == (*(1, 2, 1),)
    copied = tmp_path / "copied"
    copied.write_text(f"{head}\n")
    for given in (str(copied), head):
        whole = run_command(tmp_path, "audit", "verify", "--head", given)
        assert (whole.returncode, whole.stderr) == (0, "")
        assert whole.stdout.startswith("The trail is intact: 2 entries, 1 seals signed with ")
    alone = run_command(tmp_path, "audit", "verify")
    assert "Only a head that was copied elsewhere can show" in alone.stderr
    with closing(sqlite3.connect(tmp_path / NAME)) as store, store:
        store.execute("UPDATE audit_entry SET line = replace(line, 'clinician', 'patient')")
    broken = run_command(tmp_path, "audit", "verify")
    assert broken.returncode == 1
    assert broken.stdout.startswith("The trail is not intact: seal 1, entries 1 to 2 of ")
    for words in ("{}", str(tmp_path / "nothing")):
        assert run_command(tmp_path, "audit", "verify", "--head", words).returncode == 2
