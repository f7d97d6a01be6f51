"""What Patient declares of itself."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn
from fhirapp.fhir import terminology
from fhirapp.resources.patient.match import MATCH, match
from fhirapp.resources.patient.operations import EVERYTHING, everything
from fhirapp.resources.patient.params import PARAMS
from fhirapp.resources.patient.schema import PatientSchema
from fhirapp.resources.patient.summary import SUMMARY, SUMMARY_BY_IDENTIFIER, summary
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Patient",
        schema=PatientSchema(),
        table=versioned_table(PatientSchema),
        params=PARAMS,
        compartment="id",
        searchable=True,
        combinations=(
            "birthdate+family",
            "birthdate+name",
            "death-date+family",
            "family+gender",
            "gender+name",
        ),
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-patient",),
        operations=(EVERYTHING, MATCH, SUMMARY, SUMMARY_BY_IDENTIFIER),
        doc="Patients: the subjects of the records.",
        labels=Labels(
            singular=Marked("personal details"),
            plural=Marked("patients"),
            scope=Marked("name, date of birth, address and other personal details"),
        ),
        table_columns=(
            TableColumn(Marked("Name"), ("name",), Marked("name not recorded")),
            TableColumn(Marked("Born"), ("birthDate",), Marked("birth date not recorded")),
            TableColumn(Marked("Sex"), ("gender",), Marked("sex not recorded")),
            TableColumn(Marked("Identifier"), ("identifier",), Marked("identifier not recorded")),
        ),
    ),
    operations={EVERYTHING.name: everything, MATCH.name: match, SUMMARY.name: summary},
)
