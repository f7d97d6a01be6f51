"""How severe the allergies of a summary are, and their names, ages and comments.

Groups and contradictions are tested in test_summary.py.
"""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.allergies.contradictions import findings_of
from fhirapp.allergies.severity import Severity
from fhirapp.allergies.summary import conclusion_of, entries_of
from tests.support.allergies import (
    NKA,
    NO_INFORMATION,
    REFUTED,
    RXNORM,
    SEVERE,
    SNOMED,
    allergy,
    coded,
)


def codes(resource: dict[str, Any]) -> list[str]:
    """Return the codes of the findings."""
    return [finding.code for finding in findings_of(entries_of([resource]))]


@pytest.mark.parametrize(
    ("manifestation", "is_severe"),
    [
        (coded(text="Anaphylaxis (disorder)"), True),
        (coded((SNOMED, "39579001")), True),
        (coded((SNOMED, "1", "Anaphylactic shock")), True),
        (coded(text="Schock, anaphylaktischer"), True),
        (coded(text="Choque anafiláctico"), True),
        (coded(text="No anaphylaxis"), False),
        (coded(text="Anaphylactoid reaction"), True),
        (coded(text="Rash"), False),
    ],
)
def test_anaphylaxis_is_severe_though_no_severity_is_recorded(manifestation, is_severe):
    (entry,) = entries_of([allergy("a", reaction=[{"manifestation": [manifestation]}])])
    assert (entry.is_severe, entry.group.code) == (
        is_severe,
        "active-severe" if is_severe else "active",
    )


ICD_10, ICD_9 = "http://hl7.org/fhir/sid/icd-10-cm", "http://hl7.org/fhir/sid/icd-9-cm"


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        # By codes.
        ({"reaction": [{"manifestation": [coded((SNOMED, "41291007"))]}]}, ""),
        ({"reaction": [{"manifestation": [coded((ICD_10, "T78.2XXA"))]}]}, ""),
        ({"reaction": [{"manifestation": [coded((ICD_10, "T7805XA"))]}]}, ""),
        ({"reaction": [{"manifestation": [coded((ICD_9, "995.0"))]}]}, ""),
        ({"code": coded((ICD_10, "T88.6XXA"))}, ""),
        # By words: of a reaction, a local code, the substance, a note.
        (
            {"reaction": [{"manifestation": [coded(text="Angioedema of lips")]}]},
            "Angioedema of lips",
        ),
        ({"reaction": [{"manifestation": [coded(text="Angiodema")]}]}, "Angiodema"),
        ({"reaction": [{"manifestation": [coded(text="anaphlaxis")]}]}, "anaphlaxis"),
        ({"reaction": [{"manifestation": [coded(("urn:x", "ANAPHYLAXIS"))]}]}, "ANAPHYLAXIS"),
        (
            {"reaction": [{"manifestation": [coded(text="Rash")], "description": "throat closed"}]},
            "throat closed",
        ),
        ({"code": coded(text="Penicillin (severe reaction)")}, "Penicillin (severe reaction)"),
        ({"note": [{"text": "Needed a tube in the airway"}]}, "Needed a tube in the airway"),
        # Denied of one thing, and not of the other.
        ({"note": [{"text": "No rash, but anaphylaxis"}]}, "No rash, but anaphylaxis"),
        (
            {"extension": [{"url": "http://x/allergy-severity", "valueString": "Severe"}]},
            "Severe",
        ),
    ],
)
def test_an_allergy_that_any_code_or_word_calls_severe_is_severe(elements, words):
    (entry,) = entries_of([{**allergy("a"), **elements}])
    assert (entry.is_severe, entry.severity.words) == (True, words)


@pytest.mark.parametrize(
    "text",
    [
        "No anaphylaxis",
        "Rash; denies throat swelling",
        "Anaphylaxis: no",
        "anaphylaxis was ruled out",
        "non-anaphylactic",
        "not severe",
        "sore throat",
        "Angiotensin converting enzyme inhibitor",
        "analgesics",
        "persevered",
    ],
)
def test_a_denied_or_similar_word_is_not_severe(text):
    (entry,) = entries_of([allergy("a", note=[{"text": text}])])
    assert not entry.is_severe


@pytest.mark.parametrize(
    "text",
    [
        "Throat lozenges",
        "Throat spray",
        "numbing throat lozenges",
        "itchy throat",
        "Itching of the throat",
        "throat itching",
        "Throat: itchy",
        "scratchy, itchy throat",
        "Sore throat",
        "dry mouth and throat",
        "throat irritation",
        "Strep throat culture",
        "burning throat",
        "Itchy throat, no swelling",
        "itchy throat; denies difficulty breathing",
        "No throat tightness",
        # A throat in another language needs more than its name.
        "Kratzen im Hals",
        "Halstabletten",
        "Hals",
        "gorge irritée",
        "picor de garganta",
        "keine Schwellung im Hals",
        "sans gonflement de la gorge",
        "sin edema de glotis",
        "sore throat, not short of breath",
        "scratchy throat; lips not swollen",
        "dry throat. No trouble swallowing.",
        "itchy throat, no epinephrine given",
        "throat discomfort - no intubation",
    ],
)
def test_a_throat_that_only_itches_or_is_treated_is_not_severe(text):
    for elements in (
        {"note": [{"text": text}]},
        {"reaction": [{"manifestation": [coded(text=text)]}]},
    ):
        (entry,) = entries_of([allergy("a", **elements)])
        assert not entry.is_severe
    (entry,) = entries_of([allergy(text)])
    assert not entry.is_severe


@pytest.mark.parametrize(
    "text",
    [
        "throat",
        "throat swelling",
        "Swelling of the throat",
        "swelling of lips, tongue and throat",
        "throat tightness",
        "tightening in her throat",
        "throat closing up",
        "Throat closed",
        "throat edema",
        "Oedema of throat",
        "throat constriction",
        "lump in throat",
        "itchy and swollen throat",
        "itchy throat, then closing",
        "itchy throat with trouble breathing",
        "dry mouth, throat",
        "sore throat and throat swelling",
        "Halsschwellung",
        "Schwellung im Hals",
        "Hals schwillt zu",
        "Kehlkopfödem",
        "Engegefühl im Hals",
        "Rachen zugeschwollen",
        "gonflement de la gorge",
        "gorge serrée",
        "œdème de Quincke",
        "hinchazón de garganta",
        "edema de glotis",
        "gola gonfia",
        "edema della glottide",
        "svullnad i halsen",
        # A mild word, and what is not mild, in any part of the text.
        "throat pain, could not breathe",
        "dry throat, not breathing",
        "scratchy throat; lips swelled",
        "throat discomfort - required intubation",
        "throat burning requiring epinephrine",
        "sore throat. Collapsed.",
        "Itchy throat / given EpiPen",
        "lips swollen, later an itchy throat",
        "raw, itching throat: unable to swallow",
        "couldn't swallow, throat hurt",
        "throat irritation, stopped breathing",
    ],
)
def test_a_throat_that_swells_tightens_or_closes_is_severe(text):
    (entry,) = entries_of([allergy("a", reaction=[{"manifestation": [coded(text=text)]}])])
    assert (entry.is_severe, entry.severity.words) == (True, text)


@pytest.mark.parametrize(
    "text",
    [
        *("Could not breathe", "not breathing", "unable to swallow", "stopped breathing"),
        *("can't breathe", "Was not able to breathe", "couldn\u2019t swallow", "cannot breathe"),
    ],
)
def test_who_cannot_breathe_or_swallow_has_a_severe_allergy(text):
    (entry,) = entries_of([allergy("a", note=[{"text": text}])])
    assert (entry.is_severe, entry.severity.words) == (True, text)


@pytest.mark.parametrize(
    "text",
    ["not short of breath", "breathing normally", "patient breathing", "Cannot swallow tablets"],
)
def test_who_breathes_or_swallows_has_no_severe_allergy_by_these_words(text):
    (entry,) = entries_of([allergy("a", note=[{"text": text}])])
    assert not entry.is_severe


def test_an_itchy_throat_keeps_its_own_severity():
    reaction = {"manifestation": [coded(text="itchy throat")]}
    for severity in ("mild", "moderate", "severe"):
        (entry,) = entries_of([allergy("a", reaction=[{**reaction, "severity": severity}])])
        assert entry.is_severe == (severity == "severe")
        assert entry.reactions[0].severity == severity


def in_words(severity: str) -> dict[str, Any]:
    """Return an allergy whose reaction has a severity in these words alone."""
    original = {"url": "http://hl7.org/fhir/StructureDefinition/originalText"}
    extension = [{**original, "valueString": severity}]
    reaction = {"manifestation": [coded(text="Rash")], "_severity": {"extension": extension}}
    return allergy("a", reaction=[reaction])


@pytest.mark.parametrize(
    "words",
    [
        "Dangerous",
        "Emergency",
        "Life threatening",
        "Deadly",
        "Lebensgefährlich",
        "Gefährlich",
        "Notfall",
        "dangereux",
        "Peligroso",
        "pericoloso",
        "Livsfarlig",
    ],
)
def test_a_severity_whose_words_tell_of_danger_is_severe_and_recorded(words):
    (entry,) = entries_of([in_words(words)])
    assert entry.severity == Severity(is_severe=True, words=words, is_recorded=True)
    text = conclusion_of([entry]).text
    assert "free text describes it as severe" in text
    assert "not recorded" not in text


@pytest.mark.parametrize(
    "words", ["Not dangerous", "ungefährlich", "nicht gefährlich", "Grade X", "++"]
)
def test_a_severity_in_words_that_are_not_graded_is_recorded_in_words(words):
    (entry,) = entries_of([in_words(words)])
    assert entry.severity == Severity(False, "", is_recorded=True, is_unclear=True)
    assert conclusion_of([entry]).text.endswith("Severity recorded in words only: read the entry.")
    text = conclusion_of(entries_of([in_words(words), in_words(words), allergy("b")])).text
    assert text.endswith(
        "Severity not recorded for 1 of them. Severity recorded in words only for 2 of them: read"
        " the entries."
    )


def test_a_severity_in_words_is_shown_beside_its_reaction():
    original = {"url": "http://hl7.org/fhir/StructureDefinition/originalText", "valueString": "++"}
    reaction = {"manifestation": [coded(text="Rash")], "_severity": {"extension": [original]}}
    (entry,) = entries_of([allergy("a", reaction=[reaction])])
    assert [
        (reaction.text, reaction.severity, reaction.severity_text) for reaction in entry.reactions
    ] == [("Rash", "", "++")]
    assert not entry.is_severe


def test_an_extension_is_a_severity_only_where_it_belongs():
    original = {
        "url": "http://hl7.org/fhir/StructureDefinition/originalText",
        "valueString": "Dangerous",
    }
    own = {"url": "urn:fhirapp:severity-text", "valueString": "Dangerous"}
    rash = {"manifestation": [coded(text="Rash")]}
    for reaction, is_severe in (
        ({"_severity": {"extension": [original]}}, True),
        ({"extension": [own]}, True),
        ({"extension": [original]}, False),
        ({"extension": [original, own]}, True),
        ({"_onset": {"extension": [original]}}, False),
    ):
        (entry,) = entries_of([allergy("a", reaction=[{**rash, **reaction}])])
        assert entry.is_severe == is_severe
        assert entry.severity.is_recorded == is_severe
        assert entry.reactions[0].severity_text == ("Dangerous" if is_severe else "")


@pytest.mark.parametrize(
    ("resources", "text"),
    [
        (
            [allergy("a", **SEVERE)],
            (
                "1 active or unresolved allergy or intolerance; it is recorded as severe, as"
                " anaphylaxis or with high criticality."
            ),
        ),
        (
            [allergy("a")],
            (
                "1 active or unresolved allergy or intolerance; it is not recorded as severe, as"
                " anaphylaxis or with high criticality. Severity not recorded."
            ),
        ),
        (
            [allergy("a"), allergy("b", criticality="unable-to-assess"), allergy("c", **SEVERE)],
            (
                "3 active or unresolved allergies or intolerances; 1 of them is recorded as"
                " severe, as anaphylaxis or with high criticality. Severity not recorded for"
                " 2 of them."
            ),
        ),
        (
            [allergy("a", criticality="low"), allergy("b", criticality="low")],
            (
                "2 active or unresolved allergies or intolerances; none of them is recorded as"
                " severe, as anaphylaxis or with high criticality."
            ),
        ),
        (
            [allergy(NKA, **REFUTED)],
            (
                "No active or unresolved allergy is recorded. This does not mean that there are"
                " none."
            ),
        ),
    ],
)
def test_an_unrecorded_severity_is_not_shown_as_harmless(resources, text):
    assert conclusion_of(entries_of(resources)).text == text


@pytest.mark.parametrize(
    ("code", "names"),
    [
        (coded((SNOMED, "735029006", "Shellfish"), text="Mariscos"), ["Shellfish"]),
        (coded((RXNORM, "723", "amoxicillin"), text="Aspirin"), ["amoxicillin"]),
        (coded((SNOMED, "1", "Latex (substance)"), text="LATEX"), []),
        (coded((SNOMED, "764146007")), []),
        (coded((SNOMED, "764146007"), (RXNORM, "7980")), ["RxNorm 7980"]),
        (coded((SNOMED, "764146007", "764146007")), []),
        (coded((SNOMED, "764146007"), text="Penicillin"), []),
        (coded(text="Penicillin"), []),
        (NO_INFORMATION, []),
    ],
)
def test_a_code_is_named_where_the_words_differ_from_it(code, names):
    (entry,) = entries_of([allergy(code)])
    assert entry.coded_as == names


@pytest.mark.parametrize(
    ("coding", "name"),
    [
        ((SNOMED, "764146007"), "SNOMED CT 764146007"),
        ((RXNORM, "7980"), "RxNorm 7980"),
        (("http://www.whocc.no/atc", "J01CE02"), "ATC J01CE02"),
        (("http://hl7.org/fhir/ndfrt", "N0000007070"), "NDF-RT N0000007070"),
        (("urn:oid:1.2.3", "815"), "urn:oid:1.2.3 815"),
        (("", "815"), "code 815"),
        # A display that is only the code again.
        ((RXNORM, "7980", "7980"), "RxNorm 7980"),
        # A code that is a word.
        (("urn:x", "PENICILLIN"), "PENICILLIN"),
    ],
)
def test_a_code_without_a_name_is_shown_with_its_system(coding, name):
    reaction = [{"manifestation": [coded(coding)]}]
    (entry,) = entries_of([allergy(coded(coding), reaction=reaction)])
    assert (entry.substance, entry.reactions[0].text) == (name, name)


@pytest.mark.parametrize(
    "text", ["None", "nil known", "Denies any", "Not on file", "No penicillin"]
)
def test_an_allergy_that_reads_like_none_stays_an_allergy_to_be_checked(text):
    (entry,) = entries_of([allergy(text)])
    assert entry.group.code == "active"
    assert codes(allergy(text)) == ["entry-unclear"]
    assert codes(allergy("Noscapine")) == []


@pytest.mark.parametrize(
    ("age", "words"),
    [
        ({"value": 5, "unit": "a"}, "at the age of 5 years"),
        ({"value": 18, "code": "mo"}, "at the age of 18 months"),
        ({"value": 3, "unit": "years", "code": "a"}, "at the age of 3 years"),
        ({"value": 3, "unit": "summers"}, "at the age of 3 summers"),
    ],
)
def test_an_age_is_in_common_words(age, words):
    (entry,) = entries_of([allergy("a", onsetAge=age)])
    assert entry.onset == words


def test_comments_and_other_details_are_shown():
    note = [{"text": "Side effect,\nno allergy."}, {"authorString": "x"}]
    (entry,) = entries_of([allergy("Morphine", type="intolerance", note=note)])
    assert (entry.type, entry.comments) == ("intolerance", ["Side effect, no allergy."])
