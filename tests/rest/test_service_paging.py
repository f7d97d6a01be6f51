"""service.md 4, rules 1 and 3, and 8: how much is answered at once, and how to get the rest."""

from __future__ import annotations

import pytest

from tests.support.contract import allergy, publish
from tests.support.databases import SQLITE, THREE_SERVERS
from tests.support.helpers import Fhir, ids, link, token_for

pytestmark = pytest.mark.databases(SQLITE, THREE_SERVERS)

ALLERGY = "AllergyIntolerance"


@pytest.fixture(scope="module")
def crowded(make_app):
    """An app with 250 entries, 50 of each of five instants."""
    app = make_app(seed=False, page_max=150)
    for day in range(1, 6):
        entries = [allergy(f"a{day}-{number:02}") for number in range(50)]
        publish(app, *entries, now=f"2026-01-0{day}T00:00:00.000+00:00")
    return Fhir(app, token_for(app, "system/*.rs"))


NEWEST_FIRST = [f"a{day}-{number:02}" for day in range(5, 0, -1) for number in range(49, -1, -1)]


def test_at_most_a_hundred_are_answered_when_no_parameter_is_set(crowded):
    """8 Maximum number of results when no parameter is set: 100."""
    for query in ["", "?_pretty=false", "?_format=json", "?unknown=x"]:
        bundle = crowded.read(ALLERGY + query)
        assert ids(bundle) == NEWEST_FIRST[:100]
        assert bundle["total"] == 250
        assert link(bundle, "next")


def test_a_page_that_is_too_large_is_cut_not_refused(crowded):
    for count in ["150", "151", "1000000", "9" * 30]:
        bundle = crowded.read(f"{ALLERGY}?_count={count}")
        assert ids(bundle) == NEWEST_FIRST[:150]
        assert link(bundle, "first") == f"/fhir/{ALLERGY}?_count=150"


SIZES = ["?_count=7", "?_count=50", "?patient=p1&_count=99&_pretty=false"]


def test_pages_give_each_result_once_in_both_directions(crowded):
    for query in SIZES:
        there = walk(crowded, ALLERGY + query, "next")
        assert [row_id for page in there for row_id in ids(page)] == NEWEST_FIRST
        back = walk(crowded, there[-1]["address"], "previous")
        assert [ids(page) for page in back] == [ids(page) for page in reversed(there)]
        first = link(there[0], "first")
        for page in [*there, *back]:
            assert page["total"] == 250
            assert link(page, "first") == first
            assert link(page, "self") == f"/api/{ALLERGY}"
        assert ids(crowded.read(first)) == ids(there[0])


def walk(fhir, address, relation):
    """Return the pages from an address on; each also holds the address that it was read at."""
    pages = []
    while address is not None:
        page = fhir.read(address)
        pages.append({**page, "address": address})
        address = link(page, relation)
    return pages


def test_count_is_ignored_where_ids_are_listed(crowded):
    listed = NEWEST_FIRST[::3][:60]
    for count in ("0", "5", "1000", "nonsense"):
        bundle = crowded.read(f"{ALLERGY}?_id={','.join(reversed(listed))}&_count={count}")
        assert ids(bundle) == listed
        assert [link["relation"] for link in bundle["link"]] == ["self", "first"]


def test_a_count_alone_has_a_total_and_no_entries(crowded):
    for query in ["_count=0", "_summary=count", "_summary=count&_count=5"]:
        bundle = crowded.read(f"{ALLERGY}?{query}")
        assert bundle["total"] == 250
        assert "entry" not in bundle
        assert link(bundle, "next") is None
