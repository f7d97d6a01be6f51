"""What Group declares of itself."""

from __future__ import annotations

from fhirapp.config import Marked
from fhirapp.definition import Definition, Labels
from fhirapp.resources.group.model import Group
from fhirapp.resources.group.params import PARAMS
from fhirapp.resources.group.schema import GroupSchema
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="Group",
        model=Group,
        schema=GroupSchema(),
        params=PARAMS,
        # Its members, and who manages it, come first.
        rank=1,
        searchable=True,
        doc="Patients who are taken together, as for an export.",
        labels=Labels(
            one=Marked("a list of patients"),
            plural=Marked("lists of patients"),
            scope=Marked("lists of patients"),
        ),
    ),
)
