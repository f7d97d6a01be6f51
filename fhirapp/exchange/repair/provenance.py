"""Provenance of DSTU2 and STU3, brought to R4.

Source: HL7's maps, Provenance2to3 and Provenance3to4.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.repair.log import ABSENT, Log, listed
from fhirapp.exchange.repair.types import refer
from fhirapp.fhir import datatypes

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
