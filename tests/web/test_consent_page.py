"""The page that asks for consent, and the picker before it: what is shown is what is granted.

What can be offered is tested in test_consent.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import CLINICIAN, PATIENT, Grant
from tests.support.authorizing import REDIRECT, Flow, add_program, rows, set_client
from tests.support.browsing import Browser, Page, add_person, id_of
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
        mine = select(Grant).where(Grant.user_id == self.flow.user_id)
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
