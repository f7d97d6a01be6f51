"""Clinical documents as resources: valid, linked, and the same whenever they come."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import pytest

from fhirapp.definition import types
from fhirapp.exchange.ccda import identities
from fhirapp.fhir import json as fhir_json
from fhirapp.store.prepare import prepare
from tests.support.ccda_samples import NAMES, SAMPLES, SSN, Resource, of_type, only, read, sample
from tests.support.us_core import all_faults, packages_in


@pytest.fixture(scope="module", params=NAMES)
def resources(request: pytest.FixtureRequest) -> list[Resource]:
    """The resources of each sample."""
    return read((SAMPLES / f"{request.param}.xml").read_bytes())


LAKESIDE = ("http://hl7.org/fhir/sid/us-npi", "1555001019")
MRN = ("urn:oid:2.16.840.1.113883.19.5.99999.2", "MRN-40081")
UNKNOWN = {
    "extension": [
        {
            "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason",
            "valueCode": "unknown",
        }
    ]
}


def without_data(resource: Resource) -> Resource:
    """Return a DocumentReference without the document itself."""
    shown = json.loads(fhir_json.dumps(resource))
    del shown["content"][0]["attachment"]["data"]
    return shown


def references(value: Any) -> Iterator[str]:
    """Yield what a resource points to."""
    if isinstance(value, dict):
        if isinstance(value.get("reference"), str):
            yield value["reference"]
        for content in value.values():
            yield from references(content)
    elif isinstance(value, list):
        for content in value:
            yield from references(content)


def test_every_resource_of_every_sample_is_stored(app, resources):
    for resource in resources:
        prepared = prepare(types(app)[resource["resourceType"]], resource)
        assert prepared.id == resource["id"]


def test_every_resource_of_every_sample_is_valid(shared, resources):
    packages = packages_in(shared)
    for resource in resources:
        served = json.loads(fhir_json.dumps(resource))
        served["meta"] = {"versionId": "1"}
        assert all_faults(served, packages) == []


def test_what_is_pointed_to_comes_before_and_is_the_same_patients(resources):
    seen: set[str] = set()
    for resource in resources:
        contained = {f"#{one['id']}" for one in resource.get("contained", ())}
        pointed = set(references(resource)) - contained
        # Of a document that is replaced, another document tells.
        pointed -= {one["target"]["reference"] for one in resource.get("relatesTo", ())}
        seen.add(f"{resource['resourceType']}/{resource['id']}")
        assert pointed <= seen
        assert {one for one in pointed if one.startswith("Patient/")} <= {
            f"Patient/{only(resources, 'Patient')['id']}"
        }


def test_each_resource_can_be_changed_by_itself():
    found = read(sample("ccd"))
    document = found.pop(found.index(only(found, "DocumentReference")))
    others = fhir_json.dumps(found)
    for reference in (*document["author"], document["custodian"], document["subject"]):
        reference["reference"] = "changed"
    document["contained"][0]["id"] = "changed"
    assert fhir_json.dumps(found) == others


@pytest.mark.parametrize("name", NAMES)
def test_a_document_that_comes_again_gives_the_same(name):
    document = (SAMPLES / f"{name}.xml").read_bytes()
    assert read(document) == read(document)


@pytest.mark.parametrize("name", NAMES)
def test_the_attachment_is_the_document_as_it_came(name):
    document = (SAMPLES / f"{name}.xml").read_bytes()
    attachment = only(read(document), "DocumentReference")["content"][0]["attachment"]
    assert base64.b64decode(attachment["data"]) == document
    assert attachment["contentType"] == "application/cda+xml"


def test_two_documents_of_a_patient_have_the_same_patient_and_people():
    one, other = read(sample("ccd")), read(sample("discharge-summary"))
    for type_name in ("Patient", "Organization"):
        assert only(one, type_name)["id"] == only(other, type_name)["id"]
    ids = [{doctor["id"] for doctor in of_type(both, "Practitioner")} for both in (one, other)]
    assert ids[0] == ids[1]
    documents = [only(both, "DocumentReference")["id"] for both in (one, other)]
    assert len(set(documents)) == 2


def test_a_patient_is_the_same_in_whatever_order_the_numbers_come():
    mrn = '<id extension="MRN-40081" root="2.16.840.1.113883.19.5.99999.2"/>'
    ssn = '<id extension="561-45-6780" root="2.16.840.1.113883.4.1"/>'
    plain = sample("unstructured").replace(' assigningAuthorityName="Lakeside Clinic"', "")
    assert mrn in plain
    turned = plain.replace(mrn, "").replace(ssn, ssn + mrn)
    without = plain.replace(ssn, "")
    ids = {only(read(one), "Patient")["id"] for one in (plain, turned, without)}
    assert len(ids) == 1


def test_by_which_identifiers_people_may_be_known_already():
    found = read(sample("ccd"))
    known_by = identities(found)
    ids = {one["resourceType"]: one["id"] for one in reversed(found)}
    assert known_by[f"Patient/{ids['Patient']}"] == [
        MRN,
        (SSN, "561-45-6780"),
        (SSN, "561456780"),
    ]
    assert known_by[f"Organization/{ids['Organization']}"] == [LAKESIDE]
    types_of = {name.partition("/")[0] for name in known_by}
    assert types_of == {"Patient", "Organization", "Practitioner"}


def test_who_has_no_number_can_be_known_by_none():
    found = read(sample("referral-note"))
    assert not any(name.startswith("Practitioner/") for name in identities(found))


def test_the_header_of_a_continuity_of_care_document():
    found = read(sample("ccd"))
    document = without_data(only(found, "DocumentReference"))
    patient = f"Patient/{only(found, 'Patient')['id']}"
    quill = {
        "reference": f"Practitioner/{of_type(found, 'Practitioner')[0]['id']}",
        "display": "Nora Quill MD",
    }
    clinic = {
        "reference": f"Organization/{only(found, 'Organization')['id']}",
        "display": "Lakeside Clinic",
    }
    (device,) = document.pop("contained")
    assert device == {
        "resourceType": "Device",
        "id": device["id"],
        "identifier": [{"system": "urn:oid:2.16.840.1.113883.19.5.99999.9", "value": "ehr-1"}],
        "deviceName": [
            {"name": "Harbor EHR", "type": "model-name"},
            {"name": "Harbor Exchange 4.2", "type": "other"},
        ],
    }
    rfc = "urn:ietf:rfc:3986"
    made = "2024-03-01T15:30:00.123+01:00"
    ct = "http://terminology.hl7.org/CodeSystem/"
    code = "ccda-structuredBody:2.1"
    assert document == {
        "resourceType": "DocumentReference",
        "id": document["id"],
        "meta": {"lastUpdated": made},
        "language": "en-US",
        "extension": [
            {
                "url": "http://hl7.org/fhir/5.0/StructureDefinition/"
                "extension-DocumentReference.version",
                "valueString": "2",
            }
        ],
        "masterIdentifier": {
            "system": rfc,
            "value": "urn:uuid:db734647-fc99-424c-a864-7e3cda82e703",
        },
        "identifier": [{"system": rfc, "value": "urn:uuid:db734647-fc99-424c-a864-000000000001"}],
        "status": "current",
        "docStatus": "final",
        "type": {
            "coding": [
                {
                    "system": "http://loinc.org",
                    "code": "34133-9",
                    "display": "Summarization of Episode Note",
                }
            ]
        },
        "category": [
            {
                "coding": [
                    {
                        "system": "http://hl7.org/fhir/us/core/CodeSystem/"
                        "us-core-documentreference-category",
                        "code": "clinical-note",
                        "display": "Clinical Note",
                    }
                ]
            },
            {
                "coding": [
                    {
                        "system": "http://loinc.org",
                        "code": "34133-9",
                        "display": "Summary of episode note",
                    }
                ]
            },
        ],
        "subject": {"reference": patient},
        "date": made,
        "author": [quill, {"reference": f"#{device['id']}", "display": "Harbor EHR"}],
        "authenticator": quill,
        "custodian": clinic,
        "securityLabel": [{"coding": [{"system": f"{ct}v3-Confidentiality", "code": "N"}]}],
        "content": [
            {
                "attachment": {
                    "contentType": "application/cda+xml",
                    "language": "en-US",
                    "title": "Continuity of Care: Ida Fenwick",
                    "creation": made,
                },
                "format": {
                    "system": f"{ct}v3-HL7DocumentFormatCodes",
                    "code": f"urn:hl7-org:sdwg:{code}",
                    "display": code,
                },
            }
        ],
        "context": {
            "encounter": [{"reference": f"Encounter/{only(found, 'Encounter')['id']}"}],
            "period": {"start": "2024-03-01T14:00:00+01:00", "end": "2024-03-01T15:00:00+01:00"},
            "facilityType": {
                "coding": [
                    {
                        "system": "urn:oid:2.16.840.1.113883.6.259",
                        "code": "1160-1",
                        "display": "Urgent Care Center",
                    }
                ]
            },
        },
    }


def test_a_next_version_points_to_the_one_it_replaces():
    found = read(sample("progress-note"))
    document = only(found, "DocumentReference")
    new, old = "000000000402", "000000000401"
    head, _, rest = sample("progress-note").replace(new, old).partition("<relatedDocument")
    replaced = only(read(head + rest.partition("</relatedDocument>")[2]), "DocumentReference")
    assert document["relatesTo"] == [
        {
            "code": "replaces",
            "target": {
                "reference": f"DocumentReference/{replaced['id']}",
                "identifier": replaced["masterIdentifier"],
            },
        }
    ]
    assert document["id"] != replaced["id"]
    assert document["identifier"] == replaced["identifier"]


def test_a_document_without_allergies_has_none():
    assert of_type(read(sample("progress-note")), "AllergyIntolerance") == []


def test_a_document_around_a_pdf_is_kept_whole_and_says_its_format():
    document = only(read(sample("unstructured")), "DocumentReference")
    code = "urn:hl7-org:sdwg:ccda-nonXMLBody:2.1"
    assert document["content"][0]["format"]["code"] == code
    assert len(document["content"]) == 1


@pytest.mark.parametrize(
    ("name", "code"),
    [("ccd-1.1", "urn:hl7-org:sdwg:ccda-structuredBody:1.1"), ("plain-cda", None)],
)
def test_older_documents_say_their_own_format_or_none(name, code):
    content = only(read((SAMPLES / f"{name}.xml").read_bytes()), "DocumentReference")["content"]
    assert content[0].get("format", {}).get("code") == code


def test_the_patient_as_the_header_describes_her():
    patient = only(read(sample("ccd")), "Patient")
    race, ethnicity = patient["extension"]
    assert [part["url"] for part in race["extension"]] == ["ombCategory", "detailed", "text"]
    assert race["extension"][-1]["valueString"] == "White, European"
    assert [part["url"] for part in ethnicity["extension"]] == ["ombCategory", "text"]
    assert patient["name"] == [
        {"use": "usual", "family": "Fenwick", "given": ["Ida", "Rose"], "prefix": ["Ms."]}
    ]
    assert (patient["gender"], patient["birthDate"]) == ("female", "1971-04-12")
    assert patient["telecom"] == [
        {"system": "phone", "value": "+1(503)555-0142", "use": "home"},
        {"system": "phone", "value": "+1(503)555-0177", "use": "mobile"},
    ]
    assert patient["address"] == [
        {
            "use": "home",
            "line": ["17 Mill Lane"],
            "city": "Ashford",
            "state": "OR",
            "postalCode": "97005",
            "country": "US",
        }
    ]
    spoken = {"coding": [{"system": "urn:ietf:bcp:47", "code": "en-US"}]}
    assert patient["communication"][0] == {"language": spoken, "preferred": True}


def test_what_the_header_lacks_is_marked_as_unknown():
    found = read(sample("referral-note"))
    patient, visit = only(found, "Patient"), only(found, "Encounter")
    assert patient["gender"] == "unknown"
    assert patient["_birthDate"]["extension"][0]["valueCode"] == "asked-unknown"
    assert patient["identifier"][1] == {"system": SSN, "_value": UNKNOWN}
    assert [one["value"] for one in patient["telecom"]] == ["+1(503)555-0177"]
    assert visit["class"] == UNKNOWN
    assert visit["type"][0]["coding"][0]["code"] == "UNK"
    assert visit["status"] == "unknown"
    doctor = only(found, "Practitioner")
    assert doctor["name"] == [{"text": "Dr. Quill, on call", "_family": UNKNOWN}]


def test_the_visit_has_its_class_kind_time_people_and_place():
    found = read(sample("discharge-summary"))
    visit = only(found, "Encounter")
    assert visit["class"]["code"] == "IMP"
    assert visit["status"] == "finished"
    assert visit["period"] == {
        "start": "2024-05-09T18:10:00-07:00",
        "end": "2024-05-12T09:00:00-07:00",
    }
    assert visit["hospitalization"]["dischargeDisposition"]["coding"][0]["code"] == "01"
    assert visit["participant"][0]["individual"]["display"] == "Nora Quill MD"
    assert visit["location"][0]["location"]["display"] == "Lakeside Clinic, ward 3"
    assert visit["serviceProvider"]["display"] == "Lakeside Clinic"


def test_each_allergy_and_the_document_have_a_provenance_that_names_the_document():
    found = read(sample("ccd"))
    document = f"DocumentReference/{only(found, 'DocumentReference')['id']}"
    allergies = [f"AllergyIntolerance/{one['id']}" for one in of_type(found, "AllergyIntolerance")]
    provenances = of_type(found, "Provenance")
    assert [one["target"] for one in provenances] == [
        [{"reference": target}] for target in (document, *allergies)
    ]
    assert {json.dumps(one["entity"]) for one in provenances} == {
        json.dumps([{"role": "source", "what": {"reference": document}}])
    }
    assert {one["recorded"] for one in provenances} == {"2024-03-01T15:30:00.123+01:00"}
    own, penicillin, milk = provenances[:3]
    roles = [agent["type"]["coding"][0]["code"] for agent in own["agent"]]
    assert roles == ["author", "author", "custodian"]
    assert [agent["who"]["display"] for agent in penicillin["agent"]] == ["Henry Marsh"]
    assert penicillin["occurredDateTime"] == "2014-01-04T12:35:06-05:00"
    # Nobody is named: who wrote the document wrote this.
    assert [agent["who"]["display"] for agent in milk["agent"]] == ["Nora Quill MD", "Harbor EHR"]
    assert "occurredDateTime" not in milk


def test_a_document_that_the_patient_and_her_mother_wrote_is_theirs():
    found = read(sample("patient-generated"))
    document = only(found, "DocumentReference")
    patient = f"Patient/{only(found, 'Patient')['id']}"
    (mother,) = document["contained"]
    assert mother["resourceType"] == "RelatedPerson"
    assert mother["relationship"][0]["coding"][0]["code"] == "MTH"
    assert document["author"] == [
        {"reference": patient},
        {"reference": f"#{mother['id']}", "display": "Maud Fenwick"},
    ]
    assert of_type(found, "Practitioner") == []
    allergy = only(found, "AllergyIntolerance")
    assert allergy["recorder"] == {"reference": patient}
    assert allergy["verificationStatus"]["coding"][0]["code"] == "unconfirmed"


def test_a_day_without_time_is_the_documents_date_and_no_instant_is_made_of_it():
    found = read(sample("unstructured").replace('"20240810120000-0700"', '"20240810"'))
    document, provenance = only(found, "DocumentReference"), only(found, "Provenance")
    assert document["date"] == "2024-08-10"
    assert "meta" not in document
    assert provenance["_recorded"] == UNKNOWN
    assert provenance["occurredDateTime"] == "2024-08-10"


@pytest.mark.parametrize(
    ("root", "extension", "expected"),
    [
        ("2.16.840.1.113883.4.1", "123-45-6789", {"system": SSN, "value": "123-45-6789"}),
        ("2.16.840.1.113883.4.1", None, {"system": SSN, "_value": UNKNOWN}),
        (
            "2.16.840.1.113883.4.500",
            "1V7",
            {"system": "urn:oid:2.16.840.1.113883.4.500", "value": "1V7"},
        ),
        (
            "2.16.840.1.123.4.50",
            None,
            {"system": "urn:ietf:rfc:3986", "value": "urn:oid:2.16.840.1.123.4.50"},
        ),
        (
            "67265ED2-35BB-43F8-B9DE-91C5935625E0",
            None,
            {
                "system": "urn:ietf:rfc:3986",
                "value": "urn:uuid:67265ed2-35bb-43f8-b9de-91c5935625e0",
            },
        ),
        (
            "67265ED2-35BB-43F8-B9DE-91C5935625E0",
            "abcd",
            {"system": "urn:uuid:67265ed2-35bb-43f8-b9de-91c5935625e0", "value": "abcd"},
        ),
        (None, "Z1124", {"_system": UNKNOWN, "value": "Z1124"}),
        (
            "2.16.840.1.113883.4.873",
            "http://myorg.com/patient/1234",
            {"system": "http://myorg.com/patient", "value": "1234"},
        ),
        (
            "2.16.840.1.113883.4.873",
            "urn:myNID:myOrg:Z3321",
            {"system": "urn:myNID:myOrg", "value": "Z3321"},
        ),
        ("LOCAL ROOT", "7", {"system": "urn:hl7ii:LOCAL%20ROOT", "value": "7"}),
    ],
)
def test_identifiers_are_those_of_the_mapping_guide(root, extension, expected):
    """C-CDA on FHIR, "CDA id → FHIR Identifier"."""
    written = "".join(
        f' {name}="{value}"' for name, value in (("root", root), ("extension", extension)) if value
    )
    document = sample("unstructured").replace(
        '<id extension="561-45-6780" root="2.16.840.1.113883.4.1"/>', f"<id{written}/>"
    )
    assert only(read(document), "Patient")["identifier"][1] == expected


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ('value="tel:+1(555)867-5309" use="HP"', {"system": "phone", "use": "home"}),
        ('value="(555)867-5309" use="WP"', {"system": "phone", "use": "work"}),
        ('value="mailto:ida%40example.org"', {"system": "email", "value": "ida@example.org"}),
        ('value="ida@example.org"', {"system": "email", "value": "ida@example.org"}),
        ('value="FAX:1234"', {"system": "fax", "value": "1234"}),
        ('value="tel:1" use="PG"', {"system": "pager"}),
        ('value="https://example.org/me"', {"system": "url", "value": "https://example.org/me"}),
        ('value="ask at the desk"', {"system": "other", "value": "ask at the desk"}),
    ],
)
def test_numbers_and_addresses_of_people(written, expected):
    document = sample("unstructured").replace(
        '<telecom value="tel:+1(503)555-0142" use="HP"/>', f"<telecom {written}/>"
    )
    first = only(read(document), "Patient")["telecom"][0]
    assert {name: first[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ('code="M"', {"gender": "male"}),
        ('code="UN"', {"gender": "other"}),
        ('nullFlavor="UNK"', {"gender": "unknown"}),
    ],
)
def test_the_gender_of_a_patient(code, expected):
    element = "<administrativeGenderCode "
    document = sample("unstructured").replace(f'{element}code="F"', element + code)
    patient = only(read(document), "Patient")
    assert {name: patient[name] for name in expected} == expected
