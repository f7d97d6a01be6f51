"""Generated C-CDA documents become what an independent reading of them says; nothing false is made.

    FHIRAPP_TEST_CCDA=6000 python -m pytest tests/campaigns/ccda/test_oracle.py
    python -m tests.campaigns.ccda.test_oracle FIRST COUNT

run more documents than the tests do by themselves; the second counts the differences of each kind,
with a document for each: `python -m tests.campaigns.ccda.generator NUMBER` prints it.
"""

from __future__ import annotations

import ast
import copy
import inspect
import os
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import Any, NamedTuple

import pytest

from fhirapp.allergies.contradictions import findings_of
from fhirapp.allergies.summary import conclusion_of, entries_of
from tests.campaigns.ccda import differences as ccda_differences
from tests.campaigns.ccda import generator as ccda_generator
from tests.campaigns.ccda import oracle as ccda_oracle
from tests.campaigns.ccda import shapes as ccda_shapes
from tests.campaigns.ccda.differences import (
    LOINC,
    NULL_FLAVOR,
    Reading,
    conclusions,
    differences,
    repeated,
)
from tests.campaigns.ccda.generator import Planted, covered, covering, effective, generate, pairs
from tests.campaigns.ccda.oracle import (
    SECTION,
    SEVERITIES,
    STATUSES,
    Fact,
    Facts,
    facts_of,
    holds,
    normal,
)
from tests.campaigns.ccda.shapes import SUITES
from tests.support.ccda_samples import of_type, read, sample

Resource = dict[str, Any]

DOCUMENTS = int(os.environ.get("FHIRAPP_TEST_CCDA", "0"))
AT_ONCE = 100
PLANTED = int(os.environ.get("FHIRAPP_TEST_CCDA", "12"))
SNOMED = "http://snomed.info/sct"
NONE_KNOWN = {
    "any": "716186003",
    "drug": "409137002",
    "food": "429625007",
    "environment": "428607008",
}
UNKNOWN_REACTION = {"coding": [{"system": SNOMED, "code": "261665006", "display": "Unknown"}]}
# Findings that two entries are about one substance.
_ABOUT_THE_SAME = ("duplicate", "past-beside-active", "refuted-beside-active")
CRITICALITIES = {"": "", "CRITH": "high", "CRITL": "low", "CRITU": "unable-to-assess"}


def numbers() -> range:
    """Return the documents to run: all that cover the pairs, or as many as are wanted."""
    return range(DOCUMENTS or covered())


def check(number: int) -> list[str]:
    """Return where fhirapp says something else than a generated document."""
    return differences_of(generate(number).document)


def differences_of(document: str) -> list[str]:
    """Return where fhirapp says something else than a document."""
    allergies = of_type(read(document), "AllergyIntolerance")
    readings = []
    for allergy in allergies:
        (entry,) = entries_of([allergy])
        doubtful = bool(entry.faults)
        readings.append(Reading(entry.assertion.kind.value, entry.is_severe, doubtful))
    entries = entries_of(allergies)
    by_reference = {f"AllergyIntolerance/{allergy['id']}": allergy for allergy in allergies}
    found = [
        difference
        for finding in findings_of(entries)
        if finding.code in _ABOUT_THE_SAME
        for difference in repeated([by_reference[name] for name in finding.sources])
    ]
    conclusion = conclusion_of(entries).code
    return [*found, *differences(facts_of(document), allergies, readings, conclusion)]


@pytest.mark.parametrize("first", numbers()[::AT_ONCE])
def test_nothing_is_milder_missing_or_denied_without_a_statement(first):
    found = [
        f"{number}: {difference}"
        for number in range(first, min(first + AT_ONCE, numbers().stop))
        for difference in check(number)
    ]
    assert not found, "\n".join(found)


SAMPLES = ("ccd", "ccd-1.1", "discharge-summary", "patient-generated", "plain-cda", "referral-note")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_samples_say_what_the_oracle_reads(name):
    assert differences_of(sample(name).replace("ISO-8859-1", "UTF-8")) == []


# The oracle reads what the generator planted.


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_the_oracle_reads_what_is_planted(first):
    for number in range(first, first + 500):
        generated = generate(number)
        facts = facts_of(generated.document)
        assert len(facts.entries) == len(generated.planted), number
        for fact, planted in zip(facts.entries, generated.planted, strict=True):
            assert _unlike(fact, planted) == [], number
        words = normal(" ".join(word for words in facts.words for word in words)).split()
        assert sorted(words) == sorted(normal(" ".join(generated.words)).split()), number


def _unlike(fact: Fact, planted: Planted) -> list[str]:
    """Return the names of what was read otherwise than planted."""
    same = {"kind": planted.kind in fact.kinds, "error": fact.is_error == planted.is_error}
    if planted.kind == "none-known":
        same["scope"] = fact.scope == planted.scope
    if planted.kind in ("allergy", "none-known"):
        same["status"] = fact.status == planted.status
    if planted.kind == "allergy":
        words = {word for reaction in fact.reactions for word in reaction.words}
        same |= {
            "names": _alike(fact.names, planted.names),
            "reactions": _alike(words, planted.reactions),
            "severity": fact.severity == planted.severity,
            "criticality": fact.criticality == CRITICALITIES[planted.criticality],
            "comments": set(fact.comments) == planted.comments,
            "refuted": fact.is_refuted == planted.is_refuted,
        }
    return [name for name, is_same in same.items() if not is_same]


def _alike(found: Sequence[str] | set[str], planted: set[str]) -> bool:
    return all(holds(found, text) for text in planted) and all(
        holds(planted, text) for text in found
    )


@pytest.mark.parametrize("suite", range(len(SUITES)))
def test_values_that_occur_together_in_some_document_do_so_in_the_first_ones(suite):
    first = {pair for choice in covering(suite) for pair in pairs(choice)}
    random = Random(1)
    for _ in range(500):
        picked = {name: random.choice(values) for name, values in SUITES[suite].items()}
        assert pairs(effective(picked)) <= first


def test_the_documents_are_the_same_each_time_and_differ_from_each_other():
    several = range(0, 2000, 40)
    documents = [generate(number).document for number in several]
    assert documents == [generate(number).document for number in several]
    assert len(set(documents)) == len(documents)


@pytest.mark.parametrize("module", [ccda_differences, ccda_oracle, ccda_generator, ccda_shapes])
def test_the_oracle_shares_no_code_with_fhirapp(module):
    tree = ast.parse(inspect.getsource(module))
    plain = [node.names for node in ast.walk(tree) if isinstance(node, ast.Import)]
    names = [one.name for several in plain for one in several]
    names += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert not [name for name in names if name.startswith("fhirapp")]
    assert {name for name in names if name.startswith("tests")} <= {
        *("tests.campaigns.ccda.oracle", "tests.campaigns.ccda.shapes"),
    }


# The oracle finds nothing in what says the same, and each fault that is planted there.


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
    allergies = [_resource(fact) for fact in facts.entries]
    readings = [
        Reading(min(fact.kinds), fact.is_severe, fact.is_contradictory) for fact in facts.entries
    ]
    for fact, allergy in zip(facts.entries, allergies, strict=True):
        if fact.kinds == {"allergy", "no-information"}:
            readings[allergies.index(allergy)] = Reading("allergy", is_severe=fact.is_severe)
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
    if len(given) > 1:
        notes.append("The source differs: " + ", ".join(sorted(given)))
    notes += [*fact.unclear_statuses, *filter(None, (fact.end, fact.no_onset))]
    found: Resource = {
        "verificationStatus": _concept("v", "entered-in-error" if fact.is_error else verification),
        "note": [{"text": text} for text in notes],
    }
    if not fact.is_error:
        found["clinicalStatus"] = _concept("c", fact.status)
    if "allergy" not in fact.kinds:
        code = NONE_KNOWN[fact.scope] if "none-known" in fact.kinds else "NI"
        code = "NASK" if fact.kinds == {"not-asked"} else code
        system = SNOMED if "none-known" in fact.kinds else NULL_FLAVOR
        return {**found, "code": _concept(system, code)}
    found["type"] = "allergy"
    codings = [{"code": code} for code in fact.codes]
    found["code"] = {"coding": [*codings, *({"display": name} for name in fact.names)]}
    if fact.names:
        found["code"]["text"] = fact.names[0]
    if fact.criticality:
        found["criticality"] = fact.criticality
    if fact.onset:
        found["onsetDateTime"] = fact.onset
    found["reaction"] = _reactions(fact)
    return found


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


@pytest.mark.parametrize("first", range(0, 2000, 500))
def test_what_says_the_same_has_no_differences(first):
    for number in range(first, first + 500):
        assert differences(*right(number)) == [], number


Fault = Callable[[Right], Right | None]
FAULTS: dict[str, Fault] = {}


def fault(change: Callable[[Fact, Resource], bool]) -> Fault:
    """Declare a fault of one resource: the first that can have it."""

    def plant(found: Right) -> Right | None:
        allergies = copy.deepcopy(found.allergies)
        for fact, allergy in zip(found.facts.entries, allergies, strict=False):
            if change(fact, allergy):
                return found._replace(allergies=allergies)
        return None

    FAULTS[change.__name__] = plant
    return plant


def fault_of_all(change: Fault) -> Fault:
    """Declare a fault of all that is made of a document."""
    FAULTS[change.__name__] = change
    return change


def is_allergy(fact: Fact) -> bool:
    return fact.kinds == {"allergy"}


@fault
def a_name_is_dropped(fact: Fact, allergy: Resource) -> bool:
    if not is_allergy(fact) or len(fact.names) < 2:
        return False
    name = fact.names[-1]
    shown = [one.get("display", "") for one in allergy["code"]["coding"]]
    kept = [text for text in shown if text != name]
    allergy["code"]["coding"] = [{"display": text} for text in kept if text]
    allergy["code"]["coding"] += [{"code": code} for code in fact.codes]
    return not holds(kept, name)


@fault
def a_placeholder_is_the_name(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.names:
        allergy["code"]["text"] = "Coded Allergy Name Not Available"
    return is_allergy(fact) and bool(fact.names)


@fault
def the_reaction_is_the_name(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.names and fact.decoys:
        allergy["code"]["text"] = fact.decoys[0]
        return True
    return False


@fault
def the_name_is_doubled(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.names:
        allergy["code"]["text"] = f"{fact.names[0]} {fact.names[0]}"
        return True
    return False


@fault
def a_code_is_the_name(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.names and fact.codes:
        allergy["code"]["text"] = fact.codes[0]
        return True
    return False


@fault
def the_name_is_another(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.names:
        allergy["code"]["text"] = "Strawberries"
        return True
    return False


@fault
def a_code_is_dropped(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.codes:
        allergy["code"]["coding"] = allergy["code"]["coding"][1:]
        return True
    return False


@fault
def the_severity_is_lowered(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.severity > 1:
        for reaction in allergy["reaction"]:
            if reaction.get("severity") in SEVERITIES[fact.severity :]:
                reaction["severity"] = SEVERITIES[fact.severity - 1]
        return True
    return False


@fault
def the_severities_are_dropped(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.severity:
        for reaction in allergy["reaction"]:
            reaction.pop("severity", None)
        return True
    return False


@fault
def a_severity_is_raised(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and 3 not in [*fact.severities, *fact.row_severities]:
        if not any(fact.severities) or 3 in fact.allowed_severities:
            return False
        allergy["reaction"][-1]["severity"] = "severe"
        return True
    return False


@fault
def the_narrative_s_severity_is_dropped(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and fact.severity < max(fact.row_severities, default=0):
        for reaction in allergy["reaction"]:
            reaction.pop("severity", None)
            if fact.severity:
                reaction["severity"] = SEVERITIES[fact.severity]
        return True
    return False


@fault
def the_words_of_a_severity_are_dropped(fact: Fact, allergy: Resource) -> bool:
    if not is_allergy(fact) or "Grade X" not in fact.severity_words:
        return False
    for reaction in allergy["reaction"]:
        reaction["description"] = reaction["description"].replace("Grade X", "")
    return True


@fault
def a_reaction_gets_the_allergy_s_severity(fact: Fact, allergy: Resource) -> bool:
    for reaction, made in zip(fact.reactions, allergy.get("reaction", ()), strict=False):
        own = max(reaction.severities, default=0)
        named = [one for one in fact.reactions if set(one.words) & set(reaction.words)]
        if is_allergy(fact) and 0 < own < fact.severity and len(named) == 1 and reaction.words:
            if not reaction.codes:
                continue
            made["severity"] = SEVERITIES[fact.severity]
            return True
    return False


@fault
def an_active_one_is_inactive(fact: Fact, allergy: Resource) -> bool:
    return _status(fact, allergy, "active", "inactive")


@fault
def an_active_one_is_resolved(fact: Fact, allergy: Resource) -> bool:
    return _status(fact, allergy, "active", "resolved")


@fault
def an_inactive_one_is_resolved(fact: Fact, allergy: Resource) -> bool:
    return _status(fact, allergy, "inactive", "resolved")


@fault
def a_resolved_one_is_active(fact: Fact, allergy: Resource) -> bool:
    return not fact.row_statuses and _status(fact, allergy, "resolved", "active")


def _status(fact: Fact, allergy: Resource, old: str, new: str) -> bool:
    given = {*fact.statuses, *fact.row_statuses, *fact.allowed_statuses}
    if not (fact.kinds <= {"allergy", "none-known"} and fact.status == old) or fact.is_refuted:
        return False
    may_differ = not is_allergy(fact) and (len(given) > 1 or new in given or fact.is_over)
    if fact.is_error or new in fact.allowed_statuses or may_differ:
        return False
    allergy["clinicalStatus"] = _concept("c", new)
    assert STATUSES.index(new)
    return True


@fault
def a_difference_of_status_is_not_shown(fact: Fact, allergy: Resource) -> bool:
    notes = [note for note in allergy["note"] if not note["text"].startswith("The source")]
    if notes == allergy["note"] or fact.is_error or fact.is_refuted or not is_allergy(fact):
        return False
    allergy["note"] = notes
    return True


@fault
def what_was_entered_in_error_is_confirmed(fact: Fact, allergy: Resource) -> bool:
    if fact.is_error:
        allergy["verificationStatus"] = _concept("v", "confirmed")
        allergy["clinicalStatus"] = _concept("c", "active")
    return fact.is_error


@fault
def what_was_refuted_is_confirmed(fact: Fact, allergy: Resource) -> bool:
    if fact.is_refuted and not fact.is_error:
        allergy["verificationStatus"] = _concept("v", "confirmed")
        return True
    return False


@fault
def what_was_confirmed_is_refuted(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and not fact.is_refuted and not fact.is_error:
        allergy["verificationStatus"] = _concept("v", "refuted")
        return True
    return False


@fault
def an_allergy_becomes_none_known(fact: Fact, allergy: Resource) -> bool:
    if is_allergy(fact) and not fact.is_refuted and not fact.is_error:
        allergy["code"] = _concept(SNOMED, "716186003")
        return True
    return False


@fault
def no_information_becomes_none_known(fact: Fact, allergy: Resource) -> bool:
    if fact.kinds <= {"no-information", "not-asked"}:
        allergy["code"] = _concept(SNOMED, "716186003")
        return True
    return False


@fault
def none_known_of_drugs_becomes_none_known_at_all(fact: Fact, allergy: Resource) -> bool:
    if fact.kinds == {"none-known"} and fact.scope != "any":
        allergy["code"] = _concept(SNOMED, "716186003")
        return True
    return False


@fault
def none_known_becomes_refuted(fact: Fact, allergy: Resource) -> bool:
    if fact.kinds == {"none-known"} and not fact.is_error:
        allergy["verificationStatus"] = _concept("v", "refuted")
        return True
    return False


@fault
def none_known_becomes_no_information(fact: Fact, allergy: Resource) -> bool:
    if fact.kinds == {"none-known"}:
        allergy["code"] = _concept(NULL_FLAVOR, "NI")
        return True
    return False


@fault
def not_asked_becomes_no_information(fact: Fact, allergy: Resource) -> bool:
    if fact.kinds == {"not-asked"}:
        allergy["code"] = _concept(NULL_FLAVOR, "NI")
        return True
    return False


@fault
def not_asked_becomes_an_allergy(fact: Fact, allergy: Resource) -> bool:
    if fact.kinds <= {"not-asked", "no-information"}:
        allergy["type"] = "allergy"
        return True
    return False


@fault
def a_reaction_is_dropped(fact: Fact, allergy: Resource) -> bool:
    told = [one for one in fact.reactions if one.words or one.codes]
    if not is_allergy(fact) or not told:
        return False
    dropped = allergy["reaction"].pop(0)
    left = str(allergy["reaction"])
    return dropped["manifestation"][0].get("text", "T78.2XXA") not in left


@fault
def the_words_of_a_reaction_become_unknown(fact: Fact, allergy: Resource) -> bool:
    for reaction, made in zip(fact.reactions, allergy.get("reaction", ()), strict=False):
        if is_allergy(fact) and reaction.words and not reaction.codes:
            made["manifestation"] = [UNKNOWN_REACTION]
            made["description"] = "; ".join(reaction.words)
            return all(one.codes or one is reaction for one in fact.reactions)
    return False


@fault
def the_words_of_a_reaction_are_doubled(fact: Fact, allergy: Resource) -> bool:
    for reaction in allergy.get("reaction", ()):
        for manifestation in reaction["manifestation"]:
            if is_allergy(fact) and "text" in manifestation:
                manifestation["text"] = " ".join([manifestation["text"]] * 2)
                return True
    return False


@fault
def the_reactions_of_the_narrative_are_dropped(fact: Fact, allergy: Resource) -> bool:
    own = [word for reaction in fact.reactions for word in reaction.words]
    if not is_allergy(fact) or all(holds(own, text) for text in fact.row_reactions):
        return False
    for reaction in allergy["reaction"]:
        reaction["description"] = reaction.get("description", "").partition(fact.row_reactions[0])[
            0
        ]
    return True


@fault
def the_words_of_another_column_are_dropped(fact: Fact, allergy: Resource) -> bool:
    if not is_allergy(fact) or not fact.column_words:
        return False
    kept = [note for note in allergy["note"] if note["text"] not in fact.column_words]
    allergy["note"] = kept
    return True


@fault
def what_a_row_contradicts_is_refuted(fact: Fact, allergy: Resource) -> bool:
    if fact.is_contradicted and not fact.is_error:
        allergy["verificationStatus"] = _concept("v", "refuted")
        return True
    return False


@fault
def a_contradiction_is_not_told(fact: Fact, allergy: Resource) -> bool:
    if fact.is_contradicted:
        kept = [note for note in allergy["note"] if "contradicts" not in note["text"]]
        allergy["note"] = kept
    return fact.is_contradicted


@fault_of_all
def words_beside_are_dropped(found: Right) -> Right | None:
    if not found.facts.beside:
        return None
    return found._replace(allergies=found.allergies[:-1], readings=found.readings[:-1])


@fault_of_all
def a_heading_becomes_words(found: Right) -> Right | None:
    if not found.facts.entries:
        return None
    more = [*found.readings, Reading("words-only", is_severe=False)]
    return found._replace(
        allergies=[*found.allergies, _only_words("Active allergies")], readings=more
    )


@fault_of_all
def a_reaction_of_another_is_added(found: Right) -> Right | None:
    def both(first: Resource, other: Resource) -> Resource:
        return {"reaction": [*first["reaction"], *other["reaction"]]}

    return _mixed(found, both)


@fault_of_all
def a_name_of_another_is_added(found: Right) -> Right | None:
    def both(first: Resource, other: Resource) -> Resource:
        names = [{"display": one["display"]} for one in other["code"]["coding"] if "display" in one]
        return {"code": {**first["code"], "coding": [*first["code"]["coding"], *names]}}

    return _mixed(found, both)


def _mixed(found: Right, mix: Callable[[Resource, Resource], Resource]) -> Right | None:
    """Return the first allergy with something of the second, where they have no word in common."""
    entries = found.facts.entries[:2]
    if len(entries) < 2 or not all(is_allergy(fact) and fact.names for fact in entries):
        return None
    own, others = ([word for one in fact.reactions for word in one.words] for fact in entries)
    codes = [code for fact in entries for one in fact.reactions for code in one.codes]
    if codes or not others or any(holds(own, word) for word in others):
        return None
    changed = {**found.allergies[0], **mix(*found.allergies[:2])}
    return found._replace(allergies=[changed, *found.allergies[1:]])


@fault
def the_criticality_is_dropped(fact: Fact, allergy: Resource) -> bool:
    return is_allergy(fact) and allergy.pop("criticality", None) is not None


@fault
def the_onset_is_dropped(fact: Fact, allergy: Resource) -> bool:
    return is_allergy(fact) and allergy.pop("onsetDateTime", None) is not None


@fault
def a_placeholder_is_the_onset(fact: Fact, allergy: Resource) -> bool:
    allergy["onsetDateTime"] = "0001-01-01"
    return is_allergy(fact) and bool(fact.no_onset)


@fault
def an_end_that_has_not_come_resolves(fact: Fact, allergy: Resource) -> bool:
    is_ahead = bool(fact.end) and not fact.is_over and not fact.statuses
    return is_ahead and _status(fact, allergy, "active", "resolved")


@fault
def an_end_is_dropped(fact: Fact, allergy: Resource) -> bool:
    if not (is_allergy(fact) and fact.end) or fact.is_error or fact.is_refuted:
        return False
    allergy["note"] = [note for note in allergy["note"] if note["text"] != fact.end]
    return True


@fault
def a_status_that_is_not_understood_is_dropped(fact: Fact, allergy: Resource) -> bool:
    unclear = fact.unclear_statuses
    if not (is_allergy(fact) and unclear) or fact.is_error or fact.is_refuted:
        return False
    allergy["note"] = [note for note in allergy["note"] if note["text"] not in unclear]
    return True


@fault
def the_comments_are_dropped(fact: Fact, allergy: Resource) -> bool:
    if not fact.comments:
        return False
    allergy["note"] = allergy["note"][len(fact.comments) :]
    return True


@fault_of_all
def an_allergy_is_dropped(found: Right) -> Right | None:
    if not found.facts.entries or found.facts.entries[0].is_void:
        return None
    return found._replace(allergies=found.allergies[1:], readings=found.readings[1:])


@fault_of_all
def none_known_is_invented(found: Right) -> Right:
    more = {"code": _concept(SNOMED, "716186003")}
    return found._replace(
        allergies=[*found.allergies, more], readings=[*found.readings, Reading("none-known", False)]
    )


@fault_of_all
def an_allergy_is_invented(found: Right) -> Right:
    more = {"code": {"text": "Strawberries"}, "clinicalStatus": _concept("c", "active")}
    return found._replace(
        allergies=[*found.allergies, more], readings=[*found.readings, Reading("allergy", False)]
    )


@fault_of_all
def words_are_dropped(found: Right) -> Right | None:
    if not found.facts.words:
        return None
    return found._replace(allergies=found.allergies[:-1], readings=found.readings[:-1])


@fault_of_all
def words_are_confirmed(found: Right) -> Right | None:
    if not found.facts.words:
        return None
    *others, words = found.allergies
    words = {**words, "verificationStatus": _concept("v", "confirmed")}
    return found._replace(allergies=[*others, words])


@fault_of_all
def words_have_the_heads_of_the_table(found: Right) -> Right | None:
    if not (found.facts.words and found.facts.heads):
        return None
    *others, words = found.allergies
    text = f"{found.facts.heads[0]} {words['code']['text']}"
    return found._replace(allergies=[*others, {**words, "code": {**words["code"], "text": text}}])


@fault_of_all
def a_severe_one_does_not_count_as_severe(found: Right) -> Right | None:
    for place, (fact, reading) in enumerate(zip(found.facts.entries, found.readings, strict=False)):
        if is_allergy(fact) and reading.is_severe and not (fact.is_refuted or fact.is_error):
            readings = list(found.readings)
            readings[place] = reading._replace(is_severe=False)
            return found._replace(readings=readings)
    return None


@fault_of_all
def two_substances_of_one_allergy_are_not_found(found: Right) -> Right | None:
    for place, fact in enumerate(found.facts.entries):
        is_read = is_allergy(fact) and not (fact.is_refuted or fact.is_error)
        if is_read and fact.is_contradictory:
            readings = list(found.readings)
            readings[place] = readings[place]._replace(is_doubtful=False)
            return found._replace(readings=readings)
    return None


@fault_of_all
def no_information_is_read_as_none_known(found: Right) -> Right | None:
    for place, fact in enumerate(found.facts.entries):
        if "none-known" not in fact.kinds:
            readings = list(found.readings)
            readings[place] = Reading("none-known", is_severe=False)
            return found._replace(readings=readings)
    return None


@fault_of_all
def the_conclusion_is_that_none_is_known(found: Right) -> Right | None:
    known = found.conclusion.startswith("none-known") or "none-known" in conclusions(found.facts)
    return None if known else found._replace(conclusion="none-known")


@fault_of_all
def the_conclusion_is_that_nothing_is_recorded(found: Right) -> Right | None:
    is_right = "nothing-recorded" in conclusions(found.facts)
    return None if is_right else found._replace(conclusion="nothing-recorded")


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_wherever_it_is_planted(name):
    """Most can be planted in many documents: a few of them are enough."""
    planted = 0
    numbers = range(covered() + 400)
    for number in Random(0).sample(numbers, len(numbers)):
        faulty = FAULTS[name](right(number))
        if faulty is not None:
            planted += 1
            assert differences(*faulty), number
        if planted == PLANTED:
            return
    assert planted >= 3


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ({"text": "Latex"}, {"text": "LATEX"}, True),
        ({"text": "Latex"}, {"text": "Rubber", "coding": [{"display": "latex"}]}, True),
        ({"text": "Latex"}, {"text": "Walnut"}, False),
        (
            {"text": "Latex", "coding": [{"code": "Unknown"}]},
            {"text": "Walnut", "coding": [{"code": "Unknown"}]},
            False,
        ),
        (
            {"text": "Latex", "coding": [{"display": "Adverse reaction to substance"}]},
            {"text": "Walnut", "coding": [{"display": "Adverse reaction to substance"}]},
            False,
        ),
    ],
)
def test_allergies_without_a_common_name_are_not_the_same(first, second, is_same):
    assert (repeated([{"code": first}, {"code": second}]) == []) == is_same


def main(first: int, count: int) -> None:
    """Print how many differences of each kind there are, and a document that has each."""
    kinds: Counter[str] = Counter()
    documents: Counter[str] = Counter()
    examples: dict[str, str] = {}
    clean = 0
    for number in range(first, first + count):
        try:
            found = check(number)
        except Exception as error:  # noqa: BLE001
            found = [f"crash: {error!r}"]
        clean += not found
        kinds.update(one.partition(":")[0] for one in found)
        documents.update({one.partition(":")[0] for one in found})
        for one in found:
            examples.setdefault(one.partition(":")[0], f"{number}: {one}")
    for kind, many in kinds.most_common():
        sys.stdout.write(f"{many:6} in {documents[kind]:5} documents  {examples[kind][:200]}\n")
    sys.stdout.write(f"{clean} of {count} documents without differences\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
