"""The patient of a document: recordTarget as Patient.

Sources: CDA R2 §4.2.2.11; HL7 C-CDA on FHIR 2.0.0, patient; US Core Patient.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fhirapp.features.imports.ccda import values
from fhirapp.features.imports.ccda.people import addresses, names, organization, telecoms
from fhirapp.features.imports.ccda.record import CcdaRecord
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.fhir.identity import key
from fhirapp.fhir.terminology import CT, US_CORE
from fhirapp.fhir.words import current_name

_GENDERS: Mapping[str, str] = values.MAPS["genders"]
_BIRTH_TIME = "http://hl7.org/fhir/StructureDefinition/patient-birthTime"
_EXTENSION = f"{US_CORE}StructureDefinition/us-core-"
# The categories of OMB: US Core omb-race-category, omb-ethnicity-category.
_CATEGORIES = {
    "race": ("1002-5", "2028-9", "2054-5", "2076-8", "2106-3"),
    "ethnicity": ("2135-2", "2186-5"),
}
_GUARDIAN = {"coding": [{"system": f"{CT}v3-RoleCode", "code": "GUARD", "display": "guardian"}]}


def role_of(root: CcdaElement) -> CcdaElement:
    """Return the one patientRole of a document. Raises UnreadableDocument."""
    targets = root.all("recordTarget")
    if not targets:
        raise root.refused("must have a recordTarget: it says whose document it is")
    if len(targets) > 1:
        raise targets[1].refused("must not be repeated: a document is one patient's")
    role = targets[0].first("patientRole")
    if role is None:
        raise targets[0].refused("must have a patientRole")
    if not any(map(key, values.identifiers(role.all("id")))):
        raise role.refused(
            "must have an id with a root: without one the patient cannot be identified"
        )
    return role


def add_patient(role: CcdaElement, record: CcdaRecord) -> None:
    """Add the Patient, and to the record who it is."""
    identified = values.identifiers(role.all("id"))
    patient: dict[str, Any] = {
        "resourceType": "Patient",
        "id": record.identity("Patient", identified),
        "identifier": identified,
        "telecom": telecoms(role.all("telecom")),
        "address": addresses(role.all("addr")),
        "managingOrganization": organization(role.first("providerOrganization"), record),
    }
    person = role.first("patient")
    if person is not None:
        patient.update(_person(person, record))
    patient = {element: value for element, value in patient.items() if value or value is False}
    if "name" not in patient:
        patient["name"] = [values.extension_only(values.absent())]
    # US Core requires a gender; of what none is known, its code for that.
    patient.setdefault("gender", "unknown")
    record.patient = record.add(patient)
    record.patient_keys = set(filter(None, map(key, identified)))


def _person(person: CcdaElement, record: CcdaRecord) -> dict[str, Any]:
    marital = values.concept(person.first("maritalStatusCode"), record.texts)
    patient: dict[str, Any] = {
        "extension": [
            *_groups("race", person),
            *_groups("ethnicity", person),
        ],
        "name": [_mark_unknown(name) for name in names(person.all("name"))],
        "maritalStatus": marital,
        "contact": [
            contact
            for guardian in person.all("guardian")
            if (contact := _guardian(guardian, record))
        ],
        "communication": _languages(person),
    }
    _put_gender(patient, person.first("administrativeGenderCode"))
    _put_birth(patient, person.first("birthTime"))
    _put_death(patient, person)
    return patient


def _mark_unknown(name: dict[str, Any]) -> dict[str, Any]:
    """Mark a name without parts as unknown: US Core us-core-6."""
    return (
        name
        if "family" in name or "given" in name
        else {**name, **values.extension_only(values.absent())}
    )


def _put_gender(patient: dict[str, Any], code: CcdaElement | None) -> None:
    if code is None:
        return
    if gender := _GENDERS.get(code.get("code")):
        patient["gender"] = gender
    elif code.get("code"):
        patient["_gender"] = values.extension_only(values.original(code.get("code")))


def _put_birth(patient: dict[str, Any], birth: CcdaElement | None) -> None:
    values.put(patient, "birthDate", birth, values.date_of_birth)
    moment = patient.get("birthDate", "")
    if len(moment) > 10:
        patient["birthDate"] = moment[:10]
        patient["_birthDate"] = values.extension_only({"url": _BIRTH_TIME, "valueDateTime": moment})


def _put_death(patient: dict[str, Any], person: CcdaElement) -> None:
    died, is_dead = (
        person.first(f"sdtc:{name}") or NOTHING for name in ("deceasedTime", "deceasedInd")
    )
    if died.get("value") and not values.is_no_date(died.get("value")):
        values.put(patient, "deceasedDateTime", died)
    elif is_dead.get("value") in ("true", "false"):
        patient["deceasedBoolean"] = is_dead.get("value") == "true"


def _groups(name: str, person: CcdaElement) -> list[dict[str, Any]]:
    """Return US Core's extension for race or ethnicity: categories, details, and their words."""
    of_name = {"race": "raceCode", "ethnicity": "ethnicGroupCode"}[name]
    listed = [
        coding
        for element in person.elements
        if element.name in (of_name, f"sdtc:{of_name}")
        for coding in values.codings(element)
    ]
    parts: list[dict[str, Any]] = []
    for coding in listed:
        is_unknown = coding in (values.null_coding("UNK"), values.null_coding("ASKU"))
        is_category = coding.get("system") == values.RACE and coding["code"] in _CATEGORIES[name]
        if is_category or is_unknown:
            parts.append({"url": "ombCategory", "valueCoding": coding})
        elif coding.get("system") == values.RACE:
            parts.append({"url": "detailed", "valueCoding": coding})
    categories = [part for part in parts if part["url"] == "ombCategory"]
    known = [part for part in categories if part["valueCoding"].get("system") == values.RACE]
    # US Core: one ethnicity; and us-core-23: unknown stands alone.
    kept = known[:1] if name == "ethnicity" else known
    others = [part for part in parts if part not in categories]
    parts = [*values.distinct(kept or categories[:1]), *others]
    if not parts:
        return []
    words = dict.fromkeys(
        part["valueCoding"].get("display", part["valueCoding"]["code"]) for part in parts
    )
    parts.append({"url": "text", "valueString": ", ".join(words)})
    return [{"url": f"{_EXTENSION}{name}", "extension": parts}]


def _guardian(guardian: CcdaElement, record: CcdaRecord) -> dict[str, Any] | None:
    """Return a guardian as Patient.contact; None for one of whom nothing is known: R4 pat-1."""
    named = names((guardian.first("guardianPerson") or NOTHING).all("name"))
    relationship = values.concept(guardian.first("code"), record.texts)
    details: dict[str, Any] = {
        "name": current_name(named),
        "telecom": telecoms(guardian.all("telecom")),
        "address": next(iter(addresses(guardian.all("addr"))), None),
        "organization": organization(guardian.first("guardianOrganization"), record),
    }
    known = values.present(details)
    if relationship and not known:
        known = {"name": values.extension_only(values.absent())}
    if not known:
        return None
    return {"relationship": [_GUARDIAN, *([relationship] if relationship else [])], **known}


def _languages(person: CcdaElement) -> list[dict[str, Any]]:
    spoken = []
    for communication in person.all("languageCommunication"):
        code = values.code_in(communication.first("languageCode"))
        if not code:
            continue
        coding = {"system": "urn:ietf:bcp:47", "code": code}
        language: dict[str, Any] = {"language": {"coding": [coding]}}
        preferred = (communication.first("preferenceInd") or NOTHING).get("value")
        if preferred in ("true", "false"):
            language["preferred"] = preferred == "true"
        spoken.append(language)
    return spoken
