"""The search parameters of DiagnosticReport, as far as the view has values of them.

Source: FHIR R4; US Core.
"""

from __future__ import annotations

from fhirapp.resources.diagnostic_report.view import PERFORMERS, REQUESTS
from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token

SPEC = "http://hl7.org/fhir/SearchParameter/"
REPORT = SPEC + "DiagnosticReport-"
CLINICAL = SPEC + "clinical-"

PARAMS = Parameters(
    (
        *COMMON,
        Reference(
            "patient",
            ("subject",),
            "The patient that the report is about",
            CLINICAL + "patient",
            targets=("Patient",),
            compartment=True,
        ),
        Reference(
            "subject",
            ("subject",),
            "Who or what the report is about",
            REPORT + "subject",
            targets=("Patient", "Group", "Device", "Location"),
            compartment=True,
        ),
        Token(
            "category",
            ("category",),
            "Laboratory, radiology, cardiology, pathology …",
            REPORT + "category",
        ),
        Token("code", ("code",), "Kind of report, in LOINC", CLINICAL + "code"),
        Date(
            "date",
            ("effectiveDateTime", "effectivePeriod"),
            "Clinically relevant time of the report",
            CLINICAL + "date",
        ),
        Token(
            "status",
            ("status",),
            "preliminary, final, amended or entered-in-error",
            REPORT + "status",
            system="http://hl7.org/fhir/diagnostic-report-status",
        ),
        Date("issued", ("issued",), "When the report was made available", REPORT + "issued"),
        Token(
            "identifier",
            ("identifier",),
            "Identifier of the report",
            CLINICAL + "identifier",
            of_identifier=True,
        ),
        Reference(
            "encounter",
            ("encounter",),
            "Encounter of the report",
            CLINICAL + "encounter",
            targets=("Encounter", "EpisodeOfCare"),
        ),
        Reference(
            "performer",
            ("performer",),
            "Who is responsible for the report",
            REPORT + "performer",
            targets=PERFORMERS,
        ),
        Reference(
            "results-interpreter",
            ("resultsInterpreter",),
            "Who is responsible for its conclusions",
            REPORT + "results-interpreter",
            targets=PERFORMERS,
        ),
        Reference(
            "based-on",
            ("basedOn",),
            "The order of the report",
            REPORT + "based-on",
            targets=REQUESTS,
        ),
        Reference(
            "result",
            ("result",),
            "Observations that are part of the report",
            REPORT + "result",
            targets=("Observation",),
        ),
        Reference(
            "media",
            ("media.link",),
            "Key images of the report",
            REPORT + "media",
            targets=("Media",),
        ),
    )
)
