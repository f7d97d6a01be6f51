"""Runs `fhirapp` commands, each in a process of its own.

It is forked from one that has read the code already, once for all tests: to read it takes a command
a second. How a command starts from nothing is tested where python itself is started (test_cli.py).
"""

from __future__ import annotations

import multiprocessing
import os
import pkgutil
import runpy
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import fhirapp as package
from tests import ROOT

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
    return {
        **kept,
        "PYTHONPATH": str(ROOT),
        "FHIRAPP_INSTANCE_PATH": str(folder),
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


def assert_not_done(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """Assert that a command ended with one sentence that has these words, and exit code 2."""
    assert done.returncode == 2, done.stderr
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    said = done.stderr.strip().splitlines()
    assert len(said) == 1, done.stderr
    for word in words:
        assert word in said[0]


def _run(arguments: Sequence[str], environ: dict[str, str], out: Path, err: Path) -> None:
    for path, stream in ((out, 1), (err, 2)):
        with path.open("wb") as file:
            os.dup2(file.fileno(), stream)
    os.environ.clear()
    os.environ.update(environ)
    sys.argv[1:] = arguments
    runpy.run_module("fhirapp", run_name="__main__", alter_sys=True)
