"""Start an app from our own pages: for whom, about which visit, which app; and what apps look like.

What comes of a launch at /oauth/authorize is tested in test_launches.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import select, update

from fhirapp import web
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Client, Launch, digest
from tests.support.authorizing import AUD, Flow, add_program, alter, parameters_of, rows, set_client
from tests.support.browsing import Browser, Page, add_person, id_of
from tests.support.helpers import BASE_URL

APP = "https://app.example/launch"
NO_APP = "No app can be started from here yet."


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


def add(app: Flask, name: str, launch_uri: str = APP, **values: object) -> str:
    """Register an app that can be started; return its id."""
    one = add_program(app)
    values = {"name": name, "launch_uri": launch_uri, "developer": "Riverside Apps"} | values
    set_client(app, one, **values)
    return one.client_id


def launches(app: Flask) -> list[Launch]:
    return [row for (row,) in rows(app, select(Launch))]


def post(browser: Browser, **form: str) -> Page:
    """Start an app with a form that no page showed."""
    token = browser.get("/account").form("Sign out").fields["form_token"]
    return browser.post("/launch", {"form_token": token, **form})


def test_a_patient_a_visit_and_an_app_are_chosen(clinic, program, clinician):
    page = clinician.get("/launch").submit("Search", name="hart amel", born="1958")
    assert page.heading == "Choose a patient"
    page = clinician.get(page.links["Amelia Rose Hartwell born 12 April 1958 · LGH-100237"])
    assert page.heading == "Start an app for Amelia Rose Hartwell"
    assert "Born 12 April 1958 · LGH-100237" in page.words
    button = "Growth Chart By Riverside Apps · at app.example"
    page = page.submit(button, encounter="enc-p1-2023-checkup")
    assert page.status == 303
    told = parameters_of(page.location, APP)
    assert set(told) == {"iss", "launch"}
    assert told["iss"] == AUD
    (row,) = [one for one in launches(clinic) if one.digest == digest(told["launch"])]
    assert (row.client_id, row.patient_id, row.encounter_id) == (
        program,
        "p1",
        "enc-p1-2023-checkup",
    )


def test_without_a_visit_there_is_none_in_context(clinic, program, clinician):
    page = clinician.get("/launch?patient=p2").submit(
        "Growth Chart By Riverside Apps · at app.example"
    )
    launch = parameters_of(page.location, APP)["launch"]
    (row,) = [one for one in launches(clinic) if one.digest == digest(launch)]
    assert (row.patient_id, row.encounter_id) == ("p2", None)


@pytest.mark.parametrize("ticks_all", [True, False])
def test_the_app_gets_what_was_chosen_and_allowed(clinic, program, ticks_all):
    """From the page to the token's context, as one user."""
    username = add_person(clinic, ADMINISTRATOR)
    flow = Flow(clinic, add_program(clinic), id_of(clinic, username))
    name = f"Whole Way {flow.program.client_id}"
    set_client(clinic, flow.program, name=name, launch_uri=APP)
    browser = Browser(clinic).resume(username)
    page = browser.get("/launch?patient=p1").submit(
        f"{name} at app.example",
        encounter="enc-p1-2023-checkup",
        document="doc-p1-consult-2025",
    )
    launch = parameters_of(page.location, APP)["launch"]
    scope = "launch launch/encounter user/*.rs patient/*.rs"
    page = browser.get(
        "/oauth/authorize", query_string=flow.parameters(scope, launch=launch)
    ).submit("Allow selected", scope=scope.split() if ticks_all else ["patient/*.rs"])
    answer = flow.redeem(parameters_of(page.location)["code"]).get_json()
    context = {one: answer.get(one) for one in ("patient", "encounter", "fhirContext")}
    assert context == {
        "patient": "p1",
        "encounter": "enc-p1-2023-checkup" if ticks_all else None,
        "fhirContext": [{"reference": "DocumentReference/doc-p1-consult-2025"}]
        if ticks_all
        else None,
    }


def test_the_forms_answer_may_lead_to_another_site(clinician, program):
    """A browser holds a form's answer to the policy's form-action too."""
    policies = [
        clinician.get(path).headers["Content-Security-Policy"]
        for path in ("/launch", "/launch?patient=p1")
    ]
    assert ["form-action" in policy for policy in policies] == [True, False]


def test_only_apps_that_can_be_started_are_offered(clinic, program, clinician):
    add(clinic, "Disabled", disabled=True)
    add(clinic, "Waiting", approved_at=None)
    add(clinic, "Not Startable", launch_uri=None)
    add(clinic, "Another", "com.example.app:/launch")
    form = next(one for one in clinician.get("/launch?patient=p1").forms if one.action == "/launch")
    offered = [button for button in form.buttons if "Whole Way" not in button]
    assert offered == [
        "Another By Riverside Apps · at the app that opens com.example.app:",
        "Growth Chart By Riverside Apps · at app.example",
    ]


@pytest.mark.parametrize(
    "values", [{"disabled": True}, {"approved_at": None}, {"launch_uri": None}]
)
def test_an_app_that_cannot_be_started_any_more_is_not(clinic, clinician, values):
    one = add_program(clinic)
    set_client(clinic, one, name="For a Moment", launch_uri=APP)
    page = clinician.get("/launch?patient=p1")
    set_client(clinic, one, **values)
    before = len(launches(clinic))
    page = page.submit("For a Moment at app.example")
    assert (page.status, page.heading) == (404, "Page not found")
    assert "This app can't be started from here." in page.words
    assert len(launches(clinic)) == before


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({}, 404),
        ({"patient": "p1"}, 404),
        ({"patient": "p99", "client": "program"}, 404),
        ({"patient": "p1", "client": "demo-app"}, 404),
        ({"patient": "p1", "client": "demo-backend"}, 404),
        ({"patient": "p1", "client": "unknown"}, 404),
        ({"patient": "p1", "client": "program", "encounter": "unknown"}, 404),
        # Another patient's.
        ({"patient": "p1", "client": "program", "document": "doc-p2-pathology-2023"}, 404),
        ({"patient": "p1", "client": "program", "encounter": "enc-p2-2023-ed"}, 404),
        ({"patient": "p1\0", "client": "program"}, 400),
        ({"patient": "p1", "client": "program", "encounter": "\0"}, 400),
        ({"patient": "\x01", "client": "program"}, 404),
        ({"patient": "p1", "client": "\x01"}, 404),
        ({"patient": "p" * 65, "client": "program"}, 413),
    ],
)
def test_what_does_not_fit_together_starts_nothing(clinic, program, clinician, form, status):
    before = len(launches(clinic))
    page = post(
        clinician, **{name: program if form[name] == "program" else form[name] for name in form}
    )
    assert page.status == status
    assert page.location is None
    assert len(launches(clinic)) == before


@pytest.mark.parametrize("patient", ["p99", "%00", "%F0%9F", "'", "a" * 3000, "p1,p2"])
def test_a_patient_of_whom_there_is_no_record_cannot_be_chosen(clinician, patient):
    page = clinician.get(f"/launch?patient={patient}")
    assert (page.status, page.heading) == (404, "Page not found")
    assert "There is no record of this patient." in page.words


def test_a_patient_starts_no_apps(clinic, program):
    browser = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    for page in (
        browser.get("/launch"),
        browser.get("/launch?patient=p1"),
        post(browser, patient="p1", client=program),
    ):
        assert (page.status, page.heading) == (403, "You don't have access to this")
        assert "Hartwell" not in page.words


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("name=nobodyhasthisname", "No matching patients."),
        ("born=1801", "No matching patients."),
        ("born=soon", "Enter the date as 1958-04-12, 1958-04 or 1958."),
        ("name=%00", "Theo Okafor"),
        ("name=%2C%24%7C%5C", "No matching patients."),
        (f"name={'zz+' * 60}", "No matching patients."),
        ("name=hart&born=%00", "Enter the date as 1958-04-12, 1958-04 or 1958."),
    ],
)
def test_a_search_that_finds_nobody_says_so(clinician, program, query, message):
    page = clinician.get(f"/launch?{query}")
    assert page.status == 200
    assert message in page.words


def test_what_was_searched_stands_in_the_form(clinician, program):
    fields = clinician.get("/launch?name=hart&born=1958").form("Search").fields
    assert (fields["name"], fields["born"]) == ("hart", "1958")


def test_where_no_app_can_be_started_that_is_said(make_app):
    app = make_app()
    alter(app, update(Client).values(launch_uri=None))
    browser = Browser(app).resume("clinician")
    page = browser.get("/launch")
    assert "No app can be started from here yet." in page.words
    assert "launch_uri" in page.words
    assert NO_APP in browser.get("/launch?patient=p1").words


def test_where_there_are_no_patients_that_is_said(make_app):
    app = make_app(seed=False)
    browser = Browser(app).resume("clinician")
    add(app, "Growth Chart")
    assert "No patients yet." in browser.get("/launch").words


def test_apps_are_told_what_our_pages_look_like(clinic):
    answer = clinic.test_client().get(
        "/smart-style.json", base_url=BASE_URL, headers={"Origin": "https://anywhere.example"}
    )
    style = answer.get_json()
    # SMART App Launch 2.2 §Styling: all that it names.
    assert set(style) == {
        *("color_background", "color_error", "color_highlight", "color_modal_backdrop"),
        *("color_success", "color_text", "dim_border_radius", "dim_font_size", "dim_spacing_size"),
        *("font_family_body", "font_family_heading"),
    }
    assert answer.content_type == "application/json"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Cache-Control"] == "public, max-age=3600"
    assert "Set-Cookie" not in answer.headers


def test_the_style_for_apps_is_that_of_the_pages(clinic):
    sheet = (Path(web.__file__).parent / "static" / "style.css").read_text()
    declared = dict(re.findall(r"--([a-z]+): (?:light-dark\((#[0-9a-f]{6})|[^;]+);?", sheet))
    sizes = dict(re.findall(r"--([a-z]+): ([^;]+);", sheet))
    style = clinic.test_client().get("/smart-style.json").get_json()
    assert style["color_background"] == declared["paper"]
    assert style["color_text"] == style["color_modal_backdrop"] == declared["ink"]
    assert style["color_error"] == declared["risk"]
    assert style["color_highlight"] == style["color_success"] == declared["accent"]
    assert style["dim_border_radius"] == sizes["radius"]
    assert style["dim_spacing_size"] == f"{float(sizes['step'].removesuffix('rem')) * 16:g}px"
    assert style["font_family_body"] == style["font_family_heading"] == sizes["text"]


def test_a_token_names_the_style(clinic):
    flow = Flow(clinic, add_program(clinic), id_of(clinic, add_person(clinic, CLINICIAN)))
    answer = flow.tokens("launch patient/*.rs", launch=flow.launch("p1"))
    assert answer["smart_style_url"] == f"{BASE_URL}/smart-style.json"


def test_who_starts_an_app_for_a_patient_has_looked_at_their_record(clinic, program, clinician):
    """The page shows their visits and notes."""
    clinician.get("/launch?patient=p3")
    seen = Browser(clinic).resume(add_person(clinic, PATIENT, "p3")).get("/patients/p3/viewers")
    assert "Robin Example" in seen.words
    assert "the app launch page" in seen.words
    assert "visit" in seen.words
