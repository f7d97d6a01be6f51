"""Servers on one PostgreSQL: each has an instance folder of its own, as on hosts of their own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from shutil import copy
from threading import Event, Thread

import pytest
from flask import Flask
from sqlalchemy import delete, select, text, update

from fhirapp import create_app
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, Attempt, ServerSecret, SetupCode, User
from fhirapp.auth.oauth import authorize, signing_keys
from fhirapp.auth.throttle import PER_MINUTE
from fhirapp.auth.users import accounts
from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db, writing
from fhirapp.db.generation import following_others, generation
from fhirapp.db.locks import _LOCK_CLASS, is_locked, lock
from fhirapp.features.exports.jobs import BULK_EXPORT
from fhirapp.jobs import queue
from fhirapp.jobs.queue import DONE
from fhirapp.jobs.worker import running_jobs
from fhirapp.keys import keyed_digest, opened, sealed
from fhirapp.server.prepare import first_setup_code, prepare
from fhirapp.store.import_models import TURN
from tests.support.authorizing import Flow, add_person, add_program, alter
from tests.support.balancer import balance
from tests.support.browsing import PASSWORD, Browser, cookie_name
from tests.support.browsing import add_person as add_user
from tests.support.bulk import Exports
from tests.support.databases import POSTGRESQL
from tests.support.helpers import BASE_URL, SECRET, Fhir, token_for
from tests.support.jobs import run_queued
from tests.support.serving import get, servers
from tests.support.shell import assert_not_done, environment, fhirapp

pytestmark = pytest.mark.databases(POSTGRESQL)

_TOKEN_CACHE_SECONDS = 60.0
_SETUP = re.compile(r"/setup\?code=[0-9a-f]{64}\b")


@pytest.fixture
def first(make_app: Callable[..., Flask], tmp_path: Path) -> Flask:
    """A server on a PostgreSQL of its own."""
    files = tmp_path / "files"
    files.mkdir()
    return make_app(files=str(files))


@pytest.fixture
def join(first: Flask, tmp_path: Path) -> Iterator[Callable[..., Flask]]:
    """Return what starts another server on it; settings and the folder's files may differ."""
    apps: list[Flask] = []

    def make(folder: str = "second", **settings: str) -> Flask:
        own = {"instance_path": str(tmp_path / folder), **settings}
        apps.append(create_app(replace(settings_of(first), **own)))
        prepare(apps[-1], lambda _message: None, serving=True)
        return apps[-1]

    yield make
    for app in apps:
        with app.app_context():
            db.engine.dispose()


@pytest.fixture
def second(join: Callable[..., Flask]) -> Flask:
    return join()


@pytest.fixture
def flow(first: Flask) -> Flow:
    """A clinician with an app, who asks the first server."""
    return Flow(first, add_program(first), add_person(first, CLINICIAN))


def kids(app: Flask) -> list[str]:
    return [key["kid"] for key in app.test_client().get("/oauth/jwks.json").get_json()["keys"]]


def wait_until(condition: Callable[[], bool]) -> None:
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < _TOKEN_CACHE_SECONDS
        Event().wait(0.005)


def listeners(app: Flask) -> list[int]:
    """Return the connections on which servers hear of what others write."""
    with app.app_context(), db.engine.connect() as connection:
        found = connection.exec_driver_sql(
            "SELECT pid FROM pg_stat_activity WHERE datname = current_database()"
            " AND query LIKE 'LISTEN %%'"
        )
        return [*found.scalars()]


@pytest.fixture
def following(second: Flask) -> Iterator[Flask]:
    """The second server, while it listens."""
    with following_others(second):
        wait_until(lambda: bool(listeners(second)))
        yield second


def test_stored_secrets_are_encrypted(first):
    with first.app_context(), db.engine.connect() as connection:
        content = connection.execute(select(ServerSecret.content)).scalar_one()
        private = json.loads(
            signing_keys.server_secrets().read(signing_keys.NAME, signing_keys.make_first)
        )
    assert private["keys"][0]["key"]["d"].encode() not in content
    assert not (settings_of(first).instance / "secret.key").exists()


def test_servers_share_the_signing_key_and_its_rotation(first, second):
    assert kids(first) == kids(second)
    with first.app_context():
        signing_keys.rotate(int(time.time()))
    assert len(kids(second)) == 2
    assert kids(second) == kids(first)
    with second.app_context():
        signing_keys.rotate(int(time.time()))
    assert len(kids(first)) == 3


def test_keys_of_the_folder_are_stored_where_the_database_has_none(
    first, join, signing_keys_file, tmp_path
):
    with first.app_context(), writing() as connection:
        connection.execute(delete(ServerSecret))
    folder = tmp_path / "with-keys"
    folder.mkdir()
    copy(signing_keys_file, folder / signing_keys.NAME)
    (kid,) = [key["key"]["kid"] for key in json.loads(signing_keys_file.read_bytes())["keys"]]
    assert kids(join("with-keys")) == kids(join("without")) == kids(first) == [kid]


def test_server_with_another_secret_does_not_start(first, join, tmp_path):
    with pytest.raises(ConfigurationError, match="sealed with another FHIRAPP_SECRET"):
        join(secret=SECRET.upper())
    url = settings_of(first).database_url
    done = fhirapp(tmp_path, "serve", "--port", "0", DATABASE_URL=url, SECRET=SECRET.upper())
    assert_not_done(done, "sealed with another FHIRAPP_SECRET; set the one that the other servers")
    done = fhirapp(tmp_path, "doctor", "--quick", DATABASE_URL=url, SECRET=SECRET.upper())
    assert done.returncode == 1
    assert "WRONG  Keys: What the database keeps was sealed with another" in done.stdout


def test_commands_with_another_secret_write_nothing(first, tmp_path):
    def run(secret: str, *command: str) -> subprocess.CompletedProcess[str]:
        return fhirapp(tmp_path, *command, DATABASE_URL=url, SECRET=secret)

    url = settings_of(first).database_url
    # A backup that no server could restore, a head of the trail that no server signs.
    for command in (("backup", str(tmp_path)), ("key", "rotate"), ("audit", "head")):
        done = run(SECRET.upper(), *command)
        assert_not_done(done, "sealed with another FHIRAPP_SECRET")
    assert [path.name for path in tmp_path.glob("*.backup")] == []
    assert_not_done(run(SECRET.upper(), "audit", "verify"), "sealed with another FHIRAPP_SECRET")
    assert run(SECRET, "audit", "verify").returncode == 0
    checked = run(SECRET.upper(), "doctor").stdout
    assert "The audit trail can be written." in checked
    assert "The audit trail is" not in checked


@pytest.fixture
def warm(following, flow, monkeypatch) -> Fhir:
    """A token's bearer at the second server, which keeps it until something is written."""
    monkeypatch.setattr("fhirapp.auth.protector.TOKEN_CACHE_SECONDS", 3600.0)
    token = flow.tokens("user/*.rs")["access_token"]
    bearer = Fhir(following, token)
    assert bearer.get("Patient/p1").status_code == 200
    return bearer


def test_token_revoked_at_one_server_is_refused_at_the_other(flow, warm):
    flow.revoke(warm.token)
    wait_until(lambda: warm.get("Patient/p1").status_code == 401)


def test_changes_without_a_listener_are_learnt_when_it_listens_again(first, following, flow, warm):
    (backend,) = listeners(first)
    with first.app_context(), db.engine.connect() as connection:
        connection.exec_driver_sql(f"SELECT pg_terminate_backend({backend})")
        connection.commit()
    flow.revoke(warm.token)
    wait_until(lambda: warm.get("Patient/p1").status_code == 401)
    wait_until(lambda: bool(listeners(first)))
    # It goes on as before.
    again = Fhir(following, flow.tokens("user/*.rs")["access_token"])
    assert again.get("Patient/p1").status_code == 200
    flow.revoke(again.token)
    wait_until(lambda: again.get("Patient/p1").status_code == 401)


def test_one_process_of_a_server_listens_and_another_follows_it(second):
    twin = create_app(settings_of(second))
    with ExitStack() as staying:
        with following_others(second):
            wait_until(lambda: bool(listeners(second)))
            (before,) = listeners(second)
            staying.enter_context(following_others(twin))
            assert listeners(second) == [before]
        wait_until(lambda: listeners(second) not in ([], [before]))
        assert len(listeners(second)) == 1


def test_other_servers_are_notified_of_committed_changes_alone(first, following):
    with following.app_context():
        before = generation().now()
    with first.app_context():
        with pytest.raises(RuntimeError), writing():
            raise RuntimeError
        with following.app_context():
            assert generation().now() == before
        with writing():
            pass
    with following.app_context():
        wait_until(lambda: generation().now() != before)


def test_starts_of_a_day_print_one_setup_address(first, second):
    alter(first, update(User).where(User.role == ADMINISTRATOR).values(disabled=True))
    codes = {first_setup_code(app) for app in (first, second, first)}
    assert len(codes) == 1
    (code,) = codes
    with second.app_context():
        assert accounts.setup_code(code) is not None
        with db.engine.connect() as connection:
            assert code.encode() not in connection.execute(select(SetupCode.digest)).scalar_one()
    # One that ends within the hour is replaced.
    soon = int(time.time()) + 3000
    alter(first, update(SetupCode).values(expires_at=soon))
    first_setup_code(second)
    with second.app_context(), db.engine.connect() as connection:
        assert connection.execute(select(SetupCode.expires_at)).scalar_one() > soon


def test_imports_take_turns_across_servers(first, second):
    waits, took = Event(), Event()

    def wait_and_take() -> None:
        with second.app_context(), lock(settings_of(second), TURN, waits.set):
            took.set()

    with first.app_context():
        assert not is_locked(settings_of(first), TURN)
        with lock(settings_of(first), TURN, waits.set):
            assert not waits.is_set()
            other = Thread(target=wait_and_take)
            other.start()
            assert waits.wait(_TOKEN_CACHE_SECONDS)
            assert not took.is_set()
            with second.app_context():
                assert is_locked(settings_of(second), TURN)
        assert took.wait(_TOKEN_CACHE_SECONDS)
        other.join()
        assert not is_locked(settings_of(first), TURN)


HOLD = """
from fhirapp.environment import load_settings
from fhirapp.core import core_app
from fhirapp.db.locks import lock
settings = load_settings()
with core_app(settings).app_context(), lock(settings, "import", lambda: None):
    print("taken", flush=True)
    input()
"""


def test_lost_connection_ends_a_turn(first):
    with first.app_context():
        with lock(settings_of(first), TURN, lambda: None), db.engine.connect() as connection:
            found = connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_locks"
                f" WHERE locktype = 'advisory' AND classid = {_LOCK_CLASS} AND database ="
                " (SELECT oid FROM pg_database WHERE datname = current_database())"
            )
            assert found.scalars().all() == [True]
        wait_until(lambda: not is_locked(settings_of(first), TURN))


@pytest.mark.process
def test_turn_ends_with_its_process(first, tmp_path):
    environ = environment(tmp_path, DATABASE_URL=settings_of(first).database_url)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "taken\n"
        with first.app_context():
            assert is_locked(settings_of(first), TURN)
            process.kill()
            with lock(settings_of(first), TURN, lambda: None):
                pass


def test_failed_authentications_are_counted_over_all_servers(first, second):
    def status(app: Flask) -> int:
        answer = app.test_client().get(
            "/fhir/Patient/p1",
            headers={"Authorization": "Bearer nonsense"},
            environ_base={"REMOTE_ADDR": "192.0.2.77"},
        )
        return answer.status_code

    halves = PER_MINUTE // 2
    answered = [status(app) for app in (first, second) for _ in range(halves)]
    assert answered == [401] * PER_MINUTE
    assert [status(first), status(second)] == [429, 429]
    # Others are not.
    alter(first, delete(Attempt))
    assert status(second) == 401


def test_failed_authentication_is_answered_where_it_cannot_be_counted(first):
    alter(first, text("DROP TABLE auth_attempt"))
    answer = first.test_client().get(
        "/fhir/Patient/p1", headers={"Authorization": "Bearer nonsense"}
    )
    assert answer.status_code == 401


@pytest.mark.process
def test_concurrent_first_starts_create_one_schema_key_and_setup_address(new_database, tmp_path):
    url = new_database()
    folders = [tmp_path / str(number) for number in range(3)]
    with ExitStack() as stack:
        starts = []
        for folder in folders:
            folder.mkdir()
            starts.append(stack.enter_context(servers(folder)))
        with ThreadPoolExecutor(3) as threads:
            begun = [threads.submit(start, DATABASE_URL=url, PROCESSES="1") for start in starts]
            running = [start.result() for start in begun]
        keys = {server.ask(get("/oauth/jwks.json"))[1] for server in running}
        addresses = [_SETUP.findall((folder / "log").read_text()) for folder in folders]
        ready = [server.ask(get("/health/ready"))[0].status for server in running]
    assert ready == [200, 200, 200]
    assert len(keys) == 1
    assert len(json.loads(keys.pop())["keys"]) == 1
    assert len(addresses[0]) == 1
    assert addresses == [addresses[0]] * 3
    # What the one made, the others took: nothing is of one's own.
    assert not [*tmp_path.glob("*/*.key"), *tmp_path.glob("*/signing-keys.json")]


@pytest.fixture
def either(first: Flask, second: Flask) -> Flask:
    """The first server, whose clients ask it and the second in turn."""
    balance(first, [first, second])
    return first


def test_forms_and_sessions_work_at_any_server(either, flow):
    username = add_user(either, ADMINISTRATOR)
    browser = Browser(either)
    browser.sign_in(username, PASSWORD)
    asked = browser.get("/admin/keys").submit("Rotate the signing key")
    # A page more, so that a form is sent to the other than the one that made it.
    browser.get("/admin")
    assert "is published" in asked.submit("Rotate key").words
    browser.get("/").submit("Sign out")
    assert {browser.get("/admin").path, browser.get("/admin").path} == {"/sign-in?next=%2Fadmin"}


def test_authorization_started_at_one_server_ends_at_the_other(first, second, flow):
    code = flow.code("openid user/*.rs offline_access")
    there = Flow(second, flow.program, flow.user_id)
    tokens = there.redeem(code).get_json()
    assert flow.redeem(code).status_code == 400
    # Used twice, it ended what came of it.
    assert there.refresh(tokens["refresh_token"]).status_code == 400
    tokens = there.redeem(flow.code("openid user/*.rs offline_access")).get_json()
    again = flow.refresh(tokens["refresh_token"]).get_json()
    assert Fhir(second, again["access_token"]).get("Patient/p1").status_code == 200
    handle = flow.park("user/*.rs")
    with second.test_request_context():
        assert authorize.find(handle) is not None


def test_paging_continues_at_another_server(first, second):
    token = token_for(first, "system/*.rs")
    walk = [Fhir(app, token) for app in (first, second)]
    path, found = "AllergyIntolerance?_count=2&_sort=_id", []
    for server in cycle(walk):
        bundle = server.read(path)
        found += [entry["resource"]["id"] for entry in bundle["entry"]]
        following = [link["url"] for link in bundle["link"] if link["relation"] == "next"]
        if not following:
            break
        path = following[0].removeprefix(BASE_URL)
    assert len(found) > 4
    assert found == walk[0].ids("AllergyIntolerance?_count=1000&_sort=_id")


def test_export_started_at_one_server_is_done_by_the_other(first, second):
    status = Exports(first).started()
    assert run_queued(second) == 1
    with second.app_context():
        (job,) = queue.jobs(BULK_EXPORT)
    assert status.endswith(job.id)
    assert job.state == DONE


def test_worker_is_notified_of_jobs_of_other_servers(first, second, monkeypatch):
    started: list[str] = []
    monkeypatch.setattr(
        "fhirapp.jobs.process._spawn", lambda _s, job, *_more: started.append(job.id)
    )
    with following_others(second), running_jobs(second):
        wait_until(lambda: bool(listeners(second)))
        status = Exports(first).started()
        wait_until(lambda: bool(started))
    assert status.endswith(started[0])


def test_secret_encrypted_by_one_server_is_decrypted_by_the_other(first, second):
    with first.app_context():
        stored, digest = sealed("JBSWY3DPEHPK3PXP"), keyed_digest("form", "x")
    with second.app_context():
        assert (opened(stored), keyed_digest("form", "x")) == ("JBSWY3DPEHPK3PXP", digest)


def test_servers_with_different_urls_of_one_database_share_cookies(first, join):
    url = f"{settings_of(first).database_url}&application_name=other"
    other = join(database_url=url)
    assert cookie_name(other) == cookie_name(first)
