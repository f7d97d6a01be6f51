"""`fhirapp user …`: what it does, prints, refuses, and never shows."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fhirapp import create_app
from fhirapp.auth.users import sessions, sign_in
from fhirapp.auth.users.accounts import find_user, setup_code
from fhirapp.config import load_settings
from fhirapp.db import db, writing
from tests.support.client_commands import done, refusal
from tests.support.importing import lines
from tests.support.shell import MAIN, environment, fhirapp

PASSWORD = "correct horse battery"
STDIN = f"{PASSWORD}\n".encode()
BASE_URL = "https://fhir.clinic.example"


def add(folder: Path, username: str, role: str, *more: str) -> Result:
    """Add a user with PASSWORD."""
    options = ("--role", role, "--password-stdin", *more)
    return done(folder, "user", "add", username, *options, stdin=STDIN)


def listed(folder: Path) -> dict[str, Any]:
    """Return what `user list --json` tells, by user name."""
    rows = json.loads(done(folder, "user", "list", "--json").stdout)
    return {row["username"]: row for row in rows}


def rows(folder: Path, table: str, columns: str = "*") -> list[Any]:
    """Return what a table holds."""
    with closing(sqlite3.connect(folder / "fhirapp.db")) as connection:
        return connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()


def has_password(folder: Path, username: str, password: str) -> bool:
    """Say whether this is a user's password."""
    stored = dict(rows(folder, "auth_user", "username, password_hash"))
    return sessions.verify(stored[username], password)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance folder with two patients, their people and no user."""
    folder = tmp_path_factory.mktemp("records")
    of_ben, ended = {"reference": "Patient/ben"}, {"end": "2020-12-31"}
    (folder / "records.ndjson").write_bytes(
        lines(
            {"resourceType": "Patient", "id": "ana"},
            {"resourceType": "Patient", "id": "ben"},
            {"resourceType": "Practitioner", "id": "dr"},
            {"resourceType": "RelatedPerson", "id": "mum", "patient": of_ben},
            {"resourceType": "RelatedPerson", "id": "gran", "patient": of_ben, "period": ended},
        )
    )
    # In a process of its own: an import changes how garbage is collected.
    assert fhirapp(folder, "import", str(folder / "records.ndjson")).returncode == 0
    return folder


@pytest.fixture(scope="module")
def staffed(records: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of that folder with users, for commands that are refused."""
    folder = Path(shutil.copytree(records, tmp_path_factory.mktemp("staffed") / "instance"))
    add(folder, "admin", "administrator")
    add(folder, "maria", "patient", "--patient", "ana")
    return folder


@pytest.fixture
def clinic(records: Path, tmp_path: Path) -> Path:
    """A copy of the folder without users."""
    return Path(shutil.copytree(records, tmp_path / "instance"))


TABLES = ("auth_user", "auth_user_patient", "auth_setup_code")


def assert_refused(folder: Path, *arguments: str, words: str, **more: Any) -> None:
    """Assert that a command is refused with these words, and that nothing is changed."""
    before = [rows(folder, table) for table in TABLES]
    assert words in refusal(folder, *arguments, **more)
    assert [rows(folder, table) for table in TABLES] == before


def test_a_user_is_added_whose_password_nobody_sees(clinic):
    result = add(clinic, "Maria", "clinician", "--name", "Dr. M", "--practitioner", "dr")
    assert (result.stdout, result.stderr) == ("", "User Maria is added.\n")
    row = listed(clinic)["maria"]
    assert abs(row.pop("created_at") - time.time()) < 60
    assert row == {
        "username": "maria",
        "name": "Dr. M",
        "role": "clinician",
        "fhir_user": "Practitioner/dr",
        "patients": [],
        "own_patient": None,
        "related_persons": [],
        "disabled": False,
        "signed_in_at": None,
        "second_factor": False,
    }
    assert has_password(clinic, "maria", PASSWORD)
    assert not has_password(clinic, "maria", PASSWORD.upper())
    for path in filter(Path.is_file, clinic.rglob("*")):
        assert PASSWORD.encode() not in path.read_bytes()


def test_a_patient_is_added_with_records_the_first_their_own(clinic):
    options = ("--patient", "Patient/ben", "--patient", "ana", "--patient", "ben")
    add(clinic, "ben", "patient", *options)
    row = listed(clinic)["ben"]
    assert (row["own_patient"], row["patients"], row["name"]) == ("ben", ["ben", "ana"], "ben")


@pytest.mark.parametrize("ending", [b"", b"\n", b"\r\n", b"\nanother line\n"])
def test_a_password_is_one_line_whatever_ends_it(clinic, ending):
    password = "  spaces é and all  "
    given = password.encode() + ending
    done(clinic, "user", "add", "maria", "--role", "clinician", "--password-stdin", stdin=given)
    assert has_password(clinic, "maria", password)


@pytest.mark.parametrize(
    ("username", "options", "words"),
    [
        (
            "m",
            (),
            "A user name must have 2 to 64 characters: letters without accents",
        ),
        ("admin", (), "The user admin already exists."),
        ("paul", ("--role", "doctor"), "Invalid value for '--role': 'doctor' is not one of"),
        ("paul", ("--name", "a\nb"), "A name must have 1 to 200 printable characters."),
        (
            "paul",
            ("--patient", "ana"),
            "Only users with the role patient can be linked to a record.",
        ),
        ("paul", ("--practitioner", "nobody"), "There is no Practitioner/nobody."),
        ("paul", ("--practitioner", "a b"), "'a b' is not a Practitioner id."),
        ("paul", ("--role", "patient", "--patient", "nobody"), "There is no Patient/nobody."),
        ("paul", ("--role", "patient", "--patient", "a\nb"), "'a\\nb' is not a Patient id."),
        (
            "paul",
            ("--role", "patient", "--practitioner", "dr"),
            "A user with the role patient cannot be a Practitioner.",
        ),
        ("paul", ("--invite",), "Give --password-stdin or --invite, not both."),
        ("\udcff", (), "A user name must have 2 to 64"),
        ("paul", ("--name", "\udcff"), "A name must have 1 to 200 printable characters."),
        ("paul", ("--role", "patient", "--patient", "\udcff"), "'\\udcff' is not a Patient id."),
    ],
)
def test_a_user_who_cannot_be_added_is_refused(staffed, username, options, words):
    given = ("user", "add", username, "--role", "clinician", "--password-stdin", *options)
    assert_refused(staffed, *given, stdin=STDIN, words=words)


def test_a_role_must_be_said(staffed):
    words = "Missing option '--role'. Choose from: clinician, administrator, patient. See --help."
    assert_refused(staffed, "user", "add", "paul", "--invite", words=words)


@pytest.mark.parametrize(
    ("stdin", "words"),
    [
        (b"", "at least 10 characters"),
        (b"\n", "at least 10 characters"),
        (b"too short\n", "at least 10 characters"),
        (b"x1" * 101, "at most 200 characters"),
        (b"x1" * 50_000, "at most 200 characters"),
        (b"I-am-maria!\n", "The password contains your user name"),
        (b"caf\xe9 latte macchiato\n", "The password is not text in UTF-8."),
    ],
)
def test_a_weak_password_is_refused(staffed, stdin, words):
    for given in (("add", "i-am", "--role", "clinician"), ("password", "maria")):
        command = ("user", *given, "--password-stdin")
        assert_refused(staffed, *command, stdin=stdin, words=words)


@pytest.mark.parametrize("given", [("add", "paul", "--role", "clinician"), ("password", "maria")])
def test_without_a_terminal_no_password_is_asked_for(staffed, given):
    words = "There is no terminal to ask for the password at; use --password-stdin or --invite."
    assert_refused(staffed, "user", *given, stdin=STDIN, words=words)


def read_until(terminal: int, *words: bytes) -> bytes:
    """Return what a terminal shows up to one of these words, or all of it."""
    shown = b""
    while not (words and shown.endswith(words)):
        assert select.select([terminal], [], [], 60)[0], shown
        try:
            letter = os.read(terminal, 1)
        except OSError:
            # How Linux says that the other end is closed.
            letter = b""
        if not letter:
            break
        shown += letter
    return shown


def type_at(clinic: Path, *arguments: str, typed: list[str]) -> tuple[str, list[str]]:
    """Answer a command's questions at a terminal; return what it printed, and what was shown."""
    pty = pytest.importorskip("pty")
    terminal, other_end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", MAIN, *arguments],
        env=environment(clinic),
        stdin=other_end,
        stdout=subprocess.PIPE,
        stderr=other_end,
        start_new_session=True,
    )
    os.close(other_end)
    shown = b""
    try:
        for answer in typed:
            # What is typed before the question was asked would be shown, and forgotten.
            shown += read_until(terminal, b"Password: ", b"Repeat the password: ")
            os.write(terminal, f"{answer}\n".encode())
        shown += read_until(terminal)
        stdout, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        os.close(terminal)
    assert process.returncode == 0, shown
    return stdout.decode(), shown.decode().splitlines()


def test_a_password_is_asked_for_twice_and_not_shown(clinic):
    asked = ("user", "add", "maria", "--role", "clinician")
    stdout, shown = type_at(clinic, *asked, typed=[PASSWORD, PASSWORD])
    assert stdout == ""
    assert shown == ["Password: ", "Repeat the password: ", "User maria is added."]
    assert has_password(clinic, "maria", PASSWORD)


def test_two_passwords_that_differ_are_asked_for_again(clinic):
    add(clinic, "maria", "clinician")
    another = "quite another one"
    typed = [another, "a slip of the hand", another, another]
    stdout, shown = type_at(clinic, "user", "password", "maria", typed=typed)
    assert stdout == ""
    assert shown == [
        "Password: ",
        "Repeat the password: ",
        "Error: The two entered values do not match.",
        "Password: ",
        "Repeat the password: ",
        "User maria has a new password.",
    ]
    assert has_password(clinic, "maria", another)


def code_of(result: Result, base_url: str) -> str:
    """Return the code in the address that was printed, and nothing else."""
    found = re.fullmatch(re.escape(base_url) + r"/setup\?code=([\w-]{43})\n", result.stdout)
    assert found, result.stdout
    return found[1]


def user_of(folder: Path, code: str) -> str | None:
    """Return whose password a code would set, None where it does not serve."""
    app = create_app(load_settings({}, instance_path=str(folder)))
    with app.app_context(), db.engine.connect() as connection:
        found = setup_code(code)
        names = {find_user(connection, name)["id"]: name for name in listed(folder)}
        db.session.remove()
        db.engine.dispose()
    return None if found is None else names[str(found.user_id)]


def test_whoever_is_invited_chooses_the_password_at_an_address(clinic):
    options = ("--role", "administrator", "--invite")
    result = done(clinic, "user", "add", "maria", *options, BASE_URL=BASE_URL)
    assert result.stderr.splitlines() == [
        "User maria is added.",
        "At this address the password can be chosen once, within 24 hours:",
    ]
    code = code_of(result, BASE_URL)
    assert user_of(clinic, code) == "maria"
    assert code.encode() not in (clinic / "fhirapp.db").read_bytes()
    assert not has_password(clinic, "maria", "")


def test_without_a_base_address_it_is_that_of_host_and_port(clinic):
    options = ("--role", "clinician", "--invite")
    result = done(clinic, "user", "add", "maria", *options, PORT="8123")
    assert code_of(result, "http://127.0.0.1:8123")


def test_a_new_password_can_be_chosen_at_an_address_and_the_old_one_holds_till_then(clinic):
    add(clinic, "maria", "clinician")
    codes = [
        code_of(done(clinic, "user", "password", "maria", "--invite"), "http://127.0.0.1:8000")
        for _ in range(2)
    ]
    assert [user_of(clinic, code) for code in codes] == [None, "maria"]
    assert has_password(clinic, "maria", PASSWORD)


def test_a_password_is_changed(clinic):
    add(clinic, "maria", "clinician")
    given = ("user", "password", "maria", "--password-stdin")
    result = done(clinic, *given, stdin=b"quite another one\n")
    assert (result.stdout, result.stderr) == ("", "User maria has a new password.\n")
    assert [has_password(clinic, "maria", one) for one in (PASSWORD, "quite another one")] == [
        False,
        True,
    ]


COMMANDS = [
    ("password", "--invite"),
    ("password", "--password-stdin"),
    ("disable",),
    ("enable",),
    ("role", "patient"),
    ("link", "ana"),
    ("unlink", "ana"),
    ("second-factor-off",),
]


@pytest.mark.parametrize(("command", "more"), [(one[0], one[1:]) for one in COMMANDS])
def test_a_user_who_is_not_there_is_named(staffed, command, more):
    given = ("user", command, "Nobody", *more)
    assert_refused(staffed, *given, stdin=STDIN, words="Unknown user: nobody.")


def test_a_user_is_disabled_and_enabled(clinic):
    add(clinic, "admin", "administrator")
    add(clinic, "maria", "clinician")
    assert done(clinic, "user", "disable", "maria").stderr == "User maria is disabled.\n"
    assert listed(clinic)["maria"]["disabled"]
    assert "maria (disabled)\tclinician\tmaria\t\n" in done(clinic, "user", "list").stdout
    assert done(clinic, "user", "enable", "maria").stderr == "User maria is enabled.\n"
    assert not listed(clinic)["maria"]["disabled"]


@pytest.mark.parametrize("command", [("disable", "admin"), ("role", "admin", "clinician")])
def test_the_last_administrator_stays(staffed, command):
    words = "This is the last administrator. Add another one first."
    assert_refused(staffed, "user", *command, words=words)


def test_a_role_is_changed(clinic):
    add(clinic, "maria", "clinician")
    result = done(clinic, "user", "role", "maria", "administrator")
    assert (result.stdout, result.stderr) == ("", "User maria has the role administrator.\n")
    assert listed(clinic)["maria"]["role"] == "administrator"


def test_records_are_linked_and_unlinked(clinic):
    add(clinic, "maria", "patient")
    own = done(clinic, "user", "link", "maria", "Patient/ana")
    assert own.stderr == "User maria can see Patient/ana, as their own record.\n"
    proxy = done(clinic, "user", "link", "maria", "ben", "--proxy")
    assert proxy.stderr == "User maria can see Patient/ben, as someone else's record.\n"
    line = "maria\tpatient\tmaria\tPatient/ana, Patient/ben (someone else's)\n"
    table = done(clinic, "user", "list")
    assert table.stdout == line
    assert table.stderr == "User name\tRole\tName\tIn the records\n"
    assert done(clinic, "user", "list", "--json").stderr == ""
    gone = done(clinic, "user", "unlink", "maria", "Patient/ana")
    assert gone.stderr == "User maria can no longer see Patient/ana.\n"
    row = listed(clinic)["maria"]
    assert (row["own_patient"], row["patients"]) == (None, ["ben"])


def test_a_record_is_linked_for_a_related_person(clinic):
    add(clinic, "maria", "patient")
    said = done(clinic, "user", "link", "maria", "ben", "--related-person", "RelatedPerson/mum")
    as_whom = "as someone else's record, as RelatedPerson/mum"
    assert said.stderr == f"User maria can see Patient/ben, {as_whom}.\n"
    shown = "Patient/ben (someone else's, as RelatedPerson/mum"
    assert done(clinic, "user", "list").stdout == f"maria\tpatient\tmaria\t{shown})\n"
    link = {"patient": "ben", "related_person": "mum", "has_access": True}
    assert listed(clinic)["maria"]["related_persons"] == [link]
    gone = {"resourceType": "RelatedPerson", "id": "mum", "active": False}
    (clinic / "later.ndjson").write_bytes(lines(gone | {"patient": {"reference": "Patient/ben"}}))
    done(clinic, "import", str(clinic / "later.ndjson"))
    shown = f"{shown}; no access now)"
    assert done(clinic, "user", "list").stdout == f"maria\tpatient\tmaria\t{shown}\n"
    assert listed(clinic)["maria"]["related_persons"] == [link | {"has_access": False}]


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("role", "maria", "doctor"), "Invalid value for '{clinician|administrator|patient}'"),
        (("link", "maria", "nobody"), "There is no Patient/nobody."),
        (
            ("link", "maria", "ben", "--related-person", "nobody"),
            "There is no RelatedPerson/nobody.",
        ),
        (("link", "maria", "ben", "--related-person", "a b"), "'a b' is not a RelatedPerson id."),
        (
            ("link", "maria", "ana", "--related-person", "mum"),
            "This RelatedPerson is not related to this patient.",
        ),
        (
            ("link", "maria", "ben", "--related-person", "gran"),
            "The period of this RelatedPerson has ended.",
        ),
        (("link", "maria", "Practitioner/dr"), "'Practitioner/dr' is not a Patient id."),
        (("link", "maria", ""), "'' is not a Patient id."),
        (("link", "maria", "\udcff"), "'\\udcff' is not a Patient id."),
        (("link", "admin", "ana"), "Only users with the role patient can be linked to a record."),
        (("unlink", "maria", "ben"), "User maria is not linked to Patient/ben."),
        (("unlink", "admin", "ana"), "User admin is not linked to Patient/ana."),
        (("link", "maria"), "Missing argument 'PATIENT_ID'. See --help."),
        (("disable", "\udcff"), "A user name must have 2 to 64"),
    ],
)
def test_a_change_that_cannot_be_made_is_refused(staffed, command, words):
    assert_refused(staffed, "user", *command, words=words)


def test_a_second_factor_is_taken_away(tmp_path):
    app = create_app(load_settings({}, instance_path=str(tmp_path)))
    add(tmp_path, "maria", "clinician")
    secret = sign_in.new_secret()
    with app.app_context():
        with writing() as connection:
            user_id = find_user(connection, "maria")["id"]
            sign_in.enable(connection, user_id, secret, 0)
        db.engine.dispose()
    before = done(tmp_path, "user", "list", "--json").stdout
    assert json.loads(before)[0]["second_factor"] is True
    assert secret not in before
    result = done(tmp_path, "user", "second-factor-off", "maria")
    assert result.stderr == "User maria signs in with the password alone.\n"
    assert listed(tmp_path)["maria"]["second_factor"] is False


def test_the_demo_has_users_of_its_own(tmp_path):
    demo = json.loads(done(tmp_path, "user", "list", "--json", "--demo").stdout)
    assert [row["username"] for row in demo] == ["admin", "clinician", "parent", "patient"]
    text = done(tmp_path, "user", "list", "--demo").stdout
    assert "argon2" not in text + json.dumps(demo)
    assert "clinician\tclinician\tDr. Folake Adeyemi\tPractitioner/dr-adeyemi\n" in text
    assert done(tmp_path, "user", "list").stdout == ""
