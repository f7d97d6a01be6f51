"""Exports of a part of a source: nothing is deleted for what one of them lacks."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.features.imports.deletions import partial_export_reason
from tests.support.bulk_server import EXPORT, BulkServer, file, running
from tests.support.importing import lines, load, write
from tests.support.key_server import ok
from tests.support.records import allergy, patient
from tests.support.stored import current, stored

ALL = lines(patient("one"), allergy("a"), allergy("b"), allergy("c"))
PART = lines(patient("one"), allergy("a"), allergy("b"))
ENDS = "Nothing was imported."
ABC, AB = ["a", "b", "c"], ["a", "b"]


def export(folder: Path, request: Any, content: bytes = PART) -> Path:
    """Write a folder as an export leaves it."""
    write(folder, content, "Records.ndjson")
    manifest = {"output": [{"type": "Patient", "url": "Records.ndjson"}], "request": request}
    write(folder, manifest, "manifest.json")
    return folder


def test_reason_why_an_export_is_partial():
    base = "https://ehr.example/fhir"
    expected: dict[Any, str] = {
        f"{base}/$export": "",
        f"{base}/%24export?_outputFormat=ndjson": "",
        "fhirapp export": "",
        "fhirapp export --history --gzip": "",
        f"{base}/$export?_type=Patient": "requested with _type",
        f"{base}/$export?%5Fsince=2026": "requested with _since",
        f"{base}/$export?_typeFilter=Patient%3F_id%3D1": "with _typeFilter",
        f"{base}/$export?_elements=id": "requested with _elements",
        f"{base}/$export?patient=Patient/1": "requested with patient",
        f"{base}/Patient/$export": "requested with Patient/…$export",
        f"{base}/Group/g/$export?_since=2026": "Group/…$export and _since",
        f"{base}/Patient": "another address than …/$export",
        "fhirapp export --type Patient --gzip": "requested with --type",
        "fhirapp export --since 2026-01-01": "requested with --since",
        f"{base}/$export?_format={'x' * 30_000}…": "more than can be read",
        None: "how it was requested is not known",
        "": "how it was requested is not known",
        7: "how it was requested is not known",
    }
    for request, reason in expected.items():
        found = partial_export_reason(request)
        assert (reason in found) if reason else (found == ""), request


def test_deletion_by_a_partial_export_is_refused(empty, tmp_path):
    load(empty, write(tmp_path, ALL, "all.ndjson"), source="s")
    before = stored(empty)
    folder = export(tmp_path / "part", "fhirapp export --since 2026")
    export(tmp_path / "both" / "whole", "fhirapp export", ALL)
    export(tmp_path / "both" / "part", "fhirapp export --type Patient")
    broken = export(tmp_path / "broken", "fhirapp export")
    write(broken, b'{"output": [', "manifest.json")
    shutil.make_archive(str(tmp_path / "packed" / "part"), "zip", folder)
    for path, reason in (
        (folder, "(requested with --since)"),
        (folder / "Records.ndjson", "(requested with --since)"),
        (tmp_path / "packed", "(requested with --since)"),
        (tmp_path / "packed" / "part.zip", "(requested with --since)"),
        (tmp_path / "both", "--type"),
        (broken, "manifest.json cannot be read"),
    ):
        with pytest.raises(ConfigurationError) as caught:
            load(empty, path, source="s", delete_missing=True)
        assert reason in str(caught.value)
        assert str(caught.value).endswith(ENDS)
    assert stored(empty) == before
    # Without deletion it is imported.
    assert load(empty, folder, source="s").complete
    assert stored(empty) == before


@pytest.mark.parametrize(
    "manifest",
    [
        {"request": "fhirapp export --gzip", "output": [{"url": "Records.ndjson"}]},
        {"request": "https://ehr.example/$export", "output": [{"url": "Records.ndjson"}]},
        # A file of that name that is no manifest of an export.
        {"name": "An app", "icons": []},
    ],
)
def test_records_that_a_whole_export_lacks_are_deleted(empty, tmp_path, manifest):
    load(empty, write(tmp_path, ALL, "all.ndjson"), source="s")
    write(tmp_path / "whole", PART, "Records.ndjson")
    write(tmp_path / "whole", manifest, "manifest.json")
    assert load(empty, tmp_path / "whole", source="s", delete_missing=True).complete
    assert current(empty, "AllergyIntolerance") == AB


# Exports that are downloaded


@pytest.fixture
def server() -> Iterator[BulkServer]:
    """Another server, that exports all it has."""
    with running() as other:
        other.offer(Patient=file(ALL))
        yield other


def test_address_of_a_partial_export_is_refused_before_a_request(server, refused_import):
    base = server.url + EXPORT.removesuffix("$export")
    for path in ("$export?_type=Patient", "Patient/$export", "Group/g/$export"):
        sentence = refused_import(base + path, "--source", "ehr", "--delete-missing")
        assert sentence.endswith(ENDS)
    assert server.asked == []


def test_manifest_of_a_partial_export_deletes_nothing(server, empty, run_import, refused_import):
    options = ("--source", "ehr")
    assert run_import(server.url + EXPORT, *options).exit_code == 0
    assert current(empty, "AllergyIntolerance") == ABC
    server.answers["/files/Patient"] = [file(PART)]
    part = server.manifest("Patient", request=f"{server.url}{EXPORT}?_since=2026-01-01T00:00:00Z")
    server.answers["/manifest.json"] = [part]
    # The second run has it from the disk.
    for _ in range(2):
        sentence = refused_import(f"{server.url}/manifest.json", *options, "--delete-missing")
        assert "(requested with _since)" in sentence
        assert current(empty, "AllergyIntolerance") == ABC
    untold = {"output": [{"type": "Patient", "url": f"{server.url}/files/Patient"}]}
    server.answers["/untold.json"] = [ok(untold)]
    sentence = refused_import(f"{server.url}/untold.json", *options, "--delete-missing")
    assert "how it was requested is not known" in sentence
    server.answers["/whole.json"] = [server.manifest("Patient")]
    assert run_import(f"{server.url}/whole.json", *options, "--delete-missing").exit_code == 0
    assert current(empty, "AllergyIntolerance") == AB
