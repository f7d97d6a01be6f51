"""The order of results by `_sort`: open periods, equals, pages in both directions."""

from __future__ import annotations

import pytest

from tests.support.contract import allergy, publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import ids, link

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

NOW = "2026-03-01T00:00:00.000+00:00"
# Out of the order of their ids, and of their rows: what an import brings first has a lower row.
PUBLISHED = {
    "c": {"recordedDate": "2024-05"},
    "a": {"recordedDate": "2024-05-01T00:00:00Z"},
    "d": {"onsetPeriod": {"end": "2024-03-01"}},
    "b": {"recordedDate": "2024-05"},
    "f": {"onsetPeriod": {"start": "2024-02-01", "end": "2024-12-01"}},
    "g": {"onsetPeriod": {"end": "2024-06-01T10:00:00Z"}},
    "e": {},
    "h": {"onsetPeriod": {"_start": {"extension": [{"url": "urn:x", "valueCode": "unknown"}]}}},
}
BY_DATE = ["f", "d", "a", "b", "c", "g"]
BY_DATE_DOWN = ["g", "c", "b", "a", "d", "f"]
UNDATED = ["e", "h"]


@pytest.fixture(scope="module")
def app(make_app):
    """An app with entries that have equal dates, open periods, and none."""
    app = make_app(seed=False)
    resources = [
        allergy(name, type="allergy" if name in "bdf" else "intolerance", **elements)
        for name, elements in PUBLISHED.items()
    ]
    publish(app, *resources[:3], now=NOW)
    publish(app, *resources[3:], now=NOW)
    # Once more: it is the latest, and its row the last.
    publish(app, resources[1] | {"criticality": "low"}, now=NOW)
    return app


SORTED = [
    ("date", [*BY_DATE, *UNDATED]),
    ("-date", [*BY_DATE_DOWN, *UNDATED[::-1]]),
    ("type", ["b", "d", "f", "a", "c", "e", "g", "h"]),
    ("-type", ["h", "g", "e", "c", "a", "f", "d", "b"]),
    ("type,date", ["f", "d", "b", "a", "c", "g", "e", "h"]),
    ("criticality", ["a", "b", "c", "d", "e", "f", "g", "h"]),
    ("_lastUpdated", list("bcdefgha")),
    ("-_lastUpdated", list("ahgfedcb")),
    ("_id", list("abcdefgh")),
]


@pytest.mark.parametrize("count", [1, 3, 100])
def test_a_sort_has_one_order_on_all_pages_and_back(fhir, count):
    """An end alone sorts by that; equals by id, in the direction of the sort."""
    for sort, found in SORTED:
        # Within a patient another index leads to the rows.
        which = "patient=p1&" if count == 3 else ""
        bundle = fhir.read(f"AllergyIntolerance?{which}_sort={sort}&_count={count}")
        pages = [ids(bundle)]
        while further := link(bundle, "next"):
            bundle = fhir.read(further)
            pages.append(ids(bundle))
        assert [row_id for page in pages for row_id in page] == found, sort
        back = [ids(bundle)]
        while former := link(bundle, "previous"):
            bundle = fhir.read(former)
            back.append(ids(bundle))
        assert back == pages[::-1], sort


def test_a_period_with_an_end_only_is_searched_as_it_was(fhir):
    """The row that sorts it is found by no search."""
    assert fhir.ids("AllergyIntolerance?_id=d&date=2024-03-01") == []
    assert fhir.ids("AllergyIntolerance?_id=d&date=lt2000") == ["d"]
    assert fhir.ids("AllergyIntolerance?_id=d&date=gt2024-03-01") == []
