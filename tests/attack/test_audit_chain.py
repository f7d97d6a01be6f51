"""The chain of the audit trail: whatever is done to its files afterwards is found, and where."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.audit.read import entries
from fhirapp.config import settings_of
from fhirapp.keys import key_of
from fhirapp.trail import FOLDER, chain, public_key, trail_of
from fhirapp.trail.chain import files, following, split
from fhirapp.trail.events import LISTED, SETTINGS, record_settings
from fhirapp.trail.packing import pack
from fhirapp.trail.verify import Verified, verify
from tests.support.shell import fhirapp
from tests.support.trails import IN_FILES, raw_lines

READ = "AllergyIntolerance/al-p1-penicillin"


def folder_of(app: Flask) -> Path:
    return settings_of(app).instance / FOLDER


def verified(app: Flask, *heads: dict[str, Any], kept: bool = False) -> Verified:
    return verify(folder_of(app), {public_key(key_of(app))}, heads, kept=kept)


def changed(lines: list[bytes]) -> list[bytes]:
    lines[3] = lines[3].replace(b'"status":200', b'"status":404')
    return lines


def changed_and_made_anew(lines: list[bytes]) -> list[bytes]:
    """Return them with one changed, and its own digest made anew."""
    (_, before), (body, _) = split(lines[2]) or (b"", None), split(lines[3]) or (b"", None)
    lines[3] = following(before, body.replace(b'"status":200', b'"status":404'))[1]
    return lines


def all_made_anew(lines: list[bytes]) -> list[bytes]:
    """Return them with one left out, and all that follow made anew, as who has no key can."""
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


@IN_FILES
@pytest.mark.parametrize(
    ("tampered", "fault"),
    [
        (changed, "line 4: line 4 of the trail, or the one before, was changed"),
        (changed_and_made_anew, "line 5: line 5 of the trail, or the one before, was changed"),
        (lambda lines: lines[:3] + lines[4:], "line 4: 1 of the trail's lines missing before it"),
        (lambda lines: lines[:3] + lines[5:], "line 4: 2 of the trail's lines missing before it"),
        (lambda lines: [*lines[:3], *lines[2:]], "line 4: line 3 of the trail stands"),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "line 4: 1 of the trail's"),
        (lambda lines: lines[1:], "line 1: the trail begins with line 2, which is not a head"),
        (without_digest, "line 4: this line has no digest"),
        (all_without_digests, "line 4: this line has no digest"),
        (lambda lines: [*lines[:3], b'{"at":"2026"}\n', *lines[3:]], "line 4: this line has no"),
        (lambda lines: [lines[0].replace(b'"n":0', b'"n":7'), *lines[1:]], "line 1: line 1 of"),
    ],
)
def test_what_was_done_to_a_line_is_found(watched, own_app, tampered, fault):
    for _ in range(8):
        watched.get(READ)
    assert verified(own_app).fault == ""
    (file,) = files(folder_of(own_app))
    file.write_bytes(b"".join(tampered(file.read_bytes().splitlines(keepends=True))))
    assert f"{file.name}, {fault}" in verified(own_app).fault


@IN_FILES
def test_what_was_cut_off_or_made_anew_is_found_by_a_head_that_was_copied(watched, own_app):
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
    without = [one for one in whole[1:] if b'"event":"head"' not in one]
    file.write_bytes(b"".join(all_made_anew([whole[0], *without])))
    forged = {**head, "head": {**head["head"], "n": 4}}
    assert "signature" in verified(own_app, forged).fault
    stranger = verify(folder_of(own_app), {"AAAA"}, [head], kept=False)
    assert "this head is signed with another key" in stranger.fault


@IN_FILES
def test_a_trail_that_was_made_anew_lacks_its_heads(watched, own_app, monkeypatch):
    monkeypatch.setattr(chain, "HEAD_LINES", 5)
    monkeypatch.setattr("fhirapp.trail.verify.HEAD_LINES", 5)
    for _ in range(12):
        watched.get(READ)
    assert verified(own_app).heads == 4
    (file,) = files(folder_of(own_app))
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(all_made_anew(lines)))
    assert "this head is of another line" in verified(own_app).fault
    without = [one for one in lines if b'"event":"head"' not in one]
    file.write_bytes(b"".join(all_made_anew([lines[0], *without])))
    assert "line 5 of the trail should be a head" in verified(own_app).fault


@IN_FILES
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


@IN_FILES
def test_processes_that_append_at_once_make_one_chain(watched, own_app):
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


@IN_FILES
def test_old_files_are_packed_and_read_as_before(make_app, monkeypatch):
    from tests.support.helpers import Fhir, token_for

    app = make_app()
    watched = Fhir(app, token_for(app, "system/*.rs"))
    # What the token left is of today.
    for file in files(folder_of(app)):
        file.unlink()
    trail_of(app)._name = ""
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


@IN_FILES
def test_what_is_kept_no_longer_is_removed_and_that_is_noted(make_app, monkeypatch):
    from tests.support.helpers import Fhir, token_for

    app = make_app(audit_keep=3)
    watched = Fhir(app, token_for(app, "system/*.rs"))
    for file in files(folder_of(app)):
        file.unlink()
    trail_of(app)._name = ""
    days(app, monkeypatch, 6, lambda: watched.get(READ))
    listed = folder_of(app) / f"2020-01-01-x{LISTED}"
    listed.write_text("p1\n")
    with app.app_context():
        assert len(entries()) == 6
        pack(settings_of(app))
        assert len(files(folder_of(app))) == 4
        assert len(entries()) == 4
        (noted,) = entries(event="packed", kind=None)
    assert " to " in noted.body
    assert not listed.exists()
    assert verified(app, kept=True).fault == ""
    assert "no setting removes" in verified(app).fault


def test_other_settings_are_noted_at_the_start(make_app):
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
    assert not any(hidden.encode() in one for one in [*raw_lines(app), kept])


def test_the_shell_prints_a_head_and_checks_the_trail(tmp_path):
    fhirapp(tmp_path, "user", "add", "ann", "--role", "clinician", "--invite")
    head = fhirapp(tmp_path, "audit", "head").stdout
    assert json.loads(head)["head"]["n"] == 3
    copied = tmp_path / "copied"
    copied.write_text(head)
    whole = fhirapp(tmp_path, "audit", "verify", "--head", str(copied))
    assert (whole.returncode, whole.stdout[:21]) == (0, "The trail is intact: ")
    (file,) = files(tmp_path / FOLDER)
    assert file.stat().st_mode & 0o777 == 0o600
    file.write_bytes(file.read_bytes().replace(b"clinician", b"patient"))
    broken = fhirapp(tmp_path, "audit", "verify")
    assert broken.returncode == 1
    assert "line 2: line 2 of the trail, or the one before, was changed" in broken.stdout
    copied.write_text("{}")
    assert fhirapp(tmp_path, "audit", "verify", "--head", str(copied)).returncode == 2
