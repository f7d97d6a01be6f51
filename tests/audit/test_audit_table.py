"""The audit trail in PostgreSQL: several servers write it at once, and each shows all of it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import create_engine, literal, text

from fhirapp import trail as trail_module
from fhirapp.audit.read import AuditEntry, entries
from fhirapp.audit.tables import mend
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.keys import key_of
from fhirapp.server.prepare import prepare
from fhirapp.trail import FOLDER, chain, public_key, trail_of
from fhirapp.trail.chain import FileTrail, files
from fhirapp.trail.events import LISTED, record_export
from fhirapp.trail.joins import verify_trail
from fhirapp.trail.moving import BROUGHT_IN
from fhirapp.trail.packing import pack
from fhirapp.trail.table import FIRST_NUMBER
from fhirapp.trail.verify import VerificationResult
from tests.support.helpers import Fhir, token_for
from tests.support.trails import IN_TABLE, noted

pytestmark = IN_TABLE


READ = "AllergyIntolerance/al-p1-penicillin"


def verified(
    app: Flask, *copied: dict[str, Any], keys: set[str] = frozenset()
) -> VerificationResult:
    with app.app_context():
        return verify_trail(app, {public_key(key_of(app)), *keys}, copied)


def shown(app: Flask, **which: Any) -> list[AuditEntry]:
    with app.app_context():
        return [*entries(**{"kind": None, "limit": 10_000, **which})]


def line(what: str, day: str = "2026-01-01") -> dict[str, Any]:
    return {"at": f"{day}T00:00:00.000+00:00", "event": "sign-in", "what": what}


@pytest.fixture
def two(make_app: Callable[..., Flask]) -> tuple[Flask, Flask]:
    """Return two servers on one database, each with a folder of its own."""
    first = make_app()
    return first, make_app(database_url=settings_of(first).database_url, seed=False)


def test_each_server_shows_requests_of_the_others(two):
    first, second = two
    token = token_for(first, "system/*.rs")
    Fhir(first, token).get("Patient/p1")
    Fhir(second, token).get("Patient/p2")
    Fhir(first, token).get("Patient/p3")
    paths = ["/fhir/Patient/p3", "/fhir/Patient/p2", "/fhir/Patient/p1"]
    for app in two:
        assert [entry.path for entry in shown(app, kind="records")] == paths
        assert [entry.path for entry in shown(app, patient_id="p2")] == ["/fhir/Patient/p2"]
    with first.app_context():
        record_export({"p4", "p5"}, "a test")
    assert [entry.event for entry in shown(second, patient_id="p5")] == ["export"]
    assert shown(first) == shown(second)
    assert verified(first) == verified(second)
    assert verified(first).faults == []
    assert not (settings_of(first).instance / FOLDER).exists()


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


def test_concurrent_processes_have_a_chain_each(own_app, monkeypatch):
    monkeypatch.setattr(chain, "HEAD_LINES", 50)
    monkeypatch.setattr("fhirapp.trail.verify.HEAD_LINES", 50)
    with own_app.app_context():
        trail_of(own_app).append(line("first"))

    def append(name: str) -> Callable[[], None]:
        def work() -> None:
            for count in range(200):
                trail_of(own_app).append(line(f"{name} {count}"))

        return work

    children = [in_child(own_app, append(name)) for name in "abc"]
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 3
    with own_app.app_context():
        trail_of(own_app).append(line("last"))
    found = verified(own_app)
    assert (found.faults, found.chains, found.lines - found.heads) == ([], 4, 602)
    bodies = [entry.body for entry in reversed(shown(own_app))]
    assert len(bodies) == len(set(bodies)) == 602
    for name in "abc":
        assert [body for body in bodies if body.startswith(f"{name} ")] == [
            f"{name} {count}" for count in range(200)
        ]
    assert (bodies[0], bodies[-1]) == ("first", "last")


def test_killed_process_loses_no_written_line(own_app):
    reading, writing = os.pipe()

    def work() -> None:
        for count in range(100_000):
            trail_of(own_app).append(line(str(count)))
            os.write(writing, b"x")

    pid = in_child(own_app, work)
    for _ in range(50):
        os.read(reading, 1)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(writing)
    written = 50 + len(os.read(reading, 1_000_000))
    with own_app.app_context():
        trail_of(own_app).append(line("last"))
    found = verified(own_app)
    assert found.faults == []
    bodies = [entry.body for entry in reversed(shown(own_app))]
    # One may be there of which nobody was told any more.
    assert bodies[:written] == [str(count) for count in range(written)]
    assert len(bodies) - written in (1, 2)
    assert bodies[-1] == "last"


@contextmanager
def administering(app: Flask) -> Iterator[Callable[[str], None]]:
    """Run statements in another database of the same server; NAME is the app's."""
    url = db_url(app)
    engine = create_engine(url.set(database="postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        yield lambda sql: connection.execute(text(sql.replace("NAME", str(url.database))))
    engine.dispose()


def db_url(app: Flask) -> Any:
    with app.app_context():
        return db.engine.url


END = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'NAME'"


def test_restarted_database_costs_no_answer(own_app, watched):
    assert watched.get(READ).status_code == 200
    with administering(own_app) as run:
        run(END)
    assert watched.get(READ).status_code == 200
    found = verified(own_app)
    assert (found.faults, found.chains) == ([], 2)
    assert len(shown(own_app, kind="records")) == 2


@pytest.fixture
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the database tried at each request."""
    monkeypatch.setattr("fhirapp.trail.table._PAUSE_SECONDS", 0)


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


@pytest.mark.usefixtures("_at_once")
@pytest.mark.parametrize(("audit", "status"), [("required", 503), ("best-effort", 200)])
def test_setting_decides_whether_an_unwritable_table_refuses_requests(
    make_app, caplog, audit, status
):
    app = make_app(audit=audit)
    client = Fhir(app, token_for(app, "system/*.rs"))
    assert client.get(READ).status_code == 200
    with app.app_context(), db.engine.begin() as connection:
        connection.execute(text("ALTER TABLE audit_line RENAME TO elsewhere"))
    answers = [client.get(READ) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [status] * 2
    assert "the audit trail cannot be written" in caplog.text
    if status == 503:
        assert b"penicillin" not in answers[0].data.lower()
        assert "audit_line" in answers[0].get_json(force=True)["issue"][0]["diagnostics"]
    with app.app_context():
        assert "audit_line" in trail_module.state(app)
        with db.engine.begin() as connection:
            connection.execute(text("ALTER TABLE elsewhere RENAME TO audit_line"))
    # Each notes what it could not write itself.
    assert client.get(READ).status_code == 200
    with app.app_context():
        assert trail_module.state(app) == ""
    missing = [int(event["what"]) for event in noted(app) if event.get("event") == "missing"]
    assert sum(missing) == 2
    assert verified(app).faults == []


def test_inserted_row_is_found_and_blocks_no_writer(own_app, watched):
    watched.get(READ)
    with own_app.app_context(), db.engine.begin() as connection:
        connection.execute(
            text(
                "INSERT INTO audit_line (chain, n, hash, is_head, line) SELECT chain, n + 1, hash,"
                " is_head, line FROM audit_line ORDER BY pk DESC LIMIT 1"
            )
        )
    assert watched.get(READ).status_code == 200
    (fault,) = verified(own_app).faults
    assert "line 4: its row has another number or digest" in fault


def test_line_with_null_characters_hides_no_other(own_app, watched):
    watched.get(READ)
    with own_app.app_context():
        trail_of(own_app).append({**line("a\0b"), "about": "user/\0"})
    watched.get(READ)
    (odd, *_others) = shown(own_app, kind="administration")
    assert (odd.body, odd.about) == ("a\ufffdb", "user/\ufffd")
    assert len(shown(own_app, kind="records")) == 2
    with own_app.app_context():
        assert mend() == []


def on(day: str, monkeypatch: pytest.MonkeyPatch, app: Flask) -> None:
    """Have a chain begun on a day."""
    trail_of(app).close()
    monkeypatch.setattr("fhirapp.trail.table.TODAY", literal(day))


def test_expired_chains_are_removed_and_that_is_recorded(make_app, monkeypatch):
    app = make_app(audit_keep=3)
    with app.app_context():
        for day in ("2026-01-01", "2026-01-02", "2026-01-08", "2026-01-09"):
            on(day, monkeypatch, app)
            trail_of(app).append(line("x", day))
            trail_of(app).put(f"{day}-x{LISTED}", b"p1\n")
        assert len(shown(app)) == 4
        monkeypatch.undo()
        trail_of(app).close()
        pack(settings_of(app), datetime(2026, 1, 10, tzinfo=UTC))
        pack(settings_of(app), datetime(2026, 1, 10, tzinfo=UTC))
        found = shown(app)
        assert [entry.at[:10] for entry in found[1:]] == ["2026-01-09", "2026-01-08"]
        assert (found[0].event, found[0].body) == ("packed", "2026-01-01 to 2026-01-02")
        assert trail_of(app).get(f"2026-01-02-x{LISTED}") is None
        assert trail_of(app).get(f"2026-01-08-x{LISTED}") == b"p1\n"
        assert verified(app).faults == []
        # What the trail does not say was removed may not be missing.
        with db.engine.begin() as connection:
            for table, column in (("line", "chain"), ("chain", "name")):
                connection.execute(text(f"DELETE FROM audit_{table} WHERE {column} < '2026-01-09'"))
    (fault,) = verified(app).faults
    assert fault.startswith("chain 2026-01-08-")
    assert "it is missing" in fault


def in_a_folder(app: Flask, monkeypatch: pytest.MonkeyPatch, days: int) -> dict[str, Any]:
    """Write a trail into an app's folder, as a release before did; return its head."""
    sign = trail_module._signed
    old = FileTrail(settings_of(app).instance / FOLDER, lambda head: sign(head, key_of(app)))
    now = datetime.now(UTC)

    class Clock(datetime):
        shift = timedelta(0)

        @classmethod
        def now(cls, tz=None):  # noqa: ARG003
            return now - cls.shift

    with monkeypatch.context() as patch:
        patch.setattr(chain, "datetime", Clock)
        for day in range(days, 0, -1):
            Clock.shift = timedelta(days=day)
            for count in range(3):
                old.append(line(f"{day}.{count}"))
        head = old.head()
    old.put(f"2026-01-01-x{LISTED}", b"p1\np2\n")
    (*_, newest) = files(settings_of(app).instance / FOLDER)
    with newest.open("ab") as file:
        file.write(b'{"at":"2026-')
    return head


def begin(app: Flask) -> list[str]:
    said: list[str] = []
    prepare(app, said.append, serving=True)
    return said


def test_files_of_an_older_release_are_loaded_without_loss(own_app, monkeypatch):
    folder: Path = settings_of(own_app).instance / FOLDER
    with own_app.app_context():
        trail_of(own_app).append(line("in the table"))
    head = in_a_folder(own_app, monkeypatch, 3)
    assert begin(own_app) == ["The audit trail's files of 3 days were loaded into the database."]
    assert [entry.body for entry in shown(own_app)] == [
        "in the table",
        *[f"{day}.{count}" for day in (1, 2, 3) for count in (2, 1, 0)],
    ]
    assert all(entry.number < FIRST_NUMBER for entry in shown(own_app)[1:])
    found = verified(own_app, head)
    assert (found.faults, found.torn) == ([], 1)
    assert files(folder) == []
    assert len(files(folder / BROUGHT_IN)) == 3
    with own_app.app_context():
        assert trail_of(own_app).get(f"2026-01-01-x{LISTED}") == b"p1\np2\n"
    # Where a process ended before it moved them, they are there already.
    for file in files(folder / BROUGHT_IN):
        file.rename(folder / file.name)
    assert len(begin(own_app)) == 1
    assert len(shown(own_app)) == 10
    assert begin(own_app) == []
    assert verified(own_app, head).faults == []


def test_entries_hidden_from_pages_are_found_and_restored(own_app, watched):
    watched.get(READ)
    before, looked = shown(own_app), shown(own_app, patient_id="p1")
    with own_app.app_context():
        assert mend() == []
    for hidden in (
        "DELETE FROM audit_seen WHERE patient_id = 'p1'",
        "DELETE FROM audit_entry WHERE path LIKE '%al-p1-penicillin'",
        "UPDATE audit_entry SET user_id = 'other' WHERE path LIKE '%al-p1-penicillin'",
        "UPDATE audit_entry SET number = 7 WHERE path LIKE '%al-p1-penicillin'",
    ):
        with own_app.app_context():
            with db.engine.begin() as connection:
                connection.execute(text(hidden))
            assert verified(own_app).faults == []
            mended = mend()
        assert mended
        assert all("the pages show" in line for line in mended)
        assert shown(own_app) == before
        assert shown(own_app, patient_id="p1") == looked != []
