"""The value sets that R4 and US Core bind as required and that no package carries.

Sources: FHIR R4 terminologies; VSAC, as US Core's pages show its value sets.
"""

from __future__ import annotations

from typing import Any

# What a value set holds: pairs of system and code. The system is None for an element that is only
# a code; the code is None where every code of the system is in it.
Codes = set[tuple[str | None, str | None]]


def codes(listed: str, system: str | None = None) -> Codes:
    """Return the codes of a value set from a list with spaces."""
    return {(system, code) for code in listed.split()}


_HL7 = "http://terminology.hl7.org/CodeSystem/"
_CDC = "urn:oid:2.16.840.1.113883.6.238"
_UNKNOWN = codes("ASKU UNK", _HL7 + "v3-NullFlavor")
_RACES = _UNKNOWN | codes("1002-5 2028-9 2054-5 2076-8 2106-3", _CDC)
_ETHNICITIES = _UNKNOWN | codes("2135-2 2186-5", _CDC)
_BIRTH_SEXES = codes("ASKU F M OTH UNK")

# By the end of their address.
VALUE_SETS = {
    "address-type": codes("postal physical both"),
    "address-use": codes("home work temp old billing"),
    "administrative-gender": codes("male female other unknown"),
    "allergy-intolerance-category": codes("food medication environment biologic"),
    "allergy-intolerance-criticality": codes("low high unable-to-assess"),
    "allergy-intolerance-type": codes("allergy intolerance"),
    "allergyintolerance-clinical": codes(
        "active inactive resolved", _HL7 + "allergyintolerance-clinical"
    ),
    "allergyintolerance-verification": codes(
        "unconfirmed confirmed refuted entered-in-error",
        _HL7 + "allergyintolerance-verification",
    ),
    "composition-status": codes("preliminary final amended entered-in-error"),
    "contact-point-system": codes("phone fax email pager url sms other"),
    "contact-point-use": codes("home work temp old mobile"),
    "diagnostic-report-status": codes(
        "registered partial preliminary final amended corrected appended cancelled "
        "entered-in-error unknown"
    ),
    "document-reference-status": codes("current superseded entered-in-error"),
    "document-relationship-type": codes("replaces transforms signs appends"),
    "encounter-location-status": codes("planned active reserved completed"),
    "encounter-status": codes(
        "planned arrived triaged in-progress onleave finished cancelled entered-in-error unknown"
    ),
    "identifier-use": codes("usual official temp secondary old"),
    "link-type": codes("replaced-by replaces refer seealso"),
    "name-use": codes("usual official temp nickname anonymous old maiden"),
    "narrative-status": codes("generated extensions additional empty"),
    "provenance-entity-role": codes("derivation revision quotation source removal"),
    "quantity-comparator": codes("< <= >= >"),
    "reaction-event-severity": codes("mild moderate severe"),
    # VSAC's, and those of 6.1.0 that are made of VSAC's
    "omb-race-category": _RACES,
    "2.16.840.1.113883.4.642.2.575": _RACES,
    "omb-ethnicity-category": _ETHNICITIES,
    "2.16.840.1.113883.4.642.40.2.48.3": _ETHNICITIES,
    "birthsex": _BIRTH_SEXES,
    "2.16.840.1.113762.1.4.1021.24": _BIRTH_SEXES,
}

# The value sets that are not looked into, each with its reason.
OUT_OF_REACH = {
    "2.16.840.1.113883.11.20.9.69.4": "categories of advance directives: in VSAC, by licence",
    "mimetypes": "BCP 13 is no list",
    "2.16.840.1.113762.1.4.1240.3": "sex of 6.1.0: in VSAC, by licence",
    "2.16.840.1.113762.1.4.1267.16": "whether an interpreter is needed: in VSAC, by licence",
    "detailed-race": "hundreds of codes, in VSAC",
    "2.16.840.1.113762.1.4.1267.25": "detailed races: hundreds of codes, in VSAC",
    "detailed-ethnicity": "hundreds of codes, in VSAC",
    "2.16.840.1.113883.4.642.40.2.48.1": "detailed ethnicities: hundreds of codes, in VSAC",
}

# What R4 binds in its datatypes; what it binds in resources, the snapshots repeat.
DATATYPES = {
    "Address.type": "address-type",
    "Address.use": "address-use",
    "ContactPoint.system": "contact-point-system",
    "ContactPoint.use": "contact-point-use",
    "HumanName.use": "name-use",
    "Identifier.use": "identifier-use",
    "Narrative.status": "narrative-status",
    "Quantity.comparator": "quantity-comparator",
}


def is_coded(value: Any, codes: Codes) -> bool:
    """Tell whether a code, a Coding, or a coding of a CodeableConcept is one of these."""
    if not isinstance(value, dict):
        return (None, value) in codes
    codings = value.get("coding", [value])
    return any(
        {(one.get("system"), one.get("code")), (one.get("system"), None)} & codes for one in codings
    )
