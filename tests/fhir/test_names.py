"""Which of several human names is the current one, and how a name reads."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fhirapp.fhir import temporal, words

MAIDEN = {"use": "maiden", "family": "Muster", "given": ["Anna"]}
OFFICIAL = {"use": "official", "family": "Weber", "given": ["Anna"]}
USUAL = {"use": "usual", "family": "Weber", "given": ["Anni"]}
UNMARKED = {"family": "Weber", "given": ["Anna", "B."]}


@pytest.fixture(autouse=True)
def _today(monkeypatch):
    monkeypatch.setattr(temporal, "now", lambda: datetime(2026, 11, 27, 12, tzinfo=UTC))


def valid(name, start=None, end=None):
    """Return a name with a period."""
    period = {key: value for key, value in (("start", start), ("end", end)) if value}
    return {**name, "period": period}


def test_current_name_follows_from_period_and_use(subtests):
    for recorded, current in [
        ([MAIDEN, OFFICIAL], OFFICIAL),
        ([OFFICIAL, MAIDEN], OFFICIAL),
        ([MAIDEN, UNMARKED], UNMARKED),
        ([USUAL, OFFICIAL], OFFICIAL),
        ([UNMARKED, USUAL], USUAL),
        ([MAIDEN], MAIDEN),
        # A period decides before the use.
        ([valid(OFFICIAL, end="2010"), USUAL], USUAL),
        ([valid(OFFICIAL, end="2026-11-26"), UNMARKED], UNMARKED),
        ([valid(OFFICIAL, end="2026-11-27"), UNMARKED], valid(OFFICIAL, end="2026-11-27")),
        ([valid(OFFICIAL, end="2026"), UNMARKED], valid(OFFICIAL, end="2026")),
        ([valid(OFFICIAL, end="2026-11-27T11:00:00+00:00"), USUAL], USUAL),
        ([valid(OFFICIAL, start="2027-01-01"), UNMARKED], UNMARKED),
        ([valid(OFFICIAL, start="2026-11"), UNMARKED], valid(OFFICIAL, start="2026-11")),
        # A former name is past, whatever its period says; an official one of the past precedes it.
        ([valid(MAIDEN, start="1980"), valid(OFFICIAL, end="2010")], valid(OFFICIAL, end="2010")),
        ([valid(OFFICIAL, start="2030"), MAIDEN], MAIDEN),
        # Of two names with one use the later one.
        ([valid(OFFICIAL, start="2001"), valid({**OFFICIAL, "family": "Frei"}, start="2015")],
         valid({**OFFICIAL, "family": "Frei"}, start="2015")),
        ([OFFICIAL, {**OFFICIAL, "family": "Frei"}], OFFICIAL),
        # A name without words is none.
        ([{"use": "official"}, {"use": "official", "given": [None]}, MAIDEN], MAIDEN),
        ([{"use": "official", "text": "A. Weber"}, USUAL], {"use": "official", "text": "A. Weber"}),
        ([{"use": "official"}], None),
        ([], None),
    ]:  # fmt: skip
        with subtests.test(recorded=recorded):
            assert words.current_name(recorded) == current


def test_name_in_words(subtests):
    for name, full, without_prefix in [
        ({"prefix": ["Dr."], "given": ["Ana", "M."], "family": "Ruiz", "suffix": ["Jr."]},
         "Dr. Ana M. Ruiz Jr.", "Ana M. Ruiz Jr."),
        ({"text": "Dr. A. Ruiz", "family": "Ruiz"}, "Dr. A. Ruiz", "Dr. A. Ruiz"),
        ({"given": [None, "Ana"], "family": None}, "Ana", "Ana"),
        ({}, "", ""),
    ]:  # fmt: skip
        with subtests.test(name=name):
            assert words.human_name(name) == full
            assert words.human_name(name, prefix=False) == without_prefix


def test_name_of_a_person_is_the_current_one():
    several = [MAIDEN, {**OFFICIAL, "prefix": ["Dr."]}]
    assert words.name_of({"name": several}) == "Dr. Anna Weber"
    assert words.name_of({"name": several}, prefix=False) == "Anna Weber"
    assert words.name_of({"resourceType": "RelatedPerson"}) == ""
