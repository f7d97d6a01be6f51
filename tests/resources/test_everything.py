"""`Patient/[id]/$everything`: a patient's record. FHIR R4 operation-patient-everything.

How it is asked, and what it refuses: test_operations.py, test_operation_errors.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from flask import Flask

from fhirapp.search.values import values_at
from tests.support.contract import SERVED, allergy, current, delete, publish, targets, versions_held
from tests.support.evaluator import covered
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, link, token_for
from tests.support.operations import (
    ASKED,
    CARE,
    EVERYTHING,
    PERIODS,
    Name,
    coded,
    document,
    encounter,
    is_cared_for,
    names,
    pages,
    patient_named,
)

FIRST, LATER = "2026-03-01T00:00:00.000+00:00", "2026-03-02T00:00:00.000+00:00"
# What comes with the resources of the compartment that refer to it, or that it tells of.
BESIDE = {"Organization", "Practitioner", "Provenance"}


def references(resource: Any) -> set[str]:
    """Return every reference in a resource, whatever its element."""
    if isinstance(resource, dict):
        own = {resource["reference"]} if isinstance(resource.get("reference"), str) else set()
        return own.union(*map(references, resource.values()))
    if isinstance(resource, list):
        return set().union(*map(references, resource))
    return set()


@pytest.fixture(scope="module")
def held(app) -> dict[Name, dict[str, Any]]:
    """All current resources of the seed."""
    found = versions_held(app)
    return {
        (name, row_id): resource
        for name, definition in SERVED.items()
        for row_id, resource in current(definition, found).items()
    }


def record(held: Mapping[Name, Mapping[str, Any]], patient: str) -> set[Name]:
    """Return what belongs to a patient."""
    paths = {name: one.compartment for name, one in SERVED.items() if one.compartment}
    return {("Patient", patient)} | {
        (name, row_id)
        for (name, row_id), resource in held.items()
        if name in paths
        and values_at(resource, f"{paths[name]}.reference") == [f"Patient/{patient}"]
    }


def beside(held: Mapping[Name, Mapping[str, Any]], own: set[Name]) -> set[Name]:
    """Return what comes with the resources of a record."""
    named = {("/".join(name)) for name in own}
    referred = set().union(*(references(held[name]) for name in own))
    return {
        (name, row_id)
        for (name, row_id), resource in held.items()
        if (name in ("Organization", "Practitioner") and f"{name}/{row_id}" in referred)
        or (name == "Provenance" and not named.isdisjoint(map("/".join, targets(resource))))
    }


@pytest.mark.parametrize("patient", [f"p{number}" for number in range(1, 15)])
def test_a_record_is_all_that_belongs_to_the_patient_and_what_comes_with_it(fhir, held, patient):
    bundle = fhir.read(f"Patient/{patient}/$everything")
    own = record(held, patient)
    assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "searchset")
    found = names(bundle)
    assert len(found) == len(set(found)) == bundle["total"]
    assert set(found) == own
    # The patient first, then type by type.
    assert found[0] == ("Patient", patient)
    assert [name for name, _ in found[1:]] == sorted(name for name, _ in found[1:])
    with_it = names(bundle, "include")
    assert len(with_it) == len(set(with_it))
    assert set(with_it) == beside(held, own)
    for entry in bundle["entry"][::3]:
        resource = entry["resource"]
        address = f"{resource['resourceType']}/{resource['id']}"
        assert entry["fullUrl"] == f"{BASE_URL}/fhir/{address}"
        assert resource == fhir.read(address)


@pytest.mark.parametrize("patient", ["p1", "p5", "p12"])
@pytest.mark.parametrize("size", [1, 4, 1000])
def test_the_pages_are_the_record_and_each_has_what_comes_with_it(fhir, held, patient, size):
    path = f"Patient/{patient}/$everything"
    whole = names(fhir.read(path))
    found = pages(fhir, f"{path}?_count={size}")
    assert [name for page in found for name in names(page)] == whole
    for page in found:
        assert page["total"] == len(whole)
        assert len(names(page)) <= size
        assert set(names(page, "include")) == beside(held, set(names(page)))
        assert link(page, "first") == f"/fhir/{path}?_count={size}"
    assert len(found) == -(-len(whole) // size)


WANTED = [
    "Patient",
    "AllergyIntolerance",
    "DocumentReference,Practitioner",
    "AllergyIntolerance,Provenance",
    "Encounter&_type=Organization,Patient",
]


def test_types_that_are_named_come_alone(fhir, held):
    for wanted in WANTED:
        named = set(wanted.replace("&_type=", ",").split(","))
        bundle = fhir.read(f"{EVERYTHING}?_type={wanted}")
        own = {name for name in record(held, "p1") if name[0] in named}
        assert set(names(bundle)) == own
        assert bundle["total"] == len(own)
        with_it = {name for name in beside(held, own) if name[0] in named}
        assert set(names(bundle, "include")) == with_it
        assert bool(with_it) == bool(named & BESIDE)


def test_since_returns_only_later_changes(fhir, held):
    for since in ("2024-01-18", "2024-01-30T11:05:00Z", "2023", "2030"):
        found = set(names(fhir.read(f"{EVERYTHING}?_since={since}")))
        start = covered(since)[0]
        changed = {
            name
            for name in record(held, "p1")
            if covered(held[name]["meta"]["lastUpdated"])[0] >= start
        }
        assert found == changed, since


@pytest.fixture(scope="module")
def dated(make_app: Callable[..., Flask]) -> Flask:
    """An app with a document and an encounter for each way to tell when the care was."""
    app = make_app(seed=False)
    periods = [elements.get("context", {}) for elements in PERIODS]
    publish(app, patient_named("p1"), now=FIRST)
    publish(app, *(document(f"d{n}", **one) for n, one in enumerate(PERIODS)), now=FIRST)
    # Each is a DiagnosticReport too.
    lab = {**coded("11502-2"), "meta": {"source": "http://lab.example"}}
    publish(app, *(document(f"l{n}", **lab, **one) for n, one in enumerate(PERIODS)), now=FIRST)
    publish(app, document("dated", date="2024-03-01T09:30:00+00:00"), now=FIRST)
    publish(app, *(encounter(f"e{n}", **one) for n, one in enumerate(periods)), now=FIRST)
    old = {"recordedDate": "1990", "lastOccurrence": "1991-01-01"}
    publish(app, allergy("old", **old), allergy("undated"), now=FIRST)
    return app


@pytest.mark.parametrize("start", ASKED)
def test_care_outside_of_a_time_is_left_out_and_an_allergy_never(dated, start):
    fhir = Fhir(dated, token_for(dated, "system/*.rs"))
    record = [entry["resource"] for entry in fhir.read(EVERYTHING)["entry"]]
    assert {resource["resourceType"] for resource in record} == {
        *CARE,
        "Patient",
        "AllergyIntolerance",
    }
    for end in ASKED:
        query = {"start": start, "end": end}
        response = fhir.get(EVERYTHING, query_string={k: v for k, v in query.items() if v})
        if start and end and covered(start)[0] >= covered(end)[1]:
            assert_outcome(response, 400, "value", "end: lies before start", "end")
            continue
        picked = [
            (resource["resourceType"], resource["id"])
            for resource in record
            if is_cared_for(resource, start, end, undated=True)
        ]
        assert names(response.get_json(force=True)) == picked, (start, end)
        assert {("AllergyIntolerance", "old"), ("AllergyIntolerance", "undated")} <= {*picked}


@pytest.mark.parametrize(
    "patient", ["p2", "nobody", "P1", "p" * 64], ids=["another", "unknown", "case", "long"]
)
def test_record_of_another_patient_is_not_found(as_patient, patient):
    response = as_patient("p1").get(f"Patient/{patient}/$everything")
    assert_outcome(response, 404, "not-found", f"Patient/{patient} is not known here.")


def token_of_p1(app: Flask, scope: str) -> str:
    return token_for(app, scope, patient="p1" if "patient/" in scope else None)


SCOPES = ["system/DocumentReference.rs", "system/Patient.s", "patient/DocumentReference.rs"]


def test_everything_needs_the_scope_to_read_patients(app):
    for scope in SCOPES:
        response = Fhir(app, token_of_p1(app, scope)).get(EVERYTHING)
        message = "The token's scope does not cover read of Patient."
        assert_outcome(response, 403, "forbidden", message)
        assert 'scope="system/Patient.r"' in response.headers["WWW-Authenticate"]


READABLE = [
    ("system/Patient.r", {"Patient"}),
    ("patient/Patient.rs patient/AllergyIntolerance.rs", {"Patient", "AllergyIntolerance"}),
    # To search is not to read.
    ("patient/Patient.rs patient/AllergyIntolerance.s", {"Patient"}),
    ("user/Patient.rs system/DocumentReference.r", {"Patient", "DocumentReference"}),
]


def test_types_that_the_token_may_not_read_are_left_out(app, held):
    for scope, types in READABLE:
        bundle = Fhir(app, token_of_p1(app, scope)).read(EVERYTHING)
        own = {name for name in record(held, "p1") if name[0] in types}
        assert set(names(bundle)) == own
        assert bundle["total"] == len(own)
        # Nor does an origin tell of what it does not show.
        shown = {"/".join(name) for name in own}
        for entry in bundle["entry"]:
            if entry["resource"]["resourceType"] == "Provenance":
                assert {"/".join(target) for target in targets(entry["resource"])} <= shown


def test_resources_outside_the_scope_filter_are_left_out(app, held):
    scope = "patient/Patient.r patient/AllergyIntolerance.rs?criticality=high"
    bundle = Fhir(app, token_for(app, scope, patient="p1")).read(EVERYTHING)
    high = {
        name
        for name in record(held, "p1")
        if name[0] == "AllergyIntolerance" and held[name].get("criticality") == "high"
    }
    assert high
    assert set(names(bundle)) == {("Patient", "p1"), *high}
    assert bundle["total"] == len(high) + 1
    # An origin of two entries of which one is not high is not shown.
    assert ("Provenance", "prov-p1-list") not in names(bundle, "include")


def test_a_patient_that_the_filter_of_a_scope_does_not_find_is_unknown(app):
    fhir = Fhir(app, token_for(app, "system/Patient.rs?gender=male system/AllergyIntolerance.rs"))
    assert_outcome(fhir.get(EVERYTHING), 404, "not-found", "Patient/p1 is not known here.")
    assert fhir.get("Patient/p2/$everything").status_code == 200


def test_a_patient_that_was_deleted_is_gone(make_app):
    app = make_app(seed=False)
    publish(app, patient_named("p1"), now=FIRST)
    publish(app, allergy("stays"), now=FIRST)
    delete(app, "Patient", "p1", now=LATER)
    for fhir in (
        Fhir(app, token_for(app, "system/*.rs")),
        Fhir(app, token_for(app, "patient/*.rs", patient="p1")),
    ):
        assert_outcome(fhir.get(EVERYTHING), 410, "deleted", "Patient/p1 was deleted.")
    another = Fhir(app, token_for(app, "patient/*.rs", patient="p2"))
    assert_outcome(another.get(EVERYTHING), 404, "not-found", "Patient/p1 is not known here.")
