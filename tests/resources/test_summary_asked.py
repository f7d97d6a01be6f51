"""`AllergyIntolerance/$summary`: no allergy is missing, whatever its fields; nobody sees more."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.clinical.assertion import ABSENT_UNKNOWN, EXPOSURE_RISK
from fhirapp.clinical.contradictions import findings_of
from fhirapp.clinical.summary import HOLDING, SummaryGroup, conclusion_of, entries_of
from fhirapp.fhir import terminology
from tests.support.allergies import RXNORM, SEVERE, SNOMED, allergy, coded, patient_with, rich
from tests.support.effort import sample
from tests.support.helpers import Fhir, assert_outcome, token_for
from tests.support.publishing import TIMES, delete, publish
from tests.support.r4 import faults

SUMMARY = "AllergyIntolerance/$summary"

# Whatever its fields.

_TEXT = st.text(max_size=6) | st.sampled_from(["NKA", "Penicillin", "No information", "x" * 5000])
_CODING = st.fixed_dictionaries(
    {},
    optional={
        "system": st.sampled_from(
            [SNOMED, RXNORM, terminology.NULL_FLAVOR, ABSENT_UNKNOWN, "http://x"]
        ),
        "code": st.sampled_from(["716186003", "409137002", "NI", "OTH", "no-known-allergies", "1"]),
        "display": _TEXT,
        "extension": st.just([{"url": "http://x", "valueCode": "y"}]),
    },
)
_CONCEPT = st.fixed_dictionaries(
    {}, optional={"coding": st.lists(_CODING, max_size=3), "text": _TEXT}
)


def _status(system: str, *codes: str) -> st.SearchStrategy[Any]:
    """Return concepts of several statuses, of known codes and of unknown ones."""
    coding = st.fixed_dictionaries(
        {"system": st.sampled_from([system, "http://x"]), "code": st.sampled_from([*codes, "zz"])}
    )
    return st.fixed_dictionaries({"coding": st.lists(coding, max_size=3)})


_DATE = st.sampled_from(["1974", "2004-09", "2023-02-14", "2023-02-14T09:41:00+00:00"])
_EXTENDED = st.just(
    {"extension": [{"url": terminology.DATA_ABSENT_REASON, "valueCode": "unknown"}]}
)
_REACTION = st.fixed_dictionaries(
    {"manifestation": st.lists(_CONCEPT, max_size=2)},
    optional={
        "substance": _CONCEPT,
        "severity": st.sampled_from(["mild", "moderate", "severe"]),
        "onset": _DATE,
        "description": _TEXT,
    },
)
_ALLERGY = st.fixed_dictionaries(
    {},
    optional={
        "code": _CONCEPT,
        "clinicalStatus": _status(terminology.ALLERGY_CLINICAL, "active", "inactive", "resolved"),
        "verificationStatus": _status(
            terminology.ALLERGY_VERIFICATION,
            "confirmed",
            "unconfirmed",
            "refuted",
            "entered-in-error",
        ),
        "type": st.sampled_from(["allergy", "intolerance"]),
        "category": st.lists(st.sampled_from(["food", "medication", "biologic"]), max_size=2),
        "criticality": st.sampled_from(["low", "high", "unable-to-assess"]),
        "reaction": st.lists(_REACTION, max_size=2),
        "onsetDateTime": _DATE,
        "_onsetDateTime": _EXTENDED,
        "onsetPeriod": st.fixed_dictionaries({}, optional={"start": _DATE, "end": _DATE}),
        "onsetAge": st.fixed_dictionaries({}, optional={"value": st.integers(), "unit": _TEXT}),
        "onsetRange": st.fixed_dictionaries({}, optional={"low": st.just({"value": 3})}),
        "onsetString": _TEXT,
        "lastOccurrence": _DATE,
        "recordedDate": _DATE,
        "contained": st.just([{"resourceType": "Practitioner", "id": "c"}]),
        "extension": st.just([{"url": EXPOSURE_RISK, "extension": [{"url": "substance"}]}]),
        "modifierExtension": st.just([{"url": "http://x", "valueBoolean": True}]),
    },
)


@settings(max_examples=sample(20, 200))
@given(st.lists(_ALLERGY, max_size=8), st.randoms())
def test_every_entry_is_told_once_in_an_order_that_is_always_the_same(drawn, random):
    resources = [{**one, "id": f"a{at}"} for at, one in enumerate(drawn)]
    entries = entries_of(resources)
    names = [entry.reference for entry in entries]
    assert sorted(names) == sorted(f"AllergyIntolerance/{resource['id']}" for resource in resources)
    random.shuffle(resources)
    assert entries_of(resources) == entries
    # The groups follow one another, and each finding is of entries that are there.
    places = [list(SummaryGroup).index(entry.group) for entry in entries]
    assert places == sorted(places)
    for finding in findings_of(entries):
        assert set(finding.sources) <= set(names)
        assert len(set(finding.sources)) == len(finding.sources)
    # Nobody is told that none is known where something may hold.
    holds = any(entry.is_allergy and entry.group in HOLDING for entry in entries)
    assert (conclusion_of(entries).code == "allergies") == holds


@settings(max_examples=sample(20, 200))
@given(_ALLERGY)
def test_only_stated_codes_make_an_entry_past_refuted_or_in_error(resource):
    (entry,) = entries_of([{**resource, "id": "a"}])
    verified = resource.get("verificationStatus", {}).get("coding", ())
    status = resource.get("clinicalStatus", {}).get("coding", ())
    codes = {coding["code"] for coding in (*verified, *status)}
    if not codes & {"refuted", "entered-in-error", "inactive", "resolved"}:
        assert entry.group not in (SummaryGroup.PAST, SummaryGroup.REFUTED, SummaryGroup.IN_ERROR)


# Over HTTP.


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app in which each test gives patients of its own."""
    return make_app(seed=False)


def parts(content: Mapping[str, Any], name: str) -> list[Any]:
    """Return what the parameters, or parts, of a name hold."""
    listed: Sequence[dict[str, Any]] = content.get("parameter", content.get("part", ()))
    held = [part for part in listed if part["name"] == name]
    return [
        part if "part" in part else next(value for key, value in part.items() if key != "name")
        for part in held
    ]


def told(content: Mapping[str, Any]) -> list[str]:
    """Return the entries that a summary tells, in order."""
    return [
        parts(entry, "source")[0]["reference"].removeprefix("AllergyIntolerance/")
        for group in parts(content, "group")
        for entry in parts(group, "entry")
    ]


def code_of(content: Mapping[str, Any]) -> str:
    (conclusion,) = parts(content, "conclusion")
    return str(parts(conclusion, "code")[0])


@pytest.fixture
def asking(clinic: Flask) -> Fhir:
    return Fhir(clinic, token_for(clinic, "system/*.rs"))


@pytest.mark.parametrize("patient", [f"p{number}" for number in range(1, 15)])
def test_summary_lists_the_entries_that_a_search_finds(fhir, patient):
    searched = fhir.ids(f"AllergyIntolerance?patient={patient}")
    content = fhir.read(f"{SUMMARY}?patient={patient}")
    assert sorted(told(content)) == sorted(searched)
    assert (code_of(content) == "nothing-recorded") == (not searched)
    assert content["resourceType"] == "Parameters"
    assert list(faults(content)) == []
    assert "no decision support" in parts(content, "caveat")[0]


@pytest.fixture(scope="module")
def patient_with_rich_allergies(clinic):
    """A patient with allergies of every element that R4 has, and their ids."""
    return rich(clinic)


def test_every_entry_that_r4_allows_is_told_once(asking, patient_with_rich_allergies):
    patient, published = patient_with_rich_allergies
    assert len(published) >= 20
    searched = asking.ids(f"AllergyIntolerance?patient={patient}&_count=1000")
    content = asking.read(f"{SUMMARY}?patient={patient}")
    assert list(faults(content)) == []
    assert sorted(told(content)) == sorted(searched) == sorted(published)


def test_an_entry_tells_what_is_recorded_and_nothing_that_is_not(fhir):
    content = fhir.read(f"{SUMMARY}?patient=Patient/p1")
    (first, *_), *_ = [parts(group, "entry") for group in parts(content, "group")]
    names = ("substance", "clinicalStatus", "criticality", "onset", "lastOccurrence", "recorded")
    assert [parts(first, name)[0] for name in names] == [
        *("Penicillin", "active", "high", "2 June 1974 UTC"),
        *("20 November 1998", "14 February 2023 UTC"),
    ]
    reactions = parts(first, "reaction")
    assert [parts(reaction, "severity")[0] for reaction in reactions] == ["severe", "moderate"]
    assert parts(reactions[0], "text") == ["Anaphylaxis, Angioedema, Bronchospasm"]
    assert parts(first, "note") == []
    assert parts(first, "recorder") == [
        {"reference": "Practitioner/dr-adeyemi", "display": "Dr. Folake Adeyemi"}
    ]


def test_an_entry_tells_its_type_what_it_is_coded_as_and_what_was_written_beside_it(fhir):
    content = fhir.read(f"{SUMMARY}?patient=p2")
    entries = {
        parts(entry, "substance")[0]: entry
        for group in parts(content, "group")
        for entry in parts(group, "entry")
    }
    assert parts(entries["Mariscos"], "codedAs") == ["Shellfish"]
    assert parts(entries["Morphine"], "type") == ["intolerance"]
    assert parts(entries["Morphine"], "comment") == [
        "Side effect, no allergy. Hydromorphone was tolerated."
    ]
    assert parts(entries["House dust mite"], "comment") == []


def test_possible_allergy_names_its_class_members(clinic, asking):
    def same_class(name: str, code: str, **elements: Any) -> list[list[str]]:
        about = coded((RXNORM, code), text=name)
        patient = patient_with(clinic, allergy(about, **elements))
        content = asking.read(f"{SUMMARY}?patient={patient}")
        entries = [entry for group in parts(content, "group") for entry in parts(group, "entry")]
        return [parts(entry, "sameClass") for entry in entries]

    penicillins = "Penicillins: ampicillin, penicillin G, penicillin V"
    assert same_class("Amoxicillin", "723") == [[penicillins]]
    assert same_class("Amoxicillin", "723", verified="refuted") == [[]]
    assert same_class("Amoxicillin", "723", status="resolved") == [[]]
    assert same_class("Doxycycline", "3640") == [[]]


def test_missing_statuses_are_stated_in_words(clinic, asking):
    patient = patient_with(clinic, allergy("Nuts", status=None, verified=None, **SEVERE))
    content = asking.read(f"{SUMMARY}?patient={patient}")
    (group,) = parts(content, "group")
    (entry,) = parts(group, "entry")
    assert parts(group, "code") == ["status-not-known-severe"]
    assert parts(entry, "severe") == [True]
    assert parts(entry, "note") == [
        "clinical status not recorded",
        "verification status not recorded",
    ]


def test_the_answer_changes_with_the_record(clinic, asking):
    one = allergy("Nuts")
    patient = patient_with(clinic, one)
    before = asking.get(f"{SUMMARY}?patient={patient}").headers["ETag"]
    delete(clinic, TIMES[1], f"AllergyIntolerance/{one['id']}")
    answer = asking.get(f"{SUMMARY}?patient={patient}")
    assert answer.headers["ETag"] != before
    assert code_of(answer.get_json(force=True)) == "nothing-recorded"


def test_a_patient_who_is_not_here_is_not_one_whom_nobody_asked(clinic, asking):
    path = f"{SUMMARY}?patient=nobody"
    assert_outcome(asking.get(path), 404, "not-found", "Patient/nobody is not known here.")
    gone = patient_with(clinic)
    delete(clinic, TIMES[1], f"Patient/{gone}")
    answer = asking.get(f"{SUMMARY}?patient={gone}")
    assert_outcome(answer, 410, "deleted", f"Patient/{gone} was deleted.")


def test_allergies_of_a_patient_without_a_record_are_told(clinic, asking):
    stray = {**allergy("Nuts"), "patient": {"reference": "Patient/elsewhere"}}
    publish(clinic, TIMES[0], stray)
    assert told(asking.read(f"{SUMMARY}?patient=elsewhere")) == [stray["id"]]


def test_another_record_of_the_same_person_is_named(clinic, asking):
    link = [{"other": {"reference": "Patient/p9"}, "type": "seealso"}]
    content = asking.read(f"{SUMMARY}?patient={patient_with(clinic, link=link)}")
    (finding,) = parts(content, "finding")
    assert parts(finding, "code") == ["other-record"]
    assert parts(finding, "source") == [{"reference": "Patient/p9"}]


REFUSED = [
    ("", 400, "required", "patient: is required by $summary", "patient"),
    ("patient=a b", 400, "value", "patient: is not the id of one patient", "patient"),
    ("patient=p1,p2", 400, "value", "patient: is not the id of one patient", "patient"),
    # It is never cut.
    ("patient=p1&_count=1", 400, "not-supported", "_count: is not a parameter of $summary",
     "_count"),
    ("patient=p1&status=active", 400, "not-supported",
     "status: is not a parameter of $summary", "status"),
]  # fmt: skip


def test_malformed_summary_request_is_refused(fhir):
    for query, status, code, diagnostics, parameter in REFUSED:
        assert_outcome(fhir.get(f"{SUMMARY}?{query}"), status, code, diagnostics, parameter)


def test_a_token_of_one_patient_sees_no_other(as_patient):
    patient = as_patient("p1")
    assert told(patient.read(f"{SUMMARY}?patient=p1"))
    message = "patient: the token is for one patient, and this is another."
    answer = patient.get(f"{SUMMARY}?patient=p2")
    assert_outcome(answer, 403, "forbidden", message, "patient")


def test_a_token_without_the_scope_sees_none(app):
    fhir = Fhir(app, token_for(app, "system/DocumentReference.rs system/AllergyIntolerance.r"))
    assert fhir.get(f"{SUMMARY}?patient=p1").status_code == 403


def test_a_token_that_sees_a_part_is_told_so(app):
    scope = "system/AllergyIntolerance.rs?category=food"
    fhir = Fhir(app, token_for(app, scope))
    content = fhir.read(f"{SUMMARY}?patient=p3")
    assert parts(content, "limited") == [True]
    assert 0 < len(told(content)) < len(fhir_all(app, "p3"))
    # Nothing of this part is here: that is not "nothing is recorded".
    content = fhir.read(f"{SUMMARY}?patient=p4")
    assert (told(content), code_of(content)) == ([], "not-visible")


def fhir_all(app: Flask, patient: str) -> list[str]:
    return Fhir(app, token_for(app, "system/*.rs")).ids(f"AllergyIntolerance?patient={patient}")


def test_a_token_that_may_not_read_patients_is_not_told_of_them(app):
    fhir = Fhir(app, token_for(app, "system/AllergyIntolerance.rs"))
    assert code_of(fhir.read(f"{SUMMARY}?patient=nobody")) == "nothing-recorded"
