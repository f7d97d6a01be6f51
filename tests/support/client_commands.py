"""Runs `fhirapp` commands in this process, on an instance folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result
from flask import Flask

from fhirapp import create_app
from fhirapp.cli import cli
from fhirapp.db import db
from fhirapp.environment import load_settings


@contextmanager
def app_of(folder: Path) -> Iterator[Flask]:
    """Make the app of an instance folder current."""
    app = create_app(load_settings({}, instance_path=str(folder)))
    with app.test_request_context():
        yield app
        db.session.remove()
        db.engine.dispose()


def shell(
    folder: Path, *arguments: str, stdin: bytes = b"", echoes: bool = False, **settings: str
) -> Result:
    """Run a command with these FHIRAPP_ settings; it must not repeat its input unless it echoes."""
    environ: dict[str, str | None] = dict.fromkeys(
        name for name in os.environ if name.startswith("FHIRAPP_")
    )
    environ |= {f"FHIRAPP_{name}": value for name, value in settings.items()}
    runner = CliRunner(env={"FHIRAPP_INSTANCE_PATH": str(folder), **environ})
    # As main() sets it.
    umask = os.umask(0o077)
    try:
        result = runner.invoke(cli, arguments, input=stdin, prog_name="fhirapp")
    finally:
        os.umask(umask)
    assert isinstance(result.exception, SystemExit | None), result.exception
    typed = stdin.strip().decode(errors="replace")
    assert echoes or not typed or typed not in result.output
    return result


def done(folder: Path, *arguments: str, **more: Any) -> Result:
    """Run a command that must succeed."""
    result = shell(folder, *arguments, **more)
    assert result.exit_code == 0, result.stderr
    return result


def refusal(folder: Path, *arguments: str, **more: Any) -> str:
    """Run a command that must be refused: one sentence on standard error, exit code 2."""
    result = shell(folder, *arguments, **more)
    assert (result.exit_code, result.stdout) == (2, "")
    assert re.fullmatch(r"fhirapp: [^\n]+\n", result.stderr)
    return result.stderr.removeprefix("fhirapp: ").strip()
