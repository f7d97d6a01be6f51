"""What happened: Reaction Observations as AllergyIntolerance.reaction.

Sources: C-CDA R2.1, Reaction Observation and Severity Observation; HL7 C-CDA on FHIR 2.0.0,
CF-Severity; service.md 2.3; decisions 2.19.

How severe a clinical document says that an allergy or a reaction is: by codes and by words.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from fhirapp.allergies.assertion import is_placeholder
from fhirapp.allergies.severity import GRADES, grade
from fhirapp.exchange.ccda import values
from fhirapp.exchange.ccda.narrative import Texts, covers, plain, stands_in, unique
from fhirapp.exchange.ccda.substances import inner, observed
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import (
    concept,
    extended,
    has_code,
    is_negated,
    null_coding,
    original,
)
from fhirapp.fhir.terminology import SNOMED_CT, UNKNOWN_REACTION, is_unknown
from fhirapp.search.string import fold

_SEVERITY, _CRITICALITY = "2.16.840.1.113883.10.20.22.4.8", "2.16.840.1.113883.10.20.22.4.145"
# FHIR has three; of what lies between two, and of fatal, the graver.
_SEVERITIES = {
    "255604002": "mild",
    "371923003": "moderate",
    "6736007": "moderate",
    "371924009": "severe",
    "24484000": "severe",
    "399166001": "severe",
    "442452003": "severe",
}
_CRITICALITIES = {"CRITH": "high", "CRITL": "low", "CRITU": "unable-to-assess"}
_BY_GRADE = {"severe": "high", "mild": "low"}


class Severity(NamedTuple):
    """A severity: R4's code, "" for what none can be found, and the source's own words."""

    code: str
    words: str = ""

    @property
    def rank(self) -> int:
        return GRADES.index(self.code) + 1 if self.code else 0

    def put_into(self, reaction: dict[str, Any]) -> None:
        """Set severity; words that say more than the code stand beside it."""
        if self.code:
            reaction["severity"] = self.code
        if self.words and fold(self.words) != self.code:
            reaction["_severity"] = extended(original(self.words))


NOT_GRADED = Severity("")


def severity_in(statements: list[Element], texts: Texts) -> Severity:
    """Return the gravest severity that is observed in statements."""
    found = observed(statements, _SEVERITY, "SEV")
    return gravest(_severity(one, texts) for one in found)


def severity_named(words: str) -> Severity:
    """Return the severity that a cell of the narrative holds."""
    return Severity(grade(words), words) if _says(words) else NOT_GRADED


def gravest(severities: Iterable[Severity]) -> Severity:
    """Return the gravest; of those without a code, which may be any, all words."""
    found = list(severities)
    worst = max(found, key=lambda one: one.rank, default=NOT_GRADED)
    unclear = [one.words for one in found if not one.code and one.words]
    if not unclear:
        return worst
    return Severity(worst.code, "; ".join(unique([worst.words, *unclear])))


def criticality_in(statements: list[Element], texts: Texts, cell: str) -> tuple[str, str]:
    """Return the gravest criticality, and the nullFlavor of one that is not known."""
    found, null_flavor = [_by_words(cell)], ""
    for observation in observed(statements, _CRITICALITY, "82606-5"):
        value = observation.first("value")
        if value is None:
            continue
        coded = [known for code, known in _CRITICALITIES.items() if has_code(value, code)]
        found += coded or [_by_words(" ".join(severities_words_of(value, texts)))]
        null_flavor = null_flavor or value.null_flavor
    known = [one for one in ("high", "low", "unable-to-assess") if one in found]
    return (known[0] if known else ""), null_flavor


def _by_words(words: str) -> str:
    return _BY_GRADE.get(grade(words), "") if words else ""


def severities_words_of(value: Element | None, texts: Texts) -> list[str]:
    """Return the words of a coded value: original text, display names, what stands in it.

    A local code counts as a word.
    """
    if value is None:
        return []
    found = []
    for one in (value, *value.all("translation")):
        found += [texts.of(one.first("originalText")), one.get("displayName")]
        if not one.get("codeSystem") and any(letter.isalpha() for letter in one.get("code")):
            found.append(one.get("code"))
    if not value.all("originalText"):
        found.append(plain(value))
    return unique(found)


def _severity(observation: Element, texts: Texts) -> Severity:
    value = observation.first("value")
    codes = [found for code, found in _SEVERITIES.items() if has_code(value, code)]
    words = [one for one in severities_words_of(value, texts) if _says(one)]
    local = value.get("code") if value is not None else ""
    graded = [grade(one) for one in words]
    # A local code, such as H, is read as a word where no other word is there.
    graded += [grade(local)] if not codes and any(letter.isalpha() for letter in local) else []
    if not any((*codes, *graded)):
        text = texts.of(observation.first("text"))
        words += [text] if _says(text) else []
        graded += [grade(text)]
    if not codes and not words and any(letter.isalpha() for letter in local):
        words = [local]
    worst = gravest(Severity(one) for one in (*codes, *graded))
    return Severity(worst.code, "; ".join(unique(words)))


def _says(words: str) -> bool:
    return bool(words) and not is_placeholder(words)


_REACTION = "2.16.840.1.113883.10.20.22.4.9"
# decisions 2.19
_UNKNOWN = {"system": SNOMED_CT, "code": UNKNOWN_REACTION, "display": "Unknown"}
_AS_A_WHOLE = "Severity of the allergy as a whole"

Reaction = dict[str, Any]


def reaction_observations(statements: list[Element]) -> list[Element]:
    """Return the Reaction Observations in statements; negated ones are not among them."""
    return [one for one in _all(statements) if not is_negated(one)]


def denied_reactions(statements: list[Element], texts: Texts) -> list[str]:
    """Return the words of the reactions of which it is said that they did not occur."""
    found = (_reaction(one, texts) for one in _all(statements) if is_negated(one))
    return [", ".join(words_of(one)) for one in found if one and words_of(one)]


def reactions(
    statements: list[Element], texts: Texts, *, severity: Severity, cell: str
) -> list[Reaction]:
    """Return the reactions of an allergy.

    severity is that of the allergy itself: it counts for the reactions without one, and has a
    reaction of its own where it is graver than all of theirs. cell is what the narrative says that
    happened; what no reaction says of it becomes one.
    """
    observed = reaction_observations(statements)
    found = [
        (reaction, severity_in([one], texts))
        for one in observed
        if (reaction := _reaction(one, texts))
    ]
    _add_cell([reaction for reaction, _ in found], cell)
    known = [text for reaction, _ in found for text in words_of(reaction)]
    if cell and not is_placeholder(cell) and not stands_in(known, cell):
        found.append(({"manifestation": [{"text": cell}]}, NOT_GRADED))
    for reaction, own in found:
        (own if own != NOT_GRADED else severity).put_into(reaction)
    made = [reaction for reaction, _ in found]
    ranks = [own.rank for _, own in found]
    is_taken = NOT_GRADED in [own for _, own in found]
    if severity == NOT_GRADED or is_taken or max(ranks, default=-1) >= max(severity.rank, 1):
        return made
    whole: Reaction = {"manifestation": [{"coding": [_UNKNOWN]}]}
    if made:
        whole["description"] = _AS_A_WHOLE
    severity.put_into(whole)
    return [*made, whole]


def reaction_words(statements: list[Element], texts: Texts, cell: str) -> list[str]:
    """Return the words of the reactions in statements, and those of the narrative."""
    found = (_reaction(one, texts) for one in reaction_observations(statements))
    words = [text for reaction in found if reaction for text in words_of(reaction)]
    return [*words, *([cell] if cell and not is_placeholder(cell) else [])]


def has_reactions(statements: list[Element], texts: Texts, cell: str) -> bool:
    """Say whether statements, or the narrative, name a reaction by a code or in words."""
    found = (_reaction(one, texts) for one in reaction_observations(statements))
    if any(
        one and ("description" in one or not is_unknown(one["manifestation"][0])) for one in found
    ):
        return True
    return bool(cell) and not is_placeholder(cell)


def words_of(reaction: Reaction) -> list[str]:
    """Return the words of a reaction."""
    found = [str(reaction.get("description") or "")]
    for manifestation in reaction["manifestation"]:
        found.append(manifestation.get("text", ""))
        found += [
            one.get("display", "")
            for one in manifestation.get("coding", ())
            if one != _UNKNOWN and one != null_coding(one.get("code", ""))
        ]
    return [one for one in found if one]


def _all(statements: list[Element]) -> list[Element]:
    return [
        observation
        for statement in statements
        for related, observation in inner(statement)
        if related.get("typeCode") == "MFST" or _REACTION in observation.templates()
    ]


def _add_cell(found: list[Reaction], cell: str) -> None:
    """Put what the narrative says beside the one reaction that there is, if it says more."""
    if len(found) == 1 and cell and not is_placeholder(cell):
        (reaction,) = found
        if not stands_in(words_of(reaction), cell) and "description" not in reaction:
            if words_of(reaction):
                reaction["description"] = cell
            else:
                reaction["manifestation"] = [{"text": cell}]


def _reaction(observation: Element, texts: Texts) -> Reaction | None:
    """Return a reaction; None for one without words that its own nullFlavor says is not known."""
    text = texts.of(observation.first("text"))
    manifestation = _manifestation(observation.first("value"), text, texts)
    found: Reaction = {"manifestation": [manifestation]}
    known = words_of(found)
    if not known and observation.null_flavor:
        return None
    if text and not covers(known, text):
        found["description"] = text
    values.put(found, "onset", values.start_of(observation.first("effectiveTime")))
    return found


def _manifestation(value: Element | None, text: str, texts: Texts) -> dict[str, Any]:
    """Return what happened: by code, in words, or that it is not known."""
    found = concept(value, texts) or {}
    if value is not None and "text" not in found:
        # A display without a code, or text instead of a code (xsi:type ST or ED).
        named = "" if value.get("code") else value.get("displayName")
        if words := named or ("" if value.all("originalText") else plain(value)):
            found["text"] = words
    listed = found.get("coding", [])
    if "text" in found or any(one != null_coding(one["code"]) for one in listed):
        return found
    if text:
        return {**found, "text": text}
    return {**found, "coding": [_UNKNOWN, *listed]}
