"""The FHIR JSON of DiagnosticReport. Source: FHIR R4 diagnosticreport."""

from __future__ import annotations

from fhirapp.fhir import narrative
from fhirapp.fhir.datatypes import (
    Attachment,
    CodeableConcept,
    Identifier,
    Period,
    Reference,
    backbone,
    date_time,
    instant,
    one_of,
    string,
)
from fhirapp.fhir.resource import DomainResourceSchema, Element, Elements

status = one_of(
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
Media = backbone(required=("link",), summary=("link",), comment=string, link=Reference)


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

    identifier = Elements(Identifier, summary=True)
    based_on = Elements(Reference)
    status = Element(status, required=True, summary=True, modifier=True)
    category = Elements(CodeableConcept, summary=True)
    code = Element(CodeableConcept, required=True, summary=True)
    subject = Element(Reference, summary=True)
    encounter = Element(Reference, summary=True)
    effective_date_time = Element(date_time, choice="effective", summary=True)
    effective_period = Element(Period, choice="effective", summary=True)
    issued = Element(instant, summary=True)
    performer = Elements(Reference, summary=True)
    results_interpreter = Elements(Reference, summary=True)
    specimen = Elements(Reference)
    result = Elements(Reference)
    imaging_study = Elements(Reference)
    media = Elements(Media, summary=True)
    conclusion = Element(string)
    conclusion_code = Elements(CodeableConcept)
    presented_form = Elements(Attachment)
