"""service.md 2.1: the Bundle of a search result, field by field."""

from __future__ import annotations

import re

import pytest

from fhirapp.fhir.datatypes import ID_PATTERN
from tests.support.helpers import BASE_URL

pytestmark = pytest.mark.parametrize("name", ["DocumentReference", "AllergyIntolerance"])


@pytest.mark.parametrize("query", ["", "?_count=2", "?patient=p1&_pretty=false", "?_id=nobody"])
def test_search_answers_a_searchset_with_a_self_link_under_api(fhir, name, query):
    bundle = fhir.read(name + query)
    # 2.1 resourceType: always Bundle.
    # 2.1 type: always searchset.
    assert (bundle["resourceType"], bundle["type"]) == ("Bundle", "searchset")
    # 2.1 link: one self link, to /api/<ResourceType> of the same host, without parameters.
    assert [link for link in bundle["link"] if link["relation"] == "self"] == [
        {"relation": "self", "url": f"{BASE_URL}/api/{name}"}
    ]
    # 2.1 id: the identifier of the bundle, another for another answer.
    assert re.fullmatch(ID_PATTERN, bundle["id"])
    assert bundle["id"] != fhir.read(f"{name}?_count=1")["id"]
    if query == "?_id=nobody":
        assert (bundle["total"], "entry" in bundle) == (0, False)


def test_entry_is_the_resource_as_it_is_read_with_its_absolute_address(fhir, name):
    """2.1 entry: one for each hit, with fullUrl and resource."""
    bundle = fhir.read(name)
    assert bundle["total"] == len(bundle["entry"])
    for entry in bundle["entry"]:
        assert entry.keys() == {"fullUrl", "resource", "search"}
        assert entry["fullUrl"] == f"{BASE_URL}/fhir/{name}/{entry['resource']['id']}"
        assert entry["search"] == {"mode": "match"}
    for entry in bundle["entry"][:3]:
        assert fhir.read(entry["fullUrl"].removeprefix(BASE_URL)) == entry["resource"]


def test_address_of_the_self_link_answers_as_the_search_does(fhir, name):
    assert fhir.get(f"/api/{name}").data == fhir.get(f"/fhir/{name}").data
