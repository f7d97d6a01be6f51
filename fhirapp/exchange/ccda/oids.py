"""What the OIDs of a clinical document are called in FHIR.

Sources: FHIR R4 terminologies-systems and namingsystem-registry; HL7 Terminology.
"""

from __future__ import annotations

import re

from fhirapp.fhir.systems import CT

_OID = re.compile(r"[0-2](\.(0|[1-9][0-9]*))+", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_HL7 = "2.16.840.1.113883."

RFC_3986 = "urn:ietf:rfc:3986"
LOINC = "http://loinc.org"
SSN = "http://hl7.org/fhir/sid/us-ssn"
NPI = "http://hl7.org/fhir/sid/us-npi"
ACT_CODE = CT + "v3-ActCode"
CONFIDENTIALITY = CT + "v3-Confidentiality"
RACE = f"urn:oid:{_HL7}6.238"

_CODE_SYSTEMS = {
    "6.1": LOINC,
    "6.96": "http://snomed.info/sct",
    "6.88": "http://www.nlm.nih.gov/research/umls/rxnorm",
    "6.209": "http://hl7.org/fhir/ndfrt",
    "6.345": "http://va.gov/terminology/medrt",
    "4.9": "http://fdasis.nlm.nih.gov",
    "6.69": "http://hl7.org/fhir/sid/ndc",
    "12.292": "http://hl7.org/fhir/sid/cvx",
    "6.103": "http://hl7.org/fhir/sid/icd-9-cm",
    "6.3": "http://hl7.org/fhir/sid/icd-10",
    "6.90": "http://hl7.org/fhir/sid/icd-10-cm",
    "6.4": "http://www.cms.gov/Medicare/Coding/ICD10",
    "6.12": "http://www.ama-assn.org/go/cpt",
    "6.8": "http://unitsofmeasure.org",
    "6.101": "http://nucc.org/provider-taxonomy",
    "6.121": "urn:ietf:bcp:47",
    "6.301.5": "http://www.nubc.org/patient-discharge",
    "3.26.1.1": "http://ncicb.nci.nih.gov/xml/owl/EVS/Thesaurus.owl",
    "3.26.1.2": "http://ncimeta.nci.nih.gov",
    "5.1": CT + "v3-AdministrativeGender",
    "5.2": CT + "v3-MaritalStatus",
    "5.4": ACT_CODE,
    "5.6": CT + "v3-ActClass",
    "5.7": CT + "v3-ActPriority",
    "5.14": CT + "v3-ActStatus",
    "5.25": CONFIDENTIALITY,
    "5.88": CT + "v3-ParticipationFunction",
    "5.90": CT + "v3-ParticipationType",
    "5.110": CT + "v3-RoleClass",
    "5.111": CT + "v3-RoleCode",
    "5.112": CT + "v3-RouteOfAdministration",
    "5.1008": CT + "v3-NullFlavor",
    "5.1063": CT + "v3-ObservationValue",
    "5.1076": CT + "v3-ReligiousAffiliation",
    "12.112": CT + "v2-0112",
}

_IDENTIFIER_SYSTEMS = {
    "4.1": SSN,
    "4.6": NPI,
    "4.572": "http://hl7.org/fhir/sid/us-medicare",
    "4.927": "http://hl7.org/fhir/sid/us-mbi",
}
# Registries whose own OID, alone, identifies nobody: here a number always has to follow.
_REGISTRIES = frozenset({*_IDENTIFIER_SYSTEMS, "4.2", "4.3", "4.4", "4.7", "4.814", "6.300"})
# An extension under this root is an address of its own (THO, NamingSystem-uri).
URI_ROOT = _HL7 + "4.873"


def code_system(oid: str) -> str:
    """Return FHIR's address of a code system; `urn:oid:…` where it has none."""
    return _CODE_SYSTEMS.get(_short(oid)) or urn(oid)


def identifier_system(oid: str) -> str:
    """Return FHIR's address of who assigns identifiers; `urn:oid:…` where it has none."""
    return _IDENTIFIER_SYSTEMS.get(_short(oid)) or urn(oid)


def is_registry(oid: str) -> bool:
    """Say whether it is of a registry, which without a number means nobody in particular."""
    return _short(oid) in _REGISTRIES


def urn(root: str) -> str:
    """Return an OID or UUID as a URI; "" where it is neither.

    CDA R2 data types §2.15.1 (II.root): also in capitals, which FHIR does not write.
    """
    if _OID.fullmatch(root):
        return f"urn:oid:{root}"
    return f"urn:uuid:{root.lower()}" if _UUID.fullmatch(root) else ""


def _short(oid: str) -> str:
    return oid.removeprefix(_HL7) if oid.startswith(_HL7) else ""
