"""Differences between AllergyIntolerances and the document that they were converted from.

`differences` compares what tests/campaigns/ccda/oracle.py reads in the document: nothing milder,
no fact missing, nothing denied without a statement. Nothing of fhirapp is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any, NamedTuple

from tests.campaigns.ccda.oracle import (
    NO_STATEMENTS,
    NONE_KNOWN,
    SECTION,
    SEVERITIES,
    STATUSES,
    Fact,
    Facts,
    Reaction,
    holds,
    is_grave,
    is_placeholder,
    normal,
    scope_of_words,
    status_of_words,
)

Resource = dict[str, Any]
LOINC = "http://loinc.org"
NULL_FLAVOR = "http://terminology.hl7.org/CodeSystem/v3-NullFlavor"
UNKNOWN_REACTION = "261665006"
# What a contradiction may be called beside the name of its row.
NONE_KNOWN_NAMES = (
    *("No known allergy", "No known drug allergy", "No known food allergy"),
    "No known environmental allergy",
)


# What allergies to different substances share.
GENERAL_NAMES = {
    *("adverse reaction to substance", "unknown", "http snomed info sct"),
    *("http www nlm nih gov research umls rxnorm", "http fdasis nlm nih gov"),
}


class Reading(NamedTuple):
    """What is made of a resource above the converter.

    Its kind, whether it counts as severe, and whether a finding says that it is in doubt.
    """

    kind: str
    is_severe: bool
    is_doubtful: bool = False


def repeated(allergies: Sequence[Resource]) -> list[str]:
    """Return a difference if allergies that are said to be of one substance share no name."""
    names = [
        {normal(text) for text in _strings(allergy["code"]) if not is_placeholder(text)}
        for allergy in allergies
    ]
    if set.intersection(*names) - GENERAL_NAMES:
        return []
    return [f"repeated: {[allergy['code'].get('text') for allergy in allergies]}"]


def differences(
    facts: Facts,
    allergies: Sequence[Resource],
    readings: Sequence[Reading] | None = None,
    conclusion: str | None = None,
) -> list[str]:
    """Return where resources say something else than a document, each as "kind: detail".

    readings: one for each resource. conclusion: what is concluded of all of them.
    """
    given: Sequence[Reading | None] = readings or [None] * len(allergies)
    found: list[str] = []
    entries = facts.entries
    own = sum(not is_words_only(allergy) for allergy in allergies)
    if own < len(entries):
        # An entry in which nothing stands may be left out.
        entries = [fact for fact in entries if not fact.is_void]
    if own < len(entries):
        found.append(f"allergy-missing: {len(allergies)} of {len(entries)}")
    pairs, rest = _matched(entries, list(zip(allergies, given, strict=True)))
    for fact, (allergy, reading) in pairs:
        found += _differences(fact, allergy, reading, facts.text)
    found += _of_words(facts, rest)
    found += _of_beside(facts, allergies)
    if conclusion is not None and conclusion not in (right := conclusions(facts)):
        found.append(f"conclusion: {conclusion}, not {' or '.join(sorted(right))}")
    return found


Pair = tuple[Resource, Reading | None]


def _matched(
    entries: Sequence[Fact], resources: list[Pair]
) -> tuple[list[tuple[Fact, Pair]], list[Pair]]:
    """Return each fact with the resource that fits it best, and the resources that are left."""
    own = [pair for pair in resources if not is_words_only(pair[0])]
    many = len(own) if len(own) >= len(entries) else len(resources)
    candidates = own if many == len(own) else resources
    entries = entries[: len(candidates)]
    costs = [[len(list(_differences(fact, *pair, ""))) for pair in candidates] for fact in entries]
    orders = (
        permutations(range(len(candidates)), len(entries))
        if len(candidates) <= 6
        else iter([tuple(range(len(entries)))])
    )
    best = min(orders, key=lambda order: sum(costs[i][j] for i, j in enumerate(order)))
    pairs = [(fact, candidates[j]) for fact, j in zip(entries, best, strict=True)]
    taken = [id(pair[0]) for _, pair in pairs]
    return pairs, [pair for pair in resources if id(pair[0]) not in taken]


def _codings(concept: Any) -> list[Resource]:
    return concept.get("coding", []) if isinstance(concept, dict) else []


def _code(concept: Any) -> str:
    return next((coding.get("code", "") for coding in _codings(concept)), "")


def is_words_only(allergy: Resource) -> bool:
    codings = _codings(allergy.get("code"))
    return any(
        coding.get("system") == LOINC and coding.get("code") == SECTION for coding in codings
    )


def _strings(value: Any) -> Iterator[str]:
    """Yield the texts in a part of a resource."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():
            yield from _strings(part)
    elif isinstance(value, list):
        for part in value:
            yield from _strings(part)


def _differences(
    fact: Fact, allergy: Resource, reading: Reading | None, source: str
) -> Iterator[str]:
    """Yield how a resource differs from a fact."""
    yield from _of_kind(fact, allergy, reading)
    yield from _of_status(fact, allergy)
    if fact.kinds == {"allergy"}:
        yield from _of_names(fact, allergy, source)
        yield from _of_reactions(fact, allergy)
        yield from _of_narrative(fact, allergy)
        yield from _of_severities(fact, allergy)
        if fact.criticality and allergy.get("criticality") != fact.criticality:
            yield f"criticality: {allergy.get('criticality')}, not {fact.criticality}"
        if fact.onset and not str(allergy.get("onsetDateTime", "")).startswith(fact.onset):
            yield f"onset: {allergy.get('onsetDateTime')}, not {fact.onset}"
        if fact.no_onset and ("onsetDateTime" in allergy or "onsetString" in allergy):
            yield f"onset-invented: {fact.no_onset} is no date"
        if fact.no_onset and not holds(_notes(allergy), fact.no_onset):
            yield f"onset-lost: no note says {fact.no_onset}"
        if reading and not (fact.is_refuted or fact.is_error):
            yield from _of_gravity(fact, reading)
            if fact.is_contradictory and not reading.is_doubtful:
                yield f"contradiction: no finding says that {fact.names} are two substances"
    yield from _of_texts(fact, allergy)


def _of_kind(fact: Fact, allergy: Resource, reading: Reading | None) -> Iterator[str]:
    """Yield whether a resource, and what reads it, state another kind of thing."""
    kind, right = kind_of(allergy), " or ".join(sorted(fact.kinds))
    code, right_scopes = _code(allergy.get("code")), (fact.scope, fact.narrow_scope)
    if kind not in fact.kinds:
        what = "absence-invented" if kind == "none-known" else f"kind-{min(fact.kinds)}"
        yield f"{what}: the resource says {kind}, not {right}"
    elif kind == "none-known" and NONE_KNOWN.get(code, fact.scope) not in right_scopes:
        yield f"absence-scope: {code} for {fact.scope}"
    if reading and reading.kind not in fact.kinds:
        what = "read-absence-invented" if reading.kind == "none-known" else "read-kind"
        yield f"{what}: read as {reading.kind}, not {right}"
    if not fact.kinds & {"allergy", "none-known"}:
        for name in ("type", "onsetDateTime"):
            if name in allergy:
                yield f"no-information-{name}: {allergy[name]}"


def _of_gravity(fact: Fact, reading: Reading) -> Iterator[str]:
    """Yield whether an allergy counts as severe though it is not, or the other way round."""
    allowed = fact.criticality == "high" or 3 in fact.allowed_severities
    allowed |= is_grave(fact.allowed_words)
    if fact.is_severe and not reading.is_severe:
        yield "severe-missed: the source says that it is severe"
    if reading.is_severe and not fact.is_severe and not allowed:
        yield "severe-invented: nothing in the source says so"


def _of_texts(fact: Fact, allergy: Resource) -> Iterator[str]:
    """Yield the comments and texts that are lost."""
    notes = _notes(allergy)
    if fact.is_contradicted and not any("contradicts" in note for note in notes):
        yield "contradiction: no note says that the document contradicts itself"
    for comment in fact.comments:
        if not holds(notes, comment):
            yield f"comment: {comment!r} is not in a note"
    for text in (*fact.texts, *(fact.column_words if "allergy" in fact.kinds else ())):
        if not holds(_strings(allergy), text):
            yield f"text: {text!r} is lost"
    for text in fact.linked_texts if "allergy" in fact.kinds else ():
        lost = [word for word in normal(text).split() if not holds(_strings(allergy), word)]
        if lost:
            yield f"linked-text: {lost} of {text!r} is lost"


def _notes(allergy: Resource) -> list[str]:
    return [note.get("text", "") for note in allergy.get("note", [])]


def kind_of(allergy: Resource) -> str:
    """Return what a resource states by its codes and its name alone."""
    if is_words_only(allergy):
        return "words-only"
    concept = allergy.get("code", {})
    codings = _codings(concept)
    text = concept.get("text", "")
    refuted = _code(allergy.get("verificationStatus")) == "refuted"
    if not refuted and (
        any(coding.get("code") in NONE_KNOWN for coding in codings)
        or scope_of_words(text)
        # Beside a name, what has no code is what contradicts it.
        or any(scope_of_words(c.get("display", "")) for c in codings if c.get("code") or not text)
    ):
        return "none-known"
    real = [coding for coding in codings if coding.get("system") != NULL_FLAVOR]
    manifests = [
        words
        for reaction in allergy.get("reaction", [])
        for words in (*reaction.get("manifestation", []), reaction.get("description"))
        if words and (isinstance(words, str) or _code(words) != UNKNOWN_REACTION)
    ]
    if (
        real
        or text
        or manifests
        or any("severity" in reaction for reaction in allergy.get("reaction", []))
    ):
        return "allergy"
    return (
        "not-asked" if any(coding.get("code") == "NASK" for coding in codings) else "no-information"
    )


def _of_status(fact: Fact, allergy: Resource) -> Iterator[str]:
    """Yield differences of the verification and the clinical status."""
    verification = _code(allergy.get("verificationStatus"))
    if fact.is_error:
        if verification != "entered-in-error" or "clinicalStatus" in allergy:
            yield f"error: {verification}, {_code(allergy.get('clinicalStatus'))}"
        return
    if verification == "entered-in-error":
        yield "error-invented: nothing says that it was entered in error"
    if fact.kinds == {"allergy"} and fact.is_refuted != (verification == "refuted"):
        yield f"refuted: {verification}"
    if not fact.is_refuted and fact.kinds & {"allergy", "none-known"}:
        yield from _of_clinical_status(fact, allergy)


def _of_clinical_status(fact: Fact, allergy: Resource) -> Iterator[str]:
    """Yield a status that is milder or graver than the gravest given, and a difference hidden."""
    status, right = _code(allergy.get("clinicalStatus")), fact.status
    given = [*fact.statuses, *fact.row_statuses]
    if fact.kinds == {"none-known"} and (
        len(set(given)) > 1 or status in {*given, *fact.allowed_statuses, *_end(fact)}
    ):
        # That none is known holds no longer where any place says so: conclusions() asks for it.
        return
    # A status that stands in a row only does not have to end an allergy.
    may_hold = status == "active" and not fact.statuses and bool(fact.row_statuses)
    rank = STATUSES.index(status) if status in STATUSES else 0
    if rank < STATUSES.index(right):
        yield f"status-milder: {status or 'none'}, not {right}"
    elif status != right and status not in fact.allowed_statuses and not may_hold:
        yield f"status-graver: {status}, not {right}"
    for other in dict.fromkeys(given):
        words = [other, *(text for text in fact.status_words if status_of_words(text) == other)]
        if other != right and not any(holds(_notes(allergy), text) for text in words):
            yield f"status-difference: no note says {other}"
    for words in fact.unclear_statuses:
        if not holds(_notes(allergy), words):
            yield f"status-words: {words!r} is lost"
    if fact.end and not holds(_strings(allergy), fact.end):
        yield f"end: {fact.end} is lost"


def _end(fact: Fact) -> list[str]:
    return ["resolved"] if fact.is_over and not fact.statuses else []


def _doubled(text: str) -> bool:
    words = normal(text).split()
    half = len(words) // 2
    return len(words) % 2 == 0 and half > 0 and words[:half] == words[half:]


def _of_names(fact: Fact, allergy: Resource, source: str) -> Iterator[str]:
    """Yield differences of the names and codes of a substance."""
    concept = allergy.get("code", {})
    text = concept.get("text", "")
    codings = _codings(concept)
    shown = [text, *(coding.get("display", "") for coding in codings)]
    for name in fact.names:
        if not holds(shown, name):
            yield f"name-missing: {name!r} is not in {shown}"
    if fact.names and is_placeholder(text):
        yield f"name-placeholder: {text!r} beside {fact.names}"
    if fact.names and any(normal(text) == normal(decoy) for decoy in fact.decoys):
        yield f"name-of-reaction: {text!r} beside {fact.names}"
    own = [*fact.names, *fact.decoys, *fact.linked_texts, *fact.allowed_words, *fact.texts]
    own += NONE_KNOWN_NAMES if fact.is_contradicted else ()
    for name in (text, *(coding.get("display", "") for coding in codings if "code" not in coding)):
        is_own = holds(own, name) or any(holds([name], each) for each in fact.names)
        # What nothing names may have any words of the source.
        if not (is_own or is_placeholder(name) or (not fact.names and holds([source], name))):
            yield f"name-invented: {name!r}"
    if _doubled(text) and not any(_doubled(name) for name in fact.names):
        yield f"name-doubled: {text!r}"
    yield from _of_codes(fact, text, codings)


def _of_codes(fact: Fact, text: str, codings: Sequence[Resource]) -> Iterator[str]:
    """Yield a code that is shown as the name, and those that are lost."""
    if fact.names and text in fact.codes:
        yield f"name-code: {text!r} beside {fact.names}"
    for code in fact.codes:
        if code not in [coding.get("code") for coding in codings]:
            yield f"code-missing: {code}"


def _of_reactions(fact: Fact, allergy: Resource) -> Iterator[str]:
    """Yield differences of the reactions that entries have."""
    reactions = allergy.get("reaction", [])
    shown = [text for reaction in reactions for text in _words_of(reaction)]
    codes = [
        coding.get("code") for reaction in reactions for coding in _manifestation_codings(reaction)
    ]
    texts = [manifestation.get("text", "") for manifestation in _manifestations(reactions)]
    for reaction in fact.reactions:
        for word in reaction.words:
            if not holds(shown, word):
                yield f"reaction-words: {word!r} is not in {shown}"
        for code in reaction.codes:
            if code not in codes:
                yield f"reaction-code: {code} is missing"
        is_named = any(holds(texts, word) for word in reaction.words)
        if reaction.words and not reaction.codes and not is_named:
            yield f"reaction-unknown: {reaction.words} is the text of no manifestation"
        own = SEVERITIES[max(reaction.severities, default=0)]
        holders = [made.get("severity") for made in reactions if _is_reaction(made, reaction)]
        if own and holders and own not in holders:
            yield f"reaction-severity: {reaction.words} is not {own}"


def _of_narrative(fact: Fact, allergy: Resource) -> Iterator[str]:
    """Yield reactions of the narrative that are lost, and those that are doubled or invented."""
    reactions = allergy.get("reaction", [])
    shown = [text for made in reactions for text in _words_of(made)]
    for text in fact.row_reactions:
        for piece in re.split(r"[,;]", text):
            if not is_placeholder(piece) and not holds([*shown, *_notes(allergy)], piece):
                yield f"row-reaction: {piece!r} of the narrative is lost"
    words = [word for reaction in fact.reactions for word in reaction.words] + fact.row_reactions
    for text in shown:
        if _doubled(text) and not any(_doubled(word) for word in words):
            yield f"reaction-doubled: {text!r}"
    codes = {code for reaction in fact.reactions for code in reaction.codes}
    others = [*fact.texts, *fact.linked_texts, *fact.severity_words, *fact.allowed_words]
    for manifestation in _manifestations(reactions):
        if codes & {coding.get("code") for coding in _codings(manifestation)}:
            continue
        for text in _words_of({"manifestation": [manifestation]}):
            if not (is_placeholder(text) or holds([*words, *others], text)):
                yield f"reaction-invented: {text!r}"


def _words_of(reaction: Resource) -> list[str]:
    """Return the words of a resource's reaction."""
    texts = [manifestation.get("text", "") for manifestation in reaction.get("manifestation", [])]
    displays = [
        coding.get("display", "")
        for coding in _manifestation_codings(reaction)
        if coding.get("code") != UNKNOWN_REACTION and coding.get("system") != NULL_FLAVOR
    ]
    return [text for text in (*texts, *displays, reaction.get("description", "")) if text]


def _manifestations(reactions: Sequence[Resource]) -> list[Resource]:
    return [part for reaction in reactions for part in reaction.get("manifestation", [])]


def _manifestation_codings(reaction: Resource) -> list[Resource]:
    return [
        c for manifestation in reaction.get("manifestation", []) for c in _codings(manifestation)
    ]


def _is_reaction(found: Resource, reaction: Reaction) -> bool:
    codes = [coding.get("code") for coding in _manifestation_codings(found)]
    if reaction.codes:
        return any(code in codes for code in reaction.codes)
    return any(holds(_words_of(found), word) for word in reaction.words)


def _of_severities(fact: Fact, allergy: Resource) -> Iterator[str]:
    """Yield differences of the severities of an entry."""
    reactions = allergy.get("reaction", [])
    ranks = [
        SEVERITIES.index(reaction["severity"]) for reaction in reactions if "severity" in reaction
    ]
    gravest = max(ranks, default=0)
    if gravest < fact.severity:
        yield f"severity-milder: {SEVERITIES[gravest] or 'none'}, not {SEVERITIES[fact.severity]}"
    elif gravest < max(fact.row_severities, default=0):
        yield f"severity-milder-than-row: {SEVERITIES[gravest] or 'none'}"
    for rank in ranks:
        if rank not in (*fact.severities, *fact.row_severities, *fact.allowed_severities):
            yield f"severity-invented: {SEVERITIES[rank]}"
    kept = [*_strings(reactions), *_notes(allergy)]
    for words in fact.severity_words:
        if not holds(kept, words):
            yield f"severity-words: {words!r} is lost"


def _of_beside(facts: Facts, allergies: Sequence[Resource]) -> Iterator[str]:
    """Yield texts beside the rows that no resource has, each whole in one of them."""
    for text in facts.beside:
        wanted = set(normal(text).split())
        if not any(
            wanted <= set(normal(" ".join(_strings(allergy))).split()) for allergy in allergies
        ):
            yield f"beside-lost: {text!r}"


def _of_words(facts: Facts, rest: Sequence[Pair]) -> Iterator[str]:
    """Yield differences of what stands only in words, and what nothing in the source says."""
    kept = [(allergy, reading) for allergy, reading in rest if is_words_only(allergy)]
    texts = [allergy["code"].get("text", "") for allergy, _ in kept]
    said = [
        pair for pair in rest if not is_words_only(pair[0]) and kind_of(pair[0]) == "none-known"
    ]
    stated = [word for words in facts.words for word in words if scope_of_words(word)]
    # Words that say nothing else than that none is known become that statement.
    texts += [allergy["code"].get("text", "") for allergy, _ in said if stated]
    for word in (word for words in facts.words for word in words):
        if not holds(texts, word):
            yield f"words-lost: {word!r}"
    if kept and not (facts.words or facts.soft_words or facts.beside):
        yield f"words-again: {texts}"
    for allergy, reading in kept:
        yield from _of_word(facts, allergy, reading)
    for allergy, _ in rest:
        is_stated = bool(stated) and kind_of(allergy) == "none-known"
        if not is_words_only(allergy) and kind_of(allergy) != facts.empty_for and not is_stated:
            yield f"allergy-invented: {kind_of(allergy)} {allergy.get('code')}"


def _of_word(facts: Facts, allergy: Resource, reading: Reading | None) -> Iterator[str]:
    """Yield what is wrong with a resource that has words only."""
    text = allergy["code"].get("text", "")
    for head in facts.heads:
        if len(head.split()) > 1 and holds([text], head):
            yield f"words-with-heads: {head!r}"
    if NO_STATEMENTS.fullmatch(normal(text)) and facts.entries:
        yield f"words-about-the-record: {text!r}"
    for word in normal(text).split():
        if not holds([facts.text], word):
            yield f"words-invented: {word!r}"
    if _code(allergy.get("verificationStatus")) != "unconfirmed":
        yield "words-confirmed: nobody has confirmed what stands only in words"
    right = {"words-only", *(("none-known",) if scope_of_words(text) else ())}
    if reading and reading.kind not in right:
        yield f"words-read: as {reading.kind}"


def conclusions(facts: Facts) -> set[str]:
    """Return what may be concluded of all that a document says."""
    entries = [fact for fact in facts.entries if not fact.is_error]
    allergies = [fact for fact in entries if "allergy" in fact.kinds and not fact.is_refuted]
    if any(fact.kinds == {"allergy"} and fact.status == "active" for fact in allergies):
        return {"allergies"}
    right: set[str] = set()
    may_hold = [fact for fact in allergies if fact.row_statuses and not fact.statuses]
    if may_hold or any(
        {"active", "inactive"} & {fact.status, *fact.allowed_statuses} for fact in allergies
    ):
        right |= {"allergies"}
    if any(fact.is_refuted or fact.kinds == {"allergy"} for fact in entries):
        right |= {"none-holding"}
    if facts.words:
        return {"words-only", *(right & {"allergies"}), *_none_known_in(facts.words)}
    if facts.soft_words or facts.beside:
        right |= {"words-only"}
    if len(entries) < len(facts.entries):
        # What was entered in error holds nothing.
        right |= {"none-holding"}
    for fact in entries:
        if "none-known" in fact.kinds:
            stated = {"none-known" if fact.scope == "any" else "none-known-in-part"}
            stated |= {"none-known-in-part"} if fact.narrow_scope else set()
            given = {*fact.statuses, *(fact.row_statuses and _end(fact)), *fact.row_statuses}
            given = given or {fact.status}
            right |= stated if given == {"active"} else {"none-holding"}
            # A row of the same words may be this statement's.
            right |= {"none-holding"} if facts.soft_words or fact.allowed_statuses else set()
        if fact.kinds & {"not-asked", "no-information"}:
            right |= fact.kinds - {"allergy", "none-known"}
            right |= {"none-holding"} if fact.status != "active" else set()
        right |= {"nothing-recorded"} if fact.is_void else set()
    right |= {facts.empty_for} - {""}
    return right or {"none-holding", "nothing-recorded"}


def _none_known_in(words: Sequence[Sequence[str]]) -> set[str]:
    """Return what words allow to conclude that say nothing but that no allergy is known."""
    scopes = [scope_of_words(" ".join(texts)) for texts in words]
    return {"none-known", "none-known-in-part"} if all(scopes) else set()
