"""Repairs: fields of DSTU2 and STU3 and invalid values become R4, and valid records stay."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.definition import Definition
from fhirapp.features.demo.seed import read_seed, seed_path
from fhirapp.features.imports.repair import Repair, repair
from fhirapp.fhir import datatypes
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource
from fhirapp.store.prepare import prepare
from tests.support.contract import SERVED
from tests.support.effort import sample
from tests.support.round_trips import PRIMITIVES, resources

CT = "http://terminology.hl7.org/CodeSystem/"
DSTU2 = "http://hl7.org/fhir/1.0/StructureDefinition/extension-"
STU3 = "http://hl7.org/fhir/3.0/StructureDefinition/extension-"
CORE = "http://hl7.org/fhir/StructureDefinition/"
NAMES = (
    "AllergyIntolerance", "DocumentReference", "Patient", "Encounter", "Provenance",
    "Practitioner", "Organization",
)  # fmt: skip


def ref(name: str) -> dict[str, Any]:
    return {"reference": name}


def text(words: str) -> dict[str, Any]:
    return {"text": words}


def clinical(code: str) -> dict[str, Any]:
    return {"coding": [{"system": f"{CT}allergyintolerance-clinical", "code": code}]}


def verification(code: str) -> dict[str, Any]:
    return {"coding": [{"system": f"{CT}allergyintolerance-verification", "code": code}]}


def extension(url: str, **value: Any) -> dict[str, Any]:
    return {"url": url, **value}


def with_extension(url: str, **value: Any) -> dict[str, Any]:
    """Return the element `extension` with one extension."""
    return {"extension": [extension(url, **value)]}


PATIENT, CONDITION = ref("Patient/p1"), ref("Condition/1")
UNKNOWN = with_extension(f"{CORE}data-absent-reason", valueCode="unknown")
INPATIENT = {"system": f"{CT}v3-ActCode", "code": "IMP", "display": "inpatient encounter"}
AUTHOR = {"system": "http://x.example", "code": "author"}
HIVES = {"manifestation": [text("Hives")]}
FINAL = {"coding": [{"system": "http://hl7.org/fhir/composition-status", "code": "final"}]}
DOC_STATUS = f"{DSTU2}DocumentReference.docStatus"


def allergy(**elements: Any) -> dict[str, Any]:
    return {"resourceType": "AllergyIntolerance", "id": "a", "patient": PATIENT, **elements}


def document(**elements: Any) -> dict[str, Any]:
    return {"resourceType": "DocumentReference", "id": "d", "status": "current", **elements}


def visit(class_: Any = INPATIENT, **elements: Any) -> dict[str, Any]:
    made = {"resourceType": "Encounter", "id": "e", "status": "finished", **elements}
    return made if class_ is None else {**made, "class": class_}


def origin(**elements: Any) -> dict[str, Any]:
    made = {"resourceType": "Provenance", "id": "v", "target": [PATIENT]}
    return {**made, "recorded": "2020-05-06T00:00:00Z", **elements}


def resource(type_name: str, **elements: Any) -> dict[str, Any]:
    return {"resourceType": type_name, "id": "r", **elements}


# What came, what it becomes, and the rules that did it, by the type of the record.
# fmt: off
ALLERGIES: list[tuple[Any, Any, str]] = [
    # DSTU2
    ({"substance": text("Nuts")}, {"code": text("Nuts")}, "renamed"),
    ({"status": "active"}, {"clinicalStatus": clinical("active")}, "code"),
    ({"status": "unconfirmed"},
     {"clinicalStatus": clinical("active"), "verificationStatus": verification("unconfirmed")},
     "code code"),
    ({"status": "confirmed"},
     {"clinicalStatus": clinical("active"), "verificationStatus": verification("confirmed")},
     "code code"),
    ({"status": "inactive"},
     {"clinicalStatus": clinical("inactive"), "verificationStatus": verification("unconfirmed")},
     "code code"),
    ({"status": "resolved"}, {"clinicalStatus": clinical("resolved")}, "code"),
    ({"status": "refuted"}, {"verificationStatus": verification("refuted")}, "code"),
    ({"status": "entered-in-error"},
     {"verificationStatus": verification("entered-in-error")}, "code"),
    ({"criticality": "CRITL"}, {"criticality": "low"}, "code"),
    ({"criticality": "CRITH"}, {"criticality": "high"}, "code"),
    ({"criticality": "CRITU"}, {"criticality": "unable-to-assess"}, "code"),
    ({"category": "food"}, {"category": ["food"]}, "list"),
    ({"category": "other"},
     with_extension(f"{DSTU2}AllergyIntolerance.category", valueCode="other"), "extension"),
    ({"onset": "2009-05"}, {"onsetDateTime": "2009-05"}, "renamed"),
    ({"reporter": PATIENT}, {"asserter": PATIENT}, "renamed"),
    ({"lastOccurence": "2015"}, {"lastOccurrence": "2015"}, "renamed"),
    ({"recordedDate": "2015-01-01"}, {"recordedDate": "2015-01-01"}, ""),
    ({"note": text("Mild")}, {"note": [text("Mild")]}, "list"),
    ({"reaction": [{**HIVES, "certainty": "likely", "note": text("x")}]},
     {"reaction": [{**HIVES, "note": [text("x")], **with_extension(
         f"{DSTU2}AllergyIntolerance.reaction.certainty", valueCode="likely")}]},
     "extension list"),
    # STU3
    ({"clinicalStatus": "active"}, {"clinicalStatus": clinical("active")}, "code"),
    ({"verificationStatus": "confirmed"},
     {"verificationStatus": verification("confirmed")}, "code"),
    ({"clinicalStatus": "active", "_clinicalStatus": {"id": "x"}},
     {"clinicalStatus": {"coding": [{**clinical("active")["coding"][0], "_code": {"id": "x"}}]}},
     "code"),
    ({"assertedDate": "2016", "_assertedDate": {"id": "x"}},
     {"recordedDate": "2016", "_recordedDate": {"id": "x"}}, "renamed renamed"),
    # Values
    ({"identifier": [{"value": ""}], "note": []}, {}, "empty empty empty empty"),
    ({"code": {"text": "x", "coding": None}}, {"code": text("x")}, "empty"),
    ({"type": " allergy "}, {"type": "allergy"}, "trim"),
    ({"code": {"coding": [{"system": "http://x.example ", "code": " 1"}]}},
     {"code": {"coding": [{"system": "http://x.example", "code": "1"}]}}, "trim trim"),
    ({"code": text(" as it is ")}, {"code": text(" as it is ")}, ""),
    ({"code": {"coding": [{"code": 763, "userSelected": "true"}]}},
     {"code": {"coding": [{"code": "763", "userSelected": True}]}}, "string number"),
    ({"onsetAge": {"value": "7"}}, {"onsetAge": {"value": 7}}, "number"),
    ({"recordedDate": 2016}, {"recordedDate": "2016"}, "string"),
    ({"recordedDate": "2016-03-01T10:00"}, {"recordedDate": "2016-03-01T10:00:00+00:00"}, "time"),
    ({"recordedDate": "2016-02-28T24:00:00+01:00"},
     {"recordedDate": "2016-02-29T00:00:00+01:00"}, "time"),
    ({"recordedDate": "2016-03-01 10:00:00.5 +0100"},
     {"recordedDate": "2016-03-01T10:00:00.5+01:00"}, "time"),
    ({"clinicalStatus": {"coding": clinical("active")["coding"][0]}},
     {"clinicalStatus": clinical("active")}, "list"),
    ({"extension": {"url": "http://x.example/e", "valueInteger": "3"}},
     with_extension("http://x.example/e", valueInteger=3), "list number"),
    ({"meta": {"lastUpdated": "2016-03"}},
     {"meta": {"lastUpdated": "2016-03-01T00:00:00+00:00"}}, "instant"),
    ({"recorder": {"identifier": {"assigner": {"display": 7}}}},
     {"recorder": {"identifier": {"assigner": {"display": "7"}}}}, "string"),
]
DOCUMENTS: list[tuple[Any, Any, str]] = [
    ({"class": text("Note")}, {"category": [text("Note")]}, "renamed"),
    ({"indexed": "2016-03-01T10:00:00Z"}, {"date": "2016-03-01T10:00:00Z"}, "renamed"),
    ({"indexed": "2016-03-01"}, {"date": "2016-03-01T00:00:00+00:00"}, "renamed instant"),
    ({"date": "2016-03-01"}, {"date": "2016-03-01T00:00:00+00:00"}, "instant"),
    ({"date": "2016-03"}, {"date": "2016-03"}, ""),
    ({"created": "2016-02-29"},
     with_extension(f"{STU3}DocumentReference.created", valueDateTime="2016-02-29"), "extension"),
    ({"docStatus": FINAL}, {"docStatus": "final"}, "code"),
    ({"docStatus": {**FINAL, "text": "Signed"}},
     {"docStatus": "final", **with_extension(
         DOC_STATUS, valueCodeableConcept={**FINAL, "text": "Signed"})}, "code extension"),
    ({"docStatus": text("Signed")},
     with_extension(DOC_STATUS, valueCodeableConcept=text("Signed")), "extension"),
    ({"docStatus": "final"}, {"docStatus": "final"}, ""),
    ({"content": [{"attachment": {"title": "x"}, "format": [{"code": "a"}, {"code": "b"}]}]},
     {"content": [{"attachment": {"title": "x"}, "format": {"code": "a"}, **with_extension(
         f"{DSTU2}DocumentReference.content.format", valueCoding={"code": "b"})}]},
     "code extension"),
    ({"context": {"encounter": ref("Encounter/1")}},
     {"context": {"encounter": [ref("Encounter/1")]}}, "list"),
    ({"context": {"related": [{"identifier": {"value": "7"}, "ref": PATIENT}]}},
     {"context": {"related": [{"identifier": {"value": "7"}, **PATIENT}]}}, "renamed"),
    ({"relatesTo": {"code": "replaces", "target": ref("DocumentReference/0")}},
     {"relatesTo": [{"code": "replaces", "target": ref("DocumentReference/0")}]}, "list"),
]


def stay(name: str, code: str, display: str) -> tuple[Any, Any, str]:
    use = {"coding": [{"system": f"{CT}diagnosis-role", "code": code, "display": display}]}
    return (visit(hospitalization={name: [CONDITION]}),
            visit(diagnosis=[{"condition": CONDITION, "use": use}]), "renamed")


OTHERS: list[tuple[Any, Any, str]] = [
    (resource("Patient", name=[{"family": ["Garcia", "Lopez"], "given": ["Ana"]}],
              contact=[{"name": {"family": ["Bell"], "_family": [{"id": "f"}]}}],
              careProvider=[ref("Practitioner/1")],
              link=[{"other": ref("Patient/2"), "type": "replace"}],
              animal={"species": text("dog"), "breed": text("collie")}),
     resource("Patient", name=[{"family": "Garcia Lopez", "given": ["Ana"]}],
              contact=[{"name": {"family": "Bell", "_family": {"id": "f"}}}],
              generalPractitioner=[ref("Practitioner/1")],
              link=[{"other": ref("Patient/2"), "type": "replaced-by"}],
              **with_extension(f"{CORE}patient-animal", extension=[
                  extension("species", valueCodeableConcept=text("dog")),
                  extension("breed", valueCodeableConcept=text("collie"))])),
     "joined joined renamed code extension"),
    (resource("Practitioner", name={"family": ["Bell"]},
              practitionerRole=[{"managingOrganization": ref("Organization/1"),
                                 "specialty": [text("Cardiology"), text("Surgery")],
                                 "period": {"start": "2015"}}]),
     resource("Practitioner", name=[{"family": "Bell"}],
              **with_extension(f"{DSTU2}Practitioner.practitionerRole", extension=[
                  extension("managingOrganization", valueReference=ref("Organization/1")),
                  extension("specialty", valueCodeableConcept=text("Cardiology")),
                  extension("specialty", valueCodeableConcept=text("Surgery")),
                  extension("period", valuePeriod={"start": "2015"})])),
     "list joined extension"),
    (resource("Organization", type=text("Clinic"), contact=[{"name": {"family": ["Bell"]}}]),
     resource("Organization", type=[text("Clinic")], contact=[{"name": {"family": "Bell"}}]),
     "list joined"),
    (resource("Binary", contentType="text/plain", content="QUJD"),
     resource("Binary", contentType="text/plain", data="QUJD"), "renamed"),
    (visit("inpatient", patient=PATIENT, reason=text("Rash"), indication=[CONDITION],
           incomingReferral=[ref("ReferralRequest/1")], appointment=ref("Appointment/1")),
     visit(subject=PATIENT, reasonCode=[text("Rash")], basedOn=[ref("ReferralRequest/1")],
           appointment=[ref("Appointment/1")], diagnosis=[{"condition": CONDITION}]),
     "code renamed renamed list renamed list renamed"),
    *((visit(said), visit({"system": f"{CT}v3-ActCode", "code": code, "display": display}), "code")
      for said, code, display in (
          ("outpatient", "AMB", "ambulatory"), ("ambulatory", "AMB", "ambulatory"),
          ("emergency", "EMER", "emergency"), ("home", "HH", "home health"),
          ("field", "FLD", "field"), ("daytime", "SS", "short stay"), ("virtual", "VR", "virtual"),
      )),
    (visit("other", _class={"id": "c"}),
     visit({"system": "http://hl7.org/fhir/encounter-class", "code": "other",
            "_code": {"id": "c"}}), "code"),
    (visit(None), visit(UNKNOWN), "absent"),
    (visit(diagnosis=[{"condition": CONDITION, "role": text("x")}]),
     visit(diagnosis=[{"condition": CONDITION, "use": text("x")}]), "renamed"),
    stay("admittingDiagnosis", "AD", "Admission diagnosis"),
    stay("dischargeDiagnosis", "DD", "Discharge diagnosis"),
    # DSTU2
    (origin(period={"start": "2020"}, activity=text("made"), reason=[text("why")],
            agent=[{"role": AUTHOR, "actor": ref("Practitioner/1"), "userId": {"value": "bell"},
                    "relatedAgent": [{"type": text("boss"), "target": "#2"}]}, {"role": AUTHOR}],
            entity=[{"role": "source", "type": {"code": "x"}, "reference": "DocumentReference/1",
                     "display": "letter", "agent": {"role": AUTHOR, "actor": PATIENT}}],
            signature=[{"type": [AUTHOR], "when": "2020-05-06T00:00:00Z", "whoReference": PATIENT,
                        "contentType": "application/jose", "blob": "QUJD"}]),
     origin(occurredPeriod={"start": "2020"}, activity=text("made"), reason=[text("why")],
            agent=[{"role": [{"coding": [AUTHOR]}],
                    "who": {**ref("Practitioner/1"), "identifier": {"value": "bell"}},
                    **with_extension(f"{DSTU2}Provenance.agent.relatedAgent", extension=[
                        extension("type", valueCodeableConcept=text("boss")),
                        extension("target", valueUri="#2")])},
                   {"role": [{"coding": [AUTHOR]}], "who": UNKNOWN}],
            entity=[{"role": "source", "what": {**ref("DocumentReference/1"), "display": "letter"},
                     **with_extension(f"{DSTU2}Provenance.entity.type", valueCoding={"code": "x"}),
                     "agent": [{"role": [{"coding": [AUTHOR]}], "who": PATIENT}]}],
            signature=[{"type": [AUTHOR], "when": "2020-05-06T00:00:00Z", "who": PATIENT,
                        "sigFormat": "application/jose", "data": "QUJD"}]),
     "renamed " * 9 + "code " * 3 + "list " * 4 + "extension extension absent"),
    (origin(), origin(agent=[{"who": UNKNOWN}]), "absent"),
    # STU3
    (origin(activity=AUTHOR, reason=[AUTHOR],
            agent=[{"whoUri": "Practitioner/1", "relatedAgentType": text("boss"),
                    "onBehalfOfReference": ref("Organization/1")}],
            entity=[{"role": "source", "whatIdentifier": {"value": "7"}},
                    {"role": "source", "whatReference": PATIENT}]),
     origin(activity={"coding": [AUTHOR]}, reason=[{"coding": [AUTHOR]}],
            agent=[{"who": {**with_extension(f"{STU3}BaseType", valueString="uri"),
                            "reference": "Practitioner/1"},
                    "onBehalfOf": ref("Organization/1"), "type": text("boss")}],
            entity=[{"role": "source", "what": {"identifier": {"value": "7"}}},
                    {"role": "source", "what": PATIENT}]),
     "code code " + "renamed " * 5),
    (origin(recorded="2020-05-06", agent=[{"who": PATIENT}]),
     origin(recorded="2020-05-06T00:00:00+00:00", agent=[{"who": PATIENT}]), "instant"),
]
# fmt: on
CASES = [
    *((allergy(**came), allergy(**becomes), rules) for came, becomes, rules in ALLERGIES),
    *((document(**came), document(**becomes), rules) for came, becomes, rules in DOCUMENTS),
    *OTHERS,
]


def mend(resource: dict[str, Any]) -> list[Repair]:
    """Repair a resource in place, and check that it may then be stored and needs no more."""
    definition = SERVED[resource["resourceType"]]
    done = repair(resource, "records.ndjson:7", definition.schema)
    prepare(definition, deepcopy(resource))
    assert repair(resource, "records.ndjson:7", definition.schema) == []
    return done


@pytest.mark.parametrize("type_name", [*NAMES, "Binary"])
def test_records_are_repaired_by_rule(type_name):
    of_type = [case for case in CASES if case[0]["resourceType"] == type_name]
    assert of_type
    for came, becomes, rules in of_type:
        mended = deepcopy(came)
        done = mend(mended)
        assert mended == becomes
        assert sorted(repaired.rule for repaired in done) == sorted(rules.split()), came


def test_contained_resources_are_repaired():
    doctor = {"resourceType": "Practitioner", "id": "d", "name": {"family": ["Bell"]}}
    device = {"resourceType": "Device", "id": "v"}
    mended = allergy(contained=[deepcopy(doctor), device])
    schemas = {name: definition.schema for name, definition in SERVED.items()}
    done = repair(mended, "", schemas["AllergyIntolerance"], schemas)
    assert mended["contained"] == [{**doctor, "name": [{"family": "Bell"}]}, device]
    assert {repaired.path for repaired in done} == {
        "AllergyIntolerance.contained[0].name",
        "AllergyIntolerance.contained[0].name[0].family",
    }


def test_repair_has_the_place_the_rule_and_the_values():
    (done,) = mend(allergy(reaction=[{**HIVES, "severity": "mild "}]))
    assert done == Repair(
        "AllergyIntolerance.reaction[0].severity", "trim", "mild ", "mild", "records.ndjson:7"
    )
    assert str(done) == (
        'records.ndjson:7: AllergyIntolerance.reaction[0].severity: trim: "mild " became "mild"'
    )
    (done,) = mend(allergy(note={"text": "x" * 1_000}))
    assert len(str(done)) < 300
    assert json.loads(fhir_json.text(done.after)) == [{"text": "x" * 1_000}]


def test_null_in_the_place_of_an_extension_stays():
    for nothing in (None, "", " "):
        name = {"given": [nothing, "", "Ann"], "_given": [{"id": "a"}, None, None]}
        mended = resource("Patient", name=[name])
        mend(mended)
        assert mended["name"] == [{"given": [None, "Ann"], "_given": [{"id": "a"}, None]}]


def test_missing_id_follows_from_the_identifier_or_the_content_without_meta():
    def id_of(**elements: Any) -> str:
        mended = allergy(**{"id": "", **elements})
        assert "id" in [done.rule for done in mend(mended)]
        return str(mended["id"])

    number = {"system": "http://x.example", "value": "7"}
    assert id_of(identifier=[{"value": "7"}, number]) == id_of(identifier=[number], type="allergy")
    first, same, other = (
        id_of(meta={"versionId": version}, type=kind)
        for version, kind in (("1", "allergy"), ("2", "allergy"), ("1", "intolerance"))
    )
    assert first == same != other


# What cannot be repaired


REFUSED: list[tuple[dict[str, Any], str]] = [
    (allergy(substance=text("a"), code=text("b")), "AllergyIntolerance.substance"),
    (allergy(status="maybe"), "AllergyIntolerance.status"),
    (allergy(status=7), "AllergyIntolerance.status"),
    (allergy(status="active", clinicalStatus=clinical("active")), "AllergyIntolerance.status"),
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
    (visit(patient=PATIENT, subject=CONDITION), "Encounter.patient"),
    (
        resource("Patient", name=[{"family": ["a", "b"], "_family": [{"id": "1"}, None]}]),
        "Patient.name[0].family",
    ),
    (resource("Patient", animal={"wings": 2}), "Patient.animal"),
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
]


def test_repair_that_would_lose_something_is_refused():
    for came, path in REFUSED:
        with pytest.raises(InvalidResource) as refused:
            repair(came, "", SERVED[came["resourceType"]].schema)
        assert [fault[0] for fault in refused.value.faults] == [path]
    deep: dict[str, Any] = {"url": "http://x.example"}
    for _ in range(5_000):
        deep = {"url": "http://x.example", "extension": [deep]}
    with pytest.raises(InvalidResource, match="nested too deeply"):
        repair(allergy(extension=[deep]), "", SERVED["AllergyIntolerance"].schema)


def test_fault_without_a_rule_is_left_to_the_schema():
    for elements in (
        {"event": [HIVES]},
        {"type": "Allergy"},
        {"recordedDate": "01.03.2016"},
        {"recordedDate": "2016-02-30T24:00:00Z"},
        {"recordedDate": "9999-12-31T24:00:00Z"},
        {"recordedDate": "2016-02-28T24:01:00Z"},
        {"onsetAge": {"value": "seven"}},
        {"onsetAge": {"value": "NaN"}},
        {"category": "pets"},
        {"clinicalStatus": ["active"]},
    ):
        came = allergy(**elements)
        repair(came, "", SERVED["AllergyIntolerance"].schema)
        with pytest.raises(InvalidResource):
            prepare(SERVED["AllergyIntolerance"], came)


# Valid records, and any at all


def is_partial_day(resource: dict[str, Any]) -> bool:
    """Return whether a document has a date where R4 has an instant: this server accepts it."""
    return resource["resourceType"] == "DocumentReference" and len(resource.get("date", "")) == 10


def assert_unchanged(definition: Definition, came: dict[str, Any]) -> None:
    before = fhir_json.canonical(came)
    assert repair(came, "", definition.schema) == []
    assert fhir_json.canonical(came) == before


def check_valid(name: str, examples: int) -> None:
    @settings(max_examples=examples)
    @given(resources(name))
    def check(came: dict[str, Any]) -> None:
        if not is_partial_day(came):
            assert_unchanged(SERVED[name], came)

    check()


def check_idempotent(name: str, examples: int) -> None:
    """Check that any elements are repaired once or refused, and nothing else breaks."""
    scalars = st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.just({})
    of_concepts = st.sampled_from(["coding", "text", "_text", "extension"])
    values = st.recursive(
        scalars,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(of_concepts, inner),
        max_leaves=6,
    )
    more = ("status", "class", "created", "substance", "onset", "category", "_category")
    more += ("patient", "reason", "indication", "role", "period", "animal", "practitionerRole")
    elements = st.sampled_from([*sorted(SERVED[name].schema.elements), *more])

    @settings(max_examples=examples)
    @given(st.dictionaries(elements, values, max_size=5))
    def check(given_elements: dict[str, Any]) -> None:
        mended = {**given_elements, "resourceType": name}
        try:
            repair(mended, "", SERVED[name].schema)
        except InvalidResource:
            return
        again = deepcopy(mended)
        assert repair(again, "", SERVED[name].schema) == []
        assert again == mended

    check()


@pytest.fixture
def _own_media_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRIMITIVES, datatypes.media_type, st.just("text/plain"))


@pytest.mark.usefixtures("_own_media_type")
@pytest.mark.parametrize("check", [check_valid, check_idempotent])
@pytest.mark.parametrize(
    ("name", "examples"),
    [
        ("AllergyIntolerance", 10),
        ("Provenance", 10),
        *(pytest.param(name, sample(40, 150), marks=pytest.mark.campaign) for name in NAMES),
    ],
)
def test_valid_and_repaired_records_are_unchanged(name, examples, check: Callable[..., None]):
    check(name, examples)


def test_records_of_the_demo_are_unchanged():
    seen = 0
    for versions in read_seed(seed_path(), SERVED):
        for version in versions:
            definition = version.prepared.definition
            if definition.name == "Binary" or version.deleted:
                continue
            row = {**version.prepared.columns, "id": version.prepared.id}
            row.update(version_id=1, last_updated=version.last_updated)
            came = fhir_json.loads(fhir_json.dumps(definition.schema.dump(row)))
            if not is_partial_day(came):
                assert_unchanged(definition, came)
                seen += 1
    assert seen > 100
