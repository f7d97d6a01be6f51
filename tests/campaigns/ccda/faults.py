"""Resources that say what a generated document says, and faults that can be planted in them.

They test the comparison (differences.py): it finds nothing in the first, and each of the others.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from tests.campaigns.ccda.differences import LOINC, NULL_FLAVOR, Reading, conclusions
from tests.campaigns.ccda.generator import generate
from tests.campaigns.ccda.oracle import (
    NONE_KNOWN,
    SECTION,
    SEVERITIES,
    Fact,
    Facts,
    facts_of,
    holds,
    normal,
)

Resource = dict[str, Any]
SNOMED = "http://snomed.info/sct"
_CODES = {scope: code for code, scope in reversed(NONE_KNOWN.items())}
UNKNOWN_REACTION = {"coding": [{"system": SNOMED, "code": "261665006", "display": "Unknown"}]}


class Right(NamedTuple):
    """Resources that say what a document says."""

    facts: Facts
    allergies: list[Resource]
    readings: list[Reading]
    conclusion: str


@cache
def right(number: int) -> Right:
    """Return what a converter without faults makes of a generated document."""
    facts = facts_of(generate(number).document)
    allergies, readings = [], []
    for fact in facts.entries:
        is_allergy = fact.kinds == {"allergy", "no-information"}
        kind = "allergy" if is_allergy else min(fact.kinds)
        allergies.append(_resource(fact))
        readings.append(Reading(kind, fact.is_severe, fact.is_contradictory and not is_allergy))
    for words in (*facts.words, *([text] for text in facts.beside)):
        allergies.append(_only_words("; ".join(words)))
        readings.append(Reading("words-only", is_severe=False))
    return Right(facts, allergies, readings, min(conclusions(facts)))


def _concept(system: str, code: str) -> Resource:
    return {"coding": [{"system": system, "code": code}]}


def _only_words(text: str) -> Resource:
    return {
        "code": {**_concept(LOINC, SECTION), "text": text},
        "verificationStatus": _concept("verification", "unconfirmed"),
    }


def _resource(fact: Fact) -> Resource:
    """Return the resource of a fact."""
    verification = "refuted" if fact.is_refuted else "confirmed"
    given = {*fact.statuses, *fact.row_statuses}
    notes = [*fact.comments, *fact.texts, *fact.linked_texts, *fact.column_words]
    notes += ["The document contradicts itself"] if fact.is_contradicted else []
    notes += ["The source differs: " + ", ".join(sorted(given))] if len(given) > 1 else []
    notes += [*fact.unclear_statuses, *filter(None, (fact.end, fact.no_onset))]
    found: Resource = {
        "verificationStatus": _concept("v", "entered-in-error" if fact.is_error else verification),
        "note": [{"text": text} for text in notes],
    }
    if not fact.is_error:
        found["clinicalStatus"] = _concept("c", fact.status)
    if "allergy" not in fact.kinds:
        if "none-known" in fact.kinds:
            return {**found, "code": _concept(SNOMED, _CODES[fact.scope])}
        flavor = "NASK" if fact.kinds == {"not-asked"} else "NI"
        return {**found, "code": _concept(NULL_FLAVOR, flavor)}
    codings = [{"code": code} for code in fact.codes]
    found["code"] = {"coding": [*codings, *({"display": name} for name in fact.names)]}
    if fact.names:
        found["code"]["text"] = fact.names[0]
    if fact.criticality:
        found["criticality"] = fact.criticality
    if fact.onset:
        found["onsetDateTime"] = fact.onset
    return {**found, "type": "allergy", "reaction": _reactions(fact)}


def _reactions(fact: Fact) -> list[Resource]:
    """Return the reactions of a fact: each its own, and one for what is more."""
    found: list[Resource] = []
    for reaction in fact.reactions:
        if not reaction.words and not reaction.codes:
            continue
        made: Resource = {"manifestation": [{"coding": [{"code": c} for c in reaction.codes]}]}
        if reaction.words:
            made["manifestation"][0]["text"] = reaction.words[0]
        made["description"] = "; ".join(reaction.words[1:])
        if own := max(reaction.severities, default=0):
            made["severity"] = SEVERITIES[own]
        found.append(made)
    rank = max([*fact.severities, *fact.row_severities], default=0)
    more: Resource = {"manifestation": [UNKNOWN_REACTION]}
    words = {normal(text): text for text in [*fact.row_reactions, *fact.severity_words]}
    more["description"] = "; ".join(words.values())
    if rank:
        more["severity"] = SEVERITIES[rank]
    return [*found, more] if rank or more["description"] else found


# A fault changes a resource if its fact can have it. It returns False where that changes nothing.
Condition = Callable[[Fact], Any]
Change = Callable[[Fact, Resource], Any]
Fault = Callable[[Right], Right | None]


def is_allergy(fact: Fact) -> bool:
    return fact.kinds == {"allergy"}


def is_current(fact: Fact) -> bool:
    """Return whether a fact is neither refuted nor an error."""
    return not (fact.is_refuted or fact.is_error)


def _set(**elements: Any) -> Change:
    return lambda _, allergy: allergy.update(elements)


def _named(name: Callable[[Fact], str]) -> Change:
    return lambda fact, allergy: allergy["code"].update(text=name(fact))


def _coded(system: str, code: str) -> Change:
    return lambda _, allergy: allergy.update(code=_concept(system, code))


def _verified(status: str) -> Change:
    return _set(verificationStatus=_concept("v", status))


def _without_notes(is_left_out: Callable[[Fact, str], bool]) -> Change:
    """Return a change that leaves out notes; it is none where there are none of those."""

    def change(fact: Fact, allergy: Resource) -> bool:
        kept = [note for note in allergy["note"] if not is_left_out(fact, note["text"])]
        is_changed = bool(kept != allergy["note"])
        allergy["note"] = kept
        return is_changed

    return change


def _drop(element: str) -> Change:
    return lambda _, allergy: allergy.pop(element, None) is not None


def _drop_name(fact: Fact, allergy: Resource) -> bool:
    kept = [
        text
        for coding in allergy["code"]["coding"]
        if (text := coding.get("display", "")) != fact.names[-1]
    ]
    codings = [{"display": text} for text in kept if text]
    allergy["code"]["coding"] = [*codings, *({"code": code} for code in fact.codes)]
    return not holds(kept, fact.names[-1])


def _lower_severity(fact: Fact, allergy: Resource) -> None:
    for reaction in allergy["reaction"]:
        if reaction.get("severity") in SEVERITIES[fact.severity :]:
            reaction["severity"] = SEVERITIES[fact.severity - 1]


def _drop_row_severity(fact: Fact, allergy: Resource) -> None:
    for reaction in allergy["reaction"]:
        reaction.pop("severity", None)
        if fact.severity:
            reaction["severity"] = SEVERITIES[fact.severity]


def _share_severity(fact: Fact, allergy: Resource) -> bool:
    for reaction, made in zip(fact.reactions, allergy.get("reaction", ()), strict=False):
        own = max(reaction.severities, default=0)
        named = [other for other in fact.reactions if set(other.words) & set(reaction.words)]
        if 0 < own < fact.severity and len(named) == 1 and reaction.words and reaction.codes:
            made["severity"] = SEVERITIES[fact.severity]
            return True
    return False


def _drop_severity_words(_: Fact, allergy: Resource) -> None:
    for reaction in allergy["reaction"]:
        reaction["description"] = reaction["description"].replace("Grade X", "")


def _drop_reaction(_: Fact, allergy: Resource) -> bool:
    dropped = allergy["reaction"].pop(0)
    return dropped["manifestation"][0].get("text", "T78.2XXA") not in str(allergy["reaction"])


def _describe_reaction(fact: Fact, allergy: Resource) -> bool:
    for reaction, made in zip(fact.reactions, allergy.get("reaction", ()), strict=False):
        if reaction.words and not reaction.codes:
            made["manifestation"] = [UNKNOWN_REACTION]
            made["description"] = "; ".join(reaction.words)
            return all(other.codes or other is reaction for other in fact.reactions)
    return False


def _double_reaction(_: Fact, allergy: Resource) -> bool:
    for reaction in allergy.get("reaction", ()):
        for manifestation in reaction["manifestation"]:
            if "text" in manifestation:
                manifestation["text"] = " ".join([manifestation["text"]] * 2)
                return True
    return False


def _drop_row_reactions(fact: Fact, allergy: Resource) -> None:
    for reaction in allergy["reaction"]:
        own, _, _ = reaction.get("description", "").partition(fact.row_reactions[0])
        reaction["description"] = own


def _has_reactions_of_row_alone(fact: Fact) -> bool:
    own = [word for reaction in fact.reactions for word in reaction.words]
    return not all(holds(own, text) for text in fact.row_reactions)


def _may_be(new: str, old: str) -> Condition:
    """Return whether a fact of a status must not have another one."""

    def condition(fact: Fact) -> bool:
        given = {*fact.statuses, *fact.row_statuses, *fact.allowed_statuses}
        may_differ = not is_allergy(fact) and (len(given) > 1 or new in given or fact.is_over)
        is_stated = fact.kinds <= {"allergy", "none-known"} and fact.status == old
        return (
            is_stated
            and is_current(fact)
            and not (new in fact.allowed_statuses or may_differ)
            and not ((old, new) == ("resolved", "active") and fact.row_statuses)
        )

    return condition


def _in_status(status: str) -> Change:
    return _set(clinicalStatus=_concept("c", status))


_IN_ALLERGIES: dict[str, tuple[Condition, Change]] = {
    "a name is dropped": (lambda f: len(f.names) > 1, _drop_name),
    "a placeholder is the name": (
        lambda f: f.names,
        _named(lambda _: "Coded Allergy Name Not Available"),
    ),
    "the reaction is the name": (lambda f: f.names and f.decoys, _named(lambda f: f.decoys[0])),
    "the name is doubled": (lambda f: f.names, _named(lambda f: f"{f.names[0]} {f.names[0]}")),
    "a code is the name": (lambda f: f.names and f.codes, _named(lambda f: f.codes[0])),
    "the name is another": (lambda f: f.names, _named(lambda _: "Strawberries")),
    "a code is dropped": (lambda f: f.codes, lambda _, a: a["code"]["coding"].pop(0)),
    "the severity is lowered": (lambda f: f.severity > 1, _lower_severity),
    "the severities are dropped": (
        lambda f: f.severity,
        lambda _, a: [reaction.pop("severity", None) for reaction in a["reaction"]],
    ),
    "a severity is raised": (
        lambda f: (
            any(f.severities) and 3 not in (*f.severities, *f.row_severities, *f.allowed_severities)
        ),
        lambda _, a: a["reaction"][-1].update(severity="severe"),
    ),
    "the row's severity is dropped": (
        lambda f: f.severity < max(f.row_severities, default=0),
        _drop_row_severity,
    ),
    "the words of a severity are dropped": (
        lambda f: "Grade X" in f.severity_words,
        _drop_severity_words,
    ),
    "a reaction gets the allergy's severity": (lambda _: True, _share_severity),
    "a difference of status is not shown": (
        is_current,
        _without_notes(lambda _, text: text.startswith("The source")),
    ),
    "a confirmed one is refuted": (is_current, _verified("refuted")),
    "an allergy becomes none known": (is_current, _coded(SNOMED, "716186003")),
    "a reaction is dropped": (
        lambda f: any(reaction.words or reaction.codes for reaction in f.reactions),
        _drop_reaction,
    ),
    "the words of a reaction become unknown": (lambda _: True, _describe_reaction),
    "the words of a reaction are doubled": (lambda _: True, _double_reaction),
    "the reactions of the narrative are dropped": (
        _has_reactions_of_row_alone,
        _drop_row_reactions,
    ),
    "the words of another column are dropped": (
        lambda f: f.column_words,
        _without_notes(lambda f, text: text in f.column_words),
    ),
    "the criticality is dropped": (lambda _: True, _drop("criticality")),
    "the onset is dropped": (lambda _: True, _drop("onsetDateTime")),
    "a placeholder is the onset": (lambda f: f.no_onset, _set(onsetDateTime="0001-01-01")),
    "an end is dropped": (
        lambda f: f.end and is_current(f),
        _without_notes(lambda f, text: text == f.end),
    ),
    "a status that is not understood is dropped": (
        lambda f: f.unclear_statuses and is_current(f),
        _without_notes(lambda f, text: text in f.unclear_statuses),
    ),
}
_IN_ENTRIES: dict[str, tuple[Condition, Change]] = {
    **{
        f"an {old} one is {new}": (_may_be(new, old), _in_status(new))
        for old, new in (
            *(("active", "inactive"), ("active", "resolved"), ("inactive", "resolved")),
            ("resolved", "active"),
        )
    },
    "an end that has not come resolves": (
        lambda f: f.end and not f.is_over and not f.statuses and _may_be("resolved", "active")(f),
        _in_status("resolved"),
    ),
    "an error is confirmed": (
        lambda f: f.is_error,
        _set(verificationStatus=_concept("v", "confirmed"), clinicalStatus=_concept("c", "active")),
    ),
    "a refuted one is confirmed": (
        lambda f: f.is_refuted and not f.is_error,
        _verified("confirmed"),
    ),
    "no information becomes none known": (
        lambda f: f.kinds <= {"no-information", "not-asked"},
        _coded(SNOMED, "716186003"),
    ),
    "none known of drugs becomes none known at all": (
        lambda f: f.kinds == {"none-known"} and f.scope != "any",
        _coded(SNOMED, "716186003"),
    ),
    "none known becomes refuted": (
        lambda f: f.kinds == {"none-known"} and not f.is_error,
        _verified("refuted"),
    ),
    "none known becomes no information": (
        lambda f: f.kinds == {"none-known"},
        _coded(NULL_FLAVOR, "NI"),
    ),
    "not asked becomes no information": (
        lambda f: f.kinds == {"not-asked"},
        _coded(NULL_FLAVOR, "NI"),
    ),
    "not asked becomes an allergy": (
        lambda f: f.kinds <= {"not-asked", "no-information"},
        _set(type="allergy"),
    ),
    "a contradicted denial is refuted": (
        lambda f: f.is_contradicted and not f.is_error,
        _verified("refuted"),
    ),
    "a contradiction is not noted": (
        lambda f: f.is_contradicted,
        _without_notes(lambda _, text: "contradicts" in text),
    ),
    "the comments are dropped": (
        lambda f: f.comments,
        lambda f, a: a.update(note=a["note"][len(f.comments) :]),
    ),
}


def _in_first(condition: Condition, change: Change) -> Fault:
    """Return a fault of one resource: the first that can have it."""

    def plant(found: Right) -> Right | None:
        allergies = copy.deepcopy(found.allergies)
        for fact, allergy in zip(found.facts.entries, allergies, strict=False):
            if condition(fact) and change(fact, allergy) is not False:
                return found._replace(allergies=allergies)
        return None

    return plant


def _if_allergy(condition: Condition) -> Condition:
    return lambda fact: is_allergy(fact) and condition(fact)


# Faults of all that is made of a document.


def _without(found: Right, place: int) -> Right:
    allergies, readings = list(found.allergies), list(found.readings)
    del allergies[place], readings[place]
    return found._replace(allergies=allergies, readings=readings)


def _with(found: Right, allergy: Resource, kind: str) -> Right:
    readings = [*found.readings, Reading(kind, is_severe=False)]
    return found._replace(allergies=[*found.allergies, allergy], readings=readings)


def _last(found: Right, **elements: Any) -> Right:
    *others, last = found.allergies
    return found._replace(allergies=[*others, {**last, **elements}])


def _read_otherwise(condition: Callable[[Fact, Reading], Any], **changed: Any) -> Fault:
    """Return a fault of the first reading that can have it."""

    def plant(found: Right) -> Right | None:
        for place, fact in enumerate(found.facts.entries):
            if condition(fact, found.readings[place]):
                readings = list(found.readings)
                readings[place] = readings[place]._replace(**changed)
                return found._replace(readings=readings)
        return None

    return plant


def _mixed(mix: Callable[[Resource, Resource], Resource]) -> Fault:
    """Return a fault: the first allergy with something of a second that shares no word with it."""

    def plant(found: Right) -> Right | None:
        entries = found.facts.entries[:2]
        if len(entries) < 2 or not all(is_allergy(fact) and fact.names for fact in entries):
            return None
        own, others = (
            [word for reaction in fact.reactions for word in reaction.words] for fact in entries
        )
        codes = [code for fact in entries for reaction in fact.reactions for code in reaction.codes]
        if codes or not others or any(holds(own, word) for word in others):
            return None
        changed = {**found.allergies[0], **mix(*found.allergies[:2])}
        return found._replace(allergies=[changed, *found.allergies[1:]])

    return plant


def _add_names(first: Resource, other: Resource) -> Resource:
    names = [
        {"display": coding["display"]} for coding in other["code"]["coding"] if "display" in coding
    ]
    return {"code": {**first["code"], "coding": [*first["code"]["coding"], *names]}}


def _headed_words(found: Right) -> Right | None:
    if not (found.facts.words and found.facts.heads):
        return None
    code = found.allergies[-1]["code"]
    return _last(found, code={**code, "text": f"{found.facts.heads[0]} {code['text']}"})


def _concluded(found: Right, conclusion: str) -> Right | None:
    is_right = any(possible.startswith(conclusion) for possible in conclusions(found.facts))
    return None if is_right else found._replace(conclusion=conclusion)


FAULTS: dict[str, Fault] = {
    **{
        name: _in_first(_if_allergy(condition), change)
        for name, (condition, change) in _IN_ALLERGIES.items()
    },
    **{name: _in_first(condition, change) for name, (condition, change) in _IN_ENTRIES.items()},
    "words beside are dropped": lambda r: _without(r, -1) if r.facts.beside else None,
    "words are dropped": lambda r: _without(r, -1) if r.facts.words else None,
    "words are confirmed": lambda r: (
        _last(r, verificationStatus=_concept("v", "confirmed")) if r.facts.words else None
    ),
    "words have the heads of the table": _headed_words,
    "a heading becomes words": lambda r: (
        _with(r, _only_words("Active allergies"), "words-only") if r.facts.entries else None
    ),
    "a reaction of another is added": _mixed(
        lambda first, other: {"reaction": [*first["reaction"], *other["reaction"]]}
    ),
    "a name of another is added": _mixed(_add_names),
    "an allergy is dropped": lambda r: (
        _without(r, 0) if r.facts.entries and not r.facts.entries[0].is_void else None
    ),
    "none known is invented": lambda r: _with(
        r, {"code": _concept(SNOMED, "716186003")}, "none-known"
    ),
    "an allergy is invented": lambda r: _with(
        r, {"code": {"text": "Strawberries"}, "clinicalStatus": _concept("c", "active")}, "allergy"
    ),
    "a severe one does not count as severe": _read_otherwise(
        lambda f, reading: is_allergy(f) and reading.is_severe and is_current(f), is_severe=False
    ),
    "two substances of one allergy are not found": _read_otherwise(
        lambda f, _: is_allergy(f) and is_current(f) and f.is_contradictory, is_doubtful=False
    ),
    "no information is read as none known": _read_otherwise(
        lambda f, _: "none-known" not in f.kinds,
        kind="none-known",
        is_severe=False,
        is_doubtful=False,
    ),
    "the conclusion is that none is known": lambda r: _concluded(r, "none-known"),
    "the conclusion is that nothing is recorded": lambda r: _concluded(r, "nothing-recorded"),
}
