"""Clinical documents become what the rules in tests/ccda/rules say: one test for each rule.

The notation of a rule is in tests/support/ccda_rules.py. What is expected is a view of the
AllergyIntolerances, by its name below (a list where there are several), or an element of a resource
by its path, "" where it is absent.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from fhirapp.clinical.contradictions import findings_of
from fhirapp.clinical.summary import SummaryEntry, conclusion_of, entries_of
from fhirapp.features.imports.ccda import resources_of
from fhirapp.features.imports.ccda.words import (
    is_heading,
    is_title_of_allergies,
    says_more,
    status_named,
    statuses_in,
)
from fhirapp.fhir import json as fhir_json
from tests.support.ccda_rules import Case, cases, files, rules
from tests.support.ccda_samples import Resource, of_type

# Of each allergy: a value of the resource and of the entry that a summary makes of it.
OF_ALLERGY: dict[str, Callable[[Resource, SummaryEntry], Any]] = {
    "code": lambda allergy, _: _code(allergy["code"]),
    "codes": lambda allergy, _: [coding["code"] for coding in allergy["code"]["coding"]],
    "system": lambda allergy, _: allergy["code"]["coding"][0]["system"],
    "text_of_code": lambda allergy, _: allergy["code"].get("text", ""),
    "names": lambda allergy, _: [
        allergy["code"].get("text", ""),
        *(coding.get("display", "") for coding in allergy["code"].get("coding", ())),
    ],
    "status": lambda allergy, _: _code(allergy.get("clinicalStatus", {})),
    "verification": lambda allergy, _: _code(allergy.get("verificationStatus", {})),
    "type": lambda allergy, _: allergy.get("type", ""),
    "category": lambda allergy, _: allergy.get("category", ""),
    "criticality": lambda allergy, _: allergy.get("criticality", ""),
    "severities": lambda allergy, _: [
        reaction.get("severity", "") for reaction in allergy.get("reaction", ())
    ],
    "manifestations": lambda allergy, _: [
        [
            concept.get("text") or concept["coding"][0]["display"]
            for concept in reaction["manifestation"]
        ]
        for reaction in allergy.get("reaction", ())
    ],
    "notes": lambda allergy, _: "; ".join(note["text"] for note in allergy.get("note", ())),
    "onset": lambda allergy, _: {name: allergy[name] for name in allergy if "onset" in name},
    "group": lambda _, entry: entry.group.code,
    "is_severe": lambda _, entry: entry.is_severe,
    "comments": lambda _, entry: list(entry.comments),
    "coded_as": lambda _, entry: list(entry.coded_as),
}
# Of all entries of a document.
OF_ENTRIES: dict[str, Callable[[list[SummaryEntry]], Any]] = {
    "count": len,
    "groups": lambda entries: [[entry.group.code, entry.substance] for entry in entries],
    "substances": lambda entries: [entry.substance for entry in entries],
    "severe_substances": lambda entries: [entry.substance for entry in entries if entry.is_severe],
    "is_none_known": lambda entries: {entry.group.code for entry in entries} == {"none-known"},
    "conclusion": lambda entries: conclusion_of(entries).code,
}
# Of all resources of a document.
OF_RESOURCES: dict[str, Callable[[list[Resource]], Any]] = {
    "ids": lambda found: len({allergy["id"] for allergy in of_type(found, "AllergyIntolerance")}),
    "uses_of_organizations": lambda found: [
        part.get("use", "")
        for organization in of_type(found, "Organization")
        for part in (*organization.get("telecom", ()), *organization.get("address", ()))
    ],
    "categories": lambda found: [
        part["valueCoding"]["code"]
        for part in of_type(found, "Patient")[0]["extension"][0]["extension"]
        if part["url"] == "ombCategory"
    ],
}
# What test_ccda_people.py expects of pages, and test_ccda.py of validity.
ELSEWHERE = ("chart", "is_valid")
# Lists of words that are expected somewhere.
IN_WORDS = ("holds", "lacks", "words_about", "findings", "remarks")


def _code(concept: Resource) -> str:
    return str(concept["coding"][0]["code"]) if concept else ""


def element(resources: list[Resource], path: str) -> Any:
    """Return the element of a path such as Patient.name.0.family, "" where there is none.

    A number behind the type is that of one of several resources.
    """
    type_name, *names = path.split(".")
    found: Any = of_type(resources, type_name)
    found = found[int(names.pop(0))] if names[0].isdigit() else found[0]
    for name in names:
        if isinstance(found, list):
            found = found[int(name)] if int(name) < len(found) else ""
        else:
            found = found.get(name, "") if found else ""
    return found


def mismatches(case: Case) -> dict[str, tuple[Any, Any]]:
    """Return what a document becomes that is not expected: by name, found and expected."""
    remarks: list[str] = []
    resources = resources_of(case.document.encode(), remarks.append)
    allergies = of_type(resources, "AllergyIntolerance")
    entries = list(entries_of(allergies))
    written = json.dumps(json.loads(fhir_json.dumps(allergies)), ensure_ascii=False)
    found: dict[str, Any] = {}
    for name, value in case.values.items():
        if "." in name:
            found[name] = element(resources, name)
        elif name in OF_ALLERGY:
            # Of each by itself: a summary has another order.
            views = [OF_ALLERGY[name](allergy, *entries_of([allergy])) for allergy in allergies]
            found[name] = views[0] if len(views) == 1 else views
        elif name in OF_ENTRIES:
            found[name] = OF_ENTRIES[name](entries)
        elif name in IN_WORDS:
            if not _fits(name, value, written, entries, remarks):
                found[name] = [written, findings_of(entries), remarks]
                continue
            found[name] = value
        elif name in OF_RESOURCES:
            found[name] = OF_RESOURCES[name](resources)
        elif name in ELSEWHERE:
            continue
        else:
            assert name in case.used, f"{name} is neither a view nor a variable"
    return {
        name: (value, case.values[name])
        for name, value in found.items()
        if value != case.values[name]
    }


def _fits(
    name: str, words: list[str], written: str, entries: list[SummaryEntry], remarks: list[str]
) -> bool:
    """Return whether resources, findings or remarks have the words that they should."""
    if name in ("holds", "lacks"):
        return all((text in written) == (name == "holds") for text in words)
    if name == "words_about":
        beside = " ".join(entry.substance for entry in entries if entry.group.code == "words-only")
        return all(text in beside for text in words)
    said = [f"{finding.code}: {finding.text}" for finding in findings_of(entries)]
    several = said if name == "findings" else remarks
    return len(several) == len(words) and all(
        all(part in text for part in word.split(": ", 1))
        for text, word in zip(several, words, strict=True)
    )


RULES = [
    pytest.param(name, rule, id=f"{name}: {rule}")
    for name in files()
    for rule in rules(name)
    if rule != "lists"
]


@pytest.mark.parametrize(("name", "rule"), RULES)
def test_a_document_becomes_what_the_rule_says(name, rule):
    found = {case.label: mismatches(case) for case in cases(name, rule)}
    assert found
    assert {label: different for label, different in found.items() if different} == {}


def test_words_name_a_status_or_none():
    lists = rules("status")["lists"]
    right = {
        words: status for status in ("active", "inactive", "resolved") for words in lists[status]
    }
    right |= dict.fromkeys((*lists["unclear"], "", "no", "Hives", "aktiv " * 20, "-"), "")
    assert {words: "".join(set(statuses_in(words))) for words in right} == right
    # Of several words only those of a cell or a phrase are read.
    partly = ("Active (since 2010)", "Active, confirmed")
    assert {words: status_named(words) for words in right} == right | dict.fromkeys(partly, "")
    for words in ("Resolved?, active", "Hives (face?), still active"):
        assert set(statuses_in(words)) == {"active"}


def test_a_heading_has_no_other_words():
    headings = (
        *("Drug Allergies", "Alergias y reacciones adversas", "Allergieën"),
        "Reviewed by Dr. Jane A. Roe MD on 01/02/2020",
    )
    others = (
        *("Penicillinallergie", "Allergic to all drugs", "All drugs", "Known allergies present"),
        *("Severe reactions", "Penicillin rash documented 2009", "Reaction caused by Penicillin"),
        "No food",
    )
    assert [words for words in (*headings, *others) if is_heading(words)] == list(headings)
    assert not says_more("Allergiat ja yliherkkyydet")
    assert not is_title_of_allergies("Allergy tests")
