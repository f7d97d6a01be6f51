"""What Encounter declares of itself."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.definition import Definition, Labels
from fhirapp.fhir import terminology
from fhirapp.resources.encounter.model import Encounter
from fhirapp.resources.encounter.params import PARAMS
from fhirapp.resources.encounter.schema import EncounterSchema
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Encounter",
        model=Encounter,
        schema=EncounterSchema(),
        params=PARAMS,
        compartment="subject",
        searchable=True,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-encounter",),
        care=("date",),
        doc="Visits and stays of a patient.",
        labels=Labels(
            one=Marked("a visit"),
            plural=Marked("visits"),
            scope=Marked("visits"),
        ),
    ),
)
