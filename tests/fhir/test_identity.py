"""Who a patient is: spellings of one name, with or without letters that a keyboard lacks."""

from __future__ import annotations

import pytest

from fhirapp.fhir.identity import contradiction
from fhirapp.search.string import fold


@pytest.mark.parametrize(
    ("name", "other"),
    [
        ("Søren", "Soren"),
        ("Łukasz", "LUKASZ"),
        ("Đorđe", "Dorde"),
        ("Æsa", "Aesa"),
        ("Þóra", "Thora"),
        ("José", "Jose"),
    ],
)
def test_names_that_search_finds_alike_are_one_given_name(name, other):
    assert fold(name) == fold(other)
    one, two = ({"name": [{"given": [spelled]}]} for spelled in (name, other))
    assert contradiction(one, two) == contradiction(two, one) == ""
    text = {"name": [{"text": f"{other} Ek"}]}
    assert contradiction(one, text) == contradiction(text, one) == ""


@pytest.mark.parametrize(("name", "other"), [("Søren", "Sara"), ("Łukasz", "Lucas")])
def test_other_given_names_are_told_apart(name, other):
    one, two = ({"name": [{"given": [spelled]}]} for spelled in (name, other))
    assert "another given name" in contradiction(one, two)
