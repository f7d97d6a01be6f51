"""Records in the shape of Synthea's, the same in each run.

An id is derived from type and number, so that paths are known without a query.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

STAFF = 50

_US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
_TERMINOLOGY = "http://terminology.hl7.org/CodeSystem/"
_SNOMED = "http://snomed.info/sct"
_RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
_NPI = "http://hl7.org/fhir/sid/us-npi"
_SOURCE = "https://github.com/synthetichealth/synthea"

_DRUGS = (("1191", "Aspirin"), ("7984", "Penicillin V"), ("5640", "Ibuprofen"))
_SUBSTANCES = (
    ("442571000124108", "Tree nut (substance)"),
    ("264287008", "Animal dander (substance)"),
    ("256277009", "Grass pollen (substance)"),
    ("102263004", "Eggs (edible) (substance)"),
)
_SIGNS = (
    ("247472004", "Wheal (finding)"),
    ("267036007", "Dyspnea (finding)"),
    ("271807003", "Eruption of skin (disorder)"),
    ("39579001", "Anaphylaxis (disorder)"),
    ("418290006", "Itching (finding)"),
)
_NOTES = (
    ("34117-2", "History and physical note"),
    ("11506-3", "Progress note"),
    ("18842-5", "Discharge summary"),
)
# 45 years; a prime, so that steps of 997 reach each day before one is repeated.
_DAYS = 16_433
_SENTENCES = (
    "Patient is resting comfortably and reports no new complaint since the last visit.",
    "Blood pressure is within the range that was agreed on.",
    "Medication was reviewed with the patient, who takes it as prescribed.",
    "There is a history of seasonal rhinitis, well controlled.",
    "No fever, no cough, no shortness of breath on exertion.",
    "The wound heals without signs of infection; the dressing was changed.",
    "Follow-up in six weeks, earlier where symptoms return.",
)

Resource = dict[str, Any]


@dataclass(frozen=True)
class Size:
    """The number of records in a database."""

    patients: int
    allergies: int
    documents: int


def identity(type_name: str, number: int) -> str:
    """Return the id of the resource of this type and number."""
    digest = blake2b(f"{type_name}/{number}".encode(), digest_size=16).digest()
    return str(UUID(bytes=digest, version=4))


def allergy_codes() -> list[str]:
    """Return the codes of allergies as token parameters; each is in a seventh of them or more."""
    drugs = [f"{_RXNORM}|{code}" for code, _ in _DRUGS]
    return drugs + [f"{_SNOMED}|{code}" for code, _ in _SUBSTANCES]


def allergy_day(patient: int) -> date:
    """Return the day, in UTC too, on which all allergies of a patient were recorded.

    It is no other patient's day, up to 16,433 patients: a search by date finds as many matches as
    a search by patient.
    """
    return date(1980, 1, 1) + timedelta(days=patient * 997 % _DAYS)


def ward(patient: int) -> str:
    """Return the word that only the notes of this patient contain."""
    return f"ward{patient}"


def write(folder: Path, size: Size) -> dict[str, Path]:
    """Write NDJSON files; return them by their content."""
    staff = [*map(_practitioner, range(STAFF)), *map(_organization, range(STAFF))]
    people = map(_patient, range(size.patients))
    provenances = map(_provenance, range(size.allergies // 10))
    contents: dict[str, Iterable[Resource]] = {
        "others": (*staff, *people, *provenances),
        "one": [_patient(0)],
        "documents": (_document(number, size) for number in range(size.documents)),
        "allergies": (_allergy(number, size) for number in range(size.allergies)),
    }
    paths = {name: folder / f"{name}.ndjson" for name in contents}
    for name, path in paths.items():
        with path.open("w", encoding="utf-8") as file:
            for resource in contents[name]:
                file.write(json.dumps(resource, separators=(",", ":")) + "\n")
    return paths


def _resource(type_name: str, number: int, *profiles: str, **elements: Any) -> Resource:
    meta = {"meta": {"profile": [_US_CORE + name for name in profiles]}} if profiles else {}
    return {"resourceType": type_name, "id": identity(type_name, number), **meta, **elements}


def _patient(number: int) -> Resource:
    return _resource(
        "Patient",
        number,
        "patient",
        identifier=[{"system": _SOURCE, "value": identity("Patient", number)}],
        name=[{"use": "official", "family": f"Family{number}", "given": [f"Given{number}"]}],
        gender=("female", "male")[number % 2],
        birthDate=f"{1930 + number % 90}-0{1 + number % 9}-1{number % 9}",
    )


def _practitioner(number: int) -> Resource:
    identifier = [{"system": _NPI, "value": f"99999{number:05}"}]
    name = [{"family": f"Clinician{number}", "prefix": ["Dr."]}]
    return _resource("Practitioner", number, identifier=identifier, name=name)


def _organization(number: int) -> Resource:
    identifier = [{"system": _SOURCE, "value": identity("Organization", number)}]
    return _resource("Organization", number, identifier=identifier, name=f"HOSPITAL {number}")


def _allergy(number: int, size: Size) -> Resource:
    """Return an allergy of about 1.2 kB: 1 or 2 codings, 1 or 2 reactions."""
    random = Random(number)
    system, known = random.choice([(_RXNORM, _DRUGS), (_SNOMED, _SUBSTANCES)])
    coded = random.sample(known, random.choice([1, 2]))
    signs = random.sample(_SIGNS, random.choice([1, 2]))
    doctor, patient = random.randrange(STAFF), number % size.patients
    status = random.choice(["active"] * 4 + ["resolved"])
    severities = ["mild", "moderate", "severe"]
    prefix = _TERMINOLOGY + "allergyintolerance-"
    return _resource(
        "AllergyIntolerance",
        number,
        "allergyintolerance",
        clinicalStatus=_concept(prefix + "clinical", [(status, "")]),
        verificationStatus=_concept(prefix + "verification", [("confirmed", "")]),
        type="allergy",
        category=["medication" if system == _RXNORM else "environment"],
        criticality=random.choice(["low", "high"]),
        code=_concept(system, coded),
        patient=_reference("Patient", patient),
        encounter=_reference("Encounter", number),
        recordedDate=_instant(random, allergy_day(patient)),
        recorder=_reference("Practitioner", doctor) | {"display": f"Dr. Clinician{doctor}"},
        reaction=[
            {"manifestation": [_concept(_SNOMED, [sign])], "severity": random.choice(severities)}
            for sign in signs
        ],
    )


def _document(number: int, size: Size) -> Resource:
    """Return a note of 1 to 3 kB, with author and custodian by identifier like Synthea's."""
    random = Random(number)
    patient = number % size.patients
    sentences = random.choices(_SENTENCES, k=random.randint(14, 42))
    text = "\n".join([f"# Note {number}, {ward(patient)}", *sentences])
    data = base64.b64encode(text.encode()).decode()
    doctor, hospital = random.randrange(STAFF), random.randrange(STAFF)
    start = _instant(random, _any_day(random))
    author = f"Practitioner?identifier={_NPI}|99999{doctor:05}"
    custodian = f"Organization?identifier={_SOURCE}|{identity('Organization', hospital)}"
    category = "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category"
    content = {
        "attachment": {"contentType": "text/plain; charset=utf-8", "data": data},
        "format": {
            "system": "http://ihe.net/fhir/ihe.formatcode.fhir/CodeSystem/formatcode",
            "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient",
            "display": "mimeType Sufficient",
        },
    }
    return _resource(
        "DocumentReference",
        number,
        "documentreference",
        identifier=[
            {"system": "urn:ietf:rfc:3986", "value": f"urn:uuid:{identity('Scan', number)}"}
        ],
        status="current",
        type=_concept("http://loinc.org", random.sample(_NOTES, random.choice([1, 2]))),
        category=[_concept(category, [("clinical-note", "Clinical Note")])],
        subject=_reference("Patient", patient),
        date=start,
        author=[{"reference": author, "display": f"Dr. Clinician{doctor}"}],
        custodian={"reference": custodian, "display": f"HOSPITAL {hospital}"},
        content=[content],
        context={
            "encounter": [_reference("Encounter", number)],
            "period": {"start": start, "end": start},
        },
    )


def _provenance(number: int) -> Resource:
    """Return the Provenance of an allergy; each patient's first allergy has one."""
    random = Random(number)
    agent = {
        "type": _concept(_TERMINOLOGY + "provenance-participant-type", [("author", "Author")]),
        "who": _reference("Practitioner", number % STAFF),
        "onBehalfOf": _reference("Organization", number % STAFF),
    }
    target, recorded = _reference("AllergyIntolerance", number), _any_day(random)
    recorded_at = _instant(random, recorded)
    return _resource("Provenance", number, target=[target], recorded=recorded_at, agent=[agent])


def _reference(type_name: str, number: int) -> Resource:
    return {"reference": f"{type_name}/{identity(type_name, number)}"}


def _concept(system: str, codes: Sequence[tuple[str, str]]) -> Resource:
    coding = [
        {"system": system, "code": code} | ({"display": display} if display else {})
        for code, display in codes
    ]
    return {"coding": coding} | ({"text": codes[0][1]} if codes[0][1] else {})


def _any_day(random: Random) -> date:
    return date(random.randint(1980, 2025), random.randint(1, 12), random.randint(1, 28))


def _instant(random: Random, day: date) -> str:
    """Return a time in working hours that is on the same day in UTC."""
    return f"{day}T{random.randint(7, 18):02}:{random.randint(0, 59):02}:00-05:00"
