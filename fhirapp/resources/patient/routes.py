"""What Patient declares of itself."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.definition import Definition, Labels
from fhirapp.fhir import terminology
from fhirapp.resources.patient.model import Patient
from fhirapp.resources.patient.operations import EVERYTHING, everything
from fhirapp.resources.patient.params import PARAMS
from fhirapp.resources.patient.schema import PatientSchema
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Patient",
        model=Patient,
        schema=PatientSchema(),
        params=PARAMS,
        compartment="id",
        searchable=True,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-patient",),
        operations=(EVERYTHING,),
        doc="Whom the records are about.",
        labels=Labels(
            one=Marked("personal details"),
            plural=Marked("patients"),
            scope=Marked("name, date of birth, address and other personal details"),
        ),
    ),
    operations={EVERYTHING.name: everything},
)
