"""Patient, Practitioner, Provenance and the datatypes of DSTU2 and STU3, brought to R4.

Source: HL7's maps, Patient2to3, Patient3to4 and Practitioner2to3. The last makes a PractitionerRole
of each role, which is not stored here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fhirapp.exchange.repair.log import ABSENT, Log, listed
from fhirapp.fhir import datatypes
from fhirapp.fhir.elements import Check

_ANIMAL = "http://hl7.org/fhir/StructureDefinition/patient-animal"
_ROLE = "http://hl7.org/fhir/1.0/StructureDefinition/extension-Practitioner.practitionerRole"
_CONCEPT, _REFERENCE = "valueCodeableConcept", "valueReference"


def patient(log: Log, resource: dict[str, Any]) -> None:
    """Give a Patient's older fields R4's names, codes and places."""
    log.rename(resource, "careProvider", "generalPractitioner")
    log.nest(
        resource,
        "animal",
        _ANIMAL,
        {"species": _CONCEPT, "breed": _CONCEPT, "genderStatus": _CONCEPT},
    )
    for place, link in enumerate(listed(resource.get("link"))):
        # DSTU2's "replace" says that the other record is to be used instead.
        if type(link) is dict and type(link.get("type")) is str:
            before = link["type"]
            if before.strip() == "replace":
                link["type"] = "replaced-by"
                log.did(f"link[{place}].type", "code", before, "replaced-by")


def practitioner(log: Log, resource: dict[str, Any]) -> None:
    """Keep the roles that DSTU2 has in a Practitioner."""
    log.nest(
        resource,
        "practitionerRole",
        _ROLE,
        {
            "managingOrganization": _REFERENCE,
            "role": _CONCEPT,
            "specialty": _CONCEPT,
            "period": "valuePeriod",
            "location": _REFERENCE,
            "healthcareService": _REFERENCE,
        },
    )


_BASE_TYPE = "http://hl7.org/fhir/3.0/StructureDefinition/extension-BaseType"


def _human_name(log: Log, name: dict[str, Any], path: str) -> None:
    """Make one family name of DSTU2's list."""
    family, beside = name.get("family"), name.get("_family")
    if type(family) is not list and type(beside) is not list:
        return
    parts = family if type(family) is list else [family] if family is not None else []
    besides = [one for one in (beside if type(beside) is list else [beside]) if one]
    words = [one for one in parts if one is not None]
    if (
        len(besides) > 1
        or (besides and len(parts) > 1)
        or any(type(one) is not str for one in words)
    ):
        log.cannot(f"{path}family", "has several parts with extensions of their own; R4 has one")
        return
    name.pop("family", None)
    name.pop("_family", None)
    if words:
        name["family"] = " ".join(words)
    if besides:
        name["_family"] = besides[0]
    log.did(f"{path}family", "joined", family, name.get("family"))


def _signature(log: Log, signature: dict[str, Any], path: str) -> None:
    log.rename(signature, "contentType", "sigFormat", path)
    log.rename(signature, "blob", "data", path)
    for name in ("who", "onBehalfOf"):
        refer(log, signature, name, path)


def refer(log: Log, holder: dict[str, Any], name: str, path: str) -> None:
    """Make a Reference of who[x], onBehalfOf[x] or what[x], which STU3 has in several types."""
    log.rename(holder, f"{name}Reference", name, path)
    for kind, element in (("Uri", "reference"), ("Identifier", "identifier")):
        old = f"{name}{kind}"
        if old not in holder:
            continue
        if name in holder:
            log.cannot(f"{path}{old}", f"contradicts {name}, which it is in FHIR R4")
            continue
        found = {element: holder.pop(old)}
        if kind == "Uri":
            found["extension"] = [{"url": _BASE_TYPE, "valueString": "uri"}]
            if f"_{old}" in holder:
                found["_reference"] = holder.pop(f"_{old}")
        holder[name] = found
        log.did(f"{path}{old}", "renamed", old, f"{name}.{element}")


# By the check of the datatype.
OLDER_TYPES: Mapping[Check, Callable[[Log, dict[str, Any], str], None]] = {
    datatypes.HumanName: _human_name,
    datatypes.Signature: _signature,
}


_DSTU2 = "http://hl7.org/fhir/1.0/StructureDefinition/extension-Provenance."


def bring_to_r4(log: Log, resource: dict[str, Any]) -> None:
    """Give the fields of the older versions R4's names, codes and types."""
    log.rename(resource, "period", "occurredPeriod")
    if "activity" in resource:
        resource["activity"] = _concept(log, resource["activity"], "activity")
    if "reason" in resource:
        resource["reason"] = _concepts(log, resource["reason"], "reason")
    if "agent" not in resource:
        # DSTU2 requires none.
        resource["agent"] = [{"who": {"extension": [dict(ABSENT)]}}]
        log.did("agent", "absent", None, resource["agent"])
    _agents(log, resource, "")
    for place, entity in enumerate(listed(resource.get("entity"))):
        if type(entity) is dict:
            _entity(log, entity, f"entity[{place}].")


def _agents(log: Log, holder: dict[str, Any], path: str) -> None:
    for place, agent in enumerate(listed(holder.get("agent"))):
        if type(agent) is dict:
            _agent(log, agent, f"{path}agent[{place}].")


def _agent(log: Log, agent: dict[str, Any], path: str) -> None:
    if "role" in agent:
        agent["role"] = _concepts(log, agent["role"], f"{path}role")
    log.rename(agent, "actor", "who", path)
    log.rename(agent, "relatedAgentType", "type", path)
    for name in ("who", "onBehalfOf"):
        refer(log, agent, name, path)
    log.nest(
        agent,
        "relatedAgent",
        f"{_DSTU2}agent.relatedAgent",
        {"type": "valueCodeableConcept", "target": "valueUri"},
        path,
    )
    if "userId" in agent:
        who = agent.setdefault("who", {})
        if type(who) is not dict or who.get("identifier", agent["userId"]) != agent["userId"]:
            log.cannot(f"{path}userId", "contradicts who.identifier, which it is in FHIR R4")
        else:
            who["identifier"] = agent.pop("userId")
            log.did(f"{path}userId", "renamed", "userId", "who.identifier")
    if "who" not in agent:
        agent["who"] = {"extension": [dict(ABSENT)]}
        log.did(f"{path}who", "absent", None, agent["who"])


def _entity(log: Log, entity: dict[str, Any], path: str) -> None:
    refer(log, entity, "what", path)
    for name in ("reference", "display"):
        if name not in entity:
            continue
        what = entity.setdefault("what", {})
        if type(what) is not dict or what.get(name, entity[name]) != entity[name]:
            log.cannot(f"{path}{name}", f"contradicts what.{name}, which it is in FHIR R4")
            continue
        for one in (name, f"_{name}"):
            if one in entity:
                what[one] = entity.pop(one)
        log.did(f"{path}{name}", "renamed", name, f"what.{name}")
    if "type" in entity:
        before = entity.pop("type")
        log.extend(entity, f"{path}type", f"{_DSTU2}entity.type", "valueCoding", before, before)
    _agents(log, entity, path)


def _concepts(log: Log, value: Any, path: str) -> Any:
    if type(value) is not list:
        return _concept(log, value, path)
    return [_concept(log, one, f"{path}[{place}]") for place, one in enumerate(value)]


def _concept(log: Log, value: Any, path: str) -> Any:
    """Make a CodeableConcept of a Coding."""
    if type(value) is not dict:
        return value
    names = {name.removeprefix("_") for name in value}
    if names <= datatypes.CodeableConcept.elements.keys():
        return value
    if names - datatypes.Coding.elements.keys():
        return value
    concept = {"coding": [value]}
    log.did(path, "code", value, concept)
    return concept
