"""Words that deny, in several languages: what they say alone, and beside a code."""

from __future__ import annotations

import pytest

from fhirapp.allergies.assertion import About, about_none_known, assertion_of, denies, says_nothing


@pytest.mark.parametrize(
    ("words", "about"),
    [
        ("Keine bekannten Allergien", About.ANY),
        ("Keine Arzneimittelallergien bekannt", About.DRUG),
        ("Keine Nahrungsmittelallergien", About.FOOD),
        ("Aucune allergie connue", About.ANY),
        ("Pas d\N{RIGHT SINGLE QUOTATION MARK}allergie médicamenteuse connue", About.DRUG),
        ("Sin alergias conocidas", About.ANY),
        ("Alergias no conocidas", About.ANY),
        ("Ninguna alergia alimentaria", About.FOOD),
        ("Nessuna allergia nota", About.ANY),
        ("Nessuna allergia a farmaci", About.DRUG),
        ("Sem alergias conhecidas", About.ANY),
        ("Geen allergieën bekend", About.ANY),
        ("Keine Penicillinallergie", None),
        ("Aucune allergie aux pénicillines", None),
        ("Keine Allergien außer Latex", None),
    ],
)
def test_none_known_in_other_languages(words, about):
    assert about_none_known(words) is about


@pytest.mark.parametrize(
    "words", ["Ei", "PAS", "Non-steroidals", "nicht-steroidale Antirheumatika", "Keine außer Latex"]
)
def test_a_substance_or_an_exception_is_no_denial(words):
    assert not denies(words)
    code = {"coding": [{"system": "http://snomed.info/sct", "code": "716186003"}], "text": words}
    assertion = assertion_of({"code": code})
    assert (assertion.kind.value, assertion.is_mixed) == ("allergy", True)


def test_a_name_that_says_nothing_is_known_in_any_writing():
    assert all(map(says_nothing, ("N/A", "n.a.", "NONE", "-", "?", "", "Keine", "No information")))
    assert not any(
        map(says_nothing, ("Penicillin", "Other antibiotic", "Unknown antibiotic", "No 5"))
    )
