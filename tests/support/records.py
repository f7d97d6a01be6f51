"""Builders of small resources, for imports."""

from __future__ import annotations

import base64
from typing import Any

# Two more digits make it whole.
UUID = "0f0e0d0c-0b0a-4908-8706-0504030201"
URN = f"urn:uuid:{UUID}"
PATIENT: dict[str, Any] = {"resourceType": "Patient", "id": "one"}
ALLERGY: dict[str, Any] = {
    "resourceType": "AllergyIntolerance",
    "id": "nuts",
    "patient": {"reference": "Patient/one"},
}


def patient(resource_id: str | None = None, mrn: str = "", **elements: Any) -> dict[str, Any]:
    """Return a patient, known by a number where one is given."""
    made: dict[str, Any] = {"resourceType": "Patient", **elements}
    if resource_id:
        made["id"] = resource_id
    if mrn:
        made["identifier"] = [{"system": "urn:mrn", "value": mrn}]
    return made


def allergy(resource_id: str | None = None, of: str = "Patient/one", **more: Any) -> dict[str, Any]:
    """Return an allergy of a patient."""
    made = {**ALLERGY, "patient": {"reference": of}, **more}
    del made["id"]
    return {**made, "id": resource_id} if resource_id else made


def practitioner(
    resource_id: str, number: str = "1", system: str = "urn:doctor", **elements: Any
) -> dict[str, Any]:
    """Return a practitioner with an identifier."""
    identifier = [{"system": system, "value": number}]
    return {
        "resourceType": "Practitioner", "id": resource_id, "identifier": identifier, **elements,
    }  # fmt: skip


def organization(resource_id: str, number: str = "1", **elements: Any) -> dict[str, Any]:
    """Return an organization with an identifier of urn:clinic."""
    identifier = [{"system": "urn:clinic", "value": number}]
    made = {"resourceType": "Organization", "id": resource_id, "identifier": identifier}
    return {**made, "name": "Clinic", **elements}


def document(
    resource_id: str, *attachments: dict[str, Any], of: str = "one", **elements: Any
) -> dict[str, Any]:
    """Return a document with attachments, of a patient or, with of="", of nobody."""
    made: dict[str, Any] = {
        "resourceType": "DocumentReference",
        "id": resource_id,
        "status": "current",
        "content": [{"attachment": attachment} for attachment in attachments],
    }
    subject = {"subject": {"reference": f"Patient/{of}"}} if of else {}
    return {**made, **subject, **elements}


def inline(words: str | bytes) -> dict[str, Any]:
    """Return an attachment with its bytes."""
    content = words.encode() if isinstance(words, str) else words
    return {"contentType": "text/plain", "data": base64.b64encode(content).decode()}


def binary(resource_id: str, words: str = "ABC") -> dict[str, Any]:
    """Return the bytes of an attachment as a resource of their own."""
    return {"resourceType": "Binary", "id": resource_id, **inline(words)}


def origin(resource_id: str, *targets: str, **elements: Any) -> dict[str, Any]:
    """Return a Provenance of these targets."""
    return {
        "resourceType": "Provenance",
        "id": resource_id,
        "target": [{"reference": target} for target in targets],
        "recorded": "2024-01-01T00:00:00Z",
        "agent": [{"who": {"display": "somebody"}}],
        **elements,
    }


def nested(levels: int) -> dict[str, Any]:
    """Return a contained resource that is so many objects deep."""
    content: dict[str, Any] = {"x": 1}
    for _ in range(levels):
        content = {"x": content}
    return {"resourceType": "Basic", "id": "c", **content}
