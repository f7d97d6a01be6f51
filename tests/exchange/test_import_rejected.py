"""What was refused: kept to be mended and imported again."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.importing import (
    URN,
    UUID,
    allergy,
    asked,
    bundle,
    current,
    lines,
    load,
    patient,
    plain,
    write,
)

HOSTILE = '<script>alert("x")</script>'


# What was refused.


def refused(report: Any) -> list[Path]:
    """Return the files of what was refused."""
    return [Path(name) for name in report.rejected_file.split()]


def test_lines_that_were_refused_are_mended_and_imported_again(take, empty):
    report = take(patient("a"), patient("b", gender="x"), b'{"resourceType": "Patient", "id": "c"')
    (path,) = refused(report)
    assert path == Path(empty.config["FHIRAPP"].instance) / "imports" / "1.rejected.ndjson"
    assert path.read_bytes() == lines(
        patient("b", gender="x"), b'{"resourceType": "Patient", "id": "c"'
    )
    mended = path.read_bytes().replace(b'"x"', b'"male"').replace(b'"c"', b'"c"}')
    path.write_bytes(mended)
    assert load(empty, path).complete
    assert current(empty, "Patient") == ["a", "b", "c"]


def of_bundle(entry: Any) -> dict[str, Any]:
    """Return a transaction with an entry that is wrong, and what it refers to."""
    return bundle("transaction", asked("POST", "Patient", patient(), f"{URN}01"), entry)


@pytest.mark.parametrize("prefix", ["", "n-"])
def test_an_entry_that_was_refused_keeps_what_it_referred_to(take, empty, prefix):
    wrong = allergy(of=f"{URN}01", criticality="wrong")
    entry = asked("POST", "AllergyIntolerance", wrong, f"{URN}02")
    report = take(of_bundle(entry), prefix=prefix)
    (path,) = refused(report)
    path.write_bytes(path.read_bytes().replace(b'"wrong"', b'"low"'))
    again = load(empty, path, prefix=prefix)
    assert not again.kept
    assert again.changes == {"AllergyIntolerance": {"new": 1}}
    assert current(empty, "AllergyIntolerance") == [f"{prefix}{UUID}02"]


def test_a_request_that_was_refused_is_mended_and_imported_again(take, empty):
    report = take(bundle("transaction", asked("PATCH", "Patient/a", patient("a"))))
    (path,) = refused(report)
    path.write_bytes(path.read_bytes().replace(b'"PATCH"', b'"PUT"'))
    assert load(empty, path).complete
    assert current(empty, "Patient") == ["a"]


@pytest.mark.parametrize("pretty", [False, True])
def test_what_was_refused_under_a_prefix_gets_it_once(empty, tmp_path, pretty):
    wrong = [patient("a", gender="x"), allergy("b", of="Patient/a", criticality="x")]
    waits = allergy("w", recorder={"reference": "Practitioner?identifier=urn:x|1"}, criticality="x")
    contents = [bundle("collection", *map(plain, wrong)), wrong[0] | {"id": "l"}, waits]
    text = json.dumps(contents, indent=1).encode() if pretty else lines(*contents)
    report = load(empty, write(tmp_path, text), prefix="n-")
    assert report.rejected_lines == 4
    (path,) = refused(report)
    content = re.sub(rb'"gender": ?"x"', b'"gender": "male"', path.read_bytes())
    path.write_bytes(re.sub(rb'"criticality": ?"x"', b'"criticality": "low"', content))
    load(empty, path, prefix="n-")
    assert current(empty, "Patient") == ["n-a", "n-l"]
    assert current(empty, "AllergyIntolerance") == ["n-b", "n-w"]


def test_rows_that_were_refused_are_mended_in_a_table_of_their_own(empty, tmp_path):
    table = (
        b"patient_id,id,substance,criticality\r\n"
        b"one,a,Penicillin,high\r\none,b,Latex,wrong\r\none,c,NKDA,\r\n"
    )
    report = load(empty, write(tmp_path, table, "x.csv"))
    assert report.rejected_lines == 1
    (path,) = refused(report)
    assert path.name == "1.rejected.allergies.csv"
    assert path.read_bytes().splitlines() == [
        b"patient_id,id,substance,criticality",
        b"one,b,Latex,wrong",
    ]
    path.write_bytes(path.read_bytes().replace(b"wrong", b"low"))
    assert load(empty, path).complete
    assert len(current(empty, "AllergyIntolerance")) == 3


def test_what_is_rejected_again_is_written_to_another_file(take, empty, tmp_path):
    """The file that is mended is imported, and what is wrong still is written to the next one."""
    first, second = tmp_path / "first.ndjson", tmp_path / "second.ndjson"
    take(*(patient(f"p{number}", gender="x") for number in range(3)), rejected=first)
    content = first.read_bytes()
    first.write_bytes(content.replace(b'"x"', b'"male"', 1))
    load(empty, first, rejected=second)
    assert current(empty, "Patient") == ["p0"]
    assert second.read_bytes() == b"".join(content.splitlines(keepends=True)[1:])
