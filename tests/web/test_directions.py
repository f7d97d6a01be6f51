"""Characters that turn the direction of writing stay in records, and out of every page."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, Client
from tests.support.authorizing import add_program, alter
from tests.support.browsing import Browser, add_person
from tests.support.helpers import Fhir, token_for
from tests.support.noted import add, attached, note

TURNS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
PATHS = (
    *("/notes/turned", "/notes/turned?q=weekly", "/notes/turned/versions", "/notes?patient=turned"),
    *("/notes?q=weekly", "/patients/turned", "/patients?name=turned", "/patients/turned/viewers"),
    *("/patients/turned/allergies/turned", "/launch?patient=turned", "/launch?name=turned"),
    "/notes/turned/difference?from=1&to=2",
    "/explore?address=/fhir/DocumentReference?patient=turned",
    "/explore?address=/fhir/AllergyIntolerance?patient=turned",
    "/explore?address=/fhir/Patient?_id=turned",
)


def turned(word: str) -> str:
    """Return a text with every character that turns the direction."""
    return f"{word} {TURNS}lived"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    app = make_app(seed=False)
    subject = {"reference": "Patient/turned"}
    patient = {
        "resourceType": "Patient",
        "id": "turned",
        "name": [{"family": turned("Turned"), "given": [turned("Ada")]}],
        "identifier": [{"value": turned("MRN")}],
    }
    allergy = {
        "resourceType": "AllergyIntolerance",
        "id": "turned",
        "patient": subject,
        "code": {"text": turned("Latex")},
        "recorder": {"display": turned("Dr.")},
        "note": [{"text": turned("Comment")}],
        "reaction": [{"manifestation": [{"text": turned("Hives")}]}],
    }
    for number in (1, 2):
        document = note(
            "turned",
            attached("Weekly visit.", title=turned(f"Title {number}")),
            subject=subject,
            type={"text": turned(f"Type {number}")},
            author=[{"display": turned(f"Author {number}")}],
            custodian={"display": turned("Custodian")},
            description=turned(f"About {number}"),
            category=[{"text": turned("Category")}],
            securityLabel=[{"text": turned("Label")}],
        )
        folder = tmp_path_factory.mktemp(f"turned-{number}")
        add(app, folder, *((patient, allergy) if number == 1 else ()), document)
    add_program(app)
    alter(app, update(Client).values(launch_uri="https://app.example/launch"))
    return app


@pytest.mark.parametrize("path", PATHS)
def test_no_text_of_a_record_turns_the_words_of_a_page(clinic, path):
    page = Browser(clinic).resume(add_person(clinic, CLINICIAN)).get(path)
    assert page.status == 200
    assert "lived" in page.response.text
    assert not re.search(f"[{TURNS}]", page.response.text)


@pytest.mark.parametrize("path", ["/admin/patients?find=turned", "/admin/patients/turned"])
def test_no_text_of_a_record_turns_the_words_of_administration(clinic, path):
    page = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR)).get(path)
    assert "lived" in page.response.text
    assert not re.search(f"[{TURNS}]", page.response.text)


def test_the_record_stays_as_it_was(clinic):
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    document = fhir.read("DocumentReference/turned")
    assert document["author"] == [{"display": turned("Author 2")}]
    assert document["content"][0]["attachment"]["title"] == turned("Title 2")
    assert fhir.read("Patient/turned")["name"][0]["given"] == [turned("Ada")]
