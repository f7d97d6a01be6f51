"""How severe the allergies of a summary are, and their names, ages and comments.

Groups and contradictions are tested in test_summary.py.
"""

from __future__ import annotations

from typing import Any

from fhirapp.clinical.contradictions import findings_of
from fhirapp.clinical.severity import Severity
from fhirapp.clinical.summary import conclusion_of, entries_of
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


def test_anaphylaxis_is_severe_though_no_severity_is_recorded(subtests):
    for manifestation, is_severe in [
        (coded(text="Anaphylaxis (disorder)"), True),
        (coded((SNOMED, "39579001")), True),
        (coded((SNOMED, "1", "Anaphylactic shock")), True),
        (coded(text="Schock, anaphylaktischer"), True),
        (coded(text="Choque anafiláctico"), True),
        (coded(text="No anaphylaxis"), False),
        (coded(text="Anaphylactoid reaction"), True),
        (coded(text="Rash"), False),
    ]:
        with subtests.test(manifestation=manifestation):
            (entry,) = entries_of([allergy("a", reaction=[{"manifestation": [manifestation]}])])
            assert (entry.is_severe, entry.group.code) == (
                is_severe,
                "active-severe" if is_severe else "active",
            )


ICD_10, ICD_9 = "http://hl7.org/fhir/sid/icd-10-cm", "http://hl7.org/fhir/sid/icd-9-cm"


def test_allergy_that_any_code_or_word_calls_severe_is_severe(subtests):
    for elements, words in [
        # By codes.
        ({"reaction": [{"manifestation": [coded((SNOMED, "41291007"))]}]}, ""),
        ({"reaction": [{"manifestation": [coded((ICD_10, "T78.2XXA"))]}]}, ""),
        ({"reaction": [{"manifestation": [coded((ICD_10, "T7805XA"))]}]}, ""),
        ({"reaction": [{"manifestation": [coded((ICD_9, "995.0"))]}]}, ""),
        ({"code": coded((ICD_10, "T88.6XXA"))}, ""),
        # By words: of a reaction, a local code, the substance, a note.
        ({"reaction": [{"manifestation": [coded(text="Angioedema of lips")]}]},
         "Angioedema of lips"),
        ({"reaction": [{"manifestation": [coded(text="Angiodema")]}]}, "Angiodema"),
        ({"reaction": [{"manifestation": [coded(text="anaphlaxis")]}]}, "anaphlaxis"),
        ({"reaction": [{"manifestation": [coded(("urn:x", "ANAPHYLAXIS"))]}]}, "ANAPHYLAXIS"),
        ({"reaction": [{"manifestation": [coded(text="Rash")], "description": "throat closed"}]},
         "throat closed"),
        ({"code": coded(text="Penicillin (severe reaction)")}, "Penicillin (severe reaction)"),
        ({"note": [{"text": "Needed a tube in the airway"}]}, "Needed a tube in the airway"),
        # Denied of one thing, and not of the other.
        ({"note": [{"text": "No rash, but anaphylaxis"}]}, "No rash, but anaphylaxis"),
        ({"extension": [{"url": "http://x/allergy-severity", "valueString": "Severe"}]}, "Severe"),
    ]:  # fmt: skip
        with subtests.test(elements=elements):
            (entry,) = entries_of([{**allergy("a"), **elements}])
            assert (entry.is_severe, entry.severity.words) == (True, words)


HARMLESS = [
    # Denied, or a similar word.
    *("No anaphylaxis", "Rash; denies throat swelling", "Anaphylaxis: no", "not severe"),
    *("anaphylaxis was ruled out", "non-anaphylactic", "sore throat", "analgesics", "persevered"),
    "Angiotensin converting enzyme inhibitor",
    # A throat that only itches or is treated.
    *("Throat lozenges", "Throat spray", "numbing throat lozenges", "itchy throat"),
    *("Itching of the throat", "throat itching", "Throat: itchy", "scratchy, itchy throat"),
    *("Sore throat", "dry mouth and throat", "throat irritation", "Strep throat culture"),
    *("burning throat", "Itchy throat, no swelling", "itchy throat; denies difficulty breathing"),
    "No throat tightness",
    # A throat in another language needs more than its name.
    *("Kratzen im Hals", "Halstabletten", "Hals", "gorge irritée", "picor de garganta"),
    *("keine Schwellung im Hals", "sans gonflement de la gorge", "sin edema de glotis"),
    *("sore throat, not short of breath", "scratchy throat; lips not swollen"),
    *("dry throat. No trouble swallowing.", "itchy throat, no epinephrine given"),
    "throat discomfort - no intubation",
    # Breathing and swallowing.
    *("not short of breath", "breathing normally", "patient breathing", "Cannot swallow tablets"),
]
DANGEROUS = [
    # A throat that swells, tightens or closes.
    *("throat", "throat swelling", "Swelling of the throat", "throat tightness", "throat edema"),
    *("swelling of lips, tongue and throat", "tightening in her throat", "throat closing up"),
    *("Throat closed", "Oedema of throat", "throat constriction", "lump in throat"),
    *("itchy and swollen throat", "itchy throat, then closing", "dry mouth, throat"),
    *("itchy throat with trouble breathing", "sore throat and throat swelling"),
    *("Halsschwellung", "Schwellung im Hals", "Hals schwillt zu", "Kehlkopfödem"),
    *("Engegefühl im Hals", "Rachen zugeschwollen", "gonflement de la gorge", "gorge serrée"),
    *("œdème de Quincke", "hinchazón de garganta", "edema de glotis", "gola gonfia"),
    *("edema della glottide", "svullnad i halsen"),
    # A mild word, and what is not mild, in any part of the text.
    *("throat pain, could not breathe", "dry throat, not breathing"),
    *("scratchy throat; lips swelled", "throat discomfort - required intubation"),
    *("throat burning requiring epinephrine", "sore throat. Collapsed."),
    *("Itchy throat / given EpiPen", "lips swollen, later an itchy throat"),
    *("raw, itching throat: unable to swallow", "couldn't swallow, throat hurt"),
    "throat irritation, stopped breathing",
    # Breathing and swallowing.
    *("Could not breathe", "not breathing", "unable to swallow", "stopped breathing"),
    *("can't breathe", "Was not able to breathe", "couldn\u2019t swallow", "cannot breathe"),
]


def entries_with(text: str) -> dict[str, Any]:
    """Return an entry with a text as its note, its reaction, and its substance."""
    reaction = [{"manifestation": [coded(text=text)]}]
    resources = allergy("a", note=[{"text": text}]), allergy("a", reaction=reaction), allergy(text)
    places = ("note", "reaction", "substance")
    return dict(zip(places, map(entry_of, resources), strict=True))


def entry_of(resource: dict[str, Any]) -> Any:
    (entry,) = entries_of([resource])
    return entry


def test_harmless_words_are_not_severe():
    assert [
        (text, place)
        for text in HARMLESS
        for place, entry in entries_with(text).items()
        if entry.is_severe
    ] == []


def test_dangerous_words_of_a_note_or_reaction_are_severe():
    assert [
        (text, place)
        for text in DANGEROUS
        for place, entry in entries_with(text).items()
        if place != "substance" and (entry.is_severe, entry.severity.words) != (True, text)
    ] == []


def test_itchy_throat_keeps_its_own_severity():
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


def test_severity_in_words_of_danger_is_severe_and_recorded():
    texts = ["Dangerous", "Emergency", "Life threatening", "Deadly", "Lebensgefährlich", "Notfall"]
    texts += ["Gefährlich", "dangereux", "Peligroso", "pericoloso", "Livsfarlig"]
    for text in texts:
        entry = entry_of(in_words(text))
        assert entry.severity == Severity(is_severe=True, words=text, is_recorded=True)
        conclusion = conclusion_of([entry]).text
        assert "free text describes it as severe" in conclusion
        assert "not recorded" not in conclusion


def test_severity_in_other_words_is_recorded_in_words_only():
    for text in ("Not dangerous", "ungefährlich", "nicht gefährlich", "Grade X", "++"):
        entry = entry_of(in_words(text))
        assert entry.severity == Severity(False, "", is_recorded=True, is_unclear=True)
        assert conclusion_of([entry]).text.endswith(
            "Severity recorded in words only: read the entry."
        )
        resources = [in_words(text), in_words(text), allergy("b")]
        conclusion = conclusion_of(entries_of(resources)).text
        assert "Severity not recorded for 1 of them." in conclusion
        assert "Severity recorded in words only for 2 of them: read" in conclusion


def test_severity_in_words_is_shown_beside_its_reaction():
    entry = entry_of(in_words("++"))
    (reaction,) = entry.reactions
    assert (reaction.text, reaction.severity, reaction.severity_text) == ("Rash", "", "++")
    assert not entry.is_severe


def test_extension_is_a_severity_only_where_it_belongs():
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


def test_unrecorded_severity_is_not_shown_as_harmless(subtests):
    for resources, text in [
        ([allergy("a", **SEVERE)],
         ("1 active or unresolved allergy or intolerance; it is recorded as severe, as"
         " anaphylaxis or with high criticality.")),
        ([allergy("a")],
         ("1 active or unresolved allergy or intolerance; it is not recorded as severe, as"
         " anaphylaxis or with high criticality. Severity not recorded.")),
        ([allergy("a"), allergy("b", criticality="unable-to-assess"), allergy("c", **SEVERE)],
         ("3 active or unresolved allergies or intolerances; 1 of them is recorded as"
         " severe, as anaphylaxis or with high criticality. Severity not recorded for"
         " 2 of them.")),
        ([allergy("a", criticality="low"), allergy("b", criticality="low")],
         ("2 active or unresolved allergies or intolerances; none of them is recorded as"
         " severe, as anaphylaxis or with high criticality.")),
        ([allergy(NKA, **REFUTED)],
         ("No active or unresolved allergy is recorded. This does not mean that there are"
         " none.")),
    ]:  # fmt: skip
        with subtests.test(resources=resources):
            assert conclusion_of(entries_of(resources)).text == text


def test_code_is_named_where_the_words_differ_from_it(subtests):
    for code, names in [
        (coded((SNOMED, "735029006", "Shellfish"), text="Mariscos"), ["Shellfish"]),
        (coded((RXNORM, "723", "amoxicillin"), text="Aspirin"), ["amoxicillin"]),
        (coded((SNOMED, "1", "Latex (substance)"), text="LATEX"), []),
        (coded((SNOMED, "764146007")), []),
        (coded((SNOMED, "764146007"), (RXNORM, "7980")), ["RxNorm 7980"]),
        (coded((SNOMED, "764146007", "764146007")), []),
        (coded((SNOMED, "764146007"), text="Penicillin"), []),
        (coded(text="Penicillin"), []),
        (NO_INFORMATION, []),
    ]:
        with subtests.test(code=code):
            (entry,) = entries_of([allergy(code)])
            assert entry.coded_as == names


def test_code_without_a_name_is_shown_with_its_system(subtests):
    for coding, name in [
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
    ]:
        with subtests.test(coding=coding):
            reaction = [{"manifestation": [coded(coding)]}]
            (entry,) = entries_of([allergy(coded(coding), reaction=reaction)])
            assert (entry.substance, entry.reactions[0].text) == (name, name)


def test_allergy_that_reads_like_none_stays_an_allergy_to_be_checked(subtests):
    for text in ["None", "nil known", "Denies any", "Not on file", "No penicillin"]:
        with subtests.test(text=text):
            (entry,) = entries_of([allergy(text)])
            assert entry.group.code == "active"
            assert codes(allergy(text)) == ["entry-unclear"]
            assert codes(allergy("Noscapine")) == []


def test_age_is_in_common_words(subtests):
    for age, words in [
        ({"value": 5, "unit": "a"}, "at the age of 5 years"),
        ({"value": 18, "code": "mo"}, "at the age of 18 months"),
        ({"value": 3, "unit": "years", "code": "a"}, "at the age of 3 years"),
        ({"value": 3, "unit": "summers"}, "at the age of 3 summers"),
    ]:
        with subtests.test(age=age):
            (entry,) = entries_of([allergy("a", onsetAge=age)])
            assert entry.onset == words


def test_comments_and_other_details_are_shown():
    note = [{"text": "Side effect,\nno allergy."}, {"authorString": "x"}]
    (entry,) = entries_of([allergy("Morphine", type="intolerance", note=note)])
    assert (entry.type, entry.comments) == ("intolerance", ["Side effect, no allergy."])
