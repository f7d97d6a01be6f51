"""The search parameters of Encounter. Source: FHIR R4; US Core (`discharge-disposition`).

An import resolves conditional references by them. Of R4's, `length` (a quantity) is not here.
"""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token

SPEC = "http://hl7.org/fhir/SearchParameter/"
ENCOUNTER = SPEC + "Encounter-"
CLINICAL = SPEC + "clinical-"

PARAMS = Parameters(
    (
        *COMMON,
        Reference(
            "patient",
            ("subject",),
            "The patient who came or stayed",
            CLINICAL + "patient",
            targets=("Patient",),
            compartment=True,
        ),
        Reference(
            "subject",
            ("subject",),
            "The patient or group present",
            ENCOUNTER + "subject",
            targets=("Patient", "Group"),
            compartment=True,
        ),
        Date("date", ("period",), "When the encounter took place", CLINICAL + "date"),
        Token(
            "status",
            ("status",),
            "planned, arrived, triaged, in-progress, onleave, finished, cancelled …",
            ENCOUNTER + "status",
            system="http://hl7.org/fhir/encounter-status",
        ),
        Token("class", ("class",), "Inpatient, outpatient, emergency …", ENCOUNTER + "class"),
        Token("type", ("type",), "Kind of encounter", CLINICAL + "type"),
        Token(
            "identifier",
            ("identifier",),
            "Identifier of the encounter",
            CLINICAL + "identifier",
            of_identifier=True,
        ),
        Token(
            "discharge-disposition",
            ("hospitalization.dischargeDisposition",),
            "Where the patient went afterwards",
            "http://hl7.org/fhir/us/core/SearchParameter/us-core-encounter-discharge-disposition",
        ),
        Token(
            "special-arrangement",
            ("hospitalization.specialArrangement",),
            "Wheelchair, translator, stretcher …",
            ENCOUNTER + "special-arrangement",
        ),
        Token("reason-code", ("reasonCode",), "Why it took place", ENCOUNTER + "reason-code"),
        Reference(
            "reason-reference",
            ("reasonReference",),
            "Condition or other record that is the reason",
            ENCOUNTER + "reason-reference",
            targets=("Condition", "Procedure", "Observation", "ImmunizationRecommendation"),
        ),
        Reference(
            "diagnosis",
            ("diagnosis.condition",),
            "Diagnosis or procedure of the encounter",
            ENCOUNTER + "diagnosis",
            targets=("Condition", "Procedure"),
        ),
        Reference(
            "location",
            ("location.location",),
            "Place of the encounter",
            ENCOUNTER + "location",
            targets=("Location",),
        ),
        Date(
            "location-period",
            ("location.period",),
            "When the patient was at a place",
            ENCOUNTER + "location-period",
        ),
        Reference(
            "participant",
            ("participant.individual",),
            "Who took part beside the patient",
            ENCOUNTER + "participant",
            targets=("Practitioner", "PractitionerRole", "RelatedPerson"),
        ),
        Reference(
            "practitioner",
            ("participant.individual",),
            "Practitioner who took part",
            ENCOUNTER + "practitioner",
            targets=("Practitioner",),
        ),
        Token(
            "participant-type",
            ("participant.type",),
            "Role of who took part",
            ENCOUNTER + "participant-type",
        ),
        Reference(
            "service-provider",
            ("serviceProvider",),
            "Organization that provided it",
            ENCOUNTER + "service-provider",
            targets=("Organization",),
        ),
        Reference(
            "part-of",
            ("partOf",),
            "Encounter that this one is part of",
            ENCOUNTER + "part-of",
            targets=("Encounter",),
        ),
        Reference(
            "episode-of-care",
            ("episodeOfCare",),
            "Episode of care that it belongs to",
            ENCOUNTER + "episode-of-care",
            targets=("EpisodeOfCare",),
        ),
        Reference(
            "based-on",
            ("basedOn",),
            "Request that led to it",
            ENCOUNTER + "based-on",
            targets=("ServiceRequest",),
        ),
        Reference(
            "appointment",
            ("appointment",),
            "Appointment that led to it",
            ENCOUNTER + "appointment",
            targets=("Appointment",),
        ),
        Reference(
            "account",
            ("account",),
            "Account that it is billed to",
            ENCOUNTER + "account",
            targets=("Account",),
        ),
    )
)
