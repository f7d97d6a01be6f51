"""What the chart shows before anything else: what can kill, that nothing is known, directives."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from tests.support.allergies import (
    NKA,
    NKDA,
    NO_INFORMATION,
    PENICILLIN,
    RXNORM,
    SEVERE,
    allergy,
    coded,
    patient_with,
)
from tests.support.browsing import Browser, Page, add_person
from tests.support.noted import note
from tests.support.publishing import TIMES, publish

LOINC = "http://loinc.org"
RASH = {"reaction": [{"manifestation": [{"text": "Rash"}], "severity": "mild"}]}


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    return make_app()


@pytest.fixture(scope="module")
def clinician(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def headlines(page: Page) -> list[str]:
    """Return the lines of the banner, without markup."""
    found = re.findall(r'<p class="headline[^>]*>(.*?)</p>', page.response.text, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", "", one).split()) for one in found]


def pinned(page: Page) -> list[str]:
    found = re.findall(r'<p class="pinned[^>]*>(.*?)</p>', page.response.text, re.DOTALL)
    return [" ".join(re.sub(r"<[^>]+>", "", one).split()) for one in found]


def test_every_severe_allergy_is_named_with_its_reaction_before_the_rest(clinic, clinician):
    patient = patient_with(
        clinic,
        allergy("Milk", **RASH),
        allergy("Walnut", criticality="high"),
        allergy("Latex", criticality="high", reaction=[{"manifestation": [{"text": "Hives"}]}]),
        allergy(PENICILLIN, **SEVERE),
        allergy("Wasp", status=None, **SEVERE),
    )
    page = clinician.get(f"/patients/{patient}")
    # What is severe by its criticality alone says so: its reaction was not severe.
    assert sorted(headlines(page)) == [
        "High criticality: Latex (Hives)",
        "High criticality: Walnut (reaction not recorded)",
        "Severe: Penicillin (Anaphylaxis)",
        "Severe: Wasp (Anaphylaxis)",
    ]
    assert page.response.text.index('class="danger"') < page.response.text.index('id="allergies"')
    assert "clinical status not recorded" in page.words


def test_the_banner_names_what_the_codes_of_a_severe_allergy_are_called(clinic, clinician):
    codeine = coded((RXNORM, "2670", "Codeine"), text="Aspirin")
    patient = patient_with(clinic, allergy(codeine, **SEVERE))
    page = clinician.get(f"/patients/{patient}")
    assert headlines(page) == ["Severe: Aspirin, coded as Codeine (Anaphylaxis)"]
    assert pinned(page)[0].startswith(
        "Check: “Aspirin” names two different substances, “Aspirin” and “Codeine”: read the entry"
    )


def test_the_names_in_a_list_have_those_of_their_codes(clinic, clinician):
    codeine = coded((RXNORM, "2670", "Codeine"), text="Aspirin")
    patient = patient_with(
        clinic, allergy("Latex", **SEVERE), allergy(codeine), allergy(codeine, status="resolved")
    )
    page = clinician.get(f"/patients/{patient}")
    assert page.words.count("Aspirin (coded as Codeine)") == 2


def test_words_that_alone_tell_of_something_severe_are_quoted(clinic, clinician):
    patient = patient_with(clinic, allergy("Peanut", note=[{"text": "Throat closed at school"}]))
    page = clinician.get(f"/patients/{patient}")
    assert headlines(page) == ["Severe: Peanut (“Throat closed at school”)"]


@pytest.mark.parametrize(
    "elements",
    [
        {"verified": "refuted"},
        {"verified": "entered-in-error", "status": None},
        {"status": "resolved"},
        {"status": "inactive"},
    ],
)
def test_what_is_over_or_never_was_is_no_warning_but_is_named(clinic, clinician, elements):
    page = clinician.get(f"/patients/{patient_with(clinic, allergy('Egg', **elements, **SEVERE))}")
    assert headlines(page) == []
    assert 'class="danger"' not in page.response.text
    (summary,) = re.findall(r"<summary>(.*?)</summary>", page.response.text, re.DOTALL)
    assert "Egg" in summary


def test_a_banner_has_dates_and_who_recorded_it(clinic, clinician):
    patient = patient_with(
        clinic,
        allergy(
            PENICILLIN,
            **SEVERE,
            onsetDateTime="1974-06-02",
            recordedDate="2016-05-02",
            recorder={"reference": "Practitioner/dr-sato"},
        ),
        allergy(
            "Bee venom",
            **SEVERE,
            contained=[{"resourceType": "Practitioner", "id": "w", "name": [{"text": "Dr. W"}]}],
            recorder={"reference": "#w"},
        ),
        allergy("Wasp", **SEVERE, asserter={"display": "His mother"}),
        allergy("Hornet", **SEVERE),
    )
    words = clinician.get(f"/patients/{patient}").words
    # A name that is nowhere in the entry is read.
    assert "onset 2 June 1974 · recorded 2 May 2016 · recorded by Keiko Sato" in words
    assert (
        "Bee venom (Anaphylaxis) active, confirmed · onset not recorded · recorded by Dr. W"
        in words
    )
    assert "reported by His mother" in words
    assert "source not recorded" in words


def test_a_banner_names_the_others_too_and_what_is_noted(clinic, clinician):
    patient = patient_with(
        clinic,
        allergy(PENICILLIN, **SEVERE, note=[{"text": "Cefazolin was tolerated"}]),
        allergy("Fish", **RASH),
        allergy("Milk", None),
        allergy("Egg", "resolved"),
        allergy("Soy", verified="refuted"),
    )
    banner = clinician.get(f"/patients/{patient}").response.text
    banner = banner.partition('class="danger"')[2].partition("</section>")[0]
    assert "Cefazolin was tolerated" in banner
    assert "Fish, Milk</bdi>" in banner
    assert "Egg" not in banner
    assert "Soy" not in banner


def test_that_nothing_is_known_has_a_date_a_source_and_its_reason(clinic, clinician):
    asked = allergy(
        NO_INFORMATION,
        recordedDate="2025-04-21",
        recorder={"display": "Dr. Sato"},
        note=[{"text": "No interpreter was at hand"}],
    )
    page = clinician.get(f"/patients/{patient_with(clinic, asked)}")
    banner = page.response.text.partition('class="none open"')[2].partition("</div></div>")[0]
    assert "No interpreter was at hand" in banner
    assert "21 April 2025" in banner
    assert "Dr. Sato" in banner


def test_whoever_has_no_name_is_told_in_the_language_of_the_page(clinic):
    unnamed = {"resourceType": "Practitioner", "id": "w"}
    patient = patient_with(
        clinic, allergy("Wasp", **SEVERE, contained=[unnamed], recorder={"reference": "#w"})
    )
    browser = Browser(clinic).resume(add_person(clinic, CLINICIAN))
    assert "recorded by name not recorded" in browser.get(f"/patients/{patient}").words
    browser.client.environ_base["HTTP_ACCEPT_LANGUAGE"] = "de"
    german = browser.get(f"/patients/{patient}")
    assert "name not recorded" not in german.words
    assert "Name nicht erfasst" in german.words


def test_that_somebody_died_stands_by_the_name(clinic, clinician):
    page = clinician.get(f"/patients/{patient_with(clinic, deceasedDateTime='2025-03-02')}")
    assert '<p class="died">died 2 March 2025</p>' in page.response.text


def test_of_very_many_severe_ones_the_banner_says_how_many_more(clinic, clinician):
    patient = patient_with(clinic, *(allergy(f"Food {n}", **SEVERE) for n in range(14)))
    lines = headlines(clinician.get(f"/patients/{patient}"))
    assert len(lines) == 13
    assert lines[-1] == "2 more severe allergies are in the list below."


@pytest.mark.parametrize(
    ("entries", "title", "is_known"),
    [
        ([], "Nothing recorded", False),
        ([allergy(NKA)], "None known", True),
        ([allergy(NKDA)], "None known for some allergens only", False),
        ([allergy(NO_INFORMATION)], "No information", False),
        ([allergy("Egg", "resolved")], "None active", False),
    ],
)
def test_why_no_allergy_is_shown_is_told(clinic, clinician, entries, title, is_known):
    page = clinician.get(f"/patients/{patient_with(clinic, *entries)}")
    banner = re.search(r'<div class="(none[^"]*)">.*?<strong>(.*?)</strong>', page.response.text)
    assert banner is not None
    assert banner.groups() == ("none" if is_known else "none open", title)


def test_no_banner_says_none_beside_an_allergy(clinic, clinician):
    patient = patient_with(clinic, allergy(NKA), allergy("Egg", **RASH))
    page = clinician.get(f"/patients/{patient}")
    assert 'class="none' not in page.response.text
    assert "Active 1" in page.words
    assert "Statements about allergies 1" in page.words


def test_sections_stand_in_the_order_in_which_they_matter(clinic, clinician):
    patient = patient_with(
        clinic,
        allergy("Egg", verified="refuted"),
        allergy("Soy", "resolved"),
        allergy("Milk", None),
        allergy("Fish"),
        allergy("Kiwi", verified="unconfirmed"),
        allergy("Fig", None, "entered-in-error"),
    )
    words = clinician.get(f"/patients/{patient}").words
    titles = [
        *("Active 2", "Unresolved: clinical status not recorded 1"),
        *("Resolved or inactive 1: Soy", "Refuted 1: Egg", "Entered in error 1: Fig"),
    ]
    places = [words.find(title) for title in titles]
    assert -1 not in places
    assert places == sorted(places)


def of(patient: str, note_id: str, **elements: Any) -> dict[str, Any]:
    subject = {"reference": f"Patient/{patient}"}
    return note(f"{patient}-{note_id}", subject=subject, content=[], **elements)


def test_directives_and_warnings_that_hold_are_pinned_above_the_notes(clinic, clinician):
    patient = patient_with(clinic)
    adi = [coded((LOINC, "42348-3"))]
    publish(
        clinic,
        TIMES[0],
        of(patient, "dnr", type=coded((LOINC, "84095-9", "Do not resuscitate")), date="2025-01-02"),
        of(patient, "adi", type=coded(text="Scan"), category=adi, date="2024-01-02"),
        of(patient, "words", description="DNR, signed by his wife", date="2023-01-02"),
        of(patient, "alert", type=coded(text="Patient alert"), date="2022-01-02"),
        of(patient, "old", type=coded((LOINC, "86533-7")), status="superseded"),
        of(patient, "wrong", type=coded((LOINC, "86533-7")), docStatus="entered-in-error"),
        of(patient, "note", type=coded(text="Progress note"), description="Feels well"),
    )
    page = clinician.get(f"/patients/{patient}")
    assert pinned(page) == [
        "Directive: Do not resuscitate · 2 Jan 2025 · author not recorded",
        "Directive: Scan · 2 Jan 2024 · author not recorded",
        "Directive: Note: DNR, signed by his wife · 2 Jan 2023 · author not recorded",
        "Warning: Patient alert · 2 Jan 2022 · author not recorded",
    ]
    assert page.response.text.index('class="pinned') < page.response.text.index("notes-heading")


def test_a_directive_of_long_ago_is_found_beyond_the_notes_at_hand(clinic, clinician):
    patient = patient_with(clinic)
    many = [of(patient, f"n{n}", date=f"2025-01-01T00:{n:02}:00Z") for n in range(60)]
    will = of(patient, "will", type=coded((LOINC, "86533-7", "Living will")), date="1999-01-01")
    publish(clinic, TIMES[0], will, *many)
    (line,) = pinned(clinician.get(f"/patients/{patient}"))
    assert line.startswith("Directive: Living will")
