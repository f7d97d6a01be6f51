"""The page that asks for consent, and the pickers before it: what is shown is what is granted.

What can be offered is tested in tests/auth/test_consent.py.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.web.people import age_of
from tests.support.authorizing import REDIRECT, set_client
from tests.support.browsing import Page
from tests.support.consent_pages import Consent
from tests.support.contract import delete, publish
from tests.support.helpers import BASE_URL

CHECKUP = "enc-p1-2023-checkup"
AGE = age_of({"birthDate": "1958-04-12"}, datetime.now(UTC).date())
HARTWELL = f"Amelia Rose Hartwell born 12 April 1958 ({AGE}) · LGH-100237"
# What is said of a scope that has no tick of its own.
GOES_WITH = "The app learns this if you allow access to any part of this record, and not otherwise."


def allow(page: Page, **ticked: list[str]) -> Page:
    return page.submit("Allow selected", **ticked)


def ticks(page: Page) -> list[str]:
    """Return the scopes that have a tick that can be taken away."""
    return page.form("Allow selected").fields.getlist("scope")


def button_with(page: Page, words: str) -> str:
    (label,) = [label for label in page.buttons if words in label]
    return label


def test_patient_in_context_goes_with_what_is_allowed_of_the_record(clinic):
    known = f"Know which patient is selected launch/patient {GOES_WITH}"
    for scope, offered, ticked, granted in (
        ("openid launch/patient patient/*.rs", ["openid", "patient/*.rs"], None, "p1"),
        ("openid launch/patient patient/*.rs", ["openid", "patient/*.rs"], ["openid"], None),
        # Where nothing of the record is asked for, the patient has a tick.
        ("openid launch/patient", ["openid", "launch/patient"], None, "p1"),
        ("openid launch/patient", ["openid", "launch/patient"], ["openid"], None),
    ):
        consent = Consent(clinic, PATIENT, "p1")
        page = consent.page(scope)
        assert ticks(page) == offered
        assert (known in page.words) == ("patient/*.rs" in scope)
        allow(page, **({} if ticked is None else {"scope": ticked}))
        expected = scope if ticked is None else " ".join(ticked)
        assert consent.granted() == (expected, granted, None)


def test_visit_of_a_launch_has_a_tick(clinic):
    consent = Consent(clinic, CLINICIAN)
    launch = consent.flow.launch("p1", CHECKUP)
    page = consent.page("launch launch/patient patient/*.rs", launch=launch)
    assert ticks(page) == ["launch", "patient/*.rs"]
    assert f"launch launch/patient {GOES_WITH}" not in page.words
    allow(page, scope=["patient/*.rs"])
    assert consent.granted()[1:] == ("p1", None)


def test_patient_picker_marks_the_own_record_for_patients_alone(clinic):
    consent = Consent(clinic, PATIENT, "p3", "p1")
    page = consent.page("launch/patient patient/*.rs")
    assert button_with(page, "· your own record").startswith("Noah Lindqvist")
    proxy = button_with(page, "· as proxy")
    assert proxy.startswith("Amelia Rose Hartwell")
    page = page.submit(proxy)
    assert "Amelia Rose Hartwell, born 12 April 1958 · choose a different record" in page.words
    again = consent.browser.get(page.links["choose a different record"])
    assert proxy in again.buttons
    staff = Consent(clinic, CLINICIAN).page("launch/patient patient/*.rs")
    page = staff.submit("Search", name="hart")
    assert "Amelia Rose Hartwell" in page.words
    assert "your own record" not in page.words


def test_page_and_connected_apps_name_the_same_destination(clinic):
    for uri, place in (
        (REDIRECT, "app.example"),
        ("http://localhost:3000/back", "this device (localhost:3000)"),
        (f"{BASE_URL}/demo/app", "this server"),
    ):
        consent = Consent(clinic, PATIENT, "p1")
        set_client(clinic, consent.flow.program, redirect_uris=[uri])
        page = consent.page("patient/*.rs", redirect_uri=uri)
        assert f"sends you back to {place} ·" in page.words
        allow(page)
        words = consent.browser.get("/account/apps").words
        assert f"sends you back to {place} Patient record" in words


VISITS = [
    "Consultation for treatment, 20 May 2025",
    "Follow-up encounter, 6 February 2024",
    "Hospital admission, 18 January 2024",
    "Emergency room admission, 18 January 2024",
    "Encounter for check up, 14 February 2023",
]
WITHOUT = "Continue without a visit"
SCOPE = "launch/encounter patient/*.rs"


def offered(page: Page) -> list[str]:
    """Return the visits that can be chosen on a page, in order."""
    buttons = [button for form in page.forms for button in form.buttons.items()]
    assert WITHOUT in dict(buttons)
    return [label for label, (name, value) in buttons if name == "visit" and value]


def visit(visit_id: str, patient: str, start: str, **elements: Any) -> dict[str, Any]:
    return {
        "resourceType": "Encounter",
        "id": visit_id,
        "status": "finished",
        "class": {"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB"},
        "type": [{"text": f"Visit {visit_id}"}],
        "subject": {"reference": f"Patient/{patient}"},
        "period": {"start": start},
        **elements,
    }


def put(app: Flask, *visits: dict[str, Any]) -> None:
    publish(app, *visits, now="2026-02-01T00:00:00.000+00:00")


def test_patient_chooses_one_of_their_visits(clinic):
    consent = Consent(clinic, PATIENT, "p1")
    page = consent.page(f"openid {SCOPE}")
    assert offered(page) == VISITS
    assert "Patient record Amelia Rose Hartwell, born 12 April 1958" in page.words
    page = page.submit(VISITS[1])
    assert f"Visit {VISITS[1]} · choose a different visit" in page.words
    assert ticks(page) == ["openid", *SCOPE.split()]
    page = consent.browser.get(page.links["choose a different visit"]).submit(VISITS[0])
    allow(page)
    assert consent.granted() == (f"openid {SCOPE}", "p1", "enc-p1-2025-allergy")


def test_staff_choose_a_patient_and_then_a_visit(clinic):
    consent = Consent(clinic, CLINICIAN)
    page = consent.page("openid launch/encounter").submit("Search", name="hartwell amelia")
    assert [words for words in page.buttons if " born " in words] == [HARTWELL]
    page = page.submit(HARTWELL)
    assert offered(page) == VISITS
    allow(page.submit(VISITS[4]))
    assert consent.granted() == ("openid launch/encounter", "p1", CHECKUP)


def test_app_goes_on_without_a_visit(clinic):
    consent = Consent(clinic, PATIENT, "p14")
    page = consent.page(SCOPE)
    assert offered(page) == []
    assert "There are no visits to choose in this record." in page.words
    page = page.submit(WITHOUT)
    assert ticks(page) == ["patient/*.rs"]
    assert offered(consent.browser.get(page.links["choose a visit"])) == []
    allow(page)
    assert consent.granted() == ("patient/*.rs", "p14", None)


def test_latest_visits_are_shown_and_older_ones_page_by_page(clinic):
    put(clinic, *(visit(f"many{n}", "p10", f"20{n}-05-01T09:00:00Z") for n in range(40, 90)))
    consent = Consent(clinic, PATIENT, "p10")
    first = consent.page(SCOPE)
    assert offered(first)[::24] == ["Visit many89, 1 May 2089", "Visit many65, 1 May 2065"]
    assert "Newest" not in first.links
    second = consent.browser.get(first.links["Older"])
    assert offered(second)[::24] == ["Visit many64, 1 May 2064", "Visit many40, 1 May 2040"]
    last = consent.browser.get(second.links["Older"])
    assert (len(offered(last)), "Older" in last.links) == (1, False)
    assert offered(consent.browser.get(last.links["Newest"])) == offered(first)
    page = second.submit("Visit many50, 1 May 2050")
    assert "Visit many50, 1 May 2050 · choose a different visit" in page.words
    # A cursor of another record is refused.
    other = Consent(clinic, PATIENT, "p1")
    page, cursor = other.page(SCOPE), first.links["Older"].partition("?")[2]
    assert other.browser.get(f"{page.path}?{cursor}").status == 400


@pytest.mark.parametrize("role", [PATIENT, CLINICIAN])
def test_visit_of_another_patient_is_refused(clinic, role):
    consent = Consent(clinic, role, *(["p1"] if role == PATIENT else []))
    page = consent.page("openid launch/encounter")
    if role == CLINICIAN:
        # Before a patient is chosen, no visit is.
        assert consent.choose(page, "enc-p1-2024-ed").status == 403
        page = page.submit("Search", name="hartwell amelia").submit(HARTWELL)
    theirs, own = "enc-p2-2023-ed", "enc-p1-2024-ed"
    for visit_id in (theirs, "unknown", f"{own},{theirs}", f"{own}&patient=p2", "*", "é"):
        assert consent.choose(page, visit_id).status == 403, visit_id
    assert offered(consent.browser.get(page.path)) == VISITS


def test_visit_is_chosen_only_where_the_app_asks_for_one(clinic):
    consent = Consent(clinic, PATIENT, "p1")
    page = consent.page("openid launch/patient")
    for visit_id in ("enc-p1-2024-ed", ""):
        assert consent.choose(page, visit_id).status == 403
    # Launched for a patient, and for no visit of theirs.
    consent = Consent(clinic, CLINICIAN)
    launch = consent.flow.launch("p1")
    page = consent.page("launch launch/encounter user/*.rs", launch=launch)
    assert consent.choose(page, "enc-p1-2024-ed").status == 403


def test_cancelled_and_mistaken_visits_cannot_be_chosen(clinic):
    put(
        clinic,
        visit("kept", "p11", "2024-03-05"),
        visit("cancelled", "p11", "2024-03-06", status="cancelled"),
        visit("mistaken", "p11", "2024-03-07", status="entered-in-error"),
    )
    consent = Consent(clinic, PATIENT, "p11")
    page = consent.page(SCOPE)
    assert offered(page) == ["Visit kept, 5 March 2024"]
    assert {consent.choose(page, name).status for name in ("cancelled", "mistaken")} == {403}


def test_what_is_allowed_is_what_the_page_showed(clinic):
    consent = Consent(clinic, PATIENT, "p1")
    page = consent.page("openid launch/encounter")
    shown = page.submit(VISITS[0])
    # In another tab, another visit.
    page.submit(VISITS[1])
    again = allow(shown)
    assert again.location is None
    assert f"Visit {VISITS[1]} · choose a different visit" in again.words
    allow(again)
    assert consent.granted()[2] == "enc-p1-2024-followup"
    # It was answered: nothing is chosen any more.
    assert page.submit(VISITS[2]).status == 404


def test_deleted_visit_is_chosen_anew(clinic):
    put(clinic, visit("gone", "p9", "2024"))
    consent = Consent(clinic, PATIENT, "p9")
    shown = consent.page("openid launch/encounter").submit("Visit gone, 2024")
    delete(clinic, "Encounter", "gone", now="2026-02-02T00:00:00.000+00:00")
    page = allow(shown)
    assert "Visit gone, 2024" not in offered(page)
    allow(page.submit(WITHOUT))
    assert consent.granted()[::2] == ("openid", None)
