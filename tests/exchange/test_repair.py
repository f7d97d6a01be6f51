"""Repairs by rule: older fields and other forms become R4, what is valid stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp import create_app
from fhirapp.config import load_settings
from fhirapp.definition import Definition, types
from fhirapp.exchange.repair import Repair, repair
from fhirapp.exchange.repair.log import RULES
from fhirapp.fhir import datatypes
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.prepare import prepare
from fhirapp.store.seed import read_seed, seed_path
from tests.support.effort import sample
from tests.support.round_trips import PRIMITIVES, resources

CT = "http://terminology.hl7.org/CodeSystem/"
DSTU2 = "http://hl7.org/fhir/1.0/StructureDefinition/extension-"
STU3 = "http://hl7.org/fhir/3.0/StructureDefinition/extension-"
STATUS = "http://hl7.org/fhir/composition-status"
PATIENT = {"reference": "Patient/p1"}
NAMES = (
    "AllergyIntolerance",
    "DocumentReference",
    "Patient",
    "Encounter",
    "Provenance",
    "Practitioner",
    "Organization",
)


def clinical(code: str) -> dict[str, Any]:
    return {"coding": [{"system": f"{CT}allergyintolerance-clinical", "code": code}]}


def verification(code: str) -> dict[str, Any]:
    return {"coding": [{"system": f"{CT}allergyintolerance-verification", "code": code}]}


@pytest.fixture(scope="module")
def definitions(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Definition]:
    """The types; no database is opened."""
    folder = str(tmp_path_factory.mktemp("instance"))
    return dict(types(create_app(load_settings({}, instance_path=folder))))


@pytest.fixture(scope="module")
def mend(definitions) -> Callable[[dict[str, Any]], list[Repair]]:
    """Return what repairs a resource in place, and checks that it may then be stored."""

    def run(resource: dict[str, Any]) -> list[Repair]:
        definition = definitions[resource["resourceType"]]
        done = repair(resource, "records.ndjson:7", definition.schema)
        prepare(definition, deepcopy(resource))
        assert repair(resource, "records.ndjson:7", definition.schema) == []
        return done

    return run


def allergy(**elements: Any) -> dict[str, Any]:
    return {"resourceType": "AllergyIntolerance", "id": "a", "patient": PATIENT, **elements}


def document(**elements: Any) -> dict[str, Any]:
    return {"resourceType": "DocumentReference", "id": "d", "status": "current", **elements}


def extension(url: str, **value: Any) -> dict[str, Any]:
    return {"url": url, **value}


EXPOSED = {"manifestation": [{"text": "Hives"}]}

# What came, what it becomes, and the rules that did it.
ALLERGIES = [
    # DSTU2
    ({"substance": {"text": "Nuts"}}, {"code": {"text": "Nuts"}}, ["renamed"]),
    ({"status": "active"}, {"clinicalStatus": clinical("active")}, ["code"]),
    (
        {"status": "unconfirmed"},
        {
            "clinicalStatus": clinical("active"),
            "verificationStatus": verification("unconfirmed"),
        },
        ["code", "code"],
    ),
    (
        {"status": "confirmed"},
        {"clinicalStatus": clinical("active"), "verificationStatus": verification("confirmed")},
        ["code", "code"],
    ),
    (
        {"status": "inactive"},
        {
            "clinicalStatus": clinical("inactive"),
            "verificationStatus": verification("unconfirmed"),
        },
        ["code", "code"],
    ),
    ({"status": "resolved"}, {"clinicalStatus": clinical("resolved")}, ["code"]),
    ({"status": "refuted"}, {"verificationStatus": verification("refuted")}, ["code"]),
    (
        {"status": "entered-in-error"},
        {"verificationStatus": verification("entered-in-error")},
        ["code"],
    ),
    ({"criticality": "CRITL"}, {"criticality": "low"}, ["code"]),
    ({"criticality": "CRITH"}, {"criticality": "high"}, ["code"]),
    ({"criticality": "CRITU"}, {"criticality": "unable-to-assess"}, ["code"]),
    ({"category": "food"}, {"category": ["food"]}, ["list"]),
    (
        {"category": "other"},
        {"extension": [extension(f"{DSTU2}AllergyIntolerance.category", valueCode="other")]},
        ["extension"],
    ),
    ({"onset": "2009-05"}, {"onsetDateTime": "2009-05"}, ["renamed"]),
    ({"reporter": PATIENT}, {"asserter": PATIENT}, ["renamed"]),
    ({"lastOccurence": "2015"}, {"lastOccurrence": "2015"}, ["renamed"]),
    ({"recordedDate": "2015-01-01"}, {"recordedDate": "2015-01-01"}, []),
    ({"note": {"text": "Mild"}}, {"note": [{"text": "Mild"}]}, ["list"]),
    (
        {"reaction": [{**EXPOSED, "certainty": "likely", "note": {"text": "x"}}]},
        {
            "reaction": [
                {
                    **EXPOSED,
                    "note": [{"text": "x"}],
                    "extension": [
                        extension(
                            f"{DSTU2}AllergyIntolerance.reaction.certainty", valueCode="likely"
                        )
                    ],
                }
            ]
        },
        ["extension", "list"],
    ),
    # STU3
    ({"clinicalStatus": "active"}, {"clinicalStatus": clinical("active")}, ["code"]),
    (
        {"verificationStatus": "confirmed"},
        {"verificationStatus": verification("confirmed")},
        ["code"],
    ),
    (
        {"clinicalStatus": "active", "_clinicalStatus": {"id": "x"}},
        {"clinicalStatus": {"coding": [{**clinical("active")["coding"][0], "_code": {"id": "x"}}]}},
        ["code"],
    ),
    (
        {"assertedDate": "2016", "_assertedDate": {"id": "x"}},
        {"recordedDate": "2016", "_recordedDate": {"id": "x"}},
        ["renamed", "renamed"],
    ),
]

DOCUMENTS = [
    ({"class": {"text": "Note"}}, {"category": [{"text": "Note"}]}, ["renamed"]),
    (
        {"indexed": "2016-03-01T10:00:00Z"},
        {"date": "2016-03-01T10:00:00Z"},
        ["renamed"],
    ),
    (
        {"indexed": "2016-03-01"},
        {"date": "2016-03-01T00:00:00+00:00"},
        ["renamed", "instant"],
    ),
    ({"date": "2016-03-01"}, {"date": "2016-03-01T00:00:00+00:00"}, ["instant"]),
    ({"date": "2016-03"}, {"date": "2016-03"}, []),
    (
        {"created": "2016-02-29"},
        {"extension": [extension(f"{STU3}DocumentReference.created", valueDateTime="2016-02-29")]},
        ["extension"],
    ),
    (
        {"docStatus": {"coding": [{"system": STATUS, "code": "final"}]}},
        {"docStatus": "final"},
        ["code"],
    ),
    (
        {"docStatus": {"coding": [{"system": STATUS, "code": "final"}], "text": "Signed"}},
        {
            "docStatus": "final",
            "extension": [
                extension(
                    f"{DSTU2}DocumentReference.docStatus",
                    valueCodeableConcept={
                        "coding": [{"system": STATUS, "code": "final"}],
                        "text": "Signed",
                    },
                )
            ],
        },
        ["code", "extension"],
    ),
    (
        {"docStatus": {"text": "Signed"}},
        {
            "extension": [
                extension(
                    f"{DSTU2}DocumentReference.docStatus", valueCodeableConcept={"text": "Signed"}
                )
            ]
        },
        ["extension"],
    ),
    ({"docStatus": "final"}, {"docStatus": "final"}, []),
    (
        {
            "content": [
                {"attachment": {"title": "x"}, "format": [{"code": "a"}, {"code": "b"}]},
            ]
        },
        {
            "content": [
                {
                    "attachment": {"title": "x"},
                    "format": {"code": "a"},
                    "extension": [
                        extension(
                            f"{DSTU2}DocumentReference.content.format", valueCoding={"code": "b"}
                        )
                    ],
                }
            ]
        },
        ["code", "extension"],
    ),
    (
        {"context": {"encounter": {"reference": "Encounter/1"}}},
        {"context": {"encounter": [{"reference": "Encounter/1"}]}},
        ["list"],
    ),
    (
        {"context": {"related": [{"identifier": {"value": "7"}, "ref": PATIENT}]}},
        {"context": {"related": [{"identifier": {"value": "7"}, **PATIENT}]}},
        ["renamed"],
    ),
    (
        {"relatesTo": {"code": "replaces", "target": {"reference": "DocumentReference/0"}}},
        {"relatesTo": [{"code": "replaces", "target": {"reference": "DocumentReference/0"}}]},
        ["list"],
    ),
]

ACT = f"{CT}v3-ActCode"
ROLE = f"{CT}diagnosis-role"
UNKNOWN = {
    "extension": [
        {
            "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason",
            "valueCode": "unknown",
        }
    ]
}
INPATIENT = {"system": ACT, "code": "IMP", "display": "inpatient encounter"}
CONDITION = {"reference": "Condition/1"}
URI = {
    "extension": [{"url": f"{STU3}BaseType", "valueString": "uri"}],
    "reference": "Practitioner/1",
}
AUTHOR = {"system": "http://x.example", "code": "author"}


def visit(**elements: Any) -> dict[str, Any]:
    return {"resourceType": "Encounter", "id": "e", "status": "finished", **elements}


def origin(**elements: Any) -> dict[str, Any]:
    return {
        "resourceType": "Provenance",
        "id": "v",
        "target": [PATIENT],
        "recorded": "2020-05-06T00:00:00Z",
        **elements,
    }


def stay(name: str, code: str, display: str) -> tuple[Any, Any, list[str]]:
    use = {"coding": [{"system": ROLE, "code": code, "display": display}]}
    return (
        visit(**{"class": INPATIENT, "hospitalization": {name: [CONDITION]}}),
        visit(**{"class": INPATIENT, "diagnosis": [{"condition": CONDITION, "use": use}]}),
        ["renamed"],
    )


# Resources of the other types: what came, what it becomes, and the rules that did it.
OTHERS = [
    (
        {
            "resourceType": "Patient",
            "id": "p",
            "name": [{"family": ["Garcia", "Lopez"], "given": ["Ana"]}],
            "contact": [{"name": {"family": ["Bell"], "_family": [{"id": "f"}]}}],
            "careProvider": [{"reference": "Practitioner/1"}],
            "link": [{"other": {"reference": "Patient/2"}, "type": "replace"}],
            "animal": {"species": {"text": "dog"}, "breed": {"text": "collie"}},
        },
        {
            "resourceType": "Patient",
            "id": "p",
            "name": [{"family": "Garcia Lopez", "given": ["Ana"]}],
            "contact": [{"name": {"family": "Bell", "_family": {"id": "f"}}}],
            "generalPractitioner": [{"reference": "Practitioner/1"}],
            "link": [{"other": {"reference": "Patient/2"}, "type": "replaced-by"}],
            "extension": [
                {
                    "url": "http://hl7.org/fhir/StructureDefinition/patient-animal",
                    "extension": [
                        {"url": "species", "valueCodeableConcept": {"text": "dog"}},
                        {"url": "breed", "valueCodeableConcept": {"text": "collie"}},
                    ],
                }
            ],
        },
        ["joined", "joined", "renamed", "code", "extension"],
    ),
    (
        {
            "resourceType": "Practitioner",
            "id": "d",
            "name": {"family": ["Bell"]},
            "practitionerRole": [
                {
                    "managingOrganization": {"reference": "Organization/1"},
                    "specialty": [{"text": "Cardiology"}, {"text": "Surgery"}],
                    "period": {"start": "2015"},
                }
            ],
        },
        {
            "resourceType": "Practitioner",
            "id": "d",
            "name": [{"family": "Bell"}],
            "extension": [
                {
                    "url": f"{DSTU2}Practitioner.practitionerRole",
                    "extension": [
                        {
                            "url": "managingOrganization",
                            "valueReference": {"reference": "Organization/1"},
                        },
                        {"url": "specialty", "valueCodeableConcept": {"text": "Cardiology"}},
                        {"url": "specialty", "valueCodeableConcept": {"text": "Surgery"}},
                        {"url": "period", "valuePeriod": {"start": "2015"}},
                    ],
                }
            ],
        },
        ["list", "joined", "extension"],
    ),
    (
        {
            "resourceType": "Organization",
            "id": "o",
            "type": {"text": "Clinic"},
            "contact": [{"name": {"family": ["Bell"]}}],
        },
        {
            "resourceType": "Organization",
            "id": "o",
            "type": [{"text": "Clinic"}],
            "contact": [{"name": {"family": "Bell"}}],
        },
        ["list", "joined"],
    ),
    (
        {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "content": "QUJD"},
        {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "data": "QUJD"},
        ["renamed"],
    ),
    (
        visit(
            **{
                "class": "inpatient",
                "patient": PATIENT,
                "reason": {"text": "Rash"},
                "incomingReferral": [{"reference": "ReferralRequest/1"}],
                "appointment": {"reference": "Appointment/1"},
                "indication": [CONDITION],
            }
        ),
        visit(
            **{
                "class": INPATIENT,
                "subject": PATIENT,
                "reasonCode": [{"text": "Rash"}],
                "basedOn": [{"reference": "ReferralRequest/1"}],
                "appointment": [{"reference": "Appointment/1"}],
                "diagnosis": [{"condition": CONDITION}],
            }
        ),
        ["code", "renamed", "renamed", "list", "renamed", "list", "renamed"],
    ),
    *(
        (
            visit(**{"class": said}),
            visit(**{"class": {"system": ACT, "code": code, "display": display}}),
            ["code"],
        )
        for said, code, display in (
            ("outpatient", "AMB", "ambulatory"),
            ("ambulatory", "AMB", "ambulatory"),
            ("emergency", "EMER", "emergency"),
            ("home", "HH", "home health"),
            ("field", "FLD", "field"),
            ("daytime", "SS", "short stay"),
            ("virtual", "VR", "virtual"),
        )
    ),
    (
        visit(**{"class": "other", "_class": {"id": "c"}}),
        visit(
            **{
                "class": {
                    "system": "http://hl7.org/fhir/encounter-class",
                    "code": "other",
                    "_code": {"id": "c"},
                }
            }
        ),
        ["code"],
    ),
    (visit(), visit(**{"class": UNKNOWN}), ["absent"]),
    (
        visit(
            **{"class": INPATIENT, "diagnosis": [{"condition": CONDITION, "role": {"text": "x"}}]}
        ),
        visit(
            **{"class": INPATIENT, "diagnosis": [{"condition": CONDITION, "use": {"text": "x"}}]}
        ),
        ["renamed"],
    ),
    stay("admittingDiagnosis", "AD", "Admission diagnosis"),
    stay("dischargeDiagnosis", "DD", "Discharge diagnosis"),
    # DSTU2
    (
        origin(
            period={"start": "2020"},
            activity={"text": "made"},
            reason=[{"text": "why"}],
            agent=[
                {
                    "role": AUTHOR,
                    "actor": {"reference": "Practitioner/1"},
                    "userId": {"value": "bell"},
                    "relatedAgent": [{"type": {"text": "boss"}, "target": "#2"}],
                },
                {"role": AUTHOR},
            ],
            entity=[
                {
                    "role": "source",
                    "type": {"code": "x"},
                    "reference": "DocumentReference/1",
                    "display": "letter",
                    "agent": {"role": AUTHOR, "actor": PATIENT},
                }
            ],
            signature=[
                {
                    "type": [AUTHOR],
                    "when": "2020-05-06T00:00:00Z",
                    "whoReference": PATIENT,
                    "contentType": "application/jose",
                    "blob": "QUJD",
                }
            ],
        ),
        origin(
            occurredPeriod={"start": "2020"},
            activity={"text": "made"},
            reason=[{"text": "why"}],
            agent=[
                {
                    "role": [{"coding": [AUTHOR]}],
                    "who": {"reference": "Practitioner/1", "identifier": {"value": "bell"}},
                    "extension": [
                        {
                            "url": f"{DSTU2}Provenance.agent.relatedAgent",
                            "extension": [
                                {"url": "type", "valueCodeableConcept": {"text": "boss"}},
                                {"url": "target", "valueUri": "#2"},
                            ],
                        }
                    ],
                },
                {"role": [{"coding": [AUTHOR]}], "who": UNKNOWN},
            ],
            entity=[
                {
                    "role": "source",
                    "what": {"reference": "DocumentReference/1", "display": "letter"},
                    "extension": [
                        extension(f"{DSTU2}Provenance.entity.type", valueCoding={"code": "x"})
                    ],
                    "agent": [{"role": [{"coding": [AUTHOR]}], "who": PATIENT}],
                }
            ],
            signature=[
                {
                    "type": [AUTHOR],
                    "when": "2020-05-06T00:00:00Z",
                    "who": PATIENT,
                    "sigFormat": "application/jose",
                    "data": "QUJD",
                }
            ],
        ),
        [*["renamed"] * 9, *["code"] * 3, *["list"] * 4, "extension", "extension", "absent"],
    ),
    (origin(), origin(agent=[{"who": UNKNOWN}]), ["absent"]),
    # STU3
    (
        origin(
            activity=AUTHOR,
            reason=[AUTHOR],
            agent=[
                {
                    "whoUri": "Practitioner/1",
                    "onBehalfOfReference": {"reference": "Organization/1"},
                    "relatedAgentType": {"text": "boss"},
                }
            ],
            entity=[
                {"role": "source", "whatIdentifier": {"value": "7"}},
                {"role": "source", "whatReference": PATIENT},
            ],
        ),
        origin(
            activity={"coding": [AUTHOR]},
            reason=[{"coding": [AUTHOR]}],
            agent=[
                {
                    "who": URI,
                    "onBehalfOf": {"reference": "Organization/1"},
                    "type": {"text": "boss"},
                }
            ],
            entity=[
                {"role": "source", "what": {"identifier": {"value": "7"}}},
                {"role": "source", "what": PATIENT},
            ],
        ),
        ["code", "code", *["renamed"] * 5],
    ),
]

VALUES = [
    ({"identifier": [{"value": ""}], "note": []}, {}, ["empty"] * 4),
    ({"code": {"text": "x", "coding": None}}, {"code": {"text": "x"}}, ["empty"]),
    ({"type": " allergy "}, {"type": "allergy"}, ["trim"]),
    (
        {"code": {"coding": [{"system": "http://x.example ", "code": " 1"}]}},
        {"code": {"coding": [{"system": "http://x.example", "code": "1"}]}},
        ["trim", "trim"],
    ),
    ({"code": {"text": " as it is "}}, {"code": {"text": " as it is "}}, []),
    (
        {"code": {"coding": [{"code": 763, "userSelected": "true"}]}},
        {"code": {"coding": [{"code": "763", "userSelected": True}]}},
        ["string", "number"],
    ),
    ({"onsetAge": {"value": "7"}}, {"onsetAge": {"value": 7}}, ["number"]),
    ({"recordedDate": 2016}, {"recordedDate": "2016"}, ["string"]),
    (
        {"recordedDate": "2016-03-01T10:00"},
        {"recordedDate": "2016-03-01T10:00:00+00:00"},
        ["time"],
    ),
    (
        {"recordedDate": "2016-02-28T24:00:00+01:00"},
        {"recordedDate": "2016-02-29T00:00:00+01:00"},
        ["time"],
    ),
    (
        {"recordedDate": "2016-03-01 10:00:00.5 +0100"},
        {"recordedDate": "2016-03-01T10:00:00.5+01:00"},
        ["time"],
    ),
    (
        {"clinicalStatus": {"coding": clinical("active")["coding"][0]}},
        {"clinicalStatus": clinical("active")},
        ["list"],
    ),
    (
        {"extension": {"url": "http://x.example/e", "valueInteger": "3"}},
        {"extension": [{"url": "http://x.example/e", "valueInteger": 3}]},
        ["list", "number"],
    ),
    (
        {"meta": {"lastUpdated": "2016-03"}},
        {"meta": {"lastUpdated": "2016-03-01T00:00:00+00:00"}},
        ["instant"],
    ),
    (
        {"recorder": {"identifier": {"assigner": {"display": 7}}}},
        {"recorder": {"identifier": {"assigner": {"display": "7"}}}},
        ["string"],
    ),
]


@pytest.mark.parametrize(("given_", "expected", "rules"), [*ALLERGIES, *VALUES])
def test_an_allergy_is_repaired(mend, given_, expected, rules):
    resource = allergy(**deepcopy(given_))
    done = mend(resource)
    assert resource == allergy(**expected)
    assert sorted(one.rule for one in done) == sorted(rules)


@pytest.mark.parametrize(("given_", "expected", "rules"), DOCUMENTS)
def test_a_document_is_repaired(mend, given_, expected, rules):
    resource = document(**deepcopy(given_))
    done = mend(resource)
    assert resource == document(**expected)
    assert sorted(one.rule for one in done) == sorted(rules)


@pytest.mark.parametrize(("given_", "expected", "rules"), OTHERS)
def test_a_resource_of_another_type_is_repaired(mend, given_, expected, rules):
    resource = deepcopy(given_)
    done = mend(resource)
    assert resource == expected
    assert sorted(one.rule for one in done) == sorted(rules)


def test_contained_resources_are_repaired_too(definitions):
    doctor = {"resourceType": "Practitioner", "id": "d", "name": {"family": ["Bell"]}}
    resource = allergy(contained=[deepcopy(doctor), {"resourceType": "Device", "id": "v"}])
    schemas = {name: one.schema for name, one in definitions.items()}
    done = repair(resource, "", schemas["AllergyIntolerance"], schemas)
    assert resource["contained"] == [
        {**doctor, "name": [{"family": "Bell"}]},
        {"resourceType": "Device", "id": "v"},
    ]
    assert {one.path for one in done} == {
        "AllergyIntolerance.contained[0].name",
        "AllergyIntolerance.contained[0].name[0].family",
    }


def test_a_repair_says_where_and_what(mend):
    (done,) = mend(allergy(reaction=[{**EXPOSED, "severity": "mild "}]))
    assert done == Repair(
        "AllergyIntolerance.reaction[0].severity", "trim", "mild ", "mild", "records.ndjson:7"
    )
    assert str(done) == (
        'records.ndjson:7: AllergyIntolerance.reaction[0].severity: trim: "mild " became "mild"'
    )


def test_null_that_keeps_the_place_of_an_extension_stays(mend):
    for nothing in (None, "", " "):
        name = {"given": [nothing, "", "Ann"], "_given": [{"id": "a"}, None, None]}
        resource = {"resourceType": "Patient", "id": "p", "name": [name]}
        mend(resource)
        assert resource["name"] == [{"given": [None, "Ann"], "_given": [{"id": "a"}, None]}]


def test_an_instant_of_a_provenance_is_the_first_moment_of_its_day(mend):
    resource = {
        "resourceType": "Provenance",
        "id": "v",
        "target": [PATIENT],
        "recorded": "2020-05-06",
        "agent": [{"who": PATIENT}],
    }
    assert [one.rule for one in mend(resource)] == ["instant"]
    assert resource["recorded"] == "2020-05-06T00:00:00+00:00"


def test_a_missing_id_follows_from_the_identifier(mend):
    one = allergy(identifier=[{"value": "7"}, {"system": "http://x.example", "value": "7"}])
    other = allergy(identifier=[{"system": "http://x.example", "value": "7"}], type="allergy")
    del one["id"], other["id"]
    assert [done.rule for done in mend(one)] == ["id"]
    mend(other)
    assert one["id"] == other["id"]


def test_a_missing_id_follows_from_the_content_without_meta(mend):
    ids = []
    for meta, kind in (("1", "allergy"), ("2", "allergy"), ("1", "intolerance")):
        resource = allergy(meta={"versionId": meta}, type=kind, id="")
        mend(resource)
        ids.append(resource["id"])
    assert ids[0] == ids[1] != ids[2]


@pytest.mark.parametrize(
    ("resource", "path"),
    [
        (allergy(substance={"text": "a"}, code={"text": "b"}), "AllergyIntolerance.substance"),
        (allergy(status="maybe"), "AllergyIntolerance.status"),
        (allergy(status=7), "AllergyIntolerance.status"),
        (
            allergy(status="active", clinicalStatus=clinical("active")),
            "AllergyIntolerance.status",
        ),
        (allergy(status="active", _status={"id": "x"}), "AllergyIntolerance._status"),
        (allergy(category="other", extension={"url": "u"}), "AllergyIntolerance.category"),
        (
            document(indexed="2016-01-01T00:00:00Z", date="2017-01-01T00:00:00Z"),
            "DocumentReference.indexed",
        ),
        (document(created="2016", _created={"id": "x"}), "DocumentReference._created"),
        (
            document(context={"related": [{"id": "a", "ref": {"id": "b"}}]}),
            "DocumentReference.context.related[0].id",
        ),
        (
            document(context={"related": [{"ref": "Patient/1"}]}),
            "DocumentReference.context.related[0].ref",
        ),
        (
            visit(**{"class": INPATIENT, "patient": PATIENT, "subject": CONDITION}),
            "Encounter.patient",
        ),
        (
            {
                "resourceType": "Patient",
                "name": [{"family": ["a", "b"], "_family": [{"id": "1"}, None]}],
            },
            "Patient.name[0].family",
        ),
        ({"resourceType": "Patient", "animal": {"wings": 2}}, "Patient.animal"),
        (origin(agent=[{"who": PATIENT, "whoUri": "x"}]), "Provenance.agent[0].whoUri"),
        (
            origin(agent=[{"who": {"identifier": {"value": "a"}}, "userId": {"value": "b"}}]),
            "Provenance.agent[0].userId",
        ),
        (
            origin(
                agent=[{"who": PATIENT}],
                entity=[{"role": "source", "what": PATIENT, "reference": "Patient/2"}],
            ),
            "Provenance.entity[0].reference",
        ),
    ],
)
def test_what_would_lose_something_is_refused(definitions, resource, path):
    schema = definitions[resource["resourceType"]].schema
    with pytest.raises(InvalidResource) as refused:
        repair(resource, "", schema)
    assert [fault[0] for fault in refused.value.faults] == [path]


@pytest.mark.parametrize(
    "elements",
    [
        {"event": [EXPOSED]},
        {"type": "Allergy"},
        {"recordedDate": "01.03.2016"},
        {"recordedDate": "2016-02-30T24:00:00Z"},
        {"recordedDate": "9999-12-31T24:00:00Z"},
        {"recordedDate": "2016-02-28T24:01:00Z"},
        {"onsetAge": {"value": "seven"}},
        {"onsetAge": {"value": "NaN"}},
        {"category": "pets"},
        {"clinicalStatus": ["active"]},
    ],
)
def test_what_no_rule_knows_is_left_for_the_schema_to_refuse(definitions, elements):
    resource = allergy(**elements)
    repair(resource, "", definitions["AllergyIntolerance"].schema)
    with pytest.raises(InvalidResource):
        prepare(definitions["AllergyIntolerance"], resource)


def test_what_is_nested_too_deeply_is_refused(definitions):
    deep: dict[str, Any] = {"url": "http://x.example"}
    for _ in range(5_000):
        deep = {"url": "http://x.example", "extension": [deep]}
    with pytest.raises(InvalidResource, match="nested too deeply"):
        repair(allergy(extension=[deep]), "", definitions["AllergyIntolerance"].schema)


def partial_day(resource: dict[str, Any]) -> bool:
    """Return whether a document has a date where R4 has an instant: this server takes it."""
    return resource["resourceType"] == "DocumentReference" and len(resource.get("date", "")) == 10


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_valid_comes_back_unchanged(definitions, name, monkeypatch):
    monkeypatch.setitem(PRIMITIVES, datatypes.media_type, st.just("text/plain"))

    @settings(max_examples=sample(40, 150))
    @given(resources(name))
    def check(resource: dict[str, Any]) -> None:
        if partial_day(resource):
            return
        before = fhir_json.canonical(resource)
        assert repair(resource, "", definitions[name].schema) == []
        assert fhir_json.canonical(resource) == before

    check()


@pytest.mark.parametrize("name", NAMES)
def test_repairing_twice_is_repairing_once_and_breaks_nothing(definitions, name):
    names = sorted(definitions[name].schema.elements)
    scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just({})
    values = st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.sampled_from(["coding", "text", "_text", "extension"]), inner)
        ),
        max_leaves=6,
    )
    more = ("status", "class", "created", "substance", "onset", "category", "_category")
    more += ("patient", "reason", "indication", "role", "period", "animal", "practitionerRole")

    @settings(max_examples=sample(40, 150))
    @given(st.dictionaries(st.sampled_from([*names, *more]), values, max_size=5))
    def check(elements: dict[str, Any]) -> None:
        resource = {**elements, "resourceType": name}
        schema = definitions[name].schema
        try:
            repair(resource, "", schema)
        except InvalidResource:
            return
        again = deepcopy(resource)
        assert repair(again, "", schema) == []
        assert again == resource

    check()


def test_the_seed_comes_back_unchanged(definitions):
    seen = 0
    for versions in read_seed(seed_path(), definitions):
        for version in versions:
            definition = version.prepared.definition
            if definition.name == "Binary" or version.deleted:
                continue
            row = {**version.prepared.columns, "id": version.prepared.id}
            row.update(version_id=1, last_updated=version.last_updated)
            resource = fhir_json.loads(fhir_json.dumps(definition.schema.dump(row)))
            before = deepcopy(resource)
            if not partial_day(resource):
                assert repair(resource, "", definition.schema) == []
                assert resource == before
                seen += 1
    assert seen > 100


@pytest.mark.parametrize(
    "name", ["AllergyIntolerance", "DocumentReference", "Patient", "Practitioner", "Organization"]
)
def test_real_records_come_back_unchanged(definitions, synthea_folder, name):
    text = (synthea_folder / f"{name}.ndjson").read_bytes()
    for line in text.splitlines()[:200]:
        resource = fhir_json.loads(line)
        assert repair(resource, "", definitions[name].schema) == []
        assert resource == fhir_json.loads(line)


def test_every_rule_is_tried_here_and_no_other():
    tried = {rule for _, _, rules in [*ALLERGIES, *DOCUMENTS, *OTHERS, *VALUES] for rule in rules}
    assert tried | {"id"} == set(RULES)


def test_a_repair_is_one_line_however_long_its_value(mend):
    (done,) = mend(allergy(note={"text": "x" * 1_000}))
    assert len(str(done)) < 300
    assert json.loads(fhir_json.text(done.after)) == [{"text": "x" * 1_000}]
