"""How severe an allergy is recorded to be: by a code, or by words alone.

Never milder than the source: a text that calls an allergy severe counts even where no code does,
and the graver of two places decides. Words that deny a reaction ("no anaphylaxis") do not count.
Where only words say it, they are kept with the answer, so that a page can quote them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from fhirapp.clinical.denial import is_denied
from fhirapp.clinical.throat import throats_in
from fhirapp.fhir import terminology
from fhirapp.fhir.words import severity_words, shortened, worded
from fhirapp.search.string import fold

Resource = Mapping[str, Any]

GRADES = ("mild", "moderate", "severe")

# Reactions that may kill, by their codes. Only codes whose meaning is beyond doubt: other codes
# are read by their words.
_GRAVE_CODES: Mapping[str, frozenset[str]] = {
    terminology.SNOMED_CT: frozenset(
        {
            "39579001",  # Anaphylaxis
            "417516000",  # Anaphylaxis caused by substance
            "91941002",  # Food anaphylaxis
            "41291007",  # Angioedema
            "402387002",  # Allergic angioedema
            "51599000",  # Edema of larynx
            "73442001",  # Stevens-Johnson syndrome
            "768962006",  # Lyell syndrome
        }
    ),
    "https://www.meddra.org": frozenset({"10002198", "10002199", "10002218", "10002424"}),
}
# Of SNOMED CT, what grades: severe, life threatening, fatal, moderate to severe.
_SEVERE_CODES = frozenset({"24484000", "442452003", "399166001", "371924009"})
# ICD-10(-CM) T78.0, T78.2, T78.3, T80.5, T88.6, J38.4, L51.1 to L51.3; ICD-9-CM 995.0, 995.1,
# 995.6, 999.4: anaphylaxis, angioedema, edema of the larynx, Stevens-Johnson syndrome.
_ICD_10 = re.compile(r"(?:T78\.?[023]|T80\.?5|T88\.?6|J38\.?4|L51\.?[123])", re.IGNORECASE)
_ICD_9 = re.compile(r"(?:995\.?[016]|999\.?4)")

# Words, folded. Anaphylaxis also as German, French, Spanish, Italian and Swedish begin it.
_GRAVE = re.compile(
    r"\bana(?:ph|f)[iy]la\w*|\bangio-?\s?o?ed\w*|\bangio-?neurotic\w*|\bquincke\w*"
    r"|\bairways?\b|\blaryn(?:x|geal) (?:o?edema|swelling)|\blife[- ]?threat\w*|\bfatal\w*"
    r"|\bsever(?:e|ely|a|o)\b|\bschwer\w{0,2}\b|\bgraves?\b|\blebensbedrohlich\w*"
    r"|\bstevens[- ]johnson\b|\bepidermal necrolysis\b|\b(?:allergic|circulatory) shock\b"
    r"|\b(?:cardiac|respiratory) arrest\b"
)
_LONG_WORD = re.compile(r"\ban\w{6,13}\b|\bna\w{8,11}\b")
# What people misspell, and by how many letters at most.
_MISSPELLED = ("anaphylaxis", "anaphylactic", "angioedema")
_MOST_WRONG = 2

# Of a text, what is read, and what is quoted around the words that count.
_LONGEST = 4_000
_QUOTED = 60

_SEVERE_WORDS = re.compile(
    r"\b(?:severe|severely|sev|sv|high|serious|major|critical|crith|fatal\w*|life[- ]?threat\w*"
    r"|anaphyla\w*|extreme|grave|schwer\w*)\b"
)
_MODERATE_WORDS = re.compile(r"\b(?:moderate|moderately|mod|mo|medium|intermediate|massig)\b")
_MILD_WORDS = re.compile(r"\b(?:mild|mildly|mi|low|minor|slight|minimal|leicht|critl)\b")
# Uncoded severity words that mean life-threatening.
_ALARMING = re.compile(
    r"\b(?:dangerous\w*|emergency|emergent|deadly|lethal\w*|mortal\w*|catastrophic|urgent\w*"
    r"|\w*gefahrlich\w*|notfall\w*|todlich\w*|danger\w*|urgence|mortel\w*|peligros\w*|urgencia"
    r"|pericolos\w*|urgenza|emergenza|\w*farlig\w*|livshotande|dodlig\w*)\b"
)
_NOT_ALARMING = re.compile(r"\b(?:not|non|no|nicht|kein\w{0,2}|pas|sans|senza|ej|inte)[\s-]*$")
_NOT_GRADE = re.compile(r"\b(?:not|non|no)[\s-]+(?:severe|serious|critical|fatal|high|life)\w*")
# The single letters of HL7 v3 SeverityObservation (Observation Value H, M, L).
_LETTERS = {"h": "severe", "m": "moderate", "l": "mild", "s": "severe"}


class Severity(NamedTuple):
    """How severe an entry is recorded to be.

    is_severe: by criticality, by a severity, by what the reaction is, or by words. words is the
    passage that says so where only words do, else empty. is_recorded: whether the entry has any
    severity or criticality, by a code or in words. is_unclear: whether it has a severity in words
    that nothing here can grade.
    """

    is_severe: bool
    words: str
    is_recorded: bool
    is_unclear: bool = False


def severity_of(resource: Resource) -> Severity:
    """Return how severe an AllergyIntolerance is recorded to be."""
    reactions = resource.get("reaction", ())
    graded = any(reaction.get("severity") or severity_words(reaction) for reaction in reactions)
    by_code = (
        resource.get("criticality") == "high"
        or any(reaction.get("severity") == "severe" for reaction in resource.get("reaction", ()))
        or any(map(_is_grave, _codings(resource)))
    )
    extended = list(_severity_extensions(resource))
    by_code = by_code or any(code in _SEVERE_CODES for code, _ in extended)
    words = "" if by_code else _described(resource, [text for _, text in extended])
    is_severe = by_code or bool(words)
    is_recorded = (
        is_severe or graded or bool(extended) or resource.get("criticality") in ("low", "high")
    )
    is_unclear = not is_severe and any(map(_is_ungraded, reactions))
    return Severity(is_severe, words, is_recorded, is_unclear)


def _is_ungraded(reaction: Resource) -> bool:
    """Say whether a reaction has a severity in words alone that no grade is read from."""
    words = severity_words(reaction)
    return bool(words) and not reaction.get("severity") and not grade(words)


def described_severely(text: str) -> str:
    """Return the passage of a text that describes something severe; "" where none does."""
    folded = fold(text[:_LONGEST])
    for start, end in _hits(folded):
        if not is_denied(folded, start, end):
            return _passage(text, folded, start, end)
    return ""


def is_grave(concept: Resource) -> bool:
    """Say whether a manifestation is life-threatening, by its code or its words."""
    codings = concept.get("coding", ())
    texts = (concept.get("text"), *(coding.get("display") for coding in codings))
    return any(map(_is_grave, codings)) or any(
        described_severely(str(text)) for text in texts if text
    )


def grade(words: str) -> str:
    """Return the severity that words or a local code name: mild, moderate, severe, or "".

    The graver of a range: "moderate to severe" is severe.
    """
    folded = fold(words[:_LONGEST])
    if folded in _LETTERS:
        return _LETTERS[folded]
    folded = _NOT_GRADE.sub(" ", folded)
    for pattern, name in (
        (_SEVERE_WORDS, "severe"),
        (_MODERATE_WORDS, "moderate"),
        (_MILD_WORDS, "mild"),
    ):
        if pattern.search(folded):
            return name
    return ""


def sentence(active: int, *, severe: int, described: int, unrecorded: int, unclear: int) -> str:
    """Return how many allergies that may hold are severe, and how many have no recorded severity.

    severe counts those that a code calls severe, described those that only words do, unclear those
    whose severity is in words that are not graded.
    """
    if active == 1:
        if described:
            return worded("free text describes it as severe.")
        text = worded(_ONE_SEVERE if severe else _ONE_NOT_SEVERE)
        if unrecorded:
            return f"{text} {worded('Severity not recorded.')}"
        return f"{text} {worded(_ONE_UNCLEAR)}" if unclear else text
    texts = [worded(_SEVERE.get(severe, _MANY_SEVERE), count=severe)]
    if described:
        texts.append(worded(_MORE_DESCRIBED if severe else _DESCRIBED, count=described))
    if unrecorded:
        texts.append(worded("Severity not recorded for %(count)s of them.", count=unrecorded))
    if unclear:
        texts.append(worded(_UNCLEAR, count=unclear))
    return " ".join(texts)


_ONE_UNCLEAR = worded("Severity recorded in words only: read the entry.")
_UNCLEAR = worded("Severity recorded in words only for %(count)s of them: read the entries.")
_ONE_SEVERE = worded("it is recorded as severe, as anaphylaxis or with high criticality.")
_ONE_NOT_SEVERE = worded("it is not recorded as severe, as anaphylaxis or with high criticality.")
_SEVERE = {
    0: worded("none of them is recorded as severe, as anaphylaxis or with high criticality."),
    1: worded("1 of them is recorded as severe, as anaphylaxis or with high criticality."),
}
_MANY_SEVERE = worded(
    "%(count)s of them are recorded as severe, as anaphylaxis or with high criticality."
)
_MORE_DESCRIBED = worded("Free text describes %(count)s more as severe.")
_DESCRIBED = worded("Free text describes %(count)s of them as severe.")


def _codings(resource: Resource) -> Iterator[Resource]:
    """Yield the codings of what an entry is about and of its reactions."""
    for concept in _concepts(resource):
        yield from concept.get("coding", ())


def _concepts(resource: Resource) -> Iterator[Resource]:
    yield resource.get("code") or {}
    for reaction in resource.get("reaction", ()):
        yield from reaction.get("manifestation", ())
        yield reaction.get("substance") or {}


def _is_grave(coding: Resource) -> bool:
    system, code = coding.get("system") or "", coding.get("code") or ""
    if code in _GRAVE_CODES.get(system, ()):
        return True
    if "icd-10" in system:
        return _ICD_10.match(code) is not None
    return "icd-9" in system and _ICD_9.match(code) is not None


def _severity_extensions(element: Any) -> Iterator[tuple[str, str]]:
    """Yield the code and the words of each extension, anywhere in an entry, that is a severity."""
    if isinstance(element, list):
        for item in element:
            yield from _severity_extensions(item)
    elif isinstance(element, dict):
        for name, value in element.items():
            if name != "extension" or not isinstance(value, list):
                yield from _severity_extensions(value)
                continue
            for item in value:
                if _is_severity_extension(item):
                    yield from _values(item)
                else:
                    yield from _severity_extensions(item)


def _is_severity_extension(extension: Any) -> bool:
    """Say whether an extension is, by its address, about how severe something is."""
    return isinstance(extension, dict) and "severity" in str(extension.get("url")).lower()


def _values(extension: Resource) -> Iterator[tuple[str, str]]:
    for name, value in extension.items():
        if name == "url" or not name.startswith("value"):
            continue
        codings = [value] if name == "valueCoding" else []
        if name == "valueCodeableConcept":
            codings = value.get("coding", [])
            yield "", str(value.get("text") or "")
        elif isinstance(value, str):
            yield "", value
        for coding in codings:
            yield str(coding.get("code") or ""), str(coding.get("display") or "")


def _described(resource: Resource, severities: list[str]) -> str:
    """Return the words in an entry that describe it as severe: of its severity first."""
    of_reactions = map(severity_words, resource.get("reaction", ()))
    for text in (*severities, *of_reactions):
        if grade(text) == "severe" or _is_alarming(text):
            return _quoted(text)
    return next(filter(None, map(described_severely, _texts(resource))), "")


def _is_alarming(severity: str) -> bool:
    """Say whether the words of a severity say that it is dangerous, and do not deny it."""
    folded = fold(severity)
    return any(
        not _NOT_ALARMING.search(folded, 0, match.start())
        and not match[0].startswith(("ungef", "ofarl"))
        for match in _ALARMING.finditer(folded)
    )


def _texts(resource: Resource) -> Iterator[str]:
    """Yield the words of an entry: of its reactions, its substance, and its notes."""
    concepts = list(_concepts(resource))
    for concept in [*concepts[1:], concepts[0]]:
        yield str(concept.get("text") or "")
        for coding in concept.get("coding", ()):
            yield str(coding.get("display") or "")
            yield str(coding.get("code") or "")
    for reaction in resource.get("reaction", ()):
        yield str(reaction.get("description") or "")
        yield from (str(note.get("text") or "") for note in reaction.get("note", ()))
    yield from (str(note.get("text") or "") for note in resource.get("note", ()))


def _hits(folded: str) -> Iterator[tuple[int, int]]:
    spans = [match.span() for match in _GRAVE.finditer(folded)]
    spans += throats_in(folded)
    spans += [
        match.span()
        for match in _LONG_WORD.finditer(folded)
        if any(_is_misspelling(match[0], word) for word in _MISSPELLED)
    ]
    yield from sorted(spans)


def _is_misspelling(word: str, of: str) -> bool:
    """Say whether a word differs from another by few letters: left out, put in, or another one."""
    if abs(len(word) - len(of)) > _MOST_WRONG:
        return False
    row = list(range(len(of) + 1))
    for at, letter in enumerate(word, 1):
        above, row = row, [at]
        for position, other in enumerate(of, 1):
            row.append(
                min(row[-1] + 1, above[position] + 1, above[position - 1] + (letter != other))
            )
        if min(row) > _MOST_WRONG:
            return False
    return row[-1] <= _MOST_WRONG


def _passage(text: str, folded: str, start: int, end: int) -> str:
    """Return the passage around the words; as it was written where the text is short."""
    if len(text) <= _QUOTED:
        return _quoted(text)
    begin = max(0, start - 20)
    stop = max(end, begin + _QUOTED)
    passage = _quoted(folded[begin:stop].strip()).removesuffix("…")
    return f"{'…' if begin else ''}{passage}{'…' if stop < len(folded) else ''}"


def _quoted(text: str) -> str:
    return shortened(text, _QUOTED)
