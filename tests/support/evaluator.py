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

from tests.support.helpers import BASE_URL

Resource = dict[str, Any]
Terms = list[tuple[str, str]]
HL7 = "http://hl7.org/fhir/"
FIRST, LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
PREFIXES = ("", "eq", "ne", "gt", "ge", "lt", "le", "sa", "eb")


class Token(NamedTuple):
    """A token parameter: element paths, the system of a bare code, whether it is an identifier."""

    paths: tuple[str, ...]
    system: str = ""
    of_identifier: bool = False


class MediaType(NamedTuple):
    """`contenttype`: element paths."""

    paths: tuple[str, ...]


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


Kind = Token | MediaType | Date | Reference | String | Uri | Pair

COMMON: dict[str, Kind] = {
    "_lastUpdated": Date(("meta.lastUpdated",)),
    "_tag": Token(("meta.tag",)),
    "_security": Token(("meta.security",)),
    "_profile": Uri(("meta.profile",)),
    "_source": Uri(("meta.source",)),
}
# The clinicalStatus of what is not entered in error (ait-2).
STATED = "clinicalStatus unless entered in error"
KINDS: dict[str, dict[str, Kind]] = {
    "AllergyIntolerance": {
        **COMMON,
        "patient": Reference(("patient",), "Patient"),
        "date": Date(("recordedDate", "onsetDateTime", "onsetPeriod")),
        "onset": Date(("reaction.onset",)),
        "last-date": Date(("lastOccurrence",)),
        "status": Token((STATED, "verificationStatus")),
        "clinical-status": Token((STATED,)),
        "verification-status": Token(("verificationStatus",)),
        "code": Token(("code", "reaction.substance")),
        "category": Token(("category",), HL7 + "allergy-intolerance-category"),
        "criticality": Token(("criticality",), HL7 + "allergy-intolerance-criticality"),
        "type": Token(("type",), HL7 + "allergy-intolerance-type"),
        "identifier": Token(("identifier",), of_identifier=True),
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
        "identifier": Token(("masterIdentifier", "identifier"), of_identifier=True),
        "contenttype": MediaType(("content.attachment.contentType",)),
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
    by_path = [_stated(resource) if path == STATED else at(resource, path) for path in kind.paths]
    if isinstance(kind, Date):
        return next(filter(None, by_path), [])
    return [value for values in by_path for value in values]


def _stated(resource: Resource) -> list[Any]:
    """Return the clinicalStatus, save of what is entered in error and verified in no other way."""
    system = "http://terminology.hl7.org/CodeSystem/allergyintolerance-verification"
    verified = at(resource, "verificationStatus.coding")
    codes = {one.get("code") for one in verified if one.get("system") == system}
    return [] if codes == {"entered-in-error"} else at(resource, "clinicalStatus")


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


def is_case_known(system: str) -> bool:
    """Say whether a system says that its codes differ by case: HL7's own and UCUM do."""
    if "/CodeSystem/v2-" in system:
        return False
    known = (HL7, "http://terminology.hl7.org/CodeSystem/", "http://unitsofmeasure.org")
    return system.startswith(known)


def fits_pair(value: str, held: Iterable[tuple[str, str]], *, exactly: bool = False) -> bool:
    """Say whether `code`, `system|code`, `|code` or `system|` is one of (system, code)."""
    system, bar, code = value.rpartition("|")

    def same(held_system: str, held_code: str) -> bool:
        if exactly or is_case_known(held_system):
            return code == held_code
        return code.casefold() == held_code.casefold()

    return any(
        (not bar or system == held_system)
        and (same(held_system, held_code) or (bar != "" and not code))
        for held_system, held_code in held
    )


def essence(media_type: str) -> tuple[str, str, list[str]]:
    """Return type, subtype and parameters of a media type, as they are compared."""
    whole, *parameters = "".join(media_type.casefold().replace('"', "").split()).split(";")
    kind, _, subtype = whole.partition("/")
    return kind, subtype, parameters


def fits_media_type(kind: MediaType, modifier: str, resource: Resource, value: str) -> bool:
    system, bar, asked = value.rpartition("|")
    if bar and system != "urn:ietf:bcp:13":
        return False
    wanted = essence(asked)
    for held in map(essence, values_of(kind, resource)):
        if wanted[:2] == held[:2] and wanted[2] in ([], held[2]):
            return True
        if modifier == "below" and wanted[0] == held[0] and wanted[1] in ("", "*"):
            return True
    return False


def fold(text: str) -> str:
    """Return text without case, accents and superfluous space."""
    letters = unicodedata.normalize("NFKD", text.casefold()).casefold()
    return " ".join(
        "".join(_plain(one) for one in letters if not unicodedata.combining(one)).split()
    )


# What the name of a letter says of it, where that is no letter with a stroke or a hook.
_NAMED = {"AE": "ae", "ETH": "d", "THORN": "th", "ENG": "n", "BARRED O": "o"}
_NAMED |= {"OPEN E": "e", "OPEN O": "o"}


def _plain(letter: str) -> str:
    """Return a small letter without the marks that its Unicode name has."""
    name = unicodedata.name(letter, "").removeprefix("LATIN SMALL ")
    if found := re.fullmatch(r"LETTER (?:DOTLESS )?([A-Z])(?: (?:WITH|BAR).*)?", name):
        return found[1].lower()
    if name == "LIGATURE OE":
        return "oe"
    return _NAMED.get(name.removeprefix("LETTER "), letter)


# The codes of the value sets that a test has made, by address.
VALUE_SETS: dict[str, list[tuple[str, str]]] = {}


def fits_token(kind: Token, modifier: str, resource: Resource, value: str) -> bool:
    if modifier == "text":
        asked = fold(value)
        texts = map(fold, token_texts(kind, resource))
        return any(text.startswith(asked) or f" {asked}" in text for text in texts)
    if modifier == "of-type":
        return tuple(value.split("|")) in types_of_identifiers(kind, resource)
    if modifier == "in":
        held = tokens(kind, resource)
        return any(fits_pair("|".join(pair), held) for pair in VALUE_SETS[value])
    return fits_pair(value, tokens(kind, resource), exactly=kind.of_identifier)


def covered(text: str) -> tuple[datetime, datetime]:
    """Return the half-open stretch of time of a date as a search writes it."""
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


def dated(text: str) -> tuple[datetime, datetime]:
    """Return the same of a date in a resource: a time is the millisecond that it names."""
    if len(text) <= 10:
        return covered(text)
    moment = datetime.fromisoformat(text)
    moment -= timedelta(microseconds=moment.microsecond % 1_000)
    return moment, moment + timedelta(milliseconds=1)


def dates(kind: Date, resource: Resource) -> list[tuple[datetime, datetime]]:
    """Return the stretches of time that a date parameter can find."""
    found = []
    for value in values_of(kind, resource):
        if isinstance(value, str):
            found.append(dated(value))
            continue
        start = dated(value["start"])[0] if "start" in value else FIRST
        end = dated(value["end"])[1] if "end" in value else LAST
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
    value = value.removeprefix(f"{BASE_URL}/fhir/").partition("/_history/")[0]
    held = [one.partition("/_history/")[0] for one in held]
    named = f"{target}/{value}" if target and "/" not in value else value
    return any(
        one == named or ("/" not in named and one.rpartition("/")[2] == named) for one in held
    )


def fits_reference(kind: Reference, modifier: str, resource: Resource, value: str) -> bool:
    if modifier == "identifier":
        held = [one["identifier"] for one in values_of(kind, resource) if "identifier" in one]
        pairs = [(one.get("system", ""), one.get("value", "")) for one in held]
        return fits_pair(value, pairs, exactly=True)
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
    MediaType: fits_media_type,
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
        return (resource["id"] in values) != (modifier == "not")
    if name in ("_text", "_content"):
        return any(fits_words(name, resource, one) for one in choices(value))
    kind = KINDS[resource["resourceType"]][name]
    if modifier == "missing":
        return any((one == "true") == (not values_of(kind, resource)) for one in values)
    opposite = {"not": "", "not-in": "in"}
    negated, asked = modifier in opposite, opposite.get(modifier, modifier)
    return any(_FITS[type(kind)](kind, asked, resource, one) for one in values) != negated


# Members whose text is no word of the content.
_NO_WORDS = {"system", "url", "profile", "div", "data", "hash"}
_NO_WORDS |= {"versionId", "lastUpdated", "resourceType"}


# How the names of characters begin that stand side by side without spaces between words.
_UNSPACED = ("CJK", "HIRAGANA", "KATAKANA", "IDEOGRAPHIC", "THAI", "LAO", "MYANMAR", "KHMER")
_MARKS = ".,\u00b7\u066b"
_LETTERS = re.compile(r"[^\W_]+")


def is_unspaced(character: str) -> bool:
    named = unicodedata.name(character, "").startswith(_UNSPACED)
    return named and unicodedata.category(character)[0] in "LM"


def is_piecemeal(character: str) -> bool:
    """Say whether any piece of a run of such characters is found."""
    return is_unspaced(character) or unicodedata.name(character, "").startswith("HANGUL SYLL")


def lines_joined(text: str) -> tuple[str, list[str]]:
    """Return a text with its lines together, and the parts of words that a hyphen split."""
    whole, parts = "", []
    for line in re.split(r"\r?\n", text):
        if not whole:
            whole = line
        elif is_split(whole, line):
            left, right = _LETTERS.findall(whole), _LETTERS.findall(line)
            parts.append(f"{left[-1]} {right[0]}")
            whole = whole.rstrip(" \t").removesuffix("-") + line.lstrip(" \t")
        else:
            together = line and is_unspaced(whole[-1]) and is_unspaced(line[0])
            whole += line if together else f" {line}"
    return whole, parts


def is_split(before: str, after: str) -> bool:
    before, after = before.rstrip(" \t"), after.lstrip(" \t")
    if len(before) < 2 or not after or before[-1] != "-":
        return False
    beside = (before[-2], after[0])
    return all(one.isalpha() and not is_piecemeal(one) for one in beside)


def sequences(text: str) -> list[list[str]]:
    """Return the words of a text in their order; what a hyphen split, in parts, beside it."""
    whole, parts = lines_joined(text)
    return [sequence(one) for one in (whole, *parts)]


def sequence(text: str) -> list[str]:
    """Return the words of a text, character by character; a run without spaces is one."""
    text = unicodedata.normalize("NFC", fold(text))
    found: list[str] = []
    place = 0
    while place < len(text):
        end = place
        if is_piecemeal(text[place]):
            while end < len(text) and is_piecemeal(text[end]):
                end += 1
            found.append(text[place:end])
        elif text[place].isdecimal():
            while end < len(text) and (text[end].isdecimal() or _is_mark(text, end)):
                end += 1
            bare = text[:place].endswith((" .", "(.")) or text[:place] == "."
            found += numbers(text[place:end], is_bare=bare)
        elif text[place].isalnum():
            while end < len(text) and text[end].isalnum() and not is_piecemeal(text[end]):
                end += 1
            found.append(text[place:end])
            # What a letter stands before is no number, as in J45.0.
            while text[end - 1].isdecimal() and _is_mark(text, end):
                digits = re.match(r"\d+", text[end + 1 :])
                found.append(digits[0] if digits else "")
                end += 1 + len(found[-1])
        place = max(end, place + 1)
    return found


def _is_mark(text: str, place: int) -> bool:
    """Say whether a mark stands between two digits."""
    both = text[place - 1 : place + 2]
    return len(both) == 3 and both[1] in _MARKS and both[0].isdecimal() and both[2].isdecimal()


def numbers(text: str, *, is_bare: bool) -> list[str]:
    """Return the words of digits and marks: one number, or several where it is a date."""
    parts = re.split(f"[{_MARKS}]", text)
    if len(parts) == 1:
        return [f"0.{text}" if is_bare else text]
    if len(parts) == 2:
        return [".".join(parts)]
    used = [one for one in text if one in _MARKS]
    groups, decimals = (parts, "") if len(set(used)) == 1 else (parts[:-1], parts[-1])
    is_grouped = len(groups[0]) <= 3 and all(len(one) == 3 for one in groups[1:])
    marks_agree = len(set(used[: len(groups) - 1])) == 1 and set(used) <= {".", ","}
    if not is_grouped or not marks_agree:
        return parts
    return ["".join(groups) + (f".{decimals}" if decimals else "")]


def words(text: str) -> list[str]:
    """Return the words of a text, in order; of what a hyphen split the parts too."""
    return [word for held in sequences(text) for word in held]


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


def choices(value: str) -> list[str]:
    """Return what commas separate that are not in quotes."""
    found = [""]
    for at, piece in enumerate(value.split('"')):
        first, *more = [piece] if at % 2 else piece.split(",")
        found[-1] += f'"{first}"' if at % 2 else first
        found += more
    return [one for one in found if one]


_SOUGHT = re.compile(r'"([^"]*)"|(\d[\d.]*) (mg|ml|g)(?!\S)|(\S+)')


def fits_words(name: str, resource: Resource, value: str) -> bool:
    """Say whether all is there: words, beginnings with a star, "in quotes", numbers with units."""
    held = [found for text in told(name, resource) for found in sequences(text)]
    for quoted, number, unit, word in _SOUGHT.findall(value):
        text = quoted or (f"{number} {unit}" if unit else word)
        asked = sequence(text.removesuffix("*"))
        if not any(stands_in(asked, found, text.endswith("*")) for found in held):
            return False
    return True


def stands_in(asked: list[str], held: list[str], is_beginning: bool) -> bool:
    """Say whether words stand together in others; any piece of a run without spaces does."""
    last = len(asked) - 1

    def same(at: int, word: str) -> bool:
        sought = asked[at]
        if is_piecemeal(sought[0]):
            # Between other words the run is whole on that side.
            first_side = word.startswith(sought) if at else True
            last_side = word.endswith(sought) if at < last else True
            return sought in word and first_side and last_side
        return word.startswith(sought) if is_beginning and at == last else word == sought

    return any(
        all(same(at, word) for at, word in enumerate(held[start : start + len(asked)]))
        for start in range(len(held) - last)
    )


def sorted_by(kind: Date, resources: Iterable[Resource], *, down: bool) -> list[str]:
    """Return ids by a date: the least of several, down the greatest; those without one last.

    An end alone counts where there is no start. Of equals the id decides.
    """

    def value(one: Resource) -> datetime | None:
        ends = [
            start if start != FIRST else end - timedelta(milliseconds=1)
            for start, end in dates(kind, one)
            if (start, end) != (FIRST, LAST)
        ]
        return (max(ends) if down else min(ends)) if ends else None

    known = sorted(((value(one), one["id"]) for one in resources if value(one)), reverse=down)
    others = sorted((one["id"] for one in resources if not value(one)), reverse=down)
    return [found for _, found in known] + others


def picked(resources: Iterable[Resource], terms: Terms) -> list[str]:
    """Return the ids of those that fit every term: newest first, then by id from the end."""
    found = [one for one in resources if all(fits(name, one, value) for name, value in terms)]
    found.sort(key=lambda one: (one["meta"]["lastUpdated"], one["id"]), reverse=True)
    return [one["id"] for one in found]


# What a chain may search of the types that references lead to, beside KINDS.
TARGETS: dict[str, dict[str, Kind]] = {
    "Patient": {
        "identifier": Token(("identifier",), of_identifier=True),
        "family": String(("name.family",)),
        "gender": Token(("gender",), HL7 + "administrative-gender"),
        "birthdate": Date(("birthDate",)),
    },
    "Practitioner": {
        "identifier": Token(("identifier",), of_identifier=True),
        "family": String(("name.family",)),
    },
    "Organization": {"identifier": Token(("identifier",), of_identifier=True)},
    "Encounter": {"class": Token(("class",)), "date": Date(("period",))},
}


def fits_chain(
    name: str, resource: Resource, value: str, here: Mapping[str, Mapping[str, Resource]]
) -> bool:
    """Say whether what a reference leads to fits: `author:Practitioner.family`, as fits() does.

    here are the resources by type and id.
    """
    step, _, asked = name.partition(".")
    own, _, target_type = step.partition(":")
    kind = KINDS[resource["resourceType"]][own]
    asked, _, modifier = asked.partition(":")
    target_kind = TARGETS[target_type][asked]
    negated, modifier = (True, "") if modifier == "not" else (False, modifier)

    def has(target: Resource) -> bool:
        if modifier == "missing":
            held = bool(values_of(target_kind, target))
            return any((one == "true") != held for one in value.split(","))
        fit = _FITS[type(target_kind)]
        return any(fit(target_kind, modifier, target, one) for one in value.split(",")) != negated

    for reference in references(kind, resource):
        found_type, _, rest = reference.partition("/")
        target = here.get(found_type, {}).get(rest.partition("/_history/")[0])
        if found_type == target_type and target is not None and has(target):
            return True
    return False
