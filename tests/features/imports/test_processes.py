"""Imports in processes of their own: locks, full disks, pipes, kills, dry runs and memory."""

from __future__ import annotations

import json
import multiprocessing
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.server.check import Depth, check_database
from tests.support.bundles import asked, bundle, history, put
from tests.support.ccda_people import RECORD
from tests.support.ccda_people import document as clinical_document
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.effort import sample
from tests.support.importing import URN, asking, lines, load, write
from tests.support.records import allergy, document, inline, patient, practitioner
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp
from tests.support.stored import content_and_index, provenance_targets

pytestmark = pytest.mark.process


def started(folder: Path, *arguments: str | Path, code: str = MAIN, **more: Any) -> Any:
    """Start an import on an instance folder."""
    pipes: dict[str, Any] = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    return subprocess.Popen(
        [sys.executable, "-c", code, "import", *map(str, arguments)],
        **{"env": environment(folder), "text": True, **pipes, **more},
    )


def ended(
    folder: Path, *arguments: str | Path, text: str | None = None, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run an import to its end, with a text on standard input."""
    pipe = {} if text is None else {"stdin": subprocess.PIPE}
    with started(folder, *arguments, **{**pipe, **more}) as run:
        output, errors = run.communicate(text, timeout=120)
        return subprocess.CompletedProcess(arguments, run.returncode, output, errors)


# Other writers


def test_two_imports_at_once_have_the_result_of_one(empty, tmp_path):
    path = write(
        tmp_path, lines(patient("one"), *(allergy(f"a{number}") for number in range(300))), "x.json"
    )
    settings = settings_of(empty)
    environ = environment(settings.instance, DATABASE_URL=settings.database_url)
    runs = [started(settings.instance, path, "--json", env=environ) for _ in range(2)]
    counts = []
    for run in runs:
        output, errors = run.communicate(timeout=120)
        assert run.returncode == 0, errors
        counts.append(json.loads(output)["changes"]["AllergyIntolerance"])
    assert sum(count.get("new", 0) for count in counts) == 300
    assert sum(count.get("same", 0) for count in counts) == 300
    assert asking(empty).read("AllergyIntolerance?_summary=count")["total"] == 300


# Full disks


def limited(size: int) -> str:
    """Return code of a command that cannot write files longer than so many bytes."""
    return f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); {MAIN}"


@pytest.fixture
def database_size(tmp_path: Path) -> int:
    """The size of an empty database in the test's folder."""
    assert fhirapp(tmp_path, "db", "upgrade").returncode == 0
    return max(path.stat().st_size for path in tmp_path.glob("fhirapp.db*"))


def test_import_on_a_full_disk_is_refused_and_completed_later(tmp_path, database_size):
    many = [allergy(f"a{number}", note=[{"text": "x" * 200}]) for number in range(2_500)]
    path = write(tmp_path, lines(patient("one"), *many), "x.ndjson")
    assert_not_done(ended(tmp_path, path, code=limited(database_size + 300_000)), "disk")
    check = sqlite3.connect(tmp_path / "fhirapp.db")
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()
    again = fhirapp(tmp_path, "import", str(path), "--json")
    assert again.returncode == 0, again.stderr
    counts = json.loads(again.stdout)["changes"]["AllergyIntolerance"]
    assert counts.get("new", 0) + counts.get("same", 0) == 2_500


def test_standard_input_or_rejected_records_on_a_full_disk_are_refused(tmp_path, database_size):
    content = lines(patient("one")).decode() + "\n" * (database_size + 1_000_000)
    done = ended(tmp_path, "-", code=limited(database_size), text=content)
    assert_not_done(done, "nothing was imported")
    size = database_size + 100_000
    wrong = [b"{" + b"x" * 1_000] * (size // 1_000 + 500)
    path = write(tmp_path, lines(*wrong), "x.ndjson")
    assert_not_done(ended(tmp_path, path, "--no-provenance", code=limited(size)), "--rejected")


# Pipes, permissions, and what is left


def test_named_pipe_is_imported(tmp_path):
    """As in `fhirapp import <(zcat …)`: what was read of it does not come again."""
    path = write(tmp_path, lines(patient("a"), patient("b")), "x.ndjson")
    command = f'exec "$0" -c "{MAIN}" import --json <(cat "$1")'
    done = subprocess.run(
        ["bash", "-c", command, sys.executable, str(path)],
        env=environment(tmp_path),
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["changes"]["Patient"]["new"] == 2


def test_file_that_is_standard_input_is_not_overwritten(tmp_path):
    content = lines(patient("p1"), patient("p2", gender="x"))
    path = write(tmp_path, content, "in.json")
    with path.open("rb") as file:
        done = ended(tmp_path / "instance", "-", "--report", path, stdin=file)
    assert_not_done(done, "is one of the files that are read")
    assert path.read_bytes() == content


def test_files_of_an_import_are_private(tmp_path):
    path = write(tmp_path, lines(b"{", allergy("a"), put(patient("x"))), "x.ndjson")
    instance = tmp_path / "instance"
    report = str(instance / "report.json")
    assert fhirapp(instance, "import", str(path), "--report", report).returncode == 1
    left = [path for path in instance.rglob("*") if path.is_file()]
    assert {"1.rejected.ndjson", "fhirapp.db", "report.json"} <= {path.name for path in left}
    assert {stat.S_IMODE(path.stat().st_mode) for path in left} == {0o600}
    assert not [path for path in instance.iterdir() if path.name.startswith(("import-", "dry-run"))]


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_scratch_files_of_a_killed_import_are_deleted_by_the_next(tmp_path, options):
    """A copy of the database, and standard input: both hold records of patients."""
    instance = tmp_path / "instance"
    path = write(tmp_path, lines(patient("one")), "x.ndjson")
    assert fhirapp(instance, "import", str(path)).returncode == 0
    null = dict.fromkeys(("stdout", "stderr"), subprocess.DEVNULL)
    run = started(instance, *options, "-", stdin=subprocess.PIPE, **null)
    # It waits for the rest of its input.
    until = time.monotonic() + 60
    while not [*instance.glob(".fhirapp-scratch-*")]:
        assert run.poll() is None
        assert time.monotonic() < until
    run.kill()
    run.communicate()
    assert fhirapp(instance, "import", str(path)).returncode == 0
    assert not [*instance.glob(".fhirapp-scratch-*")]


# Dry runs


def snapshot(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder with its content, but what SQLite's readers leave."""
    return {
        str(path): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
        and not path.name.endswith("-shm")
        and not (path.name.endswith("-wal") and path.stat().st_size == 0)
    }


def test_dry_run_writes_no_file(tmp_path):
    instance, path = tmp_path / "instance", write(tmp_path, lines(patient("one")), "x.ndjson")
    assert fhirapp(instance, "import", str(path), "--dry-run").returncode == 0
    assert not (instance / "fhirapp.db").exists()
    fhirapp(instance, "import", str(path))
    before = snapshot(instance)
    write(tmp_path, lines(patient("one"), patient("two"), b"{"), "x.ndjson")
    assert fhirapp(instance, "import", str(path), "--dry-run").returncode == 1
    assert snapshot(instance) == before


def test_dry_run_copies_the_database_of_the_demo(tmp_path):
    assert fhirapp(tmp_path, "db", "upgrade", "--demo").returncode == 0
    path = write(tmp_path, lines(patient("one"), patient("p1", name=[])), "x.ndjson")
    dry = fhirapp(tmp_path, "import", str(path), "--dry-run", "--json", "--demo")
    assert dry.returncode in (0, 1), dry.stderr
    assert json.loads(dry.stdout)["changes"]["Patient"]["new"] == 1
    assert not (tmp_path / "fhirapp.db").exists()


def test_dry_run_copies_the_database_of_the_setting(tmp_path):
    """README: `sqlite:///file.db` is a path."""
    path = write(tmp_path / "given", lines(patient("one")), "x.ndjson")
    settings = {"DATABASE_URL": "sqlite:///relative.db"}
    done = fhirapp(tmp_path, "import", str(path), **settings)
    assert done.returncode == 0, done.stderr
    dry = fhirapp(tmp_path, "import", str(path), "--dry-run", "--json", **settings)
    assert dry.returncode == 0, dry.stderr
    assert json.loads(dry.stdout)["changes"]["Patient"] == {"read": 1, "same": 1, "rejected": 0}


# Campaigns


def write_other_kinds(folder: Path) -> None:
    """Write Bundles, histories, tables and C-CDA documents into a folder."""
    for number in range(4):
        created = patient(mrn=f"n{number}")
        condition = {"ifNoneExist": f"identifier=urn:mrn|n{number}"}
        address = f"{URN}{number:02}"
        entries = [
            asked("POST", "Patient", created, address, **condition),
            put(allergy(f"of-bundle-{number}", of=address)),
            asked("DELETE", f"AllergyIntolerance/gone-{number}"),
        ]
        write(folder, bundle("transaction", *entries), f"bundle-{number}.json")
        versions = [
            allergy(f"of-history-{number}", of=f"Patient/p{number}", note=[{"text": text}])
            for text in ("first", "second")
        ]
        write(folder, lines(history(*versions)), f"history-{number}.ndjson")
        person = clinical_document(f"Person{number}", (RECORD, str(number % 3)))
        write(folder, person, f"document-{number}.xml")
    rows = b"".join(
        b"row-%d,Doe,row-%d,Substance %d\n" % (number % 5, number, number) for number in range(30)
    )
    write(folder, b"patient_id,patient_family,id,substance\n" + rows, "table.csv")


@pytest.mark.campaign
@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_import_that_is_killed_at_random_is_completed_by_the_next(
    make_app, tmp_path, small_batches
):
    """Some allergies occur twice, others wait for their recorders, and each is in the index."""
    small_batches(15)
    write_other_kinds(tmp_path / "records")
    allergies = [
        allergy(
            f"a{number}",
            of=f"Patient/p{number % 8}",
            criticality=criticality,
            recorder={"reference": f"Practitioner?identifier=urn:doctor|{number % 3}"},
        )
        for criticality, count in (("low", 30), ("high", 10))
        for number in range(count)
    ]
    notes = [
        document(f"d{number}", inline(f"Note {number} of penicillin"), of=f"p{number % 8}")
        for number in range(30)
    ]
    doctors = [practitioner(f"dr{number}", str(number)) for number in range(3)]
    everything = [*allergies, *notes, *doctors, *(patient(f"p{number}") for number in range(8))]
    for part in range(3):
        content = lines(*everything[part * 40 : part * 40 + 40])
        write(tmp_path / "records", content, f"{part}.ndjson")
    whole, chance, fork = make_app(seed=False), Random(20), multiprocessing.get_context("fork")
    began = time.perf_counter()
    load(whole, tmp_path / "records")
    lasts = time.perf_counter() - began
    expected, targets = content_and_index(whole), sorted(chain(*provenance_targets(whole)))
    killed = ended = 0
    while killed < sample(12, 500) or not ended:
        app = make_app(seed=False)
        is_killed = True
        while is_killed:
            with app.app_context():
                # An open connection must not be carried into another process.
                db.engine.dispose()
            child = fork.Process(target=load, args=(app, tmp_path / "records"))
            child.start()
            # Now and then one is not killed.
            child.join(None if chance.random() < 0.1 else chance.uniform(0, lasts))
            child.kill()
            child.join()
            is_killed = child.exitcode == -signal.SIGKILL
            killed += is_killed
            with app.app_context():
                assert check_database(db.engine, types(), Depth.STRUCTURE).faults == []
        assert child.exitcode == 0
        ended += 1
        assert content_and_index(app) == expected
        assert sorted(chain(*provenance_targets(app))) == targets
