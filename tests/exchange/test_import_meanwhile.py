"""What happens beside an import: readers, other writers, and a disk that fills up."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import allergy, asking, lines, load, patient, write
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

IMPATIENT = "import fhirapp.db; fhirapp.db.BUSY_SECONDS = 0.1"


def test_readers_see_whole_resources_only(empty, tmp_path, monkeypatch):
    """And each batch at once: in all of them an allergy is there with its patient."""
    monkeypatch.setattr("fhirapp.exchange.imports.batches.MAX_RECORDS", 100)
    records = []
    for number in range(600):
        records.append(patient(f"p{number}", str(number)))
        records.append(
            allergy(f"a{number}", of=f"Patient/p{number}", note=[{"text": f"n{number}"}])
        )
    path = write(tmp_path, lines(*records), "x.ndjson")
    fhir = asking(empty)
    done = threading.Event()
    counts: list[int] = []

    def read() -> None:
        is_last = False
        while not is_last:
            is_last = done.is_set()
            found = fhir.read("AllergyIntolerance?_count=1000&_include=AllergyIntolerance:patient")
            entries = found.get("entry", ())
            matches = [one["resource"] for one in entries if one["search"]["mode"] == "match"]
            for one in matches:
                assert one["note"][0]["text"] == f"n{one['id'][1:]}"
                assert one["meta"]["versionId"] == "1"
            assert found["total"] == len(matches)
            assert len(entries) == 2 * len(matches)
            counts.append(len(matches))

    with ThreadPoolExecutor(1) as threads:
        reader = threads.submit(read)
        try:
            assert load(empty, path, provenance=False).complete
        finally:
            done.set()
        reader.result()
    assert counts == sorted(counts)
    assert counts[-1] == 600
    # Half a batch is never seen.
    assert not [one for one in counts if one % 50]


def test_another_writer_only_delays(empty, tmp_path, monkeypatch):
    """One that holds the lock for longer than a request would wait."""
    monkeypatch.setattr("fhirapp.db.BUSY_SECONDS", 0.1)
    path = write(tmp_path, lines(*(patient(str(number)) for number in range(5))), "x.ndjson")
    holds, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with empty.app_context(), writing():
            holds.set()
            ended.wait(1)

    writer = threading.Thread(target=hold)
    writer.start()
    holds.wait()
    try:
        assert load(empty, path).complete
    finally:
        ended.set()
        writer.join()


def test_a_lock_held_by_another_program_at_the_start_only_delays(tmp_path):
    path = write(tmp_path, lines(patient("one")), "x.ndjson")
    assert fhirapp(tmp_path, "import", str(path)).returncode == 0
    other = sqlite3.connect(tmp_path / "fhirapp.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    write(tmp_path, lines(patient("two")), "x.ndjson")
    run = subprocess.Popen(
        [sys.executable, "-c", f"{IMPATIENT}; {MAIN}", "import", str(path)],
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        # Far longer than a request waits for another writer.
        with pytest.raises(subprocess.TimeoutExpired):
            run.wait(3)
    finally:
        other.execute("ROLLBACK")
        other.close()
        _, said = run.communicate(timeout=60)
    assert run.returncode == 0, said


def limited(folder: Path, size: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command where no file can be longer than so many bytes."""
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); {MAIN}"
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.parametrize("room", [50_000, 300_000])
def test_a_disk_that_fills_up_is_one_sentence_and_with_room_the_import_is_completed(tmp_path, room):
    many = [allergy(f"a{number}", note=[{"text": "x" * 200}]) for number in range(2_500)]
    path = write(tmp_path, lines(patient("one"), *many), "x.ndjson")
    assert fhirapp(tmp_path, "db", "upgrade").returncode == 0
    size = max(one.stat().st_size for one in tmp_path.glob("fhirapp.db*"))
    done = limited(tmp_path, size + room, "import", str(path))
    assert_not_done(done, "disk")
    check = sqlite3.connect(tmp_path / "fhirapp.db")
    assert check.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    check.close()
    again = fhirapp(tmp_path, "import", str(path), "--json")
    assert again.returncode == 0, again.stderr
    counts = json.loads(again.stdout)["changes"]["AllergyIntolerance"]
    assert counts.get("new", 0) + counts.get("same", 0) == 2_500


def test_standard_input_that_does_not_fit_is_one_sentence(tmp_path):
    assert fhirapp(tmp_path, "db", "upgrade").returncode == 0
    size = max(one.stat().st_size for one in tmp_path.glob("fhirapp.db*"))
    code = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size})); {MAIN}"
    done = subprocess.run(
        [sys.executable, "-c", code, "import", "-"],
        env=environment(tmp_path),
        input=lines(patient("one")) + b"\n" * (size + 1_000_000),
        capture_output=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 2
    assert b"Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_what_is_refused_where_there_is_no_room_is_one_sentence(tmp_path):
    assert fhirapp(tmp_path, "db", "upgrade").returncode == 0
    size = max(one.stat().st_size for one in tmp_path.glob("fhirapp.db*")) + 100_000
    path = write(tmp_path, lines(*[b"{" + b"x" * 1_000] * (size // 1_000 + 500)), "x.ndjson")
    assert_not_done(limited(tmp_path, size, "import", str(path), "--no-provenance"), "refused")


@pytest.mark.databases(SQLITE)
def test_two_imports_at_once_come_to_the_same(empty, tmp_path):
    records = [patient("one"), *(allergy(f"a{number}") for number in range(300))]
    path = write(tmp_path, lines(*records), "x.ndjson")
    settings = settings_of(empty)
    options = {"DATABASE_URL": settings.database_url}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", MAIN, "import", str(path), "--json"],
            env=environment(settings.instance, **options),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    told = []
    for run in runs:
        output, said = run.communicate(timeout=120)
        assert run.returncode == 0, said
        told.append(json.loads(output)["changes"]["AllergyIntolerance"])
    assert sum(one.get("new", 0) for one in told) == 300
    assert sum(one.get("same", 0) for one in told) == 300
    found = asking(empty).read("AllergyIntolerance?_summary=count")
    assert found["total"] == 300


def test_imports_take_turns_and_each_tells_what_it_brought(empty, tmp_path):
    first = write(tmp_path, lines(patient("one"), allergy("a")), "first.ndjson")
    second = write(tmp_path, lines(allergy("b")), "second.ndjson")
    settings = settings_of(empty)
    waits = threading.Event()
    order = []

    def another() -> None:
        with empty.app_context():
            import_paths([second], types(), settings, waits=waits.set)
            order.append("second")

    other = threading.Thread(target=another)

    def meanwhile(_bytes: int) -> None:
        if not other.ident:
            other.start()
            assert waits.wait(30)
            order.append("first")

    with empty.app_context():
        import_paths([first], types(), settings, progress=meanwhile)
    other.join(timeout=60)
    assert order == ["first", "second"]
    found = {
        entry["resource"]["entity"][0]["what"]["display"]: [
            target["reference"] for target in entry["resource"]["target"]
        ]
        for entry in asking(empty).read("Provenance")["entry"]
    }
    assert found == {
        "import 1": ["AllergyIntolerance/a/_history/1", "Patient/one/_history/1"],
        "import 2": ["AllergyIntolerance/b/_history/1"],
    }


@pytest.mark.parametrize("options", [["--dry-run"], []])
def test_what_a_killed_run_kept_aside_is_gone_with_the_next_one(tmp_path, options):
    """A copy of the database, and what came by standard input: records of patients both."""
    instance = tmp_path / "instance"
    path = write(tmp_path, lines(patient("one")), "x.ndjson")
    assert fhirapp(instance, "import", str(path)).returncode == 0
    run = subprocess.Popen(
        [sys.executable, "-c", MAIN, "import", *options, "-"],
        env=environment(instance),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    # It waits for the rest of its input.
    left = ".fhirapp-scratch-*"
    waits_until = time.monotonic() + 60
    while not [*instance.glob(left)]:
        assert run.poll() is None
        assert time.monotonic() < waits_until
    run.kill()
    run.communicate()
    assert fhirapp(instance, "import", str(path)).returncode == 0
    assert not [*instance.glob(left)]
