"""A row of the table of allergies, as an AllergyIntolerance. service.md 2.3; decisions 2.19."""

from __future__ import annotations

from typing import Any

from fhirapp.features.imports.tables import vocabulary
from fhirapp.features.imports.tables.cells import Cells, patient_of
from fhirapp.fhir import datatypes, terminology

NO_INFORMATION = {
    "system": terminology.NULL_FLAVOR,
    "code": "NI",
    "display": "NoInformation",
    "userSelected": False,
}
# What distinguishes an entry from the others of a patient.
_KEYS = ("substance", "substance_code", "reaction", "onset", "recorded_date")
# A statement that no allergy is known has none of these.
_OF_AN_ALLERGY = ("reaction", "severity", "onset", "type", "category")


def allergy(cells: Cells) -> list[dict[str, Any]]:
    """Return the entry of a row, after its patient where that is made; faults are in cells."""
    reference, patients = patient_of(cells)
    code = _code(cells)
    none_known = vocabulary.none_known_of(cells.raw("substance"))
    note = cells.text("note")
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
        "note": [{"text": note}] if note else None,
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
    if vocabulary.is_unclear(name):
        cells.fault(
            "substance",
            f"is {name!r}, which may mean none, or not asked; write no known allergies, "
            "no known drug allergies or unknown",
        )
        return None
    own = _own_coding(cells)
    if none_known := vocabulary.none_known_of(name):
        _check_none_known(cells, none_known, own)
        return {"coding": [none_known.coding()], "text": name}
    if vocabulary.is_unknown(name):
        if not own:
            cells.note(
                "substance", "is unknown: taken as no information, which does not mean no allergy"
            )
        return {"coding": [own or NO_INFORMATION], "text": name}
    known = vocabulary.look_up(vocabulary.SUBSTANCES, name)
    if own:
        if known and known.system == own["system"] and known.code != own["code"]:
            cells.note("substance_code", f"is kept, but {known.display} is {known.code} here")
        return {"coding": [own], "text": name}
    if known is None:
        cells.note("substance", vocabulary.without_code(vocabulary.SUBSTANCES, name))
        return {"text": name}
    return {"coding": [known.coding()], "text": name}


def _own_coding(cells: Cells) -> dict[str, Any] | None:
    """Return the coding that the source itself has."""
    if "substance_code" not in cells:
        return None
    if "substance_system" not in cells:
        cells.fault("substance_system", "is required with substance_code")
        return None
    system = vocabulary.system_of(cells.raw("substance_system"))
    if ":" not in system:
        cells.fault("substance_system", "is not a known code system; write its address")
        return None
    code = cells.checked("substance_code", datatypes.code)
    return {"system": system, "code": code} if code else None


def _check_none_known(
    cells: Cells, none_known: vocabulary.Concept, own: dict[str, Any] | None
) -> None:
    if own and (own["system"], own["code"]) != none_known[:2]:
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
        if verification != "refuted":
            cells.defaults.add("clinicalStatus")
    return {
        "clinicalStatus": _coded(terminology.ALLERGY_CLINICAL, clinical),
        "verificationStatus": _coded(terminology.ALLERGY_VERIFICATION, verification),
    }


def _coded(system: str, code: str | None) -> dict[str, Any] | None:
    return {"coding": [{"system": system, "code": code}]} if code else None


def _criticality(cells: Cells, none_known: vocabulary.Concept | None) -> str | None:
    criticality = cells.code("criticality", "low", "high", "unable-to-assess")
    # service.md 2.3: of "no known drug allergies" it cannot be assessed.
    if none_known is None:
        return criticality
    if criticality and criticality != "unable-to-assess":
        cells.fault("criticality", f"must be unable-to-assess: {none_known.display}")
    return "unable-to-assess"


def _reactions(cells: Cells) -> list[dict[str, Any]]:
    severity = cells.code("severity", "mild", "moderate", "severe")
    manifestations = [_manifestation(cells, name) for name in cells.items("reaction")]
    if not manifestations and severity:
        manifestations = [{"coding": [vocabulary.UNKNOWN_REACTION.coding()]}]
    if not manifestations:
        return []
    return [{"manifestation": manifestations, **({"severity": severity} if severity else {})}]


def _manifestation(cells: Cells, name: str) -> dict[str, Any]:
    cells.check_text("reaction", name)
    known = (
        vocabulary.UNKNOWN_REACTION
        if vocabulary.is_unknown(name)
        else vocabulary.look_up(vocabulary.MANIFESTATIONS, name)
    )
    if known is None:
        cells.note("reaction", vocabulary.without_code(vocabulary.MANIFESTATIONS, name))
        return {"text": name}
    return {"coding": [known.coding()], "text": name}
