"""The FHIR JSON of AllergyIntolerance. Source: FHIR R4 allergyintolerance; service.md 2.3."""

from __future__ import annotations

from typing import Any

from marshmallow import missing

from fhirapp.fhir import datatypes, fields, narrative, terminology
from fhirapp.fhir.elements import many
from fhirapp.fhir.resource import DomainResourceSchema

Reaction = datatypes.backbone(
    required=("manifestation",),
    substance=datatypes.CodeableConcept,
    manifestation=many(datatypes.CodeableConcept),
    description=datatypes.string,
    onset=datatypes.date_time,
    severity=datatypes.one_of("mild", "moderate", "severe"),
    exposureRoute=datatypes.CodeableConcept,
    note=many(datatypes.Annotation),
)


class CriticalityElement(fields.Element):
    """AllergyIntolerance.criticality: of "no known drug allergy" it cannot be assessed.

    service.md 2.3; decisions 2.19.
    """

    def serialize(self, attr: str, obj: fields.Source, *_: Any, **_options: Any) -> Any:  # noqa: ARG002
        if "criticality" in obj.elements:
            return obj.elements["criticality"]
        codings = (obj.elements.get("code") or {}).get("coding", ())
        is_nkda = any(
            coding.get("system") == terminology.SNOMED_CT
            and coding.get("code") == terminology.NO_KNOWN_DRUG_ALLERGY
            for coding in codings
        )
        return "unable-to-assess" if is_nkda else missing


# Of an entry without a code. service.md 2.3; decisions 2.19: NI never means "no allergy".
_NO_INFORMATION = {
    "coding": [
        {
            "system": terminology.NULL_FLAVOR,
            "code": "NI",
            "display": "NoInformation",
            "userSelected": False,
        }
    ],
    "text": "No information",
}


class AllergyIntoleranceSchema(DomainResourceSchema):
    """AllergyIntolerance."""

    resource_type = "AllergyIntolerance"
    narrative = (
        ("Substance", "code", narrative.concept),
        ("Status", "clinicalStatus", narrative.concept),
        ("Verification", "verificationStatus", narrative.concept),
        ("Criticality", "criticality", narrative.plain),
        ("Reaction", "reaction", narrative.reactions),
        ("Onset", "onsetDateTime", narrative.plain),
        ("Onset", "onsetPeriod", narrative.period),
        ("Recorded", "recordedDate", narrative.plain),
        ("Recorder", "recorder", narrative.reference),
    )

    identifier = fields.List(fields.Identifier, summary=True)
    clinical_status = fields.Element(
        datatypes.bound_to(terminology.ALLERGY_CLINICAL, "active", "inactive", "resolved"),
        summary=True,
        modifier=True,
    )
    verification_status = fields.Element(
        datatypes.bound_to(
            terminology.ALLERGY_VERIFICATION,
            *("unconfirmed", "confirmed", "refuted", "entered-in-error"),
        ),
        summary=True,
        modifier=True,
    )
    type = fields.Code("allergy", "intolerance", summary=True)
    category = fields.List(
        datatypes.one_of("food", "medication", "environment", "biologic"), summary=True
    )
    criticality = CriticalityElement(
        datatypes.one_of("low", "high", "unable-to-assess"), summary=True
    )
    code = fields.CodeableConcept(summary=True, dump_default=_NO_INFORMATION)
    patient = fields.Reference(required=True, summary=True)
    encounter = fields.Reference()
    onset_date_time = fields.DateTime(choice="onset")
    onset_age = fields.Quantity(choice="onset", column=False)
    onset_period = fields.Period(choice="onset")
    onset_range = fields.Range(choice="onset", column=False)
    onset_string = fields.String(choice="onset", column=False)
    recorded_date = fields.DateTime()
    recorder = fields.Reference()
    asserter = fields.Reference(summary=True)
    last_occurrence = fields.DateTime()
    note = fields.List(fields.Annotation)
    reaction = fields.List(Reaction)
