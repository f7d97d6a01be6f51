"""An import writes to no file that it reads, however the path leads there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fhirapp.exchange.imports.records import Record
from fhirapp.exchange.imports.report import Rejects
from tests.support.importing import lines, patient, write
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp

# One that is stored, and one that is rejected.
CONTENT = lines(patient("p1"), patient("p2", gender="x"))


def path_to(file: Path, way: str) -> Path:
    """Return another path that leads to a file."""
    other = file.parent.parent / f"other{file.suffix}"
    if way == "symlink":
        other.symlink_to(file)
    elif way == "hard link":
        os.link(file, other)
    elif way == "dots":
        return file.parent / ".." / file.parent.name / "." / file.name
    elif way == "link to the folder":
        link = file.parent.parent / "link"
        link.symlink_to(file.parent)
        return link / file.name
    elif way == "relative":
        return Path(os.path.relpath(file))
    return other if other.exists() else file


WAYS = ["itself", "symlink", "hard link", "dots", "link to the folder", "relative"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("given", ["file", "folder", "link in the folder"])
@pytest.mark.parametrize(("option", "name"), [("--report", "in.json"), ("--rejected", "in.ndjson")])
def test_a_file_that_is_read_is_not_written(tmp_path, option, name, given, way):
    file = write(tmp_path / "in", CONTENT, name)
    inputs = file if given == "file" else file.parent
    if given == "link in the folder":
        inputs = tmp_path / "links"
        inputs.mkdir()
        (inputs / name).symlink_to(file)
    output = path_to(file, way)
    done = fhirapp(tmp_path / "instance", "import", str(inputs), option, str(output), "--dry-run")
    assert_not_done(done, "which is read;" if "lies in" in done.stderr else "that are read;")
    assert option in done.stderr
    assert str(output) in done.stderr
    assert file.read_bytes() == CONTENT


@pytest.mark.parametrize("option", ["--report", "--rejected"])
def test_no_file_is_made_in_a_folder_that_is_read(tmp_path, option):
    write(tmp_path / "in", CONTENT, "deep/a.ndjson")
    output = tmp_path / "in" / "deep" / "new.json"
    for given in (tmp_path / "in", tmp_path / "in" / "deep"):
        done = fhirapp(tmp_path / "instance", "import", str(given), option, str(output))
        assert_not_done(done, f"{output} lies in {given}, which is read; name a file elsewhere")
    assert not output.exists()


def test_the_rows_of_a_table_are_not_written_over_a_table(tmp_path):
    """Rejected rows go to a file beside that of rejected records."""
    table = b"patient_id,substance,criticality\np1,Latex,wrong\n"
    path = write(tmp_path, table, "clinic.allergies.csv")
    output = tmp_path / "clinic.ndjson"
    done = fhirapp(tmp_path / "instance", "import", str(path), "--rejected", str(output))
    assert_not_done(done, "clinic.allergies.csv is one of the files that are read")
    assert path.read_bytes() == table


def test_standard_input_is_not_written(tmp_path):
    path = write(tmp_path, CONTENT, "in.json")
    with path.open("rb") as file:
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "import", "-", "--report", str(path)],
            env=environment(tmp_path / "instance"),
            stdin=file,
            capture_output=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 2
    assert b"is one of the files that are read" in done.stderr
    assert path.read_bytes() == CONTENT


def test_the_private_key_is_not_written(tmp_path):
    key = write(tmp_path, {"kty": "EC"}, "key.json")
    path = write(tmp_path, CONTENT, "in.ndjson")
    options = ["--client-id", "x", "--key", str(key), "--report", str(key)]
    assert_not_done(
        fhirapp(tmp_path / "instance", "import", str(path), *options),
        "key.json is one of the files that are read",
    )
    assert json.loads(key.read_bytes()) == {"kty": "EC"}


@pytest.mark.parametrize("rejected", ["r.json", "./r.json"])
def test_the_report_and_the_rejected_records_are_two_files(tmp_path, rejected):
    path = write(tmp_path, CONTENT, "in.ndjson")
    options = ["--report", str(tmp_path / "r.json"), "--rejected", f"{tmp_path}/{rejected}"]
    done = fhirapp(tmp_path / "instance", "import", str(path), *options)
    assert_not_done(done, "--report and --rejected name the same file; name two files")


def test_a_file_beside_those_that_are_read_is_written_again(tmp_path):
    path = write(tmp_path, CONTENT, "in.ndjson")
    report, rejected = tmp_path / "r.json", tmp_path / "rejected.ndjson"
    for _ in range(2):
        options = ["--report", str(report), "--rejected", str(rejected)]
        done = fhirapp(tmp_path / "instance", "import", str(path), *options)
        assert done.returncode == 1
        assert rejected.read_bytes().count(b"\n") == 1
        assert json.loads(report.read_bytes())["rejectedCount"] == 1


def test_former_rejected_records_stay_until_the_import_is_done(tmp_path):
    path = write(tmp_path, b"former\n", "rejected.ndjson")
    rejects = Rejects(path)
    rejects.add(Record("in.ndjson:1", b'{"id": "p2"}'))
    assert path.read_bytes() == b"former\n"
    rejects.close()
    assert path.read_bytes() == b'{"id": "p2"}\n'
    assert (rejects.paths, [*tmp_path.iterdir()]) == ([path], [path])


def test_an_export_goes_into_no_folder_that_holds_files(tmp_path):
    file = write(tmp_path / "in", CONTENT, "a.ndjson")
    (tmp_path / "link").symlink_to(file.parent)
    for target in (file.parent, tmp_path / "link", file):
        done = fhirapp(tmp_path / "instance", "export", str(target))
        assert done.returncode == 2
    assert file.read_bytes() == CONTENT
    assert [*file.parent.iterdir()] == [file]
