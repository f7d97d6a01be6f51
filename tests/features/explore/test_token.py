"""The page of the user's token; and requests as another person, which only a demo allows."""

from __future__ import annotations

import logging
import re
from urllib.parse import urlencode

from flask import Flask
from sqlalchemy import select, update

from fhirapp.auth.models import (
    ADMINISTRATOR,
    CLINICIAN,
    PATIENT,
    AccessToken,
    Client,
    Grant,
    User,
    digest,
)
from fhirapp.auth.users.accounts import unlink
from fhirapp.db import db, writing
from fhirapp.features.demo.accounts import PEOPLE
from fhirapp.features.explore.inspector import remaining
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.helpers import Fhir, token_for
from tests.support.pages import browser_of, elements, explorer_address, links, submit_to, texts

TOKEN = "/explore/token"


def secret_on(page: Page) -> str:
    """Return the token that a page shows."""
    return next((text for text in texts(page, "pre") if text), "")


def show(browser: Browser) -> str:
    return secret_on(submit_to(browser.get(TOKEN), TOKEN, ("show", "1")))


def inspect(browser: Browser, secret: str) -> Page:
    return submit_to(browser.get(TOKEN), TOKEN, token=secret)


def facts(page: Page) -> list[str]:
    """Return user, patient, expiry, scopes and effective scopes of a token."""
    return texts(page, "dd")


def reach(page: Page) -> dict[str, list[str]]:
    """Return what can be read and searched, by types."""
    rows = [texts(row, "td") for row in elements(page, "tr")[1:]]
    return {types: access for types, *access in rows}


def test_clinicians_token_gives_access_to_every_record(clinician):
    page = clinician.get(TOKEN)
    user, patient, *_ = facts(page)
    assert user == "Robin Example, clinician"
    assert patient.startswith("none")
    found = reach(page)
    types = "AllergyIntolerance, DiagnosticReport, DocumentReference, Encounter, Group, Patient"
    assert found[f"{types}, RelatedPerson"] == ["all", "all"]
    assert found["Binary"][0].startswith("only those attached to documents")
    assert "No access to" not in page.words


def test_patients_token_gives_access_to_one_record(clinic):
    browser = browser_of(clinic, PATIENT, "p1", "p2")
    page = browser.get(TOKEN)
    assert links(page, "/explore?") == ["/explore?address=/fhir/Patient/p1"]
    types = "DiagnosticReport, DocumentReference, Encounter, Patient, RelatedPerson"
    (own,) = [access for names, access in reach(page).items() if names.endswith(types)]
    assert own == ["only that of patient p1"] * 2
    assert "No access to: Group." in page.words
    fhir = Fhir(clinic, show(browser))
    assert (fhir.ids("Patient"), fhir.ids("Group")) == (["p1"], [])
    assert browser_of(clinic, PATIENT).get(TOKEN).status == 403


def test_scopes_of_an_unlinked_record_are_not_effective(clinic):
    username = add_person(clinic, PATIENT, "p1")
    browser = Browser(clinic).resume(username)
    secret = show(browser)
    user_id = id_of(clinic, username)
    with clinic.app_context(), writing() as connection:
        unlink(connection, user_id, "p1")
    form_token = browser.get("/account").form("Sign out").fields["form_token"]
    page = browser.post(TOKEN, {"form_token": form_token, "token": secret})
    assert facts(page)[4].startswith("none")
    assert "No access to: AllergyIntolerance, Binary," in page.words


def test_expiry_is_shown_and_how_long_it_lasts(clinician):
    lasts = {
        **dict.fromkeys((-5, 0), ""),
        59: "less than a minute",
        60: "1 minute",
        42 * 60 + 59: "42 minutes",
        7199: "119 minutes",
        7200: "2 hours",
        172_799: "47 hours",
        90 * 86_400: "90 days",
    }
    assert {seconds: remaining(seconds) for seconds in lasts} == lasts
    assert re.match(r"in \d+ minutes, on ", facts(clinician.get(TOKEN))[2])


def test_token_is_shown_on_request_alone_and_inspected_in_any_browser(clinic):
    username = add_person(clinic, CLINICIAN)
    browser = Browser(clinic).resume(username)
    assert secret_on(browser.get(TOKEN)) == ""
    secret = show(browser)
    assert Fhir(clinic, secret).ids("Patient?_id=p2") == ["p2"]
    page = inspect(Browser(clinic).resume(username), f"Bearer {secret} ")
    assert facts(page)[0] == "Robin Example, clinician"
    assert secret not in page.response.text + browser.get(TOKEN).response.text


def test_token_of_another_user_is_as_unknown_as_none(clinic, clinician):
    secrets = (
        show(browser_of(clinic, CLINICIAN)),
        token_for(clinic, "system/*.rs"),
        *("nonsense", "x" * 500, "é☃"),
    )
    pages = [inspect(clinician, secret) for secret in secrets]
    assert {page.status for page in pages} == {404}
    assert len({page.words for page in pages}) == 1
    assert inspect(browser_of(clinic, ADMINISTRATOR), show(clinician)).status == 404


def test_demo_inspects_any_token(demo):
    browser = Browser(demo).resume("patient")
    secret = token_for(demo, "system/AllergyIntolerance.rs?clinical-status=active")
    page = inspect(browser, secret)
    assert facts(page)[0] == "System (no user)"
    assert ["all, only where clinical-status is active"] * 2 in reach(page).values()
    assert "No access to: Binary, DiagnosticReport" in page.words


def test_expired_token_and_token_of_a_disabled_app_give_no_access(make_app):
    app = make_app(demo=True)
    browser = Browser(app).resume("patient")
    expired, disabled = (token_for(app, "system/*.rs") for _ in range(2))
    alter(
        app, update(AccessToken).where(AccessToken.digest == digest(expired)).values(expires_at=9)
    )
    page = inspect(browser, expired)
    assert texts(page, "p.notice") == ["It has expired. It gives no access."]
    assert facts(page)[2].startswith("expired on 1 January 1970")
    assert "No access to: AllergyIntolerance, Binary," in page.words
    alter(app, update(Client).where(Client.client_id == "operator").values(disabled=True))
    page = inspect(browser, disabled)
    assert texts(page, "p.notice") == ["Its app is disabled. It gives no access."]


def test_inspected_token_is_in_no_address_and_no_log(clinic, clinician, caplog):
    secret = token_for(clinic, "system/*.rs")
    with caplog.at_level(logging.DEBUG):
        page = inspect(clinician, secret)
    forms = clinician.get(TOKEN).forms
    assert {form.method for form in forms if form.action == TOKEN} == {"POST"}
    assert secret not in page.response.text
    assert secret not in caplog.text
    # A token in the address is not inspected.
    heading = clinician.get(TOKEN).heading
    assert clinician.get(f"{TOKEN}?token={show(clinician)}").heading == heading != page.heading


def test_token_page_needs_a_session_and_a_token(clinic, clinician):
    assert inspect(clinician, " Bearer ").status == 400
    assert Browser(clinic).get(TOKEN).path.startswith("/sign-in")
    assert Browser(clinic).post(TOKEN, {"show": "1"}).status == 400


def test_token_and_a_command_come_first_in_the_demo_without_being_asked(demo, clinician):
    browser = Browser(demo).resume("clinician")
    page = browser.get(TOKEN)
    assert texts(page, "h2")[0] == "The token itself"
    secret, command = texts(page, "pre")
    assert Fhir(demo, secret).get("Patient").status_code == 200
    assert command.startswith(f"export TOKEN={secret} curl ")
    assert texts(clinician.get(TOKEN), "pre") == []


# As another person.

MORPHINE = "/fhir/AllergyIntolerance/al-p2-morphine"


def reason(browser: Browser, username: str, reference: str = "al-p2-morphine") -> str:
    """Return why, asked as another person, a search does not find an allergy that is active."""
    address = "/fhir/AllergyIntolerance?clinical-status=resolved"
    query = {"address": address, "reference": reference, "as": username}
    page = browser.get(f"/explore/why?{urlencode(query)}")
    return texts(page, "ul.findings")[0].partition(" ")[0] if page.status == 200 else "404"


HIDDEN, SEEN = "This", "clinical-status"


def test_demo_runs_a_request_as_another_person(demo):
    patient, clinician = (Browser(demo).resume(name) for name in ("patient", "clinician"))
    as_patient = {name: reason(patient, name) for name in ("", "clinician", "admin")}
    assert as_patient == {"": HIDDEN, "clinician": SEEN, "admin": SEEN}
    assert (reason(clinician, ""), reason(clinician, "patient")) == (SEEN, HIDDEN)
    assert reason(clinician, "patient", "al-p1-latex") == SEEN
    # The session stays that of the user.
    assert reason(patient, "") == HIDDEN
    assert facts(patient.get(TOKEN))[0] == "Amelia Hartwell, patient"


def test_demo_runs_requests_as_its_own_people_alone(make_app):
    app = make_app(demo=True)
    alter(app, update(User).where(User.username == "admin").values(disabled=True))
    added = add_person(app, ADMINISTRATOR)
    browser = Browser(app).resume("patient")
    for username in ("nobody", "clinician'--", "Clinician", " clinician", "é☃", added, "admin"):
        assert reason(browser, username) == "404", username


def test_explorer_of_the_demo_keeps_person_and_address(demo):
    page = Browser(demo).resume("clinician").get(explorer_address(MORPHINE))
    found = []
    for username in (None, "patient", ""):
        if username is not None:
            page = submit_to(page, "/explore", **{"as": username, "address": MORPHINE})
            (choice,) = elements(page, "select", name="as")
            chosen = [
                option.get("value") for option in choice if option.get("selected") is not None
            ]
            assert chosen == ([username] if username else [])
        found.append(texts(page, "span.status")[0])
        assert "al-p2-morphine" in page.words
        assert len(elements(page, "p.run-as")) == bool(username)
    assert found == ["200 OK", "404 Not Found", "200 OK"]


def test_person_is_named_until_the_reader_sends_as_themselves(demo):
    browser = Browser(demo).resume("clinician")
    page = browser.get(explorer_address(MORPHINE, **{"as": "patient"}))
    banner = "You are sending requests as Amelia Hartwell, patient. Send as yourself"
    following = [
        page,
        browser.get(page.offered["Clear"]),
        browser.get(page.offered["JSON"]),
        browser.get(explorer_address("no address", **{"as": "patient"})),
    ]
    assert [texts(shown, "p.run-as") for shown in following] == [[banner]] * len(following)
    back = browser.get(page.offered["Send as yourself"])
    assert (texts(back, "p.run-as"), elements(back, "section", id="answer")) == ([], [])
    missing = {"address": "/fhir/AllergyIntolerance?code=x", "as": "patient"}
    why = browser.get(f"/explore/why?{urlencode(missing)}")
    assert texts(why, "p.run-as") == [banner.removesuffix(" Send as yourself")]


def test_comparison_is_offered_also_for_an_address_that_is_still_being_typed(demo):
    browser = Browser(demo).resume("clinician")
    for part, typed in (("form", {"address": MORPHINE}), ("address", {"type": "Patient"})):
        query = urlencode({**typed, "as": "patient"})
        page = browser.get(f"/explore/{part}?{query}", headers={"HX-Request": "true"})
        assert page.status == 200
        found = [link.get("href", "") for link in elements(page, "a")]
        (address,) = [link for link in found if link.startswith(COMPARE)]
        assert "as=patient" in address


COMPARE = "/explore/compare"


def compared(page: Page) -> list[list[str]]:
    """Return the rows of the comparison, with a heading before each."""
    (table,) = elements(page, "table.compared")
    return [
        ["".join(cell.itertext()).strip() for cell in row if cell.tag in ("td", "th")]
        for row in elements(table, "tr")
    ]


def test_demo_compares_what_people_get(demo):
    browser = Browser(demo).resume("clinician")
    address = "/fhir/AllergyIntolerance?_id=al-p1-latex,al-p2-morphine"
    explorer = browser.get(explorer_address(address))
    page = browser.get(explorer.offered["Compare people"])
    heading, status, found, *rows = compared(page)
    assert [name.partition(" ")[0] for name in heading] == ["Response", "Dr.", "Amelia", "Sara"]
    assert status[1:] == ["200 OK"] * 3
    assert found[1:] == ["2 matches", "1 match", "0 matches"]
    yes, no = "returned", "not returned"
    assert sorted(rows) == [
        ["AllergyIntolerance/al-p1-latex · Latex gloves", yes, yes, no],
        ["AllergyIntolerance/al-p2-morphine · Morphine", yes, no, no],
    ]
    page = submit_to(page, COMPARE, people=["patient", "admin"])
    assert compared(page)[2][1:] == ["2 matches", "1 match"]
    page = browser.get(f"{COMPARE}?address={MORPHINE}&people=clinician&people=patient")
    status = compared(page)[1]
    assert (status[1], status[2].startswith("404 Not Found")) == ("200 OK", True)


def test_resource_beyond_the_first_page_is_not_said_to_be_missing(demo):
    browser = Browser(demo).resume("clinician")
    people = [("people", "clinician"), ("people", "patient")]
    query = [("address", "/fhir/AllergyIntolerance?_count=1"), *people]
    page = browser.get(f"{COMPARE}?{urlencode(query)}")
    _, _, _, *rows = compared(page)
    assert {cell for row in rows for cell in row[1:]} == {"returned", "not on this page"}


def test_comparison_refuses_what_it_cannot_send(demo, clinic):
    browser = Browser(demo).resume("clinician")
    for query, status in (
        (f"address={MORPHINE}&people=patient", 400),
        (f"address={MORPHINE}&people=nobody&people=patient", 400),
        (f"address={MORPHINE}&people=admin&people=patient&people=parent&people=clinician", 400),
        ("address=/admin/users", 400),
        ("", 400),
    ):
        assert browser.get(f"{COMPARE}?{query}").status == status, query
    assert browser_of(clinic, CLINICIAN).get(f"{COMPARE}?address={MORPHINE}").status == 404


def owners_of_tokens(app: Flask) -> set[tuple[str, bytes]]:
    of_users = select(Grant.user_id, AccessToken.digest)
    rows = of_users.join(AccessToken, AccessToken.grant_id == Grant.id)
    with app.app_context():
        return {(user_id, key) for user_id, key in db.session.execute(rows)}


def test_no_request_is_run_as_another_person_outside_the_demo(clinic, demo):
    username, clinician = add_person(clinic, PATIENT, "p1"), add_person(clinic, CLINICIAN)
    browser = Browser(clinic).resume(username)
    before = owners_of_tokens(clinic)
    for other in (*(person.username for person in PEOPLE), clinician, "nobody", ""):
        assert reason(browser, other) == HIDDEN, other
        assert reason(browser, other, "al-p1-latex") == SEEN, other
    for path in ("/explore?view=raw&", "/explore/whole?", "/explore?method=post&"):
        for other in ("admin", clinician, f"{clinician}&as=clinician"):
            page = browser.get(f"{path}address={MORPHINE}&as={other}")
            assert "orphine" not in page.response.text.replace("al-p2-morphine", "")
    assert {user for user, _ in owners_of_tokens(clinic) - before} == {id_of(clinic, username)}
    page = Browser(clinic).resume(clinician).get(explorer_address(MORPHINE, **{"as": "patient"}))
    assert texts(page, "span.status") == ["200 OK"]
    assert elements(page, "select", name="as") == []
    page = Browser(demo).resume("patient").get(explorer_address(MORPHINE, **{"as": "clinician"}))
    assert "Morphine" in page.response.text
