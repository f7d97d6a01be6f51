"""The page that starts an app: for which patient, about which visit and note; the style for apps.

What comes of a launch at /oauth/authorize is tested in tests/auth/test_launches.py.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import select, update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Client, Launch, digest
from tests.support.authorizing import AUD, Flow, add_program, alter, parameters_of, rows, set_client
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.helpers import BASE_URL

APP = "https://app.example/launch"
VISIT, NOTE = "enc-p1-2023-checkup", "doc-p1-consult-2025"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users and one startable app of its own."""
    app = make_app()
    alter(app, update(Client).values(launch_uri=None))
    return app


@pytest.fixture(scope="module")
def program(clinic: Flask) -> str:
    """The id of an app that can be started."""
    return add(clinic, "Growth Chart")


@pytest.fixture
def clinician(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def add(app: Flask, name: str, launch_uri: str | None = APP, **values: object) -> str:
    """Register an app that can be started; return its id."""
    program = add_program(app)
    values = {"name": name, "launch_uri": launch_uri, "developer": "Riverside Apps"} | values
    set_client(app, program, **values)
    return program.client_id


def launches(app: Flask) -> list[Launch]:
    return [row for (row,) in rows(app, select(Launch))]


def start(browser: Browser, patient: str, client: str, **chosen: str) -> Page:
    """Start an app from the page for a patient."""
    return browser.get(f"/launch?patient={patient}").send("/launch", client=client, **chosen)


def launch_of(app: Flask, page: Page) -> Launch:
    """Return the launch that a page sends the browser to an app with."""
    told = parameters_of(page.location or "", APP)
    assert (told.keys(), told["iss"]) == ({"iss", "launch"}, AUD)
    (row,) = [row for row in launches(app) if row.digest == digest(told["launch"])]
    return row


def test_app_is_started_with_the_chosen_patient_and_visit(clinic, program, clinician):
    page = clinician.get("/launch").submit("Search", name="hart amel 1958")
    assert page.form("Search").fields["name"] == "hart amel 1958"
    (found,) = (path for words, path in page.links.items() if words.endswith("· LGH-100237"))
    page = clinician.get(found)
    assert "Born 12 April 1958 · LGH-100237" in page.words
    assert "Growth Chart By Riverside Apps · at app.example" in page.buttons
    page = page.send("/launch", client=program, encounter=VISIT)
    assert page.status == 303
    row = launch_of(clinic, page)
    assert (row.client_id, row.patient_id, row.encounter_id) == (program, "p1", VISIT)
    row = launch_of(clinic, start(clinician, "p2", program))
    assert (row.patient_id, row.encounter_id) == ("p2", None)


@pytest.mark.parametrize("ticks_all", [True, False])
def test_app_gets_the_context_that_was_chosen_and_allowed(clinic, ticks_all):
    """From the page to the token's context, as one user."""
    username = add_person(clinic, ADMINISTRATOR)
    flow = Flow(clinic, add_program(clinic), id_of(clinic, username))
    set_client(clinic, flow.program, launch_uri=APP)
    browser = Browser(clinic).resume(username)
    page = start(browser, "p1", flow.program.client_id, encounter=VISIT, document=NOTE)
    launch = parameters_of(page.location, APP)["launch"]
    scope = "launch launch/encounter user/*.rs patient/*.rs"
    page = browser.get("/oauth/authorize", query_string=flow.parameters(scope, launch=launch))
    ticked = scope.split() if ticks_all else ["patient/*.rs"]
    page = page.submit("Allow selected", scope=ticked)
    answer = flow.redeem(parameters_of(page.location)["code"]).get_json()
    context = [answer.get(name) for name in ("patient", "encounter", "fhirContext")]
    note = [{"reference": f"DocumentReference/{NOTE}"}]
    assert context == ["p1", VISIT if ticks_all else None, note if ticks_all else None]


def test_form_of_the_start_page_may_lead_to_another_site(clinician):
    """A browser holds a form's answer to the policy's form-action too."""
    paths = ("/launch", "/launch?patient=p1")
    policies = [clinician.get(path).headers["Content-Security-Policy"] for path in paths]
    assert ["form-action" in policy for policy in policies] == [True, False]


def test_only_apps_that_can_be_started_are_offered_and_started(clinic, program, clinician):
    other = add(clinic, "Another", "com.example.app:/launch")
    late = add(clinic, "For a Moment")
    page = clinician.get("/launch?patient=p1")
    before = len(launches(clinic))
    for values in ({"disabled": True}, {"approved_at": None}, {"launch_uri": None}):
        add(clinic, "Not Startable", **values)
        alter(clinic, update(Client).where(Client.client_id == late).values(**values))
        assert page.send("/launch", client=late).status == 404
    form = clinician.get("/launch?patient=p1").form_to("/launch")
    names = {label: client_id for label, (_, client_id) in form.buttons.items()}
    assert {name: names[name] for name in names if "Riverside" in name} == {
        "Another By Riverside Apps · at the app that opens com.example.app:": other,
        "Growth Chart By Riverside Apps · at app.example": program,
    }
    assert len(launches(clinic)) == before


def test_patient_visit_and_note_must_belong_together(clinic, program, clinician):
    before = len(launches(clinic))
    usual = {"patient": "p1", "client": program}
    for changes, status in (
        ({"patient": ""}, 404),
        ({"patient": "p99"}, 404),
        ({"client": "demo-backend"}, 404),
        ({"client": "unknown"}, 404),
        ({"encounter": "unknown"}, 404),
        # Another patient's.
        ({"document": "doc-p2-pathology-2023"}, 404),
        ({"encounter": "enc-p2-2023-ed"}, 404),
        ({"patient": "p1\0"}, 400),
        ({"patient": "p" * 65}, 413),
    ):
        page = clinician.post_with_token("/launch", **(usual | changes))
        assert (page.status, page.location) == (status, None), changes
    for patient in ("p99", "%00", "a" * 3000, "p1,p2"):
        assert clinician.get(f"/launch?patient={patient}").status == 404
    # A patient starts no apps.
    browser = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    for page in (browser.get("/launch?patient=p1"), browser.post_with_token("/launch", **usual)):
        assert (page.status, "Hartwell" in page.words) == (403, False)
    assert len(launches(clinic)) == before


def test_style_for_apps_is_for_every_origin(clinic):
    headers = {"Origin": "https://anywhere.example"}
    answer = clinic.test_client().get("/smart-style.json", base_url=BASE_URL, headers=headers)
    # SMART App Launch 2.2 §Styling: all that it names.
    assert set(answer.get_json()) == {
        *("color_background", "color_error", "color_highlight", "color_modal_backdrop"),
        *("color_success", "color_text", "dim_border_radius", "dim_font_size", "dim_spacing_size"),
        *("font_family_body", "font_family_heading"),
    }
    assert answer.content_type == "application/json"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Cache-Control"] == "public, max-age=3600"
    assert "Set-Cookie" not in answer.headers
    flow = Flow(clinic, add_program(clinic), id_of(clinic, add_person(clinic, CLINICIAN)))
    token = flow.tokens("launch patient/*.rs", launch=flow.launch("p1"))
    assert token["smart_style_url"] == f"{BASE_URL}/smart-style.json"


def test_opening_the_start_page_for_a_patient_counts_as_viewing_the_record(clinic, clinician):
    """The page shows their visits and notes."""
    clinician.get("/launch?patient=p3")
    patient = Browser(clinic).resume(add_person(clinic, PATIENT, "p3"))
    words = patient.get("/patients/p3/viewers").words
    for shown in ("Robin Example", "the app launch page", "visit"):
        assert shown in words
