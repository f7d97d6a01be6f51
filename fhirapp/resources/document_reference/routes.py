"""What DocumentReference declares of itself."""

from __future__ import annotations

from sqlalchemy import Column

from fhirapp.config import Marked
from fhirapp.db import Json
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn
from fhirapp.fhir import terminology
from fhirapp.resources.document_reference.operations import DOCREF, docref
from fhirapp.resources.document_reference.params import PARAMS
from fhirapp.resources.document_reference.schema import DocumentReferenceSchema
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="DocumentReference",
        schema=DocumentReferenceSchema(),
        table=versioned_table(
            DocumentReferenceSchema,
            # The row of the Binary that each attachment pointed to, by Binary id.
            Column("attached", Json),
        ),
        params=PARAMS,
        compartment="subject",
        attachments="content.attachment",
        rank=1,
        searchable=True,
        patient_or_id=True,
        provenance_alone=True,
        interactions=("read", "vread", "history-instance", "history-type"),
        # service.md 1 names the two DiagnosticReport profiles for this type; decisions 2.13
        combinations=(
            "patient+category",
            "patient+category+date",
            "patient+status",
            "patient+type",
            "patient+type+period",
        ),
        profiles=(
            terminology.US_CORE_DOCUMENT,
            terminology.US_CORE_REPORT_NOTE,
            terminology.US_CORE_REPORT_LAB,
            terminology.US_CORE_ADVANCE_DIRECTIVE,
        ),
        operations=(DOCREF,),
        care=("period", "date"),
        doc="Clinical notes and documents of a patient.",
        labels=Labels(
            singular=Marked("a note or document"),
            plural=Marked("notes and documents"),
            scope=Marked("clinical notes and documents"),
            sensitive=True,
        ),
        featured=True,
        table_columns=(
            TableColumn(Marked("Patient"), ("subject",), Marked("patient not recorded")),
            TableColumn(Marked("Date"), ("date",), Marked("date not recorded")),
            TableColumn(Marked("Type"), ("type",), Marked("type not recorded")),
            TableColumn(
                Marked("Title"),
                ("description", "content.attachment.title"),
                Marked("title not recorded"),
            ),
            TableColumn(Marked("Author"), ("author",), Marked("author not recorded")),
            TableColumn(Marked("Status"), ("status",), Marked("status not recorded")),
            TableColumn(
                Marked("Document status"), ("docStatus",), Marked("document status not recorded")
            ),
        ),
    ),
    operations={DOCREF.name: docref},
)
