"""`_id:not`: resources with other ids. FHIR R4 search §3.1.1.4.4, §3.1.1.4.10."""

from __future__ import annotations

import pytest

from fhirapp.audit.entries import RECORDS, entries, patients_named_by
from tests.support.helpers import Fhir, assert_outcome, link, token_for

ALLERGY = "AllergyIntolerance"
LATEX, SULFA = "al-p1-latex", "al-p1-sulfa"


@pytest.fixture(scope="module")
def all_ids(app) -> set[str]:
    return set(Fhir(app, token_for(app, "system/*.rs")).ids(f"{ALLERGY}?_count=1000"))


LEFT_OUT = [
    (f"_id:not={LATEX}", {LATEX}),
    (f"_id:not={LATEX},{SULFA}", {LATEX, SULFA}),
    (f"_id:not={LATEX}&_id:not={SULFA}", {LATEX, SULFA}),
    (f"_id:not={LATEX},{LATEX},,", {LATEX}),
    ("_id:not=nobodys", set()),
    ("_id:not=AL-P1-LATEX", set()),
    (f"_id:not={LATEX}&_id:not=nobodys", {LATEX}),
]


def test_id_not_excludes_the_listed_ids(fhir, all_ids):
    for query, left_out in LEFT_OUT:
        found = fhir.read(f"{ALLERGY}?{query}&_count=1000")
        assert {entry["resource"]["id"] for entry in found["entry"]} == all_ids - left_out
        assert found["total"] == len(all_ids - left_out)


def test_beside_other_parameters_all_hold(fhir):
    own = set(fhir.ids(f"{ALLERGY}?patient=p1"))
    assert set(fhir.ids(f"{ALLERGY}?patient=p1&_id:not={LATEX}")) == own - {LATEX}
    assert fhir.ids(f"{ALLERGY}?_id={LATEX},{SULFA}&_id:not={LATEX}") == [SULFA]
    assert fhir.ids(f"{ALLERGY}?_id={LATEX}&_id:not={LATEX}") == []


def test_id_not_works_in_chains_and_has(fhir, all_ids):
    own = set(fhir.ids(f"{ALLERGY}?patient=p1"))
    assert set(fhir.ids(f"{ALLERGY}?patient._id:not=p1&_count=1000")) == all_ids - own
    has = f"_has:{ALLERGY}:patient:_id:not={','.join(sorted(all_ids - own))}"
    assert fhir.ids(f"Patient?{has}") == ["p1"]


def test_id_not_is_paged(fhir, all_ids):
    """With _id all is on one page: decisions 2.5."""
    page = fhir.read(f"{ALLERGY}?_id:not={LATEX}&_count=2")
    assert len(page["entry"]) == 2
    seen = {entry["resource"]["id"] for entry in page["entry"]}
    while following := link(page, "next"):
        page = fhir.read(following)
        seen |= {entry["resource"]["id"] for entry in page["entry"]}
    assert seen == all_ids - {LATEX}


NAMING_NONE = [f"_id:not={LATEX}", "_id:missing=false", "patient:missing=false"]


def test_id_not_does_not_satisfy_a_required_patient(fhir):
    for query in NAMING_NONE:
        refused = fhir.get(f"{ALLERGY}?{query}", headers={"Prefer": "handling=strict"})
        message = "patient: is required when _id is not given"
        assert_outcome(refused, 400, "required", message, "patient")


def test_id_not_stays_within_the_access_of_the_token(as_patient, fhir):
    own = set(fhir.ids(f"{ALLERGY}?patient=p1"))
    assert set(as_patient("p1").ids(f"{ALLERGY}?_id:not={LATEX}")) == own - {LATEX}


def test_id_not_filters_a_scope(app):
    narrow = Fhir(app, token_for(app, f"system/{ALLERGY}.rs?_id:not={LATEX}"))
    assert LATEX not in narrow.ids(f"{ALLERGY}?_count=1000")
    assert narrow.get(f"{ALLERGY}/{LATEX}").status_code == 404
    assert narrow.get(f"{ALLERGY}/{SULFA}").status_code == 200


def test_excluded_patient_is_not_named_in_the_audit_trail(own_app, watched):
    watched.get("Patient?_id:not=p1&_count=1&_elements=id&_id=p2")
    with own_app.app_context():
        (entry,) = entries(kind=RECORDS, limit=1)
        assert patients_named_by([entry.number])[entry.number] == ["p2"]
