"""Resources with what search parameters name and seed.sql has no use for."""

from __future__ import annotations

from typing import Any

META = {
    "source": "https://source.example/export",
    "security": [
        {"system": "http://terminology.hl7.org/CodeSystem/v3-Confidentiality", "code": "N"}
    ],
    "tag": [{"system": "https://source.example/tags", "code": "complete"}],
}
ROLE = {
    "coding": [
        {
            "system": "http://terminology.hl7.org/CodeSystem/provenance-participant-type",
            "code": "assembler",
        }
    ],
    "text": "Who put it together",
}
IDENTIFIER = {"system": "urn:ietf:rfc:3986", "value": "urn:oid:2.999.1"}

RESOURCES: tuple[dict[str, Any], ...] = (
    {
        "resourceType": "Organization",
        "id": "complete",
        "meta": META,
        "active": False,
        "alias": ["Complete & Sons"],
        "address": [{"use": "work", "city": "Örebro"}],
        "endpoint": [{"reference": "Endpoint/e1"}],
    },
    {
        "resourceType": "Practitioner",
        "id": "complete",
        "meta": META,
        "active": True,
        "address": [{"use": "old", "state": "NY"}],
    },
    {"resourceType": "Patient", "id": "complete", "meta": META, "active": True},
    {
        "resourceType": "RelatedPerson",
        "id": "complete",
        "meta": META,
        "identifier": [{"system": "urn:numbers", "value": "RP-1"}],
        "active": False,
        "patient": {"reference": "Patient/complete"},
        "photo": [{"contentType": "image/png", "url": "https://source.example/photo.png"}],
        "period": {"end": "2024-05-01"},
    },
    {
        "resourceType": "Encounter",
        "id": "complete",
        "meta": META,
        "status": "finished",
        "class": {"code": "AMB"},
        "subject": {"reference": "Patient/complete"},
        "reasonReference": [{"reference": "Condition/c1"}],
        "diagnosis": [{"condition": {"reference": "Procedure/p1"}}],
        "location": [
            {
                "location": {"reference": "Location/l1"},
                "period": {"start": "2024-05-01T08:00:00+00:00", "end": "2024-05-02"},
            }
        ],
        "partOf": {"reference": "Encounter/enc-p1-2024"},
        "episodeOfCare": [{"reference": "EpisodeOfCare/e1"}],
        "basedOn": [{"reference": "ServiceRequest/s1"}],
        "appointment": [{"reference": "Appointment/a1"}],
        "account": [{"reference": "Account/a1"}],
        "length": {"value": 3, "unit": "days", "system": "http://unitsofmeasure.org", "code": "d"},
        "hospitalization": {"specialArrangement": [{"coding": [{"code": "wheel"}]}]},
    },
    {
        "resourceType": "Provenance",
        "id": "complete",
        "meta": META,
        "target": [{"reference": "Patient/complete"}, {"reference": "Encounter/complete"}],
        "occurredDateTime": "2024-05-01",
        "recorded": "2024-05-02T10:00:00+00:00",
        "agent": [{"who": {"reference": "Practitioner/complete"}, "role": [ROLE]}],
        "location": {"reference": "Location/l1"},
    },
    {
        "resourceType": "Group",
        "id": "complete",
        "meta": {**META, "profile": ["https://source.example/profiles/roster"]},
        "type": "person",
        "actual": True,
        "member": [{"entity": {"reference": "Patient/complete"}}],
    },
    {
        "resourceType": "DocumentReference",
        "id": "complete",
        "meta": META,
        "status": "current",
        "type": {"coding": [{"system": "http://loinc.org", "code": "11502-2"}]},
        "subject": {"reference": "Patient/complete"},
        "date": "2024-05-02",
        "context": {
            "related": [
                {"reference": one} for one in ("ServiceRequest/s1", "Observation/o1", "Media/m1")
            ]
        },
    },
    {
        "resourceType": "ValueSet",
        "id": "complete",
        "meta": {**META, "profile": ["https://source.example/profiles/shared"]},
        "version": "1.0",
        "name": "Animals",
        "title": "Animals that people react to",
        "status": "active",
        "date": "2024-05-01",
        "publisher": "Source & Sons",
        "description": "What has fur, and what has none.",
        "useContext": [
            {
                "code": {
                    "system": "http://terminology.hl7.org/CodeSystem/usage-context-type",
                    "code": "focus",
                },
                "valueCodeableConcept": {"coding": [{"code": "allergy"}]},
            }
        ],
        "jurisdiction": [{"coding": [{"system": "urn:iso:std:iso:3166", "code": "CH"}]}],
        "url": "https://source.example/ValueSet/cats",
        "identifier": [IDENTIFIER],
        "compose": {
            "include": [
                {
                    "system": "https://source.example/CodeSystem/animals",
                    "filter": [{"property": "concept", "op": "is-a", "value": "cat"}],
                }
            ],
        },
        "expansion": {
            "identifier": "urn:uuid:0e1c5a5e-3a0b-4a4e-9a43-0c5f1f1c4a11",
            "timestamp": "2024-05-02T10:00:00+00:00",
        },
    },
)
