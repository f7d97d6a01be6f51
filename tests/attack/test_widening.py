"""Requests that must not widen an answer, and records that must not reach the wrong patient."""

from __future__ import annotations

import pytest

from tests.support.contract import allergy, publish
from tests.support.helpers import Fhir, assert_outcome, token_for

FORM = "application/x-www-form-urlencoded"
SEARCH = "AllergyIntolerance/_search"
FIRST, SECOND = "2026-02-01T00:00:00.000+00:00", "2026-02-02T00:00:00.000+00:00"


def test_form_that_is_not_utf_8_or_is_compressed_is_refused(fhir):
    """Werkzeug would drop the form, and the search would be of all patients."""
    response = fhir.post(SEARCH, b"patient=p1&code=\xfc", content_type=FORM)
    assert_outcome(response, 400, "value", "request: the parameters are not UTF-8", "request")
    encoded = {"Content-Encoding": "gzip"}
    response = fhir.post(SEARCH, b"patient=p1", content_type=FORM, headers=encoded)
    assert response.status_code == 415
    assert response.get_json(force=True)["issue"][0]["code"] == "not-supported"


def test_search_takes_a_limited_number_of_values(fhir):
    for query, parameter, message in (
        ("code=" + ",".join(f"c{n}" for n in range(201)), "code", "200 values in a search"),
        ("&".join(f"code=c{n}" for n in range(31)), "code", "30 conditions in a search"),
        ("x" * 100_000 + "=1", "x" * 40, "is longer than any parameter's name"),
        ("&".join(f"code=c{n}" for n in range(201)), "request", "more than 200 parameters"),
    ):
        response = fhir.post(SEARCH, query.encode(), content_type=FORM)
        assert response.status_code == 400
        issue = response.get_json(force=True)["issue"][0]
        assert issue["expression"] == [f"http.{parameter}"]
        assert message in issue["diagnostics"]
    for query in (
        "_id=" + ",".join(["al-p1-latex"] * 150),
        "code=" + ",".join(f"http://snomed.info/sct|{n}" for n in range(200)),
        "&".join(f"code=c{n}" for n in range(30)),
    ):
        assert fhir.post(SEARCH, query.encode(), content_type=FORM).status_code == 200


@pytest.mark.parametrize("modifier", ["bogus", "not"])
def test_modifier_on_a_closed_range_is_refused(fhir, modifier):
    name = f"date:{modifier}"
    response = fhir.get(f"AllergyIntolerance?{name}=ge2024-01-01&{name}=lt2024-02-01")
    message = f"{name}: the modifier is not supported on a date parameter here"
    assert_outcome(response, 400, "not-supported", message, name)


def test_record_that_was_filed_to_the_wrong_patient_leaves_that_patients_reach(make_app):
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
    system = Fhir(app, token_for(app, "system/*.rs"))
    assert system.read("AllergyIntolerance/moved/_history/1")


def test_version_times_rise_even_where_the_clock_does_not(make_app):
    app = make_app(seed=False)
    publish(app, allergy("late", criticality="low"), now=SECOND)
    publish(app, allergy("late", criticality="high"), now=FIRST)
    meta = Fhir(app, token_for(app, "system/*.rs")).read("AllergyIntolerance/late")["meta"]
    assert meta == {**meta, "versionId": "2", "lastUpdated": "2026-02-02T00:00:00.001+00:00"}


def test_no_url_is_of_a_host_that_the_client_names(http):
    response = http.get("/fhir//AllergyIntolerance", headers={"Host": "evil.example"})
    assert response.status_code == 404
    assert "evil" not in f"{response.text}{response.headers}"


def test_coded_elements_that_are_implied_are_filled_in(make_app):
    app = make_app(seed=False)
    coding = {"system": "http://snomed.info/sct", "code": "409137002"}
    publish(app, allergy("nkda", code={"coding": [coding]}), now=FIRST)
    publish(app, {"resourceType": "DocumentReference", "id": "d", "status": "current"}, now=FIRST)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    # "No known drug allergy" cannot be assessed.
    assert fhir.read("AllergyIntolerance/nkda")["criticality"] == "unable-to-assess"
    assert fhir.ids("DocumentReference?category=clinical-note") == ["d"]


def test_query_that_names_no_patient_is_answered_within_the_tokens_own(as_patient, fhir):
    own = set(fhir.ids("AllergyIntolerance?patient=p1"))
    for query in ("patient:missing=false", "patient:identifier=urn:ids|1"):
        everybodys = set(fhir.ids(f"AllergyIntolerance?{query}"))
        found = set(as_patient("p1").ids(f"AllergyIntolerance?{query}"))
        assert found == everybodys & own
