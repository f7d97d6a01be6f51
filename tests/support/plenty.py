"""Many records, of which each search parameter has a value that nearly all have, and one of ten."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from flask import Flask

from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.store.prepare import prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.write import Rendering

ALLERGY, DOCUMENT = "AllergyIntolerance", "DocumentReference"
FEW = 10
# So many records are of one patient.
OF_A_PATIENT = 10
# So many of the first records have a tag that no later one has.
OLD = 1_050
SYSTEM = "https://plenty.example/codes"
RENDERING = Rendering(inline_max=32_768, empty_content="omit")
# When the first ten, the last ten and all between them are published.
FIRST, BETWEEN, LAST = (f"{year}-01-01T00:00:00.000+00:00" for year in (2019, 2022, 2025))

MARKS = ("common", "rare")
_DAYS = ("2010-03-04", "1990-05-06")
_URLS = tuple(f"https://plenty.example/{mark}" for mark in MARKS)
_COMMON = {
    "_tag": MARKS, "_profile": _URLS, "_security": MARKS, "_source": _URLS, "_text": MARKS,
    "_content": MARKS,
}  # fmt: skip
# What is searched for, by parameter: the value of all save ten, and that of ten.
VALUES = {
    ALLERGY: {
        **_COMMON,
        "date": _DAYS,
        "status": ("active", "resolved"),
        "clinical-status": ("active", "resolved"),
        "verification-status": ("confirmed", "refuted"),
        "code": MARKS,
        "category": ("food", "biologic"),
        "criticality": ("low", "high"),
        "type": ("allergy", "intolerance"),
        "identifier": MARKS,
        "manifestation": MARKS,
        "route": MARKS,
        "severity": ("mild", "severe"),
        "onset": _DAYS,
        "last-date": _DAYS,
        "recorder": MARKS,
        "asserter": MARKS,
    },
    DOCUMENT: {
        **_COMMON,
        "date": _DAYS,
        "category": MARKS,
        "type": MARKS,
        "code": MARKS,
        "status": ("current", "superseded"),
        "identifier": MARKS,
        "contenttype": ("text/plain", "text/html"),
        "format": MARKS,
        "language": ("en", "de"),
        "event": MARKS,
        "facility": MARKS,
        "setting": MARKS,
        "security-label": MARKS,
        "relation": ("appends", "replaces"),
        "period": _DAYS,
        "author": MARKS,
        "authenticator": MARKS,
        "custodian": MARKS,
        "encounter": MARKS,
        "relatesto": MARKS,
        "related": ("Binary/common", "Binary/rare"),
        "relationship": ("appends$common", "replaces$rare"),
        "description": MARKS,
        "location": _URLS,
    },
}


def publish(app: Flask, size: int) -> None:
    """Publish so many records of either type, and their patients and practitioners."""
    with app.app_context():
        for kind, people in (
            ("ValueSet", _value_sets()),
            ("Practitioner", _practitioners()),
            ("Patient", _patients(size)),
        ):
            definition = types()[kind]
            with writing() as connection:
                publisher = Publisher(connection, now=FIRST, rendering=RENDERING)
                publisher.publish([prepare(definition, one) for one in people])
    for kind, make in ((ALLERGY, _allergy), (DOCUMENT, _document)):
        records = [*_records(kind, make, size)]
        parts = (FIRST, records[:FEW]), (BETWEEN, records[FEW:-FEW]), (LAST, records[-FEW:])
        with app.app_context():
            definition = types()[kind]
            for now, part in parts:
                with writing() as connection:
                    publisher = Publisher(connection, now=now, rendering=RENDERING)
                    publisher.publish([prepare(definition, one) for one in part])


# Every value of a token, and one of nobody.
CODES = sorted(
    {
        value
        for named in VALUES.values()
        for values in named.values()
        for value in (*values, "nobody")
        if value.isalpha()
    }
)
_HL7, _CT = "http://hl7.org/fhir/", "http://terminology.hl7.org/CodeSystem/"
_SYSTEMS = {
    code: system
    for system, codes in {
        f"{_CT}allergyintolerance-clinical": "active resolved",
        f"{_CT}allergyintolerance-verification": "confirmed refuted",
        f"{_HL7}allergy-intolerance-category": "food biologic",
        f"{_HL7}allergy-intolerance-criticality": "low high",
        f"{_HL7}allergy-intolerance-type": "allergy intolerance",
        f"{_HL7}reaction-event-severity": "mild severe",
        f"{_HL7}document-reference-status": "current superseded",
        f"{_HL7}document-relationship-type": "appends replaces",
        "urn:ietf:bcp:47": "en de",
    }.items()
    for code in codes.split()
}


def _value_sets() -> Iterator[dict[str, Any]]:
    """Yield a value set of each code, and of a thousand that nobody has."""
    others = [{"code": f"none-{number}"} for number in range(1_000)]
    for code in CODES:
        include = [{"system": _SYSTEMS.get(code, SYSTEM), "concept": [{"code": code}]}]
        yield {
            "resourceType": "ValueSet",
            "id": code,
            "url": f"urn:plenty:{code}",
            "status": "active",
            "compose": {"include": [*include, {"system": SYSTEM, "concept": others}]},
        }


def _practitioners() -> Iterator[dict[str, Any]]:
    for mark in MARKS:
        yield {"resourceType": "Practitioner", "id": mark, "identifier": [_identifier(mark)]}


def _patients(size: int) -> Iterator[dict[str, Any]]:
    """Yield the patients; ten are of the rarer gender and practitioner."""
    for number in range(-(-size // OF_A_PATIENT)):
        is_rare = number < FEW
        yield {
            "resourceType": "Patient",
            "id": f"p{number}",
            "identifier": [_identifier(f"n{number}")],
            "gender": "male" if is_rare else "female",
            "generalPractitioner": [_reference("Practitioner", MARKS[is_rare])],
        }


Said = Mapping[str, str]


def _records(
    kind: str, make: Callable[[str, str, Said], dict[str, Any]], size: int
) -> Iterator[dict[str, Any]]:
    """Yield records; the ten with the rare values stand at equal distances."""
    for number in range(size):
        is_rare = number % (size // FEW) == 0
        said = {name: values[is_rare] for name, values in VALUES[kind].items()}
        record = make(f"r{number:05}", f"p{number // OF_A_PATIENT}", said)
        if number < OLD:
            record["meta"]["tag"].append({"system": SYSTEM, "code": "old"})
        yield record


def _allergy(own_id: str, patient: str, said: Said) -> dict[str, Any]:
    return {
        "resourceType": ALLERGY,
        "id": own_id,
        "meta": _meta(said),
        "identifier": [_identifier(said["identifier"])],
        "clinicalStatus": _concept(said["clinical-status"], "allergyintolerance-clinical"),
        "verificationStatus": _concept(
            said["verification-status"], "allergyintolerance-verification"
        ),
        "type": said["type"],
        "category": [said["category"]],
        "criticality": said["criticality"],
        "code": _concept(said["code"]),
        "patient": {"reference": f"Patient/{patient}"},
        "recordedDate": said["date"],
        "recorder": _reference("Practitioner", said["recorder"]),
        "asserter": _reference("Practitioner", said["asserter"]),
        "lastOccurrence": said["last-date"],
        "reaction": [
            {
                "manifestation": [_concept(said["manifestation"])],
                "onset": said["onset"],
                "severity": said["severity"],
                "exposureRoute": _concept(said["route"]),
            }
        ],
    }


def _document(own_id: str, patient: str, said: Said) -> dict[str, Any]:
    return {
        "resourceType": DOCUMENT,
        "id": own_id,
        "meta": _meta(said),
        "identifier": [_identifier(said["identifier"])],
        "status": said["status"],
        "type": _concept(said["type"]),
        "category": [_concept(said["category"])],
        "subject": {"reference": f"Patient/{patient}"},
        "date": said["date"],
        "author": [_reference("Practitioner", said["author"])],
        "authenticator": _reference("Practitioner", said["authenticator"]),
        "custodian": _reference("Organization", said["custodian"]),
        "relatesTo": [
            {"code": said["relation"], "target": _reference(DOCUMENT, said["relatesto"])}
        ],
        "description": f"{said['description']} description",
        "securityLabel": [_concept(said["security-label"])],
        "content": [
            {
                "attachment": {
                    "contentType": said["contenttype"],
                    "language": said["language"],
                    "url": said["location"],
                },
                "format": {"system": SYSTEM, "code": said["format"]},
            }
        ],
        "context": {
            "encounter": [_reference("Encounter", said["encounter"])],
            "event": [_concept(said["event"])],
            "period": {"start": said["period"], "end": said["period"]},
            "facilityType": _concept(said["facility"]),
            "practiceSetting": _concept(said["setting"]),
            "related": [{"reference": said["related"]}],
        },
    }


def _meta(said: Said) -> dict[str, Any]:
    return {
        "profile": [said["_profile"]],
        "source": said["_source"],
        "tag": [{"system": SYSTEM, "code": said["_tag"]}],
        "security": [{"system": SYSTEM, "code": said["_security"]}],
    }


def _concept(code: str, bound_to: str = "") -> dict[str, Any]:
    system = f"http://terminology.hl7.org/CodeSystem/{bound_to}" if bound_to else SYSTEM
    return {"coding": [{"system": system, "code": code, "display": f"{code} thing"}]}


def _identifier(value: str) -> dict[str, Any]:
    return {"system": SYSTEM, "value": value, "type": _concept("MR")}


def _reference(kind: str, name: str) -> dict[str, Any]:
    return {"reference": f"{kind}/{name}", "identifier": {"system": SYSTEM, "value": name}}
