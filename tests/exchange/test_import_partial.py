"""Exports of a part of a source: what one lacks is not gone, so nothing is deleted for it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.exchange.imports.deletions import partial_export_reason
from tests.support.bulk_server import EXPORT, BulkServer, file, running
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import allergy, current, lines, load, patient, stored, write
from tests.support.key_server import ok
from tests.support.shell import fhirapp

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

ALL = lines(patient("one"), allergy("a"), allergy("b"), allergy("c"))
PART = lines(patient("one"), allergy("a"), allergy("b"))
ENDS = "Nothing was imported."


def export(folder: Path, request: Any, content: bytes = PART) -> Path:
    """Write a folder as an export leaves it."""
    write(folder, content, "Records.ndjson")
    manifest = {"output": [{"type": "Patient", "url": "Records.ndjson"}], "request": request}
    write(folder, manifest, "manifest.json")
    return folder


@pytest.mark.parametrize(
    ("request_", "why"),
    [
        ("https://ehr.example/fhir/$export", ""),
        ("https://ehr.example/fhir/%24export?_outputFormat=ndjson", ""),
        ("fhirapp export", ""),
        ("fhirapp export --history --gzip", ""),
        ("https://ehr.example/fhir/$export?_type=Patient", "requested with _type"),
        ("https://ehr.example/fhir/$export?%5Fsince=2026", "requested with _since"),
        ("https://ehr.example/fhir/$export?_typeFilter=Patient%3F_id%3D1", "with _typeFilter"),
        ("https://ehr.example/fhir/$export?_elements=id", "requested with _elements"),
        ("https://ehr.example/fhir/$export?patient=Patient/1", "requested with patient"),
        ("https://ehr.example/fhir/Patient/$export", "requested with Patient/…$export"),
        ("https://ehr.example/fhir/Group/g/$export?_since=2026", "Group/…$export and _since"),
        ("https://ehr.example/fhir/Patient", "another address than …/$export"),
        ("fhirapp export --type Patient --gzip", "requested with --type"),
        ("fhirapp export --since 2026-01-01", "requested with --since"),
        (f"https://ehr.example/fhir/$export?_format={'x' * 30_000}…", "more than can be read"),
        *((one, "how it was requested is not known") for one in (None, "", 7)),
    ],
)
def test_a_request_tells_what_it_leaves_out(request_, why):
    found = partial_export_reason(request_)
    assert why in found if why else found == ""


def test_nothing_is_deleted_for_an_export_of_a_part(empty, tmp_path):
    load(empty, write(tmp_path, ALL, "all.ndjson"), source="s")
    before = stored(empty)
    folder = export(tmp_path / "part", "fhirapp export --since 2026")
    refused = [[folder], [tmp_path / "part"], [folder / "Records.ndjson"]]
    shutil.make_archive(str(tmp_path / "packed" / "part"), "zip", folder)
    refused += [[tmp_path / "packed"], [tmp_path / "packed" / "part.zip"]]
    for paths in refused:
        with pytest.raises(ConfigurationError) as caught:
            load(empty, *paths, source="s", delete_missing=True)
        assert "(requested with --since)" in str(caught.value)
        assert str(caught.value).endswith(ENDS)
    assert stored(empty) == before
    # The same without deleting is taken.
    assert load(empty, folder, source="s").complete
    assert stored(empty) == before


@pytest.mark.parametrize("request_", ["fhirapp export --gzip", "https://ehr.example/$export"])
def test_what_a_whole_export_lacks_is_deleted(empty, tmp_path, request_):
    load(empty, write(tmp_path, ALL, "all.ndjson"), source="s")
    load(empty, export(tmp_path / "whole", request_), source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["a", "b"]


def test_a_part_among_folders_is_found_and_a_broken_manifest_too(empty, tmp_path):
    load(empty, write(tmp_path, ALL, "all.ndjson"), source="s")
    export(tmp_path / "both" / "whole", "fhirapp export", ALL)
    export(tmp_path / "both" / "part", "fhirapp export --type Patient")
    broken = export(tmp_path / "broken", "fhirapp export")
    write(broken, b'{"output": [', "manifest.json")
    for path, why in ((tmp_path / "both", "--type"), (broken, "manifest.json cannot be read")):
        with pytest.raises(ConfigurationError, match=why):
            load(empty, path, source="s", delete_missing=True)


def test_another_file_of_that_name_says_nothing(empty, tmp_path):
    load(empty, write(tmp_path, ALL, "all.ndjson"), source="s")
    folder = export(tmp_path / "whole", None)
    write(folder, {"name": "An app", "icons": []}, "manifest.json")
    assert load(empty, folder, source="s", delete_missing=True).complete
    assert current(empty, "AllergyIntolerance") == ["a", "b"]


@pytest.fixture
def server() -> Iterator[BulkServer]:
    """Another server, that exports all it has."""
    with running() as other:
        other.offer(Patient=file(ALL))
        yield other


def taken(folder: Path, address: str, *options: str) -> tuple[int, str]:
    """Import from an address by the command; return its exit code, and what it said."""
    done = fhirapp(folder, "import", address, "--source", "ehr", *options)
    return done.returncode, done.stderr


def held(folder: Path) -> int:
    """Return how many allergies are there."""
    done = fhirapp(folder, "export", str(folder / "out"), "--type", "AllergyIntolerance", "--json")
    shutil.rmtree(folder / "out")
    return sum(one["count"] for one in json.loads(done.stdout)["output"])


def test_an_address_that_asks_for_a_part_is_refused_before_it_is_asked(server, tmp_path):
    assert taken(tmp_path, server.url + EXPORT)[0] == 0
    assert held(tmp_path) == 3
    server.asked.clear()
    base = server.url + EXPORT.removesuffix("$export")
    for path in ("$export?_type=Patient", "Patient/$export", "Group/g/$export"):
        code, said = taken(tmp_path, base + path, "--delete-missing")
        assert code != 0
        assert said.strip().endswith(ENDS), said
    assert server.asked == []
    assert held(tmp_path) == 3


def test_a_manifest_that_another_asked_for_says_what_it_lacks(server, tmp_path):
    assert taken(tmp_path, server.url + EXPORT)[0] == 0
    server.answers["/files/Patient"] = [file(PART)]
    part = server.manifest("Patient", request=f"{server.url}{EXPORT}?_since=2026-01-01T00:00:00Z")
    server.answers["/manifest.json"] = [part]
    # A second run has it from the disk.
    for _ in range(2):
        code, said = taken(tmp_path, f"{server.url}/manifest.json", "--delete-missing")
        assert code != 0
        assert "(requested with _since)" in said
        assert held(tmp_path) == 3
    server.answers["/whole.json"] = [server.manifest("Patient")]
    assert taken(tmp_path, f"{server.url}/whole.json", "--delete-missing")[0] == 0
    assert held(tmp_path) == 2


def test_a_manifest_that_does_not_say_what_was_asked_for_deletes_nothing(server, tmp_path):
    untold = {"output": [{"type": "Patient", "url": f"{server.url}/files/Patient"}]}
    server.answers["/manifest.json"] = [ok(untold)]
    code, said = taken(tmp_path, f"{server.url}/manifest.json", "--delete-missing")
    assert code != 0
    assert "how it was requested is not known" in said
