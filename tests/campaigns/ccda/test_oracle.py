"""Generated C-CDA documents are converted as an independent reader understands them.

    FHIRAPP_TEST_CCDA=6000 python -m pytest tests/campaigns/ccda/test_oracle.py

compares more documents. `python -m tests.campaigns.ccda.generator NUMBER` prints a document.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fhirapp.clinical.contradictions import findings_of
from fhirapp.clinical.summary import conclusion_of, entries_of
from tests.campaigns.ccda.differences import Reading, differences, repeated
from tests.campaigns.ccda.generator import Planted, covered, generate
from tests.campaigns.ccda.oracle import Fact, facts_of, holds, normal
from tests.support.ccda_samples import NAMES, of_type, read, sample
from tests.support.effort import LONG

DOCUMENTS = int(os.environ.get("FHIRAPP_TEST_CCDA", "0"))
IS_LONG = LONG or DOCUMENTS
# Each compares its share of the documents.
PARTS = 20 if IS_LONG else 4
# Findings that two entries are about one substance.
_ABOUT_THE_SAME = ("duplicate", "past-beside-active", "refuted-beside-active")
CRITICALITIES = {"": "", "CRITH": "high", "CRITL": "low", "CRITU": "unable-to-assess"}


def numbers() -> list[int]:
    """Return the documents to compare: all that cover the pairs, as many as wanted, or a sample."""
    if IS_LONG:
        return list(range(DOCUMENTS or covered()))
    return sorted(Random(0).sample(range(covered() + 400), 400))


def planted_numbers() -> list[int]:
    """Return the documents, of one entry each, of which all that is planted is known."""
    return [number for number in numbers() if number < 2000]


def check(number: int) -> list[str]:
    """Return where fhirapp says something else than a generated document."""
    return differences_of(generate(number).document)


def differences_of(document: str) -> list[str]:
    """Return where fhirapp says something else than a document."""
    allergies = of_type(read(document), "AllergyIntolerance")
    entries = entries_of(allergies)
    by_reference = {f"AllergyIntolerance/{allergy['id']}": allergy for allergy in allergies}
    found = [
        difference
        for finding in findings_of(entries)
        if finding.code in _ABOUT_THE_SAME
        for difference in repeated([by_reference[name] for name in finding.sources])
    ]
    conclusion = conclusion_of(entries).code
    return [*found, *differences(facts_of(document), allergies, _readings(allergies), conclusion)]


def _readings(allergies: list[dict[str, Any]]) -> list[Reading]:
    """Return how fhirapp reads each allergy by itself."""
    entries = [entry for allergy in allergies for entry in entries_of([allergy])]
    return [
        Reading(entry.assertion.kind.value, entry.is_severe, bool(entry.faults))
        for entry in entries
    ]


@pytest.mark.parametrize("part", range(PARTS))
def test_generated_documents_agree_with_the_oracle(part):
    found = {number: check(number) for number in numbers()[part::PARTS]}
    assert {number: different for number, different in found.items() if different} == {}


def test_samples_agree_with_the_oracle():
    found = {name: differences_of(sample(name).replace("ISO-8859-1", "UTF-8")) for name in NAMES}
    assert {name: different for name, different in found.items() if different} == {}


def test_the_oracle_reads_what_is_planted():
    for number in planted_numbers():
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


def _alike(found: Iterable[str], planted: Iterable[str]) -> bool:
    return all(holds(found, text) for text in planted) and all(
        holds(planted, text) for text in found
    )


@pytest.mark.parametrize("name", ["differences", "generator", "oracle", "shapes"])
def test_the_oracle_shares_no_code_with_fhirapp(name):
    tree = ast.parse(Path(__file__).with_name(f"{name}.py").read_text())
    plain = [node.names for node in ast.walk(tree) if isinstance(node, ast.Import)]
    imported = [alias.name for several in plain for alias in several]
    imported += [str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    own = [module for module in imported if module.startswith(("fhirapp", "tests"))]
    assert [module for module in own if not module.startswith("tests.campaigns.ccda.")] == []


# The comparison finds what is wrong.


def test_comparison_finds_a_missing_a_denied_and_an_invented_allergy():
    document = sample("ccd").replace("ISO-8859-1", "UTF-8")
    facts = facts_of(document)
    allergies = of_type(read(document), "AllergyIntolerance")
    none_known = {"coding": [{"system": "http://snomed.info/sct", "code": "716186003"}]}
    refuted = {"coding": [{"code": "refuted"}]}
    wrong = {
        "missing": allergies[1:],
        "invented": [*allergies, {**allergies[0], "code": {"text": "Strawberries"}}],
        "denied": [{**allergies[0], "code": none_known}, *allergies[1:]],
        "refuted": [{**allergies[0], "verificationStatus": refuted}, *allergies[1:]],
        "renamed": [{**allergies[0], "code": {"text": "Strawberries"}}, *allergies[1:]],
        "without reactions": [{**allergies[0], "reaction": []}, *allergies[1:]],
    }
    readings, conclusion = _readings(allergies), conclusion_of(entries_of(allergies)).code
    assert differences(facts, allergies, readings, conclusion) == []
    assert differences(facts, allergies, readings, "none-known")
    missed = [
        name
        for name, changed in wrong.items()
        if not differences(facts, changed, _readings(changed), conclusion)
    ]
    assert missed == []


def test_allergies_without_a_common_name_are_not_the_same():
    latex = {"text": "Latex"}
    rubber = {"text": "Rubber", "coding": [{"display": "latex"}]}
    assert repeated([{"code": latex}, {"code": {"text": "LATEX"}}]) == []
    assert repeated([{"code": latex}, {"code": rubber}]) == []
    for coding in ({}, {"code": "Unknown"}, {"display": "Adverse reaction to substance"}):
        first, second = ({"text": text, "coding": [coding]} for text in ("Latex", "Walnut"))
        assert repeated([{"code": first}, {"code": second}])
