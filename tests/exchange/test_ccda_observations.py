"""The values of observations in an allergy: each counts, and what an observation really is."""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.allergies.severity import severity_of
from fhirapp.allergies.summary import entries_of
from tests.support.ccda_allergies import (
    DRUG,
    LATEX,
    allergy_of,
    code_of,
    inner,
    snomed,
    substance,
)

HIVES = '<value xsi:type="CD" code="247472004" codeSystem="2.16.840.1.113883.6.96"'
HIVES += ' displayName="Hives"/>'
ANAPHYLAXIS = '<value xsi:type="CD" code="39579001" codeSystem="2.16.840.1.113883.6.96"'
ANAPHYLAXIS += ' displayName="Anaphylaxis"/>'
MILD, SEVERE = snomed("255604002"), snomed("24484000")
REACTION_TEMPLATE = '<templateId root="2.16.840.1.113883.10.20.22.4.9"/>'
LOCAL = "1.2.840.99999.1"


def words(text: str) -> str:
    """Return a value whose code is another's, in words."""
    return f'<value xsi:type="CD" nullFlavor="OTH"><originalText>{text}</originalText></value>'


def plain(text: str) -> str:
    return f'<value xsi:type="ST">{text}</value>'


def latex(*inside: str, value: str = DRUG, **others: str) -> dict[str, Any]:
    """Return the allergy of a document to latex, with what is in its observation."""
    return allergy_of(value + substance(LATEX) + "".join(inside), **others)


def manifestations(allergy: dict[str, Any]) -> list[list[str]]:
    """Return the names of the manifestations of each reaction."""
    return [
        [one.get("text") or one["coding"][0]["display"] for one in reaction["manifestation"]]
        for reaction in allergy["reaction"]
    ]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (HIVES + ANAPHYLAXIS, ["Hives", "Anaphylaxis"]),
        (ANAPHYLAXIS + HIVES, ["Anaphylaxis", "Hives"]),
        (HIVES + words("throat closing up"), ["Hives", "throat closing up"]),
        (plain("Ausschlag") + plain("Atemnot"), ["Ausschlag", "Atemnot"]),
        ('<value xsi:type="CD" nullFlavor="UNK"/>' + ANAPHYLAXIS, ["Anaphylaxis"]),
        (HIVES + '<value xsi:type="CD" nullFlavor="UNK"/>', ["Hives"]),
        (HIVES + plain("Vomiting") + ANAPHYLAXIS, ["Hives", "Vomiting", "Anaphylaxis"]),
    ],
)
def test_each_value_of_a_reaction_is_a_manifestation(values, named):
    allergy = latex(inner("ASSERTION", values, "MFST"))
    assert manifestations(allergy) == [named]
    assert severity_of(allergy).is_severe == bool({"Anaphylaxis", "throat closing up"} & {*named})


def test_a_reaction_of_the_concern_has_each_of_its_values():
    concern = '<statusCode code="active"/>' + inner("ASSERTION", HIVES + ANAPHYLAXIS, "MFST")
    assert manifestations(latex(concern=concern)) == [["Hives", "Anaphylaxis"]]


def test_a_negated_reaction_names_each_of_its_values():
    reaction = inner("ASSERTION", HIVES + ANAPHYLAXIS, "MFST")
    allergy = latex(reaction.replace("<observation ", '<observation negationInd="true" '))
    assert "reaction" not in allergy
    assert allergy["note"] == [{"text": "Recorded as absent: no Hives, Anaphylaxis"}]


@pytest.mark.parametrize(
    ("values", "severity"),
    [
        (MILD + SEVERE, "severe"),
        (SEVERE + MILD, "severe"),
        (MILD + words("life threatening"), "severe"),
        (plain("mild") + plain("moderate"), "moderate"),
        (f'<value xsi:type="CD" code="L" codeSystem="{LOCAL}"/>' + plain("severe"), "severe"),
    ],
)
def test_the_gravest_value_of_a_severity_counts(values, severity):
    nested = inner("ASSERTION", HIVES + inner("SEV", values), "MFST")
    for allergy in (latex(inner("SEV", values)), latex(nested)):
        assert [reaction["severity"] for reaction in allergy["reaction"]] == [severity]


def test_the_words_of_a_second_severity_are_kept():
    allergy = latex(inner("SEV", MILD + words("Grade X")))
    assert "Grade X" in str(allergy["reaction"])


def test_the_gravest_value_of_a_criticality_counts():
    low, high = (
        f'<value xsi:type="CD" code="{code}" codeSystem="2.16.840.1.113883.5.1063"/>'
        for code in ("CRITL", "CRITH")
    )
    for values in (low + high, high + low, low + plain("high")):
        assert latex(inner("82606-5", values))["criticality"] == "high"


def test_the_gravest_value_of_a_status_counts_and_the_other_is_noted():
    active, resolved = snomed("55561003"), snomed("413322009")
    for values in (active + resolved, resolved + active, resolved + plain("Active")):
        allergy = latex(inner("33999-4", values))
        assert code_of(allergy["clinicalStatus"]) == "active"
        assert "resolved" in str(allergy["note"])


def test_each_value_of_an_allergy_counts():
    food = snomed("414285001")
    assert latex(value=DRUG + food)["category"] == ["medication", "food"]
    intolerance = snomed("59037007")
    assert latex(value=intolerance + DRUG)["type"] == "allergy"
    # A value that names the substance, after one that only says of what kind it is.
    penicillin = snomed("91936005").replace("/>", ' displayName="Allergy to penicillin"/>')
    assert allergy_of(DRUG + penicillin)["code"]["text"] == "Allergy to penicillin"


def test_a_second_value_that_names_a_substance_is_never_none_known():
    none = plain("No known allergies")
    for values in (none + plain("Penicillin"), plain("Penicillin") + none):
        allergy = allergy_of(values)
        (entry,) = entries_of([allergy])
        assert (entry.is_allergy, entry.group.code) == (True, "active")
        assert "Penicillin" in str(allergy["code"])


@pytest.mark.parametrize(
    ("translation", "kept"),
    [
        ('<translation displayName="Nesselsucht"/>', "Nesselsucht"),
        (
            "<translation><originalText>raised welts</originalText></translation>",
            "raised welts",
        ),
        (
            f'<translation code="R7" codeSystem="{LOCAL}" displayName="throat closing"/>',
            "throat closing",
        ),
    ],
)
def test_the_names_of_translations_are_kept(translation, kept):
    value = HIVES.replace("/>", f">{translation}</value>")
    assert kept in str(latex(inner("ASSERTION", value, "MFST"))["reaction"])


@pytest.mark.parametrize(
    "translation",
    [
        '<translation code="24484000" codeSystem="2.16.840.1.113883.6.96"/>',
        f'<translation code="H" codeSystem="{LOCAL}"/>',
        f'<translation code="X1" codeSystem="{LOCAL}" displayName="life threatening"/>',
        '<translation nullFlavor="OTH"><originalText>severe</originalText></translation>',
    ],
)
def test_a_translation_of_a_severity_counts(translation):
    value = f'<value xsi:type="CD" nullFlavor="OTH">{translation}</value>'
    assert [one["severity"] for one in latex(inner("SEV", value))["reaction"]] == ["severe"]


def test_each_code_of_a_substance_is_kept():
    other = '<code code="7980" codeSystem="2.16.840.1.113883.6.88" displayName="Penicillin G"/>'
    allergy = allergy_of(DRUG + substance(LATEX + other))
    assert [one["display"] for one in allergy["code"]["coding"]] == ["Latex", "Penicillin G"]


# What an observation is follows from its code, its template and its value, not from its relation.


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        (inner("SEV", MILD, "MFST"), "mild"),
        (inner("SEV", SEVERE, "MFST"), "severe"),
        (inner("SEV", words("Severe"), "MFST"), "severe"),
        # Not even a code says it, only the value.
        (inner("ASSERTION", SEVERE, "MFST"), "severe"),
        (inner("ASSERTION", plain("Moderate to severe"), "MFST"), "severe"),
        (
            inner(
                "ASSERTION",
                f'<value xsi:type="CD" code="3" codeSystem="{LOCAL}" displayName="Mild"/>',
                "MFST",
            ),
            "mild",
        ),
        (inner("SEV", REACTION_TEMPLATE + MILD), "mild"),
    ],
)
def test_a_severity_that_is_typed_as_a_manifestation_is_no_reaction(severity, expected):
    allergy = latex(inner("ASSERTION", REACTION_TEMPLATE + HIVES), severity)
    assert manifestations(allergy) == [["Hives"]]
    assert [reaction["severity"] for reaction in allergy["reaction"]] == [expected]


@pytest.mark.parametrize("code", ["82606-5", "33999-4"])
def test_another_detail_that_is_typed_as_a_manifestation_is_no_reaction(code):
    value = snomed("55561003") if code == "33999-4" else plain("high")
    allergy = latex(inner("ASSERTION", HIVES, "MFST"), inner(code, value, "MFST"))
    assert manifestations(allergy) == [["Hives"]]


@pytest.mark.parametrize("value", [plain("Severe headache"), plain("Mild rash"), words("fatal")])
def test_a_reaction_whose_words_also_grade_it_stays_a_reaction(value):
    assert len(latex(inner("ASSERTION", value, "MFST"))["reaction"]) == 1


def table(reactions: str, severities: str = "") -> str:
    """Return a narrative whose only row has these cells."""
    return (
        "<table><thead><tr><th>Allergen</th><th>Reaction</th><th>Severity</th></tr></thead>"
        f'<tbody><tr ID="r1"><td>Latex</td><td>{reactions}</td><td>{severities}</td></tr></tbody>'
        "</table>"
    )


ROW = '<text><reference value="#r1"/></text>'


@pytest.mark.parametrize(
    "cell",
    [
        "Hives<br/>Wheezing",
        "<content>Hives</content><br/><content>Wheezing</content>",
        "<list><item>Hives</item><item>Wheezing</item></list>",
        "<paragraph>Hives</paragraph><paragraph>Wheezing</paragraph>",
        "Hives<br/>\n<br/>  Wheezing<br/>",
        "- Hives<br/>- Wheezing",
    ],
)
def test_each_line_of_a_cell_is_a_reaction(cell):
    allergy = latex(ROW, text=table(cell))
    assert manifestations(allergy) == [["Hives"], ["Wheezing"]]


def test_lines_that_entries_hold_are_not_repeated():
    nested = inner("ASSERTION", HIVES + inner("SEV", SEVERE), "MFST")
    other = inner("ASSERTION", plain("Tremor") + inner("SEV", snomed("6736007")), "MFST")
    text = table("Hives<br/>Tremor", "Severe<br/>Moderate")
    allergy = latex(ROW, nested, other, text=text)
    assert manifestations(allergy) == [["Hives"], ["Tremor"]]
    assert [reaction["severity"] for reaction in allergy["reaction"]] == ["severe", "moderate"]
    assert "note" not in allergy


def test_a_line_that_no_entry_holds_becomes_a_reaction():
    nested = inner("ASSERTION", HIVES, "MFST")
    allergy = latex(ROW, nested, text=table("Hives<br/>throat closing", "Severe"))
    assert manifestations(allergy) == [["Hives"], ["throat closing"]]
    assert {reaction["severity"] for reaction in allergy["reaction"]} == {"severe"}


def test_a_line_break_within_a_reaction_is_no_second_one():
    value = plain("Ventricular tachycardia")
    allergy = latex(
        ROW, inner("ASSERTION", value, "MFST"), text=table("Ventricular<br/>tachycardia")
    )
    assert manifestations(allergy) == [["Ventricular tachycardia"]]


def test_the_code_of_a_reaction_stays_beside_the_words_of_the_narrative():
    coded = '<value xsi:type="CD" code="T78.2XXA" codeSystem="2.16.840.1.113883.6.90"/>'
    allergy = latex(ROW, inner("ASSERTION", coded, "MFST"), text=table("collapsed"))
    (reaction,) = allergy["reaction"]
    assert reaction["manifestation"][0]["coding"][0]["code"] == "T78.2XXA"
    assert reaction["description"] == "collapsed"
    assert severity_of(allergy).is_severe
