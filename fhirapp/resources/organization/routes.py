"""What Organization declares of itself."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.definition import Definition, Labels, Visibility
from fhirapp.fhir import terminology
from fhirapp.resources.organization.model import Organization
from fhirapp.resources.organization.params import PARAMS
from fhirapp.resources.organization.schema import OrganizationSchema
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Organization",
        model=Organization,
        schema=OrganizationSchema(),
        params=PARAMS,
        searchable=True,
        visibility=Visibility.ANY_SCOPE,
        profiles=(terminology.US_CORE + "StructureDefinition/us-core-organization",),
        doc="Who keeps or sends records.",
        labels=Labels(
            one=Marked("a clinic or hospital"),
            plural=Marked("clinics and hospitals"),
            scope=Marked("clinics and hospitals"),
        ),
    ),
)
