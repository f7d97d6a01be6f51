"""Rare shapes of C-CDA allergies: what is read, what the API says of it, and what a chart shows.

Each shape was seen in a real document. The documents here are small ones of the tests' own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from flask import Flask

from fhirapp.allergies.summary import conclusion_of, entries_of
from fhirapp.auth.models import CLINICIAN
from fhirapp.definition import types
from fhirapp.fhir import terminology
from fhirapp.store.prepare import prepare
from tests.support.browsing import Browser, add_person
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
from tests.support.us_core import all_faults, packages_in

ANY = "419199007"
HEAD = "<thead><tr><th>Allergen</th><th>Reaction</th><th>Severity</th><th>Status</th></tr></thead>"


def table(*rows: str) -> str:
    return f"<table>{HEAD}<tbody>{''.join(rows)}</tbody></table>"


def row(name: str, reaction: str = "", severity: str = "", status: str = "", of: str = "r") -> str:
    cells = f'<td ID="{of}s">{name}</td><td ID="{of}r">{reaction}</td>'
    return f'<tr ID="{of}">{cells}<td>{severity}</td><td>{status}</td></tr>'


def reacting(value: str = '<value xsi:type="CD" nullFlavor="UNK"/>', content: str = "") -> str:
    return inner("ASSERTION", f"{content}{value}", "MFST")


def severity(value: str) -> str:
    return inner("SEV", value)


def said(display: str, code: str = "", system: str = "1.2.3") -> str:
    """Return a coded value of a system of somebody's own."""
    coded = f' code="{code}" codeSystem="{system}"' if code else ' nullFlavor="OTH"'
    return f'<value xsi:type="CD"{coded}><originalText>{display}</originalText></value>'


class Shape(NamedTuple):
    """A document, and what it comes to: the entries as group and words, what is concluded."""

    document: str
    entries: list[tuple[str, str]]
    conclusion: str
    chart: tuple[str, ...]


ALLERGY = "allergies"
CONCERN_ENDED = '<statusCode code="completed"/>'
LINK = '<text><reference value="#r"/></text>'
ENDS_IN_2099 = '<effectiveTime><low value="2010"/><high value="20991231"/></effectiveTime>'
SHAPES = {
    "a completed concern has not ended its allergy": Shape(
        document_with(
            observation(DRUG + substance(LATEX)),
            concern=CONCERN_ENDED,
            text=table(row("Latex", "Hives", "Mild", "Active")),
        ),
        [("active", "Latex")],
        ALLERGY,
        ("Latex", "Hives (mild)", "active, confirmed"),
    ),
    "a completed concern has not ended that none is known": Shape(
        document_with(
            observation(snomed(ANY) + substance('<code nullFlavor="NA"/>'), ' negationInd="true"'),
            concern=CONCERN_ENDED,
        ),
        [("none-known", "No known allergy")],
        "none-known",
        ("Recorded: no known allergies.",),
    ),
    "an end that has not come has not ended an allergy": Shape(
        document_with(
            observation(ENDS_IN_2099 + DRUG + substance(LATEX) + severity(snomed("24484000"))),
            concern=CONCERN_ENDED,
        ),
        [("active-severe", "Latex")],
        ALLERGY,
        ("active, confirmed", "end given as 2099-12-31, after the date of the document"),
    ),
    "an end that is not known ends nothing where the row says that it is active": Shape(
        document_with(
            observation(
                '<effectiveTime><low nullFlavor="UNK"/><high nullFlavor="UNK"/></effectiveTime>'
                + LINK
                + DRUG
                + substance(LATEX)
                + reacting(snomed("39579001"))
            ),
            concern=CONCERN_ENDED,
            text=table(row("Latex", "Anafilaxia", "GRAVE", "ATIVO")),
        ),
        [("active-severe", "Latex")],
        ALLERGY,
        ("active, confirmed", "Status also recorded in the document: end not known"),
    ),
    "a status in the words of another language counts against a code": Shape(
        document_with(
            observation(LINK + DRUG + substance(LATEX) + inner("33999-4", snomed("73425007"))),
            text=table(row("Latex", "", "", "aktiv")),
        ),
        [("active", "Latex")],
        ALLERGY,
        ("active, confirmed", "Status also recorded in the document: inactive"),
    ),
    "the graver of two statuses counts and the other is shown": Shape(
        document_with(
            observation(DRUG + substance(LATEX) + inner("33999-4", snomed("413322009"))),
            text=table(row("Latex", "", "", "Active")),
        ),
        [("active", "Latex")],
        ALLERGY,
        ("active, confirmed", "Status also recorded in the document: resolved"),
    ),
    "a name beside a placeholder": Shape(
        document_with(
            observation(DRUG + uncoded(text="Coded Allergy Name Not Available", name="LATEX STRAP"))
        ),
        [("active", "LATEX STRAP")],
        ALLERGY,
        ("LATEX STRAP",),
    ),
    "two placeholders are not one substance": Shape(
        document_with(
            observation(DRUG + uncoded(text="Coded Allergy Name Not Available")),
            observation(DRUG + uncoded(text="Coded Allergy Name Not Available") + reacting(RASH)),
        ),
        [("active", "Coded Allergy Name Not Available")] * 2,
        ALLERGY,
        ("2 active or unresolved allergies or intolerances",),
    ),
    "a link into the reaction's column names no substance": Shape(
        document_with(
            observation(DRUG + uncoded(link="rr", name="BEE VENOM")),
            text=table(row("Bee venom", "Hives", "", "Active")),
        ),
        [("active", "BEE VENOM")],
        ALLERGY,
        ("BEE VENOM", "Hives (severity not recorded)"),
    ),
    "a link into the reaction's column without another name takes the substance's cell": Shape(
        document_with(
            observation(DRUG + uncoded(link="rr")),
            text=table(row("Penicillin", "Hives", "", "Active")),
        ),
        [("active", "Penicillin")],
        ALLERGY,
        ("Penicillin", "Hives (severity not recorded)"),
    ),
    "all names are kept": Shape(
        document_with(
            observation(
                DRUG + substance(f"{PENICILLIN[:-2]}><originalText>PCN VK</originalText></code>")
            ),
            text=table(row("Veetids", "Hives")),
        ),
        [("words-only", "Veetids, Hives"), ("active", "PCN VK")],
        ALLERGY,
        ("PCN VK coded as Penicillin G", "A document states: “Veetids, Hives”"),
    ),
    "a reaction in words alone": Shape(
        document_with(
            observation(
                DRUG
                + substance(LATEX)
                + reacting(content='<text>Anaphylaxis<reference value="#rr"/></text>')
            ),
            text=table(row("Latex", "Anaphylaxis")),
        ),
        [("active-severe", "Latex")],
        ALLERGY,
        ("free text describes it as severe", "Latex described as “Anaphylaxis”", "Anaphylaxis ("),
    ),
    "a misspelled reaction": Shape(
        document_with(observation(DRUG + substance(LATEX) + reacting(said("Anaphalaxis shock")))),
        [("active-severe", "Latex")],
        ALLERGY,
        ("described as “Anaphalaxis shock”",),
    ),
    "a reaction that the narrative alone holds": Shape(
        document_with(
            observation(DRUG + substance(LATEX)), text=table(row("Latex", "Swelling of throat"))
        ),
        [("active-severe", "Latex")],
        ALLERGY,
        ("described as “Swelling of throat”",),
    ),
    "the allergy's own severity beside a milder reaction": Shape(
        document_with(
            observation(
                DRUG
                + substance(LATEX)
                + reacting(RASH + severity(snomed("255604002")))
                + severity(snomed("371924009"))
            )
        ),
        [("active-severe", "Latex")],
        ALLERGY,
        ("Latex severe reaction", "Severity of the allergy as a whole (severe)", "(mild)"),
    ),
    "a severity as a local code": Shape(
        document_with(observation(DRUG + substance(LATEX) + severity(said("", "H")))),
        [("active-severe", "Latex")],
        ALLERGY,
        ("Latex severe reaction", "(severe, “H”)"),
    ),
    "a severity in words alone": Shape(
        document_with(observation(DRUG + substance(LATEX) + severity(said("Severe")))),
        [("active-severe", "Latex")],
        ALLERGY,
        ("Latex severe reaction",),
    ),
    "a severity in words that nobody knows": Shape(
        document_with(observation(DRUG + substance(LATEX) + severity(said("Grade X")))),
        [("active", "Latex")],
        ALLERGY,
        ("Unknown (“Grade X”)",),
    ),
    "not asked is no allergy, whatever stands beside it": Shape(
        document_with(
            observation(
                DRUG
                + '<effectiveTime><low value="2010"/></effectiveTime>'
                + substance('<code nullFlavor="NI"/>')
                + severity(snomed("24484000")),
                ' nullFlavor="NASK"',
            )
        ),
        [("not-asked", "not asked")],
        "not-asked",
        ("Recorded: patient not asked about allergies.", "Severity recorded in the"),
    ),
    "no information is no allergy": Shape(
        document_with(
            observation(DRUG + substance('<code nullFlavor="UNK"/>'), ' nullFlavor="NI"')
        ),
        [("no-information", "NoInformation")],
        "no-information",
        ("Recorded: no information about allergies.",),
    ),
    "a nullFlavor does not hide what is named": Shape(
        document_with(observation(DRUG + substance(LATEX), ' nullFlavor="NI"')),
        [("active", "Latex")],
        ALLERGY,
        ("Latex",),
    ),
    "no allergy to any substance": Shape(
        document_with(
            observation(
                snomed(ANY)
                + substance('<code code="105590001" codeSystem="2.16.840.1.113883.6.96"/>'),
                ' negationInd="true"',
            )
        ),
        [("none-known", "No known allergy")],
        "none-known",
        ("Recorded: no known allergies.",),
    ),
    "no allergy to any drug": Shape(
        document_with(
            observation(
                snomed(ANY)
                + substance('<code code="410942007" codeSystem="2.16.840.1.113883.6.96"/>'),
                ' negationInd="true"',
            )
        ),
        [("none-known", "No known drug allergy")],
        "none-known-in-part",
        ("o known drug allergies", "Nothing is recorded about other allergies."),
    ),
    "none known as a name beside a null code": Shape(
        document_with(
            observation(snomed(ANY) + uncoded(name="No Known Allergies"), ' negationInd="true"')
        ),
        [("none-known", "No Known Allergies")],
        "none-known",
        ("Recorded: no known allergies.",),
    ),
    "no known drug allergy is not made wider by a name": Shape(
        document_with(observation(DRUG + uncoded(name="No Known Allergies"))),
        [("none-known", "No Known Allergies")],
        "none-known-in-part",
        ("o known drug allergies", "Nothing is recorded about other allergies."),
    ),
    "a narrative without entries": Shape(
        document_with(text="<paragraph>Penicillin: anaphylaxis, severe</paragraph>"),
        [("words-only", "Penicillin: anaphylaxis, severe")],
        "words-only",
        (
            "A document states: “Penicillin: anaphylaxis, severe”",
            "described as “Penicillin: anaphylaxis, severe”",
        ),
    ),
    "a narrative that only says that none is known": Shape(
        document_with(text="<list><item>No Known Allergies</item></list>"),
        [("none-known", "No Known Allergies")],
        "none-known",
        ("Recorded: no known allergies.",),
    ),
    "a narrative beside an entry that says nothing": Shape(
        document_with(
            observation(substance('<code nullFlavor="NI"/>'), ' nullFlavor="NI"'),
            text="Bee stings: throat closes",
        ),
        [("words-only", "Bee stings: throat closes"), ("no-information", "NoInformation")],
        "words-only",
        ("A document states: “Bee stings: throat closes”",),
    ),
    "a remark on the record beside that none is known": Shape(
        document_with(
            observation(snomed(ANY) + uncoded(name="No Known Allergies"), ' negationInd="true"'),
            text="<paragraph>No Known Allergies</paragraph>"
            "<footnote>documented as of this encounter (statuses as of 03/15/2016)</footnote>",
        ),
        [("none-known", "No Known Allergies")],
        "none-known",
        ("Recorded: no known allergies.",),
    ),
    "words beside that none is known": Shape(
        document_with(
            observation(snomed(ANY) + uncoded(name="No Known Allergies"), ' negationInd="true"'),
            text="<paragraph>Penicillin made her lips swell</paragraph>",
        ),
        [("words-only", "Penicillin made her lips swell"), ("none-known", "No Known Allergies")],
        "words-only",
        (
            "A document states: “Penicillin made her lips swell”",
            "is still active alongside Penicillin made her lips swell",
        ),
    ),
    "a title above the heads of the columns": Shape(
        document_with(
            observation(DRUG + substance(LATEX)),
            text=table(row("Latex", "Hives")).replace(
                "<thead>", "<thead><tr><th>Allergies</th></tr>"
            ),
        ),
        [("active", "Latex")],
        ALLERGY,
        ("Hives (severity not recorded)",),
    ),
    "a row that no entry stands for": Shape(
        document_with(
            observation(DRUG + substance(LATEX)),
            text=table(row("Latex", "Hives"), row("Sulfa", "Throat swelling", of="b")),
        ),
        [("words-only", "Sulfa, Throat swelling"), ("active", "Latex")],
        ALLERGY,
        ("A document states: “Sulfa, Throat swelling”",),
    ),
    "a head of columns alone says nothing": Shape(
        document_with(text=table()), [], "nothing-recorded", ("No allergy entries are recorded.",)
    ),
    "an observation in an organizer": Shape(
        document_with(
            "<organizer><component>"
            + observation(DRUG + substance(LATEX) + reacting(RASH + severity(snomed("24484000"))))
            + "</component></organizer>"
        ),
        [("active-severe", "Latex")],
        ALLERGY,
        ("Latex severe reaction",),
    ),
    "a subsection": Shape(
        document_with().replace(
            "</section>",
            "<component><section><title>Food</title><text>Peanut</text><entry>"
            + observation(DRUG + substance(LATEX))
            + "</entry></section></component></section>",
        ),
        [("words-only", "Peanut"), ("active", "Latex")],
        ALLERGY,
        ("Latex", "A document states: “Peanut”"),
    ),
    "a reaction of the concern": Shape(
        document_with(
            observation(DRUG + substance(LATEX)),
            concern='<statusCode code="active"/>' + reacting(said("Swelling of the airway")),
        ),
        [("active-severe", "Latex")],
        ALLERGY,
        ("described as “Swelling of the airway”",),
    ),
    "several participants are several allergies": Shape(
        document_with(
            observation(
                DRUG + substance(LATEX) + substance(PENICILLIN) + reacting(said("Anaphylaxis"))
            )
        ),
        [("active-severe", "Latex"), ("active-severe", "Penicillin G")],
        ALLERGY,
        ("Free text describes 2 of them as severe.",),
    ),
    "a reaction that did not occur": Shape(
        document_with(
            observation(
                DRUG
                + substance(LATEX)
                + reacting(said("Anaphylaxis")).replace(
                    'moodCode="EVN"', 'moodCode="EVN" negationInd="true"'
                )
            )
        ),
        [("active", "Latex")],
        ALLERGY,
        ("Recorded as absent: no Anaphylaxis",),
    ),
    "an observation without template and participant": Shape(
        document_with(
            f'<observation classCode="OBS" moodCode="EVN">{said("Allergic to wasps, severely")}'
            "</observation>"
        ),
        [("active-severe", "Allergic to wasps, severely")],
        ALLERGY,
        ("described as “Allergic to wasps, severely”",),
    ),
    "an entry that cannot be read": Shape(
        document_with(
            '<procedure classCode="PROC" moodCode="EVN"><text>Allergic to wasps, severely</text>'
            "</procedure>"
        ),
        [("words-only", "Allergic to wasps, severely")],
        "words-only",
        ("A document states: “Allergic to wasps, severely”",),
    ),
}


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app in which tests import documents."""
    return make_app()


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_read_as_written(name):
    shape = SHAPES[name]
    entries = entries_of(of_type(read(shape.document), "AllergyIntolerance"))
    assert [(one.group.code, one.substance) for one in entries] == shape.entries
    assert conclusion_of(entries).code == shape.conclusion


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_shown_by_api_and_chart(name, clinic, tmp_path: Path):
    shape, number = SHAPES[name], list(SHAPES).index(name)
    document = of_patient(shape.document, f"S{number}")
    report = load(clinic, write(tmp_path, document.encode(), "document.xml"))
    assert report.rejected == []
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    (patient,) = fhir.ids(f"Patient?identifier=MRN-S{number}")
    answer = fhir.read(f"AllergyIntolerance/$summary?patient={patient}")
    assert value_of(answer, "conclusion", "code") == shape.conclusion
    assert len(fhir.ids(f"AllergyIntolerance?patient={patient}")) == len(shape.entries)
    page = Browser(clinic).resume(add_person(clinic, CLINICIAN)).get(f"/patients/{patient}")
    for words in shape.chart:
        assert words in page.words


def test_each_shape_conforms_to_r4_and_us_core(app, shared):
    packages = packages_in(shared)
    definition = types(app)["AllergyIntolerance"]
    for name, shape in SHAPES.items():
        for found in of_type(read(shape.document), "AllergyIntolerance"):
            source = {**prepare(definition, found).columns, "id": found["id"], "version_id": 1}
            served = definition.schema.dump({**source, "last_updated": "2024-01-01T00:00:00Z"})
            assert (name, all_faults(served, packages)) == (name, [])


def of_patient(document: str, number: str) -> str:
    """Return a document as another one, of another patient."""
    without_ssn = document.replace('<id extension="561-45-6780" root="2.16.840.1.113883.4.1"/>', "")
    other = without_ssn.replace("MRN-40081", f"MRN-{number}")
    return other.replace('<id root="11d1cf2a', f'<id extension="{number}" root="11d1cf2a')


def value_of(answer: dict[str, Any], name: str, part: str) -> str:
    (found,) = [one for one in answer["parameter"] if one["name"] == name]
    (value,) = [one for one in found["part"] if one["name"] == part]
    return str(value["valueCode"])


def test_two_placeholders_are_not_recorded_more_than_once():
    from fhirapp.allergies.contradictions import findings_of

    document = SHAPES["two placeholders are not one substance"].document
    assert findings_of(entries_of(of_type(read(document), "AllergyIntolerance"))) == []


def test_texts_are_not_doubled():
    text = '<text>Hives<reference value="#rr"/></text>'
    document = document_with(
        observation(DRUG + substance(LATEX) + reacting(content=text)),
        text=table(row("Latex", "Hives")),
    )
    (found,) = of_type(read(document), "AllergyIntolerance")
    assert found["reaction"] == [
        {
            "manifestation": [
                {
                    "coding": [
                        {"system": terminology.NULL_FLAVOR, "code": "UNK", "display": "unknown"}
                    ],
                    "text": "Hives",
                }
            ]
        }
    ]


def test_all_names_of_one_substance_are_searched(clinic, tmp_path: Path):
    coded = f"{PENICILLIN[:-2]}><originalText>PCN VK</originalText></code><name>Pen-Vee K</name>"
    document = document_with(observation(DRUG + substance(coded)))
    (found,) = of_type(read(document), "AllergyIntolerance")
    assert found["code"]["text"] == "PCN VK"
    assert [one["display"] for one in found["code"]["coding"]] == ["Penicillin G", "Pen-Vee K"]
    load(clinic, write(tmp_path, of_patient(document, "N").encode(), "names.xml"))
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    assert len(fhir.ids("AllergyIntolerance?code:text=pen-vee")) == 1


@pytest.mark.parametrize("null_flavor", ["NI", "NASK", "ASKU"])
def test_an_empty_section_says_why_it_is_empty(null_flavor):
    document = document_with().replace("<section>", f'<section nullFlavor="{null_flavor}">')
    entries = entries_of(of_type(read(document), "AllergyIntolerance"))
    expected = {"NI": "nothing-recorded", "NASK": "not-asked", "ASKU": "no-information"}
    assert conclusion_of(entries).code == expected[null_flavor]


def test_a_longer_narrative_is_kept_whole():
    rows = [row(f"Substance {number}", "Hives " * 20, of=f"x{number}") for number in range(100)]
    found = of_type(read(document_with(text=table(*rows))), "AllergyIntolerance")
    words = " ".join(one["code"]["text"] for one in found)
    assert all(f"Substance {number}," in words for number in range(100))
    assert all(len(one["code"]["text"]) <= 4_000 for one in found)


@pytest.mark.parametrize("entries", [(), (observation(substance('<code nullFlavor="NI"/>')),)])
def test_the_end_of_a_long_paragraph_is_kept(entries):
    text = f"<paragraph>{'Seen at the desk. ' * 400}Wasps closed her throat</paragraph>"
    found = of_type(read(document_with(*entries, text=text)), "AllergyIntolerance")
    words = [one["code"].get("text", "") for one in found]
    assert all(len(one) <= 4_000 for one in words)
    assert " ".join(words).count("Seen at the desk.") == 400
    assert any(one.is_severe for one in entries_of(found))


def test_the_import_names_sections_whose_words_no_entry_holds(clinic, tmp_path: Path):
    document = SHAPES["a narrative without entries"].document
    report = load(clinic, write(tmp_path, of_patient(document, "W").encode(), "words.xml"))
    what = "its Allergies section contains text that no coded entry covers; "
    what += "it is kept as document text"
    assert list(report.remarks) == [f"{tmp_path}/words.xml: {what}"]


def test_an_allergy_keeps_its_id_though_its_name_is_read_otherwise():
    """Importing the same document again makes a new version, not a second allergy."""
    plain = document_with(observation(DRUG + uncoded(link="rr", name="BEE VENOM")))
    linked = document_with(
        observation(DRUG + uncoded(link="rr", name="BEE VENOM")),
        text=table(row("Bee venom", "Hives")),
    )
    ids = [of_type(read(one), "AllergyIntolerance")[0]["id"] for one in (plain, linked)]
    assert len(set(ids)) == 2
