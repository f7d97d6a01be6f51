"""service.md 2.1: the Bundle of a search result, field by field."""

from __future__ import annotations

import re

import pytest

from fhirapp.fhir.datatypes import ID_PATTERN
from tests.support.helpers import BASE_URL

TYPES = ("DocumentReference", "AllergyIntolerance")

pytestmark = pytest.mark.parametrize("name", TYPES)


def test_a_search_answers_a_bundle(fhir, name):
    """2.1 resourceType: always Bundle."""
    assert fhir.read(name)["resourceType"] == "Bundle"
    assert fhir.read(f"{name}?_id=nobody")["resourceType"] == "Bundle"


def test_a_bundle_has_an_id_of_its_own(fhir, name):
    """2.1 id: the identifier of the bundle, another for another answer."""
    first, other = fhir.read(f"{name}?_count=1")["id"], fhir.read(f"{name}?_count=2")["id"]
    assert re.fullmatch(ID_PATTERN, first)
    assert first != other


def test_a_bundle_is_a_searchset(fhir, name):
    """2.1 type: always searchset."""
    assert fhir.read(name)["type"] == "searchset"
    assert fhir.read(f"{name}?_summary=count")["type"] == "searchset"


@pytest.mark.parametrize("query", ["", "?_count=2", "?patient=p1&_pretty=false", "?_id=nobody"])
def test_the_self_link_is_under_api_without_a_query(fhir, name, query):
    """2.1 link: one self link, to /api/<ResourceType> of the same host, without parameters."""
    links = fhir.read(name + query)["link"]
    assert [one for one in links if one["relation"] == "self"] == [
        {"relation": "self", "url": f"{BASE_URL}/api/{name}"}
    ]


def test_an_entry_is_a_hit_with_its_absolute_address(fhir, name):
    """2.1 entry: one for each hit, with fullUrl and resource."""
    bundle = fhir.read(name)
    assert bundle["total"] == len(bundle["entry"])
    for entry in bundle["entry"]:
        assert entry.keys() == {"fullUrl", "resource", "search"}
        assert entry["resource"]["resourceType"] == name
        assert entry["fullUrl"] == f"{BASE_URL}/fhir/{name}/{entry['resource']['id']}"
        assert entry["search"] == {"mode": "match"}


def test_a_hit_is_the_resource_as_a_read_gives_it(fhir, name):
    for entry in fhir.read(f"{name}?_count=3")["entry"]:
        assert fhir.read(entry["fullUrl"].removeprefix(BASE_URL)) == entry["resource"]


def test_a_bundle_without_hits_has_a_total_and_no_entry(fhir, name):
    bundle = fhir.read(f"{name}?_id=nobody")
    assert bundle["total"] == 0
    assert "entry" not in bundle


def test_the_address_of_the_self_link_answers_as_the_search_does(fhir, name):
    assert fhir.get(f"/api/{name}").data == fhir.get(f"/fhir/{name}").data
