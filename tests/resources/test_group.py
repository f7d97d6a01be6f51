"""Group: read, searched, and only by whoever may see the records of more than one patient."""

from __future__ import annotations

import pytest

from fhirapp.definition import types
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.prepare import prepare
from tests.support.helpers import Fhir, token_for
from tests.support.resource_faults import faults

CLINIC, NEWBORNS = "grp-allergy-clinic", "grp-newborns"


FOUND = [
    ("", [NEWBORNS, CLINIC]), (f"_id={CLINIC}", [CLINIC]),
    ("identifier=http://lakeside.example/fhir/group|ALLERGY-CLINIC", [CLINIC]),
    ("member=Patient/p2", [CLINIC]), ("member=p2", [CLINIC]), ("member:Patient=p6", [CLINIC]),
    ("member=p4", []), ("type=person", [NEWBORNS, CLINIC]),
    ("type=http://hl7.org/fhir/group-type|animal", []), ("actual=true", [CLINIC]),
    ("code=roster", [CLINIC]), ("managing-entity=org-harbor", [CLINIC]),
    ("characteristic=76689-9", [NEWBORNS]), ("value=female", [NEWBORNS]),
    ("value=true", [NEWBORNS]), ("exclude=true", [NEWBORNS]),
    ("_include=Group:member", [NEWBORNS, CLINIC]),
]  # fmt: skip


def test_a_search_finds(fhir):
    for query, found in FOUND:
        assert fhir.ids(f"Group?{query}") == found


def test_members_come_with_it(fhir):
    bundle = fhir.read(f"Group?_id={CLINIC}&_include=Group:member")
    included = {entry["resource"]["id"] for entry in bundle["entry"][1:]}
    assert included == {"p1", "p2", "p3", "p6", "p8"}


GROUP_PATHS = [f"Group/{CLINIC}", f"Group/{CLINIC}/_history", f"Group/{CLINIC}/_history/1"]


def test_a_patient_sees_no_group_though_a_member(as_patient, fhir):
    for path in GROUP_PATHS:
        assert fhir.get(path).status_code == 200
        assert as_patient("p1").get(path).status_code == 404
        assert as_patient("p1").ids("Group") == []
        assert as_patient("p1").ids("Group?member=p1") == []


def test_a_scope_on_the_type_shows_it_and_no_other_does(app):
    for context in ("system", "user"):
        assert Fhir(app, token_for(app, f"{context}/Group.rs")).ids("Group") == [NEWBORNS, CLINIC]
        assert Fhir(app, token_for(app, f"{context}/Patient.rs")).get("Group").status_code == 403


def test_invalid_elements_of_a_group_are_reported(app):
    wrong = {
        "resourceType": "Group",
        "id": "wrong",
        "type": "people",
        "quantity": -1,
        "characteristic": [{"code": {"text": "x"}, "valueBoolean": True, "valueRange": {}}],
        "member": [{"inactive": "no"}],
    }
    found = {path.partition("[")[0] for path in faults(app, wrong)}
    assert found == {"type", "actual", "quantity", "characteristic", "member"}
    definition = types(app)["Group"]
    with pytest.raises(InvalidResource), app.app_context():
        prepare(definition, wrong)
