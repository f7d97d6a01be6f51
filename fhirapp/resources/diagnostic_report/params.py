"""The search parameters of DiagnosticReport, as far as the view has values of them.

Source: FHIR R4; US Core.
"""

from __future__ import annotations

from fhirapp.resources.diagnostic_report.view import PERFORMERS, REQUESTS
from fhirapp.search.date import Date
from fhirapp.search.parameter import CLINICAL, Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference, Subject
from fhirapp.search.token import HL7, Identifier, Token

_PERFORMERS = " | ".join(PERFORMERS)

PARAMS = Parameters(
    "DiagnosticReport",
    *COMMON,
    Subject("patient", "subject", "The patient that the report is about"),
    Subject("subject", "subject", "Who or what the report is about",
            "Patient | Group | Device | Location"),
    Token("category", "category", "Laboratory, radiology, cardiology, pathology …"),
    Token("code", "code", "Kind of report, in LOINC"),
    Date("date", "effectiveDateTime | effectivePeriod", "Clinically relevant time of the report"),
    Token("status", "status", "preliminary, final, amended or entered-in-error",
          system=HL7 + "diagnostic-report-status"),
    Date("issued", "issued", "When the report was made available"),
    Identifier("identifier", "identifier", "Identifier of the report"),
    Reference("encounter", "encounter", "Encounter of the report", "Encounter | EpisodeOfCare"),
    Reference("performer", "performer", "Who is responsible for the report",
              _PERFORMERS),
    Reference("results-interpreter", "resultsInterpreter", "Who is responsible for its conclusions",
              _PERFORMERS),
    Reference("based-on", "basedOn", "The order of the report", " | ".join(REQUESTS)),
    Reference("result", "result", "Observations that are part of the report", "Observation"),
    Reference("media", "media.link", "Key images of the report", "Media"),
    shared=CLINICAL,
)  # fmt: skip
