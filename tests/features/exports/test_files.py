"""Files of an export: manifest, types, `--since`, and one snapshot."""

from __future__ import annotations

import gzip
import hashlib
import json
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.features.exports.export import ExportOptions, export_to, types_to_export
from tests.support.contract import NOW, allergy, delete, publish
from tests.support.exporting import STORED, TAKEN, export, lines_of

LATER, LAST = "2026-03-01T00:00:00.000+00:00", "2026-04-01T00:00:00.000+00:00"
PATIENT = {"resourceType": "Patient", "id": "p1"}


def ids_of(folder: Path, name: str) -> list[str]:
    """Return the ids of a type's lines, in order."""
    return [resource["id"] for resource in lines_of(folder, name)]


def test_manifest_names_each_file_with_its_lines_and_digest(exported):
    manifest = json.loads((exported / "manifest.json").read_bytes())
    output = manifest.pop("output")
    assert manifest == {
        "transactionTime": "2026-05-01T10:30:00.000+00:00",
        "request": "test",
        "requiresAccessToken": False,
        "deleted": [],
        "error": [],
    }
    for file in output:
        content = (exported / file["url"]).read_bytes()
        lines = [json.loads(line) for line in content.splitlines()]
        assert {line["resourceType"] for line in lines} == {file["type"]}
        assert file["count"] == len(lines)
        assert file["sha256"] == hashlib.sha256(content).hexdigest()
    named = {file["url"] for file in output}
    assert {path.name for path in exported.iterdir()} == {*named, "manifest.json"}
    assert {file["type"] for file in output} == set(STORED)


def test_exported_files_are_readable_by_their_owner_only(exported):
    assert {stat.S_IMODE(path.stat().st_mode) for path in exported.iterdir()} == {0o600}
    assert stat.S_IMODE(exported.stat().st_mode) == 0o700


def test_same_makes_the_same_files_compressed_or_not(filled, exported, tmp_path):
    export(filled, tmp_path / "again")
    for folder in ("one", "other"):
        export(filled, tmp_path / folder, compressed=True)
    for path in exported.iterdir():
        assert (tmp_path / "again" / path.name).read_bytes() == path.read_bytes()
        if path.suffix == ".ndjson":
            packed = (tmp_path / "one" / f"{path.name}.gz").read_bytes()
            assert gzip.decompress(packed) == path.read_bytes()
            assert (tmp_path / "other" / f"{path.name}.gz").read_bytes() == packed


def test_export_of_named_types_has_no_other(filled, tmp_path):
    manifest = export(filled, tmp_path, "Patient", "AllergyIntolerance", "Patient")
    urls = [file.url for file in manifest.files]
    assert urls == ["Patient.ndjson", "AllergyIntolerance.ndjson"]
    assert {path.name for path in tmp_path.iterdir()} == {*urls, "manifest.json"}


def test_export_is_a_snapshot_despite_concurrent_writes(empty, tmp_path):
    publish(empty, PATIENT, now=NOW)
    publish(empty, allergy("a", criticality="low"), allergy("b"), now=NOW)

    def write(done: int, _total: int) -> None:
        if done == 1:
            publish(empty, allergy("a", criticality="high"), allergy("c"), now=LATER)
            delete(empty, "AllergyIntolerance", "b", now=LATER)

    export(empty, tmp_path / "first", progress=write)
    written = lines_of(tmp_path / "first", "AllergyIntolerance")
    assert [(one["id"], one["meta"]["versionId"]) for one in written] == [("a", "1"), ("b", "1")]
    assert written[0]["criticality"] == "low"
    export(empty, tmp_path / "next")
    assert ids_of(tmp_path / "next", "AllergyIntolerance") == ["a", "c"]


def test_export_since_an_instant_includes_that_instant(empty, tmp_path):
    publish(empty, allergy("old"), allergy("changed"), now=NOW)
    publish(empty, allergy("changed", criticality="low"), allergy("new"), now=LATER)
    export(empty, tmp_path / "at", since=LATER)
    assert ids_of(tmp_path / "at", "AllergyIntolerance") == ["changed", "new"]
    manifest = export(empty, tmp_path / "after", since=LAST)
    assert manifest.files == []


def test_export_since_an_instant_lists_deletions_as_transactions(empty, tmp_path):
    publish(empty, allergy("before"), allergy("gone"), allergy("back"), now=NOW)
    publish(empty, PATIENT, now=NOW)
    delete(empty, "AllergyIntolerance", "before", now=NOW)
    for name in ("gone", "back"):
        delete(empty, "AllergyIntolerance", name, now=LATER)
    delete(empty, "Patient", "p1", now=LATER)
    publish(empty, allergy("back"), now=LAST)
    manifest = export(empty, tmp_path, since=LATER)
    assert ids_of(tmp_path, "AllergyIntolerance") == ["back"]
    listed = manifest.files[-1]
    assert (listed.type_name, listed.url, listed.lines) == ("Bundle", "deleted.ndjson", 2)
    assert lines_of(tmp_path, "deleted") == [
        {
            "resourceType": "Bundle",
            "type": "transaction",
            "entry": [{"request": {"method": "DELETE", "url": url}}],
        }
        for url in ("Patient/p1", "AllergyIntolerance/gone")
    ]


def test_export_since_the_transaction_time_of_another_misses_nothing(make_app, tmp_path):
    app = make_app(seed=False)
    with app.app_context():
        served = types()
        wanted = ExportOptions(types_to_export(served, ()))
        publish(app, allergy("before"), now="2026-01-01T00:00:00.000+00:00")
        first = export_to(tmp_path / "first", wanted, served["Binary"], request="test")
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        publish(app, allergy("after"), now=now)
        since = wanted._replace(since=first.transaction_time)
        export_to(tmp_path / "next", since, served["Binary"], request="test")
    assert ids_of(tmp_path / "first", "AllergyIntolerance") == ["before"]
    assert ids_of(tmp_path / "next", "AllergyIntolerance") == ["after"]


def test_transaction_time_is_taken_while_nobody_writes(empty, tmp_path):
    """What is committed after the snapshot was not dated before it: no later --since misses it."""

    def clock() -> datetime:
        with pytest.raises(OperationalError), writing(patience=0.05):
            pytest.fail("another writes")
        return TAKEN

    with empty.app_context():
        served = types()
        wanted = ExportOptions(types_to_export(served, ()))
        made = export_to(tmp_path, wanted, served["Binary"], request="test", clock=clock)
    assert made.transaction_time == "2026-05-01T10:30:00.000+00:00"
