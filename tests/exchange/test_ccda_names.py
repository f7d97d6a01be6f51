"""What names the substance of an entry of a C-CDA: no kind, no code, no row of the narrative."""

from __future__ import annotations

from typing import Any

import pytest

from fhirapp.allergies.contradictions import findings_of
from fhirapp.allergies.summary import entries_of
from tests.exchange.test_ccda import of_type, read
from tests.exchange.test_ccda_allergies import (
    DRUG,
    allergy_of,
    document_with,
    observation,
    snomed,
    substance,
)

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
