"""`fhirapp user`: what it does, prints, refuses, and never shows."""

from __future__ import annotations

import json
import re
import shutil
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from fhirapp.auth.users import passwords, second_factor
from fhirapp.auth.users.accounts import find_user, setup_code
from fhirapp.db import writing
from tests.support.client_commands import app_of, done, refusal, shell
from tests.support.contract import publish

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
    """Return whether this is a user's password."""
    stored = dict(rows(folder, "auth_user", "username, password_hash"))
    return passwords.verify(stored[username], password)


@pytest.fixture(scope="module")
def staffed(shared_practice: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with records and users, for commands that are refused."""
    folder = Path(shutil.copytree(shared_practice, tmp_path_factory.mktemp("staffed") / "instance"))
    add(folder, "admin", "administrator")
    add(folder, "maria", "patient", "--patient", "ana")
    return folder


TABLES = ("auth_user", "auth_user_patient", "auth_setup_code")


def assert_refused(
    folder: Path, refused: Iterable[tuple[tuple[str, ...], str]], **more: Any
) -> None:
    """Assert that commands are refused with these words, and that nothing is changed."""
    before = [rows(folder, table) for table in TABLES]
    for arguments, words in refused:
        assert words in refusal(folder, "user", *arguments, **more), arguments
    assert [rows(folder, table) for table in TABLES] == before


def test_user_is_added_and_the_password_is_stored_hashed(practice_folder):
    result = add(practice_folder, "Maria", "clinician", "--name", "Dr. M", "--practitioner", "dr")
    assert (result.stdout, result.stderr) == ("", "User Maria is added.\n")
    row = listed(practice_folder)["maria"]
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
    assert has_password(practice_folder, "maria", PASSWORD)
    assert not has_password(practice_folder, "maria", PASSWORD.upper())
    for path in filter(Path.is_file, practice_folder.rglob("*")):
        assert PASSWORD.encode() not in path.read_bytes()


def test_first_record_of_a_patient_is_their_own(practice_folder):
    options = ("--patient", "Patient/ben", "--patient", "ana", "--patient", "ben")
    add(practice_folder, "ben", "patient", *options)
    row = listed(practice_folder)["ben"]
    assert (row["own_patient"], row["patients"], row["name"]) == ("ben", ["ben", "ana"], "ben")


def test_password_is_the_first_line_of_standard_input(practice_folder):
    password = "  spaces é and all  "
    for number, ending in enumerate((b"", b"\n", b"\r\n", b"\nanother line\n")):
        username, given = f"maria{number}", password.encode() + ending
        command = ("user", "add", username, "--role", "clinician", "--password-stdin")
        done(practice_folder, *command, stdin=given)
        assert has_password(practice_folder, username, password)


def test_user_who_cannot_be_added_is_refused(staffed):
    """Which names and passwords are refused is tested in tests/auth/test_users.py."""
    for options, words in (
        (("--role", "doctor"), "Invalid value for '--role': 'doctor' is not one of"),
        (("--name", "\udcff"), "A name must have 1 to 200"),
        (("--practitioner", "nobody"), "There is no Practitioner/nobody."),
        (("--role", "patient", "--patient", "nobody"), "There is no Patient/nobody."),
        (("--role", "patient", "--patient", "a\nb"), "'a\\nb' is not a Patient id."),
        (("--invite",), "--password-stdin or --invite, not both"),
    ):
        add_paul = ("add", "paul", "--role", "clinician", "--password-stdin", *options)
        assert_refused(staffed, [(add_paul, words)], stdin=STDIN)
    words = "Missing option '--role'. Choose from: clinician, administrator, patient. See --help."
    assert_refused(staffed, [(("add", "paul", "--invite"), words)])


def test_weak_or_missing_password_is_refused(staffed):
    new, old = ("add", "i-am", "--role", "clinician"), ("password", "maria")
    for given, stdin, words in (
        (new, b"", "at least 10 characters"),
        (new, b"caf\xe9 latte macchiato\n", "not text in UTF-8"),
        (old, b"x1" * 50_000, "at most 200 characters"),
    ):
        assert_refused(staffed, [((*given, "--password-stdin"), words)], stdin=stdin)
    # Without a terminal nobody is asked for it.
    assert_refused(staffed, [(new, "no terminal"), (old, "no terminal")], stdin=STDIN)


def test_password_is_asked_for_until_it_is_repeated_and_never_shown(practice_folder, monkeypatch):
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _self: True)
    add(practice_folder, "maria", "clinician")
    another = "quite another one"
    typed = "\n".join([another, "a slip of the hand", another, another])
    result = shell(practice_folder, "user", "password", "maria", stdin=f"{typed}\n".encode())
    assert result.exit_code == 0
    shown = re.findall(r"Password|Repeat|do not match|new password", result.stderr)
    asked = ["Password", "Repeat"]
    assert shown == [*asked, "do not match", *asked, "new password"]
    assert result.stdout.strip() == ""
    assert has_password(practice_folder, "maria", another)


def code_of(result: Result, base_url: str) -> str:
    """Return the code in the address that was printed, and nothing else."""
    found = re.fullmatch(re.escape(base_url) + r"/setup\?code=([\w-]{43})\n", result.stdout)
    assert found, result.stdout
    return found[1]


def user_of(folder: Path, code: str) -> str | None:
    """Return whose password a code would set, None where it does not serve."""
    with app_of(folder):
        found = setup_code(code)
    names = dict(rows(folder, "auth_user", "id, username"))
    return None if found is None else names[str(found.user_id)]


def test_invited_user_chooses_the_password_at_a_printed_url(practice_folder):
    options = ("--role", "administrator", "--invite")
    result = done(practice_folder, "user", "add", "maria", *options, BASE_URL=BASE_URL)
    assert result.stderr.splitlines() == [
        "User maria is added.",
        "At this address the password can be chosen once, within 24 hours:",
    ]
    code = code_of(result, BASE_URL)
    assert user_of(practice_folder, code) == "maria"
    assert code.encode() not in (practice_folder / "fhirapp.db").read_bytes()
    assert not has_password(practice_folder, "maria", "")
    # Without an address in the settings the server's may be another.
    result = done(practice_folder, "user", "password", "maria", "--invite", PORT="8123")
    assert result.stdout.startswith("http://127.0.0.1:8123/setup?code=")
    assert "Replace http://127.0.0.1:8123 where the server has another address" in result.stderr


def test_command_on_an_empty_folder_says_that_the_database_is_new(tmp_path):
    result = shell(tmp_path / "other", "user", "password", "maria", "--invite")
    new, unknown = result.stderr.splitlines()
    assert new.startswith("A new, empty database was created: sqlite:///")
    assert "Unknown user: maria." in unknown


def test_change_that_cannot_be_made_is_refused(staffed):
    related = ("link", "maria", "ben", "--related-person")
    commands = ("password --invite", "disable", "role patient", "unlink ana", "second-factor-off")
    unknown = [(name, "Nobody", *more) for name, *more in map(str.split, commands)]
    refused = [
        *((command, "Unknown user: nobody.") for command in unknown),
        (("disable", "admin"), "the last administrator"),
        (("role", "maria", "doctor"), "Invalid value for '{clinician|administrator|patient}'"),
        (("link", "maria", "Practitioner/dr"), "'Practitioner/dr' is not a Patient id."),
        (("link", "maria"), "Missing argument 'PATIENT_ID'. See --help."),
        ((*related, "nobody"), "There is no RelatedPerson/nobody."),
        ((*related, "gran"), "The period of this RelatedPerson has ended."),
        (("unlink", "maria", "ben"), "maria is not linked to Patient/ben."),
    ]
    assert_refused(staffed, refused)


def test_user_is_disabled_enabled_and_changed(practice_folder):
    add(practice_folder, "admin", "administrator")
    add(practice_folder, "maria", "clinician")
    assert done(practice_folder, "user", "disable", "maria").stderr == "User maria is disabled.\n"
    assert listed(practice_folder)["maria"]["disabled"]
    assert "maria (disabled)\tclinician\tmaria\t\n" in done(practice_folder, "user", "list").stdout
    assert done(practice_folder, "user", "enable", "maria").stderr == "User maria is enabled.\n"
    result = done(practice_folder, "user", "role", "maria", "administrator")
    assert (result.stdout, result.stderr) == ("", "User maria has the role administrator.\n")
    row = listed(practice_folder)["maria"]
    assert (row["disabled"], row["role"]) == (False, "administrator")
    command = ("user", "password", "maria", "--password-stdin")
    result = done(practice_folder, *command, stdin=b"quite another one\n")
    assert (result.stdout, result.stderr) == ("", "User maria has a new password.\n")
    assert has_password(practice_folder, "maria", "quite another one")


def test_records_are_linked_and_unlinked(practice_folder):
    add(practice_folder, "maria", "patient")
    own = done(practice_folder, "user", "link", "maria", "Patient/ana")
    assert own.stderr == "User maria can see Patient/ana, as their own record.\n"
    proxy = done(practice_folder, "user", "link", "maria", "ben", "--proxy")
    assert proxy.stderr == "User maria can see Patient/ben, as someone else's record.\n"
    line = "maria\tpatient\tmaria\tPatient/ana, Patient/ben (someone else's)\n"
    table = done(practice_folder, "user", "list")
    assert table.stdout == line
    assert table.stderr == "User name\tRole\tName\tIn the records\n"
    assert done(practice_folder, "user", "list", "--json").stderr == ""
    gone = done(practice_folder, "user", "unlink", "maria", "Patient/ana")
    assert gone.stderr == "User maria can no longer see Patient/ana.\n"
    row = listed(practice_folder)["maria"]
    assert (row["own_patient"], row["patients"]) == (None, ["ben"])


def test_record_is_linked_for_a_related_person(practice_folder):
    add(practice_folder, "maria", "patient")
    said = done(
        practice_folder, "user", "link", "maria", "ben", "--related-person", "RelatedPerson/mum"
    )
    as_whom = "as someone else's record, as RelatedPerson/mum"
    assert said.stderr == f"User maria can see Patient/ben, {as_whom}.\n"
    shown = "Patient/ben (someone else's, as RelatedPerson/mum"
    assert done(practice_folder, "user", "list").stdout == f"maria\tpatient\tmaria\t{shown})\n"
    link = {"patient": "ben", "related_person": "mum", "has_access": True}
    assert listed(practice_folder)["maria"]["related_persons"] == [link]
    gone = {"resourceType": "RelatedPerson", "id": "mum", "active": False}
    with app_of(practice_folder) as app:
        later = gone | {"patient": {"reference": "Patient/ben"}}
        publish(app, later, now="2030-01-01T00:00:00.000+00:00")
    shown = f"{shown}; no access now)"
    assert done(practice_folder, "user", "list").stdout == f"maria\tpatient\tmaria\t{shown}\n"
    assert listed(practice_folder)["maria"]["related_persons"] == [link | {"has_access": False}]


def test_second_factor_is_turned_off(instance):
    add(instance, "maria", "clinician")
    secret = second_factor.new_secret()
    with app_of(instance), writing() as connection:
        second_factor.enable(connection, find_user(connection, "maria")["id"], secret, 0)
    before = done(instance, "user", "list", "--json").stdout
    assert json.loads(before)[0]["second_factor"] is True
    assert secret not in before
    result = done(instance, "user", "second-factor-off", "maria")
    assert result.stderr == "User maria signs in with the password alone.\n"
    assert listed(instance)["maria"]["second_factor"] is False
