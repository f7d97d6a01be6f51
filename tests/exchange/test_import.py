"""Importing NDJSON: what is loaded, what is reported, and what a second run does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.config import ConfigurationError
from fhirapp.db import writing
from fhirapp.exchange.imports.report import Report
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import ALLERGY, PATIENT, asking, lines, load_lines, load_paths, nested

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


@pytest.fixture
def load(empty: Flask, tmp_path: Path) -> Callable[..., Report]:
    """Return what imports one file of these resources."""
    return lambda *resources: load_lines(empty, tmp_path, *resources)


def test_a_folder_is_loaded_with_what_lies_below_it_in_the_order_of_references(empty, tmp_path):
    (tmp_path / "below").mkdir()
    (tmp_path / "AllergyIntolerance.ndjson").write_bytes(lines(ALLERGY))
    (tmp_path / "below" / "Patient.ndjson").write_bytes(lines(PATIENT))
    (tmp_path / "notes.txt").write_text("not a record")
    report = load_paths(empty, tmp_path)
    assert list(report.changes) == ["Patient", "AllergyIntolerance"]
    assert report.complete
    assert asking(empty).ids("AllergyIntolerance?patient=one") == ["nuts"]


def test_a_file_named_twice_is_loaded_once(empty, tmp_path):
    path = tmp_path / "Patient.ndjson"
    path.write_bytes(lines(PATIENT))
    assert load_paths(empty, path, tmp_path, path).changes == {"Patient": {"new": 1}}


def test_types_that_are_not_served_are_counted_and_skipped(load):
    location = {"resourceType": "Location", "id": "l"}
    report = load(location, PATIENT, location, {"resourceType": "Nonsense"})
    assert report.skipped == {"Location": 2, "Nonsense": 1}
    assert report.changes == {"Patient": {"new": 1}}
    assert report.complete


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        (b"{", "is not JSON: "),
        (b'{"resourceType": "Patient", "id": "a", "id": "b"}', "is not JSON: the member 'id'"),
        (b'{"resourceType": "Patient", "x": NaN}', "is not JSON: NaN is not JSON"),
        (b'{"resourceType": "Patient", "id": "\xff"}', "is not JSON: "),
        (b"[" * 100_000, "is not JSON"),
        (b'{"x":' * 100_000, "is not JSON"),
        (b'{"resourceType": "Patient", "id": ' + b"9" * 5000 + b"}", "Patient.id: must be a id"),
        (b"[]", "resourceType: is required; each line is a resource"),
        (b'"text"', "resourceType: is required; each line is a resource"),
        (b"{}", "resourceType: is required; each line is a resource"),
        (b'{"resourceType": 7}', "resourceType: is required; each line is a resource"),
        (b'{"resourceType": "Patient"}', "Patient.id: is required"),
        (b'{"resourceType": "Patient", "id": "a b"}', "Patient.id: is not a valid id"),
        (
            b'{"resourceType": "Patient", "id": "a", "gender": "x"}',
            "Patient.gender: must be one of male, female, other, unknown",
        ),
        (
            b'{"resourceType": "Patient", "id": "a", "shoeSize": 40}',
            "Patient.shoeSize: is not an element of FHIR R4 here",
        ),
        (
            b'{"resourceType": "Patient", "id": "a", "name": [{"family": "\\ud800"}]}',
            "Patient.name[0].family",
        ),
        (
            {**PATIENT, "contained": [{"resourceType": "Basic", "id": "c", "x": "\ud800"}]},
            "Patient.contained[0]",
        ),
        (
            {**PATIENT, "identifier": [{"system": "urn:a\0b", "value": "1"}]},
            "Patient.identifier[0].system",
        ),
        (
            b'{"resourceType": "Patient", "id": "a", "extension": [{"url": "u", "valueInteger": '
            + b"9" * 30
            + b"}]}",
            "Patient.extension[0].valueInteger",
        ),
        ({**ALLERGY, "reaction": [None]}, "AllergyIntolerance.reaction[0]"),
        ({**PATIENT, "name": [None]}, "Patient.name[0]"),
        ({**ALLERGY, "code": {"coding": [None]}}, "AllergyIntolerance.code.coding[0]"),
        ({**PATIENT, "contained": [nested(300)]}, "Patient.contained[0]"),
    ],
)
def test_a_line_that_is_wrong_is_reported_with_its_place_and_the_others_are_loaded(
    kept, tmp_path, line, fault
):
    report = load_lines(kept, tmp_path, PATIENT, line, ALLERGY)
    assert [one[: len(f"{tmp_path}/records.ndjson:2: {fault}")] for one in report.rejected] == [
        f"{tmp_path}/records.ndjson:2: {fault}"
    ]
    assert report.rejected_lines == 1
    assert not report.complete
    # New in the first case, and the same in the others.
    assert {name: counts.total() for name, counts in report.changes.items()} == {
        "Patient": 1,
        "AllergyIntolerance": 1,
    }
    assert asking(kept).get("AllergyIntolerance/nuts").status_code == 200


@pytest.mark.parametrize(
    "value",
    [
        b"123456789012345678901234567890",
        b"0.10000000000000000000000000000000000001",
        b"1E+400",
        b"-0.0",
        b"5.00",
    ],
)
def test_a_decimal_of_any_size_is_kept_to_the_digit(kept, tmp_path, value):
    line = b'{"resourceType":"Patient","id":"d","extension":[{"url":"u","valueDecimal":%s}]}'
    assert load_lines(kept, tmp_path, line % value).complete
    assert b'"valueDecimal": ' + value + b"\n" in asking(kept).get("Patient/d").data


def test_every_fault_of_a_line_is_reported(kept, tmp_path):
    report = load_lines(
        kept, tmp_path, {**ALLERGY, "type": "x", "criticality": "y", "shoeSize": 1, "id": "a b"}
    )
    paths = sorted(one.split(": ")[1].partition(".")[2] for one in report.rejected)
    assert paths == ["criticality", "id", "shoeSize", "type"]
    assert report.rejected_lines == 1


def test_what_is_missing_and_what_is_wrong_are_reported_together(kept, tmp_path):
    report = load_lines(kept, tmp_path, {"resourceType": "AllergyIntolerance", "type": "x"})
    paths = sorted(one.split(": ")[1].partition(".")[2] for one in report.rejected)
    assert paths == ["id", "patient", "type"]


def test_the_same_again_makes_no_new_version(load, empty):
    resources = (PATIENT, ALLERGY)
    load(*resources)
    before = asking(empty).get("AllergyIntolerance/nuts").data
    report = load(*resources)
    assert report.changes == {"Patient": {"same": 1}, "AllergyIntolerance": {"same": 1}}
    assert asking(empty).get("AllergyIntolerance/nuts").data == before


def test_the_order_of_members_and_the_sources_own_version_make_no_new_version(load):
    load({**PATIENT, "gender": "female", "active": True})
    meta = {"versionId": "77", "lastUpdated": "2020-01-01T00:00:00Z"}
    report = load({"active": True, "gender": "female", **PATIENT, "meta": meta})
    assert report.changes == {"Patient": {"same": 1}}


def test_a_changed_line_makes_the_next_version_and_the_old_one_stays(load, empty):
    load(PATIENT, {**ALLERGY, "criticality": "low"})
    fhir = asking(empty)
    first = fhir.get("AllergyIntolerance/nuts").data
    report = load(PATIENT, {**ALLERGY, "criticality": "high"})
    assert report.changes == {"Patient": {"same": 1}, "AllergyIntolerance": {"changed": 1}}
    assert fhir.read("AllergyIntolerance/nuts")["meta"]["versionId"] == "2"
    assert fhir.get("AllergyIntolerance/nuts/_history/1").data == first
    assert fhir.ids("AllergyIntolerance?criticality=low") == []
    assert fhir.ids("AllergyIntolerance?criticality=high") == ["nuts"]


def test_an_id_that_stands_twice_becomes_two_versions_in_the_files_order(load, empty):
    load(PATIENT, {**ALLERGY, "criticality": "low"}, {**ALLERGY, "criticality": "high"})
    fhir = asking(empty)
    assert fhir.read("AllergyIntolerance/nuts/_history/1")["criticality"] == "low"
    assert fhir.read("AllergyIntolerance/nuts")["criticality"] == "high"
    assert fhir.ids("AllergyIntolerance?patient=one") == ["nuts"]


def test_that_order_holds_where_the_first_line_has_to_wait_for_a_reference(load, empty):
    waits = {**ALLERGY, "criticality": "low", "recorder": {"reference": "Practitioner?_id=dr"}}
    load(PATIENT, waits, {**ALLERGY, "criticality": "high"})
    assert asking(empty).read("AllergyIntolerance/nuts")["criticality"] == "high"


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf" + lines(PATIENT, ALLERGY),
        lines(PATIENT, ALLERGY).replace(b"\n", b"\r\n"),
        b"\n\n" + lines(PATIENT, b"   ", ALLERGY) + b"\n",
        lines(PATIENT, ALLERGY).rstrip(b"\n"),
    ],
    ids=["byte order mark", "CRLF", "blank lines", "no last line end"],
)
def test_files_as_people_save_them_are_read(empty, tmp_path, content):
    path = tmp_path / "records.ndjson"
    path.write_bytes(content)
    report = load_paths(empty, path)
    assert report.complete
    assert set(report.changes) == {"Patient", "AllergyIntolerance"}


def test_blank_lines_count_for_the_place_of_a_fault(empty, tmp_path):
    path = tmp_path / "records.ndjson"
    path.write_bytes(b"\n\n{\n")
    assert load_paths(empty, path).rejected[0].startswith(f"{path}:3: is not JSON")


def test_an_empty_file_holds_nothing_and_is_no_fault(empty, tmp_path):
    path = tmp_path / "records.ndjson"
    path.write_bytes(b"")
    report = load_paths(empty, path)
    assert report.complete
    assert report.changes == {}


def test_a_path_that_is_not_there_stops_the_import_before_it_begins(empty, tmp_path):
    good = tmp_path / "good.ndjson"
    good.write_bytes(lines(PATIENT))
    with pytest.raises(ConfigurationError, match=r"There is no file or folder .*missing\.$"):
        load_paths(empty, good, tmp_path / "missing")
    assert asking(empty).get("Patient/one").status_code == 404
    (tmp_path / "hollow").mkdir()
    with pytest.raises(ConfigurationError, match=r"The folder .*hollow is empty\."):
        load_paths(empty, tmp_path / "hollow")


def test_a_batch_that_fails_leaves_nothing_half_written(load, empty):
    load(PATIENT)
    with empty.app_context(), writing() as connection:
        # Whatever goes wrong in the database, here a trigger, undoes the whole batch.
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(
                "CREATE TRIGGER full BEFORE INSERT ON allergy_intolerance_reference"
                " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
        else:
            connection.exec_driver_sql(
                "ALTER TABLE allergy_intolerance_reference ADD CHECK (FALSE)"
            )
    changed = {**PATIENT, "gender": "male"}
    with pytest.raises(Exception, match=r"disk full|violates check"):
        load(changed, {**ALLERGY, "recorder": {"reference": "Practitioner/dr"}})
    fhir = asking(empty)
    assert fhir.read("Patient/one")["meta"]["versionId"] == "1"
    assert fhir.get("AllergyIntolerance/nuts").status_code == 404
