"""The search parameters of Group. Source: FHIR R4.

Of R4's, `characteristic-value` is not here.
"""

from __future__ import annotations

from fhirapp.search.parameter import Parameters
from fhirapp.search.query import COMMON
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token

GROUP = "http://hl7.org/fhir/SearchParameter/Group-"

_SPECIAL_VALUES = "http://terminology.hl7.org/CodeSystem/special-values"

PARAMS = Parameters(
    (
        *COMMON,
        Token(
            "identifier",
            ("identifier",),
            "Identifier of the group",
            GROUP + "identifier",
            of_identifier=True,
        ),
        Reference(
            "member",
            ("member.entity",),
            "Who or what is a member",
            GROUP + "member",
            targets=(
                "Patient",
                "Practitioner",
                "PractitionerRole",
                "Device",
                "Medication",
                "Substance",
                "Group",
            ),
        ),
        Token(
            "type",
            ("type",),
            "person, animal, practitioner, device, medication or substance",
            GROUP + "type",
            system="http://hl7.org/fhir/group-type",
        ),
        Token(
            "actual",
            ("actual",),
            "Whether the members are listed, not described alone",
            GROUP + "actual",
            system=_SPECIAL_VALUES,
        ),
        Token("code", ("code",), "What the members have in common", GROUP + "code"),
        Reference(
            "managing-entity",
            ("managingEntity",),
            "Who is responsible for the group",
            GROUP + "managing-entity",
            targets=("Organization", "RelatedPerson", "Practitioner", "PractitionerRole"),
        ),
        Token(
            "characteristic",
            ("characteristic.code",),
            "What is told of the members",
            GROUP + "characteristic",
        ),
        Token(
            "value",
            ("characteristic.valueCodeableConcept", "characteristic.valueBoolean"),
            "What holds of the members, a code or true or false",
            GROUP + "value",
            system=_SPECIAL_VALUES,
        ),
        Token(
            "exclude",
            ("characteristic.exclude",),
            "Whether who has a characteristic is left out",
            GROUP + "exclude",
            system=_SPECIAL_VALUES,
        ),
    )
)
