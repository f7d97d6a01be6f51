"""Documents that are diagnostic reports, and the report that a document is."""

from __future__ import annotations

from typing import Any

from fhirapp.resources.diagnostic_report.view import report_of

LOINC = "http://loinc.org"
SECTIONS = "http://terminology.hl7.org/CodeSystem/v2-0074"
NOTE_CATEGORY = "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category"
NOTE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-diagnosticreport-note"
LAB = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-diagnosticreport-lab"


def concept(code: str, system: str = LOINC) -> dict[str, Any]:
    return {"coding": [{"system": system, "code": code}]}


def document(row_id: str = "d", **elements: Any) -> dict[str, Any]:
    """Return a laboratory report of patient p1, without the elements that are None."""
    content = {
        "resourceType": "DocumentReference",
        "id": row_id,
        "status": "current",
        "type": concept("11502-2"),
        "category": [concept("clinical-note", NOTE_CATEGORY)],
        "subject": {"reference": "Patient/p1"},
        "date": "2024-01-19T09:10:00+00:00",
        **elements,
    }
    return {name: value for name, value in content.items() if value is not None}


def made(**elements: Any) -> dict[str, Any]:
    """Return the report of a document that is one."""
    report = report_of(document(**elements))
    assert report
    return report
