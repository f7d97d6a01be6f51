"""Encounter of DSTU2 and STU3, brought to R4.

Source: HL7's maps, Encounter2to3 and Encounter3to4, and their concept map ActEncounterCode.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fhirapp.exchange.repair.log import ABSENT, Log, listed
from fhirapp.fhir.systems import CT

_CLASSES: Mapping[str, tuple[str, str]] = {
    "inpatient": ("IMP", "inpatient encounter"),
    "outpatient": ("AMB", "ambulatory"),
    "ambulatory": ("AMB", "ambulatory"),
    "emergency": ("EMER", "emergency"),
    "home": ("HH", "home health"),
    "field": ("FLD", "field"),
    "daytime": ("SS", "short stay"),
    "virtual": ("VR", "virtual"),
}
_RENAMED = (
    ("patient", "subject"),
    ("reason", "reasonCode"),
    ("incomingReferral", "basedOn"),
)
# DSTU2 has these diagnoses at the hospitalization. (code, display)
_STAY: Mapping[str, tuple[str, str]] = {
    "admittingDiagnosis": ("AD", "Admission diagnosis"),
    "dischargeDiagnosis": ("DD", "Discharge diagnosis"),
}


def bring_to_r4(log: Log, resource: dict[str, Any]) -> None:
    """Give the fields of the older versions R4's names, codes and types."""
    for old, new in _RENAMED:
        log.rename(resource, old, new)
    _class(log, resource)
    for place, diagnosis in enumerate(listed(resource.get("diagnosis"))):
        if type(diagnosis) is dict:
            log.rename(diagnosis, "role", "use", f"diagnosis[{place}].")
    _diagnoses(log, resource, resource, "indication", "", None)
    stay = resource.get("hospitalization")
    if type(stay) is dict:
        for name, (code, display) in _STAY.items():
            use = {"system": f"{CT}diagnosis-role", "code": code, "display": display}
            _diagnoses(log, resource, stay, name, "hospitalization.", {"coding": [use]})
        if not stay:
            del resource["hospitalization"]


def _class(log: Log, resource: dict[str, Any]) -> None:
    """Make a Coding of DSTU2's code. R4 requires a class, the older versions do not."""
    before = resource.get("class")
    code = before.strip() if type(before) is str else ""
    if code in _CLASSES or code == "other":
        system = "http://hl7.org/fhir/encounter-class"
        coding: dict[str, Any] = {"system": system, "code": code}
        if code in _CLASSES:
            code, display = _CLASSES[code]
            coding = {"system": f"{CT}v3-ActCode", "code": code, "display": display}
        if "_class" in resource:
            coding["_code"] = resource.pop("_class")
        resource["class"] = coding
        log.did("class", "code", before, coding)
    elif before is None and "_class" not in resource:
        resource["class"] = {"extension": [dict(ABSENT)]}
        log.did("class", "absent", None, resource["class"])


def _diagnoses(
    log: Log,
    resource: dict[str, Any],
    holder: dict[str, Any],
    name: str,
    path: str,
    use: Mapping[str, Any] | None,
) -> None:
    """Make entries of Encounter.diagnosis of DSTU2's references to conditions."""
    if name not in holder:
        return
    diagnoses = listed(resource.get("diagnosis"))
    for reference in listed(holder.pop(name)):
        found = {"condition": reference, **({"use": use} if use else {})}
        diagnoses = [*diagnoses, found]
        log.did(f"{path}{name}", "renamed", name, "diagnosis.condition")
    if diagnoses:
        resource["diagnosis"] = diagnoses
