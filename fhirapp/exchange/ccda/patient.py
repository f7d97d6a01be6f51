"""Whose document it is: recordTarget as Patient.

Sources: CDA R2 §4.2.2.11; HL7 C-CDA on FHIR 2.0.0, patient; US Core Patient.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.ccda import times
from fhirapp.exchange.ccda.contact import addresses, names, telecoms
from fhirapp.exchange.ccda.oids import RACE
from fhirapp.exchange.ccda.people import organization
from fhirapp.exchange.ccda.record import Record
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import (
    absent,
    code_in,
    codings,
    concept,
    extended,
    identifiers,
    key,
    null_coding,
    original,
)
from fhirapp.fhir.systems import CT, US_CORE

_GENDERS = {"F": "female", "M": "male", "UN": "other", "O": "other"}
_BIRTH_TIME = "http://hl7.org/fhir/StructureDefinition/patient-birthTime"
_EXTENSION = f"{US_CORE}StructureDefinition/us-core-"
# The categories of OMB: US Core omb-race-category, omb-ethnicity-category.
_CATEGORIES = {
    "race": ("1002-5", "2028-9", "2054-5", "2076-8", "2106-3"),
    "ethnicity": ("2135-2", "2186-5"),
}
_GUARDIAN = {"coding": [{"system": f"{CT}v3-RoleCode", "code": "GUARD", "display": "guardian"}]}


def role_of(root: Element) -> Element:
    """Return the one patientRole of a document. Raises UnreadableDocument."""
    targets = root.all("recordTarget")
    if not targets:
        raise root.refused("must have a recordTarget: it says whose document it is")
    if len(targets) > 1:
        raise targets[1].refused("must not be repeated: a document is one patient's")
    role = targets[0].first("patientRole")
    if role is None:
        raise targets[0].refused("must have a patientRole")
    if not any(map(key, identifiers(role.all("id")))):
        raise role.refused("must have an id with a root: without one nobody can tell who it is")
    return role


def add_patient(role: Element, record: Record) -> None:
    """Add the Patient, and to the record who it is."""
    identified = identifiers(role.all("id"))
    found: dict[str, Any] = {
        "resourceType": "Patient",
        "id": record.identity("Patient", identified),
        "identifier": identified,
        "telecom": telecoms(role.all("telecom")),
        "address": addresses(role.all("addr")),
        "managingOrganization": organization(role.first("providerOrganization"), record),
    }
    person = role.first("patient")
    found.update(_person(person, record) if person is not None else {})
    found = {what: value for what, value in found.items() if value or value is False}
    if "name" not in found:
        found["name"] = [extended(absent())]
    if "gender" not in found:
        found.setdefault("_gender", extended(absent()))
    record.patient = record.add(found)
    record.patient_keys = set(filter(None, map(key, identified)))


def _person(person: Element, record: Record) -> dict[str, Any]:
    marital = concept(person.first("maritalStatusCode"), record.texts)
    found: dict[str, Any] = {
        "extension": [
            *_groups("race", person),
            *_groups("ethnicity", person),
        ],
        "name": [_marked(name) for name in names(person.all("name"))],
        "maritalStatus": marital,
        "contact": [_guardian(one, record) for one in person.all("guardian")],
        "communication": _languages(person),
    }
    _put_gender(found, person.first("administrativeGenderCode"))
    _put_birth(found, person.first("birthTime"))
    _put_death(found, person)
    return found


def _marked(name: dict[str, Any]) -> dict[str, Any]:
    """Say of a name without parts that they are unknown: US Core us-core-6."""
    return name if "family" in name or "given" in name else {**name, **extended(absent())}


def _put_gender(found: dict[str, Any], code: Element | None) -> None:
    if code is None:
        return
    gender = _GENDERS.get(code.get("code"))
    if gender is None and code.null_flavor == "UNK":
        gender = "unknown"
    if gender:
        found["gender"] = gender
    elif code.null_flavor:
        found["_gender"] = extended(absent(code.null_flavor))
    elif code.get("code"):
        found["_gender"] = extended(absent("OTH"), original(code.get("code")))


def _put_birth(found: dict[str, Any], birth: Element | None) -> None:
    times.put(found, "birthDate", birth)
    moment = found.get("birthDate", "")
    if len(moment) > 10:
        found["birthDate"] = moment[:10]
        found["_birthDate"] = extended({"url": _BIRTH_TIME, "valueDateTime": moment})


def _put_death(found: dict[str, Any], person: Element) -> None:
    died, is_dead = person.first("sdtc:deceasedTime"), person.first("sdtc:deceasedInd")
    if died is not None and died.get("value"):
        times.put(found, "deceasedDateTime", died)
    elif is_dead is not None and is_dead.get("value") in ("true", "false"):
        found["deceasedBoolean"] = is_dead.get("value") == "true"


def _groups(name: str, person: Element) -> list[dict[str, Any]]:
    """Return US Core's extension for race or ethnicity: categories, details, and their words."""
    of_name = {"race": "raceCode", "ethnicity": "ethnicGroupCode"}[name]
    listed = [
        one
        for element in person.elements
        if element.name in (of_name, f"sdtc:{of_name}")
        for one in codings(element)
    ]
    parts: list[dict[str, Any]] = []
    for one in listed:
        is_unknown = one in (null_coding("UNK"), null_coding("ASKU"))
        is_category = one.get("system") == RACE and one["code"] in _CATEGORIES[name]
        if is_category or is_unknown:
            parts.append({"url": "ombCategory", "valueCoding": one})
        elif one.get("system") == RACE:
            parts.append({"url": "detailed", "valueCoding": one})
    if name == "ethnicity":
        categories = [one for one in parts if one["url"] == "ombCategory"]
        parts = [one for one in parts if one not in categories[1:]]
    if not parts:
        return []
    words = dict.fromkeys(
        one["valueCoding"].get("display", one["valueCoding"]["code"]) for one in parts
    )
    parts.append({"url": "text", "valueString": ", ".join(words)})
    return [{"url": f"{_EXTENSION}{name}", "extension": parts}]


def _guardian(guardian: Element, record: Record) -> dict[str, Any]:
    person = guardian.first("guardianPerson")
    named = names(person.all("name")) if person is not None else []
    relationship = concept(guardian.first("code"), record.texts)
    found: dict[str, Any] = {
        "relationship": [_GUARDIAN, *([relationship] if relationship else [])],
        "name": named[0] if named else None,
        "telecom": telecoms(guardian.all("telecom")),
        "address": next(iter(addresses(guardian.all("addr"))), None),
        "organization": organization(guardian.first("guardianOrganization"), record),
    }
    return {what: value for what, value in found.items() if value}


def _languages(person: Element) -> list[dict[str, Any]]:
    spoken = []
    for one in person.all("languageCommunication"):
        code = code_in(one.first("languageCode"))
        if not code:
            continue
        language = {"system": "urn:ietf:bcp:47", "code": code}
        found: dict[str, Any] = {"language": {"coding": [language]}}
        preferred = one.first("preferenceInd")
        if preferred is not None and preferred.get("value") in ("true", "false"):
            found["preferred"] = preferred.get("value") == "true"
        spoken.append(found)
    return spoken
