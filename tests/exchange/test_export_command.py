"""`fhirapp export`: streams and exit codes, the folder it takes, what stays of a failure."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db
from tests.support.contract import NOW, allergy, delete, publish
from tests.support.exporting import export
from tests.support.shell import MAIN, assert_not_done, environment, fhirapp, unmeasured

LATER = "2026-03-01T00:00:00.000+00:00"


def run(app: Flask, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command on an app's database."""
    with app.app_context():
        db.engine.dispose()
    settings = settings_of(app)
    return fhirapp(settings.instance, *arguments, DATABASE_URL=settings.database_url)


def run_anew(
    app: Flask, *arguments: str, code: str = MAIN, file_size: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run code in a python of its own; no file that it writes may exceed a size."""
    with app.app_context():
        db.engine.dispose()
    settings = settings_of(app)

    def limit() -> None:
        if file_size is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_size, file_size))

    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=unmeasured(environment(settings.instance, DATABASE_URL=settings.database_url)),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=limit,
    )


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """Return an app with two allergies, one of them changed, and one that was deleted."""
    app = make_app(seed=False)
    publish(app, allergy("a"), allergy("b"), allergy("gone"), now=NOW)
    publish(app, allergy("a", criticality="low"), now=LATER)
    delete(app, "AllergyIntolerance", "gone", now=LATER)
    return app


@pytest.fixture(scope="module")
def seeded(make_app: Callable[..., Flask]) -> Flask:
    """Return an app of its own with the records of the seed."""
    return make_app()


def test_export_tells_what_it_wrote(clinic, tmp_path):
    done = run(clinic, "export", str(tmp_path / "new"))
    assert done.returncode == 0
    # No progress bar in a pipe.
    assert done.stderr == ""
    size = str((tmp_path / "new" / "AllergyIntolerance.ndjson").stat().st_size)
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["file", "resources", "versions", "bytes"],
        ["AllergyIntolerance.ndjson", "2", "2", size],
    ]


def test_a_program_is_told_the_manifest(clinic, tmp_path):
    options = ("--type", "AllergyIntolerance", "--since", "2026-02-15", "--gzip", "--json")
    done = run(clinic, "export", str(tmp_path), *options)
    assert done.returncode == 0
    manifest = json.loads(done.stdout)
    assert manifest == json.loads((tmp_path / "manifest.json").read_bytes())
    assert manifest["request"] == (
        "fhirapp export --type AllergyIntolerance --since 2026-02-15T00:00:00.000+00:00 --gzip"
    )
    files = [(one["url"], one["count"]) for one in (*manifest["output"], *manifest["deleted"])]
    assert files == [("AllergyIntolerance.ndjson.gz", 1), ("deleted.ndjson.gz", 1)]


def test_with_history_versions_are_counted_beside_resources(clinic, tmp_path):
    done = run(clinic, "export", str(tmp_path), "--history")
    assert done.stdout.splitlines()[1].split()[:3] == ["AllergyIntolerance.ndjson", "3", "5"]
    assert json.loads((tmp_path / "manifest.json").read_bytes())["request"] == (
        "fhirapp export --history"
    )


def test_who_leaves_the_bytes_out_is_told_how_to_have_them(seeded, tmp_path):
    done = run(seeded, "export", str(tmp_path), "--type", "DocumentReference")
    assert done.returncode == 0
    assert done.stderr == ("The files of documents are not exported; add --type Binary for them.\n")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--since", "yesterday"], ["--since: 'yesterday' is not a date"]),
        (["--since", "2026-02-30"], ["--since: '2026-02-30' is not a date of the calendar"]),
        (["--type", "Location"], ["Location is not a type that is stored here", "Patient"]),
        (["--type", "DiagnosticReport"], ["export that"]),
    ],
)
def test_what_cannot_be_asked_for_is_one_sentence(clinic, tmp_path, options, words):
    folder = tmp_path / "new"
    assert_not_done(run(clinic, "export", str(folder), *options), *words)
    assert not folder.exists()


def test_export_without_a_folder_is_refused(tmp_path):
    assert_not_done(fhirapp(tmp_path, "export"), "DIR")


def test_a_folder_that_is_not_empty_is_refused_and_stays_as_it_is(clinic, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    done = run(clinic, "export", str(tmp_path))
    assert_not_done(done, f"The folder {tmp_path} is not empty")
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_is_no_folder(clinic, tmp_path):
    path = tmp_path / "file"
    path.write_text("mine")
    assert_not_done(run(clinic, "export", str(path)), f"{path} is not a folder")
    below = path / "below"
    assert_not_done(run(clinic, "export", str(below)), f"cannot be written to {below} (Not a dir")
    assert path.read_text() == "mine"


def test_a_link_that_leads_nowhere_is_no_folder(clinic, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "nowhere")
    assert_not_done(run(clinic, "export", str(link)), f"{link} is not a folder")


@pytest.mark.parametrize(
    ("options", "is_there"), [([], False), (["--gzip"], True), (["--history"], False)]
)
def test_where_the_disk_is_full_nothing_is_left(make_app, tmp_path, options, is_there):
    app = make_app(seed=False)
    note = os.urandom(150_000).hex()
    publish(app, allergy("small"), now=NOW)
    publish(app, *({**PATIENT, "id": f"p{place}"} for place in range(100)), now=NOW)
    publish(app, allergy("large", note=[{"text": note}]), now=NOW)
    folder = tmp_path / "new"
    if is_there:
        folder.mkdir()
    done = run_anew(app, "export", str(folder), *options, file_size=100_000)
    assert_not_done(done, f"cannot be written to {folder} (File too large); nothing of it was kept")
    assert folder.exists() == is_there
    assert not is_there or [*folder.iterdir()] == []


PATIENT = {"resourceType": "Patient"}


def test_an_export_that_is_broken_off_leaves_nothing(clinic, tmp_path):
    def break_off(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(clinic, tmp_path / "new", progress=break_off)
    assert not (tmp_path / "new").exists()


def test_two_exports_do_not_share_a_folder(clinic, tmp_path):
    def other(_done: int, _total: int) -> None:
        other_refused(clinic, tmp_path)

    export(clinic, tmp_path, progress=other)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"AllergyIntolerance.ndjson", "manifest.json"}


def other_refused(app: Flask, folder: Path) -> None:
    """Assert that an export to a folder that another one writes to is refused."""
    with pytest.raises(ConfigurationError, match="is not empty"):
        export(app, folder)


# Kills itself when it is told of progress for the nth time.
_KILLED = """
import os, signal, sys
from pathlib import Path
from fhirapp.cli.common import ready_app
from fhirapp.exchange.exports.export import ExportOptions, export_to, types_to_export
from fhirapp.definition import types

folder, nth = Path(sys.argv[1]), int(sys.argv[2])
told = 0

def progress(done, total):
    global told
    told += 1
    if told == nth:
        os.kill(os.getpid(), signal.SIGKILL)

with ready_app().app_context():
    wanted = ExportOptions(types_to_export(types(), ()))
    export_to(folder, wanted, types()["Binary"], request="test", progress=progress)
"""


@pytest.mark.parametrize("nth", [1, 4, 8])
def test_what_a_killed_export_leaves_is_not_named_as_whole(seeded, tmp_path, nth):
    folder = tmp_path / "new"
    done = run_anew(seeded, str(folder), str(nth), code=_KILLED)
    assert done.returncode == -signal.SIGKILL
    names = [path.name for path in folder.iterdir()]
    assert len(names) == nth
    assert all(name.startswith(".") and name.endswith(".part") for name in names)
    assert_not_done(run(seeded, "export", str(folder)), "is not empty")
