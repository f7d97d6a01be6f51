"""`fhirapp user …` and `fhirapp key rotate`: what they do, print, refuse, and never show."""

from __future__ import annotations

import json
import os
import re
import select
import shutil
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from fhirapp import create_app
from fhirapp.auth import second_factor
from fhirapp.auth.sign_in import sign_in
from fhirapp.auth.users import find_user, setup_code
from fhirapp.cli import cli
from fhirapp.config import load_settings
from fhirapp.db import db, writing
from tests.test_cli import MAIN, environment, fhirapp
from tests.test_import import lines

PASSWORD = "correct horse battery"
STDIN = f"{PASSWORD}\n".encode()
BASE_URL = "https://fhir.clinic.example"


def shell(folder: Path, *arguments: str, stdin: bytes = b"", **settings: str) -> Result:
    """Run a command in this process, on an instance folder; what it was told it must not repeat."""
    environ = {f"FHIRAPP_{name}": value for name, value in settings.items()}
    runner = CliRunner(env={"FHIRAPP_INSTANCE_PATH": str(folder), **environ})
    result = runner.invoke(cli, arguments, input=stdin)
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert not stdin.strip() or stdin.strip().decode(errors="replace") not in result.output
    return result


def done(folder: Path, *arguments: str, **more: Any) -> Result:
    """Run a command that must succeed."""
    result = shell(folder, *arguments, **more)
    assert result.exit_code == 0, result.stderr
    return result


def refusal(folder: Path, *arguments: str, **more: Any) -> str:
    """Run a command that must be refused: one sentence on standard error, exit code 2."""
    result = shell(folder, *arguments, **more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(r"fhirapp: [^\n]+\n", result.stderr)
    return result.stderr.removeprefix("fhirapp: ").strip()


def add(folder: Path, username: str, role: str, *more: str) -> Result:
    """Add a user with PASSWORD."""
    options = ("--role", role, "--password-stdin", *more)
    return done(folder, "user", "add", username, *options, stdin=STDIN)


def listed(folder: Path) -> dict[str, Any]:
    """Return what `user list --json` tells, by user name."""
    rows = json.loads(done(folder, "user", "list", "--json").stdout)
    return {row["username"]: row for row in rows}


def signs_in(folder: Path, username: str, password: str) -> bool:
    """Say whether the sign-in page would take a password."""
    app = create_app(load_settings({}, instance_path=str(folder)))
    with app.app_context():
        entered = sign_in(username, password, "192.0.2.1")
        db.engine.dispose()
    return entered is not None


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance folder whose database has two patients and a practitioner, and no user."""
    folder = tmp_path_factory.mktemp("records")
    (folder / "records.ndjson").write_bytes(
        lines(
            {"resourceType": "Patient", "id": "ana"},
            {"resourceType": "Patient", "id": "ben"},
            {"resourceType": "Practitioner", "id": "dr"},
        )
    )
    # In a process of its own: an import changes how garbage is collected.
    assert fhirapp(folder, "import", str(folder / "records.ndjson")).returncode == 0
    return folder


@pytest.fixture
def clinic(records: Path, tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(records, tmp_path / "instance"))


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
        "disabled": False,
        "signed_in_at": None,
        "second_factor": False,
    }
    assert signs_in(clinic, "maria", PASSWORD)
    for path in clinic.iterdir():
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
    assert signs_in(clinic, "maria", password)


@pytest.mark.parametrize(
    ("username", "options", "words"),
    [
        ("m", (), "A user name has 2 to 64 letters without accents, digits and . _ @ + -"),
        ("taken", (), "There is a user taken already."),
        ("maria", ("--role", "doctor"), "Invalid value for '--role': 'doctor' is not one of"),
        ("maria", ("--name", "a\nb"), "A name has 1 to 200 printable characters."),
        ("maria", ("--patient", "ana"), "Only a user with the role patient is linked to a record."),
        ("maria", ("--practitioner", "nobody"), "There is no practitioner nobody."),
        ("maria", ("--practitioner", "a b"), "'a b' is no id of a Practitioner."),
        ("maria", ("--role", "patient", "--patient", "nobody"), "There is no patient nobody."),
        ("maria", ("--role", "patient", "--patient", "a\nb"), "'a\\nb' is no id of a Patient."),
        (
            "maria",
            ("--role", "patient", "--practitioner", "dr"),
            "A user with the role patient is no Practitioner.",
        ),
        ("maria", ("--invite",), "Give --password-stdin or --invite, not both."),
    ],
)
def test_a_user_who_cannot_be_added_is_refused_and_nothing_is_kept(
    clinic, username, options, words
):
    add(clinic, "taken", "administrator")
    given = ("user", "add", username, "--role", "clinician", "--password-stdin", *options)
    assert words in refusal(clinic, *given, stdin=STDIN)
    assert listed(clinic).keys() == {"taken"}


def test_a_role_must_be_said(clinic):
    assert "Missing option '--role'" in refusal(clinic, "user", "add", "maria", "--invite")


WEAK = [
    (b"", "at least 10 characters"),
    (b"\n", "at least 10 characters"),
    (b"too short\n", "at least 10 characters"),
    (b"x1" * 101, "at most 200 characters"),
    (b"x1" * 50_000, "at most 200 characters"),
    (b"I am maria!\n", "harder to guess"),
    (b"caf\xe9 latte macchiato\n", "The password is not text in UTF-8."),
]


@pytest.mark.parametrize(("stdin", "words"), WEAK)
def test_a_weak_password_is_refused(clinic, stdin, words):
    add(clinic, "maria", "clinician")
    assert words in refusal(clinic, "user", "password", "maria", "--password-stdin", stdin=stdin)
    assert signs_in(clinic, "maria", PASSWORD)


def test_without_a_terminal_no_password_is_asked_for(clinic):
    words = "There is no terminal to ask for the password at; use --password-stdin or --invite."
    added = ("user", "add", "maria", "--role", "clinician")
    assert refusal(clinic, *added, stdin=STDIN) == words
    add(clinic, "maria", "clinician")
    assert refusal(clinic, "user", "password", "maria", stdin=STDIN) == words


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
            shown += read_until(terminal, b"Password: ", b"The same again: ")
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
    assert shown == ["Password: ", "The same again: ", "User maria is added."]
    assert signs_in(clinic, "maria", PASSWORD)


def test_two_passwords_that_differ_are_asked_for_again(clinic):
    add(clinic, "maria", "clinician")
    another = "quite another one"
    typed = [another, "a slip of the hand", another, another]
    stdout, shown = type_at(clinic, "user", "password", "maria", typed=typed)
    assert stdout == ""
    assert shown == [
        "Password: ",
        "The same again: ",
        "Error: The two entered values do not match.",
        "Password: ",
        "The same again: ",
        "User maria has a new password.",
    ]
    assert signs_in(clinic, "maria", another)


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
        "Whoever opens this address chooses the password, once, within 24 hours:",
    ]
    code = code_of(result, BASE_URL)
    assert user_of(clinic, code) == "maria"
    assert code.encode() not in (clinic / "fhirapp.db").read_bytes()
    assert not signs_in(clinic, "maria", "")


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
    assert signs_in(clinic, "maria", PASSWORD)


def test_a_password_is_changed(clinic):
    add(clinic, "maria", "clinician")
    given = ("user", "password", "maria", "--password-stdin")
    result = done(clinic, *given, stdin=b"quite another one\n")
    assert (result.stdout, result.stderr) == ("", "User maria has a new password.\n")
    assert [signs_in(clinic, "maria", one) for one in (PASSWORD, "quite another one")] == [
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
def test_a_user_who_is_not_there_is_named(tmp_path, command, more):
    said = refusal(tmp_path, "user", command, "Nobody", *more, stdin=STDIN)
    assert said == "There is no user nobody."


def test_a_user_is_disabled_and_enabled(clinic):
    add(clinic, "admin", "administrator")
    add(clinic, "maria", "clinician")
    assert done(clinic, "user", "disable", "maria").stderr == "User maria is disabled.\n"
    assert listed(clinic)["maria"]["disabled"]
    assert "maria (disabled)\tclinician\tmaria\t\n" in done(clinic, "user", "list").stdout
    assert not signs_in(clinic, "maria", PASSWORD)
    assert done(clinic, "user", "enable", "maria").stderr == "User maria is enabled.\n"
    assert not listed(clinic)["maria"]["disabled"]
    assert signs_in(clinic, "maria", PASSWORD)


@pytest.mark.parametrize("command", [("disable", "admin"), ("role", "admin", "clinician")])
def test_the_last_administrator_stays(clinic, command):
    add(clinic, "admin", "administrator")
    said = refusal(clinic, "user", *command)
    assert said == "This is the last administrator; make another one first."
    add(clinic, "second", "administrator")
    done(clinic, "user", *command)


def test_a_role_is_changed(clinic):
    add(clinic, "maria", "clinician")
    assert "'doctor' is not one of" in refusal(clinic, "user", "role", "maria", "doctor")
    result = done(clinic, "user", "role", "maria", "administrator")
    assert (result.stdout, result.stderr) == ("", "User maria has the role administrator.\n")
    assert listed(clinic)["maria"]["role"] == "administrator"


def test_records_are_linked_and_unlinked(clinic):
    add(clinic, "maria", "patient")
    own = done(clinic, "user", "link", "maria", "Patient/ana")
    assert own.stderr == "User maria sees Patient/ana, as their own record.\n"
    proxy = done(clinic, "user", "link", "maria", "ben", "--proxy")
    assert proxy.stderr == "User maria sees Patient/ben, as another's record.\n"
    line = "maria\tpatient\tmaria\tPatient/ana, Patient/ben (another's)\n"
    assert done(clinic, "user", "list").stdout == line
    gone = done(clinic, "user", "unlink", "maria", "Patient/ana")
    assert gone.stderr == "User maria does not see Patient/ana any more.\n"
    row = listed(clinic)["maria"]
    assert (row["own_patient"], row["patients"]) == (None, ["ben"])


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (("link", "maria", "nobody"), "There is no patient nobody."),
        (("link", "maria", "Practitioner/dr"), "'Practitioner/dr' is no id of a Patient."),
        (("link", "maria", ""), "'' is no id of a Patient."),
        (("link", "doc", "ana"), "Only a user with the role patient is linked to a record."),
        (("unlink", "maria", "ben"), "User maria is not linked to Patient/ben."),
        (("unlink", "doc", "ana"), "User doc is not linked to Patient/ana."),
        (("link", "maria"), "Missing argument 'PATIENT_ID'. See --help."),
    ],
)
def test_a_link_that_cannot_be_made_or_taken_back_is_refused(clinic, command, words):
    add(clinic, "maria", "patient", "--patient", "ana")
    add(clinic, "doc", "clinician")
    assert refusal(clinic, "user", *command) == words
    assert [row["patients"] for row in listed(clinic).values()] == [[], ["ana"]]


def test_a_second_factor_is_taken_away(tmp_path):
    app = create_app(load_settings({}, instance_path=str(tmp_path)))
    add(tmp_path, "maria", "clinician")
    secret = second_factor.new_secret()
    with app.app_context():
        with writing() as connection:
            user_id = find_user(connection, "maria")["id"]
            second_factor.enable(connection, user_id, secret, 0)
        db.engine.dispose()
    before = done(tmp_path, "user", "list", "--json").stdout
    assert json.loads(before)[0]["second_factor"] is True
    assert secret not in before
    result = done(tmp_path, "user", "second-factor-off", "maria")
    assert result.stderr == "User maria signs in with the password alone.\n"
    assert listed(tmp_path)["maria"]["second_factor"] is False


def test_the_demo_has_users_of_its_own(tmp_path):
    demo = json.loads(done(tmp_path, "user", "list", "--json", "--demo").stdout)
    assert [row["username"] for row in demo] == ["admin", "clinician", "patient"]
    text = done(tmp_path, "user", "list", "--demo").stdout
    assert "argon2" not in text + json.dumps(demo)
    assert "clinician\tclinician\tDr. Folake Adeyemi\tPractitioner/dr-adeyemi\n" in text
    assert done(tmp_path, "user", "list").stdout == ""


def test_a_text_that_is_no_text_is_one_sentence(tmp_path):
    for command in (
        ("user", "disable", "\udcff"),
        ("user", "add", "\udcff", "--role", "patient", "--invite"),
        ("user", "add", "maria", "--role", "patient", "--invite", "--patient", "\udcff"),
        ("user", "add", "maria", "--role", "patient", "--invite", "--name", "\udcff"),
    ):
        refusal(tmp_path, *command)


# Signing keys.


def test_a_signing_key_is_added_and_nobody_else_can_read_it(tmp_path):
    path = tmp_path / "signing-keys.json"
    result = done(tmp_path, "key", "rotate")
    assert (result.stdout, result.stderr) == (
        "",
        "The new key is published at once and signs in 10 minutes.\n",
    )
    kept = json.loads(path.read_bytes())["keys"]
    assert len(kept) == 2
    done(tmp_path, "key", "rotate")
    assert json.loads(path.read_bytes())["keys"][:2] == kept
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {one["key"]["d"] for one in kept}.isdisjoint(result.output.split())


def test_signing_keys_that_cannot_be_read_are_one_sentence(tmp_path):
    (tmp_path / "signing-keys.json").write_text("{")
    said = refusal(tmp_path, "key", "rotate")
    assert said.endswith("cannot be read; delete the file, and a new one is made.")
    assert (tmp_path / "signing-keys.json").read_text() == "{"
