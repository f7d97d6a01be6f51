"""Patient and Practitioner of DSTU2 and STU3, brought to R4.

Source: HL7's maps, Patient2to3, Patient3to4 and Practitioner2to3. The last makes a PractitionerRole
of each role, which is not stored here.
"""

from __future__ import annotations

from typing import Any

from fhirapp.exchange.repair.log import Log, listed

_ANIMAL = "http://hl7.org/fhir/StructureDefinition/patient-animal"
_ROLE = "http://hl7.org/fhir/1.0/StructureDefinition/extension-Practitioner.practitionerRole"
_CONCEPT, _REFERENCE = "valueCodeableConcept", "valueReference"


def patient(log: Log, resource: dict[str, Any]) -> None:
    """Give a Patient's older fields R4's names, codes and places."""
    log.rename(resource, "careProvider", "generalPractitioner")
    log.nest(
        resource,
        "animal",
        _ANIMAL,
        {"species": _CONCEPT, "breed": _CONCEPT, "genderStatus": _CONCEPT},
    )
    for place, link in enumerate(listed(resource.get("link"))):
        # DSTU2's "replace" says that the other record is to be used instead.
        if type(link) is dict and type(link.get("type")) is str:
            before = link["type"]
            if before.strip() == "replace":
                link["type"] = "replaced-by"
                log.did(f"link[{place}].type", "code", before, "replaced-by")


def practitioner(log: Log, resource: dict[str, Any]) -> None:
    """Keep the roles that DSTU2 has in a Practitioner."""
    log.nest(
        resource,
        "practitionerRole",
        _ROLE,
        {
            "managingOrganization": _REFERENCE,
            "role": _CONCEPT,
            "specialty": _CONCEPT,
            "period": "valuePeriod",
            "location": _REFERENCE,
            "healthcareService": _REFERENCE,
        },
    )
