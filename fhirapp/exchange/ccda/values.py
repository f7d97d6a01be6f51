"""The datatypes of a clinical document as those of FHIR: codes, identifiers, and what is not known.

Sources: CDA R2 data types; HL7 C-CDA on FHIR 2.0.0, mapping guidance and its concept maps.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from fhirapp.exchange.ccda.oids import (
    RFC_3986,
    URI_ROOT,
    code_system,
    identifier_system,
    is_registry,
    urn,
)
from fhirapp.exchange.ccda.texts import Texts, tidy
from fhirapp.exchange.ccda.tree import Element
from fhirapp.fhir.systems import DATA_ABSENT_REASON, NULL_FLAVOR, ORIGINAL_TEXT

# v3-NullFlavor: its display, and the data-absent-reason that it is (ConceptMap
# CF-NullFlavorDataAbsentReason).
_NULL_FLAVORS = {
    "NI": ("NoInformation", "unknown"),
    "INV": ("invalid", "error"),
    "OTH": ("other", "unsupported"),
    "NINF": ("negative infinity", "negative-infinity"),
    "PINF": ("positive infinity", "positive-infinity"),
    "UNC": ("un-encoded", "as-text"),
    "DER": ("derived", "unsupported"),
    "MSK": ("masked", "masked"),
    "NA": ("not applicable", "not-applicable"),
    "UNK": ("unknown", "unknown"),
    "ASKU": ("asked but unknown", "asked-unknown"),
    "NAV": ("temporarily unavailable", "temp-unknown"),
    "NASK": ("not asked", "not-asked"),
    "NAVU": ("Not available", "unknown"),
    "QS": ("Sufficient Quantity", "unsupported"),
    "TRC": ("trace", "unsupported"),
    "NP": ("not present", "unknown"),
}
_NO_CODE = re.compile(r"[\x00-\x20\x7f]+")


def absent(null_flavor: str = "") -> dict[str, Any]:
    """Return the extension that says why something is absent; of no reason, that it is unknown."""
    reason = _NULL_FLAVORS.get(null_flavor, ("", "unknown"))[1]
    return {"url": DATA_ABSENT_REASON, "valueCode": reason}


def original(written: str) -> dict[str, Any]:
    """Return the extension that keeps what was written where FHIR has no form for it."""
    return {"url": ORIGINAL_TEXT, "valueString": written}


def extended(*extensions: dict[str, Any]) -> dict[str, Any]:
    """Return what holds nothing but extensions."""
    return {"extension": list(extensions)}


def null_coding(null_flavor: str) -> dict[str, Any] | None:
    """Return a nullFlavor as a Coding, None for what is none."""
    if null_flavor not in _NULL_FLAVORS:
        return None
    coding = {"system": NULL_FLAVOR, "code": null_flavor, "display": _NULL_FLAVORS[null_flavor][0]}
    # As the service itself writes it: service.md 2.3.
    return {**coding, "userSelected": False} if null_flavor == "NI" else coding


def code_in(element: Element | None) -> str:
    """Return the code that stands in an element, as FHIR writes codes; "" where there is none."""
    return _NO_CODE.sub(" ", element.get("code")).strip() if element is not None else ""


def coding(element: Element) -> dict[str, Any] | None:
    """Return a code with its system, None where there is no code."""
    code = code_in(element)
    if not code:
        return None
    found = {
        "system": code_system(element.get("codeSystem")),
        "version": tidy(element.get("codeSystemVersion")),
        "code": code,
        "display": tidy(element.get("displayName")),
    }
    return {name: value for name, value in found.items() if value}


def codings(element: Element) -> list[dict[str, Any]]:
    """Return a code, its translations, and a nullFlavor in its place, in this order."""
    found = [coding(one) for one in (element, *element.all("translation"))]
    found.append(null_coding(element.null_flavor))
    unique: list[dict[str, Any]] = []
    for one in found:
        if one is not None and one not in unique:
            unique.append(one)
    return unique


def concept(element: Element | None, texts: Texts) -> dict[str, Any] | None:
    """Return a CD, CE or CV as a CodeableConcept, None where it says nothing."""
    if element is None:
        return None
    found: dict[str, Any] = {}
    if listed := codings(element):
        found["coding"] = listed
    if text := texts.of(element.first("originalText")):
        found["text"] = text
    return found or None


def has_code(element: Element | None, *codes: str) -> bool:
    """Say whether an element's code, or a translation of it, is one of these."""
    if element is None:
        return False
    return any(one.get("code") in codes for one in (element, *element.all("translation")))


def is_negated(statement: Element | None) -> bool:
    """Say whether a statement says that something is not so."""
    return statement is not None and statement.get("negationInd") in ("true", "1")


def identifier(element: Element) -> dict[str, Any] | None:
    """Return an II as an Identifier, None where it identifies nothing.

    C-CDA on FHIR, "CDA id → FHIR Identifier": a root alone is an identifier of its own, save that
    of a registry.
    """
    root, extension = element.get("root"), element.get("extension")
    found = _identified(root, extension, element.null_flavor)
    if found and (name := tidy(element.get("assigningAuthorityName"))):
        found["assigner"] = {"display": name}
    return found


def _identified(root: str, extension: str, null_flavor: str) -> dict[str, Any] | None:
    unknown = extended(absent(null_flavor))
    if not root:
        return {"_system": unknown, "value": extension} if extension else None
    system = identifier_system(root) or f"urn:hl7ii:{quote(root, safe='')}"
    if null_flavor or (not extension and is_registry(root)):
        return {"system": system, "_value": unknown}
    if not extension:
        return {"system": RFC_3986, "value": urn(root) or system}
    if root == URI_ROOT:
        separator = "/" if "://" in extension else ":"
        namespace, found, value = extension.rpartition(separator)
        if found and value and namespace and not namespace.endswith("/"):
            return {"system": "".join(namespace.split()), "value": value}
        return {"system": RFC_3986, "value": extension}
    return {"system": system, "value": extension}


def key(identified: dict[str, Any]) -> tuple[str, str] | None:
    """Return the system and the value of an Identifier that has both."""
    system, value = identified.get("system"), identified.get("value")
    return (system, value) if system and value else None


def identifiers(elements: list[Element]) -> list[dict[str, Any]]:
    """Return the Identifiers of these, each once."""
    unique: list[dict[str, Any]] = []
    for element in elements:
        found = identifier(element)
        if found and found not in unique:
            unique.append(found)
    return unique
