"""The account: who one is, what apps may do in one's name, the password."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import insert, select, update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Client, Grant, Session
from fhirapp.auth.users import accounts
from fhirapp.auth.users.sign_in import PER_NAME_AND_ADDRESS
from fhirapp.db import db, writing
from fhirapp.web.times import day, moment
from tests.support.authorizing import Flow, add_program, alter, rows, set_client
from tests.support.browsing import PASSWORD, Browser, Page, add_person, id_of
from tests.support.helpers import FHIR_JSON, assert_outcome, lasting

NOT_SHOWN = "Patient record A record that no longer exists, or that you can no longer see."
TAKEN_BACK = "/account/apps?done=taken-back"
A_PASSWORD = "four words in a row"
DAY = 86_400


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture
def patient(clinic: Flask) -> str:
    """The user name of a patient with one record, p1."""
    return add_person(clinic, PATIENT, "p1")


def browser_of(app: Flask, username: str) -> Browser:
    return Browser(app).resume(username)


def allow(app: Flask, username: str, client_id: str, **values: Any) -> str:
    """Let a user have allowed a client something; return the grant's id."""
    now = int(time.time())
    row: dict[str, Any] = {
        "id": str(uuid4()),
        "user_id": id_of(app, username),
        "client_id": client_id,
        "scope": "patient/*.rs",
        "patient_id": None,
        "encounter_id": None,
        "need_patient_banner": True,
        "signed_in_at": now,
        "created_at": now,
        "expires_at": now + 90 * DAY,
        "session_id": None,
    }
    row |= values
    alter(app, insert(Grant).values(**row))
    return str(row["id"])


def is_revoked(app: Flask, grant_id: str) -> bool:
    ((revoked_at,),) = rows(app, select(Grant.revoked_at).where(Grant.id == grant_id))
    return revoked_at is not None


def revoke(browser: Browser, grant_id: str) -> Page:
    """Send the form of a card, whether or not it is there."""
    token = browser.get("/account").form("Sign out").fields["form_token"]
    return browser.post(f"/account/apps/{grant_id}/revoke", {"form_token": token})


@pytest.mark.parametrize(
    ("role", "patients", "shown"),
    [
        (PATIENT, ("p1",), "Records you can see Amelia Rose Hartwell, born 12 April 1958 Signed"),
        (
            PATIENT,
            ("p1", "p3"),
            "Amelia Rose Hartwell, born 12 April 1958 Noah Lindqvist, born 5 February 2017 Signed",
        ),
        (PATIENT, ("p1", "later"), "born 12 April 1958 1 more, not on this server yet Signed"),
        (PATIENT, ("later", "last"), "Records you can see 2 not on this server yet Signed"),
        (PATIENT, (), "Records you can see None yet. Ask your clinic to link your record. Signed"),
        (CLINICIAN, (), "Role clinician Signed in"),
        (ADMINISTRATOR, (), "Role administrator Signed in"),
    ],
)
def test_who_one_is_stands_on_the_account(clinic, role, patients, shown):
    username = add_person(clinic, role, *patients)
    page = browser_of(clinic, username).get("/account")
    assert page.heading == "Robin Example"
    assert f"User name {username} Role {role} " in page.words
    assert shown in page.words


def test_what_one_can_do_is_linked_from_there(clinic, patient):
    offered = set(browser_of(clinic, patient).get("/account").offered.values())
    assert offered == {
        *("/account/apps", "/account/sessions", "/account/password", "/account/second-factor"),
    }


def test_nothing_allowed_is_told_in_words(clinic, patient):
    page = browser_of(clinic, patient).get("/account/apps")
    assert "No app has access on your behalf." in page.words


def test_an_app_stands_there_with_all_that_was_allowed(clinic, patient):
    program = add_program(
        clinic, redirect_uris=("https://app.example/a", "https://app.example/b", "com.app.x:/c")
    )
    set_client(clinic, program, name="Allergy Card", developer="Riverside Apps")
    since = int(time.time()) - 3 * DAY
    scope = "openid patient/AllergyIntolerance.rs patient/DocumentReference.rs offline_access"
    allow(
        clinic,
        patient,
        program.client_id,
        scope=scope,
        patient_id="p1",
        created_at=since,
        expires_at=since + 30 * DAY,
    )
    page = browser_of(clinic, patient).get("/account/apps")
    assert (
        "Allergy Card Registered by Riverside Apps · sends you back to app.example, the app that"
        " opens com.app.x: Patient record Amelia Rose Hartwell, born 12 April 1958"
        f" Since {moment(since)} Until {day(since + 30 * DAY)}"
        " The app can Recognize you when you return openid"
        " See allergies and intolerances patient/AllergyIntolerance.rs"
        " See clinical notes and documents sensitive patient/DocumentReference.rs"
        " Keep access when you are away offline_access"
        " Revoke access"
    ) in page.words


def test_what_ends_soon_or_with_the_session_says_so(clinic):
    username = add_person(clinic, CLINICIAN)
    end = int(time.time()) + 3600
    allow(clinic, username, "demo-app", scope="user/*.rs", expires_at=end)
    online = add_program(clinic).client_id
    allow(clinic, username, online, scope="user/*.rs", expires_at=end, session_id="x")
    words = browser_of(clinic, username).get("/account/apps").words
    assert "sends you back to this device, this server" in words
    assert "Patient record Every patient you can see." in words
    assert f"Until {moment(end)} The app can" in words
    assert f"Until you sign out, or {moment(end)} at the latest The app can" in words


def test_an_app_that_was_switched_off_says_so(clinic, patient):
    program = add_program(clinic)
    allow(clinic, patient, program.client_id)
    set_client(clinic, program, disabled=True)
    words = browser_of(clinic, patient).get("/account/apps").words
    assert "An app disabled by your clinic" in words


def test_the_newest_stands_first(clinic, patient):
    now = int(time.time())
    for at in (2, 1, 3):
        program = add_program(clinic)
        set_client(clinic, program, name=f"App {at}")
        allow(clinic, patient, program.client_id, created_at=now - at)
    words = browser_of(clinic, patient).get("/account/apps").words
    assert words.index("App 1") < words.index("App 2") < words.index("App 3")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        ({"patient_id": "p1"}, "Patient record Amelia Rose Hartwell"),
        ({"patient_id": None}, "Patient record None."),
        # A record that is linked to somebody else, or not any more.
        ({"patient_id": "p3"}, NOT_SHOWN),
        ({"patient_id": "later"}, NOT_SHOWN),
    ],
)
def test_only_a_record_that_one_may_see_is_named(clinic, patient, values, shown):
    with clinic.app_context(), writing() as connection:
        accounts.link(connection, id_of(clinic, patient), "later", is_self=False)
    allow(clinic, patient, "demo-app", **values)
    words = browser_of(clinic, patient).get("/account/apps").words
    assert shown in words
    assert "Noah" not in words


@pytest.mark.parametrize(
    "values", [{"revoked_at": 1}, {"expires_at": int(time.time()) - 1}, {"user_id": None}]
)
def test_what_ended_and_what_others_allowed_does_not_stand_there(clinic, patient, values):
    if "user_id" in values:
        values = {"user_id": id_of(clinic, add_person(clinic, PATIENT, "p1"))}
    allow(clinic, patient, "demo-app", patient_id="p1", **values)
    words = browser_of(clinic, patient).get("/account/apps").words
    assert "No app has access on your behalf." in words


def test_taking_back_ends_the_app_at_once(clinic):
    user_id = id_of(clinic, username := add_person(clinic, PATIENT, "p1"))
    flow = Flow(clinic, add_program(clinic), user_id)
    answer = flow.tokens("launch/patient patient/*.rs offline_access")
    other = Flow(clinic, add_program(clinic), user_id)
    kept = other.fhir("launch/patient patient/*.rs")
    headers = {"Authorization": f"Bearer {answer['access_token']}", "Accept": FHIR_JSON}
    client = clinic.test_client()
    assert client.get("/fhir/AllergyIntolerance", headers=headers).status_code == 200
    browser = browser_of(clinic, username)
    page = browser.get("/account/apps")
    ((grant_id,),) = rows(clinic, select(Grant.id).where(Grant.client_id == flow.program.client_id))
    forms = {one.action: one for one in page.forms if "Revoke access" in one.buttons}
    assert len(forms) == 2
    form = forms[f"/account/apps/{grant_id}/revoke"]
    page = browser.post(form.action, form.fields)
    assert (page.status, page.path, page.words.count("Revoke access")) == (200, TAKEN_BACK, 1)
    assert "Access revoked." in page.words
    refused = client.get("/fhir/AllergyIntolerance", headers=headers)
    assert_outcome(refused, 401, "login", "The access token is not valid.")
    assert flow.refresh(answer["refresh_token"]).get_json()["error"] == "invalid_grant"
    assert kept.get("AllergyIntolerance").status_code == 200


def test_taking_back_twice_does_no_harm(clinic, patient):
    grant_id = allow(clinic, patient, "demo-app")
    browser = browser_of(clinic, patient)
    assert revoke(browser, grant_id).path == TAKEN_BACK
    ((before,),) = rows(clinic, select(Grant.revoked_at).where(Grant.id == grant_id))
    again = revoke(browser, grant_id)
    assert again.path == "/account/apps?done=nothing"
    assert "Nothing was changed." in again.words
    assert rows(clinic, select(Grant.revoked_at).where(Grant.id == grant_id)) == [(before,)]


def test_what_others_allowed_is_not_ones_own_to_take_back(clinic, patient):
    theirs = allow(clinic, add_person(clinic, PATIENT, "p1"), "demo-app", patient_id="p1")
    unknown = str(uuid4())
    for username in (patient, add_person(clinic, ADMINISTRATOR)):
        browser = browser_of(clinic, username)
        answers = {
            (page.status, page.response.text, str(lasting(page.response)))
            for page in (revoke(browser, theirs), revoke(browser, unknown))
        }
        assert len(answers) == 1
        assert next(iter(answers))[0] == 404
    assert not is_revoked(clinic, theirs)


@pytest.mark.parametrize("grant_id", ["%00", "x", "' OR 1=1 --", "%F0%9F", "é", "a" * 3000])
def test_what_is_no_consent_at_all_is_the_same_404(clinic, patient, grant_id):
    mine = allow(clinic, patient, "demo-app")
    page = revoke(browser_of(clinic, patient), grant_id)
    assert (page.status, page.heading) == (404, "Page not found")
    assert not is_revoked(clinic, mine)


def test_what_is_taken_back_is_one_app_and_one_record(clinic):
    patient, other = add_person(clinic, PATIENT, "p1", "p3"), add_person(clinic, PATIENT, "p1")
    again = [allow(clinic, patient, "demo-app", patient_id="p1") for _ in range(3)]
    kept = [
        allow(clinic, patient, "demo-app", patient_id="p3"),
        allow(clinic, patient, "demo-app", patient_id=None),
        allow(clinic, patient, add_program(clinic).client_id, patient_id="p1"),
        allow(clinic, other, "demo-app", patient_id="p1"),
    ]
    revoke(browser_of(clinic, patient), again[1])
    assert {is_revoked(clinic, one) for one in again} == {True}
    assert {is_revoked(clinic, one) for one in kept} == {False}


def test_consents_without_a_record_are_taken_back_together_too(clinic, patient):
    both = [allow(clinic, patient, "demo-app", patient_id=None) for _ in range(2)]
    of_record = allow(clinic, patient, "demo-app", patient_id="p1")
    revoke(browser_of(clinic, patient), both[0])
    assert [is_revoked(clinic, one) for one in (*both, of_record)] == [True, True, False]


def test_what_was_allowed_several_times_is_one_card(clinic, patient):
    program, now = add_program(clinic), int(time.time())
    for at, scope, lasts in (
        (30, "patient/AllergyIntolerance.rs offline_access", 90 * DAY),
        (20, "launch/patient patient/AllergyIntolerance.rs", 3600),
        (10, "patient/DocumentReference.rs", 7200),
    ):
        allow(
            clinic,
            patient,
            program.client_id,
            scope=scope,
            patient_id="p1",
            created_at=now - at,
            expires_at=now + lasts,
        )
    page = browser_of(clinic, patient).get("/account/apps")
    assert page.words.count("Revoke access") == 1
    assert (
        f"Allowed 3 times, most recently on {moment(now - 10)} Until {day(now + 90 * DAY)}"
        " The app can See clinical notes and documents sensitive patient/DocumentReference.rs"
        " Know which patient is selected launch/patient"
        " See allergies and intolerances patient/AllergyIntolerance.rs"
        " Keep access when you are away offline_access Revoke access"
    ) in page.words


@pytest.mark.parametrize("done", ["<b>paid</b>", "You won", "\0"])
def test_a_confirmation_is_one_of_ours(clinic, patient, done):
    page = browser_of(clinic, patient).get("/account/apps", query_string={"done": done})
    assert page.status == 200
    assert 'role="status"' not in page.response.text


def change(browser: Browser, old: str, new: str, again: str | None = None) -> Page:
    page = browser.get("/account/password")
    again = new if again is None else again
    return page.submit("Change password", old=old, password=new, again=again)


def test_the_password_is_changed(clinic, patient):
    browser, elsewhere = browser_of(clinic, patient), browser_of(clinic, patient)
    before = browser.cookie()
    page = change(browser, PASSWORD, A_PASSWORD)
    assert (page.status, page.heading) == (200, "Password changed")
    # This session stays, under another secret.
    assert browser.cookie() != before
    assert page.submit("Sign out").heading == "Sign in"
    assert elsewhere.get("/account").heading == "Sign in"
    assert Browser(clinic).sign_in(patient, PASSWORD).status == 403
    assert Browser(clinic).sign_in(patient, A_PASSWORD).path == "/account"


def test_the_old_secret_of_the_session_is_dead(clinic, patient):
    browser, thief = browser_of(clinic, patient), Browser(clinic)
    thief.set_cookie(browser.cookie() or "")
    assert thief.get("/account").heading == "Robin Example"
    change(browser, PASSWORD, A_PASSWORD)
    assert thief.get("/account").heading == "Sign in"
    assert browser.get("/account").heading == "Robin Example"


def test_an_address_for_a_new_password_is_void_then(clinic, patient):
    with clinic.app_context(), writing() as connection:
        code = accounts.new_setup_code(connection, accounts.find_user(connection, patient)["id"])
    change(browser_of(clinic, patient), PASSWORD, A_PASSWORD)
    assert Browser(clinic).get(f"/setup?code={code}").status == 404


@pytest.mark.parametrize(
    ("old", "new", "again", "status", "message"),
    [
        ("wrong", A_PASSWORD, None, 403, "Incorrect password. Enter your current password."),
        ("", A_PASSWORD, None, 403, "Incorrect password. Enter your current password."),
        (
            PASSWORD,
            A_PASSWORD,
            "else",
            400,
            "The new passwords do not match. Enter the same password twice.",
        ),
        (PASSWORD, "short", None, 400, "Choose a password of at least 10 characters."),
        (PASSWORD, PASSWORD, None, 400, "the same as the current one. Nothing was changed."),
        (PASSWORD, "x" * 2000, None, 400, "Choose a password of at most 200 characters."),
        (PASSWORD, "aaaaaaaaaaaa", None, 400, "Choose a password that is harder to guess"),
    ],
)
def test_what_is_wrong_changes_nothing(clinic, patient, old, new, again, status, message):
    browser, elsewhere = browser_of(clinic, patient), browser_of(clinic, patient)
    before = browser.cookie()
    page = change(browser, old, new, again)
    assert (page.status, page.path) == (status, "/account/password")
    assert message in page.words
    form = page.form("Change password")
    assert [form.fields[name] for name in ("old", "password", "again")] == ["", "", ""]
    assert browser.cookie() == before
    assert elsewhere.get("/account").heading == "Robin Example"
    assert Browser(clinic).sign_in(patient, PASSWORD).path == "/account"


def test_tries_of_the_old_password_are_counted_with_those_to_sign_in(clinic, patient):
    browser = browser_of(clinic, patient)
    for _ in range(PER_NAME_AND_ADDRESS - 1):
        assert change(browser, "wrong", A_PASSWORD).status == 403
    assert Browser(clinic, browser.address).sign_in(patient, "wrong").status == 403
    page = change(browser, PASSWORD, A_PASSWORD)
    assert page.status == 429
    assert "Too many attempts. Wait 15 minutes." in page.words
    assert 800 < int(page.headers["Retry-After"]) <= 900
    assert Browser(clinic, browser.address).sign_in(patient).status == 429


def test_who_knows_the_old_password_has_five_tries_again(clinic, patient):
    browser = browser_of(clinic, patient)
    for _ in range(PER_NAME_AND_ADDRESS - 1):
        change(browser, "wrong", A_PASSWORD)
    assert change(browser, PASSWORD, A_PASSWORD).status == 200
    for _ in range(PER_NAME_AND_ADDRESS - 1):
        assert change(browser, "wrong", A_PASSWORD).status == 403


def test_what_the_app_may_keep_is_told_when_the_password_changes(clinic, patient):
    mine = allow(clinic, patient, "demo-app")
    page = change(browser_of(clinic, patient), PASSWORD, A_PASSWORD)
    assert page.links["Connected apps"] == "/account/apps"
    assert is_revoked(clinic, mine)


def test_apps_keep_their_access_where_the_form_says_so(clinic, patient):
    mine = allow(clinic, patient, "demo-app")
    page = browser_of(clinic, patient).get("/account/password")
    passwords = {"old": PASSWORD, "password": A_PASSWORD, "again": A_PASSWORD}
    assert page.submit("Change password", **passwords, keep_apps="yes").status == 200
    assert not is_revoked(clinic, mine)


def test_one_sees_where_one_is_signed_in_and_ends_it(clinic, patient):
    here, there, other = (browser_of(clinic, patient) for _ in range(3))
    page = here.get("/account/sessions")
    assert page.words.count("End session") == 2
    page.submit("End session")
    assert [one.get("/account").path for one in (there, other)].count("/account") == 1
    here.get("/account/sessions").submit("Sign out everywhere else")
    assert [one.get("/account").path for one in (there, other)].count("/account") == 0
    assert here.get("/account").path == "/account"


def test_nobody_ends_anothers_session(clinic, patient):
    browser_of(clinic, patient)
    stranger = browser_of(clinic, add_person(clinic, PATIENT))
    page = stranger.get("/account/sessions")
    with clinic.app_context():
        theirs = db.session.scalars(select(Session.id)).all()
    form = {"form_token": page.form("Sign out").fields["form_token"]}
    statuses = {
        stranger.post("/account/sessions/end", {**form, "session": one}).status for one in theirs
    }
    assert statuses == {404}


def test_nobody_changes_what_is_anothers_by_naming_them(clinic, patient):
    """The user name in the form is for the browser's memory alone."""
    other = add_person(clinic, PATIENT)
    browser = browser_of(clinic, patient)
    page = browser.get("/account/password")
    form = {"username": other, "old": PASSWORD, "password": A_PASSWORD, "again": A_PASSWORD}
    assert page.submit("Change password", **form).status == 200
    assert Browser(clinic).sign_in(other, PASSWORD).path == "/account"
    assert Browser(clinic).sign_in(patient, A_PASSWORD).path == "/account"


def test_an_app_without_a_developer_and_addresses_is_shown(clinic, patient):
    program = add_program(clinic)
    allow(clinic, patient, program.client_id)
    alter(
        clinic,
        update(Client)
        .where(Client.client_id == program.client_id)
        .values(developer=None, redirect_uris=None),
    )
    assert browser_of(clinic, patient).get("/account/apps").status == 200
