"""AllergyIntolerance of DSTU2 and STU3, brought to R4.

Source: HL7's maps, AllergyIntolerance2to3 and AllergyIntolerance3to4, and their concept maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fhirapp.exchange.repair.log import Log
from fhirapp.fhir import systems

_DSTU2 = "http://hl7.org/fhir/1.0/StructureDefinition/extension-AllergyIntolerance."

# DSTU2's status says both. An empty one of the two is left out.
_STATUSES: Mapping[str, tuple[str, str]] = {
    "active": ("active", ""),
    "unconfirmed": ("active", "unconfirmed"),
    "confirmed": ("active", "confirmed"),
    "inactive": ("inactive", "unconfirmed"),
    "resolved": ("resolved", ""),
    "refuted": ("", "refuted"),
    "entered-in-error": ("", "entered-in-error"),
}
_CRITICALITIES = {"CRITL": "low", "CRITH": "high", "CRITU": "unable-to-assess"}
_CODED = (
    ("clinicalStatus", systems.ALLERGY_CLINICAL),
    ("verificationStatus", systems.ALLERGY_VERIFICATION),
)
_RENAMED = (
    # DSTU2
    ("substance", "code"),
    ("reporter", "asserter"),
    ("lastOccurence", "lastOccurrence"),
    ("onset", "onsetDateTime"),
    # STU3
    ("assertedDate", "recordedDate"),
)


def bring_to_r4(log: Log, resource: dict[str, Any]) -> None:
    """Give the fields of the older versions R4's names, codes and types."""
    for old, new in _RENAMED:
        log.rename(resource, old, new)
    _status(log, resource)
    for name, system in _CODED:
        _coded(log, resource, name, system)
    _criticality(log, resource)
    _category(log, resource)
    reactions = resource.get("reaction")
    for place, reaction in enumerate(reactions if type(reactions) is list else [reactions]):
        if type(reaction) is dict:
            _certainty(log, reaction, f"reaction[{place}].")


def _status(log: Log, resource: dict[str, Any]) -> None:
    if "status" not in resource and "_status" not in resource:
        return
    said = resource.get("status")
    found = _STATUSES.get(said.strip()) if type(said) is str else None
    if found is None:
        log.cannot("status", f"is not a status of DSTU2: {', '.join(_STATUSES)}")
        return
    if any(name in resource for name, _ in _CODED):
        log.cannot("status", "is DSTU2's, and clinicalStatus or verificationStatus is there too")
        return
    if "_status" in resource:
        log.cannot("_status", "has extensions, and R4 has two elements for the one")
        return
    del resource["status"]
    for (name, system), code in zip(_CODED, found, strict=True):
        if code:
            resource[name] = {"coding": [{"system": system, "code": code}]}
            log.did("status", "code", said, resource[name])


def _coded(log: Log, resource: dict[str, Any], name: str, system: str) -> None:
    """Make a CodeableConcept of STU3's code; its extensions stay the code's."""
    said = resource.get(name)
    if type(said) is not str:
        return
    coding: dict[str, Any] = {"system": system, "code": said.strip()}
    if f"_{name}" in resource:
        coding["_code"] = resource.pop(f"_{name}")
    resource[name] = {"coding": [coding]}
    log.did(name, "code", said, resource[name])


def _criticality(log: Log, resource: dict[str, Any]) -> None:
    said = resource.get("criticality")
    found = _CRITICALITIES.get(said.strip()) if type(said) is str else None
    if found:
        resource["criticality"] = found
        log.did("criticality", "code", said, found)


def _category(log: Log, resource: dict[str, Any]) -> None:
    """Keep DSTU2's category "other", which R4 has not, in an extension."""
    said = resource.get("category")
    if type(said) is str and said.strip() == "other" and "_category" not in resource:
        del resource["category"]
        log.extend(resource, "category", f"{_DSTU2}category", "valueCode", said, "other")


def _certainty(log: Log, reaction: dict[str, Any], path: str) -> None:
    if "certainty" not in reaction or "_certainty" in reaction:
        return
    said = reaction["certainty"]
    if type(said) is str:
        del reaction["certainty"]
        url = f"{_DSTU2}reaction.certainty"
        log.extend(reaction, f"{path}certainty", url, "valueCode", said, said.strip())
