"""The FHIR JSON of DiagnosticReport. Source: FHIR R4 diagnosticreport."""

from __future__ import annotations

from fhirapp.fhir import datatypes, narrative
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements

status = datatypes.one_of(
    "registered",
    "partial",
    "preliminary",
    "final",
    "amended",
    "corrected",
    "appended",
    "cancelled",
    "entered-in-error",
    "unknown",
)
Media = datatypes.backbone(
    required=("link",), summary=("link",), comment=datatypes.string, link=datatypes.Reference
)


class DiagnosticReportSchema(DomainResourceSchema):
    """DiagnosticReport."""

    resource_type = "DiagnosticReport"
    narrative = (
        ("Document", "code", narrative.concept),
        ("Category", "category", narrative.concepts),
        ("Status", "status", narrative.plain),
        ("Date", "issued", narrative.plain),
        ("Author", "performer", narrative.references),
    )

    identifier = Elements(datatypes.Identifier, summary=True)
    based_on = Elements(datatypes.Reference, column=False)
    status = Element(status, required=True, summary=True, modifier=True)
    category = Elements(datatypes.CodeableConcept, summary=True)
    code = Element(datatypes.CodeableConcept, required=True, summary=True)
    subject = Element(datatypes.Reference, summary=True)
    encounter = Element(datatypes.Reference, summary=True)
    effective_date_time = Element(datatypes.date_time, choice="effective", summary=True)
    effective_period = Element(datatypes.Period, choice="effective", summary=True)
    issued = Element(datatypes.instant, summary=True)
    performer = Elements(datatypes.Reference, summary=True)
    results_interpreter = Elements(datatypes.Reference, summary=True, column=False)
    specimen = Elements(datatypes.Reference, column=False)
    result = Elements(datatypes.Reference, column=False)
    imaging_study = Elements(datatypes.Reference, column=False)
    media = Elements(Media, summary=True, column=False)
    conclusion = Element(datatypes.string, column=False)
    conclusion_code = Elements(datatypes.CodeableConcept, column=False)
    presented_form = Elements(datatypes.Attachment)
