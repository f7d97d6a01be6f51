"""Strings are found whatever their accents, strokes and ligatures, in both directions.

FHIR R4 search §3.1.1.4.8: "insensitive to casing and included combining characters, like accents".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from tests.support.contract import allergy, publish
from tests.support.helpers import Fhir, token_for

NOW = "2026-02-01T00:00:00.000+00:00"
# Names as they are written, and without the special letters.
NAMES = (
    ("Sørensen", "Sorensen"), ("SØRENSEN", "sorensen"), ("Łukasz", "Lukasz"), ("Wałęsa", "Walesa"),
    ("Đorđević", "Dordevic"), ("Nguyễn Đức", "nguyen duc"), ("Guðrún", "Gudrun"),
    ("Þórsson", "Thorsson"), ("Ægir", "Aegir"), ("Ǽrø", "AERO"), ("Œuvrard", "oeuvrard"),
    ("Weiß", "Weiss"), ("WEIẞ", "WEISS"), ("Groß", "GROSS"), ("Iş\u0131k", "Isik"),
    ("IŞIK", "\u0131ş\u0131k"), ("İnönü", "inonu"), ("Ħal", "hal"), ("Åse", "Ase"),
    ("Žižek", "Zizek"), ("Sa\u0301nchez", "Sanchez"), ("Ŋuŋŋá", "Nunna"),
    ("Ɗanjuma Ƙofa", "Danjuma Kofa"), ("Ŧeđđi", "teddi"), ("ﬁscher", "Fischer"),
)  # fmt: skip


def resources(written: str, number: int) -> list[dict[str, Any]]:
    """Return a resource with a name for each of the types that have one."""
    row_id = f"accents-{number}"
    person = {"name": [{"family": written, "given": [f"{written}a"]}], "id": row_id}
    div = f'<div xmlns="http://www.w3.org/1999/xhtml">{written}</div>'
    return [
        {"resourceType": "Patient", **person, "address": [{"city": written}]},
        {"resourceType": "Practitioner", **person},
        {"resourceType": "RelatedPerson", **person, "patient": {"reference": f"Patient/{row_id}"}},
        {"resourceType": "Organization", "id": row_id, "name": f"{written} Clinic"},
        allergy(
            row_id,
            row_id,
            code={"text": f"{written} pollen"},
            recorder={"reference": f"Practitioner/{row_id}"},
            text={"status": "generated", "div": div},
        ),
    ]


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app where resources have each name, as it is written and without special letters."""
    app = make_app(seed=False)
    named = [resources(name, number) for number, name in enumerate(sum(NAMES, ()))]
    for of_type in zip(*named, strict=True):
        publish(app, *of_type, now=NOW)
    return app


@pytest.fixture
def fhir(clinic: Flask) -> Fhir:
    return Fhir(clinic, token_for(clinic, "system/*.rs"))


def names_not_found(fhir: Fhir, search: str, names: tuple[tuple[str, str], ...]) -> list[str]:
    """Return the spellings that do not find both resources of their name."""
    missed = []
    for written, plain in names:
        number = 2 * NAMES.index((written, plain))
        both = {f"accents-{number}", f"accents-{number + 1}"}
        missed += [
            value
            for value in sorted({written, plain, written.upper(), plain.lower()})
            if not both <= {*fhir.ids(f"{search}={value}&_count=200")}
        ]
    return missed


def test_each_spelling_of_a_name_finds_both(fhir):
    assert names_not_found(fhir, "Patient?family", NAMES) == []


@pytest.mark.parametrize(
    "search",
    ["Patient?name", "Patient?given", "Patient?name:contains", "Patient?address-city",
     "Patient?address", "Practitioner?name", "Practitioner?family", "RelatedPerson?name",
     "Organization?name", "Organization?name:contains", "AllergyIntolerance?code:text",
     "AllergyIntolerance?patient.name", "AllergyIntolerance?patient.family:contains",
     "AllergyIntolerance?recorder:Practitioner.family", "AllergyIntolerance?_content",
     "AllergyIntolerance?_text", "Practitioner?_has:AllergyIntolerance:recorder:code:text"],
)  # fmt: skip
def test_each_search_for_a_text_finds_both_spellings(fhir, search):
    """A stroke, accents over two words, a ligature, a sharp s and a dotless i."""
    names = (NAMES[0], NAMES[5], NAMES[10], NAMES[11], NAMES[14])
    assert names_not_found(fhir, search, names) == []


def test_a_name_sounds_as_it_does_without_its_special_letters(fhir):
    for number, (_, plain) in enumerate(NAMES):
        found = fhir.ids(f"Patient?phonetic={plain.partition(' ')[0]}&_count=200")
        assert {f"accents-{2 * number}", f"accents-{2 * number + 1}"} <= {*found}


def test_exact_distinguishes_the_spellings(fhir):
    for number, (written, _) in enumerate(NAMES):
        found = fhir.ids(f"Patient?family:exact={written}")
        assert f"accents-{2 * number}" in found
        assert f"accents-{2 * number + 1}" not in found


def test_another_transcription_is_another_name(clinic, fhir):
    for value, other in (("Muller", "Mueller"), ("Sorensen", "Soerensen"), ("Weis", "Veis")):
        publish(clinic, resources(other, 900)[0], now=NOW)
        assert "accents-900" not in fhir.ids(f"Patient?family={value}&_count=200")
