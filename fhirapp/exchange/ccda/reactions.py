"""What happened: Reaction Observations as AllergyIntolerance.reaction.

Sources: C-CDA R2.1, Reaction Observation and Severity Observation; HL7 C-CDA on FHIR 2.0.0,
CF-Severity; service.md 2.3; decisions 2.19.
"""

from __future__ import annotations

from typing import Any

from fhirapp.allergies.assertion import is_placeholder
from fhirapp.exchange.ccda import times
from fhirapp.exchange.ccda.severities import NOT_GRADED, Severity, severity_in
from fhirapp.exchange.ccda.statements import inner
from fhirapp.exchange.ccda.texts import Texts, covers, plain, stands_in
from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import concept, is_negated, null_coding
from fhirapp.fhir.systems import SNOMED_CT, UNKNOWN_REACTION
from fhirapp.fhir.words import is_unknown

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
    times.put(found, "onset", times.start_of(observation.first("effectiveTime")))
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
