"""Severity, criticality and reactions of an allergy, from codes and from words.

Sources: C-CDA R2.1, Reaction Observation and Severity Observation; HL7 C-CDA on FHIR 2.0.0,
CF-Severity; service.md 2.3; decisions 2.19.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fhirapp.clinical.assertion import is_placeholder
from fhirapp.clinical.severity import GRADES, grade
from fhirapp.features.imports.ccda import narrative, values
from fhirapp.features.imports.ccda.substances import inner, observations_of
from fhirapp.features.imports.ccda.tree import NOTHING, CcdaElement
from fhirapp.fhir.terminology import SEVERITY_TEXT, SNOMED_CT, UNKNOWN_REACTION, is_unknown
from fhirapp.search.string import fold

# Templates of C-CDA.
_REACTION = "2.16.840.1.113883.10.20.22.4.9"
_SEVERITY, _CRITICALITY = "2.16.840.1.113883.10.20.22.4.8", "2.16.840.1.113883.10.20.22.4.145"
# Observations about an allergy or a reaction, which are no reaction whatever relates them to it.
_DETAILS = frozenset({_SEVERITY, _CRITICALITY, "2.16.840.1.113883.10.20.22.4.28"})
DETAIL_CODES = ("SEV", "82606-5", "33999-4")
_SEVERITIES: Mapping[str, str] = values.MAPS["severities"]
_CRITICALITIES: Mapping[str, str] = values.MAPS["criticalities"]
_ONLY_GRADES = re.compile(r"(?:mild|moderate|severe)(?: to (?:moderate|severe))?")
_BY_GRADE = {"severe": "high", "mild": "low"}
# decisions 2.19
_UNKNOWN = {"system": SNOMED_CT, "code": UNKNOWN_REACTION, "display": "Unknown"}
_AS_A_WHOLE = "Severity of the allergy as a whole"

Reaction = dict[str, Any]


class ReactionSeverity(NamedTuple):
    """A severity: R4's code, "" for what none can be found, and the source's own words."""

    code: str
    words: str = ""

    @property
    def rank(self) -> int:
        return GRADES.index(self.code) + 1 if self.code else 0

    def put_into(self, reaction: dict[str, Any]) -> None:
        """Set severity; words that say more than the code are kept beside it.

        Without a code they are an extension of the reaction: a code that is not there has none.
        """
        if self.code:
            reaction["severity"] = self.code
            if self.words and fold(self.words) != self.code:
                reaction["_severity"] = values.extension_only(values.original(self.words))
        elif self.words:
            reaction["extension"] = [{"url": SEVERITY_TEXT, "valueString": self.words}]


NOT_GRADED = ReactionSeverity("")


def severity_in(statements: list[CcdaElement], texts: narrative.Texts) -> ReactionSeverity:
    """Return the gravest severity that is observed in statements."""
    observations = observations_of(statements, _SEVERITY, "SEV")
    typed = [
        observation
        for observation in _manifestations(statements)
        if observation not in observations and _is_severity(observation, texts)
    ]
    return gravest(
        severity
        for observation in (*observations, *typed)
        for severity in _severities(observation, texts)
    )


def severity_named(words: str) -> ReactionSeverity:
    """Return the severity that a cell of the narrative holds."""
    return ReactionSeverity(grade(words), words) if _is_stated(words) else NOT_GRADED


def gravest(severities: Iterable[ReactionSeverity]) -> ReactionSeverity:
    """Return the gravest; of those without a code, which may be any, all words."""
    severities = list(severities)
    worst = max(severities, key=lambda severity: severity.rank, default=NOT_GRADED)
    unclear = [severity.words for severity in severities if not severity.code and severity.words]
    if not unclear:
        return worst
    return ReactionSeverity(worst.code, "; ".join(narrative.unique([worst.words, *unclear])))


def criticality_in(statements: list[CcdaElement], texts: narrative.Texts, cell: str) -> str:
    """Return the gravest criticality; "" where none is known."""
    criticalities = [_by_words(cell)]
    for observation in observations_of(statements, _CRITICALITY, "82606-5"):
        for value in observation.all("value"):
            coded = [
                known for code, known in _CRITICALITIES.items() if values.has_code(value, code)
            ]
            criticalities += coded or [_by_words(" ".join(words_of_value(value, texts)))]
    order = ("high", "low", "unable-to-assess")
    return next((code for code in order if code in criticalities), "")


def _by_words(words: str) -> str:
    return _BY_GRADE.get(grade(words), "") if words else ""


def words_of_value(value: CcdaElement | None, texts: narrative.Texts) -> list[str]:
    """Return the words of a coded value: original text, displays, local codes, and its content."""
    value = value or NOTHING
    words = []
    for coded in (value, *value.all("translation")):
        words += [texts.of(coded.first("originalText")), coded.get("displayName")]
        if not coded.get("codeSystem") and any(map(str.isalpha, coded.get("code"))):
            words.append(coded.get("code"))
    if not value.all("originalText"):
        words.append(narrative.plain(value))
    return narrative.unique(words)


def _severities(observation: CcdaElement, texts: narrative.Texts) -> Iterator[ReactionSeverity]:
    """Yield the severity of each value of an observation; that of its text where none has one."""
    severities = [_severity(value, texts) for value in observation.all("value")]
    yield from severities
    if not any(severity.code for severity in severities):
        text = texts.of(observation.first("text"))
        yield severity_named(text)


def _severity(value: CcdaElement, texts: narrative.Texts) -> ReactionSeverity:
    codes = [severity for code, severity in _SEVERITIES.items() if values.has_code(value, code)]
    words = [text for text in words_of_value(value, texts) if _is_stated(text)]
    # A local code, such as H, is read as a word where no other word is there.
    coded = () if codes else (value, *value.all("translation"))
    local = [code for code in map(values.code_in, coded) if any(map(str.isalpha, code))]
    worst = gravest(map(ReactionSeverity, (*codes, *map(grade, (*words, *local)))))
    return ReactionSeverity(worst.code, "; ".join(narrative.unique(words or local)))


def _is_severity(observation: CcdaElement, texts: narrative.Texts) -> bool:
    """Say whether an observation only says how severe something is, whatever it is typed as."""
    if values.has_code(observation.first("code"), "SEV") or _SEVERITY in observation.templates():
        return True
    found = observation.all("value")
    return bool(found) and all(_names_severity(value, texts) for value in found)


def _names_severity(value: CcdaElement, texts: narrative.Texts) -> bool:
    """Say whether a value has a code of severities, or a word that is one and nothing else."""
    words = words_of_value(value, texts)
    if values.has_code(value, *_SEVERITIES):
        return all(map(grade, words))
    is_coded = values.code_system(value.get("codeSystem")) == SNOMED_CT
    return bool(words) and not is_coded and all(map(_ONLY_GRADES.fullmatch, map(fold, words)))


def _is_stated(words: str) -> bool:
    return bool(words) and not is_placeholder(words)


@dataclass(frozen=True)
class ObservedReactions:
    """The reactions of an allergy's statements, read once.

    occurred has each reaction with its own severity, absent the words of each that is negated.
    unknown are those of occurred whose own nullFlavor says that they are not known.
    """

    occurred: list[tuple[Reaction, ReactionSeverity]]
    absent: list[str]
    unknown: list[Reaction]

    def words(self, lines: list[str]) -> list[str]:
        """Return the words of the reactions, and those of the narrative's lines."""
        words = [text for reaction, _ in self.occurred for text in words_of(reaction)]
        return [*words, *lines]

    def is_any_named(self, lines: list[str]) -> bool:
        """Say whether the statements or the narrative name a reaction, by a code or in words."""
        return bool(lines) or any(
            "description" in reaction or not all(map(is_unknown, reaction["manifestation"]))
            for reaction, _ in self.occurred
            if reaction not in self.unknown
        )


def read_reactions(statements: list[CcdaElement], texts: narrative.Texts) -> ObservedReactions:
    """Read the Reaction Observations in statements."""
    occurred, absent, unknown = [], [], []
    for observation in _observations(statements, texts):
        reaction = _reaction(observation, texts)
        if reaction is None:
            continue
        if not values.is_negated(observation):
            occurred.append((reaction, severity_in([observation], texts)))
            if observation.null_flavor:
                unknown.append(reaction)
        elif words := words_of(reaction):
            absent.append(", ".join(words))
    return ObservedReactions(occurred, absent, unknown)


def reaction_observations(
    statements: list[CcdaElement], texts: narrative.Texts
) -> list[CcdaElement]:
    """Return the Reaction Observations in statements; negated ones are not among them."""
    return [
        observation
        for observation in _observations(statements, texts)
        if not values.is_negated(observation)
    ]


def reactions(
    read: ObservedReactions, *, severity: ReactionSeverity, lines: list[str]
) -> list[Reaction]:
    """Return the reactions of an allergy.

    severity is that of the allergy itself: it counts for the reactions without one, and has a
    reaction of its own where it is graver than all of theirs. lines are the reactions in the
    narrative; each that no reaction says becomes one.
    """
    graded = [({**reaction}, own) for reaction, own in read.occurred]
    if len(graded) == 1 and lines:
        _add_lines(graded[0][0], lines)
    known = [text for reaction, _ in graded for text in words_of(reaction)]
    graded += [
        ({"manifestation": [{"text": line}]}, NOT_GRADED)
        for line in lines
        if not narrative.stands_in(known, line)
    ]
    for reaction, own in graded:
        (own if own != NOT_GRADED else severity).put_into(reaction)
    made = [reaction for reaction, _ in graded]
    is_taken = any(own == NOT_GRADED for _, own in graded)
    worst = max((own.rank for _, own in graded), default=-1)
    if severity == NOT_GRADED or is_taken or worst >= max(severity.rank, 1):
        return made
    whole: Reaction = {"manifestation": [{"coding": [_UNKNOWN]}]}
    if made:
        whole["description"] = _AS_A_WHOLE
    severity.put_into(whole)
    return [*made, whole]


def words_of(reaction: Reaction) -> list[str]:
    """Return the words of a reaction."""
    words = [str(reaction.get("description") or "")]
    for manifestation in reaction["manifestation"]:
        words.append(manifestation.get("text", ""))
        words += [
            coding.get("display", "")
            for coding in manifestation.get("coding", ())
            if coding not in (_UNKNOWN, values.null_coding(coding.get("code", "")))
        ]
    return list(filter(None, words))


def _manifestations(statements: list[CcdaElement]) -> list[CcdaElement]:
    """Return what is related to statements as a manifestation of them."""
    return [
        observation
        for statement in statements
        for related, observation in inner(statement)
        if related.get("typeCode") == "MFST" or _REACTION in observation.templates()
    ]


def _observations(statements: list[CcdaElement], texts: narrative.Texts) -> list[CcdaElement]:
    return [
        observation
        for observation in _manifestations(statements)
        if not (_is_detail(observation) or _is_severity(observation, texts))
    ]


def _is_detail(observation: CcdaElement) -> bool:
    """Say whether an observation is by its code or template a detail, such as a status."""
    return bool(observation.templates() & _DETAILS) or values.has_code(
        observation.first("code"), *DETAIL_CODES
    )


def _add_lines(reaction: Reaction, lines: list[str]) -> None:
    """Put the narrative's words into the only reaction, if they say more than it does."""
    words = words_of(reaction)
    if words or any(not is_unknown(manifestation) for manifestation in reaction["manifestation"]):
        cell, *others = lines
        if not (others or narrative.stands_in(words, cell) or "description" in reaction):
            reaction["description"] = cell
    else:
        reaction["manifestation"] = [{"text": line} for line in lines]


def _reaction(observation: CcdaElement, texts: narrative.Texts) -> Reaction | None:
    """Return a reaction; None for one without words that its own nullFlavor says is not known."""
    text = texts.of(observation.first("text"))
    reaction: Reaction = {"manifestation": _manifestations_of(observation, text, texts)}
    known = words_of(reaction)
    if not known and observation.null_flavor:
        return None
    if text and not narrative.covers(known, text):
        reaction["description"] = text
    values.put(reaction, "onset", values.start_of(observation.first("effectiveTime")))
    return reaction


def _manifestations_of(
    observation: CcdaElement, text: str, texts: narrative.Texts
) -> list[dict[str, Any]]:
    """Return what happened: by each value's codes, in words, or that it is not known."""
    found = [_manifestation(value, texts) for value in observation.all("value")] or [{}]
    known = [manifestation for manifestation in found if _has_value(manifestation)]
    if known:
        return known
    absent = found[0]
    if text:
        return [{**absent, "text": text}]
    return [{**absent, "coding": [_UNKNOWN, *absent.get("coding", [])]}]


def _manifestation(value: CcdaElement, texts: narrative.Texts) -> dict[str, Any]:
    """Return a value as CodeableConcept, with the names that have no code in words."""
    manifestation = values.concept(value, texts) or {}
    names = []
    for coded in (value, *value.all("translation")):
        named = texts.of(coded.first("originalText"))
        # A display without a code, or text instead of a code (xsi:type ST or ED).
        names += [named, "" if coded.get("code") else narrative.tidy(coded.get("displayName"))]
    if not value.all("originalText"):
        names.append(narrative.plain(value))
    first, *others = narrative.unique(names) or [""]
    if first:
        manifestation["text"] = first
    for name in others:
        if not narrative.covers(words_of({"manifestation": [manifestation]}), name):
            manifestation.setdefault("coding", []).append({"display": name})
    return manifestation


def _has_value(manifestation: dict[str, Any]) -> bool:
    """Say whether a manifestation has a text, or a code that is no nullFlavor."""
    return "text" in manifestation or any(
        coding != values.null_coding(coding["code"]) for coding in manifestation.get("coding", ())
    )
