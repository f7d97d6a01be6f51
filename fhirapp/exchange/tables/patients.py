"""The patient of a row: a reference, and the Patient itself where the row has a name for it."""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.tables.cells import Cells, digest, search_for
from fhirapp.fhir import datatypes

_NAMES = ("patient_family", "patient_given", "patient_birth_date", "patient_gender")
_GENDERS = {"m": "male", "f": "female"}


def patient_of(cells: Cells) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the reference to the patient, and the Patient in a list, empty where none is made.

    A name alone makes nobody: two people may have the same one, and the same birthday.
    """
    number = cells.record_number("patient_identifier")
    patient_id = cells.checked("patient_id", datatypes.identity)
    if "patient_id" not in cells and "patient_identifier" not in cells:
        cells.fault("patient_id", "is required, or patient_identifier")
    identifier = {"system": number[0], "value": number[1]} if number else None
    made = [name for name in _NAMES if name in cells]
    if made and not patient_id and number:
        patient_id = digest("Patient", *number)
    reference: dict[str, Any] = {}
    if patient_id:
        reference["reference"] = f"Patient/{patient_id}"
        if identifier:
            reference["identifier"] = identifier
    elif number:
        reference["reference"] = search_for("Patient", *number)
    if not made or not patient_id:
        return reference, []
    return reference, [_patient(cells, patient_id, identifier)]


def _patient(cells: Cells, patient_id: str, identifier: dict[str, Any] | None) -> dict[str, Any]:
    patient: dict[str, Any] = {"resourceType": "Patient", "id": patient_id}
    if identifier:
        patient["identifier"] = [identifier]
    family, given = cells.text("patient_family"), cells.several("patient_given")
    for name in given:
        cells.check_text("patient_given", name)
    if not family and not given:
        cells.fault("patient_family", "is required of a patient who is to be made")
    whole = {"family": family, "given": given}
    patient["name"] = [{part: value for part, value in whole.items() if value}]
    said = cells.raw("patient_gender").casefold()
    gender = _GENDERS.get(said) or cells.code(
        "patient_gender", "male", "female", "other", "unknown"
    )
    born = cells.date("patient_birth_date")
    patient.update({"gender": gender} if gender else {})
    patient.update({"birthDate": born} if born else {})
    return patient
