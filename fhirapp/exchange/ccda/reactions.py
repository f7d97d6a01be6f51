"""What happened: Reaction Observations as AllergyIntolerance.reaction.

Sources: C-CDA R2.1, Reaction Observation and Severity Observation; HL7 C-CDA on FHIR 2.0.0,
CF-Severity; service.md 2.3; decisions 2.19.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.ccda import times
from fhirapp.exchange.ccda.statements import observed
from fhirapp.exchange.ccda.texts import Texts
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import concept, has_code, null_coding
from fhirapp.fhir.systems import SNOMED_CT

_REACTION, _SEVERITY = "2.16.840.1.113883.10.20.22.4.9", "2.16.840.1.113883.10.20.22.4.8"
# FHIR has three; of what lies between two, and of fatal, the graver.
_SEVERITIES = {
    "255604002": "mild",
    "371923003": "moderate",
    "6736007": "moderate",
    "371924009": "severe",
    "24484000": "severe",
    "399166001": "severe",
}
# decisions 2.19
_UNKNOWN = {"system": SNOMED_CT, "code": "261665006", "display": "Unknown"}


def reactions(observation: Element, texts: Texts) -> list[dict[str, Any]]:
    """Return the reactions of an allergy; its own severity counts for those that have none."""
    severity = _severity(observation)
    found = [_reaction(one, severity, texts) for one in _observations(observation)]
    if not found and severity:
        return [{"manifestation": [{"coding": [_UNKNOWN]}], "severity": severity}]
    return found


def _observations(observation: Element) -> list[Element]:
    return [
        inner
        for related in observation.all("entryRelationship")
        for inner in related.all("observation")
        if related.get("typeCode") == "MFST" or _REACTION in inner.templates()
    ]


def _reaction(observation: Element, severity: str, texts: Texts) -> dict[str, Any]:
    manifestation = _manifestation(observation.first("value"), texts)
    found: dict[str, Any] = {"manifestation": [manifestation]}
    described = texts.of(observation.first("text"))
    names = {
        manifestation.get("text"),
        *(one.get("display") for one in manifestation.get("coding", ())),
    }
    if described and described not in names:
        found["description"] = described
    onset = times.start_of(observation.first("effectiveTime"))
    times.put(found, "onset", onset)
    if severity := _severity(observation) or severity:
        found["severity"] = severity
    return found


def _manifestation(value: Element | None, texts: Texts) -> dict[str, Any]:
    found = concept(value, texts) or {}
    listed = found.get("coding", [])
    if "text" in found or any(one != null_coding(one["code"]) for one in listed):
        return found
    return {**found, "coding": [_UNKNOWN, *listed]}


def _severity(statement: Element) -> str:
    told = observed(statement, _SEVERITY, "SEV")
    value = told.first("value") if told is not None else None
    graver = [found for code, found in _SEVERITIES.items() if has_code(value, code)]
    return graver[0] if graver else ""
