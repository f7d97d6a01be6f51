"""The account: its user, the apps with access on the user's behalf, the password, the sessions.

Which passwords are refused is tested in tests/auth/test_sign_in.py.
"""

from __future__ import annotations

import time
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

NO_APPS = "No app has access on your behalf."
A_PASSWORD = "four words in a row"
DAY = 86_400


@pytest.fixture
def patient(clinic: Flask) -> str:
    """The user name of a patient with one record, p1."""
    return add_person(clinic, PATIENT, "p1")


@pytest.fixture
def browser(clinic: Flask, patient: str) -> Browser:
    """The browser in which that patient is signed in."""
    return Browser(clinic).resume(patient)


def allow(app: Flask, username: str, client_id: str = "demo-app", **values: Any) -> str:
    """Let a user have allowed a client something; return the grant's id."""
    now = int(time.time())
    row: dict[str, Any] = {"id": str(uuid4()), "user_id": id_of(app, username)}
    row |= {"client_id": client_id, "scope": "patient/*.rs", "need_patient_banner": True}
    row |= {"signed_in_at": now, "created_at": now, "expires_at": now + 90 * DAY}
    alter(app, insert(Grant).values(**(row | values)))
    return str(row["id"])


def revoked_at(app: Flask, *grant_ids: str) -> list[int | None]:
    found = dict(rows(app, select(Grant.id, Grant.revoked_at).where(Grant.id.in_(grant_ids))))
    return [found[grant_id] for grant_id in grant_ids]


def is_revoked(app: Flask, *grant_ids: str) -> list[bool]:
    return [at is not None for at in revoked_at(app, *grant_ids)]


def revoke(browser: Browser, grant_id: str) -> Page:
    """Send the form of a card, whether or not it is there."""
    return browser.post_with_token(f"/account/apps/{grant_id}/revoke")


def apps_page(browser: Browser) -> str:
    return browser.get("/account/apps").words


def test_account_shows_the_user_and_the_linked_records(clinic):
    born = {"p1": "Amelia Rose Hartwell, born 12 April 1958", "p3": "Noah Lindqvist, born 5 Febr"}
    for role, patients, shown in (
        (PATIENT, ("p1",), f"Records you can see {born['p1']} Signed"),
        (PATIENT, ("p1", "p3"), f"{born['p1']} {born['p3']}"),
        (PATIENT, ("p1", "later"), f"{born['p1']} 1 more, not on this server yet Signed"),
        (PATIENT, ("later", "last"), "Records you can see 2 not on this server yet Signed"),
        (PATIENT, (), "Records you can see None yet."),
        (CLINICIAN, (), "Role clinician Signed in"),
        (ADMINISTRATOR, (), "Role administrator Signed in"),
    ):
        username = add_person(clinic, role, *patients)
        page = Browser(clinic).resume(username).get("/account")
        assert page.heading == "Robin Example"
        assert f"User name {username} Role {role} " in page.words
        assert shown in page.words
        own = {"/account/apps", "/account/sessions", "/account/password", "/account/second-factor"}
        assert own == {*page.offered.values()} - {"/launch", "/admin"}


def test_connected_app_is_shown_with_all_that_was_allowed(clinic, browser, patient):
    assert NO_APPS in apps_page(browser)
    uris = ("https://app.example/a", "https://app.example/b", "com.app.x:/c")
    program = add_program(clinic, redirect_uris=uris)
    set_client(clinic, program, name="Allergy Card", developer="Riverside Apps")
    since = int(time.time()) - 3 * DAY
    values = {"created_at": since, "expires_at": since + 30 * DAY, "patient_id": "p1"}
    scope = "openid patient/AllergyIntolerance.rs patient/DocumentReference.rs offline_access"
    allow(clinic, patient, program.client_id, scope=scope, **values)
    assert (
        "Allergy Card Registered by Riverside Apps · sends you back to app.example, the app that"
        " opens com.app.x: Patient record Amelia Rose Hartwell, born 12 April 1958"
        f" Since {moment(since)} Until {day(since + 30 * DAY)}"
        " The app can Recognize you when you return openid"
        " See allergies and intolerances patient/AllergyIntolerance.rs"
        " See clinical notes and documents sensitive patient/DocumentReference.rs"
        " Keep access when you are away offline_access"
    ) in apps_page(browser)
    set_client(clinic, program, disabled=True)
    assert "Allergy Card disabled by your clinic" in apps_page(browser)
    # An app without a developer and redirect URIs is shown too.
    of_program = update(Client).where(Client.client_id == program.client_id)
    alter(clinic, of_program.values(developer=None, redirect_uris=None))
    assert browser.get("/account/apps").status == 200


def test_access_until_sign_out_or_for_an_hour_is_shown_as_such(clinic):
    username, end = add_person(clinic, CLINICIAN), int(time.time()) + 3600
    allow(clinic, username, scope="user/*.rs", expires_at=end)
    online = add_program(clinic).client_id
    allow(clinic, username, online, scope="user/*.rs", expires_at=end, session_id="x")
    words = apps_page(Browser(clinic).resume(username))
    assert "Patient record Every patient you can see." in words
    assert f"Until {moment(end)} The app can" in words
    assert f"Until you sign out, or {moment(end)} at the latest The app can" in words


def test_only_active_consents_and_visible_records_are_shown(clinic, patient):
    other = id_of(clinic, add_person(clinic, PATIENT, "p1"))
    not_visible = "A record that no longer exists, or that you can no longer see."
    for values, shown in (
        ({"patient_id": "p1"}, "Patient record Amelia Rose Hartwell"),
        ({"patient_id": None}, "Patient record None."),
        # A record that is linked to somebody else, or not imported yet.
        ({"patient_id": "p3"}, not_visible),
        ({"patient_id": "later"}, not_visible),
        ({"patient_id": "p1", "revoked_at": 1}, NO_APPS),
        ({"patient_id": "p1", "expires_at": int(time.time()) - 1}, NO_APPS),
        ({"patient_id": "p1", "user_id": other}, NO_APPS),
    ):
        username = add_person(clinic, PATIENT, "p1")
        with clinic.app_context(), writing() as connection:
            accounts.link(connection, id_of(clinic, username), "later", is_self=False)
        allow(clinic, username, **values)
        words = apps_page(Browser(clinic).resume(username))
        assert shown in words, values
        assert "Noah" not in words


def test_revoked_app_loses_access_at_once(clinic):
    user_id = id_of(clinic, username := add_person(clinic, PATIENT, "p1"))
    flow = Flow(clinic, add_program(clinic), user_id)
    answer = flow.tokens("launch/patient patient/*.rs offline_access")
    other = Flow(clinic, add_program(clinic), user_id).fhir("launch/patient patient/*.rs")
    headers = {"Authorization": f"Bearer {answer['access_token']}", "Accept": FHIR_JSON}
    client, browser = clinic.test_client(), Browser(clinic).resume(username)
    assert client.get("/fhir/AllergyIntolerance", headers=headers).status_code == 200
    ((grant_id,),) = rows(clinic, select(Grant.id).where(Grant.client_id == flow.program.client_id))
    page = browser.get("/account/apps").send(f"/{grant_id}/revoke")
    assert page.path == "/account/apps?done=revoked"
    assert len([action for action in page.actions if action.endswith("/revoke")]) == 1
    refused = client.get("/fhir/AllergyIntolerance", headers=headers)
    assert_outcome(refused, 401, "login", "The access token is not valid.")
    assert flow.refresh(answer["refresh_token"]).get_json()["error"] == "invalid_grant"
    assert other.get("AllergyIntolerance").status_code == 200
    before = revoked_at(clinic, grant_id)
    assert revoke(browser, grant_id).path == "/account/apps?done=nothing"
    assert revoked_at(clinic, grant_id) == before
    for done in ("<b>paid</b>", "You won", "\0"):
        page = browser.get("/account/apps", query_string={"done": done})
        assert (page.status, page.confirmations) == (200, [])


def test_consent_of_another_user_cannot_be_revoked_or_told_from_none(clinic, browser, patient):
    theirs, mine = (allow(clinic, name) for name in (add_person(clinic, PATIENT, "p1"), patient))
    for asking in (browser, Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))):
        pages = [revoke(asking, grant_id) for grant_id in (theirs, str(uuid4()))]
        answers = {(page.status, page.response.text, str(lasting(page.response))) for page in pages}
        assert [status for status, *_ in answers] == [404]
    for grant_id in ("%00", "x", "' OR 1=1 --", "%F0%9F", "é", "a" * 3000):
        assert revoke(browser, grant_id).status == 404
    assert is_revoked(clinic, theirs, mine) == [False, False]


def test_revoking_ends_all_consents_for_one_app_and_one_record(clinic):
    patient, other = add_person(clinic, PATIENT, "p1", "p3"), add_person(clinic, PATIENT, "p1")
    same = [allow(clinic, patient, patient_id="p1") for _ in range(3)]
    without = [allow(clinic, patient, patient_id=None) for _ in range(2)]
    others = [
        allow(clinic, patient, patient_id="p3"),
        allow(clinic, patient, add_program(clinic).client_id, patient_id="p1"),
        allow(clinic, other, patient_id="p1"),
    ]
    browser = Browser(clinic).resume(patient)
    revoke(browser, same[1])
    assert is_revoked(clinic, *same, *without, *others) == [True] * 3 + [False] * 5
    revoke(browser, without[0])
    assert is_revoked(clinic, *same, *without, *others) == [True] * 5 + [False] * 3


def test_repeated_consents_are_one_card(clinic, browser, patient):
    program, now = add_program(clinic), int(time.time())
    for ago, scope, lasts in (
        (30, "patient/AllergyIntolerance.rs offline_access", 90 * DAY),
        (20, "launch/patient patient/AllergyIntolerance.rs", 3600),
        (10, "patient/DocumentReference.rs", 7200),
    ):
        values = {"created_at": now - ago, "expires_at": now + lasts, "patient_id": "p1"}
        allow(clinic, patient, program.client_id, scope=scope, **values)
    page = browser.get("/account/apps")
    assert len([action for action in page.actions if action.endswith("/revoke")]) == 1
    assert (
        f"Allowed 3 times, most recently on {moment(now - 10)} Until {day(now + 90 * DAY)}"
        " The app can See clinical notes and documents sensitive patient/DocumentReference.rs"
        " Know which patient is selected launch/patient"
        " See allergies and intolerances patient/AllergyIntolerance.rs"
        " Keep access when you are away offline_access"
    ) in page.words


def change(browser: Browser, old: str = PASSWORD, new: str = A_PASSWORD, **filled: str) -> Page:
    filled = {"old": old, "password": new, "again": new} | filled
    return browser.get("/account/password").send("/password", **filled)


def test_changed_password_ends_other_sessions_apps_and_one_time_addresses(clinic, browser, patient):
    elsewhere, thief = Browser(clinic).resume(patient), Browser(clinic)
    grant_id, other = allow(clinic, patient), add_person(clinic, PATIENT)
    with clinic.app_context(), writing() as connection:
        code = accounts.new_setup_code(connection, id_of(clinic, patient))
    before = browser.cookie() or ""
    thief.set_cookie(before)
    assert thief.get("/account").path == "/account"
    # The user name in the form is for the browser's memory alone.
    page = change(browser, username=other)
    assert (page.status, "/account/apps" in page.links.values()) == (200, True)
    # This session stays, under another secret.
    assert browser.cookie() != before
    paths = [asking.get("/account").path for asking in (browser, elsewhere, thief)]
    assert paths == ["/account", *["/sign-in?next=%2Faccount"] * 2]
    assert is_revoked(clinic, grant_id) == [True]
    assert Browser(clinic).get(f"/setup?code={code}").status == 404
    assert Browser(clinic).sign_in(patient, PASSWORD).status == 403
    assert Browser(clinic).sign_in(patient, A_PASSWORD).path == "/account"
    assert Browser(clinic).sign_in(other, PASSWORD).path == "/account"


def test_apps_keep_their_access_on_request_when_the_password_changes(clinic, browser, patient):
    grant_id = allow(clinic, patient)
    assert change(browser, keep_apps="yes").status == 200
    assert is_revoked(clinic, grant_id) == [False]


def test_refused_change_of_the_password_changes_nothing(clinic, browser, patient):
    elsewhere, before = Browser(clinic).resume(patient), browser.cookie()
    for old, new, again, status in (
        ("wrong", A_PASSWORD, A_PASSWORD, 403),
        ("", A_PASSWORD, A_PASSWORD, 403),
        (PASSWORD, A_PASSWORD, "else", 400),
        (PASSWORD, "short", "short", 400),
        (PASSWORD, PASSWORD, PASSWORD, 400),
    ):
        page = change(browser, old, new, again=again)
        assert (page.status, len(page.alerts)) == (status, 1), (old, new, again)
        fields = page.form_to("/password").fields
        assert [fields[name] for name in ("old", "password", "again")] == ["", "", ""]
    assert browser.cookie() == before
    assert elsewhere.get("/account").path == "/account"
    assert Browser(clinic).sign_in(patient, PASSWORD).path == "/account"


def test_wrong_old_passwords_are_counted_with_failed_sign_ins(clinic, browser, patient):
    for _ in range(PER_NAME_AND_ADDRESS - 1):
        assert change(browser, "wrong").status == 403
    assert Browser(clinic, browser.address).sign_in(patient, "wrong").status == 403
    page = change(browser)
    assert page.status == 429
    assert 800 < int(page.headers["Retry-After"]) <= 900
    assert Browser(clinic, browser.address).sign_in(patient).status == 429
    # Who knows the old password has all tries again.
    browser = Browser(clinic).resume(add_person(clinic, PATIENT))
    for password, status in (("wrong", 403), (PASSWORD, 200), ("wrong", 403)):
        for _ in range(1 if status == 200 else PER_NAME_AND_ADDRESS - 1):
            assert change(browser, password).status == status


def test_other_sessions_are_listed_and_ended(clinic, browser, patient):
    others = [Browser(clinic).resume(patient) for _ in range(2)]

    def count() -> int:
        return [other.get("/account").path for other in others].count("/account")

    page = browser.get("/account/sessions")
    assert page.buttons.count("End session") == 2
    stranger = Browser(clinic).resume(add_person(clinic, PATIENT))
    with clinic.app_context():
        own = Session.user_id == id_of(clinic, patient)
        session_ids = db.session.scalars(select(Session.id).where(own)).all()
    for session_id in session_ids:
        refused = stranger.post_with_token("/account/sessions/end", session=session_id)
        assert refused.status == 404
    assert count() == 2
    page.submit("End session")
    assert count() == 1
    browser.get("/account/sessions").submit("Sign out everywhere else")
    assert count() == 0
    assert browser.get("/account").path == "/account"
