"""`DocumentReference/$docref`: the documents of a patient. US Core 6.1.0.

How it is asked, and what it refuses: test_operations.py, test_operation_errors.py.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import pytest
from flask import Flask

from tests.support.contract import delete, publish
from tests.support.evaluator import covered
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, ids, token_for
from tests.support.operations import (
    ASKED,
    DOCREF,
    LOINC,
    PERIODS,
    document,
    is_cared_for,
    parameters,
    post,
)

PROFILE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference"
FIRST, LATER = "2026-03-01T00:00:00.000+00:00", "2026-03-02T00:00:00.000+00:00"

DATES = (None, "2024-03-01T09:30:00+00:00", "2023-06-01T00:00:00+00:00")


@pytest.fixture(scope="module")
def dated(make_app: Callable[..., Flask]) -> Flask:
    """An app with a document for each way to tell when its care was."""
    app = make_app(seed=False)
    publish(
        app,
        *(
            document(f"d{number}", **period, **({"date": date} if date else {}))
            for number, (period, date) in enumerate(product(PERIODS, DATES))
        ),
        now=FIRST,
    )
    return app


@pytest.mark.parametrize("start", ASKED)
def test_documents_of_care_in_a_time_are_those_that_a_reader_would_pick(dated, start):
    fhir = Fhir(dated, token_for(dated, "system/*.rs"))
    bundle = fhir.read("DocumentReference?patient=p1")
    held = [entry["resource"] for entry in bundle["entry"]]
    assert len(held) == len(PERIODS) * len(DATES)
    for end in ASKED:
        query = {"patient": "p1", "start": start, "end": end}
        response = fhir.get(DOCREF, query_string={k: v for k, v in query.items() if v})
        if start and end and covered(start)[0] >= covered(end)[1]:
            assert_outcome(response, 400, "value", "end: lies before start", "end")
            continue
        picked = [
            resource["id"] for resource in held if is_cared_for(resource, start, end, undated=False)
        ]
        assert ids(response.get_json(force=True)) == picked, (start, end)


FOUND = [
    # Newest first; the error is not there, nor what has been superseded.
    ("patient=p7", ["doc-p7-consult-2024", "doc-p7-ed-2024"]),
    ("patient=Patient/p7", ["doc-p7-consult-2024", "doc-p7-ed-2024"]),
    ("patient=p12&start=2023-05-16&end=2023-05-16&type=18842-5",
     ["doc-p12-discharge-2023-corrected"]),
    ("patient=p9", ["doc-p9-lab-2025-10", "doc-p9-lab-2025-03", "doc-p9-lab-2024"]),
    # By context.period, though the report is dated days later.
    ("patient=p2&type=11526-1&end=2023-06-13", ["doc-p2-pathology-2023"]),
    ("patient=p2&type=11526-1&start=2023-06-14", []),
    # By date, where there is no period.
    ("patient=p9&start=2025-10-14&end=2025-10-14", ["doc-p9-lab-2025-10"]),
    (f"patient=p1&type={LOINC}|18842-5&type=34117-2",
     ["doc-p1-discharge-2024", "doc-p1-hp-2024"]),
    (f"patient=p1&type={LOINC}|18842-5,34117-2",
     ["doc-p1-discharge-2024", "doc-p1-hp-2024"]),
    ("patient=p1&type=http://other.example|18842-5", []),
    ("patient=p1&type=|18842-5", []),
    (f"patient=p10&type={LOINC}|", ["doc-p10-lab-2025", "doc-p10-lab-2024"]),
    (f"patient=p10&profile={PROFILE}", []),
    (f"patient=p7&profile={PROFILE}", ["doc-p7-consult-2024", "doc-p7-ed-2024"]),
    (f"patient=p7&profile=http://x.example&profile={PROFILE}&type=34111-5",
     ["doc-p7-ed-2024"]),
    # Nothing is made on demand.
    ("patient=p7&on-demand=true", []),
    ("patient=p7&on-demand=false&type=34111-5", ["doc-p7-ed-2024"]),
    # US Core: if there is no match, an empty Bundle is returned.
    ("patient=nobody", []),
    ("patient=p7&type=34111-5,", ["doc-p7-ed-2024"]),
    # What has no value asks nothing.
    ("patient=p7&start=&end=&type=34111-5&profile=&on-demand=", ["doc-p7-ed-2024"]),
]  # fmt: skip


def test_the_current_documents_that_fit_are_found(fhir):
    for query, found in FOUND:
        bundle = fhir.read(f"{DOCREF}?{query}")
        assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "searchset")
        assert ids(bundle) == found
        assert bundle["total"] == len(found)
        assert ("entry" in bundle) == bool(found)


def test_a_document_is_answered_as_it_is_read(fhir):
    for entry in fhir.read(f"{DOCREF}?patient=p1")["entry"]:
        resource = entry["resource"]
        assert entry["fullUrl"] == f"{BASE_URL}/fhir/DocumentReference/{resource['id']}"
        assert entry["search"] == {"mode": "match"}
        assert resource == fhir.read(f"DocumentReference/{resource['id']}")
        for content in resource.get("content", ()):
            assert content["attachment"]["url"].startswith(f"{BASE_URL}/fhir/Binary/")


ANOTHER = "patient: the token is for one patient, and this is another."


def test_a_patients_token_asks_for_its_own_patient_alone(as_patient, fhir):
    for patient in ["p2", "Patient/p2", "nobody"]:
        own = as_patient("p1")
        assert own.read(f"{DOCREF}?patient=p1") == fhir.read(f"{DOCREF}?patient=p1")
        refused = own.get(f"{DOCREF}?patient={patient}")
        assert_outcome(refused, 403, "forbidden", ANOTHER, "patient")
        assert 'error="insufficient_scope"' in refused.headers["WWW-Authenticate"]
        by_post = post(own, DOCREF, parameters(("patient", "valueId", patient)))
        assert_outcome(by_post, 403, "forbidden", ANOTHER, "patient")


SCOPES = ["system/DocumentReference.r", "system/AllergyIntolerance.rs", "system/Patient.rs"]


def test_docref_needs_the_scope_to_search_documents(app):
    for scope in SCOPES:
        refused = Fhir(app, token_for(app, scope)).get(f"{DOCREF}?patient=p1")
        message = "The token's scope does not cover search of DocumentReference."
        assert_outcome(refused, 403, "forbidden", message)
        assert 'scope="system/DocumentReference.s"' in refused.headers["WWW-Authenticate"]


SEEN = [
    ("system/DocumentReference.s", None, 9),
    (f"system/DocumentReference.rs?type={LOINC}|34117-2", None, 1),
    (f"patient/DocumentReference.rs?type={LOINC}|34117-2", "p1", 1),
    ("user/DocumentReference.rs?status=superseded", None, 0),
    ("patient/DocumentReference.rs system/DocumentReference.rs", "p2", 9),
    (f"patient/DocumentReference.rs system/DocumentReference.rs?type={LOINC}|34117-2", "p2", 1),
]


def test_docref_counts_only_documents_in_scope(app):
    for scope, patient, found in SEEN:
        bundle = Fhir(app, token_for(app, scope, patient=patient)).read(f"{DOCREF}?patient=p1")
        assert (bundle["total"], len(ids(bundle))) == (found, found)


def test_deleted_or_moved_document_is_not_found(make_app):
    app = make_app(seed=False)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    publish(app, *(document(row_id) for row_id in ("stays", "gone", "moved")), now=FIRST)
    delete(app, "DocumentReference", "gone", now=LATER)
    publish(app, document("moved", patient="p2"), now=LATER)
    assert ids(fhir.read(f"{DOCREF}?patient=p1")) == ["stays"]
    assert ids(fhir.read(f"{DOCREF}?patient=p2")) == ["moved"]
    own = Fhir(app, token_for(app, "patient/*.rs", patient="p1"))
    assert ids(own.read(f"{DOCREF}?patient=p1")) == ["stays"]
