"""A summary of allergies: what may hurt first, kinds of absence, what contradicts.

The cases are a clinician's: what was recorded, and what must be said of it. How it is asked for:
test_summary_asked.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fhirapp.clinical.assertion import ABSENT_UNKNOWN, EXPOSURE_RISK
from fhirapp.clinical.contradictions import findings_of
from fhirapp.clinical.summary import conclusion_of, entries_of
from fhirapp.fhir import terminology
from tests.support.allergies import (
    FOOD,
    IN_ERROR,
    MEDICINE,
    NKA,
    NKDA,
    NKFA,
    NO_INFORMATION,
    PEANUT,
    PENICILLIN,
    REFUTED,
    RESOLVED,
    RXNORM,
    SEVERE,
    SNOMED,
    VACCINE,
    allergy,
    coded,
)


def concluded(*resources: Mapping[str, Any]) -> str:
    return conclusion_of(entries_of(resources)).code


def found(*resources: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Return the code of each finding, and how many entries it names."""
    return [(finding.code, len(finding.sources)) for finding in findings_of(entries_of(resources))]


def group_of(resource: Mapping[str, Any]) -> str:
    (entry,) = entries_of([resource])
    return entry.group.code


# What may hurt first.


def test_entry_is_in_the_group_where_a_clinician_looks_for_it(subtests):
    for resource, group in [
        (allergy("a", criticality="high"), "active-severe"),
        (allergy("a", **SEVERE), "active-severe"),
        # Anaphylaxis that nobody has confirmed counts until it is refuted.
        (allergy("a", verified="unconfirmed", **SEVERE), "active-severe"),
        (allergy("a", criticality="low"), "active"),
        (allergy("a", verified=None), "active"),
        (allergy("a", verified="unconfirmed"), "unconfirmed"),
        (allergy("a", status=None), "status-not-known"),
        (allergy("a", status=None, verified=None, **SEVERE), "status-not-known-severe"),
        (allergy("a", **RESOLVED), "past"),
        (allergy("a", status="inactive", **SEVERE), "past"),
        (allergy("a", **REFUTED), "refuted"),
        (allergy("a", verified="refuted", status=None, **SEVERE), "refuted"),
        (allergy("a", **IN_ERROR), "entered-in-error"),
        (allergy(NKA), "none-known"),
        (allergy(NKA, **REFUTED), "refuted"),
        (allergy(NKDA, **RESOLVED), "past"),
        (allergy(NO_INFORMATION), "no-information"),
    ]:
        with subtests.test(resource=resource):
            assert group_of(resource) == group


def test_most_cautious_of_several_statuses_counts(subtests):
    for name, system, codes, group in [
        ("clinicalStatus", terminology.ALLERGY_CLINICAL, ("resolved", "active"), "active"),
        ("verificationStatus", terminology.ALLERGY_VERIFICATION, ("refuted", "confirmed"),
         "active"),
        ("verificationStatus", terminology.ALLERGY_VERIFICATION, ("entered-in-error", "refuted"),
         "refuted"),
        ("clinicalStatus", "http://clinic.example/status", ("resolved",), "status-not-known"),
    ]:  # fmt: skip
        with subtests.test(name=name):
            resource = {**allergy("a"), name: coded(*((system, code) for code in codes))}
            (entry,) = entries_of([resource])
            assert entry.group.code == group
            assert bool(entry.faults) == (len(codes) > 1)


def test_worst_allergy_of_a_group_comes_first_and_unrecorded_severity_before_mild():
    def reacting(name: str, severity: str | None) -> dict[str, Any]:
        reaction = {"manifestation": [{"text": "Rash"}]}
        return allergy(name, reaction=[reaction | ({"severity": severity} if severity else {})])

    resources = [
        reacting("a", "mild"),
        reacting("b", None),
        reacting("c", "moderate"),
        allergy("d"),
        allergy("e", criticality="high"),
    ]
    assert [entry.substance for entry in entries_of(resources)] == ["e", "c", "b", "d", "a"]


# None known, no information, not asked, nothing recorded, words only.


def test_statement_that_no_allergy_is_known_is_understood(subtests):
    for code in [
        NKA,
        coded((SNOMED, "716186003")),
        coded((SNOMED, "160244002", "No known allergies (situation)")),
        coded((ABSENT_UNKNOWN, "no-known-allergies")),
        coded(("http://clinic.example/codes", "NKA")),
        coded(("http://clinic.example/codes", "1234", "No Known Allergies")),
        coded((SNOMED, "716186003"), text="Denies allergies"),
        "NKA",
        "No known allergies.",
        "No known allergy (situation)",
        "No Known Allergies (NKA)",
        "No allergies",
    ]:
        with subtests.test(code=code):
            assert group_of(allergy(code)) == "none-known"
            assert concluded(allergy(code)) == "none-known"


def test_no_known_allergy_of_one_kind_says_nothing_of_other_kinds(subtests):
    for code, about in [
        (NKDA, "medication"),
        (coded((ABSENT_UNKNOWN, "no-known-medication-allergies")), "medication"),
        (coded(text="NKDA"), "medication"),
        (coded((SNOMED, "716186003"), text="No known drug allergies"), "medication"),
        (coded(text="No allergies to medications"), "medication"),
        (coded(text="No known drug allergies (NKDA)"), "medication"),
        (coded(text="No known allergies to medications"), "medication"),
        (coded(text="no allergies to drugs"), "medication"),
        (NKFA, "food"),
        (coded((ABSENT_UNKNOWN, "no-known-food-allergies")), "food"),
        (coded((SNOMED, "428607008")), "environment"),
        (coded((ABSENT_UNKNOWN, "no-known-environmental-allergies")), "environment"),
        (coded(text="No known latex allergy"), "other"),
    ]:
        with subtests.test(code=code):
            (entry,) = entries_of([allergy(code)])
            assert (entry.group.code, entry.assertion.about.value) == ("none-known", about)
            assert concluded(allergy(code)) == "none-known-in-part"


def test_no_information_never_means_that_there_is_no_allergy(subtests):
    for code in [
        NO_INFORMATION,
        coded((terminology.NULL_FLAVOR, "ASKU")),
        coded((ABSENT_UNKNOWN, "no-allergy-info")),
        coded((terminology.NULL_FLAVOR, "NI"), text="No information: no interpreter was at hand"),
        "Unknown",
        # Two that differ: what leaves more open.
        coded((SNOMED, "716186003"), (terminology.NULL_FLAVOR, "NI")),
    ]:
        with subtests.test(code=code):
            assert group_of(allergy(code)) == "no-information"
            assert concluded(allergy(code)) == "no-information"


SECTION = ("http://loinc.org", "48765-2")
NOT_ASKED = coded((terminology.NULL_FLAVOR, "NASK"))


def test_kinds_of_absence_are_distinguished(subtests):
    for resources, conclusion, groups in [
        ([], "nothing-recorded", []),
        ([allergy(NOT_ASKED)], "not-asked", ["not-asked"]),
        ([allergy("Not asked")], "not-asked", ["not-asked"]),
        ([allergy(coded((f"{terminology.CT}data-absent-reason", "not-asked")))], "not-asked",
         ["not-asked"]),
        ([allergy(NO_INFORMATION)], "no-information", ["no-information"]),
        # Of both, what says less of why.
        ([allergy(NOT_ASKED), allergy(NO_INFORMATION)], "no-information", ["no-information",
         "not-asked"]),
        ([allergy(NKA)], "none-known", ["none-known"]),
        # A nullFlavor says that there is no code; the text says why.
        ([allergy(coded((terminology.NULL_FLAVOR, "NI"), text="No known allergies"))],
         "none-known", ["none-known"]),
        ([allergy(coded(SECTION, text="Wasps: hives"))], "words-only", ["words-only"]),
        ([allergy(coded(SECTION, text="No known allergies."))], "none-known", ["none-known"]),
        ([allergy(coded(SECTION, text="Not asked"))], "not-asked", ["not-asked"]),
        ([allergy(coded(SECTION, text="Wasps: hives")), allergy(NKA)], "words-only",
         ["words-only", "none-known"]),
        ([allergy(coded(SECTION, text="Wasps: hives")), allergy("Latex")], "allergies",
         ["words-only", "active"]),
    ]:  # fmt: skip
        with subtests.test(resources=resources):
            entries = entries_of(resources)
            assert [entry.group.code for entry in entries] == groups
            assert conclusion_of(entries).code == conclusion


def test_words_beside_a_past_allergy_do_not_say_that_none_is_coded(subtests):
    for past in [RESOLVED, REFUTED, IN_ERROR]:
        with subtests.test(past=past):
            in_words = allergy(coded(SECTION, text="Wasps: hives"))
            conclusion = conclusion_of(entries_of([in_words, allergy("Latex", **past)]))
            assert conclusion.code == "words-only"
            assert conclusion.text.startswith("No active or unresolved allergy is coded.")


def test_entry_that_may_be_an_allergy_counts_as_one(subtests):
    for resource in [
        # The code is missing, and so served as NI; the reaction is not.
        allergy(NO_INFORMATION, **SEVERE),
        allergy(NO_INFORMATION, criticality="high"),
        allergy(NO_INFORMATION, lastOccurrence="2020"),
        allergy(NO_INFORMATION, type="allergy"),
        allergy(NO_INFORMATION, onsetString="as a child"),
        allergy(NO_INFORMATION, modifierExtension=[{"url": "http://x", "valueBoolean": True}]),
        allergy(coded((terminology.NULL_FLAVOR, "OTH"), text="A cream from abroad")),
        allergy(coded((terminology.NULL_FLAVOR, "MSK"))),
        allergy(coded((terminology.NULL_FLAVOR, "UNK"), text="An antibiotic, in the 1970s")),
        # Coded as none known, and as something.
        allergy(coded((SNOMED, "409137002"), (RXNORM, "7980", "penicillin G"))),
        allergy(coded((SNOMED, "409137002"), text="Penicillin")),
        allergy(coded((SNOMED, "716186003"), text="No known allergies except penicillin")),
        allergy(coded((RXNORM, "7980", "NKDA"))),
        allergy(NKA, **SEVERE),
        allergy(NKA, criticality="high"),
        allergy("No known allergies but bees"),
        allergy("No penicillin"),
        # Of which kind it says neither.
        allergy("No known allergies (NKDA)"),
        allergy("Nuts"),
        allergy({}),
        allergy({"extension": [{"url": terminology.DATA_ABSENT_REASON, "valueCode": "masked"}]}),
        allergy({"coding": [{"extension": [{"url": "http://x", "valueCode": "y"}]}]}),
    ]:
        with subtests.test(resource=resource):
            assert group_of(resource) in ("active", "active-severe")
            assert concluded(resource) == "allergies"


def exposure(risk: str) -> dict[str, Any]:
    """Return an allergy whose substance stands in R4's extension, instead of a code."""
    substance = {"url": "substance", "valueCodeableConcept": PEANUT}
    said = {"url": "exposureRisk", "valueCodeableConcept": coded(("http://x", risk))}
    resource = allergy(NO_INFORMATION)
    return {**resource, "extension": [{"url": EXPOSURE_RISK, "extension": [substance, said]}]}


def test_substance_is_read_from_each_place_that_names_it():
    reaction = {"manifestation": [{"text": "Rash"}], "substance": coded(text="Ampicillin")}
    cases = [
        (allergy(PENICILLIN), "Penicillin"),
        (allergy(NO_INFORMATION, reaction=[reaction]), "Ampicillin"),
        (allergy(NO_INFORMATION, **SEVERE), ""),
        (exposure("known-reaction-risk"), "Peanut"),
        (allergy(coded((terminology.NULL_FLAVOR, "UNK"), text="A cream")), "A cream"),
    ]
    for resource, words in cases:
        (entry,) = entries_of([resource])
        assert (entry.substance, entry.is_allergy) == (words, True)


def test_substance_without_known_risk_contradicts_an_allergy_to_it_alone():
    denied = exposure("no-known-reaction-risk")
    assert group_of(denied) == "none-known"
    assert found(denied, allergy(PEANUT)) == [("none-known-beside-allergy", 2)]
    assert found(denied, allergy(PENICILLIN)) == []


def test_conclusion_of_all_entries(subtests):
    for resources, code in [
        ([], "nothing-recorded"),
        ([allergy(NKA), allergy(NKFA)], "none-known"),
        ([allergy(NKDA), allergy(NKFA)], "none-known-in-part"),
        ([allergy(NKDA), allergy(NO_INFORMATION)], "none-known-in-part"),
        # What is over, refuted or an error does not say that there are none.
        ([allergy("a", **RESOLVED)], "none-holding"),
        ([allergy("a", **REFUTED), allergy("b", **IN_ERROR)], "none-holding"),
        ([allergy(NKA, **REFUTED)], "none-holding"),
        ([allergy(NKA, **RESOLVED)], "none-holding"),
        ([allergy(NKA, **IN_ERROR)], "none-holding"),
        ([allergy("a", **RESOLVED), allergy(NKA)], "none-known"),
        ([allergy("a"), allergy(NKA)], "allergies"),
        ([allergy("a", status=None), allergy(NKA)], "allergies"),
    ]:
        with subtests.test(resources=resources):
            assert concluded(*resources) == code


# What does not fit.


def test_contradictions_are_named(subtests):
    for resources, findings in [
        ([allergy(NKA), allergy(PEANUT)], [("none-known-beside-allergy", 2)]),
        ([allergy(NKA), allergy(PEANUT), allergy("b")], [("none-known-beside-allergy", 3)]),
        ([allergy(NKDA), allergy(PENICILLIN, **MEDICINE)], [("none-known-beside-allergy", 2)]),
        ([allergy(NKDA), allergy("MMR", **VACCINE)], [("none-known-beside-allergy", 2)]),
        ([allergy(NKDA), allergy(PEANUT, **FOOD)], []),
        # Of which category it is nobody has said: it may be a medicine.
        ([allergy(NKDA), allergy("Ceclor")], [("none-known-beside-allergy", 2)]),
        ([allergy(NKFA), allergy(PEANUT, **FOOD)], [("none-known-beside-allergy", 2)]),
        ([allergy(NKFA), allergy(PENICILLIN, **MEDICINE)], []),
        ([allergy(NKA), allergy("a", status=None)], [("none-known-beside-allergy", 2)]),
        ([allergy(NKA, status=None), allergy("a")], [("none-known-beside-allergy", 2)]),
        ([allergy(NKA, **RESOLVED), allergy("a")], []),
        ([allergy(NKA), allergy("a", **RESOLVED), allergy("b", **REFUTED)], []),
        ([allergy(NO_INFORMATION), allergy("a")], []),
        ([allergy(PENICILLIN), allergy(PENICILLIN)], [("duplicate", 2)]),
        ([allergy(PENICILLIN), allergy("PÉNICILLIN ")], [("duplicate", 2)]),
        # One code of several is enough; the same digits of another system are another code.
        ([allergy(coded((SNOMED, "1"), (RXNORM, "2"))), allergy(coded((RXNORM, "2")))],
         [("duplicate", 2)]),
        ([allergy(coded((SNOMED, "1"))), allergy(coded((RXNORM, "1")))], []),
        ([allergy(PENICILLIN)] * 1 + [allergy(PENICILLIN, **REFUTED)],
         [("refuted-beside-active", 2)]),
        ([allergy(PENICILLIN), allergy(PENICILLIN, **RESOLVED)], [("past-beside-active", 2)]),
        ([allergy(PENICILLIN), allergy(PENICILLIN, status="inactive")],
         [("past-beside-active", 2)]),
        ([allergy(PENICILLIN), allergy(PENICILLIN, **IN_ERROR)], []),
        ([allergy(PENICILLIN, **REFUTED), allergy(PENICILLIN, **REFUTED)], []),
        ([allergy(PENICILLIN, **RESOLVED), allergy(PENICILLIN, **RESOLVED)], [("duplicate", 2)]),
        ([allergy(PENICILLIN), allergy(PENICILLIN), allergy(PENICILLIN, **RESOLVED)],
         [("past-beside-active", 3), ("duplicate", 2)]),
        ([allergy(NO_INFORMATION, **SEVERE), allergy(NO_INFORMATION, **SEVERE)], []),
        ([allergy(NKA, **SEVERE)], [("entry-unclear", 1)]),
        ([allergy("a", modifierExtension=[{"url": "http://x", "valueBoolean": True}])],
         [("entry-unclear", 1)]),
    ]:  # fmt: skip
        with subtests.test(resources=resources):
            assert found(*resources) == findings


def test_finding_says_on_which_day_or_in_which_month_or_year(subtests):
    for date, recorded in [
        ("2016-05-02", ", recorded on 2 May 2016,"),
        ("2016-05-02T12:00:00Z", ", recorded on 2 May 2016 UTC,"),
        ("2016-05", ", recorded in May 2016,"),
        ("2016", ", recorded in 2016,"),
        (None, ""),
    ]:
        with subtests.test(date=date):
            dated = {"recordedDate": date} if date else {}
            resources = [allergy(NKDA, **dated), allergy("Latex", category=["medication"])]
            (finding,) = findings_of(entries_of(resources))
            assert (
                finding.text
                == f"“No known drug allergy”{recorded} is still active alongside Latex."
            )


def test_finding_has_the_status_and_the_date_of_each_entry():
    said = allergy(NKDA, recordedDate="2016-05-02")
    (finding,) = findings_of(entries_of([said, allergy("Penicillin G")]))
    assert finding.text == (
        "“No known drug allergy”, recorded on 2 May 2016, is still active alongside Penicillin G"
        " (category not recorded)."
    )
    twice = [allergy("Latex"), allergy("latex", recordedDate="2020", verified="unconfirmed")]
    (finding,) = findings_of(entries_of(twice))
    assert finding.text == (
        "Recorded more than once: Latex (active) and latex (active, unconfirmed, recorded 2020)."
    )


def test_characters_that_turn_text_around_do_not_turn_a_sentence_around():
    (finding,) = findings_of(entries_of([allergy("Latex\u202e"), allergy("Latex\u2067")]))
    assert finding.text == "Recorded more than once: Latex (active) and Latex (active)."


def test_five_hundred_entries_of_one_substance_are_one_finding():
    assert found(*(allergy(PENICILLIN) for _ in range(500))) == [("duplicate", 500)]
