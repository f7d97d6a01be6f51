"""Code systems that the server writes or binds to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

CT = "http://terminology.hl7.org/CodeSystem/"

ALLERGY_CLINICAL = CT + "allergyintolerance-clinical"
ALLERGY_VERIFICATION = CT + "allergyintolerance-verification"
DATA_ABSENT_REASON = "http://hl7.org/fhir/StructureDefinition/data-absent-reason"
DOCUMENT_CATEGORY = "http://hl7.org/fhir/us/core/CodeSystem/us-core-documentreference-category"
LOINC = "http://loinc.org"
# The category of advance directives in US Core 8.
ADVANCE_DIRECTIVES = "42348-3"
ORIGINAL_TEXT = "http://hl7.org/fhir/StructureDefinition/originalText"
NULL_FLAVOR = CT + "v3-NullFlavor"
# Of a reaction: how severe it was, in the words of a source that has no code for it.
SEVERITY_TEXT = "urn:fhirapp:severity-text"
OBSERVATION_VALUE = CT + "v3-ObservationValue"
RESTFUL_SECURITY = CT + "restful-security-service"
SNOMED_CT = "http://snomed.info/sct"
NO_KNOWN_DRUG_ALLERGY = "409137002"
# service.md 2.3: the manifestation of a reaction of which nothing more is known.
UNKNOWN_REACTION = "261665006"

US_CORE = "http://hl7.org/fhir/us/core/"
US_CORE_SERVER = US_CORE + "CapabilityStatement/us-core-server"
US_CORE_ALLERGY = US_CORE + "StructureDefinition/us-core-allergyintolerance"
US_CORE_DOCUMENT = US_CORE + "StructureDefinition/us-core-documentreference"
US_CORE_ADVANCE_DIRECTIVE = US_CORE + "StructureDefinition/us-core-adi-documentreference"
US_CORE_REPORT_NOTE = US_CORE + "StructureDefinition/us-core-diagnosticreport-note"
US_CORE_REPORT_LAB = US_CORE + "StructureDefinition/us-core-diagnosticreport-lab"
SMART_OAUTH_URIS = "http://fhir-registry.smarthealthit.org/StructureDefinition/oauth-uris"


def is_unknown(manifestation: Mapping[str, Any]) -> bool:
    """Say whether a manifestation only says that it is not known."""
    return not manifestation.get("text") and all(
        coding.get("system") == NULL_FLAVOR or coding.get("code") == UNKNOWN_REACTION
        for coding in manifestation.get("coding", ())
    )


# A dict is one at first sight.
_CONTAINERS = (list, dict, Mapping)


def strings(element: Any) -> Iterator[str]:
    """Yield every string in a resource, or a part of it."""
    if isinstance(element, str):
        yield element
    elif isinstance(element, _CONTAINERS):
        for value in element if isinstance(element, list) else element.values():
            if isinstance(value, str):
                yield value
            else:
                yield from strings(value)
