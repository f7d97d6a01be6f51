"""Strings are found whatever their accents, strokes and ligatures, in both directions.

FHIR R4 search §3.1.1.4.8: "insensitive to casing and included combining characters, like accents".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import CLINICIAN
from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.ops.prepare import prepare
from fhirapp.store.version import INDEX, get_state, set_state
from fhirapp.store.write import RULES
from tests.support.browsing import Browser
from tests.support.browsing import add_person as add_somebody
from tests.support.contract import allergy, publish
from tests.support.helpers import Fhir, token_for

NOW = "2026-02-01T00:00:00.000+00:00"
# Names as they are written, and as somebody writes them without the letters.
NAMES = (
    ("Sørensen", "Sorensen"),
    ("SØRENSEN", "sorensen"),
    ("Łukasz", "Lukasz"),
    ("Wałęsa", "Walesa"),
    ("Đorđević", "Dordevic"),
    ("Nguyễn Đức", "nguyen duc"),
    ("Guðrún", "Gudrun"),
    ("Þórsson", "Thorsson"),
    ("Ægir", "Aegir"),
    ("Ǽrø", "AERO"),
    ("Œuvrard", "oeuvrard"),
    ("Weiß", "Weiss"),
    ("WEIẞ", "WEISS"),
    ("Groß", "GROSS"),
    ("Iş\u0131k", "Isik"),
    ("IŞIK", "\u0131ş\u0131k"),
    ("İnönü", "inonu"),
    ("Ħal", "hal"),
    ("Åse", "Ase"),
    ("Žižek", "Zizek"),
    ("Sa\u0301nchez", "Sanchez"),
    ("Ŋuŋŋá", "Nunna"),
    ("Ɗanjuma Ƙofa", "Danjuma Kofa"),
    ("Ŧeđđi", "teddi"),
    ("ﬁscher", "Fischer"),
)


def resources(written: str, number: int) -> list[dict[str, Any]]:
    """Return a record of a name in each of the types that have one."""
    row_id = f"accents-{number}"
    person = {"name": [{"family": written, "given": [f"{written}a"]}], "id": row_id}
    return [
        {"resourceType": "Patient", **person, "address": [{"city": written}]},
        {"resourceType": "Practitioner", **person},
        {
            "resourceType": "RelatedPerson",
            **person,
            "patient": {"reference": f"Patient/{row_id}"},
        },
        {"resourceType": "Organization", "id": row_id, "name": f"{written} Clinic"},
        allergy(
            row_id,
            row_id,
            code={"text": f"{written} pollen"},
            recorder={"reference": f"Practitioner/{row_id}"},
            text={
                "status": "generated",
                "div": f'<div xmlns="http://www.w3.org/1999/xhtml">{written}</div>',
            },
        ),
    ]


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """Return an app where somebody has each name, as it is written and without its letters."""
    app = make_app(seed=False)
    for number, name in enumerate(one for pair in NAMES for one in pair):
        for resource in resources(name, number):
            publish(app, resource, now=NOW)
    return app


@pytest.fixture
def fhir(clinic: Flask) -> Fhir:
    return Fhir(clinic, token_for(clinic, "system/*.rs"))


SEARCHES = (
    "Patient?name={}",
    "Patient?family={}",
    "Patient?given={}",
    "Patient?name:contains={}",
    "Patient?address-city={}",
    "Patient?address={}",
    "Practitioner?name={}",
    "Practitioner?family={}",
    "RelatedPerson?name={}",
    "Organization?name={}",
    "Organization?name:contains={}",
    "AllergyIntolerance?code:text={}",
    "AllergyIntolerance?patient.name={}",
    "AllergyIntolerance?patient.family:contains={}",
    "AllergyIntolerance?recorder:Practitioner.family={}",
    "AllergyIntolerance?_content={}",
    "AllergyIntolerance?_text={}",
    "Practitioner?_has:AllergyIntolerance:recorder:code:text={}",
)


@pytest.mark.parametrize("search", SEARCHES)
@pytest.mark.parametrize(("written", "plain"), NAMES, ids=[one for _, one in NAMES])
def test_each_spelling_finds_both(fhir, search, written, plain):
    at = 2 * NAMES.index((written, plain))
    both = {f"accents-{at}", f"accents-{at + 1}"}
    for value in (written, plain, written.upper(), plain.lower()):
        assert both <= set(fhir.ids(f"{search.format(value)}&_count=200")), value


@pytest.mark.parametrize(("written", "plain"), NAMES, ids=[one for _, one in NAMES])
def test_a_name_sounds_as_it_does_without_its_letters(fhir, written, plain):
    at = 2 * NAMES.index((written, plain))
    word = plain.partition(" ")[0]
    both = {f"accents-{at}", f"accents-{at + 1}"}
    assert both <= set(fhir.ids(f"Patient?phonetic={word}&_count=200"))


@pytest.mark.parametrize(("written", "plain"), NAMES, ids=[one for _, one in NAMES])
def test_exact_tells_them_apart(fhir, written, plain):
    at = 2 * NAMES.index((written, plain))
    assert f"accents-{at}" in fhir.ids(f"Patient?family:exact={written}")
    assert f"accents-{at + 1}" not in fhir.ids(f"Patient?family:exact={written}")


@pytest.mark.parametrize(
    ("value", "other"),
    [("Muller", "Mueller"), ("Sorensen", "Soerensen"), ("Lukas", "Luukas"), ("Weis", "Veis")],
)
def test_another_spelling_is_another_name(clinic, fhir, value, other):
    publish(clinic, resources(other, 900)[0], now=NOW)
    assert "accents-900" not in fhir.ids(f"Patient?family={value}&_count=200")


@pytest.mark.parametrize(("typed", "name"), [("Sorensen", "Sørensena"), ("lukasz", "Łukasza")])
def test_the_pages_find_patients_so(clinic, typed, name):
    browser = Browser(clinic)
    browser.sign_in(add_somebody(clinic, CLINICIAN))
    assert name in browser.get(f"/patients?name={typed}").words


def test_an_older_database_finds_them_after_the_next_start(make_app, new_database):
    """Its index rows were made by the rules of an older release."""
    url = new_database()
    app = make_app(seed=False, database_url=url)
    for resource in resources("Sørensen", 0):
        publish(app, resource, now=NOW)
    strings = types(app)["Patient"].tables.string
    with app.app_context(), writing() as connection:
        folded = update(strings).where(strings.c.folded == "sorensen")
        assert connection.execute(folded.values(folded="sørensen")).rowcount
        set_state(connection, INDEX, "4")
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    assert fhir.ids("Patient?family=Sorensen") == []
    said: list[str] = []
    prepare(app, said.append, serving=True)
    assert said == ["The search index was rebuilt by this release's rules: 5 versions."]
    assert fhir.ids("Patient?family=Sorensen") == ["accents-0"]
    with app.app_context(), writing() as connection:
        assert get_state(connection, INDEX) == RULES
