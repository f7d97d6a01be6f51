"""What the code of an AllergyIntolerance says: an allergy, none known, not asked, no information.

Three rules hold here and in all that reads or makes these entries:

1. Never milder than the source. Where two places of it differ, the graver one counts, and the
   difference is shown. Whatever is not plainly an absence is an allergy: to take an allergy for
   "none known" hurts, the other way round it is read again.
2. Words count. What a text, a name, a narrative or a local code says is kept and shown.
3. Absence is not an answer. "Not asked", "no information", "nothing recorded" (there is no entry),
   "none known", and words that no coded entry holds, are five different things.

Sources: IPS 1.1, absent or unknown allergies; service.md 2.3; decisions 2.19: NI never means "no
allergy".
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple

from fhirapp.fhir import terminology
from fhirapp.fhir.terminology import concept, shortened
from fhirapp.search.string import fold

Resource = Mapping[str, Any]

ABSENT_UNKNOWN = "http://hl7.org/fhir/uv/ips/CodeSystem/absent-unknown-uv-ips"
EXPOSURE_RISK = "http://hl7.org/fhir/StructureDefinition/allergyintolerance-substanceExposureRisk"
_REASON = "http://terminology.hl7.org/CodeSystem/data-absent-reason"
# The code of the Allergies section of a clinical document. An entry that has it instead of a
# substance holds words of that section which no coded entry holds.
SECTION = {
    "system": "http://loinc.org",
    "code": "48765-2",
    "display": "Allergies and adverse reactions Document",
}


class Kind(Enum):
    """What an entry says."""

    ALLERGY = "allergy"
    NONE_KNOWN = "none-known"
    NO_INFORMATION = "no-information"
    NOT_ASKED = "not-asked"
    # Only words of a document: what they say is for a person to read.
    WORDS_ONLY = "words-only"


class About(Enum):
    """Of what no allergy is known, or nothing is."""

    ANY = "any"
    DRUG = "medication"
    FOOD = "food"
    ENVIRONMENT = "environment"
    OTHER = "other"


class Said(NamedTuple):
    """What an entry says; is_mixed where it says that none is known and something else too."""

    kind: Kind
    about: About = About.ANY
    is_mixed: bool = False


_CODES: Mapping[tuple[str, str], Said] = {
    (terminology.SNOMED_CT, "716186003"): Said(Kind.NONE_KNOWN),
    # Retired from SNOMED CT, not from records.
    (terminology.SNOMED_CT, "160244002"): Said(Kind.NONE_KNOWN),
    (terminology.SNOMED_CT, terminology.NO_KNOWN_DRUG_ALLERGY): Said(Kind.NONE_KNOWN, About.DRUG),
    (terminology.SNOMED_CT, "429625007"): Said(Kind.NONE_KNOWN, About.FOOD),
    (terminology.SNOMED_CT, "428607008"): Said(Kind.NONE_KNOWN, About.ENVIRONMENT),
    (ABSENT_UNKNOWN, "no-known-allergies"): Said(Kind.NONE_KNOWN),
    (ABSENT_UNKNOWN, "no-known-medication-allergies"): Said(Kind.NONE_KNOWN, About.DRUG),
    (ABSENT_UNKNOWN, "no-known-food-allergies"): Said(Kind.NONE_KNOWN, About.FOOD),
    (ABSENT_UNKNOWN, "no-known-environmental-allergies"): Said(Kind.NONE_KNOWN, About.ENVIRONMENT),
    (ABSENT_UNKNOWN, "no-allergy-info"): Said(Kind.NO_INFORMATION),
    # Not OTH and MSK: there is an allergy, which is not told.
    **{
        (terminology.NULL_FLAVOR, code): Said(Kind.NO_INFORMATION)
        for code in ("NI", "UNK", "ASKU", "NAV")
    },
    (terminology.NULL_FLAVOR, "NASK"): Said(Kind.NOT_ASKED),
    **{
        (_REASON, code): Said(Kind.NO_INFORMATION)
        for code in ("unknown", "asked-unknown", "temp-unknown", "asked-declined")
    },
    (_REASON, "not-asked"): Said(Kind.NOT_ASKED),
    (SECTION["system"], SECTION["code"]): Said(Kind.WORDS_ONLY),
}
# Words, folded, that local codes and texts say it with; the whole text must be one of them.
_ABBREVIATED = {
    "nka": About.ANY,
    "nkda": About.DRUG,
    "nkma": About.DRUG,
    "nkfa": About.FOOD,
    "nkea": About.ENVIRONMENT,
}
_OF = {
    "drug": About.DRUG,
    "drugs": About.DRUG,
    "medication": About.DRUG,
    "medications": About.DRUG,
    "medicine": About.DRUG,
    "food": About.FOOD,
    "foods": About.FOOD,
    "environmental": About.ENVIRONMENT,
}
_NONE_KNOWN = re.compile(
    r"no known (?:(?P<of>[a-z]+) )?allerg(?:y|ies)(?: \((?P<short>nk[a-z]{1,3}))?"
    r"|no allergies|no (?:known )?allergies to (?P<to>drugs|medications?|foods?)"
)
_NOTHING = frozenset({"no information", "unknown", "not known", "unk", "no allergy information"})
# Names that only hold the place of one. They are shown where nothing else is recorded, and never
# make two entries the same.
_PLACEHOLDER = re.compile(
    r"(?:coded |the |an? )?(?:allerg(?:y|en|ies)|substance|agent|drug|medication|product)?"
    r"\s*(?:name|code|description|display|information|data|value|text)?\s*"
    r"(?:is |was )?(?:not|un)[ -]?(?:available|known|recorded|specified|coded|found|listed|mapped"
    r"|entered|provided|documented|defined)(?: (?:allerg(?:y|en)|substance|agent|drug|medication))?"
    r"|(?:no )(?:name|code|description|display|information|data)(?: available| recorded)?"
    r"|other(?: (?:allerg(?:y|en)|substance|drug|medication))?(?: \(?(?:see|specify).*)?"
    r"|see (?:comments?|notes?|narrative|text|below|remarks?|description)"
    r"|(?:free ?text|uncoded|miscellaneous|misc|generic)(?: (?:allerg(?:y|en)|entry|substance))?"
    r"|allerg(?:y|en|ies)(?: (?:to )?(?:substance|intolerance))?|substance|n/?a|unk|null|tbd|\W*"
)
# What stands around a text and changes nothing of it.
_AROUND = re.compile(r"\s*\((?:situation|finding)\)|^[\s(\[]+|[\s)\].]+$")
# Beside a code that says it, a text that begins so says it too, in words of its own.
_DENIES = re.compile(
    r"(?:no|not|none|nil|n/?a|nk[a-z]{1,3}|denie[sd]|denying|negative|without|never|unknown)\b"
)
_BUT = re.compile(r"\b(?:except|but|besides|apart|other than|only)\b")
# Nobody writes these where nothing is known, or none: then there is an allergy, whatever the code.
_OF_AN_ALLERGY = (
    *("reaction", "modifierExtension", "lastOccurrence", "type"),
    *("onsetDateTime", "onsetAge", "onsetPeriod", "onsetRange", "onsetString"),
)
_TELLING: Mapping[Kind, Sequence[str]] = {
    Kind.NONE_KNOWN: ("reaction", "modifierExtension"),
    Kind.NO_INFORMATION: _OF_AN_ALLERGY,
    Kind.NOT_ASKED: _OF_AN_ALLERGY,
    Kind.WORDS_ONLY: _OF_AN_ALLERGY,
}
_TELLING_CRITICALITY: Mapping[Kind, Sequence[str]] = {
    Kind.NONE_KNOWN: ("high",),
    Kind.NO_INFORMATION: ("low", "high"),
    Kind.NOT_ASKED: ("low", "high"),
    Kind.WORDS_ONLY: ("low", "high"),
}


def what_is_said(resource: Resource) -> Said:
    """Return what an entry says."""
    if exposure := _exposure(resource):
        risk, _ = exposure
        return Said(Kind.NONE_KNOWN, About.OTHER) if risk == _NO_RISK else Said(Kind.ALLERGY)
    found = _statements(resource.get("code") or {})
    said = next(filter(None, found), None)
    if said is None:
        return Said(Kind.ALLERGY)
    kinds = {one.kind for one in found if one}
    if Kind.WORDS_ONLY in kinds:
        return _in_words(resource, kinds)
    if None in found or any(_tells(resource, kind) for kind in kinds):
        return Said(Kind.ALLERGY, is_mixed=Kind.NONE_KNOWN in kinds)
    # Of several, what leaves most open: nothing is known, before none is.
    for open_kind in (Kind.NOT_ASKED, Kind.NO_INFORMATION):
        if open_kind in kinds:
            return Said(open_kind, is_mixed=Kind.NONE_KNOWN in kinds)
    # "No known drug allergy" beside "no known allergy" says the narrower.
    narrower = {one.about for one in found if one} - {About.ANY}
    if len(narrower) > 1:
        return Said(Kind.NONE_KNOWN, About.OTHER, is_mixed=True)
    return Said(Kind.NONE_KNOWN, next(iter(narrower), About.ANY))


def _in_words(resource: Resource, kinds: set[Kind]) -> Said:
    """Return what an entry says that holds the words of a section: an absence if they are one."""
    if any(_tells(resource, kind) for kind in kinds):
        return Said(Kind.ALLERGY)
    said = _of_words(str((resource.get("code") or {}).get("text") or ""))
    return said or Said(Kind.WORDS_ONLY)


def substance(resource: Resource) -> Mapping[str, Any]:
    """Return the CodeableConcept of what an entry is about; empty where it is not told.

    "No information" beside a reaction only stands where a code is missing.
    """
    if exposure := _exposure(resource):
        return exposure[1]
    code = resource.get("code") or {}
    found = _statements(code)
    is_nothing = all(one is not None and one.kind in _NOTHING_KNOWN for one in found)
    if is_nothing and what_is_said(resource).kind is Kind.ALLERGY:
        named = [one["substance"] for one in resource.get("reaction", ()) if one.get("substance")]
        return named[0] if named and all(one == named[0] for one in named) else {}
    return code


def coded_as(about: Mapping[str, Any]) -> list[str]:
    """Return what the codes of a substance are called where its words say it otherwise.

    A code that nothing names is told with its system: its digits alone say nothing.
    """
    said = _plain(concept(about))
    codings = [
        one
        for one in about.get("coding", ())
        if one.get("system") not in _ABSENT and one.get("code") != SECTION["code"]
    ]
    names = [shortened(one["display"]) for one in codings if one.get("display")]
    if not names and not about.get("text"):
        names = [f"{one['system']}|{one['code']}" for one in codings if _is_whole(one)]
    differing = {_plain(one): one for one in reversed(names) if _plain(one) not in ("", said)}
    return list(reversed(differing.values()))


_ABSENT = frozenset({terminology.NULL_FLAVOR, _REASON})
_NOTHING_KNOWN = (Kind.NO_INFORMATION, Kind.NOT_ASKED)


def is_placeholder(name: str) -> bool:
    """Say whether a name only holds the place of one: "Coded Allergy Name Not Available"."""
    return len(name) <= _LONGEST and _PLACEHOLDER.fullmatch(fold(name)) is not None


def about_none_known(words: str) -> About | None:
    """Return of what words say that no allergy is known; None where they do not say that."""
    found = _of_words(words)
    return found.about if found is not None and found.kind is Kind.NONE_KNOWN else None


def keys(about: Mapping[str, Any]) -> frozenset[str]:
    """Return what tells that two entries are about the same: their codes, and their words."""
    codings = [one for one in about.get("coding", ()) if one.get("system") not in _ABSENT]
    coded = {f"{one.get('system', '')}|{one['code']}" for one in codings if one.get("code")}
    texts = [about.get("text"), *(one.get("display") for one in codings)]
    named = {fold(shortened(text)) for text in texts if text and not is_placeholder(text)}
    return frozenset(coded | (named - {""}))


def _is_whole(coding: Mapping[str, Any]) -> bool:
    return bool(coding.get("system") and coding.get("code"))


def _plain(text: str) -> str:
    """Return a name without case, accents, and the kind of thing that SNOMED CT puts behind it."""
    return _KIND.sub("", fold(text)).strip()


_KIND = re.compile(r"\s*\([a-z ]+\)$")


def is_denial(about: Mapping[str, Any]) -> bool:
    """Say whether what is told as a substance begins as if there were none, such as "denies"."""
    return bool(_DENIAL.match(fold(concept(about)).lstrip(" ([")))


_DENIAL = re.compile(r"(?:no|not|none|nil|n/a|nk[a-z]{1,3}|denie[sd]|denying)(?=[\s.,;:()]|$)")


def _statements(code: Mapping[str, Any]) -> list[Said | None]:
    """Return what each coding and the text of a code say; None for a substance."""
    codings = [one for one in code.get("coding", ()) if "code" in one or "display" in one]
    found = [_of_coding(one) for one in codings]
    if text := code.get("text"):
        said = _of_text(text, next(filter(None, found), None))
        if said and said.kind is Kind.NONE_KNOWN and all(map(_is_silent, codings)):
            # A nullFlavor says that there is no code; the text says why there is none.
            return [said]
        found.append(said)
    return found


def _is_silent(coding: Mapping[str, Any]) -> bool:
    return coding.get("system") == terminology.NULL_FLAVOR and coding.get("code") in _UNCODED


_UNCODED = frozenset({"NI", "UNK", "NAV", "NA", "OTH", "UNC"})


def _tells(resource: Resource, kind: Kind) -> bool:
    """Say whether an entry tells of an allergy, though its code says this."""
    if any(resource.get(name) for name in _TELLING[kind]):
        return True
    return resource.get("criticality") in _TELLING_CRITICALITY[kind]


def _of_coding(coding: Mapping[str, Any]) -> Said | None:
    said = _CODES.get((coding.get("system", ""), coding.get("code", "")))
    if said is not None:
        return said
    if coding.get("system") in _SUBSTANCES:
        return None
    for words in (coding.get("display"), coding.get("code")):
        if words and (found := _of_words(words)):
            return found
    return None


# Their other codes are substances, whatever somebody wrote beside them.
_SUBSTANCES = frozenset(
    {
        "http://www.nlm.nih.gov/research/umls/rxnorm",
        "http://fdasis.nlm.nih.gov",
        "http://hl7.org/fhir/sid/ndc",
        "http://hl7.org/fhir/sid/cvx",
        "http://www.whocc.no/atc",
    }
)


def _of_text(text: str, beside: Said | None) -> Said | None:
    """Return what a text says; that of the code beside it, where it denies in words of its own."""
    said = _of_words(text)
    if said is None and beside is not None and len(text) < _LONGEST:
        words = fold(text)
        return beside if _DENIES.match(words) and not _BUT.search(words) else None
    return said


_LONGEST = 200


def _of_words(text: str) -> Said | None:
    if len(text) > _LONGEST:
        return None
    words = _AROUND.sub("", fold(text))
    if words == "not asked":
        return Said(Kind.NOT_ASKED)
    if words in _ABBREVIATED:
        return Said(Kind.NONE_KNOWN, _ABBREVIATED[words])
    if words in _NOTHING:
        return Said(Kind.NO_INFORMATION)
    if found := _NONE_KNOWN.fullmatch(words):
        of = found["of"] or found["to"]
        about = _OF.get(of, About.OTHER) if of else About.ANY
        if (short := found["short"]) and _ABBREVIATED.get(short) is not about:
            return None
        return Said(Kind.NONE_KNOWN, about)
    return None


_NO_RISK = "no-known-reaction-risk"


def _exposure(resource: Resource) -> tuple[str, Mapping[str, Any]] | None:
    """Return risk and substance of R4's extension that stands instead of the code."""
    for one in resource.get("extension", ()):
        if one.get("url") != EXPOSURE_RISK:
            continue
        parts = {part.get("url"): part for part in one.get("extension", ())}
        codings = parts.get("exposureRisk", {}).get("valueCodeableConcept", {}).get("coding", ())
        risks = {coding.get("code") for coding in codings}
        named = parts.get("substance", {}).get("valueCodeableConcept", {})
        if named:
            return (_NO_RISK if risks == {_NO_RISK} else "", named)
    return None
