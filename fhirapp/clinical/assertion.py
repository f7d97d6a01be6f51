"""What an AllergyIntolerance asserts: an allergy, none known, not asked, no information.

Three rules hold here and wherever these entries are read or made:

1. Never milder than the source. Where two places of it differ, the graver one counts, and the
   difference is shown. Whatever is not plainly an absence is an allergy: an allergy taken for
   "none known" harms the patient, the opposite is only read again.
2. Words count. A text, a name, a narrative or a local code is kept and shown.
3. Absence is not an answer. "Not asked", "no information", "nothing recorded" (there is no entry),
   "none known", and words that no coded entry holds, are five different things.

Sources: IPS 1.1, absent or unknown allergies; service.md 2.3; decisions 2.19: NI never means "no
allergy".
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.clinical.severity import described_severely
from fhirapp.fhir import terminology
from fhirapp.fhir.words import code_with_system, concept, shortened, without_semantic_tag
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


class AssertionKind(Enum):
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


class Assertion(NamedTuple):
    """What an entry says; is_mixed: that none is known, and something else too."""

    kind: AssertionKind
    about: About = About.ANY
    is_mixed: bool = False


_NONE, _NO_INFO = AssertionKind.NONE_KNOWN, AssertionKind.NO_INFORMATION
_SNOMED_CT, _NULL = terminology.SNOMED_CT, terminology.NULL_FLAVOR
_CODES: Mapping[tuple[str, str], Assertion] = {
    (system, code): Assertion(kind, about)
    for kind, about, system, codes in (
        # 160244002 is retired from SNOMED CT, not from records.
        (_NONE, About.ANY, _SNOMED_CT, ("716186003", "160244002")),
        (_NONE, About.DRUG, _SNOMED_CT, (terminology.NO_KNOWN_DRUG_ALLERGY,)),
        (_NONE, About.FOOD, _SNOMED_CT, ("429625007",)),
        (_NONE, About.ENVIRONMENT, _SNOMED_CT, ("428607008",)),
        (_NONE, About.ANY, ABSENT_UNKNOWN, ("no-known-allergies",)),
        (_NONE, About.DRUG, ABSENT_UNKNOWN, ("no-known-medication-allergies",)),
        (_NONE, About.FOOD, ABSENT_UNKNOWN, ("no-known-food-allergies",)),
        (_NONE, About.ENVIRONMENT, ABSENT_UNKNOWN, ("no-known-environmental-allergies",)),
        (_NO_INFO, About.ANY, ABSENT_UNKNOWN, ("no-allergy-info",)),
        # Not OTH and MSK: there is an allergy, to something that is not disclosed.
        (_NO_INFO, About.ANY, _NULL, ("NI", "UNK", "ASKU", "NAV", "NA")),
        (AssertionKind.NOT_ASKED, About.ANY, _NULL, ("NASK",)),
        (
            *(_NO_INFO, About.ANY, _REASON),
            ("unknown", "asked-unknown", "temp-unknown", "asked-declined"),
        ),
        (AssertionKind.NOT_ASKED, About.ANY, _REASON, ("not-asked",)),
        (AssertionKind.WORDS_ONLY, About.ANY, SECTION["system"], (SECTION["code"],)),
    )
    for code in codes
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
# The same in German, French, Spanish, Italian, Portuguese and Dutch: of what, and the rest.
_NONE_OF = (
    (
        About.DRUG,
        re.compile(
            r"(?:arzneimittel|medikamenten?|geneesmiddel(?:en)?|medicatie)-?(?=allerg)"
            r"| (?:medicamenteuses?|medicamentosas?|farmacologic(?:a|he)|a (?:los )?medicamentos"
            r"|a(?:i)? farmaci|aux medicaments|gegen (?:medikamente|arzneimittel))"
        ),
    ),
    (
        About.FOOD,
        re.compile(
            r"(?:nahrungsmittel|lebensmittel|voedsel)-?(?=allerg)"
            r"| (?:alimentaires?|alimentarias?|alimentar[ei]s?|a (?:los )?alimentos)"
        ),
    ),
)
_NONE_ELSEWHERE = re.compile(
    r"(?:es (?:sind|ist) )?keine?(?: bekannten?)? allergien?(?: bekannt)?"
    r"|(?:aucune|pas d.|sans) ?allergies?(?: connues?)?"
    r"|(?:ninguna|no (?:se conocen|hay|refiere|tiene)|sin) alergias?(?: conocidas?)?"
    r"|alergias? (?:no conocidas?|nao conhecidas?)"
    r"|(?:nessuna|non note|nessun.) ?allergi[ae](?: not[ae]| conosciut[ae])?"
    r"|(?:nenhuma|sem|nega) alergias?(?: conhecidas?)?"
    r"|geen(?: bekende)? allergie(?:en)?(?: bekend)?"
)
_NOTHING = frozenset({"no information", "unknown", "not known", "unk", "no allergy information"})
_NO_INFORMATION = re.compile(
    r"(?:there is )?no (?:allerg(?:y|ies) )?(?:information|data)(?: is)?(?: (?:available|recorded"
    r"|provided|given|on file))?(?: (?:about|on|of|for|regarding|concerning) (?:(?:known|any|the"
    r"|drug|food|patient.?s) )*allerg(?:y|ies))?(?: (?:is )?(?:available|recorded|on file))?"
    r"|keine (?:angaben?|informationen?)(?: (?:zu|uber) allergien)?"
    r"|(?:pas d.|aucune) ?informations?(?: sur les allergies)?"
    r"|(?:sin|no hay) informacion(?: sobre alergias)?|nessuna informazione(?: sulle allergie)?"
    r"|sem informac(?:ao|oes)(?: sobre alergias)?|geen informatie(?: over allergieen)?"
)
# Substance names that mean "no information".
_NO_NAMES = frozenset(
    {
        *("na", "n/a", "n.a", "n. a", "n-a", "none", "nil", "nothing", "no", "null", "tbd"),
        *("not applicable", "not available", "not specified", "not stated", "none recorded"),
        *("none stated", "unbekannt", "keine", "keiner", "keines", "entfallt", "inconnu"),
        *("inconnue", "aucun", "aucune", "neant", "desconocido", "desconocida", "ninguno"),
        *("ninguna", "sconosciuto", "sconosciuta", "nessuno", "nessuna", "desconhecido"),
        *("desconhecida", "nenhum", "nenhuma", "onbekend", "geen"),
    }
)
# Placeholder names. They are shown where nothing else is recorded, and never make two entries the
# same.
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
# What may be around a text without changing its meaning.
_AROUND = re.compile(
    r"\s*\((?:situation|finding)\)|^[\s(\[]+|[\s)\].]+$"
    # A code of SNOMED CT before or after the name.
    r"|^\d{6,18}[\s:|,-]+(?=[a-z])|(?<=[a-z])[\s:|,(\[-]+\d{6,18}[)\]]?$"
)
# Words that deny, in other languages. "Non-steroidals" and "nicht-steroidale" are substances, and
# "Ei" is an egg.
_DENIES_ELSEWHERE = (
    r"(?:keine?[nrs]?|ohne|nicht|verneint|aucune?|pas(?= d)|sans|ningun[ao]?|sin|niega|nessun[ao]?"
    r"|senza|nega|nenhuma?|sem|nao|geen|niet|zonder|ontkent|ingen|inga|inget|ikke|inte|brak|nie|nincs|nem"
    r"|nema|bez|non (?:note?|ha|sono|conosciut[aie]|riferisce)|ei (?:tunnettuja|ole|tiedossa)"
    r"|нет|не|без|отсутству\w*)(?![-\w])(?! steroid)"
    # Before other characters than these it is part of a name: that of the fig begins so.
    r"|(?:无|無)(?=\W|$|任何|已知|药|藥|薬|食|过敏|過敏|アレル)|没有|否认|未见|特になし"
)
# Beside a code that says it, a text that begins so may say it too, in words of its own.
_DENIES = re.compile(
    r"(?:no|not|none|nil|n/?a|nk[a-z]{1,3}|denie[sd]|denying|negative|without|never)\b"
    rf"|{_DENIES_ELSEWHERE}"
)
_AT_THE_END = "|".join(map(fold, ("なし", "無し", "ありません", "없음")))
_DENIES_AT_THE_END = re.compile(rf"(?:{_AT_THE_END})\W*$")
# Who denies it.
_SUBJECT = re.compile(r"^(?:the )?(?:patient|pt|he|she) (?:has |is |reports |states )?")
_WORDS = tomllib.loads(Path(__file__).with_name("denials.toml").read_text(encoding="utf-8"))
_JOINED = "|".join(map(fold, _WORDS.pop("joined").split()))
_WORDS_OF_A_DENIAL = frozenset(word for words in _WORDS.values() for word in words.split())
_WORD_FOR_ALLERGIES = re.compile(
    r"(?:arzneimittel|medikamenten?|nahrungsmittel|lebensmittel|umwelt|geneesmiddel(?:en)?|medicatie"
    r"|voedsel|lakemedels|livsmedels)?"
    r"(?:al+er[gj]\w*|intoll?eran\w*|unvertraglichkeit(?:en)?|uberempfindlichkeit(?:en)?"
    r"|(?:hyper|iper|hiper)?sensi[bt]\w+|overgevoelighe\w+|ал+ерг\w*)"  # noqa: RUF001
    rf"|(?:{_JOINED}|{_AT_THE_END})+"
)
_WORD = re.compile(r"[^\W\d_]+")
_BUT = re.compile(
    r"\b(?:except|but|besides|apart|other than|only|ausser|aber|jedoch|nur|sauf|hormis|mais"
    r"|seulement|excepto|salvo|pero|solo|eccetto|tranne|ma|exceto|mas|apenas|behalve|maar|alleen)\b"
)
# Details that only an allergy has, whatever the code: beside "none known" fewer than beside the
# other kinds.
_BESIDE_NONE_KNOWN = ("reaction", "modifierExtension")
_OF_AN_ALLERGY = (
    *("reaction", "modifierExtension", "lastOccurrence", "type"),
    *("onsetDateTime", "onsetAge", "onsetPeriod", "onsetRange", "onsetString"),
)
# What SNOMED CT puts behind a name.
_KIND = re.compile(r"\s*\([a-z ]+\)$")
_DENIAL = re.compile(
    r"(?:no|not|none|nil|n/a|nk[a-z]{1,3}|denie[sd]|denying)(?=[\s.,;:()]|$)"
    rf"|{_DENIES_ELSEWHERE}"
)
# Longer texts are no names.
LONGEST_NAME = 200
_NO_RISK = "no-known-reaction-risk"
ABSENT_SYSTEMS = frozenset({terminology.NULL_FLAVOR, _REASON})
_NOTHING_KNOWN = (AssertionKind.NO_INFORMATION, AssertionKind.NOT_ASKED)
# nullFlavors that say that there is no code, not that nothing is known.
_UNCODED = frozenset({"NI", "UNK", "NAV", "NA", "OTH", "UNC"})
# Code systems of substances: words beside their codes do not change that.
_SUBSTANCES = frozenset(
    {
        "http://www.nlm.nih.gov/research/umls/rxnorm",
        "http://fdasis.nlm.nih.gov",
        "http://hl7.org/fhir/sid/ndc",
        "http://hl7.org/fhir/sid/cvx",
        "http://www.whocc.no/atc",
    }
)


def assertion_of(resource: Resource) -> Assertion:
    """Return what an entry says."""
    if exposure := _exposure(resource):
        risk, _ = exposure
        return (
            Assertion(AssertionKind.NONE_KNOWN, About.OTHER)
            if risk == _NO_RISK
            else Assertion(AssertionKind.ALLERGY)
        )
    statements = _statements(resource.get("code") or {})
    kinds = {statement.kind for statement in statements if statement}
    if not kinds:
        return Assertion(AssertionKind.ALLERGY)
    if AssertionKind.WORDS_ONLY in kinds:
        return _in_words(resource, kinds)
    if None in statements or any(_has_details(resource, kind) for kind in kinds):
        return Assertion(AssertionKind.ALLERGY, is_mixed=AssertionKind.NONE_KNOWN in kinds)
    # Of several, what leaves most open: nothing is known, before none is.
    for open_kind in (AssertionKind.NOT_ASKED, AssertionKind.NO_INFORMATION):
        if open_kind in kinds:
            return Assertion(open_kind, is_mixed=AssertionKind.NONE_KNOWN in kinds)
    # "No known drug allergy" beside "no known allergy" says the narrower.
    narrower = {statement.about for statement in statements if statement} - {About.ANY}
    if len(narrower) > 1:
        return Assertion(AssertionKind.NONE_KNOWN, About.OTHER, is_mixed=True)
    return Assertion(AssertionKind.NONE_KNOWN, next(iter(narrower), About.ANY))


def _in_words(resource: Resource, kinds: set[AssertionKind]) -> Assertion:
    """Return what an entry says that holds the words of a section: an absence if they are one."""
    if any(_has_details(resource, kind) for kind in kinds):
        return Assertion(AssertionKind.ALLERGY)
    assertion = _of_words(str((resource.get("code") or {}).get("text") or ""))
    return assertion or Assertion(AssertionKind.WORDS_ONLY)


def substance(resource: Resource) -> Mapping[str, Any]:
    """Return the CodeableConcept of what an entry is about; empty where it is not recorded.

    "No information" beside a reaction only means that a code is missing.
    """
    if exposure := _exposure(resource):
        return exposure[1]
    code = resource.get("code") or {}
    is_nothing = all(
        statement is not None and statement.kind in _NOTHING_KNOWN
        for statement in _statements(code)
    )
    if is_nothing and assertion_of(resource).kind is AssertionKind.ALLERGY:
        reactions = resource.get("reaction", ())
        concepts = [reaction["substance"] for reaction in reactions if reaction.get("substance")]
        return concepts[0] if concepts and all(other == concepts[0] for other in concepts) else {}
    return code


def coded_as(about: Mapping[str, Any]) -> list[str]:
    """Return the names of a substance's codes where they differ from its words.

    Where nothing names the substance they are its codes, each with its system.
    """
    words = plain_name(concept(about))
    codings = [
        coding
        for coding in about.get("coding", ())
        if coding.get("system") not in ABSENT_SYSTEMS and coding.get("code") != SECTION["code"]
    ]
    names = [
        shortened(without_semantic_tag(coding["display"], [coding]))
        for coding in codings
        if coding.get("display") and coding["display"] != coding.get("code")
    ]
    if not names and not about.get("text"):
        names = [code_with_system(coding) for coding in codings if coding.get("code")]
    differing = {
        plain: name for name in reversed(names) if (plain := plain_name(name)) not in ("", words)
    }
    return list(reversed(differing.values()))


def is_placeholder(name: str) -> bool:
    """Say whether a name only holds the place of one: "Coded Allergy Name Not Available"."""
    return len(name) <= LONGEST_NAME and _PLACEHOLDER.fullmatch(fold(name)) is not None


def says_nothing(name: str) -> bool:
    """Say whether a name without a code only says that there is no information: "N/A", "none".

    With a code "Na" is sodium.
    """
    words = _AROUND.sub("", fold(name))
    return (
        not any(map(str.isalnum, words))
        or words in _NOTHING
        or words in _NO_NAMES
        or (len(words) <= LONGEST_NAME and _NO_INFORMATION.fullmatch(words) is not None)
    )


def denies(words: str) -> bool:
    """Whether a text starts with a denial and states no exception."""
    folded = fold(words)
    if len(words) >= LONGEST_NAME or _BUT.search(folded):
        return False
    return bool(_DENIES.match(folded) or _DENIES_AT_THE_END.search(folded))


def denies_allergies(words: str) -> bool:
    """Whether a text denies all allergies, or those of a kind, and names nothing else.

    "No penicillin" is a denial, and may mean that the patient must not have it.
    """
    folded = _SUBJECT.sub("", fold(words), count=1)
    return denies(folded) and all(map(_belongs_to_a_denial, _WORD.findall(folded)))


def _belongs_to_a_denial(word: str) -> bool:
    return bool(
        word in _WORDS_OF_A_DENIAL or _DENIES.fullmatch(word) or _WORD_FOR_ALLERGIES.fullmatch(word)
    )


def about_none_known(words: str) -> About | None:
    """Return of what words say that no allergy is known; None where they do not say that."""
    assertion = _of_words(words)
    return assertion.about if assertion and assertion.kind is AssertionKind.NONE_KNOWN else None


def plain_name(text: str) -> str:
    """Return a name without case, accents, and the kind of thing that SNOMED CT puts behind it."""
    return _KIND.sub("", fold(text)).strip()


def is_denial(about: Mapping[str, Any]) -> bool:
    """Say whether the words of a substance begin as if there were none, such as "denies"."""
    return bool(_DENIAL.match(fold(concept(about)).lstrip(" ([")))


def _statements(code: Mapping[str, Any]) -> list[Assertion | None]:
    """Return what each coding and the text of a code say; None for a substance."""
    codings = [
        coding for coding in code.get("coding", ()) if "code" in coding or "display" in coding
    ]
    coded = [_of_coding(coding) for coding in codings if "code" in coding]
    beside = next(filter(None, coded), None)
    texts = [coding["display"] for coding in codings if "code" not in coding]
    if text := code.get("text"):
        assertion = _of_text(text, beside)
        if (
            assertion
            and assertion.kind is AssertionKind.NONE_KNOWN
            and all(map(_is_silent, codings))
        ):
            # A nullFlavor says that there is no code; the text says why there is none.
            return [assertion]
        texts.append(text)
    return [*coded, *(_of_text(name, beside) for name in texts)]


def _is_silent(coding: Mapping[str, Any]) -> bool:
    return coding.get("system") == terminology.NULL_FLAVOR and coding.get("code") in _UNCODED


def _has_details(resource: Resource, kind: AssertionKind) -> bool:
    """Say whether an entry, whose code is of this kind, has details that only an allergy has."""
    criticality = resource.get("criticality")
    if kind is AssertionKind.NONE_KNOWN:
        return criticality == "high" or any(map(resource.get, _BESIDE_NONE_KNOWN))
    return criticality in ("low", "high") or any(map(resource.get, _OF_AN_ALLERGY))


def _of_coding(coding: Mapping[str, Any]) -> Assertion | None:
    system = coding.get("system", "")
    assertion = _CODES.get((system, coding["code"]))
    if assertion is not None or system in _SUBSTANCES:
        return assertion
    for words in (coding.get("display"), coding["code"]):
        if words and (assertion := _of_words(words)):
            return assertion
    return None


def _of_text(text: str, beside: Assertion | None) -> Assertion | None:
    """Return what a text says; that of the code beside it, where it denies in words of its own."""
    if assertion := _of_words(text):
        return assertion
    if beside is None:
        return None
    is_same = denies_allergies(text) or (
        beside.kind in _NOTHING_KNOWN
        and _NO_INFORMATION.match(fold(text)) is not None
        and not described_severely(text)
    )
    return beside if is_same else None


def _of_words(text: str) -> Assertion | None:
    if len(text) > LONGEST_NAME:
        return None
    words = _AROUND.sub("", fold(text))
    if words == "not asked":
        return Assertion(AssertionKind.NOT_ASKED)
    if words in _ABBREVIATED:
        return Assertion(AssertionKind.NONE_KNOWN, _ABBREVIATED[words])
    if words in _NOTHING or _NO_INFORMATION.fullmatch(words):
        return Assertion(AssertionKind.NO_INFORMATION)
    if match := _NONE_KNOWN.fullmatch(words):
        of = match["of"] or match["to"]
        about = _OF.get(of, About.OTHER) if of else About.ANY
        if (short := match["short"]) and _ABBREVIATED.get(short) is not about:
            return None
        return Assertion(AssertionKind.NONE_KNOWN, about)
    topics = [about for about, pattern in _NONE_OF if pattern.search(words)]
    for _, pattern in _NONE_OF:
        words = pattern.sub("", words)
    if _NONE_ELSEWHERE.fullmatch(words):
        return Assertion(AssertionKind.NONE_KNOWN, topics[0] if topics else About.ANY)
    return None


def _exposure(resource: Resource) -> tuple[str, Mapping[str, Any]] | None:
    """Return risk and substance of R4's extension that replaces the code."""
    for extension in resource.get("extension", ()):
        if extension.get("url") != EXPOSURE_RISK:
            continue
        parts = {part.get("url"): part for part in extension.get("extension", ())}
        codings = parts.get("exposureRisk", {}).get("valueCodeableConcept", {}).get("coding", ())
        risks = {coding.get("code") for coding in codings}
        substance = parts.get("substance", {}).get("valueCodeableConcept", {})
        if substance:
            return (_NO_RISK if risks == {_NO_RISK} else "", substance)
    return None
