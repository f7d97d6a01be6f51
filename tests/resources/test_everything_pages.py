"""The pages of a record: what is there throughout stands on exactly one, whatever changes.

Source: decisions §3; FHIR R4 operation-patient-everything.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.contract import allergy, delete, publish
from tests.support.effort import sample
from tests.support.helpers import Fhir, assert_outcome, link, token_for
from tests.support.operations import EVERYTHING, document, encounter, names, pages, patient_named

FIRST, LATER = "2026-03-01T00:00:00.000+00:00", "2026-03-02T00:00:00.000+00:00"

MAKERS: dict[str, Callable[..., dict[str, Any]]] = {
    "AllergyIntolerance": allergy,
    "DocumentReference": document,
    "Encounter": encounter,
}
_patients = (f"walker-{number}" for number in count())
CHANGES = st.lists(
    st.lists(
        st.tuples(
            st.sampled_from(["change", "create", "delete", "move", "patient"]),
            st.sampled_from(sorted(MAKERS)),
            st.integers(0, 3),
        ),
        max_size=4,
    ),
    max_size=8,
)


@pytest.fixture(scope="module")
def walked(make_app: Callable[..., Flask]) -> Flask:
    """An app that each walk fills for a patient of its own."""
    return make_app(seed=False)


@settings(
    max_examples=sample(5, 30),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(size=st.integers(1, 4), page_size=st.integers(1, 4), changes=CHANGES)
def test_unchanged_resource_is_on_exactly_one_page(walked, size, page_size, changes):
    patient = next(_patients)
    fhir = Fhir(walked, token_for(walked, "patient/*.rs", patient=patient))
    there = {("Patient", patient)}
    publish(walked, patient_named(patient), now=FIRST)
    for name, make in MAKERS.items():
        ids = [f"{patient}-{number}" for number in range(size)]
        publish(walked, *(make(row_id, patient) for row_id in ids), now=FIRST)
        there |= {(name, row_id) for row_id in ids}
    seen: list[tuple[str, str]] = []
    asked: str | None = f"Patient/{patient}/$everything?_count={page_size}"
    steps = iter(changes)
    while asked is not None:
        page = fhir.read(asked)
        seen += names(page)
        asked = link(page, "next")
        for kind, name, number in next(steps, ()):
            row_id = f"{patient}-{number}"
            meta = {"meta": {"source": f"http://x.example/{len(seen)}"}}
            if kind == "patient":
                publish(walked, {**patient_named(patient), **meta}, now=LATER)
            elif kind == "create":
                publish(walked, MAKERS[name](f"{row_id}-{len(seen)}", patient), now=LATER)
            elif (name, row_id) in there and kind == "change":
                publish(walked, MAKERS[name](row_id, patient, **meta), now=LATER)
            elif (name, row_id) in there:
                there.discard((name, row_id))
                if kind == "delete":
                    delete(walked, name, row_id, now=LATER)
                else:
                    publish(walked, MAKERS[name](row_id, f"{patient}-other"), now=LATER)
    assert len(seen) == len(set(seen))
    assert there <= set(seen)


def test_a_page_shows_resources_as_they_are_now(make_app):
    app = make_app(seed=False)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    publish(app, patient_named("p1"), now=FIRST)
    publish(app, *(allergy(row_id) for row_id in "abc"), now=FIRST)
    first = fhir.read(f"{EVERYTHING}?_count=2")
    publish(app, allergy("b", criticality="high"), now=LATER)
    publish(app, allergy("c", "p2"), now=LATER)
    second = fhir.read(link(first, "next") or "")
    assert names(second) == [("AllergyIntolerance", "b")]
    resource = second["entry"][0]["resource"]
    assert (resource["meta"]["versionId"], resource["criticality"]) == ("2", "high")
    assert second["total"] == 3
    assert link(second, "next") is None


def test_a_type_that_is_out_of_reach_on_a_later_page_repeats_none(make_app):
    """A client may go on with a new token, which reaches less."""
    app = make_app(seed=False)
    publish(app, patient_named("p1"), now=FIRST)
    publish(app, *(allergy(row_id) for row_id in "abc"), now=FIRST)
    publish(app, *(encounter(row_id) for row_id in "de"), now=FIRST)
    first = Fhir(app, token_for(app, "system/*.rs")).read(f"{EVERYTHING}?_count=2")
    assert names(first) == [("Patient", "p1"), ("AllergyIntolerance", "a")]
    less = Fhir(app, token_for(app, "system/Patient.rs system/Encounter.rs"))
    assert names(less.read(link(first, "next") or "")) == [("Encounter", "d"), ("Encounter", "e")]


def test_a_cursor_of_another_record_or_question_is_a_400(fhir):
    cursor = (link(fhir.read(f"{EVERYTHING}?_count=2"), "next") or "").partition("_cursor=")[2]
    message = "_cursor: belongs to another search; start again from the first page"
    for path in (
        "Patient/p2/$everything?",
        f"{EVERYTHING}?_type=Patient&",
        f"{EVERYTHING}?start=2020&",
        "DocumentReference/$docref?patient=p1&",
        "AllergyIntolerance?patient=p1&",
    ):
        refused = fhir.get(f"{path}_count=2&_cursor={cursor}")
        assert_outcome(refused, 400, "value", message, "_cursor")
    tampered = f"{EVERYTHING}?_cursor={'B' if cursor[0] != 'B' else 'C'}{cursor[1:]}"
    message = "_cursor: is not one of this server's; start again from the first page"
    assert_outcome(fhir.get(tampered), 400, "value", message, "_cursor")
    # A page of another size, or written otherwise, is one of the same record.
    for shape in ("_count=3", "_pretty=false", "_format=json"):
        assert fhir.get(f"{EVERYTHING}?{shape}&_cursor={cursor}").status_code == 200


def doctor(row_id: str) -> dict[str, Any]:
    return {"resourceType": "Practitioner", "id": row_id}


def test_truncated_everything_is_a_warning(make_app, monkeypatch):
    monkeypatch.setattr("fhirapp.rest.include.MAX_INCLUDED", 40)
    app = make_app(seed=False)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    publish(app, patient_named("p1"), now=FIRST)
    everybody = [f"d{number:04}" for number in range(41)]
    publish(app, *map(doctor, everybody), now=FIRST)
    publish(
        app,
        *(
            document(
                f"n{at}",
                author=[
                    {"reference": f"Practitioner/{row_id}"} for row_id in everybody[at : at + 7]
                ],
            )
            for at in range(0, 41, 7)
        ),
        now=FIRST,
    )
    bundle = fhir.read(f"{EVERYTHING}?_count=1000")
    assert len(names(bundle)) == 7
    assert len(names(bundle, "include")) == 40
    (entry,) = [entry for entry in bundle["entry"] if entry["search"]["mode"] == "outcome"]
    message = "more belongs to these resources than is brought at once; read the rest"
    assert entry["resource"] == {
        "resourceType": "OperationOutcome",
        "issue": [{"severity": "warning", "code": "too-costly", "diagnostics": message}],
    }
    smaller = pages(fhir, f"{EVERYTHING}?_count=4")
    assert {name for page in smaller for name in names(page, "include")} == {
        ("Practitioner", row_id) for row_id in everybody
    }
