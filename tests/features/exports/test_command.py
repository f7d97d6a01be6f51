"""`fhirapp export`: streams and exit codes, the folders that it accepts, what a failure leaves."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db
from tests.support import client_commands
from tests.support.contract import NOW, allergy, delete, publish
from tests.support.exporting import export
from tests.support.shell import MAIN, assert_not_done, environment, unmeasured

LATER = "2026-03-01T00:00:00.000+00:00"


def on_database_of(app: Flask, run: Callable[..., Any], *arguments: str) -> Any:
    """Run `fhirapp export` in this process on an app's database."""
    with app.app_context():
        db.engine.dispose()
    settings = settings_of(app)
    return run(settings.instance, "export", *arguments, DATABASE_URL=settings.database_url)


def done(app: Flask, *arguments: str) -> Any:
    return on_database_of(app, client_commands.done, *arguments)


def refusal(app: Flask, *arguments: str) -> str:
    return str(on_database_of(app, client_commands.refusal, *arguments))


def run_in_process(
    app: Flask, *arguments: str, code: str = MAIN, file_size: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run code in a process of its own; no file that it writes may exceed a size."""
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
    """An app with two allergies, one of them changed, and one that was deleted."""
    app = make_app(seed=False)
    publish(app, allergy("a"), allergy("b"), allergy("gone"), now=NOW)
    publish(app, allergy("a", criticality="low"), now=LATER)
    delete(app, "AllergyIntolerance", "gone", now=LATER)
    return app


def test_export_prints_the_files_that_it_wrote(clinic, tmp_path):
    result = done(clinic, str(tmp_path / "new"))
    # No progress bar in a pipe.
    assert result.stderr == ""
    size = str((tmp_path / "new" / "AllergyIntolerance.ndjson").stat().st_size)
    header, *files = [line.split() for line in result.stdout.splitlines()]
    assert header == ["file", "resources", "versions", "bytes"]
    assert files == [["AllergyIntolerance.ndjson", "2", "2", size]]


def test_export_with_json_prints_the_manifest(clinic, tmp_path):
    options = ("--type", "AllergyIntolerance", "--since", "2026-02-15", "--gzip")
    manifest = json.loads(done(clinic, str(tmp_path), *options, "--json").stdout)
    assert manifest == json.loads((tmp_path / "manifest.json").read_bytes())
    expected = " ".join(options).replace("02-15", "02-15T00:00:00.000+00:00")
    assert manifest["request"] == f"fhirapp export {expected}"
    files = [(file["url"], file["count"]) for file in (*manifest["output"], *manifest["deleted"])]
    assert files == [("AllergyIntolerance.ndjson.gz", 1), ("deleted.ndjson.gz", 1)]


def test_invalid_export_is_refused_in_one_sentence(clinic, tmp_path):
    folder = tmp_path / "new"
    for options, reason in (
        (["--since", "yesterday"], "--since: 'yesterday' is not a date"),
        (["--since", "2026-02-30"], "--since: '2026-02-30' is not a date of the calendar"),
        (["--type", "Location"], "Location is not a type that is stored here"),
        (["--type", "DiagnosticReport"], "export that"),
    ):
        assert reason in refusal(clinic, str(folder), *options)
        assert not folder.exists()
    assert "DIR" in refusal(clinic)


def test_folder_that_cannot_be_used_is_refused_and_unchanged(clinic, tmp_path):
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("mine")
    link.symlink_to(tmp_path / "nowhere")
    assert f"The folder {tmp_path} is not empty" in refusal(clinic, str(tmp_path))
    assert f"{path} is not a folder" in refusal(clinic, str(path))
    below = path / "below"
    assert f"cannot be written to {below} (Not a dir" in refusal(clinic, str(below))
    assert f"{link} is not a folder" in refusal(clinic, str(link))
    assert path.read_text() == "mine"
    assert sorted(tmp_path.iterdir()) == [path, link]


@pytest.mark.process
@pytest.mark.parametrize(("options", "is_there"), [(["--gzip"], True), (["--history"], False)])
def test_export_to_a_full_disk_leaves_nothing(make_app, tmp_path, options, is_there):
    app = make_app(seed=False)
    note = os.urandom(150_000).hex()
    publish(app, allergy("small"), now=NOW)
    patients = ({"resourceType": "Patient", "id": f"p{place}"} for place in range(100))
    publish(app, *patients, now=NOW)
    publish(app, allergy("large", note=[{"text": note}]), now=NOW)
    folder = tmp_path / "new"
    if is_there:
        folder.mkdir()
    result = run_in_process(app, "export", str(folder), *options, file_size=100_000)
    reason = f"cannot be written to {folder} (File too large); nothing of it was kept"
    assert_not_done(result, reason)
    assert folder.exists() == is_there
    assert not is_there or [*folder.iterdir()] == []


def test_interrupted_export_leaves_nothing(clinic, tmp_path):
    def interrupt(_done: int, _total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export(clinic, tmp_path / "new", progress=interrupt)
    assert not (tmp_path / "new").exists()


def test_folder_of_a_running_export_is_refused(clinic, tmp_path):
    def export_again(_done: int, _total: int) -> None:
        with pytest.raises(ConfigurationError, match="is not empty"):
            export(clinic, tmp_path)

    export(clinic, tmp_path, progress=export_again)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"AllergyIntolerance.ndjson", "manifest.json"}


# Kills itself at the nth report of progress.
_KILLED = """
import os, signal, sys
from pathlib import Path
from fhirapp.cli.common import ready_app
from fhirapp.features.exports.export import ExportOptions, export_to, types_to_export
from fhirapp.definition import types

folder, nth = Path(sys.argv[1]), int(sys.argv[2])
reports = 0

def progress(done, total):
    global reports
    reports += 1
    if reports == nth:
        os.kill(os.getpid(), signal.SIGKILL)

with ready_app().app_context():
    wanted = ExportOptions(types_to_export(types(), ()))
    export_to(folder, wanted, types()["Binary"], request="test", progress=progress)
"""


@pytest.mark.process
def test_files_of_a_killed_export_are_not_named_as_complete(own_app, tmp_path):
    folder, nth = tmp_path / "new", 4
    result = run_in_process(own_app, str(folder), str(nth), code=_KILLED)
    assert result.returncode == -signal.SIGKILL
    names = [path.name for path in folder.iterdir()]
    assert len(names) == nth
    assert all(name.startswith(".") and name.endswith(".part") for name in names)
    assert "is not empty" in refusal(own_app, str(folder))
