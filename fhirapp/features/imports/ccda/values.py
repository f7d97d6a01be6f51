"""The datatypes of a clinical document as those of FHIR: codes, identifiers, times, nullFlavors.

Times are no more exact than they are in the document. Sources: CDA R2 data types; HL7 C-CDA on
FHIR 2.0.0, mapping guidance and its concept maps.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fhirapp.features.imports.ccda.narrative import Texts, tidy
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.fhir.identity import RFC_3986
from fhirapp.fhir.temporal import (
    check_date,
    comparable_period,
    interval,
    normalise_date_time,
    now,
)
from fhirapp.fhir.terminology import CT, DATA_ABSENT_REASON, NULL_FLAVOR, ORIGINAL_TEXT

_TS = re.compile(
    r"(\d{4})(?:(\d\d)(?:(\d\d)(?:(\d\d)(?:(\d\d)(?:(\d\d)(\.\d{1,9})?)?)?)?)?)?"
    r"([+-]\d\d(?:\d\d)?)?",
    re.ASCII,
)
# A time with dashes and colons, as FHIR and ISO 8601 have it and HL7 v3 has not.
_DASHED = re.compile(
    r"\d{4}-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?)?", re.ASCII
)
# Days from which systems count, or which they store where no date is known.
_DEFAULT_DAYS = frozenset(
    {
        *("1840-12-31", "1841-01-01", "1858-11-17", "1899-12-30", "1899-12-31", "1900-01-01"),
        *("1900-01", "1900"),
    }
)
_NO_YEAR = re.compile(r"(?:0000|9999)[\d:TZ.+-]*", re.ASCII)
# Elements that are times, beside those whose name says so.
_ENDS = frozenset({"low", "high", "center"})


def without_dashes(written: str) -> str:
    """Return 1980-05-10T12:30:00+01:00 as HL7 v3 writes it: 19800510123000+0100.

    What has another form is returned as it is.
    """
    if not _DASHED.fullmatch(written):
        return written
    day, _, time = written.partition("T")
    return day.replace("-", "") + time.replace(":", "").replace("Z", "+0000")


@lru_cache(maxsize=1_000)
def is_no_date(written: str) -> bool:
    """Say whether a text only holds the place of a time: 00010101, 1900-01-01, 99991231."""
    time = calendar_time(written)
    is_none = bool(time) and (_is_out_of_range(time) or time[:10] in _DEFAULT_DAYS)
    return is_none or _NO_YEAR.fullmatch(written) is not None


def _is_out_of_range(time: str) -> bool:
    """Whether the year is outside 1801 to 2998."""
    return not "1800" < time[:4] < "2999"


def date_time(written: str) -> str:
    """Return a dateTime; "" for what is no time, or a placeholder."""
    return "" if is_no_date(written) else calendar_time(written)


def date_of_birth(written: str) -> str:
    """Return a dateTime; "" for what is no time, or a placeholder.

    Somebody may have been born on 1900-01-01.
    """
    time = calendar_time(written)
    return "" if _is_out_of_range(time) else time


@lru_cache(maxsize=1_000)
def calendar_time(written: str) -> str:
    """Return a dateTime, also of a placeholder; "" for what is no time.

    FHIR has hours only with minutes and a zone. Where either is absent, the date is what is known:
    a zone that is guessed would be wrong for half of the year.
    """
    match = _TS.fullmatch(without_dashes(written))
    if not match:
        return ""
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    date = "-".join(filter(None, (year, month, day)))
    try:
        check_date(date)
        if not (minute and zone) or _is_out_of_range(date):
            return date
        # R4 datatypes §2.24.0.1: seconds that are not known may be zero.
        offset = f"{zone[:3]}:{zone[3:] or '00'}"
        whole = f"{date}T{hour}:{minute}:{second or '00'}{fraction or ''}{offset}"
        normalise_date_time(whole)
    except ValueError:
        return ""
    return whole


def is_exact(written: str, as_date_time: str) -> bool:
    """Say whether a dateTime holds all that was written."""
    # Digits before the zone: YYYYMMDD are eight.
    return len(re.split("[+-]", without_dashes(written))[0]) <= 8 or len(as_date_time) > 10


def time_remarks(elements: Iterable[CcdaElement]) -> Iterator[str]:
    """Yield what is unusual about how the times among the elements of a document are written."""
    times = [element for element in elements if _is_time(element.name)]
    written = [element.get("value") for element in times]
    if dashed := next((time for time in written if time != without_dashes(time)), ""):
        yield (
            f"its dates have dashes, such as {dashed}; they are read as dates, but C-CDA requires "
            f"{without_dashes(dashed)}"
        )
    if placeholder := next((time.get("value") for time in times if _is_left_out(time)), ""):
        yield f"its dates have placeholders, such as {placeholder}; they are read as not known"


@lru_cache(maxsize=1_000)
def _is_time(name: str) -> bool:
    return name in _ENDS or name.lower().endswith("time")


def _is_left_out(time: CcdaElement) -> bool:
    """Say whether a time only holds the place of one; somebody may have been born in 1900."""
    written = time.get("value")
    return is_no_date(written) and not (time.name == "birthTime" and date_of_birth(written))


# Codes and identifiers.

_OID = re.compile(r"[0-2](\.(0|[1-9][0-9]*))+", re.ASCII)
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII | re.IGNORECASE)
_HL7 = "2.16.840.1.113883."

ACT_CODE = CT + "v3-ActCode"
CONFIDENTIALITY = CT + "v3-Confidentiality"
RACE = f"urn:oid:{_HL7}6.238"

# Tables of codes, by name.
MAPS: Mapping[str, Any] = tomllib.loads(
    Path(__file__).with_name("concept_maps.toml").read_text(encoding="utf-8")
)
_CODE_SYSTEMS = {oid: address.replace("{CT}", CT) for oid, address in MAPS["code_systems"].items()}

_IDENTIFIER_SYSTEMS: Mapping[str, str] = MAPS["identifier_systems"]
_REGISTRIES = frozenset({*_IDENTIFIER_SYSTEMS, *MAPS["registries"]["oids"]})
# An extension under this root is an address of its own (THO, NamingSystem-uri).
URI_ROOT = _HL7 + "4.873"


@lru_cache(maxsize=1_000)
def code_system(oid: str) -> str:
    """Return FHIR's address of a code system; `urn:oid:…` where it has none."""
    return _CODE_SYSTEMS.get(_short(oid)) or urn(oid)


@lru_cache(maxsize=1_000)
def identifier_system(oid: str) -> str:
    """Return FHIR's address of who assigns identifiers; `urn:oid:…` where it has none."""
    return _IDENTIFIER_SYSTEMS.get(_short(oid)) or urn(oid)


def is_registry(oid: str) -> bool:
    """Say whether an OID is a registry's, which alone, without a number, identifies nothing."""
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


# Display and data-absent-reason of each.
_NULL_FLAVORS: Mapping[str, tuple[str, str]] = MAPS["null_flavors"]
_NO_CODE = re.compile(r"[\x00-\x20\x7f]+")


def absent(null_flavor: str = "") -> dict[str, Any]:
    """Return the extension with the reason why something is absent; without one, unknown."""
    reason = _NULL_FLAVORS.get(null_flavor, ("", "unknown"))[1]
    return {"url": DATA_ABSENT_REASON, "valueCode": reason}


def original(written: str) -> dict[str, Any]:
    """Return the extension that keeps the source's words where FHIR has no form for them."""
    return {"url": ORIGINAL_TEXT, "valueString": written}


def present(members: Mapping[str, Any]) -> dict[str, Any]:
    """Return the members that have a value; FHIR JSON has no empty ones."""
    return {name: value for name, value in members.items() if value}


def distinct(items: Iterable[dict[str, Any] | None]) -> list[dict[str, Any]]:
    """Return the items that are not empty, each once."""
    unique: list[dict[str, Any]] = []
    for item in items:
        if item and item not in unique:
            unique.append(item)
    return unique


def coded_concept(system: str, code: str, display: str = "") -> dict[str, Any]:
    """Return a code as CodeableConcept."""
    return {"coding": [present({"system": system, "code": code, "display": display})]}


def extension_only(*extensions: dict[str, Any]) -> dict[str, Any]:
    """Return what holds nothing but extensions."""
    return {"extension": list(extensions)}


def null_coding(null_flavor: str) -> dict[str, Any] | None:
    """Return a nullFlavor as a Coding, None for what is none."""
    if null_flavor not in _NULL_FLAVORS:
        return None
    coding = {"system": NULL_FLAVOR, "code": null_flavor, "display": _NULL_FLAVORS[null_flavor][0]}
    # As the service itself writes it: service.md 2.3.
    return {**coding, "userSelected": False} if null_flavor == "NI" else coding


def code_in(element: CcdaElement | None) -> str:
    """Return the code of an element, as FHIR writes codes; "" where there is none."""
    return _NO_CODE.sub(" ", (element or NOTHING).get("code")).strip()


def coding(element: CcdaElement) -> dict[str, Any] | None:
    """Return a code with its system, None where there is no code."""
    code = code_in(element)
    if not code:
        return None
    return present(
        {
            "system": code_system(element.get("codeSystem")),
            "version": tidy(element.get("codeSystemVersion")),
            "code": code,
            "display": tidy(element.get("displayName")),
        }
    )


def codings(element: CcdaElement) -> list[dict[str, Any]]:
    """Return a code, its translations, and a nullFlavor in its place, in this order."""
    translations = element.all("translation")
    return distinct([coding(element), *map(coding, translations), null_coding(element.null_flavor)])


def concept(element: CcdaElement | None, texts: Texts) -> dict[str, Any] | None:
    """Return a CD, CE or CV as a CodeableConcept, None where it says nothing."""
    if element is None:
        return None
    text = texts.of(element.first("originalText"))
    return present({"coding": codings(element), "text": text}) or None


def has_code(element: CcdaElement | None, *codes: str) -> bool:
    """Say whether an element's code, or a translation of it, is one of these."""
    if element is None:
        return False
    if element.get("code") in codes:
        return True
    return any(part.get("code") in codes for part in element.all("translation"))


def mapped(element: CcdaElement, table: Mapping[str, Any]) -> list[Any]:
    """Return what an element's code and its translations are by a table, in the table's order."""
    codes = {part.get("code") for part in (element, *element.all("translation"))}
    return [meaning for code, meaning in table.items() if code in codes]


def is_negated(statement: CcdaElement | None) -> bool:
    """Say whether a statement says that something is not so."""
    return (statement or NOTHING).get("negationInd") in ("true", "1")


def identifier(element: CcdaElement) -> dict[str, Any] | None:
    """Return an II as an Identifier, None where it identifies nothing.

    C-CDA on FHIR, "CDA id → FHIR Identifier": a root alone is an identifier of its own, save that
    of a registry.
    """
    root, extension = element.get("root"), element.get("extension")
    identified = _identified(root, extension, element.null_flavor)
    if identified and (name := tidy(element.get("assigningAuthorityName"))):
        identified["assigner"] = {"display": name}
    return identified


def _identified(root: str, extension: str, null_flavor: str) -> dict[str, Any] | None:
    unknown = extension_only(absent(null_flavor))
    if not root:
        return {"_system": unknown, "value": extension} if extension else None
    system = identifier_system(root) or f"urn:hl7ii:{quote(root, safe='')}"
    if null_flavor or (not extension and is_registry(root)):
        return {"system": system, "_value": unknown}
    if not extension:
        return {"system": RFC_3986, "value": urn(root) or system}
    if root == URI_ROOT:
        separator = "/" if "://" in extension else ":"
        namespace, is_split, value = extension.rpartition(separator)
        if is_split and value and namespace and not namespace.endswith("/"):
            return {"system": "".join(namespace.split()), "value": value}
        return {"system": RFC_3986, "value": extension}
    return {"system": system, "value": extension}


def identifiers(elements: list[CcdaElement]) -> list[dict[str, Any]]:
    """Return the Identifiers of these, each once."""
    return distinct(map(identifier, elements))


def put(
    resource: dict[str, Any],
    name: str,
    element: CcdaElement | None,
    read: Callable[[str], str] = date_time,
) -> None:
    """Set a dateTime; what FHIR cannot hold of it, or why there is none, is put beside it."""
    if element is None:
        return
    written = element.get("value")
    date = read(written)
    if date:
        resource[name] = date
    if written and not date and is_no_date(written):
        resource[f"_{name}"] = extension_only(absent(), original(written))
    elif written and not (date and is_exact(written, date)):
        resource[f"_{name}"] = extension_only(original(written))
    elif not written and element.null_flavor:
        resource[f"_{name}"] = extension_only(absent(element.null_flavor))


def start_of(times: CcdaElement | None) -> CcdaElement | None:
    """Return where an IVL_TS begins: its low, else its only point in time."""
    if times is None or times.get("value"):
        return times
    return times.first("low") or (times if times.null_flavor else None)


def period(times: CcdaElement | None) -> dict[str, Any] | None:
    """Return the Period of an IVL_TS, None where it says nothing of one.

    An end before the start is kept as it is written: either of the two may be wrong.
    """
    if times is None:
        return None
    ends: dict[str, Any] = {}
    put(ends, "start", start_of(times))
    put(ends, "end", times.first("high"))
    if times.get("value") and ends.get("start"):
        ends["end"] = ends["start"]
    if "start" in ends and "end" in ends and _is_before(ends["end"], ends["start"]):
        end = times.first("high")
        del ends["end"]
        ends["_end"] = extension_only(original(end.get("value") if end else ""))
    return comparable_period(ends) or None


def in_order(times: Iterable[CcdaElement | None]) -> list[CcdaElement]:
    """Return those that are times, the earliest first."""
    known = [time for time in times if time is not None and date_time(time.get("value"))]
    return sorted(known, key=lambda time: interval(date_time(time.get("value"))).low)


def is_ahead(time: str, made: str) -> bool:
    """Say whether a dateTime comes after the day on which its document was made, or after today."""
    days = filter(None, (made[:10], now().date().isoformat()))
    return any(_is_before(day, time[:10]) for day in days)


def _is_before(time: str, other: str) -> bool:
    """Say whether a time is before another, at the precision of the less exact one."""
    length = min(len(time), len(other))
    if length <= 10:
        return time[:length] < other[:length]
    return interval(time).low < interval(other).low


def instant(element: CcdaElement | None) -> str:
    """Return an instant; "" where the time is not known to the second."""
    time = date_time((element or NOTHING).get("value"))
    return time if len(time) > 10 else ""
