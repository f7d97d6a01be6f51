"""Backups and restores in processes of their own: beside others, limited, killed at each step."""

from __future__ import annotations

import json
import resource
import subprocess
import sys

import pytest

from fhirapp.features.backups.archive import KEYS
from tests.support.backups import app_in, copy_of, inside, taken
from tests.support.importing import PATIENT, load_lines
from tests.support.serving import servers
from tests.support.shell import MAIN, ROOT, assert_not_done, environment, fhirapp, unmeasured


@pytest.mark.smoke
def test_backup_command_writes_a_backup_that_opens(clinic_folder, tmp_path):
    done = fhirapp(clinic_folder, "backup", str(tmp_path / "clinic.backup"))
    assert (done.returncode, done.stdout) == (0, f"{tmp_path / 'clinic.backup'}\n")
    assert inside(tmp_path / "clinic.backup", tmp_path / "copy").files


@pytest.mark.process
def test_limit_on_file_size_is_one_sentence_and_leaves_nothing(clinic_folder, tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))

    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "backup", str(tmp_path / "out")],
        env=unmeasured(environment(clinic_folder)),
        preexec_fn=limit,
        capture_output=True,
        text=True,
        check=False,
    )
    assert_not_done(done, "cannot be copied")
    assert not [*(tmp_path / "out").iterdir()]
    assert not [*clinic_folder.glob(".fhirapp*")]


@pytest.mark.process
def test_restore_is_refused_while_a_server_runs(clinic_folder, backup):
    with servers(clinic_folder) as run:
        server = run(PROCESSES="2")
        # Nobody has asked it anything: it has no connection to the database yet.
        done = fhirapp(clinic_folder, "restore", str(backup), "--force")
        assert_not_done(done, "A server runs on the database", "stop that first.")
        # A backup is taken all the while.
        assert fhirapp(clinic_folder, "backup", str(clinic_folder / "x.backup")).returncode == 0
        server.end()
        assert fhirapp(clinic_folder, "restore", str(backup), "--force").returncode == 0


@pytest.mark.process
def test_restore_is_refused_while_an_import_waits_for_input(clinic_folder, backup):
    command = [sys.executable, "-c", MAIN, "import", "-"]
    with subprocess.Popen(
        command, env=environment(clinic_folder), stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as importing:
        try:
            while not (clinic_folder / "import.lock").exists():
                assert importing.poll() is None
            done = fhirapp(clinic_folder, "restore", "--force", str(backup))
            assert_not_done(done, "or a command uses it")
        finally:
            importing.kill()


# Prints, for each step at which a child was killed, which records and which key there are before
# and after the next start.
SCRIPT = """
import json, os, shutil, signal, sqlite3, sys
from pathlib import Path
from fhirapp import create_app
from fhirapp.db import db
from fhirapp.server.prepare import prepare
from fhirapp.features.backups.restore import restore
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


@pytest.mark.process
def test_restore_killed_at_any_step_leaves_the_old_or_the_new_whole(example, tmp_path):
    new = copy_of(example / "instance", tmp_path / "new")
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
    after = [(*state[:3], tuple(state[3])) for _, _, state in found]
    assert {*after} == {("ok", "old", "old", ()), ("ok", "new", "new", ())}
    # Once it is the new one, it stays the new one; the run that nobody killed ends there.
    assert after == sorted(after, key=lambda state: state[1] == "new")
    assert [killed for killed, _, _ in found] == [True] * (len(found) - 1) + [False]


@pytest.mark.smoke
def test_restore_command_replaces_the_database(clinic_folder, backup):
    done = fhirapp(clinic_folder, "restore", str(backup), "--force")
    assert done.returncode == 0, done.stderr
    assert [path.name[:18] for path in clinic_folder.glob("fhirapp.db.before*")] == [
        "fhirapp.db.before-"
    ]
