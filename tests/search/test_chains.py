"""Chained parameters: what is found by them, what is refused, and what they do not tell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from fhirapp.rest import chains
from tests.support.contract import allergy
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, assert_outcome, ids, token_for
from tests.support.noted import add
from tests.support.search_semantics import everything

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

ALLERGY, DOCUMENT = "AllergyIntolerance", "DocumentReference"
# The scope of who sees everything.
ALL = "system/*.rs"


CHAINS = [
    ("patient.identifier=LGH-100385&code=7984", ()),
    (
        "patient.identifier=LGH-100385&_count=2&_sort=_id",
        ("al-p5-antibiotic", "al-p5-atorvastatin"),
    ),
    ("patient.name=okafor", ("al-p13-nka", "al-p4-nkda")),
    ("patient:Patient.name:exact=okafor", ()),
    ("patient._id=p4", ("al-p4-nkda",)),
    ("recorder.family=Novak", ("al-p6-no-information", "al-p2-morphine", "al-p2-lidocaine")),
    ("patient.name=nobody", ()),
    ("patient.name=", None),
]


def test_a_chain_is_searched_as_the_target_is(fhir):
    for query, found in CHAINS:
        answered = fhir.read(f"{ALLERGY}?{query}")
        assert answered["total"] == 39 if found is None else ids(answered)[:3] == [*found]


@pytest.mark.parametrize("most", [1_000, 0], ids=["targets listed", "row by row"])
def test_a_chain_goes_two_steps(make_app, tmp_path, monkeypatch, most):
    monkeypatch.setattr(chains, "MOST", most)
    app = make_app()
    fhir = Fhir(app, token_for(app, ALL))
    person = {
        "resourceType": "Patient",
        "id": "led",
        "generalPractitioner": [{"reference": "Practitioner/dr-novak"}],
    }
    add(app, tmp_path, person, allergy("led", "led"))
    two = "patient.general-practitioner:Practitioner.family"
    assert fhir.ids(f"{ALLERGY}?{two}=novak") == ["led"]
    assert fhir.ids(f"{ALLERGY}?{two}=nobody") == []


@pytest.mark.parametrize("most", [1_000, 0], ids=["targets listed", "row by row"])
def test_a_subject_of_another_type_is_not_the_patient_with_its_id(
    make_app, tmp_path, monkeypatch, most
):
    monkeypatch.setattr(chains, "MOST", most)
    app = make_app()
    people = [
        {"resourceType": kind, "id": "same", "name": [{"family": family}]}
        for kind, family in (("Patient", "Patientname"), ("Practitioner", "Practitionername"))
    ]
    notes = [
        {
            "resourceType": "DocumentReference",
            "id": f"of-{kind.lower()}",
            "status": "current",
            "type": {"text": "Note"},
            "subject": {"reference": f"{kind}/same"},
            "content": [{"attachment": {"contentType": "text/plain", "data": "dGV4dA=="}}],
        }
        for kind in ("Patient", "Practitioner")
    ]
    add(app, tmp_path, *people, *notes)
    fhir = Fhir(app, token_for(app, ALL))
    for name, found in (
        ("subject:Practitioner.name=practitionername", ["of-practitioner"]),
        ("subject.name=practitionername", ["of-practitioner"]),
        ("subject.name=patientname", ["of-patient"]),
        ("subject:Patient.name=patientname", ["of-patient"]),
    ):
        assert fhir.ids(f"{DOCUMENT}?{name}") == found


NOWHERE = [
    ("nonsense.name", "nonsense is no reference of AllergyIntolerance"),
    ("code.text", "code is no reference of AllergyIntolerance"),
    ("patient.nonsense", "nonsense cannot be searched of Patient"),
    ("patient._content", "_content cannot be searched of Patient"),
    ("patient:Group.name", "AllergyIntolerance:patient does not lead to Group"),
    (
        "recorder:PractitionerRole.role",
        "role cannot be searched of PractitionerRole, which is not served",
    ),
    ("patient.", "has a dot without a parameter beside it"),
    (".name", "has a dot without a parameter beside it"),
    ("patient..name", "has a dot without a parameter beside it"),
    ("patient.organization.partof.name", "has more than 2 steps"),
    ("patient.general-practitioner.organization", "organization cannot be searched of"),
    ("patient.name:below", "patient.name:below: the modifier is not supported on a string"),
    ("patient.birthdate", "patient.birthdate: 'x' is not a date"),
]


def test_a_chain_that_leads_nowhere_is_refused(fhir):
    for name, reason in NOWHERE:
        response = fhir.get(f"{ALLERGY}?{name}=x")
        assert response.status_code == 400
        assert reason in response.get_json(force=True)["issue"][0]["diagnostics"]


def test_a_reference_to_any_type_has_to_name_it(fhir):
    response = fhir.get("Provenance?target.code=x")
    assert_outcome(
        response,
        400,
        "not-supported",
        "target.code: target leads to any type; name one: target:Patient",
        "target.code",
    )
    assert fhir.read(f"Provenance?target:{ALLERGY}.code=7984")["total"] == 1


def tells(fhir: Fhir, query: str) -> Mapping[str, Any]:
    """Return all that an answer tells, without what differs from one app to the other."""
    answer = fhir.get(f"{ALLERGY}?{query}")
    if answer.status_code == 403:
        return dict(answer.json)
    bundle = fhir.read(f"{ALLERGY}?{query}")
    found = [
        {name: one for name, one in entry["resource"].items() if name != "meta"}
        for entry in bundle.get("entry", ())
    ]
    links = sorted(link["relation"] for link in bundle["link"])
    return {"total": bundle["total"], "found": found, "links": links}


LEAKS = (
    *("identifier=secret", "identifier:not=secret", "family=Hidden", "family:missing=false"),
    *(
        "birthdate=lt1930",
        "birthdate:missing=true",
        "gender=other",
        "gender:not=other",
        "_id=hidden",
    ),
    *("name:contains=idde", "general-practitioner:Practitioner.family=Novak"),
)


@pytest.fixture(scope="module")
def with_and_without_hidden(make_app, tmp_path_factory):
    """Two apps with an allergy of a patient who is in the first one alone."""
    hidden = {
        "resourceType": "Patient",
        "id": "hidden",
        "identifier": [{"system": "urn:x", "value": "secret"}],
        "name": [{"family": "Hidden"}],
        "gender": "other",
        "birthDate": "1920-01-01",
        "generalPractitioner": [{"reference": "Practitioner/dr-novak"}],
    }
    apps = make_app(), make_app()
    for app, people in zip(apps, ([hidden], []), strict=True):
        add(app, tmp_path_factory.mktemp("hidden"), *people, allergy("of-hidden", "hidden"))
    return apps


@pytest.mark.parametrize(
    ("scope", "patient"),
    [
        ("patient/*.rs", "p1"),
        (f"patient/{ALLERGY}.rs patient/Patient.rs", "p1"),
        # Allergies of everybody, and only some of the patients.
        (f"system/{ALLERGY}.rs system/Patient.rs?gender=female", None),
    ],
)
def test_a_chain_tells_nothing_of_a_target_that_is_out_of_reach(
    with_and_without_hidden, scope, patient
):
    clients = [Fhir(app, token_for(app, scope, patient=patient)) for app in with_and_without_hidden]
    for query in LEAKS:
        answers = [tells(client, f"patient.{query}&_count=100") for client in clients]
        assert answers[0] == answers[1], query


NAMING_A_PATIENT = (
    *(f"{ALLERGY}?patient._id=", f"{ALLERGY}?patient._id=p1,", f"{DOCUMENT}?subject._id="),
    *(f"{ALLERGY}?patient:Patient._id=", f"{DOCUMENT}?encounter.patient="),
    *(f"{DOCUMENT}?encounter.patient._id=", f"Patient?_has:{ALLERGY}:patient:patient="),
)


@pytest.mark.parametrize("query", NAMING_A_PATIENT)
def test_a_chain_to_another_patient_is_refused_for_a_patients_token(app, query):
    """An empty Bundle would read as "none", as of `patient=p2`."""
    fhir = Fhir(app, token_for(app, "patient/*.rs", patient="p1"))
    name = query.partition("?")[2].partition("=")[0]
    message = f"{name}: the token is for one patient, and this is another."
    for other in ("p2", "unknown"):
        response = fhir.get(f"{query}{other}")
        assert_outcome(response, 403, "forbidden", message, name.partition(":")[0])
    assert fhir.read(f"{query}p1")["resourceType"] == "Bundle"
    everyone = Fhir(app, token_for(app, "user/*.rs"))
    assert everyone.read(f"{query}p2")["resourceType"] == "Bundle"


def test_an_id_of_what_is_no_patient_names_none(app):
    fhir = Fhir(app, token_for(app, "patient/*.rs", patient="p1"))
    for query in (f"{DOCUMENT}?author._id=p2", f"{DOCUMENT}?encounter._id=p2"):
        assert fhir.read(query)["total"] == 0


FORBIDDEN = [
    (f"system/{ALLERGY}.rs", "patient.name"),
    (f"system/{ALLERGY}.rs system/Patient.r", "patient.identifier"),
    (f"system/{ALLERGY}.rs", "recorder.identifier"),
]


def test_a_chain_takes_the_permission_to_search_what_it_leads_to(app):
    for scope, name in FORBIDDEN:
        response = Fhir(app, token_for(app, scope)).get(f"{ALLERGY}?{name}=x")
        assert_outcome(
            response,
            403,
            "forbidden",
            f"{name}: the token's scope does not cover search of Patient.",
            name,
        )
        assert 'scope="system/Patient.s"' in response.headers["WWW-Authenticate"]


def test_has_goes_two_steps(fhir, monkeypatch):
    of_penicillin = "_has:AllergyIntolerance:patient:"
    step = f"Patient?{of_penicillin}_has:Provenance:target:agent=nobody"
    assert fhir.ids(step) == []
    agents = fhir.read("Provenance?_count=100")["entry"]
    agent = agents[0]["resource"]["agent"][0]["who"]["reference"]
    found = set(fhir.ids(f"Patient?{of_penicillin}_has:Provenance:target:agent={agent}"))
    targets = {
        target["reference"]
        for entry in fhir.read(f"Provenance?agent={agent}&_count=100")["entry"]
        for target in entry["resource"]["target"]
    }
    allergies = everything(fhir, ALLERGY)
    expected = {
        allergy["patient"]["reference"].removeprefix("Patient/")
        for allergy in allergies
        if f"{ALLERGY}/{allergy['id']}" in targets
    }
    assert found == expected != set()
    # Of each row SQLite could not be asked: the condition of what may be seen is deep already.
    monkeypatch.setattr(chains, "MOST", 0)
    of_agent = f"_has:Provenance:target:agent={agent}"
    for path in (f"{ALLERGY}?{of_agent}", f"Patient?{of_penicillin}{of_agent}"):
        response = fhir.get(path)
        assert response.status_code == 400
        told = response.get_json(force=True)["issue"][0]["diagnostics"]
        assert "may lead to more than 0 Provenance; ask for less" in told


@pytest.mark.parametrize(
    "query",
    [
        f"Practitioner?_has:Patient:general-practitioner:_has:{ALLERGY}:patient:code:missing=false",
        f"Encounter?_has:{DOCUMENT}:encounter:_has:{DOCUMENT}:relatesto:status=current",
        f"Encounter?patient._has:{ALLERGY}:patient:code=7984",
        f"Patient?_has:{ALLERGY}:patient:recorder.name=novak",
        f"{DOCUMENT}?encounter._has:{DOCUMENT}:encounter:type=11488-4",
    ],
)
def test_two_steps_find_the_same_row_by_row(fhir, monkeypatch, query):
    listed = fhir.ids(query)
    monkeypatch.setattr(chains, "MOST", 0)
    assert fhir.ids(query) == listed != []


NO_HAS = [
    ("_has", "is _has:Type:reference:parameter, in up to 2 steps"),
    ("_has:AllergyIntolerance", "is _has:Type:reference:parameter, in up to 2 steps"),
    ("_has:AllergyIntolerance:patient", "is _has:Type:reference:parameter, in up to 2 steps"),
    ("_has:Nonsense:patient:code", "patient is no reference of Nonsense here"),
    ("_has:AllergyIntolerance:code:code", "code is no reference of AllergyIntolerance here"),
    ("_has:AllergyIntolerance:patient:nonsense", "nonsense cannot be searched of"),
    ("_has:AllergyIntolerance:patient:_content", "_content cannot be searched of"),
    ("_has:DocumentReference:custodian:type", "custodian does not lead to Patient"),
    ("_has:AllergyIntolerance:patient:date", "'x' is not a date"),
]


def test_malformed_has_is_refused(fhir):
    for name, reason in NO_HAS:
        response = fhir.get(f"Patient?{name}=x")
        assert response.status_code == 400
        assert reason in response.get_json(force=True)["issue"][0]["diagnostics"]


@pytest.mark.parametrize(
    "scope", ["patient/*.rs", f"patient/Patient.rs patient/{ALLERGY}.rs patient/Encounter.rs"]
)
def test_chain_with_has_reveals_nothing_out_of_reach(app, scope):
    own = Fhir(app, token_for(app, scope, patient="p2"))
    visits = set(own.ids("Encounter?_count=100"))
    assert set(own.ids(f"Encounter?patient._has:{ALLERGY}:patient:code=7984")) == set()
    held = f"Encounter?patient._has:{ALLERGY}:patient:criticality:missing=false,true"
    assert set(own.ids(held)) == visits != set()
    if "*" not in scope:
        for name in ("patient._has:Group:member:_id", f"_has:{DOCUMENT}:encounter:author.name"):
            assert own.get(f"Encounter?{name}=x").status_code == 403


def test_has_tells_nothing_of_what_is_out_of_reach(app):
    """Nobody's allergy is seen through the patient, nor is a type that may not be searched."""
    response = Fhir(app, token_for(app, "system/Patient.rs")).get(
        f"Patient?_has:{ALLERGY}:patient:code=7984"
    )
    assert response.status_code == 403
    # Of the allergies only those to food may be seen: the one to penicillin is none.
    scope = f"system/Patient.rs system/{ALLERGY}.rs?category=food"
    limited = Fhir(app, token_for(app, scope))
    assert limited.ids(f"Patient?_has:{ALLERGY}:patient:code=7984") == []
    assert limited.ids(f"Patient?_has:{ALLERGY}:patient:category=food") != []
    own = Fhir(app, token_for(app, "patient/*.rs", patient="p2"))
    assert own.ids(f"Patient?_has:{ALLERGY}:patient:code=7984") == []
    assert own.ids(f"Patient?_has:{ALLERGY}:patient:criticality:missing=false,true") == ["p2"]
