"""What AllergyIntolerance declares of itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fhirapp.clinical.summary import is_entered_in_error
from fhirapp.config import Marked
from fhirapp.db.versioned import versioned_table
from fhirapp.definition import Definition, Labels, TableColumn
from fhirapp.fhir import terminology
from fhirapp.resources.allergy_intolerance.operations import SUMMARY, summary
from fhirapp.resources.allergy_intolerance.params import PARAMS
from fhirapp.resources.allergy_intolerance.schema import AllergyIntoleranceSchema
from fhirapp.rest.blueprint import ResourceBlueprint


def remarks(resource: Mapping[str, Any]) -> Iterator[str]:
    """Yield what an import reports of an AllergyIntolerance that it takes all the same."""
    if is_entered_in_error(resource) and "clinicalStatus" in resource:
        yield (
            "is entered in error, but states a clinicalStatus (FHIR R4 ait-2); it is kept, and a"
            " search by clinical-status does not find it"
        )


blueprint = ResourceBlueprint(
    __name__,
    Definition(
        name="AllergyIntolerance",
        schema=AllergyIntoleranceSchema(),
        table=versioned_table(AllergyIntoleranceSchema),
        params=PARAMS,
        compartment="patient",
        rank=1,
        remarks=remarks,
        searchable=True,
        patient_or_id=True,
        provenance_alone=True,
        interactions=("read", "vread", "history-instance", "history-type"),
        combinations=("patient+clinical-status",),
        profiles=(terminology.US_CORE_ALLERGY,),
        operations=(SUMMARY,),
        doc="Allergies and intolerances of a patient.",
        labels=Labels(
            singular=Marked("an allergy"),
            plural=Marked("allergies and intolerances"),
            scope=Marked("allergies and intolerances"),
        ),
        featured=True,
        table_columns=(
            TableColumn(Marked("Patient"), ("patient",), Marked("patient not recorded")),
            TableColumn(
                Marked("Substance"),
                ("code", "reaction.substance"),
                Marked("substance not recorded"),
            ),
            TableColumn(Marked("Status"), ("clinicalStatus",), Marked("status not recorded")),
            TableColumn(
                Marked("Verification"),
                ("verificationStatus",),
                Marked("verification status not recorded"),
            ),
            TableColumn(
                Marked("Criticality"), ("criticality",), Marked("criticality not recorded")
            ),
            TableColumn(
                Marked("Severity"), ("reaction.severity",), Marked("severity not recorded")
            ),
            TableColumn(
                Marked("Since"),
                ("onsetDateTime", "onsetPeriod", "onsetAge", "onsetRange", "onsetString"),
                Marked("onset not recorded"),
            ),
            TableColumn(Marked("Recorded"), ("recordedDate",), Marked("date not recorded")),
        ),
    ),
    operations={SUMMARY.name: summary},
)
