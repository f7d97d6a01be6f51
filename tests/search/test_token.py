"""Tokens: code, system|code, |code, system| and :not, through the server.

Source: FHIR R4 search §3.1.1.4.10, §3.1.1.4.5 (modifiers).
"""

from __future__ import annotations

import pytest

from tests.support.contract import allergy, publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, token_for

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

ALLERGY = "AllergyIntolerance"
NOW = "2026-01-01T00:00:00.000+00:00"


def coded(*pairs):
    """Return a CodeableConcept of (system, code) pairs; None where one has no system."""
    return {"coding": [{"system": system, "code": code} if system else {"code": code}
                       for system, code in pairs]}  # fmt: skip


@pytest.fixture(scope="module")
def tokens(make_app):
    """A client of an app whose entries differ in their codes."""
    app = make_app(seed=False)
    publish(
        app,
        allergy("a-one", code=coded(("urn:s", "x"))),
        allergy("b-two", code=coded(("urn:s", "x"), ("urn:t", "y"))),
        allergy("c-bare", code=coded((None, "x"))),
        allergy("d-text", code={"text": "x"}),
        allergy("e-none"),
        allergy("f-case", code=coded(("urn:s", "X"))),
        allergy("g-display", code={"coding": [{"system": "urn:u", "display": "x"}]}),
        allergy("h-pipe", code=coded(("urn:a|b", "c|d"))),
        allergy("j-units", code=coded(("http://unitsofmeasure.org", "X"))),
        allergy("k-fhir", code=coded(("http://terminology.hl7.org/CodeSystem/x", "z"))),
        allergy("l-table", code=coded(("http://terminology.hl7.org/CodeSystem/v2-0074", "LAB"))),
        allergy("m-name", identifier=[{"system": "urn:s", "value": "Id-1"}, {"value": "id-2"}]),
        allergy(
            "i-substance",
            reaction=[{"substance": coded(("urn:s", "x")), "manifestation": [coded((None, "m"))]}],
        ),
        now=NOW,
    )
    client = Fhir(app, token_for(app, "system/*.rs"))
    return lambda query: "".join(one[0] for one in sorted(client.ids(f"{ALLERGY}?{query}")))


ALL = "abcdefghijklm"


FOUND = [
    # irrespective of the system
    ("code=x", "abcfi"), ("code=y", "b"), ("code=X", "abcfij"),
    # case counts where the system says so, or the value is an identifier
    ("code=http://unitsofmeasure.org|X", "j"), ("code=http://unitsofmeasure.org|x", ""),
    ("code:not=http://unitsofmeasure.org|x", ALL), ("code=urn:s|X", "abfi"), ("code=|X", "c"),
    ("code=z", "k"), ("code=Z", ""), ("code:not=Z", ALL), ("code=lab", "l"),
    ("code=http://terminology.hl7.org/CodeSystem/v2-0074|Lab", "l"), ("identifier=Id-1", "m"),
    ("identifier=urn:s|Id-1", "m"), ("identifier=id-2", "m"), ("identifier=ID-2", ""),
    ("identifier=id-1,ID-1,urn:s|id-1", ""), ("code=nothing", ""),
    ("code=urn:s|x", "abfi"), ("code=urn:t|x", ""), ("code=urn:t|y", "b"),
    # without a system
    ("code=|x", "c"), ("code=|y", ""), ("code=urn:s|,nothing", "abfi"), ("code=urn:t|", "b"),
    ("code=urn:nothing|", ""), (r"code=urn:a\|b|c\|d", "h"), (r"code=c\|d", "h"),
    ("code=x,y,X", "abcfij"), ("code=urn:t|,|x", "bc"), ("code=x&code=y", "b"),
    ("code=x,X&code=urn:s|x,nothing", "abfi"),
    # a value's text is not its code
    ("code:not=x", "deghjklm"), ("code:not=urn:s|x", "cdeghjklm"),
    ("code:not=|x", "abdefghijklm"), ("code:not=nothing", ALL),
    ("code:not=x&code:not=X", "deghklm"), ("code=x&code:not=y", "acfi"), ("manifestation=m", "i"),
    ("manifestation:not=m", "abcdefghjklm"),
]  # fmt: skip


def test_a_token_finds(tokens):
    assert {case: tokens(case) for case, _ in FOUND} == dict(FOUND)


def test_a_system_alone_finds_a_coding_without_a_code(tokens):
    """FHIR R4 search §3.1.1.4.10: [system]| is any element of that system."""
    assert tokens("code=urn:u|") == "g"


def test_not_with_several_values_excludes_each(tokens):
    """FHIR R4 search §3.1.1.4.5: `:not` reverses the match, and the match is of any of them."""
    assert tokens("code:not=x,X") == "deghklm"


SAME = [
    ("status=active", "clinical-status=active"),
    ("status=confirmed", "verification-status=confirmed"),
    ("type=allergy", "type=http://hl7.org/fhir/allergy-intolerance-type|allergy"),
    ("category=food", "category=http://hl7.org/fhir/allergy-intolerance-category|food"),
    ("criticality=high", "criticality=http://hl7.org/fhir/allergy-intolerance-criticality|high"),
    ("severity=mild", "severity=http://hl7.org/fhir/reaction-event-severity|mild"),
]  # fmt: skip


def test_a_bare_code_is_of_the_system_of_its_binding(fhir):
    for query, same in SAME:
        found = fhir.ids(f"{ALLERGY}?{query}")
        assert found
        assert fhir.ids(f"{ALLERGY}?{same}") == found


def test_a_status_that_is_not_one_is_neither_of_the_two(fhir):
    """decisions 2.9: status is the clinical or the verification status."""
    either = set(fhir.ids(f"{ALLERGY}?status=active,confirmed"))
    assert set(fhir.ids(f"{ALLERGY}?clinical-status=active")) < either
    assert set(fhir.ids(f"{ALLERGY}?status:not=active")) == set(fhir.ids(ALLERGY)) - set(
        fhir.ids(f"{ALLERGY}?clinical-status=active")
    )


CODES = ["code=11488-4", "code=http://loinc.org|11488-4", "code:not=x"]


def test_code_of_a_document_is_its_type(fhir):
    """decisions 2.10."""
    for query in CODES:
        found = fhir.ids(f"DocumentReference?{query}")
        assert found
        assert found == fhir.ids(f"DocumentReference?{query.replace('code', 'type')}")
