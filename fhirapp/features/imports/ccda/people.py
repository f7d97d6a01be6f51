"""The people and organizations of a document, and the Provenance that names them.

CcdaRecord has the resources of the document while it is read; a Field says which element of a
resource comes from which part of the document.
Sources: CDA R2 §4.2.2; HL7 C-CDA on FHIR 2.0.0, participations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import NAMESPACE_OID, uuid5

from fhirapp.features.imports.ccda import values
from fhirapp.features.imports.ccda.narrative import Texts, plain
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
from fhirapp.fhir.identity import key, ranked
from fhirapp.fhir.terminology import CT
from fhirapp.fhir.words import human_name, name_of

Resource = dict[str, Any]

_NAME_USES: Mapping[str, str] = MAPS["name_uses"]
_ADDRESS_USES: Mapping[str, str] = MAPS["address_uses"]
_TELECOM_USES: Mapping[str, str] = {**_ADDRESS_USES, **MAPS["telecom_uses"]}
_TELECOM_SYSTEMS: Mapping[str, str] = MAPS["telecom_systems"]
_NUMBER = re.compile(r"[+(]?\d[\d\s().x*#/-]*")
_ADDRESS_PARTS: Mapping[str, str] = MAPS["address_parts"]
_LINES = ("streetAddressLine", "streetName", "houseNumber", "additionalLocator", "unitID")
# HL7's own root of what CDA R2 defines.
_NAMESPACE = uuid5(NAMESPACE_OID, "2.16.840.1.113883.1.3")


@lru_cache(maxsize=1_000)
def identity(type_name: str, *parts: str) -> str:
    """Return the id of what these parts identify. No part can be taken for the end of another.

    The same person or statement has the same id in every version of a document.
    """
    written = "".join(f"{len(part)}:{part}" for part in (type_name, *parts))
    return str(uuid5(_NAMESPACE, written))


class Actor(NamedTuple):
    """Who took part: the Reference, what a resource with it must contain, on whose behalf."""

    reference: Resource
    contained: Sequence[Resource] = ()
    on_behalf_of: Resource | None = None

    @property
    def type_name(self) -> str:
        if self.contained:
            return str(self.contained[0]["resourceType"])
        return str(self.reference["reference"]).partition("/")[0]


@dataclass
class CcdaRecord:
    """The resources of a document, each once; key is what identifies it, also in its next version.

    made is when the document was made, as dateTime; "" where that is not known. patient is
    Patient/id, patient_keys what the patient's own identifiers are, writers the authors of the
    document, signer who signed it, remarks what an import reports of it.
    """

    document: bytes
    key: str
    texts: Texts
    made: str = ""
    patient: str = ""
    patient_keys: set[tuple[str, str]] = field(default_factory=set)
    writers: list[Actor] = field(default_factory=list)
    signer: Actor | None = None
    resources: dict[str, Resource] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def remark(self, text: str) -> None:
        """Have an import report something, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def add(self, resource: Resource) -> str:
        """Keep a resource and return its Type/id; of one that is there, what was not yet known."""
        name = f"{resource['resourceType']}/{resource['id']}"
        known = self.resources.setdefault(name, resource)
        for element, value in resource.items():
            known.setdefault(element, value)
        for identifier in resource.get("identifier", ()):
            if identifier not in known["identifier"]:
                known["identifier"].append(identifier)
        return name

    def identity(self, type_name: str, identified: list[Resource], *otherwise: str) -> str:
        """Return the id of what has these identifiers; of what has none, by the document."""
        keys = ranked(identified)
        return identity(type_name, *keys[0]) if keys else identity(type_name, self.key, *otherwise)

    def own_identity(self, type_name: str, *parts: str) -> str:
        """Return the id of what is the patient's: another's cannot have it, whatever was sent."""
        return identity(type_name, self.patient, *parts)


Found = list[CcdaElement]


class Field(NamedTuple):
    """An element of a resource, the path in the document, and what converts all that is there.

    Without a name the converter returns several elements. The path "" is the holder itself.
    """

    fhir: str
    path: str
    convert: Callable[[Found, CcdaRecord], Any]


def fields_of(holder: CcdaElement, fields: Iterable[Field], record: CcdaRecord) -> Resource:
    """Return the elements of a resource that a part of the document has."""
    resource: Resource = {}
    for name, path, convert in fields:
        value = convert(holder.all(path) if path else [holder], record)
        if not name:
            resource.update(value)
        elif value:
            resource[name] = value
    return resource


def each(convert: Callable[[CcdaElement, CcdaRecord], Any]) -> Callable[[Found, CcdaRecord], Any]:
    """Return the converter that makes a list of what is not empty."""
    return lambda found, record: [made for element in found if (made := convert(element, record))]


def first(convert: Callable[[CcdaElement, CcdaRecord], Any]) -> Callable[[Found, CcdaRecord], Any]:
    """Return the converter of the first element, where there is one."""
    return lambda found, record: convert(found[0], record) if found else None


def concept_of(element: CcdaElement, record: CcdaRecord) -> Resource | None:
    """Return a code as CodeableConcept."""
    return concept(element, record.texts)


def identifiers_of(found: Found, _record: CcdaRecord) -> list[Resource]:
    """Return what identifies, each once."""
    return identifiers(found)


def subject_of(_found: Found, record: CcdaRecord) -> Resource:
    """Return the Reference to the patient."""
    return {"reference": record.patient}


def names(found: Found, _record: CcdaRecord | None = None) -> list[Resource]:
    """Return the names that are not empty."""
    return [name for element in found if (name := _name(element))]


def _name(element: CcdaElement) -> Resource:
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


def addresses(found: Found, _record: CcdaRecord | None = None) -> list[Resource]:
    """Return the addresses that are not empty."""
    return [address for element in found if (address := _address(element))]


def _address(element: CcdaElement) -> Resource:
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


def telecoms(found: Found, _record: CcdaRecord | None = None) -> list[Resource]:
    """Return the numbers and addresses that are not empty, each once."""
    return distinct(map(_telecom, found))


def _telecom(element: CcdaElement) -> Resource:
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


def organization(found: Found, record: CcdaRecord) -> Resource | None:
    """Return the Reference to the first organization, None where the element has none."""
    if not found:
        return None
    resource = {"resourceType": "Organization", **fields_of(found[0], _ORGANIZATION, record)}
    if not ("identifier" in resource or "name" in resource):
        return None
    name = resource.get("name", "")
    resource["id"] = record.identity("Organization", resource.get("identifier", []), name)
    return _reference(record.add(resource), name)


def _not_at_home(contacts: list[Resource]) -> list[Resource]:
    """Return an organization's contacts without the use home: R4 org-2, org-3."""
    return [
        {name: value for name, value in contact.items() if (name, value) != ("use", "home")}
        for contact in contacts
    ]


_ORGANIZATION = (
    Field("identifier", "id", identifiers_of),
    Field("name", "name", lambda found, _: next(filter(None, map(plain, found)), "")),
    Field("telecom", "telecom", lambda found, _: _not_at_home(telecoms(found))),
    Field("address", "addr", lambda found, _: _not_at_home(addresses(found))),
    Field("partOf", "asOrganizationPartOf/wholeOrganization", organization),
)
_PRACTITIONER = (
    Field("identifier", "id", identifiers_of),
    Field("name", "assignedPerson", first(lambda person, _: names(person.all("name")))),
    Field("telecom", "telecom", telecoms),
    Field("address", "addr", addresses),
)


def practitioner(assigned: CcdaElement, record: CcdaRecord) -> Resource | None:
    """Return the Reference to a person who acts for an organization, None without one."""
    resource = {"resourceType": "Practitioner", **fields_of(assigned, _PRACTITIONER, record)}
    named, identified = resource.get("name", []), resource.get("identifier", [])
    if not (named or any(map(key, identified))):
        return None
    resource["id"] = record.identity("Practitioner", identified, _first(named))
    return _reference(record.add(resource), name_of(resource))


def author(participation: CcdaElement, record: CcdaRecord) -> Actor | None:
    """Return who wrote, None where that is not recorded."""
    return actor(participation.first("assignedAuthor") or NOTHING, record)


def actor(assigned: CcdaElement, record: CcdaRecord) -> Actor | None:
    """Return who an assignedAuthor or assignedEntity is: a person, the patient, a device, …"""
    person, device = assigned.first("assignedPerson"), assigned.first("assignedAuthoringDevice")
    on_behalf_of = organization(assigned.all("representedOrganization"), record)
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
) -> Resource:
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


def _device(assigned: CcdaElement, device: CcdaElement) -> Resource:
    identified = identifiers(assigned.all("id"))
    model, software = (
        plain(device.first(name) or NOTHING) for name in ("manufacturerModelName", "softwareName")
    )
    names_ = ((model, "model-name"), (software, "other"))
    numbers = [identifier.get("value", "") for identifier in identified]
    return present(
        {
            "resourceType": "Device",
            "id": identity("Device", model, software, *numbers),
            "identifier": identified,
            "deviceName": [{"name": name, "type": kind} for name, kind in names_ if name],
        }
    )


def _contained(resource: Resource, on_behalf_of: Resource | None) -> Actor:
    device_names = resource.get("deviceName")
    display = device_names[0]["name"] if device_names else name_of(resource)
    reference = _reference(f"#{resource['id']}", display)
    return Actor(reference, (resource,), on_behalf_of)


def _reference(target: str, display: str) -> Resource:
    return {"reference": target, "display": display} if display else {"reference": target}


def _first(named: list[Resource]) -> str:
    """Return the first name in words. Unlike the current one it never changes: ids come of it."""
    return human_name(named[0]) if named else ""


def complete(resource: Resource) -> None:
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
_CREATE = values.coded_concept(f"{CT}v3-DataOperation", "CREATE", "create")


def provenance(
    target: str,
    document: str,
    authors: Sequence[Actor],
    recorded: CcdaElement | None,
    occurred: CcdaElement | None,
    custodian: Resource | None = None,
) -> Resource:
    """Return the Provenance of a target, Type/id, that a document, Type/id, is the source of.

    recorded is when the document was made, occurred when the target was written.
    """
    agents = [
        _agent("author", "Author", actor.reference, _on_behalf_of(actor)) for actor in authors
    ]
    if custodian:
        agents.append(_agent("custodian", "Custodian", custodian, None))
    contained = {resource["id"]: resource for actor in authors for resource in actor.contained}
    resource: Resource = {
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


def _on_behalf_of(actor: Actor) -> Resource | None:
    """Return on whose behalf an actor acts; US Core requires it of some (provenance-1)."""
    if actor.on_behalf_of is None and actor.type_name in ("Practitioner", "Device"):
        return extension_only(absent())
    return actor.on_behalf_of


def _agent(code: str, display: str, who: Resource, on_behalf_of: Resource | None) -> Resource:
    type_ = values.coded_concept(_PARTICIPANT_TYPE, code, display)
    return present({"type": type_, "who": who, "onBehalfOf": on_behalf_of})
