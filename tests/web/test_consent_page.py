"""The page that asks for consent, and the picker before it: what is shown is what is granted.

What can be offered is tested in test_consent.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import CLINICIAN, PATIENT, Grant
from tests.support.authorizing import REDIRECT, Flow, add_program, rows, set_client
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.contract import delete, publish
from tests.support.helpers import BASE_URL

ALLOW = "Allow selected"
GOES_WITH = "The app learns this if you allow access to any part of this record, and not otherwise."
KNOWS = "Know which patient is selected"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users and clients of its own."""
    return make_app()


class Asked:
    """A person in front of the page, and the app that asks."""

    def __init__(self, app: Flask, role: str, *patients: str) -> None:
        self.username = add_person(app, role, *patients)
        self.browser = Browser(app).resume(self.username)
        self.flow = Flow(app, add_program(app), id_of(app, self.username))

    def page(self, scope: str, **changes: str) -> Page:
        """Return the first page that an authorization request leads to."""
        asked = self.flow.parameters(scope, **changes)
        return self.browser.get("/oauth/authorize", query_string=asked)

    def granted(self) -> Grant:
        """Return the one consent."""
        mine = select(Grant).where(Grant.client_id == self.flow.program.client_id)
        ((found,),) = rows(self.flow.app, mine)
        grant: Grant = found
        return grant


def ticks(page: Page) -> list[str]:
    """Return the scopes that have a tick that can be taken away."""
    return page.form(ALLOW).fields.getlist("scope")


def test_whose_record_it_is_goes_with_what_is_allowed_of_it(clinic):
    asked = Asked(clinic, PATIENT, "p1")
    page = asked.page("openid launch/patient patient/*.rs")
    assert ticks(page) == ["openid", "patient/*.rs"]
    assert f"{KNOWS} launch/patient {GOES_WITH}" in page.words
    page.submit(ALLOW)
    granted = asked.granted()
    assert (granted.scope, granted.patient_id) == ("openid launch/patient patient/*.rs", "p1")


def test_without_anything_of_the_record_the_app_does_not_learn_whose_it_is(clinic):
    asked = Asked(clinic, PATIENT, "p1")
    asked.page("openid launch/patient patient/*.rs").submit(ALLOW, scope=["openid"])
    granted = asked.granted()
    assert (granted.scope, granted.patient_id) == ("openid", None)


@pytest.mark.parametrize(
    ("ticked", "patient_id"), [(["openid"], None), (["openid", "launch/patient"], "p1")]
)
def test_where_nothing_of_the_record_is_asked_for_whose_it_is_has_a_tick(
    clinic, ticked, patient_id
):
    asked = Asked(clinic, PATIENT, "p1")
    page = asked.page("openid launch/patient")
    assert ticks(page) == ["openid", "launch/patient"]
    assert GOES_WITH not in page.words
    page.submit(ALLOW, scope=ticked)
    granted = asked.granted()
    assert (granted.scope, granted.patient_id) == (" ".join(ticked), patient_id)


def test_of_both_ways_to_know_the_patient_one_line_is_shown(clinic):
    asked = Asked(clinic, CLINICIAN)
    scope = "launch launch/patient patient/*.rs"
    page = asked.page(scope, launch=asked.flow.launch("p1"))
    assert ticks(page) == ["patient/*.rs"]
    assert f"{KNOWS} launch launch/patient {GOES_WITH}" in page.words
    page.submit(ALLOW)
    assert asked.granted().scope == scope


@pytest.mark.parametrize("is_ticked", [True, False])
def test_the_visit_that_an_app_is_started_for_has_a_tick(clinic, is_ticked):
    asked = Asked(clinic, CLINICIAN)
    launch = asked.flow.launch("p1", "enc-p1-2023-checkup")
    page = asked.page("launch launch/patient patient/*.rs", launch=launch)
    assert ticks(page) == ["launch", "patient/*.rs"]
    assert "Know the patient, visit and note that you launched it from launch" in page.words
    page.submit(ALLOW, scope=["launch", "patient/*.rs"] if is_ticked else ["patient/*.rs"])
    granted = asked.granted()
    assert granted.patient_id == "p1"
    assert granted.encounter_id == ("enc-p1-2023-checkup" if is_ticked else None)


@pytest.mark.parametrize("is_ticked", [True, False])
def test_a_visit_that_is_asked_for_apart_hangs_on_that_tick_alone(clinic, is_ticked):
    asked = Asked(clinic, CLINICIAN)
    launch = asked.flow.launch("p1", "enc-p1-2023-checkup")
    page = asked.page("launch launch/encounter patient/*.rs", launch=launch)
    assert ticks(page) == ["launch/encounter", "patient/*.rs"]
    also = ["launch/encounter"] if is_ticked else []
    page.submit(ALLOW, scope=["patient/*.rs", *also])
    assert asked.granted().encounter_id == ("enc-p1-2023-checkup" if is_ticked else None)


def test_a_patient_sees_which_record_is_the_own_one(clinic):
    asked = Asked(clinic, PATIENT, "p3", "p1")
    page = asked.page("launch/patient patient/*.rs")
    labels = [label for form in page.forms for label in form.buttons]
    (own,) = [label for label in labels if label.startswith("Noah Lindqvist")]
    assert own.endswith("· your own record")
    (proxy,) = [label for label in labels if label.startswith("Amelia Rose Hartwell")]
    assert proxy.endswith("· as proxy")
    page = page.submit(proxy)
    assert "Amelia Rose Hartwell, born 12 April 1958 · choose a different record" in page.words
    again = asked.browser.get(page.links["choose a different record"])
    assert again.heading == "Choose a patient record for An app"


def test_staff_see_nobodys_record_marked_as_their_own(clinic):
    page = (
        Asked(clinic, CLINICIAN).page("launch/patient patient/*.rs").submit("Search", name="hart")
    )
    assert "Amelia Rose Hartwell" in page.words
    assert "your own record" not in page.words
    assert "as proxy" not in page.words


@pytest.mark.parametrize(
    ("uri", "place"),
    [
        (REDIRECT, "app.example"),
        ("http://localhost:3000/back", "this device (localhost:3000)"),
        (f"{BASE_URL}/demo/app", "this server"),
    ],
)
def test_where_it_leads_is_told_as_among_the_connected_apps(clinic, uri, place):
    asked = Asked(clinic, PATIENT, "p1")
    set_client(clinic, asked.flow.program, redirect_uris=[uri])
    page = asked.page("patient/*.rs", redirect_uri=uri)
    assert f"sends you back to {place} ·" in page.words
    page.submit(ALLOW)
    assert f"sends you back to {place} Patient record" in asked.browser.get("/account/apps").words


VISITS = [
    "Consultation for treatment, 20 May 2025",
    "Follow-up encounter, 6 February 2024",
    "Hospital admission, 18 January 2024",
    "Emergency room admission, 18 January 2024",
    "Encounter for check up, 14 February 2023",
]
CHOOSE = "Choose a visit for An app"
WITHOUT = "Continue without a visit"
NOT_THIS = "You can't choose this visit for the app. Choose one of the visits on the page."


def offered(page: Page) -> list[str]:
    """Return the visits that can be chosen on a page, in order."""
    assert page.heading == CHOOSE
    return [
        label for form in page.forms for label, (name, value) in form.buttons.items() if value
        if name == "visit"
    ]  # fmt: skip


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


def test_a_patient_chooses_one_of_their_visits(clinic):
    asked = Asked(clinic, PATIENT, "p1")
    page = asked.page("openid launch/encounter patient/*.rs")
    assert offered(page) == VISITS
    assert "Patient record Amelia Rose Hartwell, born 12 April 1958" in page.words
    assert "choose a different record" not in page.links
    page = page.submit(VISITS[1])
    assert f"Visit {VISITS[1]} · choose a different visit" in page.words
    assert ticks(page) == ["openid", "launch/encounter", "patient/*.rs"]
    page = asked.browser.get(page.links["choose a different visit"]).submit(VISITS[0])
    page.submit(ALLOW)
    granted = asked.granted()
    assert granted.scope == "openid launch/encounter patient/*.rs"
    assert (granted.patient_id, granted.encounter_id) == ("p1", "enc-p1-2025-allergy")


def test_staff_choose_a_patient_and_then_a_visit(clinic):
    asked = Asked(clinic, CLINICIAN)
    page = asked.page("openid launch/encounter")
    assert page.heading == "Choose a patient record for An app"
    page = page.submit("Search", name="hartwell amelia")
    page = page.submit("Amelia Rose Hartwell born 12 April 1958 · LGH-100237")
    assert offered(page) == VISITS
    page.submit(VISITS[4]).submit(ALLOW)
    granted = asked.granted()
    assert granted.scope == "openid launch/encounter"
    assert (granted.patient_id, granted.encounter_id) == ("p1", "enc-p1-2023-checkup")


def test_of_another_patient_other_visits_are_shown(clinic):
    asked = Asked(clinic, PATIENT, "p1", "p8")
    page = asked.page("launch/encounter patient/*.rs")
    proxy = next(label for form in page.forms for label in form.buttons if "as proxy" in label)
    page = page.submit(proxy).submit("Telemedicine consultation with patient, 15 July 2025")
    assert "Telemedicine consultation" in page.words
    page = asked.browser.get(page.links["choose a different record"])
    own = next(label for form in page.forms for label in form.buttons if "your own" in label)
    assert offered(page.submit(own)) == VISITS


def test_in_a_record_without_visits_the_app_can_go_on_without(clinic):
    asked = Asked(clinic, PATIENT, "p14")
    page = asked.page("launch/encounter patient/*.rs")
    assert offered(page) == []
    assert "There are no visits to choose in this record." in page.words
    page = page.submit(WITHOUT)
    assert "Visit No visit · choose a visit" in page.words
    assert ticks(page) == ["patient/*.rs"]
    assert asked.browser.get(page.links["choose a visit"]).heading == CHOOSE
    page.submit(ALLOW)
    granted = asked.granted()
    assert (granted.scope, granted.patient_id) == ("patient/*.rs", "p14")
    assert granted.encounter_id is None


def test_cancelled_visits_and_those_that_are_none_cannot_be_chosen(clinic):
    publish(
        clinic,
        visit("kept", "p11", "2024-03-05"),
        visit("cancelled", "p11", "2024-03-06", status="cancelled"),
        visit("mistaken", "p11", "2024-03-07", status="entered-in-error"),
        now="2026-02-01T00:00:00.000+00:00",
    )
    asked = Asked(clinic, PATIENT, "p11")
    page = asked.page("launch/encounter patient/*.rs")
    assert offered(page) == ["Visit kept, 5 March 2024"]
    for visit_id in ("cancelled", "mistaken"):
        assert_refused(choose(asked, page, visit_id))


def test_the_latest_visits_are_shown_and_older_ones_page_by_page(clinic):
    publish(
        clinic,
        *(visit(f"many{n}", "p10", f"20{n}-05-01T09:00:00Z") for n in range(40, 90)),
        now="2026-02-01T00:00:00.000+00:00",
    )
    asked = Asked(clinic, PATIENT, "p10")
    first = asked.page("launch/encounter patient/*.rs")
    assert offered(first)[::24] == ["Visit many89, 1 May 2089", "Visit many65, 1 May 2065"]
    assert "Newest" not in first.links
    second = asked.browser.get(first.links["Older"])
    assert offered(second)[::24] == ["Visit many64, 1 May 2064", "Visit many40, 1 May 2040"]
    last = asked.browser.get(second.links["Older"])
    assert len(offered(last)) == 1
    assert "Older" not in last.links
    assert offered(asked.browser.get(last.links["Newest"])) == offered(first)
    page = second.submit("Visit many50, 1 May 2050")
    assert "Visit many50, 1 May 2050 · choose a different visit" in page.words
    # Of another record, the address of a page is none.
    other = Asked(clinic, PATIENT, "p1")
    page = other.page("launch/encounter patient/*.rs")
    cursor = first.links["Older"].partition("?")[2]
    assert other.browser.get(f"{page.path}?{cursor}").status == 400


def choose(asked: Asked, page: Page, visit_id: str) -> Page:
    """Send a form in which somebody wrote another visit."""
    fields = {"form_token": page.form("Cancel").fields["form_token"], "visit": visit_id}
    return asked.browser.post(page.path, fields)


def assert_refused(page: Page) -> None:
    assert (page.status, NOT_THIS in page.words) == (403, True), page.words


@pytest.mark.parametrize("role", [PATIENT, CLINICIAN])
@pytest.mark.parametrize(
    "visit_id",
    [
        "enc-p2-2023-ed",
        "unknown",
        "enc-p1-2024-ed,enc-p2-2023-ed",
        "enc-p1-2024-ed&patient=p2",
        "Encounter/enc-p1-2024-ed",
        "*",
        "é",
    ],
)
def test_no_other_patients_visit_can_be_chosen(clinic, role, visit_id):
    asked = Asked(clinic, role, *(["p1"] if role == PATIENT else []))
    page = asked.page("openid launch/encounter")
    if role == CLINICIAN:
        page = page.submit("Search", name="hartwell amelia")
        page = page.submit("Amelia Rose Hartwell born 12 April 1958 · LGH-100237")
    assert_refused(choose(asked, page, visit_id))
    assert offered(asked.browser.get(page.path)) == VISITS


def test_a_visit_is_chosen_only_where_the_app_asks_for_one_and_the_patient_is_known(clinic):
    asked = Asked(clinic, PATIENT, "p1")
    page = asked.page("openid launch/patient")
    fields = {"form_token": page.form(ALLOW).fields["form_token"]}
    for chosen in ("enc-p1-2024-ed", ""):
        assert_refused(asked.browser.post(page.path, {**fields, "visit": chosen}))
    assert asked.browser.get(f"{page.path}?visit=other").heading.startswith("Allow An app")
    asked = Asked(clinic, CLINICIAN)
    page = asked.page("openid launch/encounter")
    assert_refused(choose(asked, page, "enc-p1-2024-ed"))
    # Started for a patient, and for no visit of theirs.
    asked = Asked(clinic, CLINICIAN)
    page = asked.page("launch launch/encounter user/*.rs", launch=asked.flow.launch("p1"))
    fields = {"form_token": page.form(ALLOW).fields["form_token"]}
    assert_refused(asked.browser.post(page.path, {**fields, "visit": "enc-p1-2024-ed"}))


def test_what_is_allowed_is_what_the_page_showed(clinic):
    asked = Asked(clinic, PATIENT, "p1")
    page = asked.page("openid launch/encounter")
    shown = page.submit(VISITS[0])
    # In another tab, another visit.
    page.submit(VISITS[1])
    again = shown.submit(ALLOW)
    assert again.location is None
    assert f"Visit {VISITS[1]} · choose a different visit" in again.words
    again.submit(ALLOW)
    assert asked.granted().encounter_id == "enc-p1-2024-followup"
    # It was answered: nothing is chosen any more.
    assert page.submit(VISITS[2]).status == 404


def test_a_visit_that_is_deleted_meanwhile_is_chosen_anew(clinic):
    publish(clinic, visit("gone", "p9", "2024"), now="2026-02-01T00:00:00.000+00:00")
    asked = Asked(clinic, PATIENT, "p9")
    shown = asked.page("openid launch/encounter").submit("Visit gone, 2024")
    assert "Visit gone, 2024 · choose a different visit" in shown.words
    delete(clinic, "Encounter", "gone", now="2026-02-02T00:00:00.000+00:00")
    page = shown.submit(ALLOW)
    assert "Visit gone, 2024" not in offered(page)
    page.submit(WITHOUT).submit(ALLOW)
    assert (asked.granted().scope, asked.granted().encounter_id) == ("openid", None)
