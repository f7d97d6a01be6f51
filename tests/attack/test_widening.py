"""What must never widen an answer, nor let a token see more than it may: found by trying to."""

from __future__ import annotations

import pytest

from fhirapp.auth.clients.administration import RefusedCommand
from tests.support.contract import allergy, publish
from tests.support.helpers import Fhir, assert_outcome, token_for

FORM = "application/x-www-form-urlencoded"
SEARCH = "AllergyIntolerance/_search"
FIRST, SECOND = "2026-02-01T00:00:00.000+00:00", "2026-02-02T00:00:00.000+00:00"


def test_a_form_that_is_no_utf_8_is_refused_whole(fhir):
    """Werkzeug would drop the form, and the search would be of all patients."""
    response = fhir.post(SEARCH, b"patient=p1&code=\xfc", content_type=FORM)
    assert_outcome(response, 400, "value", "request: the parameters are not UTF-8", "request")


def test_a_compressed_form_is_refused(fhir):
    response = fhir.post(
        SEARCH, b"patient=p1", content_type=FORM, headers={"Content-Encoding": "gzip"}
    )
    message = "A search by POST takes a body without Content-Encoding."
    assert_outcome(response, 415, "not-supported", message)


@pytest.mark.parametrize(
    ("query", "parameter", "message"),
    [
        ("code=" + ",".join(f"c{n}" for n in range(201)), "code", "200 values in a search"),
        ("&".join(f"code=c{n}" for n in range(31)), "code", "30 conditions in a search"),
        ("x" * 100_000 + "=1", "x" * 40, "is longer than any parameter's name"),
        ("&".join(f"code=c{n}" for n in range(201)), "request", "more than 200 parameters"),
    ],
)
def test_more_values_than_a_search_takes_are_refused(fhir, query, parameter, message):
    response = fhir.post(SEARCH, query.encode(), content_type=FORM)
    assert response.status_code == 400
    issue = response.get_json(force=True)["issue"][0]
    assert issue["expression"] == [f"http.{parameter}"]
    assert message in issue["diagnostics"]


@pytest.mark.parametrize(
    "query",
    [
        "_id=" + ",".join(["al-p1-latex"] * 150),
        "code=" + ",".join(["http://snomed.info/sct|x"] * 150),
        "code=" + ",".join(f"http://snomed.info/sct|{n}" for n in range(200)),
        "&".join(f"code=c{n}" for n in range(30)),
    ],
)
def test_as_many_values_as_a_search_takes_are_answered(fhir, query):
    assert fhir.post(SEARCH, query.encode(), content_type=FORM).status_code == 200


@pytest.mark.parametrize("modifier", ["bogus", "not"])
def test_a_modifier_on_a_closed_range_is_refused(fhir, modifier):
    name = f"date:{modifier}"
    response = fhir.get(f"AllergyIntolerance?{name}=ge2024-01-01&{name}=lt2024-02-01")
    message = f"{name}: the modifier is not supported on a date parameter here"
    assert_outcome(response, 400, "not-supported", message, name)


def test_a_record_that_was_filed_to_the_wrong_patient_leaves_that_patients_reach(make_app):
    app = make_app(seed=False)
    patients = [{"resourceType": "Patient", "id": name} for name in ("wrong", "right")]
    publish(app, *patients, now=FIRST)
    publish(app, {**allergy("moved"), "patient": {"reference": "Patient/wrong"}}, now=FIRST)
    publish(app, {**allergy("moved"), "patient": {"reference": "Patient/right"}}, now=SECOND)
    wrong, right = (
        Fhir(app, token_for(app, "patient/*.rs", patient=name)) for name in ("wrong", "right")
    )
    for tail in ("", "/_history", "/_history/1", "/_history/2"):
        assert wrong.get(f"AllergyIntolerance/moved{tail}").status_code == 404
    assert wrong.read("AllergyIntolerance")["total"] == 0
    assert right.ids("AllergyIntolerance") == ["moved"]
    # Nor does the right patient read to whom it was filed.
    assert right.get("AllergyIntolerance/moved/_history/1").status_code == 404
    assert Fhir(app, token_for(app, "system/*.rs")).read("AllergyIntolerance/moved/_history/1")


def test_versions_rise_in_time_even_where_the_clock_does_not(make_app):
    app = make_app(seed=False)
    publish(app, allergy("late", criticality="low"), now=SECOND)
    publish(app, allergy("late", criticality="high"), now=FIRST)
    meta = Fhir(app, token_for(app, "system/*.rs")).read("AllergyIntolerance/late")["meta"]
    assert meta == {**meta, "versionId": "2", "lastUpdated": "2026-02-02T00:00:00.001+00:00"}


def test_a_host_that_the_client_names_decides_no_address(http):
    response = http.get("/fhir//AllergyIntolerance", headers={"Host": "evil.example"})
    message = "There is no such resource type or operation here."
    assert_outcome(response, 404, "not-supported", message)


def test_no_known_drug_allergy_cannot_be_assessed(make_app):
    app = make_app(seed=False)
    coding = {"system": "http://snomed.info/sct", "code": "409137002"}
    publish(app, allergy("nkda", code={"coding": [coding]}), now=FIRST)
    found = Fhir(app, token_for(app, "system/*.rs")).read("AllergyIntolerance/nkda")
    assert found["criticality"] == "unable-to-assess"


def test_a_document_without_a_category_is_found_as_a_clinical_note(make_app):
    app = make_app(seed=False)
    publish(app, {"resourceType": "DocumentReference", "id": "d", "status": "current"}, now=FIRST)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    assert fhir.ids("DocumentReference?category=clinical-note") == ["d"]


@pytest.mark.parametrize("query", ["patient:missing=false", "patient:identifier=urn:ids|1"])
def test_what_names_no_patient_is_answered_within_the_tokens_own(as_patient, fhir, query):
    """These were refused as if they named another patient."""
    everybodys = set(fhir.ids(f"AllergyIntolerance?{query}"))
    own = set(fhir.ids("AllergyIntolerance?patient=p1"))
    assert set(as_patient("p1").ids(f"AllergyIntolerance?{query}")) == everybodys & own


@pytest.mark.parametrize(
    "scope",
    [
        "system/Provenance.rs?recorded=gt2025",
        "system/Practitioner.rs?name=novak",
        "system/Binary.rs?_id=x",
    ],
)
def test_a_filter_on_a_type_that_others_decide_of_is_refused(app, scope):
    """It would be dropped: who may see these does not hang on scopes of their own."""
    with pytest.raises(RefusedCommand):
        token_for(app, scope)


def test_a_provenance_of_a_provenance_that_may_not_be_seen_is_not_shown(make_app):
    app = make_app()
    agent = [{"who": {"reference": "Organization/org-lakeside"}}]
    publish(
        app,
        {
            "resourceType": "Provenance",
            "id": "second",
            "target": [{"reference": "Provenance/prov-p4-nkda"}],
            "recorded": FIRST,
            "agent": agent,
        },
        now=FIRST,
    )
    for patient, status, found in (("p4", 200, {"second"}), ("p1", 404, set())):
        fhir = Fhir(app, token_for(app, "patient/*.rs", patient=patient))
        assert fhir.get("Provenance/second").status_code == status
        assert set(fhir.ids("Provenance")) & {"second"} == found


def test_the_total_of_provenances_says_nothing_of_others(as_patient):
    fhir = as_patient("p1")
    assert fhir.read("Provenance?agent=Organization/org-meridian")["total"] == 0
    assert fhir.read("Provenance?_summary=count")["total"] == len(fhir.ids("Provenance")) == 5
