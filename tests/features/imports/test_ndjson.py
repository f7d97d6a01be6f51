"""Imports of NDJSON: faults of lines, versions of a record, the forms of a file."""

from __future__ import annotations

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.db import writing
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import asking, lines, load, load_lines, write
from tests.support.records import ALLERGY, PATIENT, nested, patient
from tests.support.stored import current

FAULTS = {
    b"{": "is not JSON: ",
    b'{"resourceType": "Patient", "id": "a", "id": "b"}': "is not JSON: the member 'id'",
    b'{"resourceType": "Patient", "x": NaN}': "is not JSON: NaN is not JSON",
    b'{"resourceType": "Patient", "id": "\xff"}': "is not JSON: ",
    b"[" * 100_000: "is not JSON",
    b'{"x":' * 100_000: "is not JSON",
    b'{"resourceType": "Patient", "id": ' + b"9" * 5000 + b"}": "Patient.id: must be a id",
    b"[]": "resourceType: is required; each line is a resource",
    b'"text"': "resourceType: is required",
    b"{}": "resourceType: is required",
    b'{"resourceType": 7}': "resourceType: is required",
    lines(patient()): "Patient.id: is required",
    lines(patient("a b")): "Patient.id: is not a valid id",
    lines(patient("a", gender="x")): "Patient.gender: must be one of male, female, other, unknown",
    lines(patient("a", shoeSize=40)): "Patient.shoeSize: is not an element of FHIR R4 here",
    lines(patient("a", name=[{"family": "\ud800"}])): "Patient.name[0].family",
    lines(patient("a", contained=[{"resourceType": "Basic", "id": "c", "x": "\ud800"}])): (
        "Patient.contained[0]"
    ),
    lines(patient("a", identifier=[{"system": "urn:a\0b", "value": "1"}])): (
        "Patient.identifier[0].system"
    ),
    lines(patient("a", extension=[{"url": "u", "valueInteger": int("9" * 30)}])): (
        "Patient.extension[0].valueInteger"
    ),
    lines({**ALLERGY, "reaction": [None]}): "AllergyIntolerance.reaction[0]",
    lines(patient("a", name=[None])): "Patient.name[0]",
    lines({**ALLERGY, "code": {"coding": [None]}}): "AllergyIntolerance.code.coding[0]",
    lines(patient("a", contained=[nested(300)])): "Patient.contained[0]",
}


def test_invalid_line_is_reported_with_its_place_and_the_others_are_imported(empty, tmp_path):
    for place, line in enumerate(FAULTS):
        content = lines(patient(f"p{place}"), line.rstrip(b"\n"), {**ALLERGY, "id": f"a{place}"})
        write(tmp_path, content, f"{place}.ndjson")
    report = load(empty, tmp_path)
    found = {fault.place: str(fault) for fault in report.faults}
    for place, (line, fault) in enumerate(FAULTS.items()):
        place_of_line = f"{tmp_path}/{place}.ndjson:2"
        assert found.pop(place_of_line).startswith(f"{place_of_line}: {fault}"), line[:80]
    assert found == {}
    assert (report.rejected_lines, report.complete) == (len(FAULTS), False)
    for type_name, letter in (("Patient", "p"), ("AllergyIntolerance", "a")):
        expected = sorted(f"{letter}{place}" for place in range(len(FAULTS)))
        assert current(empty, type_name) == expected


def test_every_fault_of_a_line_is_reported(module_app, tmp_path):
    for resource, expected in (
        (
            {**ALLERGY, "type": "x", "criticality": "y", "shoeSize": 1, "id": "a b"},
            ["criticality", "id", "shoeSize", "type"],
        ),
        ({"resourceType": "AllergyIntolerance", "type": "x"}, ["id", "patient", "type"]),
    ):
        report = load_lines(module_app, tmp_path, resource)
        assert sorted(fault.path.partition(".")[2] for fault in report.faults) == expected
        assert report.rejected_lines == 1


def test_decimals_keep_their_digits(module_app, tmp_path):
    for value in (
        b"123456789012345678901234567890",
        b"0.10000000000000000000000000000000000001",
        b"1E+400",
        b"-0.0",
        b"5.00",
    ):
        line = b'{"resourceType":"Patient","id":"d","extension":[{"url":"u","valueDecimal":%s}]}'
        assert load_lines(module_app, tmp_path, line % value).complete
        assert b'"valueDecimal": ' + value + b"\n" in asking(module_app).get("Patient/d").data


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_same_content_makes_no_version_and_other_content_the_next(take, empty):
    female = {**PATIENT, "gender": "female", "active": True}
    take(female, {**ALLERGY, "criticality": "low"})
    fhir = asking(empty)
    first = fhir.get("AllergyIntolerance/nuts").data
    # The order of members and the source's own version are not content.
    meta = {"versionId": "77", "lastUpdated": "2020-01-01T00:00:00Z"}
    female = {"active": True, "gender": "female", **PATIENT, "meta": meta}
    same = take(female, {**ALLERGY, "criticality": "low"})
    assert same.changes == {"Patient": {"same": 1}, "AllergyIntolerance": {"same": 1}}
    assert fhir.get("AllergyIntolerance/nuts").data == first
    changed = take(female, {**ALLERGY, "criticality": "high"})
    assert changed.changes == {"Patient": {"same": 1}, "AllergyIntolerance": {"changed": 1}}
    assert fhir.read("AllergyIntolerance/nuts")["meta"]["versionId"] == "2"
    assert fhir.get("AllergyIntolerance/nuts/_history/1").data == first
    assert fhir.ids("AllergyIntolerance?criticality=low") == []
    assert fhir.ids("AllergyIntolerance?criticality=high") == ["nuts"]


def test_byte_order_mark_line_ends_and_blank_lines_are_read(import_file):
    records = lines(PATIENT, ALLERGY)
    for content in (
        b"\xef\xbb\xbf" + records,
        records.replace(b"\n", b"\r\n"),
        b"\n\n" + lines(PATIENT, b"   ", ALLERGY) + b"\n",
        records.rstrip(b"\n"),
    ):
        report = import_file(content, "records.ndjson")
        assert report.complete
        assert report.changes.keys() == {"Patient", "AllergyIntolerance"}
    assert import_file(b"\n\n{\n", "records.ndjson").faults[0].place.endswith(".ndjson:3")


def test_missing_path_or_empty_folder_stops_the_import_before_it_begins(empty, tmp_path):
    good = write(tmp_path, lines(PATIENT), "good.ndjson")
    (tmp_path / "hollow").mkdir()
    for path, reason in (("missing", "no file or folder .*missing"), ("hollow", "hollow is empty")):
        with pytest.raises(ConfigurationError, match=reason):
            load(empty, good, tmp_path / path)
    assert asking(empty).get("Patient/one").status_code == 404


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_batch_that_fails_in_the_database_is_undone_as_a_whole(take, empty):
    take(PATIENT)
    with empty.app_context(), writing() as connection:
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(
                "CREATE TRIGGER full BEFORE INSERT ON allergy_intolerance_reference"
                " BEGIN SELECT RAISE(ABORT, 'disk full'); END"
            )
        else:
            connection.exec_driver_sql(
                "ALTER TABLE allergy_intolerance_reference ADD CHECK (FALSE)"
            )
    with pytest.raises(Exception, match=r"disk full|violates check"):
        take(
            {**PATIENT, "gender": "male"},
            {**ALLERGY, "recorder": {"reference": "Practitioner/dr"}},
        )
    fhir = asking(empty)
    assert fhir.read("Patient/one")["meta"]["versionId"] == "1"
    assert fhir.get("AllergyIntolerance/nuts").status_code == 404
