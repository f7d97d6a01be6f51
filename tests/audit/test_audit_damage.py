"""The audit trail after a power cut and on a full disk: nothing that was written is lost."""

from __future__ import annotations

import json
import logging
import os
import resource
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Barrier, Thread

import pytest
from flask import Flask

from fhirapp.audit.read import Entry, entries
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.trail import FOLDER
from fhirapp.trail.chain import split
from tests.support.browsing import Browser, add_person
from tests.support.helpers import Fhir, token_for
from tests.support.trails import IN_FILES

pytestmark = IN_FILES
READ = "AllergyIntolerance/al-p1-penicillin"


def trail(app: Flask) -> Sequence[Entry]:
    with app.app_context():
        return entries()


def folder_of(app: Flask) -> Path:
    return settings_of(app).instance / FOLDER


def file_of(app: Flask) -> Path:
    (file,) = folder_of(app).glob("*.ndjson")
    return file


def first_page_zeroed(index: Path) -> None:
    with index.open("r+b") as content:
        content.write(bytes(4096))


def all_zeroed(index: Path) -> None:
    index.write_bytes(bytes(index.stat().st_size))


def half_gone(index: Path) -> None:
    os.truncate(index, index.stat().st_size // 2)


def no_database(index: Path) -> None:
    index.write_text("in the way\n" * 1_000)


def other_tables(index: Path) -> None:
    with closing(sqlite3.connect(index)) as connection:
        connection.executescript("DROP TABLE entry; CREATE TABLE entry (number INTEGER);")


def number_taken(index: Path) -> None:
    with closing(sqlite3.connect(index)) as connection:
        connection.executescript("DELETE FROM entry; DELETE FROM file;")


DAMAGES = (first_page_zeroed, all_zeroed, half_gone, no_database, other_tables, number_taken)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_index_is_made_anew(watched, own_app, caplog, damage):
    for _ in range(3):
        watched.get(READ)
    before = trail(own_app)
    damage(folder_of(own_app) / "index.db")
    watched.get(READ)
    with caplog.at_level(logging.ERROR):
        after = trail(own_app)
    assert after[1:] == before
    assert caplog.text.count("it is made anew") == 1
    assert trail(own_app) == after


def test_several_who_find_it_damaged_at_once_have_the_whole_trail(watched, own_app):
    for _ in range(3):
        watched.get(READ)
    whole = trail(own_app)
    found: list[Sequence[Entry]] = []
    together = Barrier(6)

    def look() -> None:
        together.wait()
        found.append(trail(own_app))

    for _ in range(5):
        first_page_zeroed(folder_of(own_app) / "index.db")
        threads = [Thread(target=look) for _ in range(6)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert found == [whole] * 30


def test_the_pages_that_show_it_are_answered(watched, own_app):
    watched.get(READ)
    admin = Browser(own_app).resume(add_person(own_app, ADMINISTRATOR))
    assert admin.get("/admin/audit").status == 200
    first_page_zeroed(folder_of(own_app) / "index.db")
    assert [admin.get(path).status for path in ("/explore/history", "/admin/audit")] == [200, 200]


def test_an_index_that_is_busy_is_not_removed(watched, own_app, monkeypatch):
    monkeypatch.setattr("fhirapp.audit.index._PATIENCE_SECONDS", 0)
    watched.get(READ)
    trail(own_app)
    watched.get(READ)
    index = folder_of(own_app) / "index.db"
    inode = index.stat().st_ino
    with closing(sqlite3.connect(index, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            trail(own_app)
        assert index.stat().st_ino == inode
        other.execute("ROLLBACK")
    assert len(trail(own_app)) == 2


@contextmanager
def room_for(app: Flask, count: int) -> Iterator[None]:
    """Let the file of the day grow by so many bytes at the most, as a full disk would."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file_of(app).stat().st_size + count, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("room", [0, 1, 40])
def test_a_line_that_is_cut_off_takes_no_other_with_it(make_app, caplog, room):
    own_app = make_app(audit="best-effort")
    watched = Fhir(own_app, token_for(own_app, "system/*.rs"))
    watched.get("Patient/p1")
    with room_for(own_app, room), caplog.at_level(logging.ERROR):
        assert [watched.get("Patient/p2").status_code for _ in range(3)] == [200] * 3
    assert caplog.text.count("the audit trail cannot be written") == 1
    watched.get("Patient/p3")
    watched.get("Patient/p4")
    assert "the audit trail is written again; it lacks 3 lines" in caplog.text
    assert [one.path for one in trail(own_app)] == [
        f"/fhir/Patient/{one}" for one in ("p4", "p3", "p1")
    ]
    # Whoever reads the file line by line finds them too.
    found = [line for line in file_of(own_app).read_bytes().splitlines() if line.endswith(b"}")]
    lines = [json.loads(line) for line in found if split(line + b"\n")]
    assert [line["path"][-2:] for line in lines if "path" in line] == ["p1", "p3", "p4"]
    (missing,) = [line for line in lines if line.get("event") == "missing"]
    assert missing["what"] == "3"


def test_what_another_process_left_half_written_takes_no_line_with_it(watched, own_app):
    watched.get("Patient/p1")
    half = file_of(own_app).read_bytes()[:150]
    for _ in range(2):
        with file_of(own_app).open("ab") as content:
            content.write(half)
    watched.get("Patient/p2")
    watched.get("Patient/p3")
    assert [one.path[-2:] for one in trail(own_app)] == ["p3", "p2", "p1"]


def test_a_process_that_begins_after_a_half_line_begins_with_a_new_one(watched, own_app, make_app):
    watched.get("Patient/p1")
    with file_of(own_app).open("ab") as content:
        content.write(b'{"at": "2026-')
    # Another process opens the file anew.
    later = make_app(instance_path=str(settings_of(own_app).instance))
    Fhir(later, token_for(later, "system/*.rs")).get("Patient/p2")
    lines = file_of(own_app).read_bytes().splitlines()
    assert json.loads(lines[-1])["path"] == "/fhir/Patient/p2"


def test_a_line_that_lacks_something_is_passed_over(watched, own_app):
    watched.get("Patient/p1")
    with file_of(own_app).open("ab") as content:
        content.write(b'{"at":"2026-01-01T00:00:00.000+00:00"}\n[]\n\n')
    watched.get("Patient/p2")
    assert [one.path[-2:] for one in trail(own_app)] == ["p2", "p1"]
