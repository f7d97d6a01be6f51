"""Code systems that the server writes or binds to, and parts of resources in words.

Long texts are shortened and end in ….
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from fhirapp.fhir import names, narrative, temporal

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


LONGEST = 300
# They turn around what is written after them, in a sentence as in a line of a table.
_DIRECTING = re.compile("[\u202a-\u202e\u2066-\u2069]")
_NOT_TOLD = 2


# English, but where a page shows the words in another language.
_translate: ContextVar[Callable[[str], str]] = ContextVar("translate", default=str)
_language: ContextVar[str] = ContextVar("language", default="en")


@contextmanager
def in_words_of(translate: Callable[[str], str], language: str = "en") -> Iterator[None]:
    """Word what is told of allergies here in the language of a page."""
    token, token_of_language = _translate.set(translate), _language.set(language)
    try:
        yield
    finally:
        _translate.reset(token)
        _language.reset(token_of_language)


def language() -> str:
    """Return the language that texts are worded in: en, de."""
    return _language.get()


def worded(text: str, /, **values: Any) -> str:
    """Return a text; values fill in what stands as %(name)s."""
    translated = _translate.get()(text)
    return translated % values if values else translated


class ReactionWords(NamedTuple):
    """A reaction: what happened, how severe (a code, or empty), since when.

    description is what the source says beside the manifestation; severity_text is the severity in
    the source's own words, where these say more than the code.
    """

    text: str
    severity: str
    onset: str
    description: str = ""
    severity_text: str = ""


def without_direction(text: str) -> str:
    """Return a text without the control characters that turn the direction of writing."""
    return _DIRECTING.sub("", text)


def shortened(text: str, longest: int = LONGEST) -> str:
    """Return a text of one line, and of a length that a person reads."""
    line = " ".join(without_direction(text[: 4 * longest]).split())
    if len(line) > longest or len(text) > 4 * longest:
        return f"{line[:longest]}…"
    return line


def concept(value: Mapping[str, Any]) -> str:
    """Return a CodeableConcept in words, empty where nothing is told."""
    return shortened(narrative.concept(value))


def when(value: str | None) -> str:
    """Return a date or dateTime by its day: 2 June 1974, June 1974, 1974; or nothing.

    The day of an instant is that of the clinic's zone, and names it: 2 June 2024 CDT.
    """
    if not value:
        return ""
    if then := temporal.local_of(value):
        return f"{when(then.date().isoformat())} {temporal.zone_name(then)}"
    year, *rest = (int(part) for part in value[:10].split("-"))
    if not rest:
        return f"{year:04}"
    month = worded(temporal.MONTHS[rest[0] - 1])
    if len(rest) == 1:
        return worded("%(month)s %(year)s", month=month, year=f"{year:04}")
    return worded("%(day)s %(month)s %(year)s", day=rest[1], month=month, year=f"{year:04}")


def reference(value: Mapping[str, Any] | None, within: Mapping[str, Any] | None = None) -> str:
    """Return whom a Reference names, also one that within contains; empty where it names nobody."""
    if not value:
        return ""
    address = str(value.get("reference") or "")
    if display := value.get("display"):
        return shortened(str(display))
    for resource in (within or {}).get("contained", ()):
        if address == f"#{resource.get('id')}":
            return _named(resource)
    identifier = value.get("identifier") or {}
    return shortened(address or str(identifier.get("value") or ""))


def _named(resource: Mapping[str, Any]) -> str:
    """Return the name of a person or organization."""
    name = resource.get("name")
    text = name if isinstance(name, str) else names.name_of(resource)
    return shortened(text) or worded("name not recorded")


def onset(resource: Mapping[str, Any]) -> str:
    """Return when an allergy began, in whichever way it is told."""
    if value := resource.get("onsetDateTime"):
        return when(value)
    if value := resource.get("onsetPeriod"):
        return _between(when(value.get("start")), when(value.get("end")))
    if value := resource.get("onsetAge"):
        age = _quantity(value)
        return worded("at the age of %(age)s", age=age) if age else ""
    if value := resource.get("onsetRange"):
        ages = _between(_quantity(value.get("low") or {}), _quantity(value.get("high") or {}))
        return worded("at the age %(ages)s", ages=ages) if ages else ""
    return shortened(resource.get("onsetString") or "")


def reactions(resource: Mapping[str, Any]) -> Sequence[ReactionWords]:
    """Return the reactions, the most severe first."""
    words = [_reaction(reaction) for reaction in resource.get("reaction", ())]
    return sorted(words, key=lambda reaction: severity_rank(reaction.severity))


def severity_rank(severity: str) -> int:
    """Return what severities are sorted by; one that is not told comes before a mild one."""
    return {"severe": 0, "moderate": 1, "mild": 3}.get(severity, _NOT_TOLD)


def listed(texts: Sequence[str], most: int = 5) -> str:
    """Return texts as a sentence lists them: a, b and c; of many the first."""
    if len(texts) > most:
        more = len(texts) - most
        return worded("%(first)s and %(more)s more", first=", ".join(texts[:most]), more=more)
    *first, last = texts
    return worded("%(first)s and %(last)s", first=", ".join(first), last=last) if first else last


def _reaction(reaction: Mapping[str, Any]) -> ReactionWords:
    manifestations = reaction.get("manifestation", ())
    description = shortened(reaction.get("description") or "")
    if description and all(map(is_unknown, manifestations)):
        text, description = description, ""
    else:
        text = shortened(", ".join(filter(None, map(concept, manifestations))))
    return ReactionWords(
        text,
        reaction.get("severity") or "",
        when(reaction.get("onset")),
        description,
        severity_words(reaction),
    )


def is_unknown(manifestation: Mapping[str, Any]) -> bool:
    """Say whether a manifestation only says that it is not known."""
    return not manifestation.get("text") and all(
        coding.get("system") == NULL_FLAVOR or coding.get("code") == UNKNOWN_REACTION
        for coding in manifestation.get("coding", ())
    )


def severity_words(reaction: Mapping[str, Any]) -> str:
    """Return the words that the source has for a severity, beside or without a code; or ""."""
    # An originalText of the whole reaction is no severity.
    extensions = (
        ((reaction.get("_severity") or {}).get("extension", ()), ORIGINAL_TEXT),
        (reaction.get("extension", ()), SEVERITY_TEXT),
    )
    for listed_extensions, url in extensions:
        for extension in listed_extensions:
            if extension.get("url") == url and extension.get("valueString"):
                return shortened(str(extension["valueString"]))
    return ""


def strings(element: Any) -> Iterator[str]:
    """Yield every string in a resource, or a part of it."""
    if isinstance(element, str):
        yield element
    elif isinstance(element, Mapping):
        for value in element.values():
            yield from strings(value)
    elif isinstance(element, list):
        for value in element:
            yield from strings(value)


def _between(low: str, high: str) -> str:
    if low and high:
        return worded("from %(low)s to %(high)s", low=low, high=high)
    if low:
        return worded("from %(low)s", low=low)
    return worded("until %(high)s", high=high) if high else ""


# UCUM's codes, which stand as units too. FHIR R4 valueset-age-units.
_AGES = {
    "a": worded("years"),
    "mo": worded("months"),
    "wk": worded("weeks"),
    "d": worded("days"),
    "h": worded("hours"),
    "min": worded("minutes"),
}


def _quantity(value: Mapping[str, Any]) -> str:
    number, unit = value.get("value"), value.get("unit") or value.get("code") or ""
    if number is None:
        return ""
    unit = worded(_AGES[unit]) if unit in _AGES else unit
    return shortened(f"{value.get('comparator') or ''}{number} {unit}")
