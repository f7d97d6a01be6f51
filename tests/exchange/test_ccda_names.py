"""What names the substance of an entry of a C-CDA: no kind, no code, no row of the narrative."""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.allergies.contradictions import findings_of
from fhirapp.allergies.summary import entries_of
from tests.support.ccda_allergies import (
    DRUG,
    allergy_of,
    document_with,
    observation,
    snomed,
    substance,
)
from tests.support.ccda_samples import of_type, read

RXNORM, SNOMED = "2.16.840.1.113883.6.88", "2.16.840.1.113883.6.96"
LOCAL = "1.2.840.99999.1"


def value(code: str, name: str, system: str = SNOMED) -> str:
    return f'<value xsi:type="CD" code="{code}" codeSystem="{system}" displayName="{name}"/>'


def code(code: str, name: str, system: str = RXNORM) -> str:
    return f'<code code="{code}" codeSystem="{system}" displayName="{name}"/>'


def names(allergy: dict[str, Any]) -> list[str]:
    """Return all names in the code of an allergy."""
    codings = allergy["code"].get("coding", ())
    return [allergy["code"].get("text", ""), *(one.get("display", "") for one in codings)]


@pytest.mark.parametrize(
    "kind",
    [
        value("282100009", "Adverse reaction to substance"),
        snomed("282100009"),
        value("281647001", "Adverse reaction"),
        value("A1", "Drug allergy", LOCAL),
        value("A1", "Allergie gegen Medikamente", LOCAL),
        value("Unknown", "Unknown", "2.16.840.1.113883.4.9"),
        '<value xsi:type="ST">Alergia a medicamentos</value>',
    ],
)
def test_a_value_that_says_of_what_kind_it_is_names_no_substance(kind):
    contents = (
        kind + substance(code(*drug)) for drug in (("70618", "Penicillin"), ("2", "Codein"))
    )
    first, second = of_type(read(document_with(*map(observation, contents))), "AllergyIntolerance")
    assert names(first) == ["Penicillin", "Penicillin"]
    assert names(second) == ["Codein", "Codein"]
    assert findings_of(entries_of([first, second])) == []


def test_a_value_that_says_of_what_kind_it_is_is_no_code_of_a_substance_without_one():
    kind = value("282100009", "Adverse reaction to substance")
    allergy = allergy_of(kind + substance('<code nullFlavor="OTH"/><name>Penicillin</name>'))
    assert "282100009" not in str(allergy["code"])
    assert allergy["code"]["text"] == "Penicillin"


def test_a_value_that_says_of_what_kind_it_is_is_kept_where_nothing_else_names_the_substance():
    kind = value("282100009", "Adverse reaction to substance")
    for content in (kind, kind + substance('<code nullFlavor="UNK"/>')):
        allergy = allergy_of(content)
        assert allergy["code"]["text"] == "Adverse reaction to substance"
        assert allergy["code"]["coding"][0]["code"] == "282100009"


def test_a_value_of_a_kind_with_a_code_of_a_substance_names_that():
    kind = value("282100009", "Adverse reaction to substance").replace(
        "/>",
        "><translation" + value("91936005", "Allergy to penicillin")[len("<value") :] + "</value>",
    )
    assert "Allergy to penicillin" in names(allergy_of(kind))


def test_the_name_and_the_code_of_two_substances_are_both_kept_and_a_finding():
    content = DRUG + substance(code("2670", "Codeine") + "<name>Aspirin</name>")
    (entry,) = entries_of([allergy_of(content)])
    assert (entry.substance, entry.coded_as) == ("Aspirin", ["Codeine"])
    (finding,) = findings_of([entry])
    assert finding.code == "entry-unclear"
    assert "“Aspirin” and “Codeine”" in finding.text


ATC = "2.16.840.1.113883.6.73"
TO_ROW = '<reference value="#r1"/>'


def row(*cells: str, heads: tuple[str, ...] = ()) -> str:
    """Return a narrative with one row of these cells."""
    head = "".join(f"<th>{name}</th>" for name in heads)
    body = "".join(f"<td>{cell}</td>" for cell in cells)
    return (
        f"<table>{f'<thead><tr>{head}</tr></thead>' if heads else ''}"
        f'<tbody><tr ID="r1">{body}</tr></tbody></table>'
    )


def named_by_row(*cells: str, heads: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return an allergy that only a link to a row names."""
    content = f'<code nullFlavor="UNK"><originalText>{TO_ROW}</originalText></code>'
    return allergy_of(DRUG + substance(content), text=row(*cells, heads=heads))


@pytest.mark.parametrize(
    ("cells", "heads", "name"),
    [
        (("IBUPROFENE", "15/10/2009", "Intolérance", "Modéré"), (), "IBUPROFENE"),
        (("15/10/2009", "Ibuprofen", "Mild"), (), "Ibuprofen"),
        (("J01CE02", "Benzylpenicillin", "Ausschlag"), (), "Benzylpenicillin"),
        (("Drug allergy", "Amoxicillin", "Hives"), (), "Amoxicillin"),
        (("Severe", "Peanut"), (), "Peanut"),
        (("2009", "Peanut", "Hives"), ("Onset", "Allergen", "Reaction"), "Peanut"),
        # No head names the substance.
        (("Hives", "Peanut"), ("Reaction", "What"), "Peanut"),
        (("Peanut",), (), "Peanut"),
    ],
)
def test_a_link_to_a_whole_row_names_its_substance(cells, heads, name):
    allergy = named_by_row(*cells, heads=heads)
    assert allergy["code"]["text"] == name
    # What else the row says stays, unless it has a place of its own.
    if not heads and len(cells) > 1:
        assert all(cell in str(allergy["note"]) for cell in cells)


def test_every_place_of_a_name_may_point_to_a_row():
    text = row("Peanut", "Hives", "2009")
    for content in (
        DRUG + substance(f'<code nullFlavor="OTH"/><name>{TO_ROW}</name>'),
        DRUG + substance(f'<code nullFlavor="OTH"/><desc>{TO_ROW}</desc>'),
        f'<value xsi:type="CD" nullFlavor="OTH"><originalText>{TO_ROW}</originalText></value>',
        DRUG.replace("/>", f"><originalText>{TO_ROW}</originalText></value>"),
    ):
        assert names(allergy_of(content, text=text))[0] == "Peanut"


def test_a_link_to_a_table_of_several_rows_names_nothing():
    table = '<table ID="r1"><tbody><tr><td>Peanut</td></tr><tr><td>Latex</td></tr></tbody></table>'
    content = f'<code code="7258" codeSystem="{RXNORM}" displayName="Naproxen">'
    content += f"<originalText>{TO_ROW}</originalText></code>"
    found = of_type(
        read(document_with(observation(DRUG + substance(content)), text=table)),
        "AllergyIntolerance",
    )
    assert found[0]["code"]["text"] == "Naproxen"
    assert {"Peanut", "Latex"} <= {one["code"]["text"] for one in found[1:]}


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (code("J01CE02", "J01CE02", ATC) + "<name>Penicillin</name>", "Penicillin"),
        (code("J01CE02", "Penicillin", ATC) + "<name>J01CE02</name>", "Penicillin"),
        (code("7980", "Penicillin G") + "<name>7980 Penicillin G</name>", "Penicillin G"),
        (code("7980", "7980 - Penicillin G"), "Penicillin G"),
        (code("7980", "Penicillin G (7980)"), "Penicillin G"),
        (code("7980", "Penicillin G") + "<name>J01CE01</name>", "Penicillin G"),
        # Figures that belong to a name.
        (code("1", "5-ASA"), "5-ASA"),
        (code("1", "Vitamin B12"), "Vitamin B12"),
        (code("81", "Aspirin 81 mg"), "Aspirin 81 mg"),
    ],
)
def test_a_code_is_no_name_where_there_is_another(content, text):
    assert allergy_of(DRUG + substance(content))["code"]["text"] == text


def test_a_code_alone_is_kept_as_a_code():
    allergy = allergy_of(DRUG + substance(code("J01CE02", "J01CE02", ATC)))
    assert "text" not in allergy["code"]
    (entry,) = entries_of([allergy])
    assert (entry.is_allergy, entry.substance) == (True, "ATC J01CE02")
    # No code of the entry: the words are all that there is.
    words = '<code nullFlavor="OTH"><originalText>J01CE02</originalText></code>'
    assert allergy_of(DRUG + substance(words))["code"]["text"] == "J01CE02"


@pytest.mark.parametrize(
    "content",
    [
        DRUG + substance('<code nullFlavor="OTH"/><name>420134006 No known drug allergies</name>'),
        DRUG + substance(code("420134006", "420134006 No known drug allergies", SNOMED)),
        DRUG + substance(code("420134006", "No known drug allergies", SNOMED)),
        value("420134006", "420134006 No known drug allergies"),
        DRUG + substance('<code nullFlavor="OTH"/><name>NKDA (409137002)</name>'),
    ],
)
def test_none_known_behind_a_code_is_none_known(content):
    allergy = allergy_of(content)
    (entry,) = entries_of([allergy])
    assert entry.group.code == "none-known"
    assert allergy["code"]["coding"][0]["code"] == "409137002"


def test_none_known_in_a_row_behind_a_code_is_none_known():
    allergy = named_by_row("420134006", "No known drug allergies")
    assert entries_of([allergy])[0].group.code == "none-known"


def test_a_substance_behind_a_code_is_an_allergy():
    for name in ("420134006 Penicillin", "420134006 No known drug allergies except penicillin"):
        content = DRUG + substance(f'<code nullFlavor="OTH"/><name>{name}</name>')
        assert entries_of([allergy_of(content)])[0].is_allergy


@pytest.mark.parametrize(
    ("oid", "system"),
    [
        ("2.16.840.1.113883.6.73", "http://www.whocc.no/atc"),
        ("2.16.840.1.113883.3.26.1.5", "http://hl7.org/fhir/ndfrt"),
        ("2.16.840.1.113883.6.209", "http://hl7.org/fhir/ndfrt"),
    ],
)
def test_codes_have_the_system_that_fhir_names(oid, system):
    allergy = allergy_of(DRUG + substance(code("N0000007070", "Penicillins", oid)))
    assert allergy["code"]["coding"][0]["system"] == system
