"""Who a patient is: spellings of one name, with or without letters that a keyboard lacks."""

from __future__ import annotations

from fhirapp.fhir.identity import contradiction
from fhirapp.search.string import fold


def test_names_that_search_finds_alike_are_one_given_name(subtests):
    for name, other in [
        ("Søren", "Soren"),
        ("Łukasz", "LUKASZ"),
        ("Đorđe", "Dorde"),
        ("Æsa", "Aesa"),
        ("Þóra", "Thora"),
        ("José", "Jose"),
    ]:
        with subtests.test(name=name):
            assert fold(name) == fold(other)
            one, two = ({"name": [{"given": [spelled]}]} for spelled in (name, other))
            assert contradiction(one, two) == contradiction(two, one) == ""
            text = {"name": [{"text": f"{other} Ek"}]}
            assert contradiction(one, text) == contradiction(text, one) == ""


def test_given_names_distinguish_people(subtests):
    for name, other in [("Søren", "Sara"), ("Łukasz", "Lucas")]:
        with subtests.test(name=name):
            one, two = ({"name": [{"given": [spelled]}]} for spelled in (name, other))
            assert "another given name" in contradiction(one, two)
