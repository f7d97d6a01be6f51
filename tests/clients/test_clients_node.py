"""Clients in JavaScript that nobody here wrote ask the real server: SMART's fhirclient and
fhir-kit-client. What each is asked and must be told stands in its file in tests/node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import pytest

from tests.support.client_questions import SEARCHES

if TYPE_CHECKING:
    from tests.support.live import Demo

pytest_plugins = ["tests.support.live"]


@pytest.fixture(scope="module", params=["fhirclient", "fhir-kit-client"])
def told(
    request: pytest.FixtureRequest, node: Callable[[str, object], Any], demo: Demo
) -> dict[str, Any]:
    """What a client was told: of each of its rows, and of each search."""
    given = {
        "url": demo.url,
        "token": demo.token(),
        "patient": {"id": "p1", "token": demo.patient_token("p1")},
        "key": demo.key,
        "searches": [
            (search.type, urlencode({**search.parameters, "_count": "5"}, doseq=True))
            for search in SEARCHES
        ],
    }
    answered: dict[str, Any] = node(f"{request.param}.mjs", given)
    return answered


def test_client_reads_the_expected_values(told):
    assert len(told["rows"]) > 10
    answers = {title: answer for title, answer, _ in told["rows"]}
    assert answers == {title: expected for title, _, expected in told["rows"]}


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_client_finds_all_matches_on_all_pages(told, demo, search):
    assert sorted(told["found"][SEARCHES.index(search)]) == demo.ids(search)
