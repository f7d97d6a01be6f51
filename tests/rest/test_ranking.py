"""`_sort=_score`: the best match for the words first, on one page, with its score."""

from __future__ import annotations

import pytest

from fhirapp.rest import paging
from tests.support.contract import allergy, publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, assert_outcome, ids, link, token_for

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

NOW = "2026-03-01T00:00:00.000+00:00"
# How often each says the word, and among how many others.
SAID = {
    "often": "rash rash rash rash",
    "once": "rash and nothing else",
    "lost": "rash " + "hives itching " * 20,
}


@pytest.fixture(scope="module")
def app(make_app):
    """An app where three allergies say a word, one of another patient does, one does not."""
    app = make_app(seed=False)
    notes = {**SAID, "none": "hives itching"}
    publish(app, *(allergy(name, note=[{"text": text}]) for name, text in notes.items()), now=NOW)
    # A word is worth the more the fewer have it.
    publish(app, *(allergy(f"none-{number}") for number in range(20)), now=NOW)
    publish(app, allergy("other", patient="p2", note=[{"text": "rash rash"}]), now=NOW)
    return app


def scores(bundle) -> list[float]:
    return [entry["search"]["score"] for entry in bundle["entry"]]


@pytest.mark.parametrize("words", ["rash", "ra*", '"rash"', "rash,nobodys"])
def test_the_best_match_comes_first_with_the_greatest_score(fhir, words):
    bundle = fhir.read(f"AllergyIntolerance?patient=p1&_content={words}&_sort=_score")
    assert (ids(bundle)[0], ids(bundle)[-1]) == ("often", "lost")
    assert bundle["total"] == 3
    assert scores(bundle) == sorted(scores(bundle), reverse=True)
    assert all(0 <= score < 1 for score in scores(bundle))


def test_ranked_search_has_one_page(fhir):
    bundle = fhir.read("AllergyIntolerance?patient=p1&_content=rash&_sort=_score&_count=1")
    assert ids(bundle) == ["often"]
    assert bundle["total"] == 3
    assert link(bundle, "next") is None


def test_without_a_sort_matches_come_newest_first_and_have_no_score(fhir):
    bundle = fhir.read("AllergyIntolerance?patient=p1&_content=rash")
    assert ids(bundle) == ["once", "often", "lost"]
    assert all(entry["search"] == {"mode": "match"} for entry in bundle["entry"])


def test_a_patient_sees_only_the_own_matches(app):
    mine = Fhir(app, token_for(app, "patient/AllergyIntolerance.rs", patient="p2"))
    bundle = mine.read("AllergyIntolerance?_content=rash&_sort=_score")
    assert (ids(bundle), bundle["total"]) == (["other"], 1)
    # A score would tell how rare the word is among everybody's records.
    match, outcome = bundle["entry"]
    assert match["search"] == {"mode": "match"}
    assert outcome["resource"]["issue"][0]["diagnostics"] == (
        "_sort: _score ranks among all records, which this token may not see; newest first"
    )


@pytest.mark.parametrize("query", ["_sort=_score", "_sort=_score&patient=p1"])
def test_a_score_without_words_is_refused(fhir, query):
    diagnostics = "_sort: _score needs words to search for: _content or _text"
    assert_outcome(fhir.get(f"AllergyIntolerance?{query}"), 400, "value", diagnostics, "_sort")


@pytest.mark.parametrize("sort", ["-_score", "_score,date", "date,_score"])
def test_a_score_is_a_sort_of_its_own(fhir, sort):
    response = fhir.get(f"AllergyIntolerance?_content=rash&_sort={sort}")
    named = next(name for name in sort.split(",") if "score" in name)
    diagnostics = f"_sort: '{named}' is not a search parameter of this type"
    assert_outcome(response, 400, "value", diagnostics, "_sort")


def test_words_that_very_many_have_are_not_ranked_and_the_answer_says_so(fhir, monkeypatch):
    monkeypatch.setattr(paging, "RANKABLE", 3)
    bundle = fhir.read("AllergyIntolerance?patient=p1&_content=rash&_sort=_score")
    assert ids(bundle) == ["once", "often", "lost"]
    (outcome,) = [
        entry["resource"] for entry in bundle["entry"] if entry["search"]["mode"] == "outcome"
    ]
    assert outcome["issue"][0]["diagnostics"] == (
        "_sort: the words are in more than 20,000 resources and were not ranked; newest first"
    )
