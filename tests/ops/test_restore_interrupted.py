"""A restore that is killed at any step leaves the old database with its keys, or the new with its.

One process runs the restore again and again in children; each kills itself before another step that
changes the disk.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.ops.backups.archive import KEYS
from fhirapp.ops.backups.restore import Move, finish_swap, journal_of, staged_for, swap
from fhirapp.ops.lock import in_use
from tests.support.backups import app_in, make_clinic, settings_in, taken
from tests.support.importing import PATIENT, load_lines
from tests.support.shell import ROOT, fhirapp

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

# Prints, for each step at which a child was killed, which records and which key there are before
# and after the next start.
SCRIPT = """
import json, os, shutil, signal, sqlite3, sys
from pathlib import Path
from fhirapp import create_app
from fhirapp.db import db
from fhirapp.ops.prepare import prepare
from fhirapp.ops.backups.restore import restore
from tests.support.backups import NOW, settings_in

original, backup, folder = map(Path, sys.argv[1:])
STEPS = ("replace", "link", "rename", "unlink", "fsync")

def killing(left):
    def counted(really):
        def step(*arguments, **options):
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return really(*arguments, **options)
        return step
    for name in STEPS:
        setattr(os, name, counted(getattr(os, name)))

def seen():
    with sqlite3.connect(folder / "fhirapp.db") as connection:
        (whole,) = connection.execute("PRAGMA integrity_check").fetchone()
        (marks,) = connection.execute("SELECT count(*) FROM patient WHERE id = 'one'").fetchone()
    connection.close()
    key = (folder / "secret.key").read_bytes()
    return [whole, "new" if marks else "old", "new" if key != b"o" * 32 else "old"]

killed = True
steps = 0
while killed:
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    pid = os.fork()
    if pid == 0:
        killing(steps)
        restore(settings_in(folder), backup, NOW, None, force=True)
        os._exit(0)
    killed = os.WIFSIGNALED(os.waitpid(pid, 0)[1])
    before = seen()
    app = create_app(settings_in(folder))
    prepare(app, lambda message: None)
    with app.app_context():
        db.engine.dispose()
    left = [path.name for path in folder.iterdir() if "restor" in path.name]
    print(json.dumps([killed, before, [*seen(), left]]))
    steps += 1
"""


def test_wherever_a_restore_is_killed_the_old_or_the_new_is_whole(tmp_path):
    new = make_clinic(tmp_path / "new")
    with app_in(new) as app:
        load_lines(app, tmp_path, PATIENT)
    backup = taken(new, tmp_path / "clinic.backup")
    with app_in(tmp_path / "old"):
        pass
    (tmp_path / "old" / KEYS[0]).write_bytes(b"o" * 32)
    folder = tmp_path / "instance"
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(tmp_path / "old"), str(backup), str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(found) > 20
    # The database can always be read; after a start it and the key belong together.
    assert {before[0] for _, before, _ in found} == {"ok"}
    after = [(*one[:3], tuple(one[3])) for _, _, one in found]
    assert {*after} == {("ok", "old", "old", ()), ("ok", "new", "new", ())}
    # Once it is the new one, it stays the new one; the run that nobody killed ends there.
    assert after == sorted(after, key=lambda one: one[1] == "new")
    assert [killed for killed, _, _ in found] == [True] * (len(found) - 1) + [False]


@pytest.fixture
def half_done(tmp_path: Path) -> Path:
    """An instance in which a restore was killed as it began to move files."""
    folder = make_clinic(tmp_path / "instance")
    database = folder / "fhirapp.db"
    other = make_clinic(tmp_path / "other")
    with app_in(other) as app:
        load_lines(app, tmp_path, PATIENT)
    (other / "fhirapp.db").replace(staged_for(database))
    kept = database.with_name("fhirapp.db.before")
    moves = [[str(staged_for(database)), str(database), str(kept)]]
    journal_of(database).write_text(json.dumps(moves))
    return folder


def test_the_next_start_says_that_it_brought_a_restore_to_its_end(half_done):
    done = fhirapp(half_done, "db", "upgrade")
    assert done.returncode == 0
    assert "An interrupted restore was completed." in done.stderr
    assert (half_done / "fhirapp.db.before").exists()
    assert not journal_of(half_done / "fhirapp.db").exists()
    assert "interrupted" not in fhirapp(half_done, "db", "upgrade").stderr


def test_nothing_is_brought_to_its_end_under_a_server(half_done):
    database = half_done / "fhirapp.db"
    with in_use(settings_in(half_done)), pytest.raises(ConfigurationError, match="A server runs"):
        finish_swap(database)
    assert staged_for(database).exists()


def test_a_journal_that_cannot_be_read_stops_the_start(half_done):
    database = half_done / "fhirapp.db"
    journal_of(database).write_text("[[")
    with pytest.raises(
        ConfigurationError, match="A restore was interrupted and cannot be completed"
    ):
        finish_swap(database)


def test_a_swap_that_is_done_twice_keeps_what_was_there_first(tmp_path):
    database, kept = tmp_path / "x.db", tmp_path / "x.db.before"
    database.write_text("old")
    staged_for(database).write_text("new")
    swap(database, [Move(staged_for(database), database, kept)])
    assert (database.read_text(), kept.read_text()) == ("new", "old")
    journal_of(database).write_text(
        json.dumps([[str(staged_for(database)), str(database), str(kept)]])
    )
    assert finish_swap(database)
    assert (database.read_text(), kept.read_text()) == ("new", "old")
    assert not finish_swap(database)
    assert not finish_swap(None)
