"""Users as the shell and the pages make them: names, passwords, roles, records, setup codes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, select

from fhirapp.auth.links import Link
from fhirapp.auth.models import (
    ADMINISTRATOR,
    CLINICIAN,
    PATIENT,
    Grant,
    RecoveryCode,
    Session,
    User,
    UserPatient,
)
from fhirapp.auth.users import accounts, sessions, sign_in
from fhirapp.config import RefusedCommand
from fhirapp.db import writing

PASSWORD = "a few words, say"
NAME_RULE = "A user name must have 2 to 64 characters: letters without accents, digits or . _ @ + -"
ROLE_RULE = "A role must be one of clinician, administrator, patient."


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app whose users are the demo's."""
    return make_app()


@pytest.fixture
def connection(app: Flask) -> Iterator[Connection]:
    """A writing transaction that is undone at the end of the test; `admin` is a user of it."""
    with app.app_context(), writing() as opened:
        nested = opened.begin_nested()
        yield opened
        nested.rollback()


def add(connection: Connection, username: str = "maria", **given: Any) -> str:
    """Add a user who is right but for what is given."""
    wanted = {"name": "Maria", "role": CLINICIAN, "password": PASSWORD, **given}
    return accounts.add_user(connection, username, **wanted)


def refusal(call: Callable[..., object], *arguments: Any, **given: Any) -> str:
    """Return what is said to whoever asked for what cannot be done."""
    with pytest.raises(RefusedCommand) as raised:
        call(*arguments, **given)
    said = str(raised.value)
    assert "\n" not in said
    return said


def row_of(connection: Connection, user_id: str) -> Any:
    """Return a user's row."""
    return connection.execute(select(User.__table__).where(User.id == user_id)).one()


@pytest.mark.parametrize("username", ["ed", "maria.w1", "m+k@clinic.example", "x" * 64])
def test_a_user_is_found_by_name_whatever_its_case(connection, username):
    user_id = add(connection, f" {username.upper()} ")
    assert accounts.find_user(connection, username)["id"] == user_id
    assert accounts.find_user(connection, f"{username.upper()} ")["username"] == username


@pytest.mark.parametrize(
    "username",
    [
        "",
        "a",
        "x" * 65,
        "maría",
        "m k",
        "m/k",
        ".mk",
        "m\nk",
        "m\0k",
        "mk\ud800",
        "<b>",
        "\u0430dmin",
    ],
)
def test_a_user_name_that_cannot_be_typed_everywhere_is_refused(connection, username):
    assert refusal(add, connection, username) == NAME_RULE
    assert refusal(accounts.find_user, connection, username) == NAME_RULE


def test_a_user_who_is_not_there_is_named(connection):
    assert refusal(accounts.find_user, connection, " Nobody ") == "Unknown user: nobody."


def test_a_user_name_is_one_persons(connection):
    add(connection)
    assert refusal(add, connection, "Maria") == "The user maria already exists."


@pytest.mark.parametrize("name", ["", "  ", "x" * 201, "Ma\nria", "Ma\u202eria", "Ma\x1bria"])
def test_a_name_is_printable(connection, name):
    assert refusal(add, connection, name=name) == "A name must have 1 to 200 printable characters."


@pytest.mark.parametrize("role", ["", "doctor", "Clinician", "operator"])
def test_a_role_is_one_of_three(connection, role):
    assert refusal(add, connection, role=role) == ROLE_RULE
    assert refusal(accounts.set_role, connection, add(connection), role) == ROLE_RULE


@pytest.mark.parametrize(
    ("password", "words"),
    [
        ("", "at least 10 characters"),
        ("nine char", "at least 10 characters"),
        ("x1" * 101, "at most 200 characters"),
        ("aaaabbbbcccc", "harder to guess"),
        ("my name is Maria", "The password contains your user name"),
    ],
)
def test_a_weak_password_is_refused_when_it_is_first_given_and_later(connection, password, words):
    assert words in refusal(add, connection, password=password)
    user_id = add(connection)
    before = row_of(connection, user_id).password_hash
    assert words in refusal(accounts.set_password, connection, user_id, password)
    assert row_of(connection, user_id).password_hash == before


@pytest.mark.usefixtures("password_cost")
def test_a_password_is_kept_as_argon2id_with_a_salt(connection):
    hashes = {row_of(connection, add(connection, name)).password_hash for name in ("anna", "bert")}
    assert len(hashes) == 2
    assert all(one.startswith("$argon2id$v=19$m=19456,t=2,p=1$") for one in hashes)


@pytest.mark.parametrize("fhir_user", ["Practitioner/", "dr", "Patient/p1", "Practitioner/a b"])
def test_who_one_of_the_staff_is_must_be_a_practitioner(connection, fhir_user):
    words = f"{fhir_user!r} is not a Practitioner. Use Practitioner/<id>."
    assert refusal(add, connection, fhir_user=fhir_user) == words
    assert refusal(accounts.set_fhir_user, connection, add(connection), fhir_user) == words


def test_who_one_of_the_staff_is_can_be_said_and_taken_back(connection):
    user_id = add(connection, fhir_user="Practitioner/dr-adeyemi")
    assert row_of(connection, user_id).fhir_user == "Practitioner/dr-adeyemi"
    accounts.set_fhir_user(connection, user_id, "Practitioner/x.1-2")
    assert row_of(connection, user_id).fhir_user == "Practitioner/x.1-2"
    accounts.set_fhir_user(connection, user_id, None)
    assert row_of(connection, user_id).fhir_user is None


def test_a_patient_is_no_practitioner(connection):
    said = refusal(add, connection, role=PATIENT, fhir_user="Practitioner/dr-adeyemi")
    assert said == "A user with the role patient cannot be a Practitioner."


# The last administrator.

LAST = "This is the last administrator. Add another one first."


def only_administrator(connection: Connection) -> str:
    """Return the id of the one administrator that there is."""
    return str(accounts.find_user(connection, "admin")["id"])


def test_the_last_administrator_is_neither_disabled_nor_given_another_role(connection):
    admin = only_administrator(connection)
    assert refusal(accounts.set_user_disabled, connection, admin, disabled=True) == LAST
    for role in (CLINICIAN, PATIENT):
        assert refusal(accounts.set_role, connection, admin, role) == LAST
    accounts.set_role(connection, admin, ADMINISTRATOR)
    assert (row_of(connection, admin).role, row_of(connection, admin).disabled) == (
        ADMINISTRATOR,
        False,
    )


def test_a_disabled_administrator_does_not_count(connection):
    other = add(connection, "second", role=ADMINISTRATOR)
    accounts.set_user_disabled(connection, other, disabled=True)
    admin = only_administrator(connection)
    assert refusal(accounts.set_user_disabled, connection, admin, disabled=True) == LAST
    accounts.set_user_disabled(connection, other, disabled=False)
    accounts.set_user_disabled(connection, admin, disabled=True)
    assert refusal(accounts.set_role, connection, other, CLINICIAN) == LAST


# Sessions end, and what hangs on them.


def begin(connection: Connection, user_id: str, name: str) -> str:
    """Begin a session with an app that may read as long as it lasts; return the session's id."""
    sessions.begin(connection, user_id, complete=True)
    begun = select(Session.id).where(Session.user_id == user_id).order_by(Session.id)
    known = select(Grant.session_id)
    session_id = next(
        one
        for one in connection.execute(begun).scalars()
        if one not in connection.execute(known).scalars().all()
    )
    now = int(time.time())
    row = {"id": name, "user_id": user_id, "client_id": "demo-app", "scope": "user/*.rs"}
    row |= {"need_patient_banner": True, "signed_in_at": now, "created_at": now}
    row |= {"expires_at": now + 3600, "session_id": session_id}
    connection.execute(Grant.__table__.insert(), [row])
    return session_id


def living(connection: Connection, user_id: str) -> set[str]:
    """Return the sessions that go on, and the consents that do."""
    going = select(Session.id).where(Session.user_id == user_id, Session.ended_at.is_(None))
    allowed = select(Grant.id).where(Grant.user_id == user_id, Grant.revoked_at.is_(None))
    return {one for query in (going, allowed) for one in connection.execute(query).scalars()}


ENDS: dict[str, Callable[[Connection, str], None]] = {
    "disabled": lambda connection, who: accounts.set_user_disabled(connection, who, disabled=True),
    "role": lambda connection, who: accounts.set_role(connection, who, ADMINISTRATOR),
    "password": lambda connection, who: accounts.set_password(connection, who, PASSWORD + "!"),
    "second factor": accounts.end_second_factor,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_what_changes_who_somebody_is_ends_the_sessions_of_that_user_alone(connection, end):
    user_id, other = add(connection), add(connection, "other")
    begin(connection, user_id, "consent")
    kept = {begin(connection, other, "another's"), "another's"}
    end(connection, user_id)
    assert living(connection, user_id) == set()
    assert living(connection, other) == kept


def test_whoever_changes_the_own_password_stays_signed_in_there(connection):
    user_id = add(connection)
    here = begin(connection, user_id, "here")
    begin(connection, user_id, "elsewhere")
    accounts.set_password(connection, user_id, PASSWORD + "!", keep=here)
    # The app hung on that session too, and is allowed nothing any more.
    assert living(connection, user_id) == {here}


def test_apps_keep_their_access_where_that_is_asked_for(connection):
    user_id = add(connection)
    here = begin(connection, user_id, "here")
    accounts.set_password(connection, user_id, PASSWORD + "!", keep=here, keep_apps=True)
    assert living(connection, user_id) == {here, "here"}


def test_a_lost_second_factor_is_taken_away_with_its_recovery_codes(connection):
    user_id = add(connection)
    sign_in.enable(connection, user_id, sign_in.new_secret(), 0)
    assert row_of(connection, user_id).totp_secret is not None
    accounts.end_second_factor(connection, user_id)
    assert row_of(connection, user_id).totp_secret is None
    codes = select(RecoveryCode).where(RecoveryCode.user_id == user_id)
    assert connection.execute(codes).first() is None


# Records.


def links(connection: Connection, user_id: str) -> dict[str, bool]:
    """Return the patients that a user is linked to, and whether each is the user."""
    rows = connection.execute(
        select(UserPatient.patient_id, UserPatient.is_self).where(UserPatient.user_id == user_id)
    )
    return {row.patient_id: row.is_self for row in rows}


def test_a_patient_has_one_own_record_and_may_see_others(connection):
    user_id = add(connection, role=PATIENT)
    accounts.link(connection, user_id, "p2", is_self=False)
    accounts.link(connection, user_id, "p1")
    assert links(connection, user_id) == {"p1": True, "p2": False}
    accounts.link(connection, user_id, "p3")
    assert links(connection, user_id) == {"p1": False, "p2": False, "p3": True}
    accounts.link(connection, user_id, "p3", is_self=False)
    assert links(connection, user_id) == {"p1": False, "p2": False, "p3": False}
    assert accounts.unlink(connection, user_id, "p2")
    assert not accounts.unlink(connection, user_id, "p2")
    assert links(connection, user_id) == {"p1": False, "p3": False}


def test_a_link_is_one_users(connection):
    one, other = (add(connection, name, role=PATIENT) for name in ("one", "other"))
    for user_id in (one, other):
        accounts.link(connection, user_id, "p1")
    assert not accounts.unlink(connection, one, "p2")
    assert accounts.unlink(connection, one, "p1")
    assert links(connection, other) == {"p1": True}


@pytest.mark.parametrize("role", [CLINICIAN, ADMINISTRATOR])
def test_staff_are_linked_to_no_record(connection, role):
    said = refusal(accounts.link, connection, add(connection, role=role), "p1")
    assert said == "Only users with the role patient can be linked to a record."


@pytest.mark.parametrize("patient_id", ["", "Patient/p1", "a b", "x" * 65, "p1\n", "p\0", "\ud800"])
def test_what_is_no_id_is_not_linked(connection, patient_id):
    user_id = add(connection, role=PATIENT)
    said = refusal(accounts.link, connection, user_id, patient_id)
    assert said == f"{patient_id!r} is not a Patient id."
    assert not accounts.unlink(connection, user_id, patient_id)


def test_users_are_listed_by_name_with_their_records(connection):
    user_id = add(connection, "aaron", role=PATIENT)
    for patient_id, is_self in (("p9", True), ("p2", False), ("p1", False)):
        accounts.link(connection, user_id, patient_id, is_self=is_self)
    add(connection, "zoe")
    listed = accounts.list_users(connection)
    assert [row["username"] for row in listed] == [
        *("aaron", "admin", "clinician", "parent", "patient", "zoe")
    ]
    assert [(link.patient_id, link.is_self) for link in listed[0]["links"]] == [
        ("p9", True),
        ("p1", False),
        ("p2", False),
    ]
    assert listed[3]["links"] == [Link("p3", False, "rp-lindqvist", "")]
    assert listed[-1]["links"] == []
