"""What DiagnosticReport declares of itself."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn, View
from fhirapp.fhir import terminology
from fhirapp.resources.diagnostic_report.params import PARAMS
from fhirapp.resources.diagnostic_report.schema import DiagnosticReportSchema
from fhirapp.resources.diagnostic_report.view import report_of
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="DiagnosticReport",
        schema=DiagnosticReportSchema(),
        table=versioned_table(DiagnosticReportSchema),
        params=PARAMS,
        compartment="subject",
        attachments="presentedForm",
        searchable=True,
        view=View("DocumentReference", report_of),
        combinations=(
            "patient+category",
            "patient+category+date",
            "patient+category+_lastUpdated",
            "patient+code",
            "patient+code+date",
            "patient+status",
        ),
        profiles=(terminology.US_CORE_REPORT_NOTE, terminology.US_CORE_REPORT_LAB),
        care=("date",),
        doc="Documents that are laboratory, imaging, cardiology, pathology or procedure reports: "
        "each has the id, the version and the attachments of its DocumentReference.",
        labels=Labels(
            singular=Marked("a report"),
            plural=Marked("reports"),
            scope=Marked("reports"),
            sensitive=True,
        ),
        table_columns=(
            TableColumn(Marked("Patient"), ("subject",), Marked("patient not recorded")),
            TableColumn(
                Marked("Date"),
                ("effectiveDateTime", "effectivePeriod", "issued"),
                Marked("date not recorded"),
            ),
            TableColumn(Marked("Type"), ("code",), Marked("type not recorded")),
            TableColumn(Marked("Category"), ("category",), Marked("category not recorded")),
            TableColumn(Marked("Author"), ("performer",), Marked("author not recorded")),
            TableColumn(Marked("Status"), ("status",), Marked("status not recorded")),
        ),
    ),
)
