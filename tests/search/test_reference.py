"""References: bare ids, relative ones, our own addresses and those elsewhere.

Source: FHIR R4 search §3.1.1.4.9.
"""

from __future__ import annotations

import pytest

from fhirapp.search.reference import relative_reference
from tests.support.contract import allergy, publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, token_for

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

ALLERGY = "AllergyIntolerance"
NOW = "2026-01-01T00:00:00.000+00:00"
RECORDERS = {
    "a": {"reference": "Practitioner/x"},
    "b": {"reference": "Practitioner/x/_history/3"},
    "c": {"reference": "Patient/x"},
    "d": {"reference": "https://other.example/fhir/Practitioner/x"},
    "e": {"reference": "urn:uuid:c757873d-ec9a-4326-a141-556f43239520"},
    "f": {"display": "x"},
    "g": {"reference": "#x"},
    "h": {"identifier": {"value": "x"}},
    "i": {"reference": "Practitioner/X"},
}


@pytest.fixture(scope="module")
def recorded(make_app):
    """A client of an app whose entries differ in their recorder."""
    app = make_app(seed=False)
    contained = [{"resourceType": "Practitioner", "id": "x"}]
    for row_id, recorder in RECORDERS.items():
        more = {"contained": contained} if row_id == "g" else {}
        publish(app, allergy(row_id, recorder=recorder, **more), now=NOW)
    client = Fhir(app, token_for(app, "system/*.rs"))
    return lambda query: "".join(sorted(client.ids(f"{ALLERGY}?{query}")))


FOUND = [
    ("recorder=Practitioner/x", "ab"), (f"recorder={BASE_URL}/fhir/Practitioner/x", "ab"),
    ("recorder:Practitioner=x", "ab"), ("recorder:Practitioner=Practitioner/x", "ab"),
    ("recorder=Practitioner/x/_history/3", "ab"), ("recorder=Patient/x", "c"),
    ("recorder:Patient=x", "c"),
    # a bare id, of whatever type
    ("recorder=x", "abc"), ("recorder=X", "i"),
    ("recorder=https://other.example/fhir/Practitioner/x", "d"),
    ("recorder=https://elsewhere.example/fhir/Practitioner/x", ""),
    ("recorder=urn:uuid:c757873d-ec9a-4326-a141-556f43239520", "e"), ("recorder=x,X", "abci"),
    ("recorder=Patient/x,Practitioner/X", "ci"), ("recorder=x&recorder=Patient/x", "c"),
    ("recorder=nobody", ""),
]  # fmt: skip


def test_a_reference_finds(recorded):
    assert {case: recorded(case) for case, _ in FOUND} == dict(FOUND)


OWN = ["recorder=Practitioner/x", "patient=Patient/p1", "patient=p1"]


def test_a_stored_reference_may_be_our_own_absolute_address(make_app):
    """FHIR R4 search §3.1.1.4.9: absolute to the server's own place and relative are the same."""
    for query in OWN:
        app = make_app(seed=False)
        own = f"{BASE_URL}/fhir/"
        entry = allergy("a", recorder={"reference": f"{own}Practitioner/x"})
        publish(app, {**entry, "patient": {"reference": f"{own}Patient/p1"}}, now=NOW)
        client = Fhir(app, token_for(app, "system/*.rs"))
        assert client.ids(f"{ALLERGY}?{query}") == ["a"]


RELATIVE = [
    ("Patient/p1", ("Patient", "p1")), ("Patient/p1/_history/2", ("Patient", "p1")),
    ("Patient/p1/", None), ("Patient/p1/_history", None), ("Patient/p1/_history/", None),
    ("Patient/p1\n", None), ("patient/p1", None), ("p1", None), ("#p1", None),
    ("/Patient/p1", None), ("https://a.example/Patient/p1", None), ("Patient/" + "a" * 65, None),
    ("Patient/á", None), ("", None),
]  # fmt: skip


def test_a_relative_reference_is_type_and_id():
    assert {case: relative_reference(case) for case, _ in RELATIVE} == dict(RELATIVE)
