"""The administrator's page of people: added, linked to records, switched off. Issue 4."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import func, insert, select

from fhirapp.audit.read import ADMINISTRATION, Entry, entries
from fhirapp.auth.clients.overview import MOST_USERS
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, User, UserPatient
from fhirapp.auth.users import accounts, sign_in
from fhirapp.auth.users.sign_in import PER_NAME_AND_ADDRESS
from fhirapp.db import writing
from tests.auth.test_related_persons import related
from tests.support.authorizing import Flow, add_program, alter, rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person, id_of
from tests.support.contract import publish
from tests.support.helpers import BASE_URL

ACTIONS = ("role", "disable", "enable", "practitioner", "link", "unlink")
ACTIONS += ("second-factor", "sessions", "address")
CHOSEN = "correct horse battery"
LAST = "This is the last administrator. Add another one first."


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app whose users these tests change."""
    return make_app()


@pytest.fixture(scope="module")
def admin(app: Flask) -> Browser:
    browser = Browser(app)
    browser.sign_in(add_person(app, ADMINISTRATOR))
    return browser


def user_of(app: Flask, username: str) -> User:
    ((found,),) = rows(app, select(User).where(User.username == username))
    return found


def page_of(app: Flask, admin: Browser, username: str) -> Page:
    return admin.get(f"/admin/users/{user_of(app, username).id}")


def links_of(app: Flask, username: str) -> dict[str, bool]:
    """Return the linked records, with whether each is the user's own."""
    found = select(UserPatient.patient_id, UserPatient.is_self).where(
        UserPatient.user_id == user_of(app, username).id
    )
    return {row.patient_id: row.is_self for row in rows(app, found)}


def signed_in(app: Flask, username: str, password: str = PASSWORD) -> Browser:
    browser = Browser(app)
    browser.sign_in(username, password)
    return browser


def is_signed_in(browser: Browser) -> bool:
    return browser.get("/account").heading != "Sign in"


@pytest.mark.parametrize("role", [CLINICIAN, PATIENT])
def test_others_than_administrators_see_and_do_nothing(app, role):
    username = add_person(app, CLINICIAN)
    path = f"/admin/users/{user_of(app, username).id}"
    browser = signed_in(app, add_person(app, role))
    form = {"form_token": _token(browser.get("/account")), "role": ADMINISTRATOR}
    form |= {"name": "X", "username": f"u{uuid4().hex}"}
    for page in ("/admin/users", "/admin/users/new", path):
        assert browser.get(page).status == 403
    for action in ACTIONS:
        assert browser.post(f"{path}/{action}", form).status == 403
    assert browser.post("/admin/users/new", form).status == 403
    found = user_of(app, username)
    assert (found.role, found.disabled) == (CLINICIAN, False)
    assert rows(app, select(User).where(User.username == form["username"])) == []


def test_whoever_is_not_signed_in_signs_in_first(app):
    username = add_person(app, CLINICIAN)
    path = f"/admin/users/{user_of(app, username).id}"
    stranger = Browser(app)
    form = {"form_token": _token(stranger.get("/sign-in"))}
    for page in ("/admin/users", "/admin/users/new", path):
        assert stranger.get(page).heading == "Sign in"
    for action in ACTIONS:
        assert stranger.post(f"{path}/{action}", form).heading == "Sign in"
    assert not user_of(app, username).disabled


@pytest.mark.parametrize("action", ACTIONS)
def test_a_form_of_another_site_does_nothing(app, admin, action):
    path = f"/admin/users/{user_of(app, add_person(app, PATIENT, 'p1')).id}/{action}"
    form = {"form_token": "x", "role": ADMINISTRATOR, "patient": "p2", "whose": "own"}
    assert admin.post(path, form).status == 400


def test_a_user_is_found_by_name_user_name_and_role(app, admin):
    name = f"Zoë {uuid4().hex}"
    nurse = add_person(app, CLINICIAN, name=name)
    patient = add_person(app, PATIENT, name=name)
    page = admin.get("/admin/users").submit("Search", name=name[4:])
    assert nurse in page.words
    assert patient in page.words
    page = page.submit("Search", role=PATIENT)
    assert nurse not in page.words
    assert patient in page.words
    assert nurse in admin.get("/admin/users").submit("Search", name=nurse[:12].upper()).words


@pytest.mark.parametrize("typed", ["%", "_", "\\", "'", "\0", "nobody-at-all", "é" * 300])
def test_what_stands_in_no_name_finds_nobody(admin, typed):
    page = admin.get("/admin/users", query_string={"name": typed})
    assert page.status == 200
    assert "No matching users." in page.words


def test_a_role_that_is_none_is_left_out(admin):
    page = admin.get("/admin/users", query_string={"role": "god"})
    assert "Alex Admin" in page.words


def test_of_many_users_the_first_are_listed(app, admin):
    name = uuid4().hex
    row = {"name": name, "role": CLINICIAN, "password_hash": "", "created_at": 1}
    names = [f"{name}{number:03}" for number in range(MOST_USERS + 1)]
    alter(app, insert(User).values([row | {"id": one, "username": one} for one in names]))
    page = admin.get("/admin/users").submit("Search", name=name)
    assert f"{name}{MOST_USERS - 1:03}" in page.words
    assert f"{name}{MOST_USERS:03}" not in page.words
    assert "More users match." in page.words


def test_whoever_is_added_chooses_the_password_at_an_address_that_serves_once(app, admin):
    username = f"u{uuid4().hex}"
    page = admin.get(admin.get("/admin/users").links["Add a user"])
    assert "password" not in page.form("Add user").fields
    page = page.submit(
        "Add user", name="Noor Example", username=f" {username.upper()} ", role=PATIENT
    )
    assert page.heading == "Password link for Noor Example"
    path = _address(page)
    assert path not in admin.get(page.links["I have copied it"]).words
    newcomer = Browser(app)
    chosen = newcomer.get(path)
    assert chosen.heading == "Choose a password, Noor Example"
    chosen.submit("Save password", password=CHOSEN, again=CHOSEN)
    assert newcomer.get(path).status == 404
    assert is_signed_in(signed_in(app, username, CHOSEN))
    assert user_of(app, username).role == PATIENT


@pytest.mark.parametrize(
    ("typed", "message"),
    [
        ({"username": "x"}, "A user name must have 2 to 64"),
        ({"username": "a b"}, "A user name must have 2 to 64"),
        ({"username": "ad\nmin"}, "A user name must have 2 to 64"),
        ({"username": "admin"}, "The user admin already exists."),
        ({"username": " ADMIN "}, "The user admin already exists."),
        ({"name": ""}, "A name must have 1 to 200 printable characters."),
        ({"name": "a\u202eb"}, "A name must have 1 to 200 printable characters."),
        ({"role": "god"}, "A role must be one of clinician, administrator, patient."),
    ],
)
def test_whoever_cannot_be_added_is_told_and_stays_as_typed(app, admin, typed, message):
    form = {"name": "Noor Example", "username": "noor", "role": CLINICIAN} | typed
    page = admin.get("/admin/users/new").submit("Add user", **form)
    assert page.status == 400
    assert message in page.words
    fields = page.form("Add user").fields
    assert fields["name"] == form["name"]
    assert fields["username"] == form["username"]
    assert rows(app, select(User).where(User.username == "noor")) == []


def test_a_new_address_voids_the_one_before_and_the_password_serves_until_then(app, admin):
    username = add_person(app, CLINICIAN)
    page = page_of(app, admin, username)
    first = _address(page.submit("Create link"))
    second = _address(page.submit("Create link"))
    assert Browser(app).get(first).status == 404
    assert is_signed_in(signed_in(app, username))
    Browser(app).get(second).submit("Save password", password=CHOSEN, again=CHOSEN)
    assert not is_signed_in(signed_in(app, username))
    assert is_signed_in(signed_in(app, username, CHOSEN))


def test_whoever_failed_to_sign_in_is_told_of_and_comes_in_by_a_new_password(app, admin):
    username = add_person(app, CLINICIAN)
    assert "Failed sign-ins" not in page_of(app, admin, username).words
    browser = Browser(app, "203.0.113.8")
    browser.sign_in(username, "wrong")
    assert "1 wrong password After" in page_of(app, admin, username).words
    for _ in range(PER_NAME_AND_ADDRESS - 1):
        browser.sign_in(username, "wrong")
    assert browser.sign_in(username).status == 429
    page = page_of(app, admin, username)
    assert f"{PER_NAME_AND_ADDRESS} wrong passwords" in page.words
    browser.get(_address(page.submit("Create link"))).submit(
        "Save password", password=CHOSEN, again=CHOSEN
    )
    assert is_signed_in(browser) is False
    browser.sign_in(username, CHOSEN)
    assert is_signed_in(browser)
    # Elsewhere they are counted still.
    assert f"{PER_NAME_AND_ADDRESS} wrong passwords" in page_of(app, admin, username).words


def test_another_role_holds_at_once(app, admin):
    username = add_person(app, CLINICIAN)
    browser = signed_in(app, username)
    flow = Flow(app, add_program(app), user_of(app, username).id)
    fhir = flow.fhir("user/*.rs")
    assert fhir.get("Patient").status_code == 200
    page = page_of(app, admin, username).submit("Change role", role=PATIENT)
    assert "Role changed. It applies immediately." in page.words
    assert not is_signed_in(browser)
    assert fhir.get("Patient").status_code == 401


def test_apps_keep_their_access_where_the_administrator_says_so(app, admin):
    username = add_person(app, CLINICIAN)
    fhir = Flow(app, add_program(app), user_of(app, username).id).fhir("user/*.rs")
    page_of(app, admin, username).submit("Change role", role=PATIENT, keep_apps="yes")
    # It may ask still, for what a patient sees.
    assert fhir.get("Patient").status_code == 403


def test_one_session_of_a_person_is_ended(app, admin):
    username = add_person(app, CLINICIAN)
    first, second = signed_in(app, username), signed_in(app, username)
    page = page_of(app, admin, username)
    page.submit("End session")
    assert [is_signed_in(first), is_signed_in(second)].count(True) == 1


@pytest.mark.parametrize(
    ("action", "sent"),
    [
        ("role", {"role": PATIENT}),
        ("enable", {}),
        ("sessions", {}),
        ("sessions", {"session": "nonsense"}),
        ("second-factor", {}),
        ("link", {"patient": "p1", "whose": "own"}),
        ("unlink", {"patient": "p2"}),
        ("practitioner", {"fhir_user": ""}),
    ],
)
def test_a_form_that_changes_nothing_says_so_and_is_not_in_the_trail(app, admin, action, sent):
    username = add_person(app, PATIENT, "p1")
    page = page_of(app, admin, username)
    before, written = user_of(app, username), events(app, username)
    form = {"form_token": _token(page), **sent}
    done = admin.post(f"/admin/users/{before.id}/{action}", form)
    assert "Nothing was changed." in done.words
    assert events(app, username) == written
    assert links_of(app, username) == {"p1": True}


def test_what_was_done_already_is_not_done_again(app, admin):
    username = add_person(app, CLINICIAN)
    page = page_of(app, admin, username)
    form = {"form_token": _token(page), "fhir_user": "Practitioner/x"}
    path = f"/admin/users/{user_of(app, username).id}"
    for action in ("disable", "practitioner"):
        assert "Nothing was changed." not in admin.post(f"{path}/{action}", form).words
        written = events(app, username)
        assert "Nothing was changed." in admin.post(f"{path}/{action}", form).words
        assert events(app, username) == written


def events(app: Flask, username: str) -> list[Entry]:
    """Return what happened to an account."""
    about = f"user/{id_of(app, username)}"
    with app.app_context():
        return [*entries(kind=ADMINISTRATION, about=about)]


def test_sessions_are_told_with_their_last_use_and_ended_one_by_one(app, admin):
    username = add_person(app, CLINICIAN)
    page = page_of(app, admin, username)
    assert "Sessions No active sessions." in page.words
    browser = Browser(app, "203.0.113.9")
    browser.sign_in(username)
    page = page_of(app, admin, username)
    assert re.search(r"from 203\.0\.113\.9 · signed in .* · last used ", page.words)
    done = page.submit("End session")
    assert "Signed out." in done.words
    assert not is_signed_in(browser)
    # The page that was open in another window.
    assert "Nothing was changed." in page.submit("End session").words
    assert sum(one.event == "sessions-ended" for one in events(app, username)) == 1


def test_the_history_of_an_account_is_told_the_newest_first_and_paged(app, admin):
    username = add_person(app, CLINICIAN)
    signed_in(app, username, "wrong")
    signed_in(app, username)
    page = page_of(app, admin, username).submit("Change role", role=PATIENT)
    words = page.words[page.words.index("Account history") :]
    told = [
        "changed a role: clinician to patient",
        "ended sessions: all, and every app's access",
        "Robin Example signed in",
        "Unknown user tried to sign in",
    ]
    places = [words.index(one) for one in told]
    assert places == sorted(places)
    with app.app_context(), writing() as connection:
        for number in range(25):
            accounts.set_fhir_user(connection, id_of(app, username), f"Practitioner/x{number}")
    page = page_of(app, admin, username)
    assert ("Practitioner/x24" in page.words, "Practitioner/x0" in page.words) == (True, False)
    older = admin.get(page.links["Older"])
    assert ("Practitioner/x24" in older.words, "changed a role" in older.words) == (False, True)
    assert "Practitioner/x24" in admin.get(older.links["Newest"]).words


def test_a_role_that_is_none_is_told(app, admin):
    page = page_of(app, admin, add_person(app, CLINICIAN)).submit("Change role", role="god")
    assert page.status == 409
    assert "A role must be one of clinician, administrator, patient." in page.words


def test_an_account_that_is_switched_off_opens_nothing_until_it_is_switched_on(app, admin):
    username = add_person(app, PATIENT, "p1")
    browser = signed_in(app, username)
    flow = Flow(app, add_program(app), user_of(app, username).id)
    fhir = flow.fhir("launch/patient patient/*.rs")
    page = page_of(app, admin, username).submit("Disable")
    assert "The account is disabled" in page.words
    assert not is_signed_in(browser)
    assert not is_signed_in(signed_in(app, username))
    assert fhir.get("Patient/p1").status_code == 401
    page = page.submit("Enable")
    assert "The account is enabled again." in page.words
    assert is_signed_in(signed_in(app, username))


def test_the_last_administrator_stays(make_app):
    app = make_app()
    admin = signed_in(app, "admin")
    page = page_of(app, admin, "admin")
    for button, filled in (("Disable", {}), ("Change role", {"role": CLINICIAN})):
        told = page.submit(button, **filled)
        assert told.status == 409
        assert told.heading == "Alex Admin"
        assert LAST in told.words
    found = user_of(app, "admin")
    assert (found.role, found.disabled) == (ADMINISTRATOR, False)
    assert is_signed_in(admin)
    add_person(app, ADMINISTRATOR)
    # The page after it asks whoever is no administrator any more to sign in.
    assert page.submit("Change role", role=CLINICIAN).heading == "Sign in"
    assert user_of(app, "admin").role == CLINICIAN


def test_a_record_is_searched_for_and_linked(app, admin):
    username = add_person(app, PATIENT)
    page = page_of(app, admin, username)
    assert "No record is linked, so this user cannot see any records." in page.words
    page = page.submit("Search", find="hartwell")
    assert "Amelia Rose Hartwell born 12 April 1958 · LGH-100237" in page.words
    page = page.submit("Link as own record")
    assert "Record linked." in page.words
    assert "LGH-100237 · own record" in page.words
    assert links_of(app, username) == {"p1": True}


@pytest.mark.parametrize(
    "written", ["Zurbriggen, Anna", "anna zurb", " zurbriggen,anna", "zurb , an"]
)
def test_somebody_is_found_however_the_name_is_written(app, admin, written):
    username = add_person(app, CLINICIAN, name="Anna Zurbriggen")
    page = admin.get("/admin/users", query_string={"name": written})
    assert username in page.words
    assert "patient" not in page.words.partition("Last signed in")[2]


def test_each_word_must_stand_in_the_name_or_the_user_name(app, admin):
    username = add_person(app, CLINICIAN, name="Anna Zurbriggen")
    for written, is_found in ((f"zurbriggen {username}", True), ("zurbriggen, berta", False)):
        page = admin.get("/admin/users", query_string={"name": written})
        assert (username in page.words.partition("Last signed in")[2]) is is_found


def test_a_proxy_sees_somebody_elses_record(app, admin):
    username = add_person(app, PATIENT, "p2")
    page = page_of(app, admin, username).submit("Search", find="amelia hart", born="1958-04-12")
    page = page.submit("Link as proxy")
    assert "linked as proxy" in page.words
    assert links_of(app, username) == {"p2": True, "p1": False}
    flow = Flow(app, add_program(app), user_of(app, username).id)
    assert (
        flow.fhir("launch/patient patient/*.rs", patient="p1").get("Patient/p1").status_code == 200
    )


def test_a_related_person_is_linked_as_who_they_are_while_that_is_so(make_app):
    app = make_app()
    browser = Browser(app)
    browser.sign_in(add_person(app, ADMINISTRATOR))
    username = add_person(app, PATIENT)
    page = page_of(app, browser, username).submit("Search", find="lindqvist")
    assert "gives access only while that RelatedPerson is active" in page.words
    page = page.submit("Link as Sara Lindqvist (mother)")
    assert "Record linked." in page.words
    assert "linked as proxy, as RelatedPerson Sara Lindqvist" in page.words
    assert links_of(app, username) == {"p3": False}
    flow = Flow(app, add_program(app), user_of(app, username).id)
    fhir = flow.fhir("launch/patient patient/*.rs")
    assert fhir.get("Patient/p3").status_code == 200
    ended = related(period={"end": "2025"})
    publish(app, ended, now="2026-02-01T00:00:00.000+00:00")
    page = page_of(app, browser, username)
    assert "No access now. The period of this RelatedPerson has ended." in page.words
    assert fhir.get("Patient/p3").status_code == 403
    own = signed_in(app, username)
    assert "Lindqvist" not in own.get("/account").words
    page = page.submit("Search", find="lindqvist")
    assert "Sara" not in page.words.partition("Find a record")[2]
    assert "as a related person" not in page.words


def test_a_link_by_a_related_person_of_somebody_else_is_refused(app, admin):
    username = add_person(app, PATIENT)
    page = page_of(app, admin, username).submit("Search", find="hartwell")
    page.form("Link as proxy").fields["related"] = "rp-lindqvist"
    page = page.submit("Link as proxy")
    assert page.status == 409
    assert "This RelatedPerson is not related to this patient." in page.words
    assert links_of(app, username) == {}


def test_there_is_one_own_record(app, admin):
    username = add_person(app, PATIENT, "p2")
    page = page_of(app, admin, username).submit("Search", find="hartwell")
    page.submit("Link as own record")
    assert links_of(app, username) == {"p2": False, "p1": True}


def test_what_is_unlinked_is_out_of_reach_at_once(app, admin):
    username = add_person(app, PATIENT, "p1")
    flow = Flow(app, add_program(app), user_of(app, username).id)
    fhir = flow.fhir("launch/patient patient/*.rs")
    assert fhir.get("Patient/p1").status_code == 200
    page = page_of(app, admin, username).submit("Unlink")
    assert "Record unlinked." in page.words
    assert links_of(app, username) == {}
    assert fhir.get("Patient/p1").status_code == 403


@pytest.mark.parametrize(
    ("search", "told"),
    [
        ({"find": "Nobodyatall"}, "No matching patients."),
        ({"born": "12.4.1958"}, "Enter the date as 1958-04-12, 1958-04 or 1958."),
        ({"find": "a,b|c$d\\e"}, "No matching patients."),
    ],
)
def test_a_search_that_finds_nobody_says_so(app, admin, search, told):
    page = page_of(app, admin, add_person(app, PATIENT)).submit("Search", **search)
    assert page.status == 200
    assert told in page.words


@pytest.mark.parametrize("patient_id", ["nobody", "", "../p1", "é", "p1 p2", "x" * 65])
def test_a_record_that_is_not_there_is_not_linked(app, admin, patient_id):
    username = add_person(app, PATIENT)
    page = page_of(app, admin, username)
    form = {"form_token": _token(page), "patient": patient_id, "whose": "own"}
    assert admin.post(f"{page.path}/link", form).status in (409, 413)
    assert links_of(app, username) == {}


def test_a_record_is_linked_to_a_patient_alone(app, admin):
    username = add_person(app, CLINICIAN)
    page = page_of(app, admin, username)
    form = {"form_token": _token(page), "patient": "p1", "whose": "own"}
    page = admin.post(f"{page.path}/link", form)
    assert page.status == 409
    assert "Only users with the role patient can be linked to a record." in page.words
    assert links_of(app, username) == {}


def test_a_record_that_is_linked_and_not_here_yet_is_told(app, admin):
    page = page_of(app, admin, add_person(app, PATIENT, "to-come"))
    assert "Patient/to-come no such record on this server yet · own record" in page.words


def test_who_a_clinician_is_in_the_records_is_told_by_name(app, admin):
    username = add_person(app, CLINICIAN)
    page = page_of(app, admin, username)
    page = page.submit("Save", fhir_user="Practitioner/dr-adeyemi")
    assert "Dr. Folake Adeyemi Practitioner/dr-adeyemi" in page.words
    assert user_of(app, username).fhir_user == "Practitioner/dr-adeyemi"
    page = page.submit("Save", fhir_user="Practitioner/somebody")
    assert "Name not known: record not on this server" in page.words
    page.submit("Save", fhir_user="")
    assert user_of(app, username).fhir_user is None


@pytest.mark.parametrize("typed", ["dr-adeyemi", "Patient/p1", "Practitioner/", "Practitioner/a b"])
def test_what_is_no_practitioner_is_told(app, admin, typed):
    username = add_person(app, CLINICIAN)
    page = page_of(app, admin, username).submit("Save", fhir_user=typed)
    assert page.status == 409
    assert "is not a Practitioner. Use Practitioner/<id>." in page.words
    assert user_of(app, username).fhir_user is None


def test_a_lost_second_factor_is_taken_away(app, admin):
    username = add_person(app, CLINICIAN)
    user_id = user_of(app, username).id
    with app.app_context(), writing() as connection:
        sign_in.enable(connection, user_id, sign_in.new_secret(), int(time.time()))
    assert Browser(app).sign_in(username).heading == "Enter your code"
    page = page_of(app, admin, username).submit("Remove second factor")
    assert "Second factor removed" in page.words
    assert "Second factor off" in page.words
    assert "Remove second factor" not in {label for form in page.forms for label in form.buttons}
    assert is_signed_in(signed_in(app, username))


def test_signing_out_everywhere_leaves_nobody_signed_in(app, admin):
    username = add_person(app, CLINICIAN)
    browsers = [signed_in(app, username) for _ in range(2)]
    page = page_of(app, admin, username)
    assert page.words.count("End session") == 2
    assert "Sessions a browser" in page.words or "Sessions Werkzeug" in page.words
    page = page.submit("Sign out everywhere")
    assert "Sessions No active sessions." in page.words
    assert not any(map(is_signed_in, browsers))
    assert is_signed_in(admin)


@pytest.mark.parametrize(
    "key", ["00000000-0000-4000-8000-000000000000", "nobody", "%00", "é", "new/x"]
)
def test_a_user_who_is_not_there_is_404(admin, key):
    assert admin.get(f"/admin/users/{key}").status == 404
    form = {"form_token": _token(admin.get("/admin/users/new"))}
    assert admin.post(f"/admin/users/{key}/disable", form).status == 404


def test_an_action_that_is_not_there_is_404(app, admin):
    page = page_of(app, admin, add_person(app, CLINICIAN))
    assert admin.post(f"{page.path}/nonsense", {"form_token": _token(page)}).status == 404


@pytest.mark.parametrize("done", ["<b>paid</b>", "You won", "\0", "é"])
def test_a_confirmation_is_one_of_ours(app, admin, done):
    page = page_of(app, admin, add_person(app, CLINICIAN))
    page = admin.get(page.path, query_string={"done": done})
    assert page.status == 200
    assert 'role="status"' not in page.response.text


def test_a_name_is_no_markup(app, admin):
    username = add_person(app, PATIENT, name="<script>alert(1)</script>")
    for page in (page_of(app, admin, username), admin.get("/admin/users?name=<script>")):
        assert "<script" not in page.response.text
        assert "<script>alert(1)</script>" in page.words


def test_nothing_is_added_twice_by_two_clicks(app, admin):
    username = f"u{uuid4().hex}"
    page = admin.get("/admin/users/new")
    page.submit("Add user", name="Noor Example", username=username)
    again = page.submit("Add user", name="Noor Example", username=username)
    assert f"The user {username} already exists." in again.words
    same = select(func.count()).where(User.username == username)
    assert rows(app, same) == [(1,)]


def _address(page: Page) -> str:
    """Return the path of the one-time address on a page."""
    found = re.search(rf"{BASE_URL}(/setup\?code=[A-Za-z0-9_-]{{43}})", page.words)
    assert found is not None, page.words
    assert page.headers["Cache-Control"] == "no-store"
    return found[1]


def _token(page: Page) -> str:
    return next(form.fields["form_token"] for form in page.forms if "form_token" in form.fields)
