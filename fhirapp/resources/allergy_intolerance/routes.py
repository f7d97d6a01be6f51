"""What AllergyIntolerance declares of itself."""

from __future__ import annotations

from fhirapp.definition import Definition
from fhirapp.fhir import terminology
from fhirapp.resources.allergy_intolerance.model import AllergyIntolerance
from fhirapp.resources.allergy_intolerance.operations import SUMMARY, summary
from fhirapp.resources.allergy_intolerance.params import PARAMS
from fhirapp.resources.allergy_intolerance.schema import AllergyIntoleranceSchema
from fhirapp.rest.blueprint import ResourceBlueprint

blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="AllergyIntolerance",
        model=AllergyIntolerance,
        schema=AllergyIntoleranceSchema(),
        params=PARAMS,
        compartment="patient",
        rank=1,
        searchable=True,
        patient_or_id=True,
        interactions=("read", "vread", "history-instance", "history-type"),
        profiles=(terminology.US_CORE_ALLERGY,),
        operations=(SUMMARY,),
        doc="Allergies and intolerances of a patient.",
    ),
    operations={SUMMARY.name: summary},
)
