"""Records to load: as many as asked, the same each time, shaped like those of Synthea.

Every id follows from type and number, so that an address can be named without looking it up.
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
# Of 45 years, a prime: multiples of it come back only after so many.
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


@dataclass(frozen=True)
class Size:
    """How many records a database holds."""

    patients: int
    allergies: int
    documents: int

    def hundredth(self) -> Size:
        """Return the size that growth is measured against: a full page at the least."""
        return Size(
            max(self.patients // 100, 10),
            max(self.allergies // 100, 100),
            max(self.documents // 100, 100),
        )


def identity(type_name: str, number: int) -> str:
    """Return the id of the resource of this type and number."""
    digest = blake2b(f"{type_name}/{number}".encode(), digest_size=16).digest()
    return str(UUID(bytes=digest, version=4))


def allergy_codes() -> list[str]:
    """Return what allergies are of, as token parameters name it: each of a seventh or more."""
    return [f"{_RXNORM}|{code}" for code, _ in _DRUGS] + [
        f"{_SNOMED}|{code}" for code, _ in _SUBSTANCES
    ]


def allergy_day(patient: int) -> date:
    """Return the day, in UTC too, on which all allergies of a patient were recorded.

    No other patient's were, as far as there are days since 1980: a search by date finds as many
    as one by patient.
    """
    return date(1980, 1, 1) + timedelta(days=patient * 997 % _DAYS)


def ward(patient: int) -> str:
    """Return the word that the notes of this patient hold, and no others."""
    return f"ward{patient}"


def write(folder: Path, size: Size) -> dict[str, Path]:
    """Write NDJSON files, by what is in them."""
    staff = [*map(_practitioner, range(STAFF)), *map(_organization, range(STAFF))]
    people = map(_patient, range(size.patients))
    origins = map(_provenance, range(size.allergies // 10))
    written: dict[str, Iterable[Any]] = {
        "others": (*staff, *people, *origins),
        "one": [_patient(0)],
        "documents": (_document(number, size) for number in range(size.documents)),
        "allergies": (_allergy(number, size) for number in range(size.allergies)),
    }
    return {name: _file(folder / f"{name}.ndjson", some) for name, some in written.items()}


def _file(path: Path, resources: Iterable[Any]) -> Path:
    with path.open("w", encoding="utf-8") as file:
        for resource in resources:
            file.write(json.dumps(resource, separators=(",", ":")) + "\n")
    return path


def _patient(number: int) -> dict[str, Any]:
    patient_id = identity("Patient", number)
    return {
        "resourceType": "Patient",
        "id": patient_id,
        "meta": {"profile": [_US_CORE + "patient"]},
        "identifier": [{"system": _SOURCE, "value": patient_id}],
        "name": [{"use": "official", "family": f"Family{number}", "given": [f"Given{number}"]}],
        "gender": ("female", "male")[number % 2],
        "birthDate": f"{1930 + number % 90}-0{1 + number % 9}-1{number % 9}",
    }


def _practitioner(number: int) -> dict[str, Any]:
    return {
        "resourceType": "Practitioner",
        "id": identity("Practitioner", number),
        "identifier": [{"system": _NPI, "value": f"99999{number:05}"}],
        "name": [{"family": f"Clinician{number}", "prefix": ["Dr."]}],
    }


def _organization(number: int) -> dict[str, Any]:
    organization_id = identity("Organization", number)
    return {
        "resourceType": "Organization",
        "id": organization_id,
        "identifier": [{"system": _SOURCE, "value": organization_id}],
        "name": f"HOSPITAL {number}",
    }


def _allergy(number: int, size: Size) -> dict[str, Any]:
    """Return an allergy of about 1.2 kB: 1 or 2 codings, 1 or 2 reactions."""
    random = Random(number)
    system, known = random.choice([(_RXNORM, _DRUGS), (_SNOMED, _SUBSTANCES)])
    coded = random.sample(known, random.choice([1, 2]))
    signs = random.sample(_SIGNS, random.choice([1, 2]))
    doctor = random.randrange(STAFF)
    patient = number % size.patients
    return {
        "resourceType": "AllergyIntolerance",
        "id": identity("AllergyIntolerance", number),
        "meta": {"profile": [_US_CORE + "allergyintolerance"]},
        "clinicalStatus": _concept(
            _TERMINOLOGY + "allergyintolerance-clinical",
            [(random.choice(["active"] * 4 + ["resolved"]), "")],
        ),
        "verificationStatus": _concept(
            _TERMINOLOGY + "allergyintolerance-verification", [("confirmed", "")]
        ),
        "type": "allergy",
        "category": ["medication" if system == _RXNORM else "environment"],
        "criticality": random.choice(["low", "high"]),
        "code": _concept(system, coded),
        "patient": {"reference": f"Patient/{identity('Patient', patient)}"},
        "encounter": {"reference": f"Encounter/{identity('Encounter', number)}"},
        "recordedDate": _moment(random, allergy_day(patient)),
        "recorder": {
            "reference": f"Practitioner/{identity('Practitioner', doctor)}",
            "display": f"Dr. Clinician{doctor}",
        },
        "reaction": [
            {
                "manifestation": [_concept(_SNOMED, [sign])],
                "severity": random.choice(["mild", "moderate", "severe"]),
            }
            for sign in signs
        ],
    }


def _document(number: int, size: Size) -> dict[str, Any]:
    """Return a note of 1 to 3 kB, its author and custodian by identifier as Synthea has them."""
    random = Random(number)
    patient = number % size.patients
    sentences = random.choices(_SENTENCES, k=random.randint(14, 42))
    text = "\n".join([f"# Note {number}, {ward(patient)}", *sentences])
    doctor, hospital = random.randrange(STAFF), random.randrange(STAFF)
    start = _moment(random, _any_day(random))
    return {
        "resourceType": "DocumentReference",
        "id": identity("DocumentReference", number),
        "meta": {"profile": [_US_CORE + "documentreference"]},
        "identifier": [
            {"system": "urn:ietf:rfc:3986", "value": f"urn:uuid:{identity('Scan', number)}"}
        ],
        "status": "current",
        "type": _concept("http://loinc.org", random.sample(_NOTES, random.choice([1, 2]))),
        "category": [
            _concept(
                "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category",
                [("clinical-note", "Clinical Note")],
            )
        ],
        "subject": {"reference": f"Patient/{identity('Patient', patient)}"},
        "date": start,
        "author": [
            {
                "reference": f"Practitioner?identifier={_NPI}|99999{doctor:05}",
                "display": f"Dr. Clinician{doctor}",
            }
        ],
        "custodian": {
            "reference": f"Organization?identifier={_SOURCE}|{identity('Organization', hospital)}",
            "display": f"HOSPITAL {hospital}",
        },
        "content": [
            {
                "attachment": {
                    "contentType": "text/plain; charset=utf-8",
                    "data": base64.b64encode(text.encode()).decode(),
                },
                "format": {
                    "system": "http://ihe.net/fhir/ihe.formatcode.fhir/CodeSystem/formatcode",
                    "code": "urn:ihe:iti:xds:2017:mimeTypeSufficient",
                    "display": "mimeType Sufficient",
                },
            }
        ],
        "context": {
            "encounter": [{"reference": f"Encounter/{identity('Encounter', number)}"}],
            "period": {"start": start, "end": start},
        },
    }


def _provenance(number: int) -> dict[str, Any]:
    """Return the origin of the allergy of this number: of each patient's first one."""
    random = Random(number)
    return {
        "resourceType": "Provenance",
        "id": identity("Provenance", number),
        "target": [{"reference": f"AllergyIntolerance/{identity('AllergyIntolerance', number)}"}],
        "recorded": _moment(random, _any_day(random)),
        "agent": [
            {
                "type": _concept(
                    _TERMINOLOGY + "provenance-participant-type", [("author", "Author")]
                ),
                "who": {"reference": f"Practitioner/{identity('Practitioner', number % STAFF)}"},
                "onBehalfOf": {
                    "reference": f"Organization/{identity('Organization', number % STAFF)}"
                },
            }
        ],
    }


def _concept(system: str, codes: Sequence[tuple[str, str]]) -> dict[str, Any]:
    coding = [
        {"system": system, "code": code} | ({"display": display} if display else {})
        for code, display in codes
    ]
    return {"coding": coding} | ({"text": codes[0][1]} if codes[0][1] else {})


def _any_day(random: Random) -> date:
    return date(random.randint(1980, 2025), random.randint(1, 12), random.randint(1, 28))


def _moment(random: Random, day: date) -> str:
    """Return a moment of working hours, on the same day in UTC."""
    return f"{day}T{random.randint(7, 18):02}:{random.randint(0, 59):02}:00-05:00"
