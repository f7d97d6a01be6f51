"""The patient of a document: recordTarget as Patient.

contradiction decides whether two patients who share a number can be the same person: twins can
share some. Sources: CDA R2 §4.2.2.11; HL7 C-CDA on FHIR 2.0.0, patient; US Core Patient.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from fhirapp.exchange.ccda import values
from fhirapp.exchange.ccda.people import addresses, names, organization, telecoms
from fhirapp.exchange.ccda.record import Record, ranked
from fhirapp.exchange.ccda.tree import NOTHING, Element
from fhirapp.exchange.ccda.values import (
    MAPS,
    RACE,
    RFC_3986,
    SSN,
    absent,
    code_in,
    codings,
    concept,
    extended,
    identifiers,
    key,
    null_coding,
    original,
    present,
)
from fhirapp.fhir.terminology import CT, US_CORE

_GENDERS: Mapping[str, str] = MAPS["genders"]
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
        raise role.refused(
            "must have an id with a root: without one the patient cannot be identified"
        )
    return role


def add_patient(role: Element, record: Record) -> None:
    """Add the Patient, and to the record who it is."""
    identified = identifiers(role.all("id"))
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
        patient["name"] = [extended(absent())]
    if "gender" not in patient:
        patient.setdefault("_gender", extended(absent()))
    record.patient = record.add(patient)
    record.patient_keys = set(filter(None, map(key, identified)))


def _person(person: Element, record: Record) -> dict[str, Any]:
    marital = concept(person.first("maritalStatusCode"), record.texts)
    patient: dict[str, Any] = {
        "extension": [
            *_groups("race", person),
            *_groups("ethnicity", person),
        ],
        "name": [_marked(name) for name in names(person.all("name"))],
        "maritalStatus": marital,
        "contact": [_guardian(guardian, record) for guardian in person.all("guardian")],
        "communication": _languages(person),
    }
    _put_gender(patient, person.first("administrativeGenderCode"))
    _put_birth(patient, person.first("birthTime"))
    _put_death(patient, person)
    return patient


def _marked(name: dict[str, Any]) -> dict[str, Any]:
    """Mark a name without parts as unknown: US Core us-core-6."""
    return name if "family" in name or "given" in name else {**name, **extended(absent())}


def _put_gender(patient: dict[str, Any], code: Element | None) -> None:
    if code is None:
        return
    gender = _GENDERS.get(code.get("code"))
    if gender is None and code.null_flavor == "UNK":
        gender = "unknown"
    if gender:
        patient["gender"] = gender
    elif code.null_flavor:
        patient["_gender"] = extended(absent(code.null_flavor))
    elif code.get("code"):
        patient["_gender"] = extended(absent("OTH"), original(code.get("code")))


def _put_birth(patient: dict[str, Any], birth: Element | None) -> None:
    values.put(patient, "birthDate", birth)
    moment = patient.get("birthDate", "")
    if len(moment) > 10:
        patient["birthDate"] = moment[:10]
        patient["_birthDate"] = extended({"url": _BIRTH_TIME, "valueDateTime": moment})


def _put_death(patient: dict[str, Any], person: Element) -> None:
    died, is_dead = (
        person.first(f"sdtc:{name}") or NOTHING for name in ("deceasedTime", "deceasedInd")
    )
    if died.get("value"):
        values.put(patient, "deceasedDateTime", died)
    elif is_dead.get("value") in ("true", "false"):
        patient["deceasedBoolean"] = is_dead.get("value") == "true"


def _groups(name: str, person: Element) -> list[dict[str, Any]]:
    """Return US Core's extension for race or ethnicity: categories, details, and their words."""
    of_name = {"race": "raceCode", "ethnicity": "ethnicGroupCode"}[name]
    listed = [
        coding
        for element in person.elements
        if element.name in (of_name, f"sdtc:{of_name}")
        for coding in codings(element)
    ]
    parts: list[dict[str, Any]] = []
    for coding in listed:
        is_unknown = coding in (null_coding("UNK"), null_coding("ASKU"))
        is_category = coding.get("system") == RACE and coding["code"] in _CATEGORIES[name]
        if is_category or is_unknown:
            parts.append({"url": "ombCategory", "valueCoding": coding})
        elif coding.get("system") == RACE:
            parts.append({"url": "detailed", "valueCoding": coding})
    if name == "ethnicity":
        categories = [part for part in parts if part["url"] == "ombCategory"]
        parts = [part for part in parts if part not in categories[1:]]
    if not parts:
        return []
    words = dict.fromkeys(
        part["valueCoding"].get("display", part["valueCoding"]["code"]) for part in parts
    )
    parts.append({"url": "text", "valueString": ", ".join(words)})
    return [{"url": f"{_EXTENSION}{name}", "extension": parts}]


def _guardian(guardian: Element, record: Record) -> dict[str, Any]:
    named = names((guardian.first("guardianPerson") or NOTHING).all("name"))
    relationship = concept(guardian.first("code"), record.texts)
    contact: dict[str, Any] = {
        "relationship": [_GUARDIAN, *([relationship] if relationship else [])],
        "name": named[0] if named else None,
        "telecom": telecoms(guardian.all("telecom")),
        "address": next(iter(addresses(guardian.all("addr"))), None),
        "organization": organization(guardian.first("guardianOrganization"), record),
    }
    return present(contact)


def _languages(person: Element) -> list[dict[str, Any]]:
    spoken = []
    for communication in person.all("languageCommunication"):
        code = code_in(communication.first("languageCode"))
        if not code:
            continue
        coding = {"system": "urn:ietf:bcp:47", "code": code}
        language: dict[str, Any] = {"language": {"coding": [coding]}}
        preferred = (communication.first("preferenceInd") or NOTHING).get("value")
        if preferred in ("true", "false"):
            language["preferred"] = preferred == "true"
        spoken.append(language)
    return spoken


_KNOWN_GENDERS = frozenset({"male", "female", "other"})
_APART = re.compile(r"[^\w]+|_+")

_Given = Sequence[str]


def contradiction(coming: Mapping[str, Any], here: Mapping[str, Any]) -> str:
    """Return why a Patient who comes cannot be the one who is here, as `has …`; "" where he can.

    An element that one of them lacks contradicts nothing.
    """
    born, known = coming.get("birthDate"), here.get("birthDate")
    if born and known and not (known.startswith(born) or born.startswith(known)):
        return "was born on another day than this patient"
    genders = {coming.get("gender"), here.get("gender")} & _KNOWN_GENDERS
    if len(genders) == 2:
        return "has another gender than this patient"
    if not _may_be_called(coming, here):
        return "has another given name than this patient"
    numbers, others = _numbers(coming), _numbers(here)
    for system in numbers.keys() & others.keys():
        if not numbers[system] & others[system]:
            return f"has another number of {system} than this patient"
    return ""


def _numbers(patient: Mapping[str, Any]) -> dict[str, set[str]]:
    """Return the numbers of a patient by their system."""
    numbers: dict[str, set[str]] = {}
    for system, value in ranked(patient.get("identifier", ())):
        written = value.replace("-", "").replace(" ", "") if system == SSN else value.strip()
        # Two URIs need not be numbers of the same kind.
        if system != RFC_3986:
            numbers.setdefault(system, set()).add(written.casefold())
    return numbers


def _may_be_called(coming: Mapping[str, Any], here: Mapping[str, Any]) -> bool:
    """Say whether one given name of each goes together; names in two scripts cannot be compared."""
    pairs = [
        (name, other)
        for name, other in product(_given_names(coming), _given_names(here))
        if _script(name) == _script(other)
    ]
    return not pairs or any(_goes_with(name, other) for name, other in pairs)


def _given_names(patient: Mapping[str, Any]) -> Iterator[_Given]:
    """Yield the words of the given names of each name, without case and accents."""
    for name in patient.get("name", ()):
        # A name that is not known may be null beside an extension.
        written = " ".join(part for part in name.get("given", ()) if part)
        plain = "".join(
            character
            for character in unicodedata.normalize("NFKD", written)
            if not unicodedata.combining(character)
        )
        words = [part for part in _APART.split(plain.casefold()) if part]
        if words:
            yield words


def _script(words: _Given) -> str:
    return unicodedata.name(words[0][0], "").partition(" ")[0]


def _goes_with(name: _Given, other: _Given) -> bool:
    """Say whether two may be the given names of one person: some left out, or by their initials.

    What both have in the same place must agree: twins may differ in their second names only.
    """
    in_their_order = all(map(_is_short_for, name, other))
    return (
        in_their_order
        or set(name) <= set(other)
        or set(other) <= set(name)
        or "".join(name) == "".join(other)
    )


def _is_short_for(name: str, other: str) -> bool:
    shorter, longer = sorted((name, other), key=len)
    return shorter == longer or (len(shorter) == 1 and longer.startswith(shorter))
