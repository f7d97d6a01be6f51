"""Resources of DSTU2 and STU3, converted to R4 by their type.

Source: HL7's maps between the versions, such as AllergyIntolerance2to3 and AllergyIntolerance3to4,
and their concept maps. Practitioner2to3 makes a PractitionerRole of each role, a type that is not
served here: the roles are kept in an extension.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from fhirapp.features.imports.repair import older_datatypes
from fhirapp.features.imports.repair.log import ABSENT, RepairLog, listed
from fhirapp.fhir.terminology import ALLERGY_CLINICAL, ALLERGY_VERIFICATION, CT

Resource = dict[str, Any]

_DSTU2 = "http://hl7.org/fhir/1.0/StructureDefinition/extension-"
_STU3 = "http://hl7.org/fhir/3.0/StructureDefinition/extension-"
_COMPOSITION_STATUS = "http://hl7.org/fhir/composition-status"
_CONCEPT, _REFERENCE = "valueCodeableConcept", "valueReference"

# Elements with another name in R4.
_RENAMED: Mapping[str, Sequence[tuple[str, str]]] = {
    "AllergyIntolerance": (
        ("substance", "code"),
        ("reporter", "asserter"),
        ("lastOccurence", "lastOccurrence"),
        ("onset", "onsetDateTime"),
        ("assertedDate", "recordedDate"),
    ),
    "Binary": (("content", "data"),),
    "DocumentReference": (("indexed", "date"),),
    "Encounter": (
        ("patient", "subject"),
        ("reason", "reasonCode"),
        ("incomingReferral", "basedOn"),
    ),
    "Patient": (("careProvider", "generalPractitioner"),),
    "Provenance": (("period", "occurredPeriod"),),
}
# Elements with members, which R4 does not have: the extension, and value[x] of each member.
_NESTED: Mapping[str, tuple[str, str, Mapping[str, str]]] = {
    "Patient": (
        "animal",
        "http://hl7.org/fhir/StructureDefinition/patient-animal",
        {"species": _CONCEPT, "breed": _CONCEPT, "genderStatus": _CONCEPT},
    ),
    "Practitioner": (
        "practitionerRole",
        f"{_DSTU2}Practitioner.practitionerRole",
        {
            "managingOrganization": _REFERENCE,
            "role": _CONCEPT,
            "specialty": _CONCEPT,
            "period": "valuePeriod",
            "location": _REFERENCE,
            "healthcareService": _REFERENCE,
        },
    ),
}

# DSTU2 has one status where R4 has two, of which an empty one is left out.
_STATUSES: Mapping[str, tuple[str, str]] = {
    "active": ("active", ""),
    "unconfirmed": ("active", "unconfirmed"),
    "confirmed": ("active", "confirmed"),
    "inactive": ("inactive", "unconfirmed"),
    "resolved": ("resolved", ""),
    "refuted": ("", "refuted"),
    "entered-in-error": ("", "entered-in-error"),
}
_CODED = (("clinicalStatus", ALLERGY_CLINICAL), ("verificationStatus", ALLERGY_VERIFICATION))
_CRITICALITIES = {"CRITL": "low", "CRITH": "high", "CRITU": "unable-to-assess"}
# DSTU2's classes of an encounter: code and display in v3-ActCode.
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
# Diagnoses that DSTU2 has at the hospitalization: code and display in diagnosis-role.
_STAY: Mapping[str, tuple[str, str]] = {
    "admittingDiagnosis": ("AD", "Admission diagnosis"),
    "dischargeDiagnosis": ("DD", "Discharge diagnosis"),
}
_DAY = len("2024-03-01")


def bring_to_r4(log: RepairLog, resource: Resource, type_name: str) -> None:
    """Give the fields of the older versions R4's names, codes and types."""
    for old, new in _RENAMED.get(type_name, ()):
        log.rename(resource, old, new)
    if type_name in _NESTED:
        log.nest(resource, *_NESTED[type_name])
    if convert := _CONVERSIONS.get(type_name):
        convert(log, resource)


def _code(value: Any) -> str:
    return value.strip() if type(value) is str else ""


def _allergy(log: RepairLog, resource: Resource) -> None:
    _allergy_status(log, resource)
    for name, system in _CODED:
        # STU3 has a code here. Its extensions stay the code's.
        if type(before := resource.get(name)) is str:
            coding: dict[str, Any] = {"system": system, "code": before.strip()}
            if f"_{name}" in resource:
                coding["_code"] = resource.pop(f"_{name}")
            resource[name] = {"coding": [coding]}
            log.did(name, "code", before, resource[name])
    before = resource.get("criticality")
    if criticality := _CRITICALITIES.get(_code(before)):
        resource["criticality"] = criticality
        log.did("criticality", "code", before, criticality)
    # R4 has no category "other".
    category = resource.get("category")
    if _code(category) == "other" and "_category" not in resource:
        del resource["category"]
        url = f"{_DSTU2}AllergyIntolerance.category"
        log.extend(resource, "category", url, "valueCode", category, "other")
    for reaction, path in older_datatypes.members(resource, "reaction"):
        if type(reaction.get("certainty")) is str and "_certainty" not in reaction:
            before = reaction.pop("certainty")
            url = f"{_DSTU2}AllergyIntolerance.reaction.certainty"
            log.extend(reaction, f"{path}certainty", url, "valueCode", before, before.strip())


def _allergy_status(log: RepairLog, resource: Resource) -> None:
    if "status" not in resource and "_status" not in resource:
        return
    before = resource.get("status")
    if _code(before) not in _STATUSES:
        log.cannot("status", f"is not a status of DSTU2: {', '.join(_STATUSES)}")
    elif any(name in resource for name, _ in _CODED):
        log.cannot("status", "is DSTU2's, and clinicalStatus or verificationStatus is there too")
    elif "_status" in resource:
        log.cannot("_status", "has extensions, and R4 has two elements for the one")
    else:
        del resource["status"]
        for (name, system), code in zip(_CODED, _STATUSES[_code(before)], strict=True):
            if code:
                resource[name] = {"coding": [{"system": system, "code": code}]}
                log.did("status", "code", before, resource[name])


def _document(log: RepairLog, resource: Resource) -> None:
    if "class" in resource:
        class_, categories = resource.pop("class"), listed(resource.get("category"))
        resource["category"] = categories if class_ in categories else [*categories, class_]
        log.did("class", "renamed", "class", "category")
    if "_created" in resource:
        log.cannot("_created", "has extensions, for which R4 has no place")
    elif "created" in resource:
        created = resource.pop("created")
        url = f"{_STU3}DocumentReference.created"
        log.extend(resource, "created", url, "valueDateTime", created, created)
    _document_status(log, resource)
    for content, path in older_datatypes.members(resource, "content"):
        # R4 has one format: the first of DSTU2's. The others are kept beside it.
        if type(formats := content.get("format")) is list and formats:
            content["format"] = formats[0]
            log.did(f"{path}format", "code", formats, formats[0])
            url = f"{_DSTU2}DocumentReference.content.format"
            for other in formats[1:]:
                log.extend(content, f"{path}format", url, "valueCoding", other, other)
    if type(context := resource.get("context")) is dict:
        _related(log, context)
    date = resource.get("date")
    # R4 has an instant here. A month or a year stays as it is, which this server can keep: the
    # first moment of a year is not what was meant.
    if len(_code(date)) == _DAY:
        resource["date"] = older_datatypes.first_moment(log, _code(date), "date")


def _document_status(log: RepairLog, resource: Resource) -> None:
    """Make a code of DSTU2's CodeableConcept; what a code cannot express is kept beside it."""
    before = resource.get("docStatus")
    if type(before) is not dict:
        return
    codes = [
        coding["code"]
        for coding in listed(before.get("coding"))
        if type(coding) is dict and coding.get("system") == _COMPOSITION_STATUS and "code" in coding
    ]
    del resource["docStatus"]
    if codes:
        resource["docStatus"] = codes[0]
        log.did("docStatus", "code", before, codes[0])
    if before != {"coding": [{"system": _COMPOSITION_STATUS, "code": codes[0] if codes else ""}]}:
        url = f"{_DSTU2}DocumentReference.docStatus"
        log.extend(resource, "docStatus", url, "valueCodeableConcept", before, before)


def _related(log: RepairLog, context: Resource) -> None:
    """Make References of identifier and ref, which are two elements in the older versions."""
    for item, path in older_datatypes.members(context, "related", "context."):
        if "ref" not in item:
            continue
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


def _encounter(log: RepairLog, resource: Resource) -> None:
    _encounter_class(log, resource)
    for diagnosis, path in older_datatypes.members(resource, "diagnosis"):
        log.rename(diagnosis, "role", "use", path)
    _diagnoses(log, resource, resource, "indication")
    stay = resource.get("hospitalization")
    if type(stay) is dict:
        for name, (code, display) in _STAY.items():
            use = {"system": f"{CT}diagnosis-role", "code": code, "display": display}
            _diagnoses(log, resource, stay, name, "hospitalization.", {"use": {"coding": [use]}})
        if not stay:
            del resource["hospitalization"]


def _encounter_class(log: RepairLog, resource: Resource) -> None:
    """Make a Coding of DSTU2's code. R4 requires a class, the older versions do not."""
    before = resource.get("class")
    code = _code(before)
    if code in _CLASSES or code == "other":
        coding: dict[str, Any] = {
            "system": "http://hl7.org/fhir/encounter-class",
            "code": code,
        }
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
    log: RepairLog,
    resource: Resource,
    holder: Resource,
    name: str,
    path: str = "",
    use: Mapping[str, Any] | None = None,
) -> None:
    """Make entries of Encounter.diagnosis of DSTU2's references to conditions."""
    references = listed(holder.pop(name, None))
    for _ in references:
        log.did(f"{path}{name}", "renamed", name, "diagnosis.condition")
    if references:
        resource["diagnosis"] = [
            *listed(resource.get("diagnosis")),
            *({"condition": reference, **(use or {})} for reference in references),
        ]


def _patient(log: RepairLog, resource: Resource) -> None:
    for link, path in older_datatypes.members(resource, "link"):
        # DSTU2's "replace" means that the other record is to be used instead.
        if _code(before := link.get("type")) == "replace":
            link["type"] = "replaced-by"
            log.did(f"{path}type", "code", before, "replaced-by")


def _provenance(log: RepairLog, resource: Resource) -> None:
    if "activity" in resource:
        resource["activity"] = older_datatypes.concept(log, resource["activity"], "activity")
    if "reason" in resource:
        resource["reason"] = older_datatypes.concepts(log, resource["reason"], "reason")
    if "agent" not in resource:
        # DSTU2 requires none.
        resource["agent"] = [{"who": {"extension": [dict(ABSENT)]}}]
        log.did("agent", "absent", None, resource["agent"])
    _agents(log, resource, "")
    for entity, path in older_datatypes.members(resource, "entity"):
        _entity(log, entity, path)


def _agents(log: RepairLog, holder: Resource, holder_path: str) -> None:
    for agent, path in older_datatypes.members(holder, "agent", holder_path):
        if "role" in agent:
            agent["role"] = older_datatypes.concepts(log, agent["role"], f"{path}role")
        log.rename(agent, "actor", "who", path)
        log.rename(agent, "relatedAgentType", "type", path)
        for name in ("who", "onBehalfOf"):
            older_datatypes.refer(log, agent, name, path)
        url = f"{_DSTU2}Provenance.agent.relatedAgent"
        log.nest(agent, "relatedAgent", url, {"type": _CONCEPT, "target": "valueUri"}, path)
        _move_into(log, agent, "userId", "who", "identifier", path)
        if "who" not in agent:
            agent["who"] = {"extension": [dict(ABSENT)]}
            log.did(f"{path}who", "absent", None, agent["who"])


def _entity(log: RepairLog, entity: Resource, path: str) -> None:
    older_datatypes.refer(log, entity, "what", path)
    for name in ("reference", "display"):
        _move_into(log, entity, name, "what", name, path)
    if "type" in entity:
        before = entity.pop("type")
        url = f"{_DSTU2}Provenance.entity.type"
        log.extend(entity, f"{path}type", url, "valueCoding", before, before)
    _agents(log, entity, path)


def _move_into(
    log: RepairLog, holder: Resource, old: str, element: str, new: str, path: str
) -> None:
    """Make an element a part of another one: userId becomes who.identifier."""
    if old not in holder:
        return
    reference = holder.setdefault(element, {})
    if type(reference) is not dict or reference.get(new, holder[old]) != holder[old]:
        log.cannot(f"{path}{old}", f"contradicts {element}.{new}, its name in FHIR R4")
        return
    reference[new] = holder.pop(old)
    if old == new and f"_{old}" in holder:
        reference[f"_{new}"] = holder.pop(f"_{old}")
    log.did(f"{path}{old}", "renamed", old, f"{element}.{new}")


_CONVERSIONS: Mapping[str, Callable[[RepairLog, Resource], None]] = {
    "AllergyIntolerance": _allergy,
    "DocumentReference": _document,
    "Encounter": _encounter,
    "Patient": _patient,
    "Provenance": _provenance,
}
