"""What a reader of the specification would pick by hand: no SQL, no index, nothing of fhirapp.

It looks at resources as they are served, one by one. Source: FHIR R4 search §3.1.1.4; service.md 4;
decisions §2, §3.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tests.helpers import BASE_URL

Resource = dict[str, Any]
Terms = list[tuple[str, str]]
HL7 = "http://hl7.org/fhir/"
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
PREFIXES = ("", "eq", "ne", "gt", "ge", "lt", "le", "sa", "eb")


class Token(NamedTuple):
    """A token parameter: element paths, and the system that a bare code is of."""

    paths: tuple[str, ...]
    system: str = ""


class Date(NamedTuple):
    """A date parameter: of these element paths the first that is there."""

    paths: tuple[str, ...]


class Reference(NamedTuple):
    """A reference parameter: its element path, and the one type it points to, if it is one."""

    paths: tuple[str, ...]
    target: str = ""


class String(NamedTuple):
    """A string parameter: element paths."""

    paths: tuple[str, ...]


class Uri(NamedTuple):
    """A uri parameter: element paths."""

    paths: tuple[str, ...]


class Pair(NamedTuple):
    """`relationship`: the code and the target of the same repetition."""

    paths: tuple[str, ...]
    system: str


Kind = Token | Date | Reference | String | Uri | Pair

COMMON: dict[str, Kind] = {
    "_lastUpdated": Date(("meta.lastUpdated",)),
    "_tag": Token(("meta.tag",)),
    "_security": Token(("meta.security",)),
    "_profile": Uri(("meta.profile",)),
    "_source": Uri(("meta.source",)),
}
KINDS: dict[str, dict[str, Kind]] = {
    "AllergyIntolerance": {
        **COMMON,
        "patient": Reference(("patient",), "Patient"),
        "date": Date(("recordedDate", "onsetDateTime", "onsetPeriod")),
        "onset": Date(("reaction.onset",)),
        "last-date": Date(("lastOccurrence",)),
        "status": Token(("clinicalStatus", "verificationStatus")),
        "clinical-status": Token(("clinicalStatus",)),
        "verification-status": Token(("verificationStatus",)),
        "code": Token(("code", "reaction.substance")),
        "category": Token(("category",), HL7 + "allergy-intolerance-category"),
        "criticality": Token(("criticality",), HL7 + "allergy-intolerance-criticality"),
        "type": Token(("type",), HL7 + "allergy-intolerance-type"),
        "identifier": Token(("identifier",)),
        "manifestation": Token(("reaction.manifestation",)),
        "route": Token(("reaction.exposureRoute",)),
        "severity": Token(("reaction.severity",), HL7 + "reaction-event-severity"),
        "recorder": Reference(("recorder",)),
        "asserter": Reference(("asserter",)),
    },
    "DocumentReference": {
        **COMMON,
        "patient": Reference(("subject",), "Patient"),
        "subject": Reference(("subject",)),
        "date": Date(("date",)),
        "period": Date(("context.period",)),
        "category": Token(("category",)),
        "type": Token(("type",)),
        "code": Token(("type",)),
        "status": Token(("status",), HL7 + "document-reference-status"),
        "identifier": Token(("masterIdentifier", "identifier")),
        "contenttype": Token(("content.attachment.contentType",), "urn:ietf:bcp:13"),
        "format": Token(("content.format",)),
        "language": Token(("content.attachment.language",), "urn:ietf:bcp:47"),
        "event": Token(("context.event",)),
        "facility": Token(("context.facilityType",)),
        "setting": Token(("context.practiceSetting",)),
        "security-label": Token(("securityLabel",)),
        "relation": Token(("relatesTo.code",), HL7 + "document-relationship-type"),
        "author": Reference(("author",)),
        "authenticator": Reference(("authenticator",)),
        "custodian": Reference(("custodian",), "Organization"),
        "encounter": Reference(("context.encounter",)),
        "relatesto": Reference(("relatesTo.target",), "DocumentReference"),
        "related": Reference(("context.related",)),
        "relationship": Pair(("relatesTo",), HL7 + "document-relationship-type"),
        "description": String(("description",)),
        "location": Uri(("content.attachment.url",)),
    },
}


def at(value: Any, path: str) -> list[Any]:
    """Return what stands at a path, through every list."""
    if isinstance(value, list):
        return [found for item in value for found in at(item, path)]
    if not path:
        return [value]
    step, _, rest = path.partition(".")
    return at(value[step], rest) if isinstance(value, dict) and step in value else []


def values_of(kind: Kind, resource: Resource) -> list[Any]:
    """Return the values of a parameter in a resource."""
    by_path = [at(resource, path) for path in kind.paths]
    if isinstance(kind, Date):
        return next(filter(None, by_path), [])
    return [value for values in by_path for value in values]


def tokens(kind: Token, resource: Resource) -> list[tuple[str, str]]:
    """Return the (system, code) pairs that a token can find."""
    found = []
    for value in values_of(kind, resource):
        if isinstance(value, str):
            found.append((kind.system, value))
            continue
        for coding in value.get("coding", [value]):
            code = coding.get("code", coding.get("value"))
            if code is not None:
                found.append((coding.get("system", ""), code))
    return found


def token_texts(kind: Token, resource: Resource) -> list[str]:
    """Return the texts beside the codes: CodeableConcept.text, display, Identifier.type.text."""
    values = [value for value in values_of(kind, resource) if isinstance(value, dict)]
    return [
        text
        for value in values
        for text in (
            value.get("text"),
            *(coding.get("display") for coding in value.get("coding", [value])),
            (value.get("type") or {}).get("text") if "value" in value else None,
        )
        if text
    ]


def types_of_identifiers(kind: Token, resource: Resource) -> list[tuple[str, str, str]]:
    """Return (system, code, value) of the identifiers that have a type."""
    return [
        (coding["system"], coding["code"], value["value"])
        for value in values_of(kind, resource)
        if isinstance(value, dict)
        for coding in (value.get("type") or {}).get("coding", ())
    ]


def fits_pair(value: str, held: Iterable[tuple[str, str]]) -> bool:
    """Say whether `code`, `system|code`, `|code` or `system|` is one of (system, code)."""
    system, bar, code = value.rpartition("|")
    return any(
        (not bar or system == held_system) and (code == held_code or (bar != "" and not code))
        for held_system, held_code in held
    )


def fold(text: str) -> str:
    """Return text without case, accents and superfluous space."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    return " ".join("".join(one for one in letters if not unicodedata.combining(one)).split())


def fits_token(kind: Token, modifier: str, resource: Resource, value: str) -> bool:
    if modifier == "text":
        asked = fold(value)
        texts = map(fold, token_texts(kind, resource))
        return any(text.startswith(asked) or f" {asked}" in text for text in texts)
    if modifier == "of-type":
        return tuple(value.split("|")) in types_of_identifiers(kind, resource)
    return fits_pair(value, tokens(kind, resource))


def covered(text: str) -> tuple[datetime, datetime]:
    """Return the half-open stretch of time of a date as it is written."""
    if len(text) > 10:
        start = datetime.fromisoformat(text)
        return start, start + timedelta(milliseconds=1 if "." in text else 1_000)
    year, month, day = [*map(int, text.split("-")), 1, 1][:3]
    start = datetime(year, month, day, tzinfo=UTC)
    if len(text) == 10:
        return start, start + timedelta(days=1)
    if len(text) == 7:
        return start, datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return start, datetime(year + 1, 1, 1, tzinfo=UTC)


def dates(kind: Date, resource: Resource) -> list[tuple[datetime, datetime]]:
    """Return the stretches of time that a date parameter can find."""
    found = []
    for value in values_of(kind, resource):
        if isinstance(value, str):
            found.append(covered(value))
            continue
        start = covered(value["start"])[0] if "start" in value else FIRST
        end = covered(value["end"])[1] if "end" in value else LAST
        found.append((start, end))
    return found


def fits_date(kind: Date, _modifier: str, resource: Resource, value: str) -> bool:
    prefix = value[:2] if value[:2] in PREFIXES else ""
    start, end = covered(value.removeprefix(prefix))

    def holds(low: datetime, high: datetime) -> bool:
        inside = start <= low and high <= end
        rules = {"eq": inside, "gt": end < high, "lt": low < start, "sa": end <= low}
        rules |= {"ge": rules["gt"] or inside, "le": rules["lt"] or inside, "ne": not inside}
        return {**rules, "eb": high <= start}[prefix or "eq"]

    return any(holds(*held) for held in dates(kind, resource))


def references(kind: Reference, resource: Resource) -> list[str]:
    """Return where references point, save into the resource itself."""
    held = [value.get("reference", "#") for value in values_of(kind, resource)]
    return [value for value in held if not value.startswith("#")]


def is_reference(held: Iterable[str], value: str, target: str) -> bool:
    """Say whether one of these references is the one that a value names."""
    value = value.removeprefix(f"{BASE_URL}/fhir/")
    named = f"{target}/{value}" if target and "/" not in value else value
    return any(
        one == named or ("/" not in named and one.rpartition("/")[2] == named) for one in held
    )


def fits_reference(kind: Reference, modifier: str, resource: Resource, value: str) -> bool:
    if modifier == "identifier":
        held = [one["identifier"] for one in values_of(kind, resource) if "identifier" in one]
        return fits_pair(value, [(one.get("system", ""), one.get("value", "")) for one in held])
    return is_reference(references(kind, resource), value, modifier or kind.target)


def fits_string(kind: String, modifier: str, resource: Resource, value: str) -> bool:
    held, asked = values_of(kind, resource), fold(value)
    if modifier == "exact":
        return value in held
    if modifier == "contains":
        return any(asked in fold(one) for one in held)
    return any(fold(one).startswith(asked) for one in held)


def fits_uri(kind: Uri, modifier: str, resource: Resource, value: str) -> bool:
    held = values_of(kind, resource)
    held += [one.partition("|")[0] for one in held]
    if modifier == "below":
        return any(one == value or one.startswith(value.rstrip("/") + "/") for one in held)
    if modifier == "above":
        return any(
            (value.rstrip("/") + "/").startswith(one.rstrip("/") + "/") for one in held if one
        )
    return value in held


def fits_composite(kind: Pair, _modifier: str, resource: Resource, value: str) -> bool:
    code, _, target = value.partition("$")
    return any(
        fits_pair(code, [(kind.system, held["code"])])
        and is_reference([held["target"].get("reference", "#")], target, "DocumentReference")
        for held in values_of(kind, resource)
    )


_FITS: Mapping[type, Callable[[Any, str, Resource, str], bool]] = {
    Token: fits_token,
    Date: fits_date,
    Reference: fits_reference,
    String: fits_string,
    Uri: fits_uri,
    Pair: fits_composite,
}


def fits(name: str, resource: Resource, value: str) -> bool:
    """Say whether a resource has one of the values that a comma separates."""
    name, _, modifier = name.partition(":")
    values = value.split(",")
    if name == "_id":
        return resource["id"] in values
    if name in ("_text", "_content"):
        return any(fits_words(name, resource, one) for one in values)
    kind = KINDS[resource["resourceType"]][name]
    if modifier == "missing":
        return any((one == "true") == (not values_of(kind, resource)) for one in values)
    negated, asked = (True, "") if modifier == "not" else (False, modifier)
    return any(_FITS[type(kind)](kind, asked, resource, one) for one in values) != negated


# Members whose text is no word of the content.
_NO_WORDS = {"system", "url", "profile", "div", "data", "hash"}
_NO_WORDS |= {"versionId", "lastUpdated", "resourceType"}


def words(text: str) -> list[str]:
    """Return the runs of letters and digits in a text, folded."""
    return re.findall(r"[^\W_]+", fold(text))


def told(name: str, resource: Resource) -> list[str]:
    """Return the texts that `_text` or `_content` looks into; `notes` are those of attachments."""
    div = re.sub(r"<[^>]*>", " ", resource.get("text", {}).get("div", ""))
    texts = [html.unescape(div), *resource.get("notes", ())]
    if name == "_content":
        texts += _texts({one: value for one, value in resource.items() if one != "notes"})
    return texts


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    if isinstance(value, dict):
        return [
            text
            for name, content in value.items()
            if name not in _NO_WORDS
            for text in _texts(content)
        ]
    return []


def fits_words(name: str, resource: Resource, value: str) -> bool:
    """Say whether all the words, and beginnings with a star, are there."""
    held = {word for text in told(name, resource) for word in words(text)}
    return all(
        any(word.startswith(asked[:-1]) for word in held) if asked.endswith("*") else asked in held
        for asked in map(fold, value.split())
    )


def picked(resources: Iterable[Resource], terms: Terms) -> list[str]:
    """Return the ids of those that fit every term: newest first, then by id from the end."""
    found = [one for one in resources if all(fits(name, one, value) for name, value in terms)]
    found.sort(key=lambda one: (one["meta"]["lastUpdated"], one["id"]), reverse=True)
    return [one["id"] for one in found]
