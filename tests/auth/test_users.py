"""Users: validation of names and roles, the last administrator, ended sessions, linked records."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import Connection, select

from fhirapp.auth.links import RecordLink
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
from fhirapp.auth.users import accounts, second_factor, sessions
from tests.support.accounts import PASSWORD, add
from tests.support.registrations import refusal_of


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app whose users are the demo's."""
    return make_app()


def row_of(connection: Connection, user_id: str) -> Any:
    return connection.execute(select(User.__table__).where(User.id == user_id)).one()


def test_user_is_found_by_name_whatever_its_case(connection):
    for username in ("ed", "maria.w1", "m+k@clinic.example", "x" * 64):
        user_id = add(connection, f" {username.upper()} ")
        assert accounts.find_user(connection, username)["id"] == user_id
        assert accounts.find_user(connection, f"{username.upper()} ")["username"] == username
        assert "already exists" in refusal_of(add, connection, username.upper())
    assert "Unknown user: nobody." in refusal_of(accounts.find_user, connection, " Nobody ")


def test_user_name_is_ascii_and_short(connection):
    for username in (
        *("", "a", "x" * 65, "maría", "m k", "m/k", ".mk", "m\nk", "m\0k", "mk\ud800", "<b>"),
        "\u0430dmin",
    ):
        for message in (
            refusal_of(add, connection, username),
            refusal_of(accounts.find_user, connection, username),
        ):
            assert "A user name must have 2 to 64 characters" in message, username


def test_name_is_printable_and_short(connection):
    for name in ("", "  ", "x" * 201, "Ma\nria", "Ma\u202eria", "Ma\x1bria"):
        assert "A name must have 1 to 200" in refusal_of(add, connection, name=name)


def test_role_is_one_of_three(connection):
    user_id = add(connection)
    for role in ("", "doctor", "Clinician", "operator"):
        for message in (
            refusal_of(add, connection, "other", role=role),
            refusal_of(accounts.set_role, connection, user_id, role),
        ):
            assert "must be one of clinician, administrator, patient" in message


def test_weak_password_is_refused_for_a_new_user_and_later(connection):
    user_id = add(connection)
    before = row_of(connection, user_id).password_hash
    for password, words in (
        ("nine char", "at least 10 characters"),
        ("my name is Maria", "contains your user name"),
    ):
        assert words in refusal_of(add, connection, "mari", password=password)
        assert words in refusal_of(accounts.set_password, connection, user_id, password)
    assert row_of(connection, user_id).password_hash == before


def test_fhir_user_of_staff_is_a_practitioner(connection):
    user_id = add(connection, fhir_user="Practitioner/dr-adeyemi")
    assert row_of(connection, user_id).fhir_user == "Practitioner/dr-adeyemi"
    for fhir_user in ("Practitioner/", "dr", "Patient/p1", "Practitioner/a b"):
        for message in (
            refusal_of(add, connection, "other", fhir_user=fhir_user),
            refusal_of(accounts.set_fhir_user, connection, user_id, fhir_user),
        ):
            assert f"{fhir_user!r} is not a Practitioner" in message
    for fhir_user in ("Practitioner/x.1-2", None):
        accounts.set_fhir_user(connection, user_id, fhir_user)
        assert row_of(connection, user_id).fhir_user == fhir_user
    patient = {"role": PATIENT, "fhir_user": "Practitioner/dr-adeyemi"}
    assert "cannot be a Practitioner" in refusal_of(add, connection, "other", **patient)


# The last administrator.

LAST = "the last administrator"


def only_administrator(connection: Connection) -> str:
    """Return the id of the one administrator that there is."""
    return str(accounts.find_user(connection, "admin")["id"])


def test_last_administrator_is_neither_disabled_nor_given_another_role(connection):
    admin = only_administrator(connection)
    assert LAST in refusal_of(accounts.set_user_disabled, connection, admin, disabled=True)
    for role in (CLINICIAN, PATIENT):
        assert LAST in refusal_of(accounts.set_role, connection, admin, role)
    accounts.set_role(connection, admin, ADMINISTRATOR)
    assert (row_of(connection, admin).role, row_of(connection, admin).disabled) == (
        ADMINISTRATOR,
        False,
    )


def test_disabled_administrator_does_not_count(connection):
    other = add(connection, "second", role=ADMINISTRATOR)
    accounts.set_user_disabled(connection, other, disabled=True)
    admin = only_administrator(connection)
    assert LAST in refusal_of(accounts.set_user_disabled, connection, admin, disabled=True)
    accounts.set_user_disabled(connection, other, disabled=False)
    accounts.set_user_disabled(connection, admin, disabled=True)
    assert LAST in refusal_of(accounts.set_role, connection, other, CLINICIAN)


# Sessions end, and what hangs on them.


def begin(connection: Connection, user_id: str, name: str) -> str:
    """Begin a session with an app that may read as long as it lasts; return the session's id."""
    sessions.begin(connection, user_id, complete=True)
    begun = select(Session.id).where(Session.user_id == user_id).order_by(Session.id)
    known = select(Grant.session_id)
    before = connection.execute(known).scalars().all()
    session_id = next(id_ for id_ in connection.execute(begun).scalars() if id_ not in before)
    now = int(time.time())
    row = {"id": name, "user_id": user_id, "client_id": "demo-app", "scope": "user/*.rs"}
    row |= {"need_patient_banner": True, "signed_in_at": now, "created_at": now}
    row |= {"expires_at": now + 3600, "session_id": session_id}
    connection.execute(Grant.__table__.insert(), [row])
    return session_id


def valid(connection: Connection, user_id: str) -> set[str]:
    """Return the sessions and consents of a user that have not ended."""
    going = select(Session.id).where(Session.user_id == user_id, Session.ended_at.is_(None))
    allowed = select(Grant.id).where(Grant.user_id == user_id, Grant.revoked_at.is_(None))
    return {id_ for query in (going, allowed) for id_ in connection.execute(query).scalars()}


ENDS: dict[str, Callable[[Connection, str], None]] = {
    "disabled": lambda connection, who: accounts.set_user_disabled(connection, who, disabled=True),
    "role": lambda connection, who: accounts.set_role(connection, who, ADMINISTRATOR),
    "password": lambda connection, who: accounts.set_password(connection, who, PASSWORD + "!"),
    "second factor": accounts.end_second_factor,
}


@pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)
def test_change_of_an_account_ends_the_sessions_of_that_user_only(connection, end):
    user_id, other = add(connection), add(connection, "other")
    begin(connection, user_id, "consent")
    kept = {begin(connection, other, "another's"), "another's"}
    end(connection, user_id)
    assert valid(connection, user_id) == set()
    assert valid(connection, other) == kept


@pytest.mark.parametrize("keep_apps", [False, True])
def test_own_new_password_keeps_its_session_and_on_request_the_access_of_apps(
    connection, keep_apps
):
    user_id = add(connection)
    here = begin(connection, user_id, "here")
    if not keep_apps:
        begin(connection, user_id, "elsewhere")
    accounts.set_password(connection, user_id, PASSWORD + "!", keep=here, keep_apps=keep_apps)
    assert valid(connection, user_id) == ({here, "here"} if keep_apps else {here})


def test_second_factor_is_ended_with_its_recovery_codes(connection):
    user_id = add(connection)
    second_factor.enable(connection, user_id, second_factor.new_secret(), 0)
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


def test_patient_has_one_own_record_and_may_see_others(connection):
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


def test_link_is_removed_of_one_user_only(connection):
    first, other = (add(connection, name, role=PATIENT) for name in ("first", "other"))
    for user_id in (first, other):
        accounts.link(connection, user_id, "p1")
    assert not accounts.unlink(connection, first, "p2")
    assert accounts.unlink(connection, first, "p1")
    assert links(connection, other) == {"p1": True}


def test_staff_are_linked_to_no_record(connection):
    for role in (CLINICIAN, ADMINISTRATOR):
        staff = add(connection, f"some-{role}", role=role)
        message = refusal_of(accounts.link, connection, staff, "p1")
        assert "Only users with the role patient" in message
        related = {"related_person": "rp-lindqvist"}
        assert refusal_of(accounts.link, connection, staff, "p3", **related)


def test_invalid_patient_id_is_not_linked(connection):
    user_id = add(connection, role=PATIENT)
    for patient_id in ("", "Patient/p1", "a b", "x" * 65, "p1\n", "p\0", "\ud800"):
        message = refusal_of(accounts.link, connection, user_id, patient_id)
        assert f"{patient_id!r} is not a Patient id." in message
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
    assert listed[3]["links"] == [RecordLink("p3", False, "rp-lindqvist", "")]
    assert listed[-1]["links"] == []
