"""history-instance: the versions of a resource. decisions §5."""

from __future__ import annotations

import pytest

from tests.conftest import token_for
from tests.helpers import BASE_URL, Fhir, assert_outcome, link

EGG = "AllergyIntolerance/al-p3-egg"
SUMMARY = "DocumentReference/doc-p1-discharge-2024"
MISFILED = "DocumentReference/doc-p5-misfiled"
CODEINE = "AllergyIntolerance/al-p5-codeine"
# Of SUMMARY.
FIRST, SECOND, THIRD = (
    "2024-01-23T15:20:05.150",
    "2024-01-24T09:41:33.009",
    "2024-01-30T11:06:58.477",
)


def versions(bundle):
    """Return the version of each entry, in order, as its response's etag says."""
    return [
        int(entry["response"]["etag"].removeprefix('W/"').removesuffix('"'))
        for entry in bundle.get("entry", ())
    ]


@pytest.mark.parametrize("path", [EGG, SUMMARY])
def test_a_history_lists_the_versions_newest_first(fhir, path):
    bundle = fhir.read(f"{path}/_history")
    assert bundle["resourceType"] == "Bundle"
    assert bundle["type"] == "history"
    assert bundle["total"] == 3
    assert bundle["id"]
    assert versions(bundle) == [3, 2, 1]
    for entry in bundle["entry"]:
        version = entry["resource"]["meta"]
        assert entry["fullUrl"] == f"{BASE_URL}/fhir/{path}"
        assert entry["resource"] == fhir.read(f"{path}/_history/{version['versionId']}")
        created = version["versionId"] == "1"
        assert entry["request"] == {"method": "PUT", "url": path}
        assert entry["response"] == {
            "status": "201 Created" if created else "200 OK",
            "etag": f'W/"{version["versionId"]}"',
            "lastModified": version["lastUpdated"],
        }
        assert "search" not in entry


@pytest.mark.parametrize("path", [MISFILED, CODEINE])
def test_the_newest_entry_of_what_was_deleted_is_the_deletion(fhir, path):
    newest, *older = fhir.read(f"{path}/_history")["entry"]
    assert "resource" not in newest
    assert newest["request"] == {"method": "DELETE", "url": path}
    assert newest["response"]["status"] == "204 No Content"
    assert newest["response"]["etag"] == 'W/"3"'
    assert [entry["resource"]["meta"]["versionId"] for entry in older] == ["2", "1"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("", [3, 2, 1]),
        ("_count=2", [3, 2]),
        ("_count=0", []),
        ("_count=5000", [3, 2, 1]),
        (f"_since={SECOND}%2B00:00", [3, 2]),
        (f"_since={SECOND}Z", [3, 2]),
        # a plus sign that was not escaped
        (f"_since={THIRD}+00:00", [3]),
        ("_since=2024-01-24", [3, 2]),
        ("_since=2024-01-24T09:41:33.010Z", [3]),
        ("_since=2025", []),
        # each version holds from its own time to that of the next
        (f"_at={FIRST}Z", [1]),
        (f"_at={SECOND}Z", [2]),
        (f"_at={THIRD}Z", [3]),
        ("_at=2024-01-23T15:20:05.149Z", []),
        ("_at=2024-01-24T09:41:33.008Z", [1]),
        ("_at=2024-01-24", [2, 1]),
        ("_at=2024-01", [3, 2, 1]),
        ("_at=2024-01-25", [2]),
        ("_at=2026", [3]),
        ("_at=2023", []),
        ("_since=2024-01-24&_at=2024-01-24", [2]),
        ("_format=json&_pretty=false", [3, 2, 1]),
    ],
)
def test_a_history_can_be_narrowed(fhir, query, found):
    assert versions(fhir.read(f"{SUMMARY}/_history?{query}")) == found


def test_a_history_is_paged(fhir):
    pages, address = [], f"{SUMMARY}/_history?_count=2&_since=2024-01-23"
    while address is not None:
        page = fhir.read(address)
        pages.append(versions(page))
        assert page["total"] == 3
        address = link(page, "next")
    assert pages == [[3, 2], [1]]


def test_the_total_is_of_what_the_parameters_leave(fhir):
    bundle = fhir.read(f"{SUMMARY}/_history?_since=2024-01-24&_count=1")
    assert bundle["total"] == 2
    assert versions(bundle) == [3]


@pytest.mark.parametrize(
    ("query", "code", "diagnostics"),
    [
        ("_count=x", "value", "_count: 'x' is not a whole number of 0 or more"),
        ("_since=x", "value", "_since: 'x' is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"),
        ("_at=2023-02-30", "value", "_at: '2023-02-30' is not a date of the calendar"),
        ("_count=1&_count=1", "invalid", "_count: may be given once"),
        ("_before=x", "value", "_before: is not one of this server's; start from the first page"),
    ],
)
def test_a_parameter_that_cannot_be_used_is_refused(fhir, query, code, diagnostics):
    parameter = diagnostics.partition(":")[0]
    assert_outcome(fhir.get(f"{EGG}/_history?{query}"), 400, code, diagnostics, parameter)


def test_an_unknown_parameter_is_refused_under_strict_handling(fhir):
    assert_outcome(
        fhir.get(f"{EGG}/_history?foo=1", headers={"Prefer": "handling=strict"}),
        400,
        "not-supported",
        "foo: is not a parameter of history",
        "foo",
    )


def test_a_history_is_not_sent_again(fhir):
    etag = fhir.get(f"{EGG}/_history").headers["ETag"]
    assert fhir.get(f"{EGG}/_history", headers={"If-None-Match": etag}).status_code == 304
    assert fhir.get(f"{EGG}/_history?_count=1").headers["ETag"] != etag


def test_a_patient_sees_the_history_of_the_own_record(as_patient):
    fhir = as_patient("p5")
    assert versions(fhir.read(f"{MISFILED}/_history")) == [3, 2, 1]
    assert_outcome(
        fhir.get(f"{EGG}/_history"), 404, "not-found", "AllergyIntolerance/al-p3-egg is not known "
        "here.",
    )  # fmt: skip


def test_a_narrower_scope_shows_what_is_resolved_now_in_no_version(app):
    status = "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical|active"
    scope = f"system/AllergyIntolerance.rs?clinical-status={status}"
    fhir = Fhir(app, token_for(app, scope))
    for tail in ("", "/_history", "/_history/1", "/_history/3"):
        assert fhir.get(EGG + tail).status_code == 404
