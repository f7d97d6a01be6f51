"""FHIR's datatypes in words: names, concepts, references, dates, periods, quantities.

Pages and `$summary` show a line of at most LONGEST characters, which ends in … where it was longer.
A generated narrative leaves nothing out: it passes longest=None.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from fhirapp.fhir import temporal
from fhirapp.fhir.terminology import ORIGINAL_TEXT, SEVERITY_TEXT, SNOMED_CT, is_unknown

Json = Mapping[str, Any]
HumanName = Json
Name = TypeVar("Name", bound=HumanName)

LONGEST = 300
# Bidirectional control characters, which reverse the text after them.
_DIRECTING = re.compile("[\u202a-\u202e\u2066-\u2069]")

# English, unless a page asks for another language.
_translate: ContextVar[Callable[[str], str]] = ContextVar("translate", default=str)
_language: ContextVar[str] = ContextVar("language", default="en")


@contextmanager
def in_words_of(translate: Callable[[str], str], language: str = "en") -> Iterator[None]:
    """Word the texts of this module in the language of a page, until the block ends."""
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
    """Return a text in the language of the page; values replace its %(name)s."""
    translated = _translate.get()(text)
    return translated % values if values else translated


def without_direction(text: str) -> str:
    """Return a text without bidirectional control characters."""
    return _DIRECTING.sub("", text)


def shortened(text: str, longest: int | None = LONGEST) -> str:
    """Return a text as a line of so many characters, then …; whole where longest is None."""
    if longest is None:
        return text
    line = " ".join(without_direction(text[: 4 * longest]).split())
    if len(line) > longest or len(text) > 4 * longest:
        return f"{line[:longest]}…"
    return line


def listed(texts: Sequence[str], most: int = 5) -> str:
    """Return texts as a sentence lists them: a, b and c; of many the first."""
    if len(texts) > most:
        more = len(texts) - most
        return worded("%(first)s and %(more)s more", first=", ".join(texts[:most]), more=more)
    *first, last = texts
    return worded("%(first)s and %(last)s", first=", ".join(first), last=last) if first else last


# FHIR R4 name-use, the name to show first; None is a name without a use.
_USES = ("official", "usual", None, "nickname", "temp", "anonymous", "maiden", "old")
_RANKS: Mapping[str | None, int] = {use: rank for rank, use in enumerate(_USES)}
_FORMER = frozenset({"maiden", "old"})
_CURRENT, _PAST, _FUTURE = range(3)


def names_in_order(names: Iterable[Name]) -> list[Name]:
    """Return the names that have words, the current one first.

    A name that is valid today precedes a former one, and that one a name of the future. Then
    the use decides, the later start, and the order of the resource.
    """
    now = temporal.to_milliseconds(temporal.now())
    return sorted(filter(human_name, names), key=lambda name: _rank(name, now))


def _rank(name: HumanName, now: int) -> tuple[int, int, int]:
    use = name.get("use")
    valid = temporal.period_interval(name.get("period", {}))
    if now < valid.low:
        time = _FUTURE
    else:
        time = _PAST if use in _FORMER or valid.high <= now else _CURRENT
    return time, _RANKS.get(use, len(_RANKS)), -valid.low


def current_name(names: Iterable[Name]) -> Name | None:
    """Return a person's current name; None where no name has words."""
    return next(iter(names_in_order(names)), None)


def human_name(name: HumanName, *, prefix: bool = True) -> str:
    """Return a name as people write it: its text, or prefix, given names, family name, suffix."""
    prefixes = name.get("prefix", ()) if prefix else ()
    parts = [*prefixes, *name.get("given", ()), name.get("family"), *name.get("suffix", ())]
    # A primitive that has only an extension is null in its list.
    return str(name.get("text") or " ".join(filter(None, parts)))


def name_of(resource: Json, *, prefix: bool = True) -> str:
    """Return the current name of a person, or the name of an Organization; "" without one."""
    name = resource.get("name") or ()
    return name if isinstance(name, str) else human_name(current_name(name) or {}, prefix=prefix)


def human_names(value: Iterable[HumanName], longest: int | None = LONGEST) -> str:
    """Return the names of a person in words, the current one first."""
    return shortened(", ".join(map(human_name, names_in_order(value))), longest)


# Code systems as people call them, by their addresses.
_SYSTEM_NAMES = {
    "http://snomed.info/sct": "SNOMED CT",
    "http://www.nlm.nih.gov/research/umls/rxnorm": "RxNorm",
    "http://loinc.org": "LOINC",
    "http://fdasis.nlm.nih.gov": "UNII",
    "http://hl7.org/fhir/sid/ndc": "NDC",
    "http://hl7.org/fhir/sid/cvx": "CVX",
    "http://www.whocc.no/atc": "ATC",
    "http://hl7.org/fhir/ndfrt": "NDF-RT",
    "http://va.gov/terminology/medrt": "MED-RT",
    "http://hl7.org/fhir/sid/icd-10": "ICD-10",
    "http://hl7.org/fhir/sid/icd-10-cm": "ICD-10-CM",
    "http://hl7.org/fhir/sid/icd-9-cm": "ICD-9-CM",
    "https://www.meddra.org": "MedDRA",
}


# The hierarchies of SNOMED CT, with which its fully specified names end.
_SEMANTIC_TAG = re.compile(
    r" \((?:substance|finding|disorder|product|medicinal product(?: form)?|clinical drug|situation"
    r"|procedure|regime/therapy|organism|morphologic abnormality|observable entity|event"
    r"|physical object|physical force|qualifier value|body structure|record artifact|environment"
    r"|social concept|specimen)\)$"
)


def without_semantic_tag(text: str, codings: Iterable[Json]) -> str:
    """Return the words of a concept; with a code of SNOMED CT without its semantic tag."""
    if any(coding.get("system") == SNOMED_CT for coding in codings):
        return _SEMANTIC_TAG.sub("", text)
    return text


def concept(value: Json | None, longest: int | None = LONGEST) -> str:
    """Return a CodeableConcept in words: its text, else its first display, else its first code.

    A line leaves out the semantic tag of a name of SNOMED CT, such as "(substance)".
    """
    value = value or {}
    codings = value.get("coding", ())
    displays = (
        coding["display"]
        for coding in codings
        if coding.get("display") and coding["display"] != coding.get("code")
    )
    codes = (code_with_system(coding) for coding in codings if coding.get("code"))
    text = str(value.get("text") or next(chain(displays, codes), ""))
    return shortened(text if longest is None else without_semantic_tag(text, codings), longest)


def code_with_system(coding: Json) -> str:
    """Return a code, with the name of its system if it has digits, which say nothing alone."""
    code, system = str(coding["code"]), coding.get("system")
    if not any(map(str.isdigit, code)):
        return code
    return f"{_SYSTEM_NAMES.get(system, system) if system else 'code'} {code}"


def concepts(values: Iterable[Json] | None, longest: int | None = LONGEST) -> str:
    """Return CodeableConcepts in words."""
    return ", ".join(filter(None, (concept(value, longest) for value in values or ())))


def encounter(resource: Json) -> str:
    """Return the kind of an Encounter: a type in words, else its class, else a code."""
    of_class = {"text": (resource.get("class") or {}).get("display")}
    kinds = [*resource.get("type", ()), of_class]
    codings = ([{"display": kind.get("text")}, *kind.get("coding", ())] for kind in kinds)
    return concept({"coding": [*chain.from_iterable(codings)]})


def reference(value: Json | None, within: Json | None = None, longest: int | None = LONGEST) -> str:
    """Return what a Reference names: its display, the name of what within contains, its address.

    Without any of these it is the value of its identifier, or empty.
    """
    if not value:
        return ""
    address = str(value.get("reference") or "")
    if display := value.get("display"):
        return shortened(str(display), longest)
    for resource in (within or {}).get("contained", ()):
        if address == f"#{resource.get('id')}":
            return shortened(name_of(resource), longest) or worded("name not recorded")
    identifier = value.get("identifier") or {}
    return shortened(address or str(identifier.get("value") or ""), longest)


def references(
    values: Iterable[Json] | None, within: Json | None = None, longest: int | None = LONGEST
) -> str:
    """Return References in words."""
    texts = (reference(value, within, longest) for value in values or ())
    return ", ".join(filter(None, texts))


_DAY, _MONTH = worded("%(day)s %(month)s %(year)s"), worded("%(month)s %(year)s")


def day(
    value: str, months: Sequence[str] = temporal.MONTHS, translate: Callable[..., str] = worded
) -> str:
    """Return the day of a date or dateTime at the clinic: 2 June 1974, June 1974, 1974."""
    year, *rest = temporal.day_of(value).split("-")
    if not rest:
        return year
    month = translate(months[int(rest[0]) - 1])
    if len(rest) == 1:
        return translate(_MONTH, month=month, year=year)
    return translate(_DAY, day=int(rest[1]), month=month, year=year)


def when(value: str | None) -> str:
    """Return a date or dateTime by its day; an instant names the clinic's zone: 2 June 2024 CDT."""
    if not value:
        return ""
    then = temporal.local_of(value)
    return f"{day(value)} {temporal.zone_name(then)}" if then else day(value)


def period(value: Json, longest: int | None = LONGEST) -> str:
    """Return a Period with its ends as FHIR writes them."""
    return shortened(f"{value.get('start', '…')} to {value.get('end', '…')}", longest)


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


def quantity(value: Json) -> str:
    """Return a Quantity: comparator, value and unit; empty without a value."""
    number, unit = value.get("value"), value.get("unit") or value.get("code") or ""
    if number is None:
        return ""
    if value.get("system") == "http://unitsofmeasure.org" and value.get("code") in _AGES:
        unit = value["code"]
    unit = worded(_AGES[unit]) if unit in _AGES else unit
    return shortened(f"{value.get('comparator') or ''}{number} {unit}")


def onset(resource: Json) -> str:
    """Return the onset of an allergy, of any of its types."""
    if value := resource.get("onsetDateTime"):
        return when(value)
    if value := resource.get("onsetPeriod"):
        return _between(when(value.get("start")), when(value.get("end")))
    if value := resource.get("onsetAge"):
        age = quantity(value)
        return worded("at the age of %(age)s", age=age) if age else ""
    if value := resource.get("onsetRange"):
        ages = _between(quantity(value.get("low") or {}), quantity(value.get("high") or {}))
        return worded("at the age %(ages)s", ages=ages) if ages else ""
    return shortened(resource.get("onsetString") or "")


_UNKNOWN_SEVERITY = 2


class ReactionWords(NamedTuple):
    """A reaction: its manifestations, its severity (a code, or empty), its onset.

    description is the source's text beside the manifestations; severity_text is the severity in the
    source's own words, if these say more than the code. grave has the life-threatening
    manifestations, with which text begins; they are not shortened.
    """

    text: str
    severity: str
    onset: str
    description: str = ""
    severity_text: str = ""
    grave: Sequence[str] = ()


def reactions(
    resource: Json, is_grave: Callable[[Json], bool] = lambda _concept: False
) -> Sequence[ReactionWords]:
    """Return the reactions: life-threatening ones by is_grave first, then by severity."""
    words = [_reaction(reaction, is_grave) for reaction in resource.get("reaction", ())]
    return sorted(
        words, key=lambda reaction: (not reaction.grave, severity_rank(reaction.severity))
    )


def reactions_in_words(reactions: Iterable[ReactionWords]) -> str:
    """Return reactions as a line: Hives · on the trunk (mild, 2 June 1974); Nausea (severe)."""
    return "; ".join(map(_line, reactions)) or worded("reaction not recorded")


def _line(reaction: ReactionWords) -> str:
    text = " · ".join(filter(None, (reaction.text, reaction.description)))
    severity = severity_in_words(reaction.severity, reaction.severity_text)
    grade = severity or worded("severity not recorded")
    day = f", {reaction.onset}" if reaction.onset else ""
    return f"{text or worded('reaction not recorded')} ({grade}{day})"


def severity_in_words(code: str, text: str) -> str:
    """Return a severity by its code and the source's own words: severe, “life-threatening”."""
    return ", ".join(filter(None, (worded(code) if code else "", f"“{text}”" if text else "")))


def severity_rank(severity: str) -> int:
    """Return the sort key of a severity; an unknown one comes before a mild one."""
    return {"severe": 0, "moderate": 1, "mild": 3}.get(severity, _UNKNOWN_SEVERITY)


def _reaction(reaction: Json, is_grave: Callable[[Json], bool]) -> ReactionWords:
    manifestations = reaction.get("manifestation", ())
    description = shortened(reaction.get("description") or "")
    if description and all(map(is_unknown, manifestations)):
        manifestations, description = [{"text": description}], ""
    grave = [concept(manifestation) for manifestation in manifestations if is_grave(manifestation)]
    others = filter(None, map(concept, manifestations))
    rest = shortened(", ".join(text for text in others if text not in grave))
    return ReactionWords(
        ", ".join(filter(None, (*grave, rest))),
        reaction.get("severity") or "",
        when(reaction.get("onset")),
        description,
        severity_words(reaction),
        grave,
    )


def severity_words(reaction: Json) -> str:
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
