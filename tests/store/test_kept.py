"""Instance folders as earlier states of the service left them: an upgrade loses nothing.

In tests/kept is one for each schema: database, keys, audit trail, a backup, and the digests of what
was answered then. `python -m tests.store.test_kept` adds that of the schema as it is now; one that
is kept is never made anew. Where an answer differs on purpose, CHANGELOG.md tells of it and
`python -m tests.store.test_kept answers` writes down what is answered now.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp import create_app
from fhirapp.audit.entries import entries
from fhirapp.auth.models import User
from fhirapp.db import db
from fhirapp.environment import load_settings
from fhirapp.server.prepare import prepare
from fhirapp.store.migrate import HEAD, schema_version
from tests import TESTS
from tests.support.contract import SERVED, versions_held
from tests.support.shell import assert_not_done, environment, run_command

KEPT = TESTS / "kept"
NUMBERS = sorted(path.name.split(".")[0] for path in KEPT.glob("*.tar.xz"))
BASE_URL = "https://fhir.clinic.example"
PASSWORD = "correct horse battery"


def opened(folder: Path) -> Flask:
    """Return an app on an instance folder that was made ready."""
    app = create_app(load_settings({}, instance_path=str(folder), base_url=BASE_URL))
    prepare(app, lambda _said: None)
    return app


def token_of(folder: Path) -> str:
    done = run_command(folder, "token", "issue", "--scope", "system/*.rs")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def digests(app: Flask, token: str, addresses: Sequence[str] = ()) -> dict[str, str]:
    """Return the digest of each resource, version and history, or of some addresses."""
    client = app.test_client()
    kind = {"Authorization": f"Bearer {token}", "Accept": "application/fhir+json"}
    return {
        address: f"{answer.status_code} {hashlib.sha256(answer.data).hexdigest()[:24]}"
        for address in addresses or all_addresses(app)
        for answer in (client.get(address, headers=kind, base_url=BASE_URL),)
    }


def all_addresses(app: Flask) -> list[str]:
    """Return the addresses of all resources, their versions, and searches for each type."""
    held = versions_held(app)
    addresses = [
        f"/fhir/{name}/{row_id}{more}"
        for name, resources in held.items()
        for row_id, versions in resources.items()
        for more in ("", *(f"/_history/{number}" for number in range(1, len(versions) + 1)))
    ]
    searches = [f"/fhir/{name}?_sort=_id&_count=100" for name in held if SERVED[name].searchable]
    return addresses + searches


def make(folder: Path) -> None:
    """Use the service in an empty folder as a clinic does for a day."""

    def run(*words: str, typed: str = "", instance: Path = folder) -> str:
        return subprocess.run(
            [sys.executable, "-m", "fhirapp", *words],
            env=environment(instance),
            input=typed,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout.strip()

    with tempfile.TemporaryDirectory() as demo:
        run("export", "--demo", f"{demo}/records", instance=Path(demo))
        run("import", f"{demo}/records")
    for username, role in (("ana", "administrator"), ("carl", "clinician"), ("pia", "patient")):
        run("user", "add", username, "--role", role, "--password-stdin", typed=PASSWORD)
    run("user", "link", "pia", "p1")
    app_of_theirs = ("--kind", "confidential", "--redirect-uri", "https://app.example/back")
    run("client", "add", "reports", *app_of_theirs, "--scope", "launch/patient patient/*.rs")
    run("key", "rotate")
    app = opened(folder)
    answers = digests(app, run("token", "issue", "--scope", "system/*.rs"))
    (folder / "answers.json").write_text(json.dumps(answers, indent=0) + "\n")
    with app.app_context():
        db.engine.dispose()
    (folder / "backups").mkdir()
    run("backup", str(folder / "backups"))


# Each is upgraded first, which takes seconds.
@pytest.fixture(params=[pytest.param(number, marks=pytest.mark.campaign) for number in NUMBERS])
def kept(request, tmp_path) -> Path:
    """An instance folder as it was kept."""
    with tarfile.open(KEPT / f"{request.param}.tar.xz") as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "instance"


@pytest.fixture
def expected(kept: Path) -> Mapping[str, str]:
    """What must be answered: what was, but for what was changed on purpose.

    Types that were served then and are not now are left out.
    """
    answers = json.loads((kept / "answers.json").read_text()) | _changed(kept)
    return {
        address: answer
        for address, answer in answers.items()
        if address.removeprefix("/fhir/").partition("?")[0].partition("/")[0] in SERVED
    }


def _changed(kept: Path) -> Mapping[str, str]:
    with closing(sqlite3.connect(kept / "fhirapp.db")) as connection:
        (number,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    path = KEPT / f"{number}.changed.json"
    return json.loads(path.read_text()) if path.exists() else {}


@pytest.fixture
def open_kept(kept: Path) -> Iterator[Callable[[], Flask]]:
    """Return what starts this release on it."""
    apps: list[Flask] = []

    def start() -> Flask:
        apps.append(opened(kept))
        return apps[-1]

    yield start
    for app in apps:
        with app.app_context():
            db.engine.dispose()


def test_instance_of_this_schema_is_kept():
    assert NUMBERS[-1] == HEAD, "python -m tests.store.test_kept"


def test_kept_instance_starts_and_answers_the_same_bytes(kept, expected, open_kept):
    app = open_kept()
    with app.app_context():
        assert schema_version(db.engine) == HEAD
        roles = dict(map(tuple, db.session.execute(select(User.username, User.role))))
    assert roles == {"ana": "administrator", "carl": "clinician", "pia": "patient"}
    assert len(expected) > 500
    some = sorted(expected)[::10]
    assert digests(app, token_of(kept), some) == {address: expected[address] for address in some}


@pytest.mark.campaign
def test_kept_instance_answers_every_address_with_the_same_bytes(kept, expected, open_kept):
    assert digests(open_kept(), token_of(kept)) == expected


def test_audit_trail_of_a_kept_instance_is_whole_and_goes_on(kept, open_kept):
    earlier = b"".join(path.read_bytes() for path in kept.glob("audit/*.ndjson"))
    count = len([line for line in earlier.splitlines() if b'"event":"head"' not in line])
    app = open_kept()
    app.test_client().get("/fhir/Patient/p1")
    done = run_command(kept, "audit", "verify")
    assert done.returncode == 0, done.stdout
    with app.app_context():
        found = len(entries(kind=None, limit=10_000))
    # The entry of its import, and that of this request.
    assert found == count + 2 if count else found > 500


def test_people_of_a_kept_instance_sign_in_with_their_passwords(open_kept):
    client = open_kept().test_client()
    page = client.get("/sign-in", base_url=BASE_URL).text
    form = {"username": "carl", "password": PASSWORD, "next": "/patients"}
    form["form_token"] = page.partition('name="form_token" value="')[2].partition('"')[0]
    answer = client.post("/sign-in", data=form, base_url=BASE_URL)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/patients")


def test_backup_of_a_kept_instance_is_verified_and_restored(kept, expected, tmp_path):
    (backup,) = (kept / "backups").glob("*.backup")
    anew = tmp_path / "anew"
    anew.mkdir()
    assert run_command(anew, "restore", str(backup)).returncode == 0
    app = opened(anew)
    some = sorted(expected)[::25]
    assert digests(app, token_of(anew), some) == {address: expected[address] for address in some}
    with app.app_context():
        db.engine.dispose()


@pytest.mark.parametrize(("number", "words"), [("9999", "newer"), ("0010", "start fhirapp 0.1.0")])
def test_instance_of_another_release_is_refused_in_one_sentence(kept, number, words):
    with closing(sqlite3.connect(kept / "fhirapp.db")) as connection:
        connection.execute(f"UPDATE alembic_version SET version_num = '{number}'")
        connection.commit()
    before = (kept / "fhirapp.db").read_bytes()
    assert_not_done(run_command(kept, "serve", "--port", "0"), words)
    assert (kept / "fhirapp.db").read_bytes() == before


def _keep() -> None:
    with tempfile.TemporaryDirectory() as folder:
        instance = Path(folder, "instance")
        instance.mkdir()
        make(instance)
        KEPT.mkdir(exist_ok=True)
        with tarfile.open(KEPT / f"{HEAD}.tar.xz", "x:xz") as packed:
            packed.add(instance, "instance")


def _keep_answers() -> None:
    for number in NUMBERS:
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(KEPT / f"{number}.tar.xz") as packed:
                packed.extractall(folder, filter="data")
            instance = Path(folder, "instance")
            then = json.loads((instance / "answers.json").read_text())
            now = digests(opened(instance), token_of(instance))
            changed = {name: one for name, one in now.items() if then.get(name) != one}
            if changed:
                text = json.dumps(changed, indent=0) + "\n"
                (KEPT / f"{number}.changed.json").write_text(text)


if __name__ == "__main__":
    _keep_answers() if sys.argv[1:] == ["answers"] else _keep()
