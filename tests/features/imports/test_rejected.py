"""Rejected records: written to a file, to be corrected and imported again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fhirapp.config import settings_of
from fhirapp.features.imports.outputs import Rejects
from fhirapp.features.imports.records import Rejection
from fhirapp.features.imports.report import Report
from tests.support.bundles import asked, bundle, plain
from tests.support.importing import lines, load, write
from tests.support.records import URN, UUID, allergy, patient
from tests.support.stored import current


def rejected_path(report: Report) -> Path:
    """Return the one file of rejected records."""
    (name,) = report.rejected_file.split()
    return Path(name)


def correct(path: Path, **codes: str) -> None:
    """Replace the code x of elements in a file."""
    content = path.read_text()
    for name, code in codes.items():
        for space in ("", " "):
            content = content.replace(f'"{name}":{space}"x"', f'"{name}": "{code}"')
    path.write_text(content)


def test_rejected_lines_are_corrected_and_imported_again(take, empty):
    cut = b'{"resourceType": "Patient", "id": "c"'
    path = rejected_path(take(patient("a"), patient("b", gender="x"), cut))
    assert path == settings_of(empty).instance / "imports" / "1.rejected.ndjson"
    assert path.read_bytes() == lines(patient("b", gender="x"), cut)
    path.write_bytes(path.read_bytes().replace(b'"c"', b'"c"}'))
    correct(path, gender="male")
    assert load(empty, path).complete
    assert current(empty, "Patient") == ["a", "b", "c"]


@pytest.mark.parametrize("prefix", ["", "n-"])
def test_rejected_entry_of_a_bundle_keeps_its_references(take, empty, prefix):
    wrong = allergy(of=f"{URN}01", criticality="x")
    entry = asked("POST", "AllergyIntolerance", wrong, f"{URN}02")
    known = asked("POST", "Patient", patient(), f"{URN}01")
    path = rejected_path(take(bundle("transaction", known, entry), prefix=prefix))
    correct(path, criticality="low")
    again = load(empty, path, prefix=prefix)
    assert not again.kept
    assert again.changes == {"AllergyIntolerance": {"new": 1}}
    assert current(empty, "AllergyIntolerance") == [f"{prefix}{UUID}02"]


def test_rejected_request_is_corrected_and_imported_again(take, empty):
    path = rejected_path(take(bundle("transaction", asked("PATCH", "Patient/a", patient("a")))))
    path.write_bytes(path.read_bytes().replace(b'"PATCH"', b'"PUT"'))
    assert load(empty, path).complete
    assert current(empty, "Patient") == ["a"]


@pytest.mark.parametrize("indent", [None, 1])
def test_record_that_was_rejected_under_a_prefix_gets_it_once(empty, tmp_path, indent):
    wrong = [patient("a", gender="x"), allergy("b", of="Patient/a", criticality="x")]
    waits = allergy("w", recorder={"reference": "Practitioner?identifier=urn:x|1"}, criticality="x")
    contents = [bundle("collection", *map(plain, wrong)), patient("l", gender="x"), waits]
    text = json.dumps(contents, indent=1).encode() if indent else lines(*contents)
    report = load(empty, write(tmp_path, text), prefix="n-")
    assert report.rejected_lines == 4
    path = rejected_path(report)
    correct(path, gender="male", criticality="low")
    load(empty, path, prefix="n-")
    assert current(empty, "Patient") == ["n-a", "n-l"]
    assert current(empty, "AllergyIntolerance") == ["n-b", "n-w"]


def test_rejected_rows_are_written_to_a_table_of_their_own(empty, tmp_path):
    table = (
        b"patient_id,id,substance,criticality\r\n"
        b"one,a,Penicillin,high\r\none,b,Latex,wrong\r\none,c,NKDA,\r\n"
    )
    report = load(empty, write(tmp_path, table, "x.csv"))
    assert report.rejected_lines == 1
    path = rejected_path(report)
    assert path.name == "1.rejected.allergies.csv"
    heading = b"patient_id,id,substance,criticality"
    assert path.read_bytes().splitlines() == [heading, b"one,b,Latex,wrong"]
    path.write_bytes(path.read_bytes().replace(b"wrong", b"low"))
    assert load(empty, path).complete
    assert len(current(empty, "AllergyIntolerance")) == 3


def test_rejected_records_may_be_written_over_the_input(empty, tmp_path, small_batches):
    """The file is longer than one batch."""
    small_batches(30)
    wrong = [patient(f"p{number}", gender="x") for number in range(100)]
    path = write(tmp_path, lines(*wrong), "x.ndjson")
    for correct_count in (0, 99, 0):
        content = path.read_bytes()
        path.write_bytes(content.replace(b'"x"', b'"male"', correct_count))
        load(empty, path, rejected=path)
        expected = content.splitlines(keepends=True)[correct_count:]
        assert path.read_bytes() == b"".join(expected)
    assert len(current(empty, "Patient")) == 99


def test_former_rejected_records_stay_until_the_import_ends(tmp_path):
    path = write(tmp_path, b"former\n", "rejected.ndjson")
    rejected = Rejection("in.ndjson:1", "Patient", [], False, b'{"id": "p2"}', "", b"")
    with Rejects(path) as rejects:
        rejects.add(rejected)
        assert path.read_bytes() == b"former\n"
    assert path.read_bytes() == b'{"id": "p2"}\n'
    assert (rejects.paths, [*tmp_path.iterdir()]) == ([path], [path])
