"""Runs `fhirapp client` commands in a process of their own."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from fhirapp.cli import cli


def shell(folder: Path, *arguments: str, stdin: bytes = b"", **settings: str) -> Result:
    """Run a command in this process, on an instance folder; what it was told it must not repeat."""
    environ = {f"FHIRAPP_{name}": value for name, value in settings.items()}
    runner = CliRunner(env={"FHIRAPP_INSTANCE_PATH": str(folder), **environ})
    result = runner.invoke(cli, arguments, input=stdin)
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert not stdin.strip() or stdin.strip().decode(errors="replace") not in result.output
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
