"""What Practitioner declares of itself."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.definition import Definition, Labels, Visibility
from fhirapp.fhir import terminology
from fhirapp.resources.practitioner.model import Practitioner
from fhirapp.resources.practitioner.params import PARAMS
from fhirapp.resources.practitioner.schema import PractitionerSchema
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Practitioner",
        model=Practitioner,
        schema=PractitionerSchema(),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-practitioner",),
        doc="Who wrote or recorded.",
        labels=Labels(
            one=Marked("a clinician"),
            plural=Marked("clinicians"),
            scope=Marked("names of clinicians"),
        ),
    ),
)
