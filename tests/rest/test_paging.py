"""Pages: every resource that is there throughout stands on exactly one, whatever is imported.

Source: decisions §3; FHIR R4 http §3.1.0.1.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest
from flask import Flask
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.contract import allergy, delete, publish
from tests.support.effort import sample
from tests.support.helpers import Fhir, ids, link, token_for

CODES = ("a", "b", "c")
# The order as `_sort` names it; the default is newest first.
SORTS = (
    *("", "date", "-date", "code", "-code", "code,-date", "-code,date", "-clinical-status"),
    *("_lastUpdated", "_id", "-_id", "onset", "-onset,_id", "patient", "recorder", "-recorder"),
)
QUICK = settings(
    max_examples=sample(6, 25),
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
_moments = (
    (datetime(2026, 3, 1, tzinfo=UTC) + timedelta(seconds=number)).isoformat("T", "milliseconds")
    for number in count()
)
_patients = (f"walker-{number}" for number in count())


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that this module fills: each test for patients of its own."""
    return make_app(seed=False)


def entry(row_id: str, patient: str, number: int) -> dict[str, Any]:
    """Return an allergy whose values follow from a number; some have none of a parameter."""
    elements: dict[str, Any] = {"code": {"coding": [{"code": CODES[number % 3]}]}}
    if number % 4:
        elements["recordedDate"] = f"2024-0{1 + number % 4}-0{1 + number % 7}"
    if number % 5 == 0:
        manifestation = {"manifestation": [{"text": "rash"}]}
        elements["reaction"] = [
            {**manifestation, "onset": f"20{10 + number % 9}"},
            {**manifestation, "onset": f"20{20 - number % 9}"},
        ]
    if number % 3:
        elements["recorder"] = {"reference": f"Practitioner/d{number % 2}"}
    return allergy(row_id, patient, **elements)


def pages(fhir: Fhir, path: str, relation: str = "next") -> Iterator[dict[str, Any]]:
    """Yield a search's pages, following links."""
    asked: str | None = path
    while asked is not None:
        page = fhir.read(asked)
        yield page
        asked = link(page, relation)


def chosen(patient: str, now: str, *, narrow: bool) -> str:
    """Return the search for what was published since now, all of one patient's.

    Narrow it leaves few rows to look at; otherwise the database walks along the order of results.
    """
    return f"patient={patient}" if narrow else f"_lastUpdated=ge{now[:-6]}"


CHANGES = st.lists(
    st.lists(
        st.tuples(st.sampled_from(["change", "create", "delete"]), st.integers(0, 15)),
        max_size=4,
    ),
    max_size=6,
)


@QUICK
@given(
    sort=st.sampled_from(SORTS),
    size=st.integers(1, 16),
    page_size=st.integers(1, 5),
    changes=CHANGES,
    narrow=st.booleans(),
)
def test_unchanged_resource_is_on_exactly_one_page(app, sort, size, page_size, changes, narrow):
    patient = next(_patients)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    now = next(_moments)
    publish(app, *(entry(f"{patient}-{n}", patient, n) for n in range(size)), now=now)
    path = f"AllergyIntolerance?{chosen(patient, now, narrow=narrow)}&_count={page_size}"
    path += f"&_sort={sort}" if sort else ""
    there = {f"{patient}-{number}" for number in range(size)}
    seen: list[str] = []
    steps = iter(changes)
    for page in pages(fhir, path):
        seen += ids(page)
        for kind, number in next(steps, ()):
            row_id = f"{patient}-{number}"
            if kind == "delete" and row_id in there:
                there.discard(row_id)
                delete(app, "AllergyIntolerance", row_id, now=next(_moments))
            elif kind == "change" and row_id in there:
                publish(app, entry(row_id, patient, number + 1), now=next(_moments))
            elif kind == "create":
                created = entry(f"{patient}-new-{len(seen)}-{number}", patient, number)
                publish(app, created, now=next(_moments))
    mine = [row_id for row_id in seen if row_id.startswith(f"{patient}-")]
    assert len(seen) == len(set(seen))
    assert there <= set(mine)


@pytest.mark.parametrize("sort", SORTS)
@pytest.mark.parametrize("narrow", [True, False])
def test_pages_one_after_the_other_are_the_one_large_page_and_back_again(app, sort, narrow):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    patient = next(_patients)
    now = next(_moments)
    publish(app, *(entry(f"{patient}-{n}", patient, n) for n in range(23)), now=now)
    path = f"AllergyIntolerance?{chosen(patient, now, narrow=narrow)}&"
    path += f"_sort={sort}&" if sort else ""
    large = fhir.ids(f"{path}_count=1000")
    forward = list(pages(fhir, f"{path}_count=4"))
    assert [row_id for page in forward for row_id in ids(page)] == large
    # The last page is where the next link of the one before it leads.
    backward = list(pages(fhir, link(forward[-2], "next") or "", "previous"))
    assert [ids(page) for page in backward] == [ids(page) for page in forward[::-1]]


def test_a_page_shows_resources_as_they_are_now(app):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    patient = next(_patients)
    for number in range(4):
        publish(app, entry(f"{patient}-{number}", patient, number), now=next(_moments))
    first = fhir.read(f"AllergyIntolerance?patient={patient}&_count=2")
    # The one that would come next is withdrawn, the one after it changed to another code.
    publish(app, entry(f"{patient}-0", patient, 1), now=next(_moments))
    delete(app, "AllergyIntolerance", f"{patient}-1", now=next(_moments))
    second = fhir.read(link(first, "next") or "")
    assert ids(second) == [f"{patient}-0"]
    resource = second["entry"][0]["resource"]
    assert (resource["meta"]["versionId"], resource["code"]["coding"][0]["code"]) == ("2", "b")
