"""A row of the table of allergies, as an AllergyIntolerance. service.md 2.3; decisions 2.19.

Names are looked up to codes; words that there is no allergy, or that nothing is known, to theirs.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

from fhirapp.exchange.tables.cells import Cells, patient_of
from fhirapp.exchange.tables.vocabulary import ALLERGENS, DOCUMENTS, DRUGS, REACTIONS
from fhirapp.fhir import datatypes, terminology

RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
LOINC = "http://loinc.org"


class Concept(NamedTuple):
    """A code of a system, and how it is displayed."""

    system: str
    code: str
    display: str

    def coding(self) -> dict[str, Any]:
        return {"system": self.system, "code": self.code, "display": self.display}


# How alike a name must be to one that is known, to be taken for a slip of the pen.
_ALIKE = 0.8
UNKNOWN_REACTION = Concept(terminology.SNOMED_CT, "261665006", "Unknown")


def _key(name: str) -> str:
    return " ".join(name.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").casefold().split())


def _table(system: str, lines: str) -> dict[str, Concept]:
    found: dict[str, Concept] = {}
    for line in lines.strip().splitlines():
        named, _, others = line.partition(" | ")
        code, display = named.split(" ", 1)
        concept = Concept(system, code, display)
        for name in (display, *filter(None, others.split(", "))):
            found[_key(name)] = concept
    return found


SUBSTANCES = _table(terminology.SNOMED_CT, ALLERGENS) | _table(RXNORM, DRUGS)
MANIFESTATIONS = _table(terminology.SNOMED_CT, REACTIONS)
DOCUMENT_TYPES = _table(LOINC, DOCUMENTS)
DOCUMENT_CODES = {concept.code: concept for concept in DOCUMENT_TYPES.values()}

_NO_DRUGS = Concept(
    terminology.SNOMED_CT, terminology.NO_KNOWN_DRUG_ALLERGY, "No known drug allergy"
)
_NO_ALLERGY = Concept(terminology.SNOMED_CT, "716186003", "No known allergy")
_NO_FOOD = Concept(terminology.SNOMED_CT, "429625007", "No known food allergy")
_NONE_KNOWN = {
    **dict.fromkeys(("nkda", "no known drug allergy", "no known drug allergies"), _NO_DRUGS),
    **dict.fromkeys(
        ("no known medication allergies", "no known medication allergy"),
        _NO_DRUGS,
    ),
    **dict.fromkeys(("nka", "no known allergy", "no known allergies"), _NO_ALLERGY),
    **dict.fromkeys(("nkfa", "no known food allergy", "no known food allergies"), _NO_FOOD),
}
# What may mean "none", or that nobody asked: no known drug allergy, but in other words.
_UNCLEAR = re.compile(
    r"(?:no|not|none|nil|n/?a|nka|nkda|nkfa|denie[sd]|denying|negative|without|never)\b.*"
    r"|[\W\d_]+"
)
_UNKNOWN = frozenset(("unknown", "not known", "no information", "unk"))

_SYSTEMS = {
    "snomed ct": terminology.SNOMED_CT,
    "snomed": terminology.SNOMED_CT,
    "snomedct": terminology.SNOMED_CT,
    "sct": terminology.SNOMED_CT,
    "rxnorm": RXNORM,
    "unii": "http://fdasis.nlm.nih.gov",
    "cvx": "http://hl7.org/fhir/sid/cvx",
    "loinc": LOINC,
}


def look_up(table: Mapping[str, Concept], name: str) -> Concept | None:
    """Return the concept of a name, whatever its case and spaces; None where it is unknown."""
    return table.get(_key(name))


def not_known(table: Mapping[str, Concept], name: str) -> str:
    """Return what is said of a name without a code, with the one that is probably meant."""
    alike = get_close_matches(_key(name)[:64], table, 1, _ALIKE)
    meant = f"; is {table[alike[0]].display} meant?" if alike else ""
    return f"has no code here: {name[:60]!r} is kept as text{meant}"


def none_known_of(name: str) -> Concept | None:
    """Return the statement that no allergy (to drugs, to food) is known, where a name is that."""
    return _NONE_KNOWN.get(_key(name).strip("()."))


def is_unknown(name: str) -> bool:
    """Return whether a name says that nothing is known."""
    return _key(name).strip("().") in _UNKNOWN


def is_unclear(name: str) -> bool:
    """Say whether a name may mean that there is no allergy, or that it is unknown."""
    if none_known_of(name) or is_unknown(name):
        return False
    return _UNCLEAR.fullmatch(_key(name)) is not None


def system_of(name: str) -> str:
    """Return the address of a code system that is named, or the name where it is none of ours."""
    return _SYSTEMS.get(_key(name), name)


def is_loinc(code: str) -> bool:
    """Return whether a code is LOINC's: digits, and the check digit that follows from them."""
    digits, dash, check = code.partition("-")
    if not (dash and digits.isdecimal() and digits.isascii() and len(digits) <= 7):
        return False
    total = 0
    for place, digit in enumerate(reversed(digits)):
        value = int(digit) * (1 if place % 2 else 2)
        total += value // 10 + value % 10
    return check == str(-total % 10)


_NO_INFORMATION = {
    "system": terminology.NULL_FLAVOR,
    "code": "NI",
    "display": "NoInformation",
    "userSelected": False,
}
# What tells an entry from the others of a patient.
_KEYS = ("substance", "substance_code", "reaction", "onset", "recorded_date")
# Whoever has no allergy has nothing of the kind.
_OF_AN_ALLERGY = ("reaction", "severity", "onset", "type", "category")


def allergy(cells: Cells) -> list[dict[str, Any]]:
    """Return the entry of a row, after its patient where that is made; faults are in cells."""
    reference, patients = patient_of(cells)
    code = _code(cells)
    none_known = none_known_of(cells.raw("substance"))
    content: dict[str, Any] = {
        **_statuses(cells),
        "type": cells.code("type", "allergy", "intolerance"),
        "category": cells.codes("category", "food", "medication", "environment", "biologic"),
        "criticality": _criticality(cells, none_known),
        "code": code,
        "patient": reference,
        "encounter": cells.reference("encounter", "Encounter"),
        "onsetDateTime": cells.date_time("onset"),
        "recordedDate": cells.date_time("recorded_date"),
        "recorder": cells.person(
            "recorder", "Practitioner", "PractitionerRole", "Patient", "RelatedPerson"
        ),
        "note": _notes(cells),
        "reaction": _reactions(cells),
    }
    entry: dict[str, Any] = {
        "resourceType": "AllergyIntolerance",
        **cells.identity("AllergyIntolerance", _KEYS),
    }
    entry.update({name: value for name, value in content.items() if value})
    return [*patients, entry]


def _code(cells: Cells) -> dict[str, Any] | None:
    """Return the substance, or the statement that there is none known, or no information."""
    name = cells.text("substance")
    if not name:
        if "substance" not in cells:
            cells.fault("substance", "is required; where nothing is known, write unknown")
        return None
    if is_unclear(name):
        cells.fault(
            "substance",
            f"is {name!r}, which may mean none, or not asked; write no known allergies, "
            "no known drug allergies or unknown",
        )
        return None
    given = _given(cells)
    none_known = none_known_of(name)
    if none_known:
        _check_none(cells, none_known, given)
        return {"coding": [none_known.coding()], "text": name}
    if is_unknown(name):
        if not given:
            cells.note("substance", "is unknown: taken as no information, which is not no allergy")
        return {"coding": [given or _NO_INFORMATION], "text": name}
    known = look_up(SUBSTANCES, name)
    if given:
        _compare(cells, known, given)
        return {"coding": [given], "text": name}
    if known is None:
        cells.note("substance", not_known(SUBSTANCES, name))
        return {"text": name}
    return {"coding": [known.coding()], "text": name}


def _given(cells: Cells) -> dict[str, Any] | None:
    """Return the coding that the source itself has."""
    if "substance_code" not in cells:
        return None
    if "substance_system" not in cells:
        cells.fault("substance_system", "is required with substance_code")
        return None
    system = system_of(cells.raw("substance_system"))
    if ":" not in system:
        cells.fault("substance_system", "is no code system known here; write its address")
        return None
    code = cells.checked("substance_code", datatypes.code)
    return {"system": system, "code": code} if code else None


def _compare(cells: Cells, known: Concept | None, given: dict[str, Any]) -> None:
    if known and known.system == given["system"] and known.code != given["code"]:
        cells.note("substance_code", f"is kept, though {known.display} is {known.code} here")


def _check_none(cells: Cells, none_known: Concept, given: dict[str, Any] | None) -> None:
    if given and (given["system"], given["code"]) != none_known[:2]:
        cells.fault("substance_code", f"contradicts the substance: {none_known.display}")
    for column in _OF_AN_ALLERGY:
        if column in cells:
            cells.fault(column, f"contradicts the substance: {none_known.display}")


def _statuses(cells: Cells) -> dict[str, Any]:
    verification = cells.code(
        "verification_status", "unconfirmed", "confirmed", "refuted", "entered-in-error"
    )
    clinical = cells.code("clinical_status", "active", "inactive", "resolved")
    if verification == "entered-in-error":
        # FHIR R4 ait-2
        if clinical:
            cells.fault("clinical_status", "must be empty for what was entered in error")
    elif "clinical_status" not in cells:
        # FHIR R4 ait-1 wants one. An app that asks for the active allergies must not miss any.
        clinical = "inactive" if verification == "refuted" else "active"
    return {
        "clinicalStatus": _coded(terminology.ALLERGY_CLINICAL, clinical),
        "verificationStatus": _coded(terminology.ALLERGY_VERIFICATION, verification),
    }


def _coded(system: str, code: str | None) -> dict[str, Any] | None:
    return {"coding": [{"system": system, "code": code}]} if code else None


def _criticality(cells: Cells, none_known: Concept | None) -> str | None:
    said = cells.code("criticality", "low", "high", "unable-to-assess")
    # service.md 2.3: of "no known drug allergies" it cannot be assessed
    if none_known is None:
        return said
    if said and said != "unable-to-assess":
        cells.fault("criticality", f"must be unable-to-assess: {none_known.display}")
    return "unable-to-assess"


def _notes(cells: Cells) -> list[dict[str, Any]]:
    text = cells.text("note")
    return [{"text": text}] if text else []


def _reactions(cells: Cells) -> list[dict[str, Any]]:
    severity = cells.code("severity", "mild", "moderate", "severe")
    named = [_manifestation(cells, name) for name in cells.several("reaction")]
    if not named and severity:
        # service.md 2.3: this code where it is not known
        named = [{"coding": [UNKNOWN_REACTION.coding()]}]
    if not named:
        return []
    return [{"manifestation": named, **({"severity": severity} if severity else {})}]


def _manifestation(cells: Cells, name: str) -> dict[str, Any]:
    cells.check_text("reaction", name)
    if is_unknown(name):
        return {"coding": [UNKNOWN_REACTION.coding()], "text": name}
    known = look_up(MANIFESTATIONS, name)
    if known is None:
        cells.note("reaction", not_known(MANIFESTATIONS, name))
        return {"text": name}
    return {"coding": [known.coding()], "text": name}
