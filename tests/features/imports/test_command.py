"""`fhirapp import`: its report, dry runs, standard input, and output files, run in this process."""

from __future__ import annotations

import gzip
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from sqlalchemy import select

from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.features.imports.outputs import conflict, rejected_files
from fhirapp.features.imports.report import page
from fhirapp.store.import_models import ImportRun
from tests.support.archives import zipped
from tests.support.bulk_server import EXPORT, file, running
from tests.support.bundles import asked, bundle, plain
from tests.support.importing import lines, load, write
from tests.support.key_server import reply
from tests.support.records import allergy, patient
from tests.support.stored import current, stored

# One that is stored, and one that is rejected.
CONTENT = lines(patient("p1"), patient("p2", gender="x"))


# The report


def test_report_counts_every_outcome_by_type(take):
    take(patient("same"), patient("changed"), patient("gone"))
    report = take(
        patient("same"),
        patient("changed", gender="male"),
        patient("new"),
        patient("bad", gender="x"),
        b"{",
        {"resourceType": "Location", "id": "l"},
        bundle("batch", asked("DELETE", "Patient/gone")),
    )
    counts = {"read": 4, "new": 1, "changed": 1, "same": 1, "deleted": 1, "rejected": 1}
    assert dict(report.rows()) == {"Patient": counts, "?": {"read": 1, "rejected": 1}}
    assert report.skipped == {"Location": 1}
    content = json.loads(json.dumps(report.content()))
    assert content["changes"]["Patient"] == counts
    assert content["rejectedCount"] == 2
    assert [line.split() for line in report.table().splitlines()][1:3] == [
        ["?", "1", "0", "0", "0", "0", "1"],
        ["Patient", "4", "1", "1", "1", "1", "1"],
    ]
    assert report.table().splitlines()[-1].split()[:2] == ["rejected", "2"]


def test_page_of_a_report_escapes_hostile_content(empty, tmp_path):
    hostile = '<script>alert("x")</script>'
    contents = [
        patient(hostile),
        {"resourceType": hostile, "id": "x"},
        {**patient("x"), hostile: 1},
        allergy("a", recorder={"reference": f"urn:{hostile}"}),
        allergy("a", recorder={"reference": f"Practitioner?identifier={hostile}"}),
        bundle(hostile),
        bundle("transaction", asked(hostile, hostile, patient("x"))),
    ]
    name = "<script>alert(1)<" + "b onclick='x'>.ndjson"
    report = load(empty, write(tmp_path, lines(*contents), name))
    assert len(report.faults) >= 4
    text = page(report)
    assert not re.search(r"<(script|b|img|iframe|object|form|a)\b|<[^>]*\son\w+=", text)
    assert "&lt;script&gt;" in text


# Inputs and results


def test_standard_input_is_imported_or_rejected(run_import, empty, tmp_path):
    two = [patient("a"), patient("b")]
    indented = json.dumps(bundle("collection", *map(plain, two)), indent=1).encode()
    archive = zipped(tmp_path / "x.zip", {"a.ndjson": lines(*two)}).read_bytes()
    for place, content in enumerate((lines(*two), gzip.compress(indented), archive)):
        result = run_import("-", "--json", "--id-prefix", f"n{place}-", stdin=content)
        assert result.exit_code == 0, result.stderr
        assert json.loads(result.stdout)["changes"]["Patient"]["new"] == 2
        assert f"n{place}-b" in current(empty, "Patient")
    result = run_import("-", stdin=b"")
    assert result.exit_code == 1
    assert "is empty" in result.stderr


def test_dry_run_reports_what_the_import_reports_and_changes_nothing(run_import, empty, tmp_path):
    load(empty, write(tmp_path, lines(patient("one")), "first.ndjson"))
    records = [patient("one"), allergy("a"), patient("two", gender="x"), b"{"]
    path = write(tmp_path, lines(*records), "x.ndjson")
    before = stored(empty)
    dry = run_import(path, "--dry-run", "--json")
    assert "dry run" in dry.stderr
    assert stored(empty) == before
    done = run_import(path, "--json")
    assert dry.exit_code == done.exit_code == 1
    told = [json.loads(result.stdout) for result in (dry, done)]
    assert told[0]["changes"] == told[1]["changes"]
    assert told[0]["rejected"] == told[1]["rejected"]


def test_dry_run_leaves_nothing_of_a_download(run_import, refused_import, empty):
    instance = settings_of(empty).instance
    before = sorted(instance.rglob("*"))
    with running() as server:
        server.offer(Patient=[reply("500 Internal Server Error"), file(lines(patient("one")))])
        refused_import(server.url + EXPORT, "--dry-run")
        assert sorted(instance.rglob("*")) == before
        done = run_import(server.url + EXPORT, "--dry-run", "--json")
        assert json.loads(done.stdout)["changes"]["Patient"]["new"] == 1
        assert server.lines[-1] == "DELETE /job"
    assert sorted(instance.rglob("*")) == before
    assert current(empty, "Patient") == []


def test_user_of_an_import_without_a_name_is_recorded_by_number(
    run_import, empty, tmp_path, monkeypatch
):
    """As in a container that is run as a number."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 54321)
    assert run_import(write(tmp_path, lines(patient("one")), "x.ndjson")).exit_code == 0
    with empty.app_context(), db.engine.connect() as connection:
        assert connection.execute(select(ImportRun.who)).scalar() == "account 54321"


# Options and output files


@pytest.mark.parametrize(
    ("options", "option"),
    [
        (["--delete-missing"], "--source"),
        (["--id-prefix", "a b"], "--id-prefix"),
        (["--id-prefix", "a" * 21], "--id-prefix"),
        (["--base", "example.org"], "--base"),
        (["--report", "r.txt"], "--report"),
        (["--template", "nonsense"], "--template"),
        (["--client-id", "x"], "--key"),
        (["--rejected", "{input}/r.ndjson"], "r.ndjson"),
        (["--report", "{folder}/no/r.json"], "r.json"),
        (["--report", "{input}.json", "--rejected", "{input}.json"], "same file"),
    ],
)
def test_options_that_are_invalid_are_refused(refused_import, tmp_path, options, option):
    path = write(tmp_path, CONTENT, "x.ndjson")
    options = [text.format(input=path, folder=tmp_path) for text in options]
    assert option in refused_import(path, *options)


def paths_to(file: Path) -> list[Path]:
    """Return paths that lead to a file: itself, by links, and in other spellings."""
    symlink, hard, folder = (file.parent.parent / name for name in ("symlink", "hard", "folder"))
    symlink.symlink_to(file)
    os.link(file, hard)
    folder.symlink_to(file.parent)
    dots = file.parent / ".." / file.parent.name / "." / file.name
    return [file, symlink, hard, folder / file.name, dots, Path(os.path.relpath(file))]


def test_output_that_is_an_input_is_a_conflict_by_every_path(tmp_path):
    file = write(tmp_path / "in", CONTENT, "in.json")
    linked = tmp_path / "links"
    linked.mkdir()
    (linked / "in.json").symlink_to(file)
    given: Sequence[Path]
    for output in paths_to(file):
        for given in ([file], [file.parent], [linked]):
            reason = conflict(output, given)
            assert str(output) in reason
            assert "read" in reason
    beside = file.parent / "deep" / "new.json"
    assert str(file.parent) in conflict(beside, [tmp_path / "else", file.parent])
    assert conflict(tmp_path / "new.json", [file.parent, Path("missing")]) == ""
    # Rejected rows go to tables beside the file of rejected records.
    assert tmp_path / "clinic.allergies.csv" in rejected_files(tmp_path / "clinic.ndjson")


def test_output_that_is_an_input_is_refused(refused_import, tmp_path):
    table = b"patient_id,substance,criticality\np1,Latex,wrong\n"
    contents = {"in.json": CONTENT, "clinic.allergies.csv": table, "key.json": b'{"kty": "EC"}'}
    report, rows, key = (
        write(tmp_path / "in", content, name) for name, content in contents.items()
    )
    rejected = rows.with_name("clinic.ndjson")
    for path, *options in (
        (report, "--report", report),
        (report, "--rejected", report),
        (report.parent, "--report", report.parent / "new.json"),
        (rows, "--rejected", rejected),
        (report, "--client-id", "x", "--key", key, "--report", key),
    ):
        sentence = refused_import(path, *options)
        assert "read" in sentence
        assert options[-2] in sentence
    found = {path.name: path.read_bytes() for path in report.parent.iterdir()}
    assert found == contents


def test_output_beside_the_inputs_is_overwritten(run_import, tmp_path):
    path = write(tmp_path, CONTENT, "in.ndjson")
    report, rejected = tmp_path / "r.json", tmp_path / "rejected.ndjson"
    for _ in range(2):
        assert run_import(path, "--report", report, "--rejected", rejected).exit_code == 1
        assert rejected.read_bytes().count(b"\n") == 1
        assert json.loads(report.read_bytes())["rejectedCount"] == 1
