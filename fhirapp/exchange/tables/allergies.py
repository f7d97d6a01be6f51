"""A row of the table of allergies, as an AllergyIntolerance. service.md 2.3; decisions 2.19."""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.tables import codes
from fhirapp.exchange.tables.cells import Cells
from fhirapp.exchange.tables.codes import Concept
from fhirapp.exchange.tables.patients import patient_of
from fhirapp.fhir import datatypes, systems

_NO_INFORMATION = {
    "system": systems.NULL_FLAVOR,
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
    none_known = codes.none_known_of(cells.raw("substance"))
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
    if codes.is_unclear(name):
        cells.fault(
            "substance",
            f"is {name!r}, which may mean none, or not asked; write no known allergies, "
            "no known drug allergies or unknown",
        )
        return None
    given = _given(cells)
    none_known = codes.none_known_of(name)
    if none_known:
        _check_none(cells, none_known, given)
        return {"coding": [none_known.coding()], "text": name}
    if codes.is_unknown(name):
        if not given:
            cells.note("substance", "is unknown: taken as no information, which is not no allergy")
        return {"coding": [given or _NO_INFORMATION], "text": name}
    known = codes.look_up(codes.SUBSTANCES, name)
    if given:
        _compare(cells, known, given)
        return {"coding": [given], "text": name}
    if known is None:
        cells.note("substance", codes.not_known(codes.SUBSTANCES, name))
        return {"text": name}
    return {"coding": [known.coding()], "text": name}


def _given(cells: Cells) -> dict[str, Any] | None:
    """Return the coding that the source itself has."""
    if "substance_code" not in cells:
        return None
    if "substance_system" not in cells:
        cells.fault("substance_system", "is required with substance_code")
        return None
    system = codes.system_of(cells.raw("substance_system"))
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
        "clinicalStatus": _coded(systems.ALLERGY_CLINICAL, clinical),
        "verificationStatus": _coded(systems.ALLERGY_VERIFICATION, verification),
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
        named = [{"coding": [codes.UNKNOWN_REACTION.coding()]}]
    if not named:
        return []
    return [{"manifestation": named, **({"severity": severity} if severity else {})}]


def _manifestation(cells: Cells, name: str) -> dict[str, Any]:
    cells.check_text("reaction", name)
    if codes.is_unknown(name):
        return {"coding": [codes.UNKNOWN_REACTION.coding()], "text": name}
    known = codes.look_up(codes.MANIFESTATIONS, name)
    if known is None:
        cells.note("reaction", codes.not_known(codes.MANIFESTATIONS, name))
        return {"text": name}
    return {"coding": [known.coding()], "text": name}
