"""Who wrote, keeps and answers for a document: Practitioner and Organization, and who is neither.

Sources: CDA R2 §4.2.2; HL7 C-CDA on FHIR 2.0.0, participations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from fhirapp.exchange.ccda.contact import addresses, names, telecoms
from fhirapp.exchange.ccda.ids import identity
from fhirapp.exchange.ccda.record import Record
from fhirapp.exchange.ccda.texts import plain, tidy
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import absent, concept, extended, has_code, identifiers, key


class Actor(NamedTuple):
    """Who took part: the Reference, what a resource that has it must contain, for whom."""

    reference: dict[str, Any]
    contained: Sequence[dict[str, Any]] = ()
    on_behalf_of: dict[str, Any] | None = None

    @property
    def type_name(self) -> str:
        if self.contained:
            return str(self.contained[0]["resourceType"])
        return str(self.reference["reference"]).partition("/")[0]


def organization(element: Element | None, record: Record) -> dict[str, Any] | None:
    """Return the Reference to an organization, None where nothing is said of one."""
    if element is None:
        return None
    name = next(filter(None, map(plain, element.all("name"))), "")
    found: dict[str, Any] = {
        "resourceType": "Organization",
        "identifier": identifiers(element.all("id")),
        "name": name,
        "telecom": telecoms(element.all("telecom")),
        "address": addresses(element.all("addr")),
        "partOf": organization(element.first("asOrganizationPartOf/wholeOrganization"), record),
    }
    found = {what: value for what, value in found.items() if value}
    if not ("identifier" in found or "name" in found):
        return None
    found["id"] = record.identity("Organization", found.get("identifier", []), name)
    return _reference(record.add(found), name)


def practitioner(assigned: Element, record: Record) -> dict[str, Any] | None:
    """Return the Reference to a person who acts for an organization, None where it is nobody."""
    person = assigned.first("assignedPerson")
    named = names(person.all("name")) if person is not None else []
    found: dict[str, Any] = {
        "resourceType": "Practitioner",
        "identifier": identifiers(assigned.all("id")),
        "name": named,
        "telecom": telecoms(assigned.all("telecom")),
        "address": addresses(assigned.all("addr")),
    }
    found = {what: value for what, value in found.items() if value}
    display = spoken(named)
    if not (named or any(map(key, found.get("identifier", [])))):
        return None
    found["id"] = record.identity("Practitioner", found.get("identifier", []), display)
    return _reference(record.add(found), display)


def author(participation: Element, record: Record) -> Actor | None:
    """Return who wrote, None where that is not said."""
    assigned = participation.first("assignedAuthor")
    return None if assigned is None else actor(assigned, record)


def actor(assigned: Element, record: Record) -> Actor | None:
    """Return who an assignedAuthor or assignedEntity is: a person, the patient, a device, …"""
    person, device = assigned.first("assignedPerson"), assigned.first("assignedAuthoringDevice")
    on_behalf_of = organization(assigned.first("representedOrganization"), record)
    relation = _relation(assigned, person)
    keys = set(filter(None, map(key, identifiers(assigned.all("id")))))
    if keys & record.patient_keys or has_code(relation, "SELF", "ONESELF"):
        return Actor({"reference": record.patient})
    if relation is not None:
        return _contained(_related_person(relation, person, record), on_behalf_of)
    if person is None and device is not None:
        return _contained(_device(assigned, device), on_behalf_of)
    if person is None and on_behalf_of is not None:
        return Actor(on_behalf_of)
    found = practitioner(assigned, record)
    if found is None:
        return Actor(on_behalf_of) if on_behalf_of else None
    return Actor(found, (), on_behalf_of)


def _relation(assigned: Element, person: Element | None) -> Element | None:
    """Return what an author who is no professional is to the patient."""
    for holder in (person, assigned):
        if holder is not None and (found := holder.first("sdtc:asPatientRelationship")):
            return found.first("code") or found
    code = assigned.first("code")
    return code if has_code(code, "ONESELF", "SELF") else None


def _related_person(relation: Element, person: Element | None, record: Record) -> dict[str, Any]:
    named = names(person.all("name")) if person is not None else []
    relationship = concept(relation, record.texts)
    found: dict[str, Any] = {
        "resourceType": "RelatedPerson",
        "id": identity("RelatedPerson", record.key, spoken(named)),
        "patient": {"reference": record.patient},
        "relationship": [relationship] if relationship else [],
        "name": named,
    }
    return {what: value for what, value in found.items() if value}


def _device(assigned: Element, device: Element) -> dict[str, Any]:
    model, software = (
        tidy(plain(one)) if one is not None else ""
        for one in (device.first("manufacturerModelName"), device.first("softwareName"))
    )
    identified = identifiers(assigned.all("id"))
    called = [
        {"name": name, "type": kind}
        for name, kind in ((model, "model-name"), (software, "other"))
        if name
    ]
    found: dict[str, Any] = {
        "resourceType": "Device",
        "id": identity("Device", model, software, *(one.get("value", "") for one in identified)),
        "identifier": identified,
        "deviceName": called,
    }
    return {what: value for what, value in found.items() if value}


def _contained(resource: dict[str, Any], on_behalf_of: dict[str, Any] | None) -> Actor:
    called = resource.get("deviceName") or [{"name": spoken(resource.get("name", []))}]
    reference = _reference(f"#{resource['id']}", called[0]["name"])
    return Actor(reference, (resource,), on_behalf_of)


def _reference(target: str, display: str) -> dict[str, Any]:
    return {"reference": target, "display": display} if display else {"reference": target}


def spoken(named: list[dict[str, Any]]) -> str:
    """Return a name as it is said: prefix, given names, family name, suffix."""
    if not named:
        return ""
    first = named[0]
    parts = [*first.get("prefix", ()), *first.get("given", ()), first.get("family", "")]
    written = " ".join(filter(None, [*parts, *first.get("suffix", ())]))
    return written or str(first.get("text", ""))


def complete(resource: dict[str, Any]) -> None:
    """Say that what US Core requires of people and organizations, and nobody told, is unknown.

    Source: US Core general guidance, missing data.
    """
    unknown = extended(absent())
    type_name = resource["resourceType"]
    if type_name == "Organization":
        resource.setdefault("_active", unknown)
        if "name" not in resource:
            resource["_name"] = unknown
    if type_name == "Practitioner":
        resource.setdefault("identifier", [{"_system": unknown, "_value": unknown}])
        for one in resource.setdefault("name", [{}]):
            if "family" not in one:
                one["_family"] = unknown
