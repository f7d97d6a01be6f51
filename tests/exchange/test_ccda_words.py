"""Words of an Allergies section: kept beside its entries, never taken for more than they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fhirapp.allergies.contradictions import findings_of
from fhirapp.allergies.summary import Entry, conclusion_of, entries_of
from fhirapp.exchange.ccda import resources_of
from fhirapp.exchange.ccda.headings import is_heading, is_title_of_allergies, says_more
from tests.support.ccda_allergies import (
    DRUG,
    LATEX,
    document_with,
    inner,
    observation,
    snomed,
    substance,
)
from tests.support.ccda_reactions import PENICILLIN, RASH, uncoded
from tests.support.ccda_samples import of_type, read
from tests.support.helpers import Fhir, token_for
from tests.support.importing import load, write

NEGATED = ' negationInd="true"'
ANY = snomed("419199007")
NA = substance('<code nullFlavor="NA"/>')
ROW = '<text><reference value="#r"/></text>'
KEPT_AS_NOTES = "text in its Allergies section beside the coded entries was added to them as notes"
KEPT = "its Allergies section contains text that no coded entry covers; it is kept as document text"


def table(heads: str, *rows: str, more: str = "") -> str:
    """Return a table; heads and rows have their cells between bars. The first row is r."""
    head = "".join(f"<th>{words.strip()}</th>" for words in heads.split("|"))
    body = ""
    for number, row in enumerate(rows):
        cells = "".join(f"<td>{words.strip()}</td>" for words in row.split("|"))
        body += f"<tr>{cells}</tr>" if number else f'<tr ID="r">{cells}</tr>'
    thead = f"<thead><tr>{head}</tr></thead>" if heads else ""
    return f"<table>{more}{thead}<tbody>{body}</tbody></table>"


def entries(document: str) -> list[Entry]:
    return list(entries_of(of_type(read(document), "AllergyIntolerance")))


def latex(text: str, *others: str) -> list[Entry]:
    """Return the entries of a section with an allergy to latex, linked to row r, and a text."""
    return entries(document_with(observation(DRUG + ROW + substance(LATEX)), *others, text=text))


def remarks(document: str) -> list[str]:
    found: list[str] = []
    resources_of(document.encode(), "sample", found.append)
    return found


def groups(found: list[Entry]) -> list[tuple[str, str]]:
    return [(entry.group.code, entry.substance) for entry in found]


LATEX_TABLE = table("Allergen | Reaction", "Latex | Hives")


# Words beside the entries.


@pytest.mark.parametrize(
    "text",
    [
        f"{LATEX_TABLE}<paragraph>Also allergic to wasps: her throat closed</paragraph>",
        f"<paragraph>Also allergic to wasps: her throat closed</paragraph>{LATEX_TABLE}",
        f"{LATEX_TABLE}Also allergic to wasps: her throat closed",
        f"{LATEX_TABLE}<content>Also allergic to wasps: her throat closed</content>",
        f"{LATEX_TABLE}<footnote>Also allergic to wasps: her throat closed</footnote>",
        f"{LATEX_TABLE}<list><item>Also allergic to wasps: her throat closed</item></list>",
        table(
            "Allergen | Reaction",
            "Latex | Hives",
            more="<caption>Also allergic to wasps: her throat closed</caption>",
        ),
        LATEX_TABLE.replace(
            "<thead>",
            '<thead><tr><th colspan="2">Also allergic to wasps: her throat closed</th></tr>',
        ),
    ],
)
def test_a_text_about_something_else_is_an_entry_of_its_own(text):
    words, allergy = latex(text)
    assert words.group.code == "words-only"
    assert words.substance == "Also allergic to wasps: her throat closed"
    assert words.is_severe
    assert allergy.substance == "Latex"
    document = document_with(observation(DRUG + ROW + substance(LATEX)), text=text)
    assert remarks(document) == [KEPT]


@pytest.mark.parametrize("title", ["Allergies: wasps", "Allergien - Penicillinallergie", "NKDA"])
def test_a_title_that_says_something_is_kept(title):
    document = document_with().replace("<text>", f"<title>{title}</title><text>")
    (found,) = entries(document)
    assert found.substance == title


@pytest.mark.parametrize(
    "text",
    [
        table(
            "Allergen | Reaction",
            "Latex | Hives",
            more="<caption>Anaphylaxis to latex 2011</caption>",
        ),
        f"{LATEX_TABLE}<paragraph>Anaphylaxis to latex 2011</paragraph>",
        f"{LATEX_TABLE}<footnote>Anaphylaxis to latex 2011</footnote>",
    ],
)
def test_a_text_about_one_entry_is_a_note_on_it(text):
    (allergy,) = latex(text)
    assert allergy.comments == ["The document says in words: Anaphylaxis to latex 2011"]
    assert allergy.group.code == "active-severe"
    document = document_with(observation(DRUG + ROW + substance(LATEX)), text=text)
    assert remarks(document) == [KEPT_AS_NOTES]


@pytest.mark.parametrize(
    "words", ["Latex, and peanuts too", "Not latex but wasps", "Latex; Wespen", "Latex et noix"]
)
def test_a_text_that_may_name_another_allergy_is_no_note(words):
    found = latex(f"{LATEX_TABLE}<paragraph>{words}</paragraph>")
    assert groups(found) == [("words-only", words), ("active", "Latex")]


def test_a_text_about_an_entry_that_is_over_is_an_entry_of_its_own():
    over = inner("33999-4", snomed("413322009"))
    document = document_with(
        observation(DRUG + ROW + substance(LATEX) + over),
        text=f"{LATEX_TABLE}<paragraph>Anaphylaxis to latex last week</paragraph>",
    )
    found = entries(document)
    assert groups(found) == [("words-only", "Anaphylaxis to latex last week"), ("past", "Latex")]


def test_a_text_about_two_entries_is_an_entry_of_its_own():
    other = observation(DRUG + substance(PENICILLIN))
    rows = table("Allergen | Reaction", "Latex | Hives", "Penicillin G | Rash")
    found = latex(f"{rows}<paragraph>Latex worse than Penicillin G</paragraph>", other)
    assert found[0].substance == "Latex worse than Penicillin G"


@pytest.mark.parametrize(
    ("head", "cell", "is_severe"),
    [
        ("Risk", "LIFE-THREATENING - carries adrenaline", True),
        ("Risiko", "lebensbedrohlich", True),
        ("Onset", "as a toddler", False),
        ("", "avoid gloves", False),
        ("Type", "Anaphylactic", True),
        ("Anaphylaxis", "Yes", True),
        ("Anaphylaxis", "No", False),
        ("Recorded by", "life threatening says the mother", True),
    ],
)
def test_a_cell_of_another_column_is_a_note(head, cell, is_severe):
    text = table(f"Allergen | Reaction | {head}", f"Latex | Hives | {cell}")
    (allergy,) = latex(text)
    said = f"{head}: {cell}" if head else cell
    assert allergy.comments == [f"The document says in words: {said}"]
    assert allergy.is_severe == is_severe
    assert KEPT_AS_NOTES in remarks(
        document_with(observation(DRUG + ROW + substance(LATEX)), text=text)
    )


@pytest.mark.parametrize(
    ("head", "cell"),
    [
        ("Noted date", "May 2010"),
        ("Onset", "05/11/2010"),
        ("Author", "Nora Quill"),
        ("Autor", "Nora Quill"),
        ("Datum", "Mai 2010"),
        ("Type", "Drug allergy"),
        ("Category", "Medication"),
        ("Code", "RxNorm: 7980"),
        ("Risk", "N/A"),
        ("Risk", "unknown"),
        ("Risk", ""),
        ("Also called", "LATEX"),
    ],
)
def test_a_cell_that_says_nothing_more_is_no_note(head, cell):
    (allergy,) = latex(table(f"Allergen | Reaction | {head}", f"Latex | Hives | {cell}"))
    assert list(allergy.comments) == []


@pytest.mark.parametrize(
    ("heads", "row"),
    [
        ("Description | Reaction", "Bee venom | Anaphylaxis"),
        ("Allergen | Reaction", "Bee venom | Anaphylaxis"),
        ("Date | Remarks", "2010 | Bee venom: anaphylaxis"),
        ("Year | Event", "2010 | Bee venom: anaphylaxis"),
    ],
)
def test_a_row_without_an_entry_is_kept(heads, row):
    found = entries(
        document_with(observation(DRUG + substance(LATEX)), text=table(heads, "Gloves | x", row))
    )
    words = ", ".join(map(str.strip, row.split("|")))
    assert words in [entry.substance for entry in found]


def test_a_row_that_only_has_the_name_of_an_entry_belongs_to_it():
    text = table("Allergen | Risk", "Latex | LIFE-THREATENING")
    (allergy,) = entries(document_with(observation(DRUG + substance(LATEX)), text=text))
    assert allergy.comments == ["The document says in words: Risk: LIFE-THREATENING"]


@pytest.mark.parametrize(
    "noise",
    [
        "<paragraph>Allergies</paragraph>",
        "<paragraph>Active allergies and intolerances</paragraph>",
        "<caption>Allergies, adverse reactions, alerts</caption>",
        "<paragraph>Allergien und Unverträglichkeiten</paragraph>",
        "<paragraph>Allergies connues</paragraph>",
        "<paragraph>Substance, Reaction, Severity</paragraph>",
        "<footnote>documented as of this encounter (statuses as of 03/15/2016)</footnote>",
        "<paragraph>Last reviewed on 3 May 2020 by Nora Quill, RN.</paragraph>",
        "<paragraph>No known allergies</paragraph>",
        "<paragraph>Keine bekannten Allergien</paragraph>",
        "<paragraph>Latex: hives</paragraph>",
        "<list><item>No known food allergies</item></list>",
        "This section includes Allergies on record with VA for the patient.",
    ],
)
def test_headings_and_remarks_on_the_record_are_no_entries(noise):
    (allergy,) = latex(f"{LATEX_TABLE}{noise}")
    assert allergy.substance == "Latex"
    assert list(allergy.comments) == []


def test_heads_of_columns_in_common_cells_are_no_row():
    (allergy,) = latex(
        "<table><tbody><tr><td>Substance</td><td>Reaction</td><td>Risk</td></tr>"
        '<tr ID="r"><td>Latex</td><td>Hives</td><td>airway</td></tr></tbody></table>'
    )
    assert [reaction.text for reaction in allergy.reactions] == ["Hives"]
    assert allergy.comments == ["The document says in words: Risk: airway"]


@pytest.mark.parametrize(
    ("words", "heading"),
    [
        ("Drug Allergies", True),
        ("Alergias y reacciones adversas", True),
        ("Allergieën", True),
        ("Reviewed by Dr. Jane A. Roe MD on 01/02/2020", True),
        ("Penicillinallergie", False),
        ("Allergic to all drugs", False),
        ("All drugs", False),
        ("Known allergies present", False),
        ("Severe reactions", False),
        ("Penicillin rash documented 2009", False),
        ("Reaction caused by Penicillin", False),
        ("No food", False),
    ],
)
def test_a_heading_has_no_other_words(words, heading):
    assert is_heading(words) == heading


# Sections of allergies.


def section(head: str, text: str = "<list><item>Penicillin</item></list>") -> str:
    return document_with().replace(
        '<section><code code="48765-2"/><text></text></section>',
        f"<section>{head}<text>{text}</text></section>",
    )


@pytest.mark.parametrize("code", ["48765-2", "10155-0", "11382-9", "52473-6"])
def test_a_section_is_known_by_its_code(code):
    document = section(f'<code code="{code}" codeSystem="2.16.840.1.113883.6.1"/>')
    assert groups(entries(document)) == [("words-only", "Penicillin")]
    assert remarks(document) == [KEPT]


TITLES = (
    *("Allergies", "ALLERGIES, ADVERSE REACTIONS, ALERTS", "Drug allergies", "Allergies to drugs"),
    *("Allergien", "Allergien und Unverträglichkeiten", "Arzneimittelallergien"),
    *("Allergies et intolérances", "Allergies médicamenteuses", "Hypersensibilités"),
    *("Alergias", "Alergias e intolerancias", "Reacciones adversas", "Allergie e intolleranze"),
    *("Reazioni avverse", "Alergias e reações adversas", "Allergieën", "Overgevoeligheden"),
)


@pytest.mark.parametrize("title", TITLES)
@pytest.mark.parametrize("code", ["", '<code code="ALL" codeSystem="1.2.3"/>'])
def test_a_section_is_known_by_its_title(title, code):
    document = section(f"{code}<title>{title}</title>")
    assert groups(entries(document)) == [("words-only", "Penicillin")]
    what = (
        f"its section “{title}” is treated as an Allergies section because of its title; "
        "its code is not recognised"
    )
    assert remarks(document) == [what, KEPT]


@pytest.mark.parametrize(
    "title",
    [
        "Medical history and allergies",
        "Family history of allergies",
        "Allergy medications",
        "Allergietests",
        "Latex allergy",
    ],
)
def test_a_section_that_may_have_allergies_is_named(title):
    document = section(f"<title>{title}</title>")
    assert entries(document) == []
    what = f"its section “{title}” is not read: its code is not that of a section of allergies"
    assert remarks(document) == [what]


def test_allergies_of_relatives_are_not_the_patients():
    family = (
        '<code code="10157-6"/><title>Family history</title><text/><component><section>'
        "<title>Allergies</title><text>Mother: peanut</text></section></component>"
    )
    document = section(family).replace("<text><list><item>Penicillin</item></list></text>", "")
    assert entries(document) == []


def test_a_title_of_allergies_in_another_language_is_no_statement():
    assert not says_more("Allergiat ja yliherkkyydet")
    assert not is_title_of_allergies("Allergy tests")


# Denials whose words name something.


@pytest.mark.parametrize(
    ("heads", "row", "name"),
    [
        ("Allergen | Reaction | Severity | Status", "Penicillin V | Rash | Severe | Active", "P"),
        ("Allergen | Status", "Penicillin V | Active", "P"),
        ("Group Description | Code | Status", "ALLERGIC RHINITIS | J30.9 | Active", "ALLERGIC RH"),
        ("Type | Comments", "Drug | Swollen lips after amoxicillin", "Swollen lips"),
        ("", "Penicillin V | Rash", "Penicillin V, Rash"),
        ("Medication | Date", "Penicillin V | 2010", "P"),
    ],
)
@pytest.mark.parametrize("value", [ANY, DRUG, snomed("59037007"), ""])
def test_a_denial_whose_row_names_something_is_an_allergy_to_be_checked(heads, row, name, value):
    text = table(heads, row)
    document = document_with(observation(value + ROW + NA, NEGATED), text=text)
    (found,) = entries(document)
    assert found.substance.startswith(name)
    assert found.is_allergy
    assert found.verification_status == "unconfirmed"
    assert found.clinical_status == "active"
    assert "The document contradicts itself" in found.comments[0]
    if "59037007" not in value and value:
        assert [one.code for one in findings_of([found])] == ["entry-unclear"]
        assert found.coded_as == ["No known drug allergy" if value is DRUG else "No known allergy"]


def test_no_code_says_that_none_is_known_where_the_row_names_something():
    text = table("Allergen | Status", "Penicillin V | Active")
    document = document_with(observation(ANY + ROW + NA, NEGATED), text=text)
    (found,) = of_type(read(document), "AllergyIntolerance")
    assert found["code"] == {"coding": [{"display": "No known allergy"}], "text": "Penicillin V"}


def test_a_denial_beside_a_severe_reaction_keeps_its_criticality():
    text = table("Allergen | Status", "Penicillin V | Active")
    critical = inner("82606-5", '<value xsi:type="CD" code="CRITH"/>')
    document = document_with(observation(DRUG + ROW + NA + critical, NEGATED), text=text)
    (found,) = entries(document)
    assert found.criticality == "high"
    assert found.group.code == "active-severe"


@pytest.mark.parametrize(
    ("heads", "row"),
    [
        ("Allergen | Status", "No known allergies | Active"),
        ("Allergen | Status", "None | Active"),
        ("Allergen | Status", "Aucune allergie connue | Active"),
        ("Allergen | Type", "Keine | Drug"),
        ("Allergen | Status", "| Active"),
        ("", "No known allergies | Active"),
        ("", "Allergies: denies any"),
        ("", "Drug allergy | Active | 2010"),
        ("Type | Status", "Propensity to adverse reactions | Active"),
    ],
)
def test_a_denial_whose_row_denies_too_is_none_known(heads, row):
    document = document_with(observation(ANY + ROW + NA, NEGATED), text=table(heads, row))
    (found,) = entries(document)
    assert found.group.code == "none-known"
    assert findings_of([found]) == []


def test_a_denial_of_a_substance_is_refuted_as_before():
    text = table("Allergen | Status", "Latex | Active")
    document = document_with(observation(DRUG + ROW + substance(LATEX), NEGATED), text=text)
    (found,) = entries(document)
    assert found.group.code == "refuted"


# None known.


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("<paragraph>No known allergies</paragraph>", "716186003"),
        ("<paragraph>NKDA</paragraph>", "409137002"),
        ("<list><item>No known food allergies</item></list>", "429625007"),
        ("No known environmental allergies", "428607008"),
        ("<paragraph>Allergies: NKA</paragraph>", "716186003"),
        ("<paragraph>Allergies</paragraph><paragraph>No known allergies</paragraph>", "716186003"),
        ("<paragraph>Keine bekannten Allergien</paragraph>", "716186003"),
        ("<paragraph>Aucune allergie médicamenteuse connue</paragraph>", "409137002"),
        ("<table><tbody><tr><td>Sin alergias conocidas</td></tr></tbody></table>", "716186003"),
    ],
)
def test_a_narrative_that_only_says_that_none_is_known_is_coded_so(text, code):
    (found,) = of_type(read(document_with(text=text)), "AllergyIntolerance")
    assert [one["code"] for one in found["code"]["coding"]] == [code]
    assert found["verificationStatus"]["coding"][0]["code"] == "confirmed"
    assert "note" not in found
    assert remarks(document_with(text=text)) == []


def test_a_narrative_may_deny_several_kinds():
    text = "<list><item>No known drug allergies</item><item>No known food allergies</item></list>"
    found = entries(document_with(text=text))
    assert conclusion_of(found).code == "none-known-in-part"
    assert {entry.assertion.about.value for entry in found} == {"medication", "food"}


@pytest.mark.parametrize(
    "text",
    [
        "<paragraph>No known allergies except latex</paragraph>",
        "<paragraph>No known allergies</paragraph><paragraph>Latex: hives</paragraph>",
        "<paragraph>Denies allergies to penicillin</paragraph>",
        "<paragraph>None</paragraph>",
    ],
)
def test_a_narrative_that_says_more_stays_in_words(text):
    (found,) = entries(document_with(text=text))
    assert found.group.code == "words-only"


def test_searches_do_not_find_it_as_unconfirmed(make_app, tmp_path: Path):
    app = make_app()
    document = document_with(text="<paragraph>No known allergies</paragraph>")
    load(app, write(tmp_path, document.encode(), "document.xml"))
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    (patient,) = fhir.ids("Patient?identifier=MRN-40081")
    search = f"AllergyIntolerance?patient={patient}"
    assert fhir.ids(f"{search}&verification-status=unconfirmed") == []
    assert len(fhir.ids(f"{search}&code=http://snomed.info/sct|716186003")) == 1


@pytest.mark.parametrize(
    ("display", "text"),
    [
        ("Pas d'allergie connue", "Aucune allergie connue"),
        ("Keine bekannte Allergie", "Keine Allergien angegeben"),
        ("Alergias no conocidas", "Sin alergias referidas"),
        ("Nessuna allergia nota", "Nega allergie"),
        ("Sem alergias", "Nega alergias medicamentosas"),
        ("Geen bekende allergie", "Geen overgevoeligheden bekend"),
        ("Ingen kjent allergi", "Ingen allergi"),
        ("アレルギーなし", "なし"),
    ],
)
@pytest.mark.parametrize("code", ["160244002", "716186003"])
def test_a_code_that_none_is_known_counts_with_words_of_another_language(code, display, text):
    pointing = '<originalText><reference value="#r"/></originalText>'
    coded = f'<code code="{code}" codeSystem="2.16.840.1.113883.6.96" displayName="{display}"/>'
    content = f'{ROW}<value xsi:type="CD">{pointing}</value>' + substance(coded)
    paragraph = f'<paragraph ID="r">{text}</paragraph>'
    found = entries(document_with(observation(content), text=paragraph))
    assert [entry.group.code for entry in found] == ["none-known"]
    assert findings_of(found) == []


@pytest.mark.parametrize("name", ["Penicillin", "Non-steroidals", "Ei", "PAS", "Aucune sauf latex"])
def test_a_code_that_none_is_known_does_not_count_against_a_name(name):
    coded = f'<code code="716186003" codeSystem="2.16.840.1.113883.6.96"/><name>{name}</name>'
    found = entries(document_with(observation(DRUG + substance(coded))))
    assert [entry.group.code for entry in found] == ["active"]
    assert [one.code for one in findings_of(found)] == ["entry-unclear"]


# What is no allergy.

LABELS = ("Agent:", "Type:", "Allergy Start Date:")
VALUES = ("Codeine", "Drug intolerance", "03/15/2010")
CODEINE = (
    '<code code="2670" codeSystem="2.16.840.1.113883.6.88" displayName="codeine">'
    '<originalText><reference value="#n1"/></originalText></code>'
)


def labelled(*pairs: tuple[str, str], tag: str = "td") -> str:
    rows = "".join(
        f'<tr><{tag}>{label}</{tag}><td ID="n{number}">{value}</td></tr>'
        for number, (label, value) in enumerate(pairs, 1)
    )
    return f"<table><tbody>{rows}</tbody></table>"


@pytest.mark.parametrize(
    "text",
    [
        labelled(*zip(LABELS, VALUES, strict=True)),
        labelled(*zip(LABELS, VALUES, strict=True), tag="th"),
        labelled(("Allergen", "Codeine"), ("Category", "Drug"), ("Onset", "2010")),
        "<list>"
        + "".join(
            f'<item>{label} <content ID="n{number}">{value}</content></item>'
            for number, (label, value) in enumerate(zip(LABELS, VALUES, strict=True), 1)
        )
        + "</list>",
    ],
)
def test_labels_with_values_are_one_allergy(text):
    found = entries(document_with(observation(DRUG + substance(CODEINE)), text=text))
    assert groups(found) in ([("active", "Codeine")], [("active", "codeine")])
    assert list(found[0].comments) == []


def test_labels_with_values_tell_reaction_severity_and_more():
    text = labelled(
        *(("Agent", "Codeine"), ("Reaction", "Hives"), ("Severity", "Severe")),
        *(("Status", "Active"), ("Risk", "airway")),
        *(("Agent", "Bee venom"), ("Reaction", "Anaphylaxis")),
    )
    allergy, words = entries(document_with(observation(DRUG + substance(CODEINE)), text=text))
    assert words.substance == "Agent: Bee venom; Reaction: Anaphylaxis"
    assert allergy.substance in ("Codeine", "codeine")
    assert [(one.text, one.severity) for one in allergy.reactions] == [("Hives", "severe")]
    assert allergy.comments == ["The document says in words: Risk: airway"]


@pytest.mark.parametrize(
    "rows", [("Latex products | Hives", "Drug names | Rash"), ("Penicillin: | Hives", "Nuts: | x")]
)
def test_a_table_of_two_columns_is_no_list_of_labels(rows):
    (found,) = entries(document_with(text=table("", *rows)))
    assert all(", ".join(map(str.strip, one.split("|"))) in found.substance for one in rows)


def test_no_information_with_fillers_is_no_allergy():
    filler = inner("ASSERTION", snomed("183964008"), "MFST").replace(
        'moodCode="EVN"', 'moodCode="EVN" nullFlavor="NI"'
    )
    none = (
        '<code nullFlavor="NI"><originalText>No information about allergies</originalText></code>'
    )
    severe = inner("SEV", snomed("24484000"))
    document = document_with(
        observation(DRUG + substance(none) + filler + severe, ' nullFlavor="NI"')
    )
    (found,) = entries(document)
    assert found.group.code == "no-information"
    assert "Substance recorded in the document: No information about allergies" in found.comments
    # A reaction that is known makes an allergy of it, as does one of an entry that is known.
    for known in (
        document.replace(filler, inner("ASSERTION", RASH, "MFST")),
        document.replace(' nullFlavor="NI"><templateId', "><templateId"),
    ):
        assert [entry.group.code for entry in entries(known)] == ["active-severe"]


@pytest.mark.parametrize(
    "name",
    [
        *("NA", "N/A", "n.a.", "None", "Unknown", "-", "?", "???", ".", "nil", "Not applicable"),
        *("Unbekannt", "keine", "inconnu", "Ninguna", "Nessuna", "onbekend", "No information"),
        "Keine Angaben zu Allergien",
    ],
)
@pytest.mark.parametrize("null_flavor", ["NA", "UNK"])
def test_a_name_that_says_nothing_is_no_information(name, null_flavor):
    content = DRUG + '<effectiveTime><low value="2012"/></effectiveTime>' + ROW
    content += uncoded(link="r").replace("OTH", null_flavor)
    document = document_with(observation(content), text=f'<paragraph ID="r">{name}</paragraph>')
    (found,) = entries(document)
    assert found.group.code == "no-information"
    assert found.comments == [f"Substance recorded in the document: {name}"]


def test_a_coded_substance_wins_over_such_a_name():
    sodium = '<code code="39972003" codeSystem="2.16.840.1.113883.6.96" displayName="Na"/>'
    assert groups(entries(document_with(observation(DRUG + substance(sodium))))) == [
        ("active", "Na")
    ]


def test_such_a_name_with_a_reaction_is_an_allergy():
    content = DRUG + uncoded(text="Unknown") + inner("ASSERTION", RASH, "MFST")
    (found,) = entries(document_with(observation(content)))
    assert found.is_allergy
    assert found.group.code == "unconfirmed"


def test_the_import_reports_what_it_kept(make_app, tmp_path: Path):
    text = f"{LATEX_TABLE}<paragraph>Anaphylaxis to latex 2011</paragraph>Wasps: throat swelling"
    document = document_with(observation(DRUG + ROW + substance(LATEX)), text=text)
    place = write(tmp_path, document.encode(), "document.xml")
    report: Any = load(make_app(), place)
    assert list(report.remarks) == [f"{place}: {KEPT_AS_NOTES}", f"{place}: {KEPT}"]


# Words beside entries that deny or that say nothing.

NONE_KNOWN = observation(ANY + NA, NEGATED)
PENICILLIN_ENTRY = observation(DRUG + substance(PENICILLIN))


def paragraph(words: str) -> str:
    return f"<paragraph>{words}</paragraph>"


def items(*words: str) -> str:
    return f"<list>{''.join(f'<item>{item}</item>' for item in words)}</list>"


@pytest.mark.parametrize(
    "text",
    [
        *map(paragraph, ("No sulfa drugs", "No penicillin!", "Ohne Penicillin behandeln")),
        *map(paragraph, ("No known drug allergies, latex rash", "Pas de pénicilline")),
        *(items("Not tolerating codeine"), items("No latex", "No known allergies")),
        *(table("Allergen | Reaction", "No shellfish | "), table("Allergen", "無花果")),
    ],
)
def test_a_denial_that_names_a_substance_is_kept_beside_none_known(text):
    document = document_with(NONE_KNOWN, text=text)
    words = [entry for entry in entries(document) if entry.group.code == "words-only"]
    assert len(words) == 1
    assert KEPT in remarks(document)


@pytest.mark.parametrize(
    "text",
    [
        *map(paragraph, ("No known allergies", "Patient denies any drug allergies.", "NKDA")),
        *map(paragraph, ("Keine Allergien bekannt", "Allergies: no known allergies on file")),
        *(items("No known food allergies", "No drug allergies"), table("Allergen", "None known")),
        table("Allergen | Status", "No known allergies | Active"),
    ],
)
def test_a_denial_of_allergies_is_not_kept_beside_none_known(text):
    document = document_with(NONE_KNOWN, text=text)
    assert [entry.group.code for entry in entries(document)] == ["none-known"]
    assert remarks(document) == []


@pytest.mark.parametrize("cell", ["No penicillin", "Ohne Latex", "Keine Penicillinallergie"])
def test_a_denied_substance_in_the_row_of_none_known_is_shown(cell):
    document = document_with(
        observation(ANY + ROW + NA, NEGATED), text=table("Allergen | Reaction", f"{cell} | ")
    )
    assert [entry.group.code for entry in entries(document)] != ["none-known"]
    assert cell in str(read(document))


@pytest.mark.parametrize(
    "text",
    [
        *(items("Latex - reaction unknown"), items("Unknown antibiotic"), items("Food: unknown")),
        table("Allergen | Reaction", "Latex | Unknown"),
        table("Allergen | Reaction", "Shellfish, unknown | swelling"),
        paragraph("Allergic to an unknown sulfa drug"),
        paragraph("Latex not on file"),
    ],
)
def test_words_beside_unknown_are_kept(text):
    document = document_with(PENICILLIN_ENTRY, text=text)
    assert sorted(entry.group.code for entry in entries(document)) == ["active", "words-only"]
    assert remarks(document) == [KEPT]


@pytest.mark.parametrize(
    "text",
    [
        *map(paragraph, ("Unknown", "Other allergies: unknown", "No information on file.")),
        *(
            items("Not on file"),
            items("unknown"),
            table("Allergen | Reaction", "Unknown | unknown"),
        ),
    ],
)
def test_words_that_nothing_is_recorded_are_not_kept(text):
    document = document_with(PENICILLIN_ENTRY, text=text)
    assert [entry.group.code for entry in entries(document)] == ["active"]
    assert remarks(document) == []


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("words", ["No known allergies", "Keine Allergien bekannt", "NKDA"])
def test_none_known_in_another_section_does_not_contradict_an_entry(words, is_first):
    other = (
        f"<component><section><title>Allergies</title><text>{words}</text></section></component>"
    )
    document = document_with(PENICILLIN_ENTRY)
    start = document.index("<structuredBody>") + len("<structuredBody>")
    end = document.index("</structuredBody>")
    at = start if is_first else end
    document = document[:at] + other + document[at:]
    assert groups(entries(document)) == [("active", "Penicillin G")]
    # Alone, or beside an entry that says the same, it counts.
    denied = document.replace(PENICILLIN_ENTRY, NONE_KNOWN)
    assert {entry.group.code for entry in entries(denied)} == {"none-known"}


@pytest.mark.parametrize(
    "words",
    [
        "Tolerates Penicillin G. Reacts to Latex.",
        "Penicillin G and Latex",
        "No Penicillin G; bee stings: collapse",
    ],
)
def test_a_text_that_may_name_another_allergy_is_kept_beside_the_entry(words):
    document = document_with(PENICILLIN_ENTRY, text=paragraph(words))
    found = entries(document)
    assert sorted(groups(found)) == [("active", "Penicillin G"), ("words-only", words)]
    assert remarks(document) == [KEPT]


@pytest.mark.parametrize("words", ["Penicillin G causes a rash.", "Gets a rash from Penicillin G"])
def test_a_text_about_one_allergy_is_a_note_on_it(words):
    (found,) = entries(document_with(PENICILLIN_ENTRY, text=paragraph(words)))
    assert found.comments == [f"The document says in words: {words}"]


# Tables and lists: labels, heads and rows.


KINDS = [("Medications", "Penicillin G"), ("Foods", "Peanut - collapse"), ("Other", "Bee stings")]


@pytest.mark.parametrize(
    "text",
    [
        labelled(*KINDS),
        labelled(*KINDS, tag="th"),
        items(*(f"{kind}: {words}" for kind, words in KINDS)),
        items("Drug: Penicillin G", "Food: Peanut - collapse", "Environment: Bee stings"),
        items("Arzneimittel: Penicillin G", "Lebensmittel: Peanut", "Umwelt: Bee stings"),
        labelled(*KINDS[:2], ("Insects", "Bee stings")),
        items("Medikamente: Penicillin G", "Lebensmittelallergien: Peanut", "Umwelt: Bee stings"),
        items("Alimentos: Peanut", "Medicamentos: Penicillin G", "Drug: Bee stings"),
    ],
)
def test_each_kind_of_substance_in_a_list_of_labels_is_an_allergy(text):
    found = entries(document_with(PENICILLIN_ENTRY, text=text))
    words = [entry.substance for entry in found if entry.group.code == "words-only"]
    assert len(words) == 2
    assert all(any(name in text for text in words) for name in ("Peanut", "Bee stings"))
    (penicillin,) = (entry for entry in found if entry.group.code == "active")
    assert not any("Peanut" in note or "Bee" in note for note in penicillin.comments)


HEADS = "<tr><th>Allergen</th><th>Reaction</th></tr>"
IN_TH = "<tr><th>Penicillin</th><th>collapse</th></tr>"
IN_TD = IN_TH.replace("th>", "td>")


@pytest.mark.parametrize(
    "content",
    [
        f"<tbody>{IN_TH}</tbody>",
        f"<thead>{IN_TH}</thead>",
        f"<thead>{HEADS}{IN_TH}</thead>",
        f"<thead>{HEADS}{IN_TD}</thead><tbody/>",
        f"<thead>{HEADS}</thead><tbody>{IN_TH}</tbody>",
        f"<tbody>{HEADS}{IN_TH}</tbody>",
        f"<tbody>{HEADS}{IN_TD}</tbody>",
        "<tbody><tr><th>Penicillin: collapse</th></tr></tbody>",
        "<thead><tr><th>Penicillin collapse</th></tr></thead>",
    ],
)
@pytest.mark.parametrize("others", [(), (observation(DRUG + substance(LATEX)),)])
def test_a_row_of_data_is_read_wherever_it_is(content, others):
    found = entries(document_with(*others, text=f"<table>{content}</table>"))
    (words,) = (entry.substance for entry in found if entry.group.code == "words-only")
    assert "Penicillin" in words
    assert "collapse" in words


@pytest.mark.parametrize(
    "content",
    [
        f"<thead>{HEADS}</thead>",
        f"<thead><tr><th>Allergies</th></tr>{HEADS}</thead>",
        "<tbody><tr><th>Substance</th><th>Date spotted</th><th>Reaction</th></tr></tbody>",
        "<thead><tr><th>Substance</th><th>Date spotted</th><th>Doubt</th></tr></thead>",
    ],
)
def test_heads_alone_say_nothing(content):
    assert entries(document_with(text=f"<table>{content}</table>")) == []


@pytest.mark.parametrize("title", ["Allergies", "Alergias", "Allergien und Unverträglichkeiten"])
def test_a_title_behind_the_text_costs_nothing_but_its_section(title):
    other = "<component><section><code code='1' codeSystem='1.2.3'/><text>Penicillin</text>"
    other += f"<title>{title}</title></section></component>"
    document = document_with(PENICILLIN_ENTRY)
    document = document.replace("</structuredBody>", f"{other}</structuredBody>")
    assert groups(entries(document)) == [("active", "Penicillin G")]
    what = f"its section “{title}” is not read: its title must be before its text and entries"
    assert remarks(document) == [what]
