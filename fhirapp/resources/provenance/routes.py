"""What Provenance declares of itself."""

from __future__ import annotations

from fhirapp.fhir import systems
from fhirapp.resources.provenance.model import Provenance
from fhirapp.resources.provenance.params import PARAMS
from fhirapp.resources.provenance.schema import ProvenanceSchema
from fhirapp.rest.blueprint import ResourceBlueprint
from fhirapp.store.definition import Definition, Visibility

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
        profiles=(systems.US_CORE + "StructureDefinition/us-core-provenance",),
        doc="Who made or sent a resource.",
    ),
)
