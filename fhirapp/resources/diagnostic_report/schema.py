"""The FHIR JSON of DiagnosticReport. Source: FHIR R4 diagnosticreport."""

from __future__ import annotations

from fhirapp.fhir import datatypes, fields, narrative
from fhirapp.fhir.resource import DomainResourceSchema

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

    identifier = fields.List(fields.Identifier, summary=True)
    based_on = fields.List(fields.Reference, column=False)
    status = fields.Code(
        *("registered", "partial", "preliminary", "final", "amended", "corrected", "appended"),
        *("cancelled", "entered-in-error", "unknown"),
        required=True,
        summary=True,
        modifier=True,
    )
    category = fields.List(fields.CodeableConcept, summary=True)
    code = fields.CodeableConcept(required=True, summary=True)
    subject = fields.Reference(summary=True)
    encounter = fields.Reference(summary=True)
    effective_date_time = fields.DateTime(choice="effective", summary=True)
    effective_period = fields.Period(choice="effective", summary=True)
    issued = fields.Instant(summary=True)
    performer = fields.List(fields.Reference, summary=True)
    results_interpreter = fields.List(fields.Reference, summary=True, column=False)
    specimen = fields.List(fields.Reference, column=False)
    result = fields.List(fields.Reference, column=False)
    imaging_study = fields.List(fields.Reference, column=False)
    media = fields.List(Media, summary=True, column=False)
    conclusion = fields.String(column=False)
    conclusion_code = fields.List(fields.CodeableConcept, column=False)
    presented_form = fields.List(fields.Attachment)
