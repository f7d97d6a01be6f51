"""Readers and writers beside an import, in threads."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.features.imports.importer import import_paths
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.importing import asking, lines, load, write
from tests.support.records import allergy, patient
from tests.support.stored import provenance_targets

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)


@pytest.mark.campaign
def test_readers_see_batches_as_a_whole(empty, tmp_path, small_batches):
    """In all of them an allergy is there with its patient."""
    small_batches(100)
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
            matches = [entry["resource"] for entry in entries if entry["search"]["mode"] == "match"]
            for match in matches:
                assert match["note"][0]["text"] == f"n{match['id'][1:]}"
                assert match["meta"]["versionId"] == "1"
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
    assert not [count for count in counts if count % 50]


@pytest.mark.process
def test_writer_that_holds_the_lock_longer_than_a_request_waits_delays_an_import(
    empty, tmp_path, monkeypatch
):
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


def test_imports_take_turns_and_each_has_its_own_provenance(empty, tmp_path):
    first = write(tmp_path, lines(patient("one"), allergy("a")), "first.ndjson")
    second = write(tmp_path, lines(allergy("b")), "second.ndjson")
    settings = settings_of(empty)
    waits = threading.Event()
    order = []

    def import_second() -> None:
        with empty.app_context():
            import_paths([second], types(), settings, waits=waits.set)
            order.append("second")

    other = threading.Thread(target=import_second)

    def start_second(_bytes: int) -> None:
        if not other.ident:
            other.start()
            assert waits.wait(30)
            order.append("first")

    with empty.app_context():
        import_paths([first], types(), settings, progress=start_second)
    other.join(timeout=60)
    assert order == ["first", "second"]
    assert provenance_targets(empty) == [
        ["AllergyIntolerance/a/_history/1", "Patient/one/_history/1"],
        ["AllergyIntolerance/b/_history/1"],
    ]
    found = asking(empty).read("Provenance")["entry"]
    names = {entry["resource"]["entity"][0]["what"]["display"] for entry in found}
    assert names == {"import 1", "import 2"}
