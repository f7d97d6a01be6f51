"""AllergyIntolerance, DocumentReference and Encounter of DSTU2 and STU3, brought to R4.

Source: HL7's maps, such as AllergyIntolerance2to3 and AllergyIntolerance3to4, and their concept
maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fhirapp.exchange.repair.log import ABSENT, Log, listed
from fhirapp.exchange.repair.values import first_moment
from fhirapp.fhir import terminology
from fhirapp.fhir.terminology import CT

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
    ("clinicalStatus", terminology.ALLERGY_CLINICAL),
    ("verificationStatus", terminology.ALLERGY_VERIFICATION),
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


_DOCUMENT_REFERENCE_DSTU2 = (
    "http://hl7.org/fhir/1.0/StructureDefinition/extension-DocumentReference."
)
_STU3 = "http://hl7.org/fhir/3.0/StructureDefinition/extension-DocumentReference."
_COMPOSITION_STATUS = "http://hl7.org/fhir/composition-status"
_DAY = len("2024-03-01")


def document_reference_bring_to_r4(log: Log, resource: dict[str, Any]) -> None:
    """Give the fields of the older versions R4's names, codes and types."""
    log.rename(resource, "indexed", "date")
    _class(log, resource)
    _created(log, resource)
    _doc_status(log, resource)
    contents = resource.get("content")
    for place, content in enumerate(contents if type(contents) is list else [contents]):
        if type(content) is dict:
            _format(log, content, f"content[{place}].")
    context = resource.get("context")
    if type(context) is dict:
        _related(log, context)
    day = resource.get("date")
    # R4 has an instant here. A month or a year stays as it is, which this server can keep: the
    # first moment of a year would be a date that nobody meant.
    if type(day) is str and len(day.strip()) == _DAY:
        resource["date"] = first_moment(log, day.strip(), "date")


def _class(log: Log, resource: dict[str, Any]) -> None:
    if "class" not in resource:
        return
    said = resource.pop("class")
    given = resource.get("category")
    categories = given if type(given) is list else [] if given is None else [given]
    resource["category"] = categories if said in categories else [*categories, said]
    log.did("class", "renamed", "class", "category")


def _created(log: Log, resource: dict[str, Any]) -> None:
    if "_created" in resource:
        log.cannot("_created", "has extensions, for which R4 has no place")
    elif "created" in resource:
        said = resource.pop("created")
        log.extend(resource, "created", f"{_STU3}created", "valueDateTime", said, said)


def _doc_status(log: Log, resource: dict[str, Any]) -> None:
    """Make a code of DSTU2's CodeableConcept; what a code cannot say is kept beside it."""
    said = resource.get("docStatus")
    if type(said) is not dict:
        return
    codings = said.get("coding")
    codes = [
        coding["code"]
        for coding in (codings if type(codings) is list else [codings])
        if type(coding) is dict and coding.get("system") == _COMPOSITION_STATUS and "code" in coding
    ]
    del resource["docStatus"]
    if codes:
        resource["docStatus"] = codes[0]
        log.did("docStatus", "code", said, codes[0])
    if said != {"coding": [{"system": _COMPOSITION_STATUS, "code": codes[0] if codes else ""}]}:
        url = f"{_DOCUMENT_REFERENCE_DSTU2}docStatus"
        log.extend(resource, "docStatus", url, "valueCodeableConcept", said, said)


def _format(log: Log, content: dict[str, Any], path: str) -> None:
    """Take the first of DSTU2's formats; the others are kept beside it."""
    formats = content.get("format")
    if type(formats) is not list or not formats:
        return
    content["format"] = formats[0]
    log.did(f"{path}format", "code", formats, formats[0])
    for one in formats[1:]:
        url = f"{_DOCUMENT_REFERENCE_DSTU2}content.format"
        log.extend(content, f"{path}format", url, "valueCoding", one, one)


def _related(log: Log, context: dict[str, Any]) -> None:
    """Make References of identifier and ref, which the older versions have apart."""
    related = context.get("related")
    listed = related if type(related) is list else [related]
    for place, item in enumerate(listed):
        if type(item) is not dict or "ref" not in item:
            continue
        path = f"context.related[{place}]."
        reference = item["ref"]
        if type(reference) is not dict:
            log.cannot(f"{path}ref", "is not a Reference")
            continue
        twice = [name for name in reference if name in item and item[name] != reference[name]]
        if twice:
            log.cannot(f"{path}{twice[0]}", f"contradicts ref.{twice[0]}")
            continue
        del item["ref"]
        item.update(reference)
        log.did(f"{path}ref", "renamed", "ref", "reference")


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
_ENCOUNTER_RENAMED = (
    ("patient", "subject"),
    ("reason", "reasonCode"),
    ("incomingReferral", "basedOn"),
)
# DSTU2 has these diagnoses at the hospitalization. (code, display)
_STAY: Mapping[str, tuple[str, str]] = {
    "admittingDiagnosis": ("AD", "Admission diagnosis"),
    "dischargeDiagnosis": ("DD", "Discharge diagnosis"),
}


def encounter_bring_to_r4(log: Log, resource: dict[str, Any]) -> None:
    """Give the fields of the older versions R4's names, codes and types."""
    for old, new in _ENCOUNTER_RENAMED:
        log.rename(resource, old, new)
    _encounter_class(log, resource)
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


def _encounter_class(log: Log, resource: dict[str, Any]) -> None:
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
