"""The audit trail's files: tampering is found, and no crash or full disk loses another line."""

from __future__ import annotations

import gzip
import json
import logging
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.audit.read import AuditEntry, entries
from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.config import settings_of
from fhirapp.keys import key_of
from fhirapp.trail import FOLDER, chain, public_key, trail_of
from fhirapp.trail.chain import files, following, split
from fhirapp.trail.events import LISTED, SETTINGS, record_settings
from fhirapp.trail.packing import pack
from fhirapp.trail.verify import VerificationResult, verify
from tests.support.browsing import Browser, add_person
from tests.support.helpers import Fhir, token_for
from tests.support.shell import run_command
from tests.support.trails import IN_FILES, raw_lines

pytestmark = IN_FILES


READ = "AllergyIntolerance/al-p1-penicillin"


def folder_of(app: Flask) -> Path:
    return settings_of(app).instance / FOLDER


def verified(app: Flask, *heads: dict[str, Any], kept: bool = False) -> VerificationResult:
    return verify(folder_of(app), {public_key(key_of(app))}, heads, kept=kept)


def changed(lines: list[bytes]) -> list[bytes]:
    lines[3] = lines[3].replace(b'"status":200', b'"status":404')
    return lines


def changed_with_its_digest(lines: list[bytes]) -> list[bytes]:
    """Return lines of which one was changed with its own digest."""
    (_, before), (body, _) = split(lines[2]) or (b"", None), split(lines[3]) or (b"", None)
    lines[3] = following(before, body.replace(b'"status":200', b'"status":404'))[1]
    return lines


def rehashed(lines: list[bytes]) -> list[bytes]:
    """Return lines without one, all later ones with new digests, as nobody needs a key for."""
    head = split(lines[0])[1]
    made = [lines[0]]
    for line in [*lines[1:3], *lines[4:]]:
        head, written = following(head, split(line)[0])
        made.append(written)
    return made


def without_digest(lines: list[bytes]) -> list[bytes]:
    lines[3] = split(lines[3])[0] + b"\n"
    return lines


def all_without_digests(lines: list[bytes]) -> list[bytes]:
    return [*lines[:3], *[split(line)[0] + b"\n" for line in lines[3:]]]


CHANGED_BEFORE = "or the one before, was changed"


TAMPERED: list[tuple[Callable[[list[bytes]], list[bytes]], str]] = [
    (changed, f"line 4: line 4 of the trail, {CHANGED_BEFORE}"),
    (changed_with_its_digest, f"line 5: line 5 of the trail, {CHANGED_BEFORE}"),
    (lambda lines: lines[:3] + lines[4:], "line 4: 1 of the trail's lines missing before it"),
    (lambda lines: lines[:3] + lines[5:], "line 4: 2 of the trail's lines missing before it"),
    (lambda lines: [*lines[:3], *lines[2:]], "line 4: line 3 of the trail stands"),
    (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "line 4: 1 of the trail's"),
    (lambda lines: lines[1:], "line 1: the trail begins with line 2, which is not a head"),
    (without_digest, "line 4: this line has no digest"),
    (all_without_digests, "line 4: this line has no digest"),
    (lambda lines: [*lines[:3], b'{"at":"2026"}\n', *lines[3:]], "line 4: this line has no"),
    (lambda lines: [lines[0].replace(b'"n":0', b'"n":7'), *lines[1:]], "line 1: line 1 of"),
]


@pytest.fixture
def dated(make_app: Callable[..., Flask]) -> Callable[..., Fhir]:
    """Return a function that makes an app whose trail begins with the next request; its client."""

    def make(**settings: Any) -> Fhir:
        app = make_app(**settings)
        client = Fhir(app, token_for(app, "system/*.rs"))
        client.app = app
        # What the token left is of today.
        for file in files(folder_of(app)):
            file.unlink()
        trail_of(app)._name = ""
        return client

    return make


def test_tampering_with_a_line_is_found(watched, own_app):
    for _ in range(8):
        watched.get(READ)
    assert verified(own_app).fault == ""
    (file,) = files(folder_of(own_app))
    lines = file.read_bytes().splitlines(keepends=True)
    for tampered, fault in TAMPERED:
        file.write_bytes(b"".join(tampered([*lines])))
        assert f"{file.name}, {fault}" in verified(own_app).fault


def test_truncated_or_rewritten_trail_is_found_by_a_copied_head(watched, own_app):
    for _ in range(8):
        watched.get(READ)
    head = trail_of(own_app).head()
    watched.get(READ)
    assert verified(own_app, head).fault == ""
    (file,) = files(folder_of(own_app))
    whole = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(whole[:5]))
    assert verified(own_app).fault == ""
    assert "it was cut off" in verified(own_app, head).fault
    # Without the head in the middle that would not fit its signature.
    without = [line for line in whole[1:] if b'"event":"head"' not in line]
    file.write_bytes(b"".join(rehashed([whole[0], *without])))
    forged = {**head, "head": {**head["head"], "n": 4}}
    assert "signature" in verified(own_app, forged).fault
    stranger = verify(folder_of(own_app), {"AAAA"}, [head], kept=False)
    assert "this head is signed with another key" in stranger.fault


def test_rewritten_trail_lacks_its_heads(watched, own_app, monkeypatch):
    monkeypatch.setattr(chain, "HEAD_LINES", 5)
    monkeypatch.setattr("fhirapp.trail.verify.HEAD_LINES", 5)
    for _ in range(12):
        watched.get(READ)
    assert verified(own_app).heads == 4
    (file,) = files(folder_of(own_app))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(rehashed(lines)))
    assert "this head is of another line" in verified(own_app).fault
    without = [line for line in lines if b'"event":"head"' not in line]
    file.write_bytes(b"".join(rehashed([lines[0], *without])))
    assert "line 5 of the trail should be a head" in verified(own_app).fault


def test_torn_lines_are_covered_by_the_next_digest(watched, own_app):
    watched.get(READ)
    (file,) = files(folder_of(own_app))
    for torn in (b'{"at":"2026-', b'{"at":"2026-11', b"\n\n"):
        with file.open("ab") as lines:
            lines.write(torn)
        watched.get(READ)
    found = verified(own_app)
    assert (found.fault, found.torn) == ("", 2)
    file.write_bytes(file.read_bytes().replace(b'{"at":"2026-11\n', b'{"at":"2027-11\n'))
    assert "or the one before, was changed" in verified(own_app).fault


def days(app: Flask, monkeypatch: pytest.MonkeyPatch, count: int, ask: Callable[[], Any]) -> None:
    """Have something asked on each of some days, the last of which is today."""
    now = datetime.now(UTC)

    class Clock(datetime):
        shift = timedelta(0)

        @classmethod
        def now(cls, tz=None):  # noqa: ARG003
            return now - cls.shift

    monkeypatch.setattr(chain, "datetime", Clock)
    monkeypatch.setattr("fhirapp.audit.write.datetime", Clock)
    for day in range(count - 1, -1, -1):
        Clock.shift = timedelta(days=day)
        ask()


def test_old_files_are_packed_and_read_as_before(dated, monkeypatch):
    watched = dated()
    app = watched.app
    days(app, monkeypatch, 5, lambda: watched.get(READ))
    with app.app_context():
        before = entries()
        pack(settings_of(app))
        assert [file.suffix for file in files(folder_of(app))] == [".gz"] * 3 + [".ndjson"] * 2
        assert entries() == before
        (folder_of(app) / "index.db").unlink()
        assert entries() == before
        assert len(before) == 5
    assert verified(app).fault == ""
    (packed, *_) = files(folder_of(app))
    packed.write_bytes(gzip.compress(gzip.decompress(packed.read_bytes()).replace(b"200", b"404")))
    assert "was changed" in verified(app).fault
    packed.unlink()
    assert "no setting removes what is old" in verified(app).fault


def test_expired_files_are_removed_and_that_is_recorded(dated, monkeypatch):
    watched = dated(audit_keep=3)
    app = watched.app
    days(app, monkeypatch, 6, lambda: watched.get(READ))
    listed = folder_of(app) / f"2020-01-01-x{LISTED}"
    listed.write_text("p1\n")
    with app.app_context():
        assert len(entries()) == 6
        pack(settings_of(app))
        assert len(files(folder_of(app))) == 4
        assert len(entries()) == 4
        (packed_entry,) = entries(event="packed", kind=None)
    assert " to " in packed_entry.body
    assert not listed.exists()
    assert verified(app, kept=True).fault == ""
    assert "no setting removes" in verified(app).fault


def test_changed_settings_are_recorded_at_the_start_without_secrets(make_app):
    hidden = "hunter2"
    address = f"postgresql://me:{hidden}@db/x"
    app = make_app(base_url="https://fhir.clinic.example")
    with app.app_context():
        for settings in (
            *(settings_of(app), settings_of(app)),
            replace(settings_of(app), page_size=7, database_url=address, oidc_client_secret=hidden),
        ):
            record_settings(settings)
        last, first = entries(event="settings-changed", kind=None)
    assert first.body == "the first start"
    assert last.body == "database_url; oidc_client_secret; page_size '100' to '7'"
    with app.app_context():
        kept = trail_of(app).get(SETTINGS)
    assert b"page_size" in kept
    assert not any(hidden.encode() in stored for stored in [*raw_lines(app), kept])


def test_audit_commands_print_a_head_and_verify_the_trail(tmp_path):
    run_command(tmp_path, "user", "add", "ann", "--role", "clinician", "--invite")
    head = run_command(tmp_path, "audit", "head").stdout
    assert json.loads(head)["head"]["n"] == 3
    copied = tmp_path / "copied"
    copied.write_text(head)
    whole = run_command(tmp_path, "audit", "verify", "--head", str(copied))
    assert (whole.returncode, whole.stdout[:21]) == (0, "The trail is intact: ")
    (file,) = files(tmp_path / FOLDER)
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(file.read_bytes().replace(b"clinician", b"patient"))
    broken = run_command(tmp_path, "audit", "verify")
    assert broken.returncode == 1
    assert "line 2: line 2 of the trail, or the one before, was changed" in broken.stdout
    copied.write_text("{}")
    assert run_command(tmp_path, "audit", "verify", "--head", str(copied)).returncode == 2


def trail(app: Flask) -> Sequence[AuditEntry]:
    with app.app_context():
        return entries()


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


def test_damaged_index_is_rebuilt(watched, own_app, caplog):
    for _ in range(3):
        watched.get(READ)
    admin = Browser(own_app).resume(add_person(own_app, ADMINISTRATOR))
    index = folder_of(own_app) / "index.db"
    for damage in (
        *(first_page_zeroed, all_zeroed, half_gone, no_database, other_tables, number_taken),
    ):
        before = trail(own_app)
        damage(index)
        watched.get(READ)
        caplog.clear()
        with caplog.at_level(logging.ERROR):
            after = trail(own_app)
        assert after[1:] == before, damage
        assert caplog.text.count("it is made anew") == 1, damage
        assert trail(own_app) == after
    # The pages that show it are answered too.
    for path in ("/explore/history", "/admin/audit"):
        first_page_zeroed(index)
        assert admin.get(path).status == 200


def test_busy_index_is_not_removed(watched, own_app, monkeypatch):
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
def test_full_disk_loses_no_other_line_and_the_gap_is_recorded(make_app, caplog, room):
    own_app = make_app(audit="best-effort")
    watched = Fhir(own_app, token_for(own_app, "system/*.rs"))
    watched.get("Patient/p1")
    with room_for(own_app, room), caplog.at_level(logging.ERROR):
        assert [watched.get("Patient/p2").status_code for _ in range(3)] == [200] * 3
    assert caplog.text.count("the audit trail cannot be written") == 1
    watched.get("Patient/p3")
    watched.get("Patient/p4")
    assert "the audit trail is written again; it lacks 3 lines" in caplog.text
    assert [entry.path for entry in trail(own_app)] == [
        f"/fhir/Patient/{patient}" for patient in ("p4", "p3", "p1")
    ]
    # Whoever reads the file line by line finds them too.
    found = [line for line in file_of(own_app).read_bytes().splitlines() if line.endswith(b"}")]
    lines = [json.loads(line) for line in found if split(line + b"\n")]
    assert [line["path"][-2:] for line in lines if "path" in line] == ["p1", "p3", "p4"]
    (missing,) = [line for line in lines if line.get("event") == "missing"]
    assert missing["what"] == "3"


def test_incomplete_line_hides_no_other(watched, own_app, make_app):
    watched.get("Patient/p1")
    half = file_of(own_app).read_bytes()[:150]
    no_entries = b'{"at":"2026-01-01T00:00:00.000+00:00"}\n[]\n\n'
    # Left by processes that were killed, or without what an entry needs.
    for number, damage in enumerate((half, half + half, no_entries), 2):
        with file_of(own_app).open("ab") as content:
            content.write(damage)
        watched.get(f"Patient/p{number}")
    assert [entry.path[-2:] for entry in trail(own_app)] == ["p4", "p3", "p2", "p1"]
    with file_of(own_app).open("ab") as content:
        content.write(half)
    # Another process opens the file anew, and begins with a line of its own.
    later = make_app(instance_path=str(settings_of(own_app).instance))
    Fhir(later, token_for(later, "system/*.rs")).get("Patient/p5")
    lines = file_of(own_app).read_bytes().splitlines()
    assert json.loads(lines[-1])["path"] == "/fhir/Patient/p5"


@pytest.mark.process
def test_concurrent_processes_append_to_one_chain(watched, own_app):
    watched.get(READ)
    children = []
    for _ in range(4):
        pid = os.fork()
        if pid == 0:
            with own_app.app_context():
                for count in range(50):
                    trail_of(own_app).append({"at": "2026-01-01", "event": "x", "what": str(count)})
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 4
    watched.get(READ)
    found = verified(own_app)
    assert found.fault == ""
    assert found.lines - found.heads == 203
