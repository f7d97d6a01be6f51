"""Words that deny, in several languages: what they say alone, and beside a code."""

from __future__ import annotations

from typing import Any

from fhirapp.clinical.assertion import (
    About,
    about_none_known,
    assertion_of,
    denies,
    denies_allergies,
    is_denial,
    says_nothing,
)


def test_none_known_in_other_languages(subtests):
    for words, about in [
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
    ]:
        with subtests.test(words=words):
            assert about_none_known(words) is about


def test_substance_or_an_exception_is_no_denial(subtests):
    for words in [
        "Ei",
        "PAS",
        "Non-steroidals",
        "nicht-steroidale Antirheumatika",
        "Keine außer Latex",
    ]:
        with subtests.test(words=words):
            assert not denies(words)
            code = {
                "coding": [{"system": "http://snomed.info/sct", "code": "716186003"}],
                "text": words,
            }
            assertion = assertion_of({"code": code})
            assert (assertion.kind.value, assertion.is_mixed) == ("allergy", True)


def test_name_that_says_nothing_is_known_in_any_writing():
    assert all(map(says_nothing, ("N/A", "n.a.", "NONE", "-", "?", "", "Keine", "No information")))
    assert not any(
        map(says_nothing, ("Penicillin", "Other antibiotic", "Unknown antibiotic", "No 5"))
    )


def with_code(text: str) -> dict[str, Any]:
    """Return an entry whose code says that no allergy is known, and whose text says this."""
    coding = {"system": "http://snomed.info/sct", "code": "716186003"}
    return {"code": {"coding": [coding], "text": text}}


def test_denial_that_names_more_than_allergies_is_not_none_known(subtests):
    for text in [
        *("nicht vertragen: Penicillin", "Geen penicilline", "penicillin なし", "無花果", "无花果"),
        *("NO ASPIRIN! anaphylaxis", "Not able to take penicillin", "No latex", "No: latex"),
        *("unknown - throat closed after peanut", "Unknown antibiotic", "Never penicillin again"),
        *("Keine Penicillinallergie", "Pas de pénicilline", "Sin penicilina", "페니실린 없음"),
        *("No known drug allergies, throat closed after peanut", "Нет пенициллина"),
        *("No known allergies except latex", "Patient is not to have codeine", "无青霉素过敏"),
    ]:
        with subtests.test(text=text):
            assertion = assertion_of(with_code(text))
            assert (assertion.kind.value, assertion.is_mixed) == ("allergy", True)


def test_denial_of_allergies_agrees_with_the_code_beside_it(subtests):
    for text in [
        *("denies any drug allergies", "Patient denies any allergies", "No allergies on file"),
        *("NKDA per patient", "No hx of allergies", "NKA - verified 3 May 2020", "Not allergic"),
        *("No allergies documented", "None", "None reported", "Negative", "No adverse reactions"),
        *("Pas d'allergie connue", "Pas d\N{RIGHT SINGLE QUOTATION MARK}allergie médicamenteuse"),
        *("keine bekannten Allergien", "Keine Arzneimittelallergie bekannt", "Nega alergias"),
        *("Ingen kända allergier", "Ei tunnettuja allergioita", "Nie stwierdzono alergii"),
        *(
            "нет известных аллергий",
            "无已知药物过敏",
            "無",
            "特になし",
            "アレルギーなし",
            "알레르기 없음",
            "없음",
        ),
    ]:
        with subtests.test(text=text):
            assertion = assertion_of(with_code(text))
            assert (assertion.kind.value, assertion.is_mixed) == ("none-known", False)
            assert denies_allergies(text)


def test_fig_is_no_denial():
    assert not any(map(denies, ("無花果", "无花果")))
    assert not is_denial({"text": "無花果"})
    assert is_denial({"text": "無過敏"})
