"""Resources in and out: what is refused, with the place of each fault; that nothing is lost."""

from __future__ import annotations

import pytest
from marshmallow import ValidationError

from fhirapp.definition import types
from fhirapp.fhir import json as fhir_json
from fhirapp.resources.allergy_intolerance.schema import AllergyIntoleranceSchema
from fhirapp.store.prepare import prepare
from tests.support.importing import ALLERGY, PATIENT
from tests.support.resource_faults import faults

DOCUMENT = {"resourceType": "DocumentReference", "id": "d", "status": "current"}
EXTENSION = {"url": "urn:x", "valueString": "y"}


def test_invalid_element_is_refused_with_its_path(app, subtests):
    for change, path in [
        ({"patient": None}, "patient"),
        ({"patient": {}}, "patient"),
        ({"patient": "Patient/one"}, "patient"),
        ({"patient": {"reference": ""}}, "patient.reference"),
        ({"patient": {"nonsense": "x"}}, "patient.nonsense"),
        ({"nonsense": 1}, "nonsense"),
        ({"clinicalStatus": {"text": "active"}}, "clinicalStatus.coding"),
        ({"category": "food"}, "category"),
        ({"category": [None]}, "category[0]"),
        ({"category": ["food", "stones"]}, "category[1]"),
        ({"reaction": [{"severity": "mild"}]}, "reaction[0].manifestation"),
        ({"reaction": [{"manifestation": [{}]}]}, "reaction[0].manifestation[0]"),
        ({"recordedDate": "2024-02-30"}, "recordedDate"),
        ({"onsetDateTime": "2024", "onsetString": "youth"}, "onsetString"),
        ({"onsetDateTime": "2024", "_onsetString": {"extension": [EXTENSION]}}, "_onsetString"),
        ({"note": [{"authorString": "a", "authorReference": {"display": "b"}, "text": "c"}]}, None),
        ({"extension": [{"valueString": "x"}]}, "extension[0].url"),
        ({"extension": [{"url": "u", "valueString": "x", "valueCode": "y"}]}, None),
        ({"contained": [{"resourceType": "Basic"}]}, "contained[0].id"),
        ({"meta": {"profile": "x"}}, "meta.profile"),
        ({"text": {"status": "generated"}}, "text.div"),
        ({"_recordedDate": None}, "_recordedDate"),
        ({"_recordedDate": {}}, "_recordedDate"),
        ({"_recordedDate": [{"id": "x"}]}, "_recordedDate"),
        ({"_recordedDate": {"extension": [{"valueCode": "x"}]}}, "_recordedDate.extension[0].url"),
        ({"_category": {"id": "x"}, "category": ["food"]}, "_category"),
        ({"_code": {"id": "x"}}, "_code"),
    ]:
        with subtests.test(change=change):
            found = faults(app, {**ALLERGY, **change})
            assert len(found) == 1
            assert found[0].startswith(path or next(iter(change)))
            if path:
                assert found == [path]


def test_required_element_cannot_be_left_out_by_an_empty_sibling(app, subtests):
    for sibling in [None, [], {}]:
        with subtests.test(sibling=sibling):
            without = {name: value for name, value in DOCUMENT.items() if name != "status"}
            assert faults(app, {**without, "_status": sibling})


def test_required_reference_cannot_be_replaced_by_an_extension(app):
    """Only primitives have a `_name`; without its patient the allergy would be in no record."""
    without = {name: value for name, value in ALLERGY.items() if name != "patient"}
    assert faults(app, {**without, "_patient": {"extension": [EXTENSION]}})


def test_required_primitive_may_be_an_extension_alone(app):
    without = {name: value for name, value in DOCUMENT.items() if name != "status"}
    assert prepare(types(app)["DocumentReference"], {**without, "_status": {"id": "x"}})


RICH = rb"""{
  "resourceType": "Patient", "id": "rich", "implicitRules": "urn:rules", "language": "es-MX",
  "meta": {"profile": ["urn:p"], "tag": [{"system": "urn:t", "code": "c"}], "source": "urn:s"},
  "contained": [{"resourceType": "Basic", "id": "c", "code": {"text": "x"}, "score": 1.50}],
  "extension": [{"url": "urn:a", "valueDecimal": 1.500}, {"url": "urn:n", "extension": [
    {"url": "b", "valueQuantity": {"value": 0.10, "unit": "mg"}}]}],
  "modifierExtension": [{"url": "urn:m", "valueBoolean": false}],
  "active": false, "_active": {"id": "a1"},
  "name": [{"given": ["Ana", null], "_given": [null, {"extension": [
    {"url": "urn:masked", "valueCode": "masked"}]}], "family": "Ruiz", "_family": {"id": "f"}}],
  "gender": "female", "birthDate": "1970-03",
  "_birthDate": {"extension": [{"url": "urn:time", "valueDateTime": "1970-03-30T14:35:00+00:00"}]},
  "multipleBirthInteger": 0,
  "contact": [{"id": "k", "modifierExtension": [{"url": "urn:x", "valueInteger": 0}],
    "name": {"text": "\u00d1"}}],
  "text": {"status": "additional", "div": "<div xmlns=\"http://www.w3.org/1999/xhtml\">x</div>"}
}"""


def test_every_element_of_a_resource_is_served_as_it_came(app):
    given = fhir_json.loads(RICH)
    definition = types(app)["Patient"]
    prepared = prepare(definition, fhir_json.loads(RICH))
    row = {**prepared.columns, "id": "rich", "version_id": 1, "last_updated": "2026"}
    served = definition.schema.dump(row)
    assert served["meta"].pop("versionId") == "1"
    assert served["meta"].pop("lastUpdated") == "2026"
    assert served == given
    # As text too: a decimal keeps its trailing zeros.
    assert fhir_json.canonical(served) == fhir_json.canonical(given)


def test_every_fault_is_reported_at_once(app):
    found = faults(app, {**PATIENT, "gender": "x", "birthDate": "x", "name": [{"given": [1]}]})
    assert sorted(found) == ["birthDate", "gender", "name[0].given[0]"]


def test_every_kind_of_fault_is_reported_beside_the_others(app):
    """What is no field, what is required and what excludes another are found in the same pass."""
    allergy = {name: value for name, value in ALLERGY.items() if name != "patient"}
    wrong = {
        "nonsense": 1,
        "onsetString": "youth",
        "onsetPeriod": {"start": "x"},
        "encounter": {"reference": 7},
        "_onsetString": {},
        "_category": [None],
    }
    assert sorted(faults(app, {**allergy, **wrong})) == [
        "_category",
        "_onsetString",
        "encounter.reference",
        "nonsense",
        "onsetPeriod.start",
        "onsetString",
        "patient",
    ]


def test_schema_is_used_as_marshmallow_users_know_it():
    schema = AllergyIntoleranceSchema()
    allergy = {
        "resourceType": "AllergyIntolerance",
        "patient": {"reference": "Patient/one"},
        "type": "allergy",
    }
    assert schema.validate(allergy) == {}
    elements = schema.load(allergy)
    row = {"id": "a", "version_id": 1, "last_updated": "2026-01-01T00:00:00.000+00:00"}
    dumped = schema.dump({**row, **elements})
    assert {name: dumped[name] for name in allergy} == allergy
    wrong = {**allergy, "type": "grudge", "recordedDate": "yesterday"}
    assert schema.validate(wrong).keys() == {
        "AllergyIntolerance.type",
        "AllergyIntolerance.recordedDate",
    }
    with pytest.raises(ValidationError):
        schema.load(wrong)
