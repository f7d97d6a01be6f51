"""A patient who signed in sees their own record, and nothing else, in every way there is.

decisions §6. What belongs to whom is worked out from the records themselves (contract.owned).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import PATIENT
from tests.support.authorizing import Flow, add_person, add_program
from tests.support.contract import SERVED, TYPES, Held, addresses, owned, publish, versions_held
from tests.support.helpers import FHIR_JSON, Fhir, assert_outcome, link

JSON = {"Accept": FHIR_JSON}
NO_OTHER = "the token is for one patient, and this is another."


@pytest.fixture(scope="module")
def records(make_app: Callable[..., Flask]) -> Flask:
    """Return a seeded app of these tests' own, where p1 has a related person too."""
    app = make_app()
    spouse = {"resourceType": "RelatedPerson", "id": "rp-p1"}
    spouse["patient"] = {"reference": "Patient/p1"}
    publish(app, spouse, now="2026-02-01T00:00:00.000+00:00")
    return app


@pytest.fixture(scope="module")
def held(records: Flask) -> Held:
    """Return all that it holds."""
    return versions_held(records)


@pytest.fixture(scope="module")
def fhir(records: Flask) -> Fhir:
    """Return what an app sees that a patient, p1, allowed all they can."""
    flow = Flow(records, add_program(records), add_person(records, PATIENT, "p1"))
    return flow.fhir("openid fhirUser launch/patient patient/*.rs offline_access")


@pytest.mark.parametrize("definition", TYPES)
def test_each_address_of_the_records_of_others_is_not_known(fhir, held, definition):
    own = owned(held, "p1")
    for row_id, versions in held[definition.name].items():
        for path in addresses(definition, row_id):
            if path == definition.name:
                continue
            answer = fhir.get(path, headers=JSON)
            name = path.removesuffix("/_history")
            if (definition.name, row_id) not in own:
                assert_outcome(answer, 404, "not-found", f"{name} is not known here.")
            elif versions[-1] is not None:
                assert answer.status_code == 200, path


# What an answer has that is no record.
MADE = ("OperationOutcome", "Composition", "Device")


def resources_of(fhir: Fhir, path: str) -> Iterator[dict[str, Any]]:
    """Give each resource of a Bundle and of the pages after it."""
    following: str | None = path
    while following is not None:
        bundle = fhir.read(following)
        for entry in bundle.get("entry", ()):
            if "resource" in entry:
                yield entry["resource"]
        following = link(bundle, "next")


_ALLERGY, _DOCUMENT = "AllergyIntolerance", "DocumentReference"


@pytest.mark.parametrize(
    "path",
    [
        *[name for name, one in SERVED.items() if one.searchable],
        *[f"{name}/_history" for name, one in SERVED.items() if "history-type" in one.interactions],
        "/api/AllergyIntolerance",
        f"{_ALLERGY}?_id=al-p1-sulfa,al-p2-morphine",
        f"{_ALLERGY}?_include={_ALLERGY}:*&_revinclude=Provenance:target",
        f"{_ALLERGY}?_count=1&_include={_ALLERGY}:*&_revinclude=Provenance:target",
        f"{_DOCUMENT}?_include={_DOCUMENT}:*&_revinclude=Provenance:target",
        f"{_DOCUMENT}?_include={_DOCUMENT}:relatesto&_include={_DOCUMENT}:related",
        f"{_DOCUMENT}?_content=the",
        "Encounter?_include=Encounter:*",
        "Patient?_include=Patient:*&_revinclude=Provenance:target",
        "Provenance?_include=Provenance:target",
        "Provenance?_include=Provenance:*",
        "Patient?_revinclude=*&_revinclude:iterate=*&_include:iterate=*",
        "Encounter?_revinclude=*",
        "/fhir",
        "/fhir?_count=3",
        "_history",
        "Patient/p1/*",
        "Patient/p1/Provenance",
        "Patient/p1/$everything",
        "Patient/p1/$everything?_count=3",
        "Patient/p1/$summary",
        f"{_DOCUMENT}/$docref?patient=p1",
        f"{_DOCUMENT}/$docref?patient=p1&on-demand=false&_count=2",
    ],
)
def test_no_bundle_holds_anything_of_others(fhir, held, path):
    own = owned(held, "p1")
    found = {
        (one["resourceType"], one["id"])
        for one in resources_of(fhir, path)
        if one["resourceType"] not in MADE
    }
    assert found <= own
    assert found or path.startswith(("Binary", "Group", "Patient/p1/Provenance"))


@pytest.mark.parametrize(
    ("path", "parameter"),
    [
        (f"{_ALLERGY}?patient=p2", "patient"),
        (f"{_ALLERGY}?patient=Patient/p1,Patient/p2", "patient"),
        (f"{_DOCUMENT}?subject=Patient/p2", "subject"),
        (f"{_DOCUMENT}/$docref?patient=p2", "patient"),
        (f"{_ALLERGY}/$summary?patient=p2", "patient"),
        (f"{_ALLERGY}?patient=p2&_summary=count", "patient"),
    ],
)
def test_another_patient_cannot_be_named(fhir, path, parameter):
    assert_outcome(fhir.get(path), 403, "forbidden", f"{parameter}: {NO_OTHER}", parameter)


@pytest.mark.parametrize("operation", ["everything", "summary"])
def test_another_patients_record_is_not_known(fhir, operation):
    answer = fhir.get(f"Patient/p2/${operation}")
    assert_outcome(answer, 404, "not-found", "Patient/p2 is not known here.")


def test_no_count_tells_of_others(fhir, held):
    own = owned(held, "p1")
    for name, definition in SERVED.items():
        if definition.searchable:
            there = {
                row_id
                for row_id, versions in held[name].items()
                if (name, row_id) in own and versions[-1] is not None
            }
            assert fhir.read(f"{name}?_summary=count")["total"] == len(there)


def test_nothing_of_others_is_found_by_what_it_says(fhir, held):
    """A search that only another's record meets answers as one that none meets."""
    assert fhir.read(f"{_ALLERGY}?_id=al-p2-morphine")["total"] == 0
    assert fhir.read("Provenance?target=AllergyIntolerance/al-p2-morphine")["total"] == 0
    others = held[_ALLERGY]["al-p2-morphine"][-1]
    text = others["code"]["text"]
    assert fhir.read(f"{_ALLERGY}?code:text={text}")["total"] == 0
