"""`Patient/$match`: who may be the one who is sent. FHIR R4 operation-patient-match.

What speaks against two being one person: tests/features/imports/test_ccda_people.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from flask import Flask

from fhirapp.config import settings_of
from fhirapp.features.patients.merge import merge_patients
from tests.support.helpers import BASE_URL, FHIR_JSON, Fhir, assert_outcome, token_for
from tests.support.operations import FORM, parameters, post
from tests.support.publishing import TIMES, publish
from tests.support.r4 import faults

MATCH = "Patient/$match"
MRN = "http://lakeside.example/fhir/mrn"
SSN = "http://hl7.org/fhir/sid/us-ssn"
GRADE = "http://hl7.org/fhir/StructureDefinition/match-grade"
NAME = {"name": [{"family": "Hartwell", "given": ["Amelia", "Rose"]}]}
BORN = {"birthDate": "1958-04-12"}
NUMBER = {"identifier": [{"system": MRN, "value": "LGH-100237"}]}
NOTHING = (
    "resource: has nothing to match on: it needs an identifier with system and value, or a name"
    " and a birth date"
)


def patient(row_id: str = "", **elements: Any) -> dict[str, Any]:
    own = {"id": row_id} if row_id else {}
    return {"resourceType": "Patient", **own, **elements}


def sent(resource: Any, *given: tuple[str, str, Any]) -> dict[str, Any]:
    """Return the Parameters that ask for a Patient."""
    body = parameters(*given)
    body["parameter"].insert(0, {"name": "resource", "resource": resource})
    return body


def found(fhir: Fhir, resource: Any, *given: tuple[str, str, Any]) -> dict[str, str]:
    """Return how sure each is that is found, by id, in order."""
    answer = post(fhir, MATCH, sent(resource, *given))
    assert answer.status_code == 200
    return grades(answer.get_json(force=True))


def grades(bundle: Mapping[str, Any]) -> dict[str, str]:
    matches = [entry for entry in bundle.get("entry", ()) if entry["search"]["mode"] == "match"]
    return {
        entry["resource"]["id"]: entry["search"]["extension"][0]["valueCode"] for entry in matches
    }


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with patients who are alike."""
    app = make_app(seed=False)
    number = [{"system": SSN, "value": "561-45-6780"}]
    common = {"birthDate": "1980-05-01", "gender": "female"}
    publish(
        app,
        TIMES[0],
        patient("plain", name=[{"family": "Núñez", "given": ["Ana", "Sofía"]}], **common),
        patient("initial", name=[{"family": "Nunez", "given": ["A."]}], **common),
        patient("year", name=[{"family": "Nunez", "given": ["Ana"]}], birthDate="1980"),
        patient("text", name=[{"text": "Ana Nunez"}], **common),
        patient("twin", name=[{"family": "Nunez", "given": ["Berta"]}], **common),
        patient("brother", name=[{"family": "Nunez", "given": ["Ana"]}], birthDate="1980-05-01",
                gender="male"),
        patient("other", name=[{"family": "Nunez", "given": ["Ana"]}], birthDate="1980-05-02"),
        # Her family name is a given name here.
        patient("given", name=[{"family": "Lopez", "given": ["Nunez"]}], **common),
        patient("longer", name=[{"family": "Nunezson", "given": ["Ana"]}], **common),
        patient("ssn", identifier=number, name=[{"family": "Okafor", "given": ["Ike"]}],
                birthDate="1990-01-01"),
        *(
            patient(name, identifier=[{"system": "urn:x", "value": "shared"}], birthDate=born)
            for name, born in (("one", "1970-01-01"), ("two", "1971-01-01"))
        ),
    )  # fmt: skip
    return app


@pytest.fixture
def asking(clinic: Flask) -> Fhir:
    return Fhir(clinic, token_for(clinic, "system/Patient.s"))


def test_a_match_is_a_searchset_with_scores_and_grades(fhir):
    bundle = post(fhir, MATCH, sent(patient(**NUMBER, **NAME, **BORN))).get_json(force=True)
    assert list(faults(bundle)) == []
    assert (bundle["type"], bundle["total"]) == ("searchset", 1)
    assert bundle["link"] == [{"relation": "self", "url": f"{BASE_URL}/fhir/{MATCH}"}]
    (entry,) = bundle["entry"]
    assert entry["fullUrl"] == f"{BASE_URL}/fhir/Patient/p1"
    assert entry["resource"] == fhir.read("Patient/p1")
    assert entry["search"] == {
        "extension": [{"url": GRADE, "valueCode": "certain"}],
        "mode": "match",
        "score": 1.0,
    }


def test_a_patient_is_sent_in_parameters_or_by_itself(fhir):
    wanted = patient(**NUMBER)
    whole = post(fhir, MATCH, sent(wanted)).get_json(force=True)
    assert post(fhir, MATCH, wanted).get_json(force=True) == whole
    assert post(fhir, MATCH, wanted, "application/json").get_json(force=True) == whole
    alone = post(fhir, f"{MATCH}?onlyCertainMatches=true&count=1", wanted)
    assert grades(alone.get_json(force=True)) == {"p1": "certain"}


# How sure it is.


@pytest.mark.parametrize(
    ("elements", "grade"),
    [
        (NUMBER, "certain"),
        ({**NUMBER, **NAME, **BORN, "gender": "female"}, "certain"),
        ({**NUMBER, "birthDate": "1958"}, "certain"),
        # The number is hers, and something else is not.
        ({**NUMBER, "birthDate": "1958-04-13"}, "possible"),
        ({**NUMBER, "gender": "male"}, "possible"),
        ({**NUMBER, "name": [{"family": "Hartwell", "given": ["Berta"]}]}, "possible"),
        # A number of another system, a number that only begins so, and one without a system.
        ({"identifier": [{"system": "urn:x", "value": "LGH-100237"}]}, None),
        ({"identifier": [{"system": MRN, "value": "LGH-10023"}]}, None),
        ({"identifier": [{"system": MRN, "value": "lgh-100237"}]}, None),
        ({"identifier": [{"system": MRN, "value": "x,LGH-100237"}]}, None),
        ({"identifier": [{"value": "LGH-100237"}], **NAME, **BORN}, "possible"),
        ({**NAME, **BORN, "gender": "female"}, "probable"),
        ({**NAME, **BORN, "gender": "male"}, None),
        # Another number of the same system: perhaps one of them is wrong.
        ({**NAME, **BORN, "gender": "female",
          "identifier": [{"system": MRN, "value": "LGH-999999"}]}, "possible"),
    ],
)  # fmt: skip
def test_match_grades_follow_the_rules_of_an_import(fhir, elements, grade):
    assert found(fhir, patient(**elements)) == ({"p1": grade} if grade else {})


def test_names_and_birth_dates_are_compared_and_never_certain(asking):
    common = {"birthDate": "1980-05-01", "gender": "female"}
    sought = patient(name=[{"family": "NUNEZ", "given": ["Ana", "Sofia"]}], **common)
    expected = {"plain": "probable", "text": "probable", "initial": "possible", "year": "possible"}
    assert found(asking, sought) == expected
    short = patient(name=[{"family": "Nunez", "given": ["Ana"]}], **common)
    assert found(asking, short) == expected
    assert list(found(asking, short)) == ["plain", "text", "initial", "year"]
    text = patient(name=[{"text": "Ana Sofia Nunez"}], **common)
    assert found(asking, text) == {"plain": "probable"}
    vague = {"birthDate": "1980-05", "gender": "female"}
    sought = patient(name=[{"family": "Nunez", "given": ["Ana"]}], **vague)
    assert set(found(asking, sought).values()) == {"possible"}
    assert "other" in found(asking, patient(**sought | {"gender": "unknown"}))


def test_a_social_security_number_is_known_with_its_hyphens_and_without(asking):
    for value in ("561-45-6780", "561456780"):
        sought = patient(identifier=[{"system": SSN, "value": value}])
        assert found(asking, sought) == {"ssn": "certain"}
    # Nobody's: placeholders.
    answer = post(asking, MATCH, sent(patient(identifier=[{"system": SSN, "value": "999999999"}])))
    assert_outcome(answer, 400, "value", NOTHING, "resource")


def test_shared_identifier_is_never_a_certain_match(asking):
    shared = {"identifier": [{"system": "urn:x", "value": "shared"}]}
    assert found(asking, patient(**shared)) == {"one": "probable", "two": "probable"}
    born = patient(**shared, birthDate="1970-01-01")
    assert found(asking, born) == {"one": "probable", "two": "possible"}
    certain = ("onlyCertainMatches", "valueBoolean", True)
    assert found(asking, patient(**shared), certain) == {}


def test_matches_are_sorted_by_grade_and_limited_by_count(asking):
    sought = patient(name=[{"family": "Nunez", "given": ["Ana"]}], birthDate="1980-05-01",
                     gender="female")  # fmt: skip
    answer = post(asking, MATCH, sent(sought, ("count", "valueInteger", 2))).get_json(force=True)
    assert grades(answer) == {"plain": "probable", "text": "probable"}
    assert answer["total"] == 4
    none = post(asking, MATCH, sent(sought, ("count", "valueInteger", 0))).get_json(force=True)
    assert (none["total"], none.get("entry")) == (4, None)


def test_match_finds_the_remaining_record_of_a_merge(make_app):
    app = make_app(seed=False)
    for row_id in ("stays", "twice"):
        number = [{"system": MRN, "value": row_id}]
        publish(app, TIMES[0], patient(row_id, identifier=number, **NAME, **BORN))
    fhir = Fhir(app, token_for(app, "system/Patient.rs"))
    both = {name: [{"system": MRN, "value": name}] for name in ("stays", "twice")}
    assert found(fhir, patient(identifier=both["twice"])) == {"twice": "certain"}
    assert set(found(fhir, patient(identifier=both["stays"] + both["twice"]))) == {*both}
    with app.app_context():
        merge_patients(settings_of(app), "twice", "stays", "same", "x",
                       move_accounts=False)  # fmt: skip
    for numbers in (both["twice"], both["stays"], both["stays"] + both["twice"]):
        assert found(fhir, patient(identifier=numbers)) == {"stays": "certain"}
    assert found(fhir, patient(**NAME, **BORN)) == {"stays": "possible"}
    own = Fhir(app, token_for(app, "system/Patient.rs?identifier=twice"))
    assert found(own, patient(identifier=both["twice"])) == {"twice": "certain"}


def test_match_warns_of_too_many_candidates(make_app):
    app = make_app(seed=False)
    many = [patient(f"m{number}", **NAME, **BORN) for number in range(102)]
    publish(app, TIMES[0], *many)
    fhir = Fhir(app, token_for(app, "system/Patient.s"))
    body = sent(patient(**NAME, **BORN), ("count", "valueInteger", 500))
    bundle = post(fhir, MATCH, body).get_json(force=True)
    *matches, outcome = bundle["entry"]
    assert len(matches) == 100
    assert outcome["search"] == {"mode": "outcome"}
    assert outcome["resource"]["issue"][0]["code"] == "too-costly"


# What is refused.


@pytest.mark.parametrize(
    ("resource", "message"),
    [
        (patient(), NOTHING),
        (patient(**NAME), NOTHING),
        (patient(**BORN), NOTHING),
        (patient(birthDate="1958-04-12", name=[{"given": ["Amelia"]}]), NOTHING),
        (patient(identifier=[{"value": "LGH-100237"}]), NOTHING),
        (patient(identifier=[{"system": MRN}]), NOTHING),
        ({"resourceType": "Observation"},
         "resource: has to be a valid Patient; wrong: resourceType"),
        ({}, "resource: has to be a valid Patient; wrong: resourceType"),
        (patient(name="Hartwell"), "resource: has to be a valid Patient; wrong: Patient.name"),
        (patient(birthDate="12.4.1958"),
         "resource: has to be a valid Patient; wrong: Patient.birthDate"),
        (patient(identifier=[{"system": MRN, "value": str(number)} for number in range(201)]),
         "resource: identifier: 200 are the most"),
    ],
)  # fmt: skip
def test_patient_without_searchable_values_is_refused(fhir, resource, message):
    assert_outcome(post(fhir, MATCH, sent(resource)), 400, "value", message, "resource")


@pytest.mark.parametrize(
    ("given", "code", "parameter", "message"),
    [
        (("count", "valueInteger", -1), "value", "count",
         "'-1' is not a whole number of 0 or more"),
        (("count", "valueString", "x"), "value", "count", "'x' is not a whole number of 0 or more"),
        (("onlyCertainMatches", "valueString", "yes"), "value", "onlyCertainMatches",
         "'yes' is not a boolean; use true or false"),
        (("_count", "valueInteger", 1), "not-supported", "_count", "is not a parameter of $match"),
        (("resource", "valueString", "x"), "invalid", "resource", "may be given once"),
    ],
)  # fmt: skip
def test_malformed_match_request_is_refused(fhir, given, code, parameter, message):
    answer = post(fhir, MATCH, sent(patient(**NUMBER), given))
    assert_outcome(answer, 400, code, f"{parameter}: {message}", parameter)


def test_match_takes_a_patient_in_the_body_only(fhir):
    takes = "$match takes a resource: POST it, by itself or in Parameters."
    for method in ("GET", "HEAD"):
        assert fhir.request(method, MATCH).status_code == 405
    answer = fhir.get(f"{MATCH}?resource=x")
    assert_outcome(answer, 405, "not-supported", takes)
    assert answer.headers["Allow"] == "POST"
    assert_outcome(fhir.post(MATCH, "resource=x", content_type=FORM), 415, "not-supported", takes)
    answer = post(fhir, f"{MATCH}?resource=x", patient(**NUMBER), FHIR_JSON)
    assert_outcome(answer, 400, "value", "resource: has to be in the body", "resource")


# Who may ask, and about whom.


def test_match_needs_the_scope_to_search_patients(app):
    fhir = Fhir(app, token_for(app, "system/Patient.r system/AllergyIntolerance.rs"))
    message = "The token's scope does not cover search of Patient."
    assert_outcome(post(fhir, MATCH, sent(patient(**NUMBER))), 403, "forbidden", message)


def test_a_patients_token_finds_itself_alone(as_patient):
    own, nobody = patient(**NUMBER), patient(identifier=[{"system": MRN, "value": "nobodys"}])
    assert found(as_patient("p1"), own) == {"p1": "certain"}
    other = as_patient("p2")
    unknown = post(other, MATCH, sent(nobody))
    assert grades(unknown.get_json(force=True)) == {}
    assert post(other, MATCH, sent(own)).data == unknown.data
    named = patient(**NAME, **BORN, gender="female")
    assert post(other, MATCH, sent(named)).data == unknown.data


def test_patient_out_of_reach_does_not_affect_the_match(clinic):
    fhir = Fhir(clinic, token_for(clinic, "system/Patient.rs?birthdate=1970-01-01"))
    shared = patient(identifier=[{"system": "urn:x", "value": "shared"}])
    assert found(fhir, shared) == {"one": "certain"}
    assert found(fhir, patient(name=[{"family": "Nunez"}], birthDate="1980-05-01")) == {}
