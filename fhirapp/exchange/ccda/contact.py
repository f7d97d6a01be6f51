"""Names, addresses and numbers of people and organizations.

Sources: CDA R2 data types §2.17 to §2.20 (AD, EN, TEL); HL7 C-CDA on FHIR 2.0.0, mapping guidance
and the concept maps CF-NameUse, CF-AddressUse, CF-TelecomUse, CF-TelecomType.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

from fhirapp.exchange.ccda import times
from fhirapp.exchange.ccda.texts import plain
from fhirapp.exchange.ccda.tree import Element

_NAME_USES = {"A": "nickname", "C": "official", "L": "usual", "P": "anonymous"}
_ADDRESS_USES = {
    "BAD": "old",
    "H": "home",
    "HP": "home",
    "HV": "home",
    "TMP": "temp",
    "WP": "work",
    "DIR": "work",
    "PUB": "work",
}
_TELECOM_USES = {**_ADDRESS_USES, "AS": "work", "MC": "mobile"}
_SCHEMES = {
    "tel": "phone",
    "fax": "fax",
    "mailto": "email",
    "http": "url",
    "https": "url",
    "sms": "sms",
}
_NUMBER = re.compile(r"[+(]?\d[\d\s().x*#/-]*")
_PARTS = {
    "city": "city",
    "county": "district",
    "state": "state",
    "postalCode": "postalCode",
    "country": "country",
}
_LINES = ("streetAddressLine", "streetName", "houseNumber", "additionalLocator", "unitID")


def names(elements: list[Element]) -> list[dict[str, Any]]:
    """Return the names that say something."""
    return [found for one in elements if (found := _name(one))]


def _name(element: Element) -> dict[str, Any]:
    if element.null_flavor:
        return {}
    found: dict[str, Any] = {}
    if use := _used(element, _NAME_USES):
        found["use"] = use
    given = element.all("given")
    if use == "anonymous" and any("CL" in one.get("qualifier").split() for one in given):
        found["use"] = "nickname"
    if family := " ".join(_texts(element.all("family"))):
        found["family"] = family
    for name in ("given", "prefix", "suffix"):
        if written := _texts(element.all(name)):
            found[name] = written
    if not ("family" in found or "given" in found):
        text = plain(element)
        if not text:
            return {}
        found = {**{name: value for name, value in found.items() if name == "use"}, "text": text}
    if period := times.period(element.first("validTime")):
        found["period"] = period
    return found


def addresses(elements: list[Element]) -> list[dict[str, Any]]:
    """Return the addresses that say something."""
    return [found for one in elements if (found := _address(one))]


def _address(element: Element) -> dict[str, Any]:
    if element.null_flavor:
        return {}
    found: dict[str, Any] = {}
    if lines := _texts([one for one in element.elements if one.name in _LINES]):
        found["line"] = lines
    for name, called in _PARTS.items():
        if written := " ".join(_texts(element.all(name))):
            found[called] = written
    if not found:
        if not (text := plain(element)):
            return {}
        found["text"] = text
    if use := _used(element, _ADDRESS_USES):
        found = {"use": use, **found}
    if period := times.period(element.first("useablePeriod")):
        found["period"] = period
    return found


def telecoms(elements: list[Element]) -> list[dict[str, Any]]:
    """Return the numbers and addresses that say something, each once."""
    unique: list[dict[str, Any]] = []
    for element in elements:
        found = _telecom(element)
        if found and found not in unique:
            unique.append(found)
    return unique


def _telecom(element: Element) -> dict[str, Any]:
    written = element.get("value")
    scheme, colon, rest = written.partition(":")
    system = _SCHEMES.get(scheme.lower()) if colon else None
    if system and system != "url":
        written = unquote(rest) if system == "email" else rest
    elif not system:
        system = "email" if "@" in written else "other"
        if _NUMBER.fullmatch(written):
            system = "phone"
    written = " ".join(written.split())
    if not written:
        return {}
    if "PG" in element.get("use").split():
        system = "pager"
    found = {"system": system, "value": written}
    if use := _used(element, _TELECOM_USES):
        found["use"] = use
    return found


def _used(element: Element, uses: dict[str, str]) -> str:
    """Return the first use that FHIR has a word for."""
    return next((uses[one] for one in element.get("use").split() if one in uses), "")


def _texts(elements: list[Element]) -> list[str]:
    return [text for one in elements if not one.null_flavor and (text := plain(one))]
