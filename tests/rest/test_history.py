"""history-instance: the versions of a resource; and what holds for every history. decisions §5."""

from __future__ import annotations

import pytest

from tests.support.contract import allergy, delete, publish
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, token_for

ALLERGY = "AllergyIntolerance"

EGG = "AllergyIntolerance/al-p3-egg"
SUMMARY = "DocumentReference/doc-p1-discharge-2024"
NO_CURSOR = "is not one of this server's; start again from the first page"
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


def test_a_history_lists_the_versions_newest_first(fhir):
    for path in [EGG, SUMMARY]:
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


NARROWED = [
    ("", [3, 2, 1]), ("_count=2", [3, 2]), ("_count=0", []), ("_count=5000", [3, 2, 1]),
    (f"_since={SECOND}%2B00:00", [3, 2]), (f"_since={SECOND}Z", [3, 2]),
    # a plus sign that was not escaped
    (f"_since={THIRD}+00:00", [3]), ("_since=2024-01-24", [3, 2]),
    ("_since=2024-01-24T09:41:33.010Z", [3]), ("_since=2025", []),
    # each version holds from its own time to that of the next
    (f"_at={FIRST}Z", [1]), (f"_at={SECOND}Z", [2]), (f"_at={THIRD}Z", [3]),
    ("_at=2024-01-23T15:20:05.149Z", []), ("_at=2024-01-24T09:41:33.008Z", [1]),
    ("_at=2024-01-24", [2, 1]), ("_at=2024-01", [3, 2, 1]), ("_at=2024-01-25", [2]),
    ("_at=2026", [3]), ("_at=2023", []), ("_since=2024-01-24&_at=2024-01-24", [2]),
    ("_format=json&_pretty=false", [3, 2, 1]),
]  # fmt: skip


def test_a_history_can_be_narrowed(fhir):
    for query, found in NARROWED:
        assert versions(fhir.read(f"{SUMMARY}/_history?{query}")) == found


REFUSED = [
    ("_count=x", "value", "_count: 'x' is not a whole number of 0 or more"),
    ("_since=x", "value", "_since: 'x' is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"),
    ("_since=%20", "value", "_since: ' ' is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"),
    ("_at=2023-02-30", "value", "_at: '2023-02-30' is not a date of the calendar"),
    ("_count=-1", "value", "_count: '-1' is not a whole number of 0 or more"),
    ("_count=1&_count=1", "invalid", "_count: may be given once"),
    ("_since=2024&_since=2024", "invalid", "_since: may be given once"),
    # a prefix is of a search: history takes none
    ("_at=ge2024", "value", "_at: 'ge2024' is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"),
    ("_cursor=x", "value", f"_cursor: {NO_CURSOR}"),
    ("_list=List/1", "not-supported", "_list: is not supported here"),
    (
        "_sort=_lastUpdated",
        "not-supported",
        "_sort: is not supported here; a history is sorted newest first",
    ),
    # To ignore one would answer more than was asked, whatever the handling.
    ("patient=p1", "not-supported", "patient: is not a parameter of history"),
    ("_since:exact=2024", "not-supported", "_since:exact: is not a parameter of history"),
    ("_summary=true", "not-supported", "_summary: is not a parameter of history"),
    ("foo=", "not-supported", "foo: is not a parameter of history"),
]


def test_a_parameter_that_cannot_be_used_is_refused(fhir):
    for query, code, diagnostics in REFUSED:
        for path in [EGG, ALLERGY]:
            for prefer in ["handling=strict", "handling=lenient"]:
                parameter = diagnostics[: diagnostics.index(": ")]
                response = fhir.get(f"{path}/_history?{query}", headers={"Prefer": prefer})
                assert_outcome(response, 400, code, diagnostics, parameter)


def test_a_history_is_not_sent_again(fhir):
    for path in [EGG, ALLERGY]:
        response = fhir.get(f"{path}/_history")
        etag = response.headers["ETag"]
        for method in ("GET", "HEAD"):
            again = fhir.request(method, f"{path}/_history", headers={"If-None-Match": etag})
            assert (again.status_code, again.data) == (304, b"")
        assert fhir.get(f"{path}/_history?_count=1").headers["ETag"] != etag
        # A history also changes where a resource is taken out of reach: of that no date tells.
        assert "Last-Modified" not in response.headers


STATUS = "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical"
# The status of each version of a resource, None for a deletion, and what a scope on `active` sees.
CHANGES = [
    (["active", "active"], [2, 1]), (["resolved", "active"], [2]), (["active", "resolved"], []),
    # a deletion has no status: it is seen by whoever saw what it deleted
    (["active", None], [2, 1]), (["resolved", None], []), (["resolved", "active", None], [3, 2]),
    (["active", "resolved", None], []), (["active", None, "active"], [3, 2, 1]),
    (["resolved", None, "active"], [3]), (["active", None, "resolved"], []),
]  # fmt: skip


@pytest.fixture(scope="module")
def changed(make_app):
    """An app where each allergy a0, a1, … went through one of the CHANGES."""
    app = make_app(seed=False)
    for number, (statuses, _) in enumerate(CHANGES):
        for day, status in enumerate(statuses, 1):
            now = f"2026-01-{day:02}T00:00:00.000+00:00"
            if status is None:
                delete(app, ALLERGY, f"a{number}", now=now)
            else:
                coded = {"coding": [{"system": STATUS, "code": status}]}
                entry = allergy(f"a{number}", clinicalStatus=coded, code={"text": now})
                publish(app, entry, now=now)
    return app


def test_a_narrower_scope_sees_a_version_if_it_covers_it_and_what_is_known_now(changed):
    for filters in ["clinical-status=active", "clinical-status:not=resolved"]:
        for number in range(len(CHANGES)):
            statuses, seen = CHANGES[number]
            fhir = Fhir(changed, token_for(changed, f"system/{ALLERGY}.rs?{filters}"))
            path = f"{ALLERGY}/a{number}"
            of_all = fhir.read(f"{ALLERGY}/_history")["entry"]
            own = [entry for entry in of_all if entry["fullUrl"].endswith(f"/{path}")]
            assert versions({"entry": own}) == seen
            if seen:
                assert versions(fhir.read(f"{path}/_history")) == seen
            else:
                diagnostics = f"{path} is not known here."
                assert_outcome(fhir.get(f"{path}/_history"), 404, "not-found", diagnostics)
            expected = {
                f"{path}/_history/{version}": 404 if version not in seen else 200 if status else 410
                for version, status in enumerate(statuses, 1)
            }
            expected[path] = 404 if not seen else 200 if statuses[-1] else 410
            assert {tail: fhir.get(tail).status_code for tail in expected} == expected


def test_a_provenance_has_a_history_for_whoever_sees_the_targets_of_its_newest_version(make_app):
    app = make_app()
    agent = [{"who": {"reference": "Organization/org-lakeside"}}]
    for day, target in enumerate(["al-p4-nkda", "al-p1-latex", "al-p1-sulfa"], 1):
        now = f"2026-01-{day:02}T00:00:00.000+00:00"
        reference = {"reference": f"{ALLERGY}/{target}"}
        provenance = {"resourceType": "Provenance", "id": "moved", "target": [reference]}
        publish(app, {**provenance, "recorded": now, "agent": agent}, now=now)
    delete(app, "Provenance", "moved", now="2026-01-04T00:00:00.000+00:00")
    path = "Provenance/moved/_history"
    system = Fhir(app, token_for(app, "system/*.r"))
    assert versions(system.read(path)) == [4, 3, 2, 1]
    first, fourth = (
        Fhir(app, token_for(app, "patient/*.r", patient=patient)) for patient in ("p1", "p4")
    )
    bundle = first.read(path)
    assert (versions(bundle), bundle["total"]) == ([4, 3, 2], 3)
    assert versions(first.read(f"{path}?_count=1")) == [4]
    assert first.get(f"{path}/1").status_code == 404
    for tail in ("", "/_history", "/_history/1", "/_history/4"):
        assert fourth.get(f"Provenance/moved{tail}").status_code == 404
