"""The people and organizations of a document, and the Provenance that names them.

Sources: CDA R2 §4.2.2; HL7 C-CDA on FHIR 2.0.0, participations.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote

from fhirapp.features.imports.ccda import values
from fhirapp.features.imports.ccda.narrative import plain
from fhirapp.features.imports.ccda.record import CcdaRecord, identity
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.features.imports.ccda.values import (
    MAPS,
    absent,
    concept,
    distinct,
    extension_only,
    has_code,
    identifiers,
    present,
)
from fhirapp.fhir.identity import key
from fhirapp.fhir.terminology import CT
from fhirapp.fhir.words import human_name, name_of

_NAME_USES: Mapping[str, str] = MAPS["name_uses"]
_ADDRESS_USES: Mapping[str, str] = MAPS["address_uses"]
_TELECOM_USES: Mapping[str, str] = {**_ADDRESS_USES, **MAPS["telecom_uses"]}
_TELECOM_SYSTEMS: Mapping[str, str] = MAPS["telecom_systems"]
_NUMBER = re.compile(r"[+(]?\d[\d\s().x*#/-]*")
_ADDRESS_PARTS: Mapping[str, str] = MAPS["address_parts"]
_LINES = ("streetAddressLine", "streetName", "houseNumber", "additionalLocator", "unitID")


def names(elements: list[CcdaElement]) -> list[dict[str, Any]]:
    """Return the names that are not empty."""
    return [name for element in elements if (name := _name(element))]


def _name(element: CcdaElement) -> dict[str, Any]:
    if element.null_flavor:
        return {}
    given, use = element.all("given"), _used(element, _NAME_USES)
    if use == "anonymous" and any("CL" in part.get("qualifier").split() for part in given):
        use = "nickname"
    parts = present(
        {
            "family": " ".join(_texts(element.all("family"))),
            **{name: _texts(element.all(name)) for name in ("given", "prefix", "suffix")},
        }
    )
    if not ("family" in parts or "given" in parts):
        parts = present({"text": plain(element)})
    if not parts:
        return {}
    return present({"use": use, **parts, "period": values.period(element.first("validTime"))})


def addresses(elements: list[CcdaElement]) -> list[dict[str, Any]]:
    """Return the addresses that are not empty."""
    return [address for element in elements if (address := _address(element))]


def _address(element: CcdaElement) -> dict[str, Any]:
    if element.null_flavor:
        return {}
    parts = {
        "line": _texts([part for part in element.elements if part.name in _LINES]),
        **{name: " ".join(_texts(element.all(source))) for source, name in _ADDRESS_PARTS.items()},
    }
    written = present(parts) or present({"text": plain(element)})
    if not written:
        return {}
    period = values.period(element.first("useablePeriod"))
    return present({"use": _used(element, _ADDRESS_USES), **written, "period": period})


def telecoms(elements: list[CcdaElement]) -> list[dict[str, Any]]:
    """Return the numbers and addresses that are not empty, each once."""
    return distinct(map(_telecom, elements))


def _telecom(element: CcdaElement) -> dict[str, Any]:
    written = element.get("value")
    scheme, colon, rest = written.partition(":")
    system = _TELECOM_SYSTEMS.get(scheme.lower()) if colon else None
    if system and system != "url":
        written = unquote(rest) if system == "email" else rest
    elif not system:
        system = "email" if "@" in written else "other"
        if _NUMBER.fullmatch(written):
            system = "phone"
    written = " ".join(written.split())
    if not written:
        return {}
    if "PG" in element.get("use").split():
        system = "pager"
    telecom = {"system": system, "value": written}
    if use := _used(element, _TELECOM_USES):
        telecom["use"] = use
    return telecom


def _used(element: CcdaElement, uses: Mapping[str, str]) -> str:
    """Return the first use that FHIR has a word for."""
    return next((uses[use] for use in element.get("use").split() if use in uses), "")


def _texts(elements: list[CcdaElement]) -> list[str]:
    return [text for element in elements if not element.null_flavor and (text := plain(element))]


class Actor(NamedTuple):
    """Who took part: the Reference, what a resource with it must contain, on whose behalf."""

    reference: dict[str, Any]
    contained: Sequence[dict[str, Any]] = ()
    on_behalf_of: dict[str, Any] | None = None

    @property
    def type_name(self) -> str:
        if self.contained:
            return str(self.contained[0]["resourceType"])
        return str(self.reference["reference"]).partition("/")[0]


def organization(element: CcdaElement | None, record: CcdaRecord) -> dict[str, Any] | None:
    """Return the Reference to an organization, None where the element has none."""
    if element is None:
        return None
    name = next(filter(None, map(plain, element.all("name"))), "")
    resource = present(
        {
            "resourceType": "Organization",
            "identifier": identifiers(element.all("id")),
            "name": name,
            "telecom": _not_at_home(telecoms(element.all("telecom"))),
            "address": _not_at_home(addresses(element.all("addr"))),
            "partOf": organization(element.first("asOrganizationPartOf/wholeOrganization"), record),
        }
    )
    if not ("identifier" in resource or "name" in resource):
        return None
    resource["id"] = record.identity("Organization", resource.get("identifier", []), name)
    return _reference(record.add(resource), name)


def _not_at_home(contacts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return an organization's contacts without the use home: R4 org-2, org-3."""
    return [
        {name: value for name, value in contact.items() if (name, value) != ("use", "home")}
        for contact in contacts
    ]


def practitioner(assigned: CcdaElement, record: CcdaRecord) -> dict[str, Any] | None:
    """Return the Reference to a person who acts for an organization, None without one."""
    named = names((assigned.first("assignedPerson") or NOTHING).all("name"))
    resource = present(
        {
            "resourceType": "Practitioner",
            "identifier": identifiers(assigned.all("id")),
            "name": named,
            "telecom": telecoms(assigned.all("telecom")),
            "address": addresses(assigned.all("addr")),
        }
    )
    display = name_of(resource)
    if not (named or any(map(key, resource.get("identifier", [])))):
        return None
    identified = resource.get("identifier", [])
    resource["id"] = record.identity("Practitioner", identified, _first(named))
    return _reference(record.add(resource), display)


def author(participation: CcdaElement, record: CcdaRecord) -> Actor | None:
    """Return who wrote, None where that is not recorded."""
    return actor(participation.first("assignedAuthor") or NOTHING, record)


def actor(assigned: CcdaElement, record: CcdaRecord) -> Actor | None:
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
    reference = practitioner(assigned, record)
    if reference is None:
        return Actor(on_behalf_of) if on_behalf_of else None
    return Actor(reference, (), on_behalf_of)


def _relation(assigned: CcdaElement, person: CcdaElement | None) -> CcdaElement | None:
    """Return what an author who is no professional is to the patient."""
    for holder in (person, assigned):
        if holder is not None and (relationship := holder.first("sdtc:asPatientRelationship")):
            return relationship.first("code") or relationship
    code = assigned.first("code")
    return code if has_code(code, "ONESELF", "SELF") else None


def _related_person(
    relation: CcdaElement, person: CcdaElement | None, record: CcdaRecord
) -> dict[str, Any]:
    named = names((person or NOTHING).all("name"))
    relationship = concept(relation, record.texts)
    return present(
        {
            "resourceType": "RelatedPerson",
            "id": identity("RelatedPerson", record.key, _first(named)),
            "patient": {"reference": record.patient},
            "relationship": [relationship] if relationship else [],
            "name": named,
        }
    )


def _device(assigned: CcdaElement, device: CcdaElement) -> dict[str, Any]:
    model, software = (
        plain(device.first(name) or NOTHING) for name in ("manufacturerModelName", "softwareName")
    )
    identified = identifiers(assigned.all("id"))
    device_names = [
        {"name": name, "type": kind}
        for name, kind in ((model, "model-name"), (software, "other"))
        if name
    ]
    return present(
        {
            "resourceType": "Device",
            "id": identity(
                "Device",
                model,
                software,
                *(identifier.get("value", "") for identifier in identified),
            ),
            "identifier": identified,
            "deviceName": device_names,
        }
    )


def _contained(resource: dict[str, Any], on_behalf_of: dict[str, Any] | None) -> Actor:
    device_names = resource.get("deviceName")
    display = device_names[0]["name"] if device_names else name_of(resource)
    reference = _reference(f"#{resource['id']}", display)
    return Actor(reference, (resource,), on_behalf_of)


def _reference(target: str, display: str) -> dict[str, Any]:
    return {"reference": target, "display": display} if display else {"reference": target}


def _first(named: list[dict[str, Any]]) -> str:
    """Return the first name in words. Unlike the current one it never changes: ids come of it."""
    return human_name(named[0]) if named else ""


def complete(resource: dict[str, Any]) -> None:
    """Mark elements required by US Core that the source lacks as unknown: US Core, missing data."""
    unknown = extension_only(absent())
    type_name = resource["resourceType"]
    if type_name == "Organization":
        resource.setdefault("_active", unknown)
        if "name" not in resource:
            resource["_name"] = unknown
    if type_name == "Practitioner":
        resource.setdefault("identifier", [{"_system": unknown, "_value": unknown}])
        for name in resource.setdefault("name", [{}]):
            if "family" not in name:
                name["_family"] = unknown


_PARTICIPANT_TYPE = f"{CT}provenance-participant-type"
_CREATE = {"coding": [{"system": f"{CT}v3-DataOperation", "code": "CREATE", "display": "create"}]}


def provenance(
    target: str,
    document: str,
    authors: Sequence[Actor],
    recorded: CcdaElement | None,
    occurred: CcdaElement | None,
    custodian: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the Provenance of a target, Type/id, that a document, Type/id, is the source of.

    recorded is when the document was made, occurred when the target was written.
    """
    agents = [
        _agent("author", "Author", actor.reference, _on_behalf_of(actor)) for actor in authors
    ]
    if custodian:
        agents.append(_agent("custodian", "Custodian", custodian, None))
    contained = {resource["id"]: resource for actor in authors for resource in actor.contained}
    resource: dict[str, Any] = {
        "resourceType": "Provenance",
        "id": identity("Provenance", target, document),
        "contained": list(contained.values()),
        "target": [{"reference": target}],
        "activity": _CREATE,
        "agent": agents or [_agent("author", "Author", extension_only(absent()), None)],
        "entity": [{"role": "source", "what": {"reference": document}}],
    }
    values.put(resource, "occurredDateTime", occurred)
    # An instant is never made of a date.
    if instant := values.instant(recorded):
        resource["recorded"] = instant
    else:
        resource["_recorded"] = extension_only(absent())
    return present(resource)


def _on_behalf_of(actor: Actor) -> dict[str, Any] | None:
    """Return on whose behalf an actor acts; US Core requires it of some (provenance-1)."""
    if actor.on_behalf_of is None and actor.type_name in ("Practitioner", "Device"):
        return extension_only(absent())
    return actor.on_behalf_of


def _agent(
    code: str, display: str, who: dict[str, Any], on_behalf_of: dict[str, Any] | None
) -> dict[str, Any]:
    type_ = {"coding": [{"system": _PARTICIPANT_TYPE, "code": code, "display": display}]}
    agent = {"type": type_, "who": who, "onBehalfOf": on_behalf_of}
    return present(agent)
