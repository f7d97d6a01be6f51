"""Interactions of requests, and whether they pass a check: the functions without a page."""

from __future__ import annotations

from typing import Any, NamedTuple

from fhirapp.features.learn.checks import (
    Question,
    is_right,
    last_of,
    nearest,
    right_answer,
    shown_by,
)
from fhirapp.features.learn.expected import Expected
from fhirapp.features.learn.interaction import Interaction, interaction_of, with_pages


class AuditEntry(NamedTuple):
    """A request in the audit trail."""

    path: str
    number: int = 1
    user_id: str | None = None
    client_id: str | None = None
    via: str = ""
    method: str = "GET"
    body: str = ""
    status: int = 200
    served: tuple[str, ...] = ()


def passes(entry: AuditEntry, **expected: Any) -> bool:
    """Return whether a request is the expected one."""
    return last_of([Expected(**expected)], [[interaction_of(entry)]]) is not None


def test_address_has_an_interaction():
    patient = {"type": "Patient", "id": "p1"}
    search = {"interaction": "search", "type": "Patient"}
    operation = {"interaction": "operation"}
    file = "/fhir/$export/Ab-_1/AllergyIntolerance.1.ndjson"
    expected: dict[str, dict[str, str]] = {
        "/fhir/Patient/p1": {"interaction": "read", **patient},
        "/fhir/Patient/p1?_format=json": {"interaction": "read", **patient},
        "/fhir/Patient/p1/_history/2": {"interaction": "vread", **patient, "version": "2"},
        "/fhir/Patient/p1/_history": {"interaction": "history-instance", **patient},
        "/fhir/Patient/_history?_count=1": {"interaction": "history-type", "type": "Patient"},
        **dict.fromkeys(("/fhir/Patient?name=a", "/fhir/Patient/?name=a"), search),
        **dict.fromkeys(("/api/Patient", "/fhir/Patient/_search"), search),
        "/fhir/Patient/p1/%24everything": {**operation, "operation": "$everything", **patient},
        "/fhir/DocumentReference/$docref?patient=p1": {
            **operation,
            "operation": "$docref",
            "type": "DocumentReference",
        },
        "/fhir/$export": {**operation, "operation": "$export"},
        "/fhir/$export/Ab-_1": {"interaction": "export-status"},
        file: {"interaction": "export-file", "type": "AllergyIntolerance"},
        "/fhir/metadata": {"interaction": "other"},
        "/fhir": {"interaction": "other"},
    }
    named = {path: interaction_of(AuditEntry(path)).named._asdict() for path in expected}
    found = {
        path: {name: value for name, value in parts.items() if value}
        for path, parts in named.items()
    }
    assert found == expected


def test_parameters_are_those_of_address_form_and_body():
    resource = '{"parameter": [{"name": "patient", "valueReference": {"reference": "Patient/p1"}}]}'
    cases = (
        ("/fhir/A/_search?a=1", "POST", "b:text=x+y&c=%7C", ["a=1", "b:text=x y", "c=|"]),
        ("/fhir/A/_search?a=1", "GET", "b=2", ["a=1"]),
        ("/fhir/A/$summary", "POST", resource, ["patient=Patient/p1"]),
    )
    for path, method, body, parameters in cases:
        found = interaction_of(AuditEntry(path, method=method, body=body)).parameters
        assert [parameter.text for parameter in found] == parameters


PATTERNS = [
    # Pattern, query, and whether it matches.
    *(("status", "status=active", True), ("status", "status=", False)),
    *(("status", "status:not=active", False), ("status=active", "status=active", True)),
    *(("status=active", "status=inactive", False), ("date=ge*", "date=ge2024", True)),
    *(("status=active", "status=active,inactive", False), ("date=ge*", "date=2024", False)),
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
]


def test_pattern_of_a_parameter():
    for pattern, query, matches in PATTERNS:
        entry = AuditEntry(f"/fhir/A?{query}")
        assert passes(entry, parameters=((pattern,),)) == matches, (pattern, query)
        if "=" in pattern:
            assert passes(entry, without=(pattern,)) != matches, (pattern, query)
    twice = (("date=*",), ("date=*",))
    assert not passes(AuditEntry("/fhir/A?date=2024"), parameters=twice)
    assert passes(AuditEntry("/fhir/A?date=2024&date=2025"), parameters=twice)


def test_exact_search_may_have_parameters_that_exclude_nothing():
    expected = {
        "a=1": True,
        "a=1&_count=5&_sort=a&_include=A:b&_explain=true": True,
        "a=1&b=": True,
        **dict.fromkeys(("a=1&b=2", "a=1&a=2", "a=1&_id=x", "a=1&_has:B:c:d=x"), False),
    }
    found = {
        query: passes(AuditEntry(f"/fhir/A?{query}"), parameters=(("a=1",),), exactly=True)
        for query in expected
    }
    assert found == expected


def test_pattern_of_served_resources():
    cases: list[tuple[dict[str, Any], tuple[str, ...], bool]] = [
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
    ]
    for expected, served, is_met in cases:
        assert passes(AuditEntry("/fhir/A", served=served), **expected) == is_met, served
    forbidden = AuditEntry("/fhir/A", status=403)
    statuses = {None: False, (403,): True, (401, 403): True, (404,): False}
    found = {
        status: passes(forbidden, **({"status": status} if status else {})) for status in statuses
    }
    assert found == statuses


# Pages of a search.

FIRST = AuditEntry("/fhir/A?patient=p1&_count=2", served=("A/1/1", "A/2/1"))
SECOND = AuditEntry("/fhir/A?patient=p1&_count=2&_cursor=x", number=2, served=("A/3/1",))
PAGES = [Expected(parameters=(("patient=p1",),), without=("_cursor",)), Expected(continues=True)]


def second_page(*entries: AuditEntry) -> Interaction | None:
    found = [interaction_of(entry) for entry in entries]
    return last_of(PAGES, [found, found])


def test_next_page_follows_its_search():
    found = second_page(FIRST, SECOND)
    assert found is not None
    assert found.entry.number == 2
    between = AuditEntry("/fhir/A?patient=p1&_count=9", number=2, served=("A/9/1",))
    assert second_page(FIRST, between, SECOND._replace(number=3)) is not None
    for entries in (
        (FIRST,),
        (SECOND,),
        # Before its search, without a cursor, of another type, of another search.
        (SECOND._replace(number=1), FIRST._replace(number=2)),
        (FIRST, SECOND._replace(path="/fhir/A?patient=p1&_count=2")),
        (FIRST, SECOND._replace(path="/fhir/B?patient=p1&_count=2&_cursor=x")),
        (FIRST, SECOND._replace(path="/fhir/A?patient=p2&_count=2&_cursor=x")),
        # The same page, an empty one, a refused one.
        (FIRST, SECOND._replace(served=FIRST.served)),
        (FIRST, SECOND._replace(served=())),
        (FIRST, SECOND._replace(status=400)),
    ):
        assert second_page(*entries) is None, entries


def test_search_gathers_what_its_pages_served():
    other = AuditEntry("/fhir/A?patient=p9&_cursor=y", number=3, served=("A/9/1",))
    third = SECOND._replace(number=4, served=("A/4/1",))
    found = with_pages([interaction_of(entry) for entry in (FIRST, SECOND, other, third)])
    assert [page.gathered for page in found] == [
        ("A/1/1", "A/2/1", "A/3/1", "A/4/1"),
        ("A/3/1", "A/4/1"),
        ("A/9/1",),
        ("A/4/1",),
    ]


# What is missing.


def unmet(expected: Expected, path: str, served: tuple[str, ...], answer: set[str]) -> list[str]:
    request = interaction_of(AuditEntry(path, served=served))
    conditions = expected.conditions(request, answer_of=lambda _: frozenset(answer))
    return [condition.missing for condition in conditions if not condition.met]


def test_results_must_be_the_same_and_parameters_explain_a_difference():
    expected = Expected(type="A", interaction="search", same_as=("/fhir/A?patient=p1",))
    answer, path = {"A/1/1", "A/2/1"}, "/fhir/A?patient=p1"
    assert unmet(expected, path, ("A/1/1", "A/2/7"), answer) == []
    assert unmet(expected, path, ("A/1/1", "A/2/1", "B/1/1"), answer) == []
    assert "fewer resources" in unmet(expected, path, ("A/1/1",), answer)[0]
    assert "other resources" in unmet(expected, path, ("A/1/1", "A/2/1", "A/3/1"), answer)[0]
    parameters = (("patient*",), ("a*", "b*"))
    same_as = ("/fhir/A?patient=p1&b=2",)
    expected = Expected(parameters=parameters, exactly=True, same_as=same_as)
    (missing,) = unmet(expected, "/fhir/A?patient=p1&b=3", ("A/1/1",), {"A/2/1"})
    assert "parameter b" in missing


READ = {"interaction": "read", "type": "A", "id": "al-p1-latex"}
SEARCH = {"interaction": "search", "type": "A", "parameters": (("a=1",), ("b=2",))}
SAME, REFUSED = (
    {"type": "A", "same_as": ("/fhir/A?a=1",)},
    {"type": "A", "interaction": "search", "status": (403,)},
)


def test_near_request_has_the_type_and_something_more():
    cases: list[tuple[dict[str, Any], str, bool]] = [
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
        (SAME, "/fhir/A?a=7", True),
        (SAME, "/fhir/A?b=1", False),
        (REFUSED, "/fhir/A?b=1", True),
        (REFUSED, "/fhir/A/b", False),
    ]
    for expected, path, is_near in cases:
        found = Expected(**expected).is_near(interaction_of(AuditEntry(path)))
        assert found == is_near, (expected, path)
    far, near = AuditEntry("/fhir/A?c=3"), AuditEntry("/fhir/A?a=1", number=2)
    nearest_ = nearest([Expected(**SEARCH)], [[interaction_of(far), interaction_of(near)]])
    assert nearest_ is not None
    assert (nearest_.request.entry, nearest_.missing) == (near, "the parameter b is missing")


# Questions.


def test_request_shows_the_answer_to_a_question():
    query = Question("/fhir/A?a=1&_sort=b", "total")
    read, version = Question("/fhir/A/1", "id"), Question("/fhir/A/1/_history/2", "id")
    cases = [
        (query, 200, AuditEntry("/fhir/A?a=1&_summary=count"), True),
        (query, 200, AuditEntry("/fhir/A?a=1&_total=none"), False),
        (query, 200, AuditEntry("/fhir/A?a=1&b=2"), False),
        (query, 200, AuditEntry("/fhir/A?b=2", served=("A/1/1",)), True),
        (query, 200, AuditEntry("/fhir/B?a=1"), False),
        (query, 200, AuditEntry("/fhir/A?a=1", status=400), False),
        (query, 400, AuditEntry("/fhir/A?a=1", status=400), True),
        (query._replace(answer="entry.0.id"), 200, AuditEntry("/fhir/A?a=1"), False),
        (read, 200, AuditEntry("/fhir/B", served=("A/1/3",)), True),
        (read, 200, AuditEntry("/fhir/A/1", status=404), False),
        (version, 200, AuditEntry("/", served=("A/1/2",)), True),
        (version, 200, AuditEntry("/", served=("A/1/3",)), False),
    ]
    for question, status, entry, shows in cases:
        found = [
            last_of([each], [[interaction_of(entry)]], answer_of=lambda _: frozenset({"A/1/1"}))
            for each in shown_by(question, ("you",), status)
        ]
        assert any(found) == shows, (question, status, entry)


def test_right_answer_is_at_its_place_and_compared_without_case_and_spaces():
    conclusion = {"name": "conclusion", "part": [{"name": "code", "valueCode": "nothing-recorded"}]}
    parameters = [{"name": "patient"}, conclusion]
    answer = {"total": 3, "entry": [{"code": "x"}], "parameter": parameters}
    places = {
        "total": "3",
        "entry.0.code": "x",
        "parameter.conclusion.part.code.valueCode": "nothing-recorded",
        **dict.fromkeys(("entry.1.code", "entry.a.code", "entry", "nothing", "total.more")),
        "parameter.nothing.part.code.valueCode": None,
    }
    assert {place: right_answer(answer, place) for place in places} == places
    typed = {
        ("3", "3"): True,
        (" 3 ", "3"): True,
        ('"low"', "low"): True,
        ("NORTHGATE  family", "Northgate Family"): True,
        ("4", "3"): False,
        ("", None): False,
        ("None", None): False,
    }
    assert {pair: is_right(*pair) for pair in typed} == typed
