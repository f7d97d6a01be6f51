"""What Provenance declares of itself."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.definition import Definition, Labels, Visibility
from fhirapp.fhir import terminology
from fhirapp.resources.provenance.model import Provenance
from fhirapp.resources.provenance.params import PARAMS
from fhirapp.resources.provenance.schema import ProvenanceSchema
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Provenance",
        model=Provenance,
        schema=ProvenanceSchema(),
        params=PARAMS,
        rank=2,
        searchable=True,
        visibility=Visibility.TARGETS,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-provenance",),
        doc="Who made or sent a resource.",
        labels=Labels(
            one=Marked("a record of who made or sent a resource"),
            plural=Marked("records of who made or sent a resource"),
            scope=Marked("who recorded what, and when"),
        ),
    ),
)
