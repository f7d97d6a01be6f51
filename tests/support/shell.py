"""Runs `fhirapp` commands and jobs: in this process, or each in a process of its own.

Such a process is forked from one that has read the code, once for all tests: to read it takes a
command a second. How a command starts from nothing is tested in test_cli.py.
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import runpy
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from threading import Thread

from click.testing import CliRunner
from flask import current_app

import fhirapp as package
from fhirapp.cli import cli
from fhirapp.config import Settings, settings_of
from fhirapp.jobs import process
from fhirapp.jobs.queue import Job
from tests import ROOT
from tests.support.helpers import shared_secret

MAIN = "from fhirapp.cli import main; main()"
_LONGEST_SECONDS = 300
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(
    [
        found.name
        for found in pkgutil.walk_packages(package.__path__, "fhirapp.")
        if "migrations" not in found.name and not found.name.endswith("__main__")
    ]
)


def environment(folder: Path, **settings: str) -> dict[str, str]:
    """Return an environment whose instance folder is this one, with these FHIRAPP_ settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FHIRAPP_")}
    secret = shared_secret(settings.get("DATABASE_URL", ""))
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "FHIRAPP_INSTANCE_PATH": str(folder),
        **{f"FHIRAPP_{name.upper()}": value for name, value in secret.items()},
        **{f"FHIRAPP_{name}": value for name, value in settings.items()},
    }


def unmeasured(environ: dict[str, str]) -> dict[str, str]:
    """Return it without what measures coverage: a limit on files would stop that too."""
    return {name: value for name, value in environ.items() if not name.startswith("COVERAGE")}


def fhirapp(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    with TemporaryDirectory() as said:
        out, err = Path(said, "out"), Path(said, "err")
        process = _SERVER.Process(
            target=_run, args=(arguments, environment(folder, **settings), out, err)
        )
        process.start()
        process.join(_LONGEST_SECONDS)
        status = process.exitcode
        if status is None:
            process.kill()
            raise subprocess.TimeoutExpired(arguments, _LONGEST_SECONDS)
        process.close()
        return subprocess.CompletedProcess(
            arguments, status, out.read_text("utf-8"), err.read_text("utf-8")
        )


def _is_setting(variable: str) -> bool:
    return variable.startswith("FHIRAPP_")


def run_command(folder: Path, *arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end in this process, with these FHIRAPP_ settings."""
    unset: dict[str, str | None] = {
        name: None for name in os.environ if name.startswith("FHIRAPP_")
    }
    given = environment(folder, **settings)
    runner = CliRunner(env=unset | {name: given[name] for name in filter(_is_setting, given)})
    # As main() sets it.
    umask, handler = os.umask(0o077), signal.getsignal(signal.SIGTERM)
    try:
        result = runner.invoke(cli, arguments, prog_name="fhirapp")
    finally:
        os.umask(umask)
        signal.signal(signal.SIGTERM, handler)
    if not isinstance(result.exception, SystemExit | None):
        raise result.exception
    return subprocess.CompletedProcess(arguments, result.exit_code, result.stdout, result.stderr)


def fhirapp_anew(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, in a python that was started for it."""
    return subprocess.run(
        [sys.executable, "-m", "fhirapp", *arguments],
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=_LONGEST_SECONDS,
        check=False,
    )


def start_job(
    _settings: Settings, job: Job, folder: Path, passphrase: str, module: str = process.MODULE
) -> None:
    """Start a job's process as fhirapp/jobs/process.py does, forked in the same way."""
    environ = process.environment(settings_of(current_app))
    child = _SERVER.Process(
        target=_run_job, args=(environ, folder, module, [job.id, str(job.attempts)], passphrase)
    )
    child.start()
    app = current_app._get_current_object()
    Thread(target=process.await_end, args=(app, child.join, job), daemon=True).start()


def assert_not_done(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Assert that a command ended with one sentence that has these words, and exit code 2."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    said = done.stderr.strip().splitlines()
    assert len(said) == 1, done.stderr
    for word in words:
        assert word in said[0]


def _run_job(
    environ: dict[str, str], folder: Path, module: str, arguments: list[str], passphrase: str
) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environ)
    with TemporaryFile() as typed:
        typed.write(passphrase.encode())
        typed.seek(0)
        os.dup2(typed.fileno(), 0)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _run(arguments: Sequence[str], environ: dict[str, str], out: Path, err: Path) -> None:
    for path, stream in ((out, 1), (err, 2)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = arguments
    runpy.run_module("fhirapp", run_name="__main__", alter_sys=True)
