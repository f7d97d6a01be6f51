"""What an import says: the report, its files, dry runs, and what was refused to be mended."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import stat
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from fhirapp.exchange.imports.report import page
from tests.support.importing import allergy, asked, bundle, lines, load, patient, plain, put, write
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp

HOSTILE = '<script>alert("x")</script>'


def test_every_outcome_is_counted_by_type(take):
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


class _Elements(HTMLParser):
    """Collects the elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_page_shows_hostile_content_as_what_it_is(empty, tmp_path):
    name = "<script>alert(1)<" + "b onclick='x'>.ndjson"
    contents = [
        patient(HOSTILE),
        {"resourceType": HOSTILE, "id": "x"},
        {**patient("x"), HOSTILE: 1},
        allergy("a", of="Patient/one", recorder={"reference": f"urn:{HOSTILE}"}),
        allergy("a", recorder={"reference": f"Practitioner?identifier={HOSTILE}"}),
        bundle(HOSTILE),
        bundle("transaction", asked(HOSTILE, HOSTILE, patient("x"))),
    ]
    report = load(empty, write(tmp_path, lines(*contents), name))
    assert len(report.faults) >= 4
    text = page(report)
    seen = _Elements()
    seen.feed(text)
    assert not seen.names & {"script", "b", "img", "iframe", "object", "form", "a"}
    assert not [name for name in seen.attributes if name.startswith("on")]
    assert "&lt;script&gt;" in text


def test_a_page_has_each_part_that_the_report_has(take):
    waits = allergy("a", recorder={"reference": "Practitioner?identifier=urn:x|1"})
    report = take(patient("one"), waits, allergy("b"), allergy("b", criticality="low"), b"{")
    text = page(report)
    for words in (
        "<h1>Import 1</h1>",
        "Rejected: 1",
        f"x.ndjson:{5}",
        report.rejected_file,
        "References kept as they are",
        "Practitioner?identifier=urn:x|1",
        "Twice in the input",
        "AllergyIntolerance/b",
    ):
        assert words in text


# By the command.


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its content, but what SQLite's readers leave."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and not path.name.endswith("-shm")
        and not (path.name.endswith("-wal") and path.stat().st_size == 0)
    }


def test_a_dry_run_changes_nothing_and_counts_as_the_run_does(tmp_path):
    instance, given = tmp_path / "instance", tmp_path / "given"
    records = [patient("one"), allergy("a"), patient("two", gender="x"), b"{"]
    path = write(given, lines(*records), "x.ndjson")
    fhirapp(instance, "import", str(write(given, lines(patient("one")), "first.ndjson")))
    before = snapshot(instance)
    dry = fhirapp(instance, "import", str(path), "--dry-run", "--json")
    assert dry.returncode == 1
    assert "This was a dry run: nothing was changed." in dry.stderr
    assert snapshot(instance) == before
    done = fhirapp(instance, "import", str(path), "--json")
    told = [json.loads(one.stdout) for one in (dry, done)]
    assert told[0]["changes"] == told[1]["changes"]
    assert told[0]["rejected"] == told[1]["rejected"]


def test_a_dry_run_of_what_is_not_there_makes_nothing(tmp_path):
    path = write(tmp_path / "given", lines(patient("one")), "x.ndjson")
    done = fhirapp(tmp_path / "instance", "import", str(path), "--dry-run")
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "instance" / "fhirapp.db").exists()


@pytest.mark.parametrize("asked", [["--demo"], []])
def test_a_dry_run_tries_the_demos_database_too(tmp_path, asked):
    demo = {} if asked else {"DEMO": "1"}
    assert fhirapp(tmp_path, "db", "upgrade", "--demo").returncode == 0
    path = write(tmp_path, lines(patient("one"), patient("p1", name=[])), "x.ndjson")
    dry = fhirapp(tmp_path, "import", str(path), "--dry-run", "--json", *asked, **demo)
    assert dry.returncode in (0, 1), dry.stderr
    assert json.loads(dry.stdout)["changes"]["Patient"]["new"] == 1
    assert not (tmp_path / "fhirapp.db").exists()


def test_a_dry_run_takes_the_database_where_the_setting_says(tmp_path):
    """README: `sqlite:///file.db` is a path."""
    path = write(tmp_path / "given", lines(patient("one")), "x.ndjson")
    settings = {"DATABASE_URL": "sqlite:///relative.db"}
    done = fhirapp(tmp_path, "import", str(path), **settings)
    assert done.returncode == 0, done.stderr
    dry = fhirapp(tmp_path, "import", str(path), "--dry-run", "--json", **settings)
    assert dry.returncode == 0, dry.stderr
    assert json.loads(dry.stdout)["changes"]["Patient"] == {"read": 1, "same": 1, "rejected": 0}


def test_reports_are_written_as_a_page_and_as_json(tmp_path):
    path = write(tmp_path, lines(patient("one"), b"{"), "x.ndjson")
    for name in ("r.json", "r.html"):
        report = tmp_path / name
        done = fhirapp(tmp_path, "import", str(path), "--report", str(report))
        assert done.returncode == 1
        assert stat.S_IMODE(report.stat().st_mode) == 0o600
    assert json.loads((tmp_path / "r.json").read_text())["rejectedCount"] == 1
    assert "<h1>Import 2</h1>" in (tmp_path / "r.html").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--delete-missing"], "--delete-missing needs --source"),
        (["--id-prefix", "a b"], "--id-prefix takes up to 20 letters"),
        (["--id-prefix", "a" * 21], "--id-prefix takes up to 20 letters"),
        (["--base", "example.org"], "--base takes the address of a FHIR server"),
        (["--report", "r.txt"], "--report takes a file that ends in .json or .html"),
        (["--template", "nonsense"], "--template takes"),
    ],
)
def test_options_that_do_not_fit_are_one_sentence(tmp_path, options, words):
    path = write(tmp_path, lines(patient("one")), "x.ndjson")
    assert_not_done(fhirapp(tmp_path / "i", "import", str(path), *options), words)


def test_a_file_of_refused_lines_that_cannot_be_written_is_one_sentence(tmp_path):
    path = write(tmp_path, lines(b"{", patient("one")), "x.ndjson")
    missing = path / "refused.ndjson"
    done = fhirapp(tmp_path, "import", str(path), "--rejected", str(missing))
    assert_not_done(done, "refused.ndjson")


def test_an_account_without_a_name_imports_too(tmp_path):
    """As in a container that is run as a number."""
    if os.geteuid() != 0:
        pytest.skip("only root can become somebody else")
    path = write(tmp_path, lines(patient("one")), "x.ndjson")
    known = {"LOGNAME", "USER", "LNAME", "USERNAME"}
    kept = {name: value for name, value in environment(tmp_path).items() if name not in known}
    code = f"import os; os.getuid = lambda: 54321; {MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", code, "import", str(path)],
        env=kept,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_all_that_an_import_leaves_is_its_users_alone(tmp_path):
    path = write(tmp_path, lines(b"{", allergy("a"), put(patient("x"))), "x.ndjson")
    given = tmp_path / "instance"
    fhirapp(given, "import", str(path))
    left = [one for one in given.rglob("*") if one.is_file()]
    assert {"1.rejected.ndjson", "fhirapp.db"} <= {one.name for one in left}
    assert {stat.S_IMODE(one.stat().st_mode) for one in left} == {0o600}
    assert not [one for one in given.iterdir() if one.name.startswith(("import-", "dry-run-"))]


def test_a_large_bundle_is_read_in_bounded_memory(tmp_path):
    """40 MB of entries take no more than one of them does."""
    filler = "x" * 8_000

    def peak(entries: int) -> int:
        folder = tmp_path / str(entries)
        one = bundle(
            "collection",
            *(plain({"resourceType": "Basic", "id": str(n), "x": filler}) for n in range(entries)),
        )
        path = write(folder, gzip.compress(json.dumps(one, indent=1).encode(), 1), "x.json.gz")
        code = (
            f"import resource, atexit, sys; atexit.register(lambda: print(resource.getrusage("
            f"resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)); {MAIN}"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "import", str(path), "--json"],
            env=environment(folder),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert json.loads(done.stdout)["skipped"] == {"Basic": entries}, done.stderr
        shutil.rmtree(folder)
        return int(done.stderr.split()[-1])

    assert peak(5_000) - peak(1) < 25_000
