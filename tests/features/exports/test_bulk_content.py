"""Content of an export: one snapshot, levels, filters and deletions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from flask import Flask

from tests.resources.test_everything import record
from tests.support.bulk import EXPORTED, OF_PATIENTS, Exports, Name, path_of
from tests.support.contract import SERVED, allergy, delete, fill, publish, targets, versions_held
from tests.support.evaluator import covered
from tests.support.operations import parameters, patient_named

GROUP = "Group/grp-allergy-clinic/$export"
# Current members: another's period has ended, and one is inactive.
MEMBERS = ("p1", "p2", "p8")
LATER = "2026-03-02T00:00:00.000+00:00"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app that holds resources of every type, deleted ones too, and a small export's page."""
    app = make_app()
    fill(app)
    return app


@pytest.fixture(autouse=True)
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fhirapp.features.exports.selection.PAGE", 4)
    monkeypatch.setattr("fhirapp.features.exports.selection._WINDOW", 7)
    monkeypatch.setattr("fhirapp.features.exports.kickoff.BATCH", 2)


@pytest.fixture
def exports(app: Flask) -> Exports:
    return Exports(app)


def patients(*ids: str) -> dict[str, Any]:
    """Return the body of a kick-off that names patients."""
    return parameters(
        *(
            ("patient", "valueReference", {"reference": f"Patient/{patient_id}"})
            for patient_id in ids
        )
    )


def of(app: Flask, *ids: str) -> set[Name]:
    """Return the resources of patients, and their Provenance."""
    held = {
        (name, row_id): versions[-1]
        for name, rows in versions_held(app).items()
        for row_id, versions in rows.items()
        if versions[-1] is not None
    }
    own = set().union(*(record(held, patient_id) for patient_id in ids)) & held.keys()
    named = {*own}
    about = {
        name
        for name, resource in held.items()
        if name[0] == "Provenance" and named & {*targets(resource)}
    }
    return own | about


def test_exported_line_equals_the_read_resource(exports):
    manifest = exports.done()
    for file in manifest["output"]:
        for line in exports.get(path_of(file["url"])).data.splitlines():
            row_id = line.partition(b'"id": "')[2].partition(b'"')[0].decode()
            read = exports.get(f"{file['type']}/{row_id}?_pretty=false")
            assert line == read.data


def test_patient_export_has_all_resources_of_the_compartments(app, exports):
    own = of(app, *_all_patients(app))
    expected = {name: resource for name, resource in exports.exported().items() if name in own}
    assert exports.exported("Patient/$export") == expected
    assert {name for name, _ in expected} == {*OF_PATIENTS}


def _all_patients(app: Flask) -> set[str]:
    return {
        str(versions[-1]["id"])
        for versions in versions_held(app)["Patient"].values()
        if versions[-1]
    }


def test_resource_without_patient_is_only_in_a_system_export(make_app):
    app = make_app(seed=False)
    visit = {"resourceType": "Encounter", "id": "test", "status": "planned"}
    publish(app, {**visit, "class": {"code": "AMB"}}, now=LATER)
    exports = Exports(app)
    assert exports.exported().keys() == {("Encounter", "test")}
    assert exports.exported("Patient/$export") == {}


@pytest.mark.parametrize("ids", [("p1",), ("p2", "p5", "p1"), ("p11",), ("p1", "p1")])
def test_patients_who_are_named_are_exported_and_no_others(app, exports, ids):
    found = exports.exported("Patient/$export", patients(*ids))
    assert found.keys() == of(app, *ids)


def test_group_is_the_records_of_its_members(app, exports):
    assert exports.exported(GROUP).keys() == of(app, *MEMBERS)
    assert exports.exported(GROUP, patients("p8", "p2")).keys() == of(app, "p2", "p8")


def test_unknown_patients_of_an_export_are_refused(exports, subtests):
    for path, ids, reason in [
        (GROUP, ("p1", "p3"), "names a patient who is not a member of the group"),
        (GROUP, ("nobody",), "names a patient who is not a member of the group"),
        ("Patient/$export", ("p1", "nobody"), "names a patient who is not known here"),
        ("$export", ("p1",), "does not go with an export of the whole server"),
        ("Patient/$export", ("a_b",), "is not a reference to a patient here; use Patient/<id>"),
    ]:
        with subtests.test(path=path):
            response = exports.kick_off(path, patients(*ids))
            assert response.status_code == 400
            issue = response.get_json(force=True)["issue"][0]
            assert (issue["code"], issue["diagnostics"]) == ("value", f"patient: {reason}")


def test_group_without_members_is_reported(exports):
    manifest = exports.done("Group/grp-newborns/$export")
    assert manifest["output"] == []
    (outcome,) = exports.lines(manifest, "error")
    assert outcome["issue"] == [
        {
            "severity": "information",
            "code": "informational",
            "diagnostics": "The group has no members who are patients on this server",
        }
    ]


def test_group_without_members_has_no_deletions(exports):
    assert exports.done("$export?_since=2020")["deleted"] != []
    manifest = exports.done("Group/grp-newborns/$export?_since=2020")
    assert manifest["output"] == manifest["deleted"] == []


@pytest.mark.parametrize(
    ("level", "since"),
    [
        ("$export", "2024-01-30T11:05:00Z"),
        ("Patient/$export", "2026-01-31T00:00:00+02:00"),
        (GROUP, "2023"),
    ],
)
def test_export_since_a_time_has_changes_and_deletions(app, exports, level, since):
    start = covered(since)[0]
    whole = exports.exported(level)
    manifest = exports.done(f"{level}?_since={since.replace('+', '%2B')}")
    lines = exports.lines(manifest)
    found = {(resource["resourceType"], resource["id"]): resource for resource in lines}
    assert found == {
        name: resource
        for name, resource in whole.items()
        if covered(resource["meta"]["lastUpdated"])[0] > start
    }
    bundles = exports.lines(manifest, "deleted")
    assert {bundle["type"] for bundle in bundles} <= {"transaction"}
    entries = [entry for bundle in bundles for entry in bundle["entry"]]
    assert {entry["request"]["method"] for entry in entries} <= {"DELETE"}
    gone = [entry["request"]["url"] for entry in entries]
    assert len(gone) == len({*gone})
    assert {*gone} == deleted_since(exports, level, start)
    assert not {*gone} & {f"{name}/{row_id}" for name, row_id in whole}


def deleted_since(exports: Exports, level: str, start: datetime) -> set[str]:
    """Return the deletions of a level after a time, by the histories."""
    ids = set(MEMBERS) if level == GROUP else None
    found = set()
    for name, rows in versions_held(exports.app).items():
        if name not in (EXPORTED if level == "$export" else OF_PATIENTS):
            continue
        for row_id, versions in rows.items():
            if versions[-1] is not None:
                continue
            before = next(version for version in reversed(versions) if version)
            newest = exports.read(f"{name}/{row_id}/_history")["entry"][0]
            when = covered(newest["response"]["lastModified"])[0]
            if when > start and (ids is None or _is_of(exports.app, name, before, ids)):
                found.add(f"{name}/{row_id}")
    return found


def _is_of(app: Flask, name: str, resource: dict[str, Any], ids: set[str]) -> bool:
    """Return whether a deleted resource belonged to one of these patients."""
    if name == "Provenance":
        return bool({*targets(resource)} & of(app, *ids))
    if SERVED[name].compartment == "id":
        return resource["id"] in ids
    reference = resource[SERVED[name].compartment]["reference"]
    return reference.removeprefix("Patient/") in ids


def test_export_until_a_time_has_what_changed_last_before_it(exports):
    until = covered("2024-01-01")[0]
    whole = exports.exported()
    found = exports.exported("$export?_until=2024-01-01")
    assert found == {
        name: resource
        for name, resource in whole.items()
        if covered(resource["meta"]["lastUpdated"])[0] <= until
    }
    assert 0 < len(found) < len(whole)


@pytest.mark.parametrize(
    "queries",
    [
        ("AllergyIntolerance?clinical-status=active",),
        ("AllergyIntolerance?clinical-status=active", "AllergyIntolerance?criticality=high"),
        ("AllergyIntolerance?criticality=high,low", "Patient?gender=female"),
        ("Patient?name=okafor&gender=male", "Patient?_id=p1"),
        ("DocumentReference?type=18842-5", "Encounter?date=2024"),
        ("DocumentReference?_content=penicillin", "DocumentReference?patient=p1"),
        ("AllergyIntolerance?code:text=pen", "AllergyIntolerance?code:not=x"),
        ("Provenance?target=AllergyIntolerance/al-p4-nkda",),
        ("Patient?_lastUpdated=ge2024", "Patient?identifier:missing=true"),
        ("Patient?name=nobody",),
    ],
)
def test_type_filter_is_a_search_and_several_of_a_type_add_up(exports, queries):
    types = {query.partition("?")[0] for query in queries}
    path = f"$export?_type={','.join(sorted(types))}"
    expected = {}
    for query in queries:
        expected.update(exports.searched(query))
    together = ",".join(queries).replace("&", "%26")
    assert exports.exported(f"{path}&_typeFilter={together}") == expected
    each = "".join(f"&_typeFilter={query.replace('&', '%26')}" for query in queries)
    body = parameters(
        ("_type", "valueString", ",".join(types)),
        *(("_typeFilter", "valueString", query) for query in queries),
    )
    assert exports.exported(path + each) == exports.exported("$export", body) == expected


def test_types_without_a_filter_come_whole(exports):
    found = exports.exported(
        "$export?_type=Patient,AllergyIntolerance&_typeFilter=Patient?gender=female"
    )
    assert {name for name in found if name[0] == "AllergyIntolerance"} == {
        *exports.searched("AllergyIntolerance")
    }
    females = {*exports.searched("Patient?gender=female")}
    assert {name for name in found if name[0] == "Patient"} == females


def test_elements_are_a_part_of_the_resources_and_say_so(exports):
    found = exports.exported("$export?_type=Patient,Encounter&_elements=Patient.gender,identifier")
    for (name, row_id), resource in found.items():
        wanted = "identifier,gender" if name == "Patient" else "identifier"
        assert resource == exports.read(f"{name}/{row_id}?_elements={wanted}")
        assert resource["meta"]["tag"][-1]["code"] == "SUBSETTED"


def test_elements_of_one_type_leave_the_others_whole(exports):
    found = exports.exported("$export?_type=Patient,Encounter&_elements=Patient.gender")
    assert {"name" in resource for (name, _), resource in found.items() if name == "Patient"} == {
        False
    }
    assert {
        "class" in resource for (name, _), resource in found.items() if name == "Encounter"
    } == {True}


# One instant, though writing goes on.


@pytest.fixture
def moving(make_app: Callable[..., Flask]) -> Exports:
    """A client of an app of its own, that holds twenty allergies and their origins."""
    app = make_app(seed=False)
    publish(app, patient_named("p1"), now="2026-03-01T00:00:00.000+00:00")
    for number in range(20):
        publish(app, allergy(f"a{number:02}"), now=f"2026-03-01T00:00:{number:02}.000+00:00")
    for number in range(0, 20, 2):
        publish(app, origin(number, f"a{number:02}"), now="2026-03-01T00:01:00.000+00:00")
    return Exports(app)


def origin(number: int, target: str) -> dict[str, Any]:
    """Return the Provenance of an allergy."""
    return {
        "resourceType": "Provenance",
        "id": f"o{number:02}",
        "target": [{"reference": f"AllergyIntolerance/{target}"}],
        "recorded": "2024-05-02T10:00:00+00:00",
        "agent": [{"who": {"display": "Somebody"}}],
    }


def changes(app: Flask) -> Iterator[None]:
    """Change, add and delete something at each step."""
    for number in range(20):
        row_id = f"a{(7 * number) % 20:02}"
        if number % 3:
            publish(app, allergy(row_id, criticality="high"), now=LATER)
        else:
            delete(app, "AllergyIntolerance", row_id, now=LATER)
        publish(app, allergy(f"new{number}"), now=LATER)
        # Until now its target was not here, so that nobody saw it.
        publish(app, origin(50 + number, f"new{number}"), now=LATER)
        yield


QUERIES = (
    "$export",
    "Patient/$export",
    "$export?_typeFilter=AllergyIntolerance?criticality:missing=true",
    "$export?_since=2026-03-01T00:00:05Z",
)


@pytest.mark.parametrize("path", QUERIES)
def test_export_is_of_one_instant_though_writing_goes_on(moving, path):
    publish(moving.app, origin(99, "new3"), now="2026-03-01T00:02:00.000+00:00")
    still = moving.exported(path)
    assert ("Provenance", "o99") not in still
    status = moving.started(path)
    steps = changes(moving.app)

    assert moving.work(on_page=lambda: next(steps, None)) == 1
    manifest = moving.manifest(status)
    lines = moving.lines(manifest)
    assert {(resource["resourceType"], resource["id"]): resource for resource in lines} == still
    assert manifest["deleted"] == []
    assert moving.exported(path) != still


@pytest.mark.parametrize("scope", ["system/AllergyIntolerance.rs?criticality=high"])
def test_export_narrowed_by_a_scope_is_of_one_instant(moving, scope):
    publish(moving.app, allergy("a03", criticality="high"), now="2026-03-01T00:03:00.000+00:00")
    narrow = Exports(moving.app, scope)
    status = narrow.started()
    steps = changes(moving.app)
    assert narrow.work(on_page=lambda: next(steps, None)) == 1
    assert [resource["id"] for resource in narrow.lines(narrow.manifest(status))] == ["a03"]


def test_export_since_the_last_export_misses_nothing(moving):
    first = moving.done()
    seen = {resource["id"]: resource["meta"]["versionId"] for resource in moving.lines(first)}
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    publish(moving.app, allergy("a01", criticality="low"), now=now)
    publish(moving.app, allergy("later"), now=now)
    delete(moving.app, "AllergyIntolerance", "a02", now=now)
    time = first["transactionTime"].replace("+", "%2B")
    following = moving.done(f"$export?_since={time}")
    assert {resource["id"] for resource in moving.lines(following)} == {"a01", "later"}
    (bundle,) = moving.lines(following, "deleted")
    assert bundle["entry"] == [{"request": {"method": "DELETE", "url": "AllergyIntolerance/a02"}}]
    assert {"a01", "a02"} <= seen.keys()


def test_deleted_and_recreated_resource_is_not_listed_as_deleted(moving):
    delete(moving.app, "AllergyIntolerance", "a05", now=LATER)
    publish(moving.app, allergy("a05"), now="2026-03-03T00:00:00.000+00:00")
    manifest = moving.done("$export?_since=2026-03-01T12:00:00Z")
    assert [resource["id"] for resource in moving.lines(manifest)] == ["a05"]
    assert manifest["deleted"] == []


def test_long_file_is_followed_by_another(moving, monkeypatch):
    whole = moving.exported()
    monkeypatch.setattr("fhirapp.features.exports.files.LONGEST_FILE", 2_000)
    manifest = moving.done()
    urls = [file["url"].rpartition("/")[2] for file in manifest["output"]]
    assert {"AllergyIntolerance.1.ndjson", "AllergyIntolerance.2.ndjson"} <= {*urls}
    found = {
        (resource["resourceType"], resource["id"]): resource for resource in moving.lines(manifest)
    }
    assert found == whole
