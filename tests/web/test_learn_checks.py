"""What a request asked for, and whether it is what a check wants: the pure parts."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from fhirapp.web.learn.checks import (
    Question,
    is_right,
    last_of,
    nearest,
    right_answer,
    shown_by,
)
from fhirapp.web.learn.expected import Expected
from fhirapp.web.learn.interaction import Interaction, interaction_of, with_pages


class AuditEntry(NamedTuple):
    """A request as the audit trail has it."""

    path: str
    number: int = 1
    user_id: str | None = None
    client_id: str | None = None
    via: str = ""
    method: str = "GET"
    body: str = ""
    status: int = 200
    served: tuple[str, ...] = ()


def meets(one: AuditEntry, **expected: Any) -> bool:
    """Say whether a request is what is expected."""
    return last_of([Expected(**expected)], [[interaction_of(one)]]) is not None


@pytest.mark.parametrize(
    ("path", "interaction", "named"),
    [
        ("/fhir/Patient/p1", "read", {"type": "Patient", "id": "p1"}),
        ("/fhir/Patient/p1?_format=json", "read", {"type": "Patient", "id": "p1"}),
        (
            "/fhir/Patient/p1/_history/2",
            "vread",
            {"type": "Patient", "id": "p1", "version": "2"},
        ),
        ("/fhir/Patient/p1/_history", "history-instance", {"type": "Patient", "id": "p1"}),
        ("/fhir/Patient/_history?_count=1", "history-type", {"type": "Patient"}),
        ("/fhir/Patient?name=a", "search", {"type": "Patient"}),
        ("/fhir/Patient/?name=a", "search", {"type": "Patient"}),
        ("/api/Patient", "search", {"type": "Patient"}),
        ("/fhir/Patient/_search", "search", {"type": "Patient"}),
        (
            "/fhir/Patient/p1/%24everything",
            "operation",
            {"type": "Patient", "id": "p1", "operation": "$everything"},
        ),
        (
            "/fhir/DocumentReference/$docref?patient=p1",
            "operation",
            {"type": "DocumentReference", "operation": "$docref"},
        ),
        ("/fhir/metadata", "other", {}),
        ("/fhir", "other", {}),
        ("/fhir/$export", "operation", {"operation": "$export"}),
        ("/fhir/$export/Ab-_1", "export-status", {}),
        (
            "/fhir/$export/Ab-_1/AllergyIntolerance.1.ndjson",
            "export-file",
            {"type": "AllergyIntolerance"},
        ),
        ("/fhir/.well-known/smart-configuration", "other", {}),
    ],
)
def test_an_address_names_an_interaction(path, interaction, named):
    found = interaction_of(AuditEntry(path)).named._asdict()
    assert {name: one for name, one in found.items() if one} == {
        "interaction": interaction,
        **named,
    }


def test_parameters_come_from_the_address_and_from_the_form():
    posted = AuditEntry("/fhir/A/_search?a=1", method="POST", body="b:text=x+y&c=%7C")
    assert [one.text for one in interaction_of(posted).parameters] == ["a=1", "b:text=x y", "c=|"]
    got = AuditEntry("/fhir/A/_search?a=1", body="b=2")
    assert [one.text for one in interaction_of(got).parameters] == ["a=1"]
    resource = '{"parameter": [{"name": "patient", "valueReference": {"reference": "Patient/p1"}}]}'
    posted = AuditEntry("/fhir/A/$summary", method="POST", body=resource)
    assert [one.text for one in interaction_of(posted).parameters] == ["patient=Patient/p1"]


@pytest.mark.parametrize(
    ("pattern", "query", "is_met"),
    [
        ("status", "status=active", True),
        ("status", "status=", False),
        ("status", "status:not=active", False),
        ("status=active", "status=active", True),
        ("status=active", "status=inactive", False),
        ("status=active", "status=active,inactive", False),
        ("date=ge*", "date=ge2024", True),
        ("date=ge*", "date=2024", False),
        ("code:text=latex", "code:text=latex", True),
        ("code:text=latex", "code=latex", False),
        ("code=http://snomed.info/sct|*", "code=http%3A%2F%2Fsnomed.info%2Fsct%7C1", True),
        ("code=a.c", "code=abc", False),
        ("category=*,*", "category=food,medication", True),
        ("category=*,*", "category=food", False),
        ("category=food,medication", "category=medication,food", True),
        ("category=food,medication", "category=food", False),
        ("category=food,medication", "category=food,medication,biologic", False),
        ("patient=p1,*", "patient=p2,Patient/p1", True),
        ("patient=p1,*", "patient=p1", False),
        ("_sort=date,_id", "_sort=_id,date", False),
        ("status=active", "status=http://a.example/b%7Cactive", True),
        ("status=http://a.example/b|active", "status=active", False),
        ("status=http://a.example/b|active", "status=http://a.example/c%7Cactive", False),
        ("status=active", "status:not=active", False),
        ("patient=p1", "patient=Patient/p1", True),
        ("patient=p1", "patient=http://127.0.0.1/fhir/Patient/p1", True),
        ("patient=p1", "patient:Patient=p1", True),
        ("patient=Patient/p1", "patient=p1", True),
        ("patient=Patient/p1", "patient=Group/p1", False),
        ("patient=p1", "patient:missing=p1", False),
        ("_content=*walnut*", "_content=Walnut", True),
        ("date=ge2025", "date=gt2024-12-31", True),
        ("date=ge2025", "date=sa2024", True),
        ("date=ge2025", "date=ge2025-01-01T00:00:00Z", True),
        ("date=ge2025", "date=ge2024-12-31", False),
        ("date=lt2025", "date=le2024-12", True),
        ("date=lt2025", "date=eb2025", True),
        ("date=2025-01", "date=eq2025-01", True),
        ("date=2025-01", "date=ge2025-01", False),
        ("date=ne2025", "date=ap2025", False),
    ],
)
def test_a_pattern_of_a_parameter(pattern, query, is_met):
    one = AuditEntry(f"/fhir/A?{query}")
    assert meets(one, parameters=((pattern,),)) == is_met
    if "=" in pattern:
        assert meets(one, without=(pattern,)) != is_met


@pytest.mark.parametrize(
    ("query", "is_met"),
    [
        ("a=1", True),
        ("a=1&_count=5&_sort=a&_include=A:b&_explain=true", True),
        ("a=1&b=", True),
        ("a=1&b=2", False),
        ("a=1&a=2", False),
        ("a=1&_id=x", False),
        ("a=1&_has:B:c:d=x", False),
    ],
)
def test_exactly_allows_beside_what_leaves_nothing_out(query, is_met):
    assert meets(AuditEntry(f"/fhir/A?{query}"), parameters=(("a=1",),), exactly=True) == is_met


def test_two_patterns_need_two_parameters():
    twice = (("date=*",), ("date=*",))
    assert not meets(AuditEntry("/fhir/A?date=2024"), parameters=twice)
    assert meets(AuditEntry("/fhir/A?date=2024&date=2025"), parameters=twice)


@pytest.mark.parametrize(
    ("expected", "served", "is_met"),
    [
        ({"serves": ("A/1",)}, ("A/1/3", "A/2/1"), True),
        ({"serves": ("A/1/3",)}, ("A/1/3",), True),
        ({"serves": ("A/1/2",)}, ("A/1/3",), False),
        ({"serves": ("A/1",)}, ("A/11/1",), False),
        ({"serves": ("A/1", "P/*")}, ("A/1/1",), False),
        ({"serves": ("A/1", "P/*")}, ("A/1/1", "P/9/1"), True),
        ({"serves_only": ("A/1",)}, ("A/1/1",), True),
        ({"serves_only": ("A/1",)}, ("A/1/1", "A/2/1"), False),
        ({"serves_only": ("A/1", "A/2")}, ("A/1/1",), False),
        ({"serves_only": ("A/1",)}, (), False),
        ({"serves_at_least": 2}, ("A/1/1",), False),
        ({"serves_at_least": 2}, ("A/1/1", "A/2/1"), True),
    ],
)
def test_a_pattern_of_what_was_served(expected, served, is_met):
    assert meets(AuditEntry("/fhir/A", served=served), **expected) == is_met


@pytest.mark.parametrize(
    ("expected", "is_met"),
    [
        ({}, False),
        ({"status": (403,)}, True),
        ({"status": (401, 403)}, True),
        ({"status": (404,)}, False),
    ],
)
def test_only_what_went_well_counts_unless_a_status_is_wanted(expected, is_met):
    assert meets(AuditEntry("/fhir/A", status=403), **expected) == is_met


FIRST = AuditEntry("/fhir/A?patient=p1&_count=2", served=("A/1/1", "A/2/1"))
SECOND = AuditEntry("/fhir/A?patient=p1&_count=2&_cursor=x", number=2, served=("A/3/1",))
PAGES = [Expected(parameters=(("patient=p1",),), without=("_cursor",)), Expected(continues=True)]


def in_order(*entry: AuditEntry) -> Interaction | None:
    found = [interaction_of(one) for one in entry]
    return last_of(PAGES, [found, found])


def test_a_page_and_its_next_are_found_in_this_order():
    found = in_order(FIRST, SECOND)
    assert found is not None
    assert found.entry.number == 2


@pytest.mark.parametrize(
    "entry",
    [
        (FIRST,),
        (SECOND,),
        # The next page cannot come before.
        (SECOND._replace(number=1), FIRST._replace(number=2)),
        (FIRST, SECOND._replace(path="/fhir/A?patient=p1&_count=2")),
        (FIRST, SECOND._replace(path="/fhir/B?patient=p1&_count=2&_cursor=x")),
        # Of another search.
        (FIRST, SECOND._replace(path="/fhir/A?patient=p2&_count=2&_cursor=x")),
        # The same page.
        (FIRST, SECOND._replace(served=FIRST.served)),
        (FIRST, SECOND._replace(served=())),
        (FIRST, SECOND._replace(status=400)),
    ],
)
def test_what_is_no_next_page_is_not_taken_for_it(entry):
    assert in_order(*entry) is None


def test_another_search_between_does_not_hide_the_pages():
    between = AuditEntry("/fhir/A?patient=p1&_count=9", number=2, served=("A/9/1",))
    assert in_order(FIRST, between, SECOND._replace(number=3)) is not None


def test_a_search_gathers_what_its_own_pages_served():
    other = AuditEntry("/fhir/A?patient=p9&_cursor=y", number=3, served=("A/9/1",))
    third = SECOND._replace(number=4, served=("A/4/1",))
    found = with_pages([interaction_of(one) for one in (FIRST, SECOND, other, third)])
    assert [one.gathered for one in found] == [
        ("A/1/1", "A/2/1", "A/3/1", "A/4/1"),
        ("A/3/1", "A/4/1"),
        ("A/9/1",),
        ("A/4/1",),
    ]


@pytest.mark.parametrize(
    ("served", "missing"),
    [
        (("A/1/1", "A/2/7"), None),
        (("A/1/1", "A/2/1", "B/1/1"), None),
        (("A/1/1",), "the response has fewer resources than expected"),
        (("A/1/1", "A/2/1", "A/3/1"), "the response has other resources than expected"),
    ],
)
def test_the_same_records_are_enough_and_else_it_is_said_how_they_differ(served, missing):
    expected = Expected(type="A", interaction="search", same_as=("/fhir/A?patient=p1",))
    request = interaction_of(AuditEntry("/fhir/A?patient=p1", served=served))
    answer = frozenset({"A/1/1", "A/2/1"})
    unmet = [each.missing for each in expected.conditions(request, answer_of=lambda _: answer)]
    assert ([one for one in unmet if one.startswith("the response has")] or [None]) == [missing]


def test_what_differs_in_its_parameters_is_told_by_them():
    expected = Expected(
        parameters=(("patient*",), ("a*", "b*")), exactly=True, same_as=("/fhir/A?patient=p1&b=2",)
    )
    request = interaction_of(AuditEntry("/fhir/A?patient=p1&b=3", served=("A/1/1",)))
    answer = frozenset({"A/2/1"})
    conditions = [*expected.conditions(request, answer_of=lambda _: answer)]
    unmet = [one.missing for one in conditions if not one.met]
    assert unmet == ["its parameter b has a different value than expected"]


READ = {"interaction": "read", "type": "A", "id": "al-p1-latex"}
SEARCH = {"interaction": "search", "type": "A", "parameters": (("a=1",), ("b=2",))}


@pytest.mark.parametrize(
    ("expected", "path", "is_near"),
    [
        (READ, "/fhir/A/al-p1-latx", True),
        (READ, "/fhir/A/al-p3-peanut", False),
        (READ, "/fhir/B/al-p1-latex", False),
        (READ, "/fhir/A/al-p1-latex/_history", True),
        (READ, "/fhir/A?code=x", False),
        (SEARCH, "/fhir/A?a=1", True),
        (SEARCH, "/fhir/A?a=2", False),
        (SEARCH, "/fhir/A?a=2&b=3", True),
        (SEARCH, "/fhir/A?c=1", False),
        (SEARCH, "/fhir/A", False),
        (SEARCH, "/fhir/B?a=1&b=2", False),
        ({"type": "A", "same_as": ("/fhir/A?a=1",)}, "/fhir/A?a=7", True),
        ({"type": "A", "same_as": ("/fhir/A?a=1",)}, "/fhir/A?b=1", False),
        ({"type": "A", "interaction": "search", "status": (403,)}, "/fhir/A?b=1", True),
        ({"type": "A", "interaction": "search", "status": (403,)}, "/fhir/A/b", False),
    ],
)
def test_near_is_what_has_the_right_type_and_something_more(expected, path, is_near):
    assert Expected(**expected).is_near(interaction_of(AuditEntry(path))) == is_near


QUERY = Question("/fhir/A?a=1&_sort=b", "total")


@pytest.mark.parametrize(
    ("question", "status", "entry", "shows"),
    [
        (QUERY, 200, AuditEntry("/fhir/A?a=1&_summary=count"), True),
        (QUERY, 200, AuditEntry("/fhir/A?a=1&_total=none"), False),
        (QUERY, 200, AuditEntry("/fhir/A?a=1&b=2"), False),
        (QUERY, 200, AuditEntry("/fhir/A?b=2", served=("A/1/1",)), True),
        (QUERY, 200, AuditEntry("/fhir/B?a=1"), False),
        (QUERY, 200, AuditEntry("/fhir/A?a=1", status=400), False),
        (QUERY, 400, AuditEntry("/fhir/A?a=1", status=400), True),
        (QUERY._replace(answer="entry.0.id"), 200, AuditEntry("/fhir/A?a=1"), False),
        (Question("/fhir/A/1", "id"), 200, AuditEntry("/fhir/B", served=("A/1/3",)), True),
        (Question("/fhir/A/1", "id"), 200, AuditEntry("/fhir/A/1", status=404), False),
        (Question("/fhir/A/1/_history/2", "id"), 200, AuditEntry("/", served=("A/1/2",)), True),
        (Question("/fhir/A/1/_history/2", "id"), 200, AuditEntry("/", served=("A/1/3",)), False),
    ],
)
def test_which_request_shows_the_answer_to_a_question(question, status, entry, shows):
    found = [
        last_of([one], [[interaction_of(entry)]], answer_of=lambda _: frozenset({"A/1/1"}))
        for one in shown_by(question, ("you",), status)
    ]
    assert any(found) == shows


def test_the_nearest_request_is_the_one_that_lacks_least():
    expected = Expected(interaction="search", parameters=(("a=1",), ("b=2",)))
    far, near = AuditEntry("/fhir/A?c=3"), AuditEntry("/fhir/A?a=1", number=2)
    found = nearest([expected], [[interaction_of(far), interaction_of(near)]])
    assert found is not None
    assert (found.request.entry, found.missing) == (near, "the parameter b is missing")


@pytest.mark.parametrize(
    ("place", "right"),
    [
        ("total", "3"),
        ("entry.0.code", "x"),
        ("entry.1.code", None),
        ("entry.a.code", None),
        ("parameter.conclusion.part.code.valueCode", "nothing-recorded"),
        ("parameter.nothing.part.code.valueCode", None),
        ("entry", None),
        ("nothing", None),
        ("total.more", None),
    ],
)
def test_the_right_answer_stands_at_a_place(place, right):
    conclusion = {"name": "conclusion", "part": [{"name": "code", "valueCode": "nothing-recorded"}]}
    parameters = [{"name": "patient"}, conclusion]
    answer = {"total": 3, "entry": [{"code": "x"}], "parameter": parameters}
    assert right_answer(answer, place) == right


@pytest.mark.parametrize(
    ("typed", "right", "is_it"),
    [
        ("3", "3", True),
        (" 3 ", "3", True),
        ('"low"', "low", True),
        ("NORTHGATE  family", "Northgate Family", True),
        ("4", "3", False),
        ("", None, False),
        ("None", None, False),
    ],
)
def test_an_answer_is_compared_without_case_and_spaces(typed, right, is_it):
    assert is_right(typed, right) == is_it
