"""The search parameters of Provenance. Source: FHIR R4; US Core has none of its own."""

from __future__ import annotations

from fhirapp.search.date import Date
from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token

PROVENANCE = "http://hl7.org/fhir/SearchParameter/Provenance-"

PARAMS = Parameters(
    (
        *COMMON,
        Reference(
            "target",
            ("target",),
            "The resources that this says the origin of",
            PROVENANCE + "target",
        ),
        # R4: target.where(resolve() is Patient), and not the patient of any other target.
        Reference(
            "patient",
            ("target",),
            "The patient whose own Patient resource is a target",
            PROVENANCE + "patient",
            targets=("Patient",),
        ),
        Reference(
            "agent",
            ("agent.who",),
            "Who took part",
            PROVENANCE + "agent",
            targets=(
                "Practitioner",
                "PractitionerRole",
                "RelatedPerson",
                "Patient",
                "Device",
                "Organization",
            ),
        ),
        Token("agent-role", ("agent.role",), "Role of who took part", PROVENANCE + "agent-role"),
        Token(
            "agent-type",
            ("agent.type",),
            "How they took part: author, transmitter …",
            PROVENANCE + "agent-type",
        ),
        Date("recorded", ("recorded",), "When this was recorded", PROVENANCE + "recorded"),
        Date("when", ("occurredDateTime",), "When the activity took place", PROVENANCE + "when"),
        Reference(
            "entity", ("entity.what",), "What the targets were made from", PROVENANCE + "entity"
        ),
        Reference(
            "location",
            ("location",),
            "Where the activity took place",
            PROVENANCE + "location",
            targets=("Location",),
        ),
        Token(
            "signature-type",
            ("signature.type",),
            "Why the targets were signed",
            PROVENANCE + "signature-type",
        ),
    )
)
