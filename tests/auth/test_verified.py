"""What is kept of a token from a request to the next, and when it is looked up anew."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import fhirapp
from fhirapp.auth.protector import LONGEST_SECONDS, Verified
from fhirapp.config import ConfigurationError
from fhirapp.db import writing
from fhirapp.db.generation import Generation, generation

KEY = b"k" * 32


class Looked:
    """Counts look-ups; found is what they find."""

    def __init__(self, found: str | None = "token") -> None:
        self.found = found
        self.times = 0

    def __call__(self, digest: bytes) -> str | None:
        assert digest == KEY
        self.times += 1
        return self.found


@pytest.fixture
def in_app(app):
    with app.app_context():
        yield app


def test_a_token_is_looked_up_once_while_nothing_is_written(in_app):
    verified, look_up = Verified(), Looked()
    assert [verified.get(KEY, look_up) for _ in range(5)] == ["token"] * 5
    assert look_up.times == 1


def test_whatever_is_committed_makes_the_next_request_look_again(in_app):
    verified, look_up = Verified(), Looked()
    verified.get(KEY, look_up)
    with writing():
        pass
    look_up.found = "changed"
    assert verified.get(KEY, look_up) == "changed"
    assert look_up.times == 2


def test_what_is_committed_while_it_is_looked_up_counts(in_app):
    verified = Verified()

    def look_up(digest: bytes) -> str:
        generation().change()
        return "as it was before"

    again = Looked()
    verified.get(KEY, look_up)
    assert verified.get(KEY, again) == "token"


def test_a_token_that_is_not_known_is_not_kept(in_app):
    verified, look_up = Verified(), Looked(None)
    assert verified.get(KEY, look_up) is None
    look_up.found = "issued meanwhile"
    assert verified.get(KEY, look_up) == "issued meanwhile"


def test_it_holds_a_second_at_the_most(in_app, monkeypatch):
    """Another host that writes to the same PostgreSQL has another file."""
    verified, look_up, clock = Verified(), Looked(), time.monotonic()
    monkeypatch.setattr("fhirapp.auth.protector.time.monotonic", lambda: clock)
    verified.get(KEY, look_up)
    clock += LONGEST_SECONDS + 0.001
    verified.get(KEY, look_up)
    assert look_up.times == 2


def test_another_process_that_writes_is_noticed_at_once(tmp_path):
    ours = Generation(tmp_path)
    before = ours.now()
    program = "import sys, pathlib; from fhirapp.db.generation import Generation as G;"
    program += "G(pathlib.Path(sys.argv[1])).change()"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True)
    assert ours.now() != before
    assert ours.now() == Generation(tmp_path).now()


def test_a_folder_that_cannot_be_written_is_told_in_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match="FHIRAPP_INSTANCE_PATH"):
        Generation(tmp_path / "file").now()


def test_only_one_place_commits():
    """A commit elsewhere would not say that something was written.

    seed.py loads the demo before anybody is served, and schemas.py a backup; the rest writes what
    no token depends on: the trail and counts of failed attempts.
    """
    trail = {"audit/tables.py", "trail/moving.py", "trail/packing.py"}
    found = {
        str(path.relative_to(Path(fhirapp.__file__).parent))
        for path in Path(fhirapp.__file__).parent.rglob("*.py")
        if re.search(r"\.commit\(|\.begin\(\)|session\.(add|merge|delete)\(", path.read_text())
    }
    restored = {"ops/backups/schemas.py"}
    assert found - trail - restored == {"auth/throttle.py", "db/__init__.py", "store/seed.py"}
