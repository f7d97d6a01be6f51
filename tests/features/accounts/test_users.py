"""The administrator's pages of users: added, linked to records, disabled, signed out.

Who may open them is tested in tests/web/test_pages.py, what names, roles and passwords may be in
tests/auth/test_users.py.
"""

from __future__ import annotations

import re
import time
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import insert, select

from fhirapp.audit.entries import ADMINISTRATION, AuditEntry, entries
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User, UserPatient
from fhirapp.auth.users import accounts, second_factor
from fhirapp.auth.users.accounts import MOST_USERS
from fhirapp.auth.users.sign_in import PER_NAME_AND_ADDRESS
from fhirapp.db import writing
from tests.support.authorizing import Flow, add_program, alter, rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person, id_of
from tests.support.contract import publish
from tests.support.helpers import BASE_URL

CHOSEN = "correct horse battery"


def user_of(clinic: Flask, username: str) -> User:
    ((found,),) = rows(clinic, select(User).where(User.username == username))
    return found


def page_of(admin: Browser, username: str) -> Page:
    return admin.get(f"/admin/users/{id_of(admin.client.application, username)}")


def links_of(clinic: Flask, username: str) -> dict[str, bool]:
    """Return the linked records, with whether each is the user's own."""
    found = select(UserPatient).where(UserPatient.user_id == id_of(clinic, username))
    return {row.patient_id: row.is_self for (row,) in rows(clinic, found)}


def signed_in(clinic: Flask, username: str, password: str | None = None) -> Browser:
    """Return a browser after signing in, by the page where a password is given."""
    browser = Browser(clinic)
    if password is None:
        return browser.resume(username)
    browser.sign_in(username, password)
    return browser


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/account").path == "/account"


def events(clinic: Flask, username: str) -> list[AuditEntry]:
    """Return what happened to an account."""
    with clinic.app_context():
        return [*entries(kind=ADMINISTRATION, about=f"user/{id_of(clinic, username)}")]


def one_time_path(page: Page) -> str:
    """Return the path of the one-time address on a page."""
    found = re.search(rf"{BASE_URL}(/setup\?code=[A-Za-z0-9_-]{{43}})", page.words)
    assert found is not None, page.words
    assert page.headers["Cache-Control"] == "no-store"
    return found[1]


def choose_password(browser: Browser, path: str) -> None:
    browser.get(path).send("/setup", password=CHOSEN, again=CHOSEN)


def test_users_are_found_by_part_of_name_user_name_and_role(clinic, admin):
    word = f"Zurbriggen{uuid4().hex}"
    nurse = add_person(clinic, CLINICIAN, name=f"Anna Zoë {word}")
    patient = add_person(clinic, PATIENT, name=f"Berta {word}")
    found = {
        word.upper(): {nurse, patient},
        f"{word}, Anna": {nurse},
        f"anna zo {word[:12]}": {nurse},
        f"{word} {nurse}": {nurse},
        nurse[:12].upper(): {nurse},
        f"{word}, Clara": set(),
    }
    found |= {typed: set() for typed in ("%", "_", "\\", "'", "\0", "é" * 300)}
    pages = {typed: admin.get("/admin/users", query_string={"name": typed}) for typed in found}
    assert {
        typed: {name for name in (nurse, patient) if name in page.words}
        for typed, page in pages.items()
    } == found
    page = pages[word.upper()].send("/admin/users", role=PATIENT)
    assert (nurse in page.words, patient in page.words) == (False, True)
    # A role that does not exist is ignored.
    assert nurse in admin.get(f"/admin/users?role=god&name={nurse}").words


def test_user_list_is_cut_off_and_says_so(clinic, admin):
    name = uuid4().hex
    row = {"name": name, "role": CLINICIAN, "password_hash": "", "created_at": 1}
    names = [f"{name}{number:03}" for number in range(MOST_USERS + 1)]
    alter(clinic, insert(User).values([row | {"id": key, "username": key} for key in names]))
    page = admin.get(f"/admin/users?name={name}")
    assert [key in page.words for key in names[-2:]] == [True, False]
    assert "More users match" in page.words


def test_link_that_other_machines_cannot_open_is_said_to_be_such(make_app):
    app = make_app(base_url="")
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    filled = {"name": "Noor", "username": "noor", "role": PATIENT}
    page = admin.get("/admin/users/new").send("/new", **filled)
    assert "This link works only on the server's own machine" in page.words


def test_new_user_chooses_the_password_at_an_address_that_serves_once(clinic, admin):
    username = f"u{uuid4().hex}"
    form = admin.get("/admin/users/new")
    assert "password" not in form.form_to("/new").fields
    filled = {"name": "Noor Example", "username": f" {username.upper()} ", "role": PATIENT}
    page = form.send("/new", **filled)
    path = one_time_path(page)
    assert "only on the server's own machine" not in page.words
    assert path not in page_of(admin, username).words
    choose_password(Browser(clinic), path)
    assert Browser(clinic).get(path).status == 404
    assert is_signed_in(signed_in(clinic, username, CHOSEN))
    assert user_of(clinic, username).role == PATIENT
    # The same form again, and a role that does not exist.
    for again in (filled, filled | {"username": "noor", "role": "god"}):
        refused = form.send("/new", **again)
        assert (refused.status, len(refused.alerts)) == (400, 1)
        assert refused.form_to("/new").fields["username"] == again["username"]
    assert rows(clinic, select(User).where(User.username == "noor")) == []


def test_failed_sign_ins_are_shown_and_a_new_password_ends_the_wait(clinic, admin):
    username = add_person(clinic, CLINICIAN)
    told = f"{PER_NAME_AND_ADDRESS} wrong passwords"
    browser = Browser(clinic, "203.0.113.8")
    for _ in range(PER_NAME_AND_ADDRESS):
        assert told not in page_of(admin, username).words
        browser.sign_in(username, "wrong")
    assert browser.sign_in(username).status == 429
    page = page_of(admin, username)
    assert told in page.words
    choose_password(browser, one_time_path(page.send("/address")))
    browser.sign_in(username, CHOSEN)
    assert is_signed_in(browser)
    # Elsewhere they are counted still.
    assert told in page_of(admin, username).words


def test_each_form_of_a_user_changes_the_account(clinic, admin):
    """That it applies at once is tested in tests/auth/test_access_now.py."""
    clinician, patient = add_person(clinic, CLINICIAN), add_person(clinic, PATIENT, "p1", "p2")
    with clinic.app_context(), writing() as connection:
        second_factor.enable(
            connection, id_of(clinic, clinician), second_factor.new_secret(), int(time.time())
        )
    dr_adeyemi = "Practitioner/dr-adeyemi"
    for username, action, form, expected in (
        (clinician, "second-factor", {}, {"totp_secret": None}),
        (clinician, "practitioner", {"fhir_user": dr_adeyemi}, {"fhir_user": dr_adeyemi}),
        (clinician, "practitioner", {"fhir_user": ""}, {"fhir_user": None}),
        (clinician, "disable", {}, {"disabled": True}),
        (clinician, "enable", {}, {"disabled": False}),
        (clinician, "role", {"role": PATIENT}, {"role": PATIENT}),
        (patient, "unlink", {"patient": "p1"}, {"links": {"p2": False}}),
        (patient, "link", {"patient": "p3", "whose": "own"}, {"links": {"p2": False, "p3": True}}),
    ):
        page = admin.post_with_token(f"/admin/users/{id_of(clinic, username)}/{action}", **form)
        assert page.path.endswith(f"done={action}"), action
        assert len(page.confirmations) == 1
        found = {**vars(user_of(clinic, username)), "links": links_of(clinic, username)}
        assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("action", ["role", "sessions", "second-factor"])
def test_apps_keep_their_access_on_request(clinic, admin, action):
    statuses = []
    for kept in ({"keep_apps": "yes"}, {}):
        username = add_person(clinic, CLINICIAN)
        with clinic.app_context(), writing() as connection:
            second_factor.enable(connection, id_of(clinic, username), second_factor.new_secret(), 1)
        fhir = Flow(clinic, add_program(clinic), id_of(clinic, username)).fhir("user/*.rs")
        path = f"/admin/users/{id_of(clinic, username)}/{action}"
        admin.post_with_token(path, role=ADMINISTRATOR, **kept)
        statuses.append(fhir.get("Patient").status_code)
    assert statuses == [200, 401]


def test_forms_that_change_nothing_say_so_and_write_no_audit_entry(clinic, admin):
    patient, clinician = add_person(clinic, PATIENT, "p1"), add_person(clinic, CLINICIAN)
    once = [
        (clinician, "disable", {}),
        (clinician, "practitioner", {"fhir_user": "Practitioner/x"}),
    ]
    for username, action, form in once:
        path = f"/admin/users/{id_of(clinic, username)}/{action}"
        assert admin.post_with_token(path, **form).path.endswith(f"done={action}")
    without_effect = [
        *once,
        (patient, "role", {"role": PATIENT}),
        (patient, "enable", {}),
        (patient, "sessions", {}),
        (patient, "sessions", {"session": "nonsense"}),
        (patient, "second-factor", {}),
        (patient, "link", {"patient": "p1", "whose": "own"}),
        (patient, "unlink", {"patient": "p2"}),
        (patient, "practitioner", {"fhir_user": ""}),
    ]
    before = [events(clinic, name) for name in (patient, clinician)]
    for username, action, form in without_effect:
        path = f"/admin/users/{id_of(clinic, username)}/{action}"
        assert admin.post_with_token(path, **form).path.endswith("done=nothing"), action
    assert [events(clinic, name) for name in (patient, clinician)] == before
    assert links_of(clinic, patient) == {"p1": True}


def test_refused_changes_change_nothing(clinic, admin):
    clinician, patient = add_person(clinic, CLINICIAN), add_person(clinic, PATIENT)
    refusals = [
        (clinician, "role", {"role": "god"}, "role must be one of"),
        (clinician, "practitioner", {"fhir_user": "Patient/p1"}, "not a Practitioner"),
        (clinician, "link", {"patient": "p1", "whose": "own"}, "role patient"),
        (
            patient,
            "link",
            {"patient": "p1", "whose": "proxy", "related": "rp-lindqvist"},
            "not relat",
        ),
        *(
            (patient, "link", {"patient": patient_id, "whose": "own"}, "does not exist")
            for patient_id in ("nobody", "", "../p1", "é", "p1 p2")
        ),
    ]
    for username, action, form, words in refusals:
        page = admin.post_with_token(f"/admin/users/{id_of(clinic, username)}/{action}", **form)
        assert (page.status, len(page.alerts)) == (409, 1), (action, form)
        assert words in page.alerts[0]
    found = user_of(clinic, clinician)
    assert (found.role, found.fhir_user) == (CLINICIAN, None)
    assert (links_of(clinic, clinician), links_of(clinic, patient)) == ({}, {})
    path = f"{page_of(admin, patient).path}/link"
    assert admin.post_with_token(path, patient="x" * 65, whose="own").status == 413


def test_sessions_are_listed_with_their_last_use_and_ended_singly_and_together(clinic, admin):
    username = add_person(clinic, CLINICIAN)
    assert "/sessions" not in page_of(admin, username).actions
    browser = Browser(clinic, "203.0.113.9")
    browser.sign_in(username)
    page = page_of(admin, username)
    assert re.search(r"from 203\.0\.113\.9 · signed in .* · last used ", page.words)
    assert page.send("/sessions").path.endswith("done=sessions")
    assert not is_signed_in(browser)
    # The page that was open in another window.
    assert page.send("/sessions").path.endswith("done=nothing")
    assert [entry.event for entry in events(clinic, username)].count("sessions-ended") == 1
    browsers = [signed_in(clinic, username) for _ in range(3)]
    page_of(admin, username).send("/sessions")
    assert [*map(is_signed_in, browsers)].count(True) == 2
    page_of(admin, username).submit("Sign out everywhere")
    assert not any(map(is_signed_in, browsers))
    assert is_signed_in(admin)


def test_account_history_is_newest_first_and_paged(clinic, admin):
    username = add_person(clinic, CLINICIAN)
    signed_in(clinic, username, "wrong")
    signed_in(clinic, username, PASSWORD)
    page = page_of(admin, username).send("/role", role=PATIENT)
    words = page.words[page.words.index("Account history") :]
    told = ["clinician to patient", "ended sessions", "signed in", "tried to sign in"]
    places = [words.index(event) for event in told]
    assert places == sorted(places)
    with clinic.app_context(), writing() as connection:
        for number in range(25):
            accounts.set_fhir_user(connection, id_of(clinic, username), f"Practitioner/x{number}")
    page = page_of(admin, username)
    older = admin.get(page.links["Older"])
    newest = admin.get(older.links["Newest"])
    shown = [
        [word in found.words for word in ("x24", "x0", "clinician to patient")]
        for found in (page, older, newest)
    ]
    assert shown == [[True, False, False], [False, True, True], [True, False, False]]


def test_record_is_searched_for_and_linked_as_own_or_by_proxy(clinic, admin):
    username = add_person(clinic, PATIENT, "p2")
    assert "cannot see any records" in page_of(admin, add_person(clinic, PATIENT)).words
    page = page_of(admin, username).submit("Search", find="amelia hart 12.04.1958")
    assert re.search(r"Amelia Rose Hartwell born 12 April 1958 \(\d+\) · LGH-100237", page.words)
    page = page.send("/link", whose="proxy")
    assert page.path.endswith("done=link")
    assert links_of(clinic, username) == {"p2": True, "p1": False}
    # There is one own record.
    page.submit("Search", find="hartwell").send("/link", whose="own")
    assert links_of(clinic, username) == {"p2": False, "p1": True}


def test_related_person_is_linked_as_themselves_while_that_lasts(make_app):
    clinic = make_app()
    admin = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    username = add_person(clinic, PATIENT)
    page = page_of(admin, username).submit("Search", find="lindqvist")
    page = page.send("/link", related="rp-lindqvist")
    assert "linked as proxy, as RelatedPerson Sara Lindqvist" in page.words
    assert links_of(clinic, username) == {"p3": False}
    ended = {
        "resourceType": "RelatedPerson",
        "id": "rp-lindqvist",
        "active": True,
        "patient": {"reference": "Patient/p3"},
        "period": {"end": "2025"},
    }
    publish(clinic, ended, now="2026-02-01T00:00:00.000+00:00")
    page = page_of(admin, username)
    assert "No access now. The period of this RelatedPerson has ended." in page.words
    assert "Lindqvist" not in signed_in(clinic, username).get("/account").words
    form = page.submit("Search", find="lindqvist").form_to("/link")
    assert [name for name, _value in form.buttons.values()] == ["whose", "whose"]


def test_record_that_is_not_found_or_not_imported_yet_is_shown_as_such(clinic, admin):
    page = page_of(admin, add_person(clinic, PATIENT))
    assert "No matching patients" in page.submit("Search", find="Nobodyatall").words
    assert len(page.submit("Search", find="31.4.1958").alerts) == 1
    page = page_of(admin, add_person(clinic, PATIENT, "to-come"))
    assert "Patient/to-come no such record on this server yet · own record" in page.words


def test_practitioner_record_is_shown_by_name(clinic, admin):
    page = page_of(admin, add_person(clinic, CLINICIAN))
    page = page.send("/practitioner", fhir_user="Practitioner/dr-adeyemi")
    assert "Dr. Folake Adeyemi Practitioner/dr-adeyemi" in page.words
    page = page.send("/practitioner", fhir_user="Practitioner/somebody")
    assert "Name not known" in page.words
    assert admin.post_with_token(f"{page.path.partition('?')[0]}/nonsense").status == 404
    for key in ("00000000-0000-4000-8000-000000000000", "nobody", "%00"):
        assert admin.get(f"/admin/users/{key}").status == 404
        assert admin.post_with_token(f"/admin/users/{key}/disable").status == 404
