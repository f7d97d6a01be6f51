"""Fixtures of the tests of imports."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from flask import Flask

from fhirapp.cli import cli
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.features.imports.report import Report
from tests.support.importing import load, write


@pytest.fixture(scope="module")
def module_app(make_app: Callable[..., Flask]) -> Flask:
    """An app without records, for tests of one module that use ids of their own."""
    return make_app(seed=False)


@pytest.fixture
def import_file(module_app: Flask, tmp_path: Path) -> Callable[..., Report]:
    """Return a function that writes a file and imports it into the module's app."""

    def run(content: Any, name: str = "records.json", **options: Any) -> Report:
        return load(module_app, write(tmp_path, content, name), **options)

    return run


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Return a function that sets how many records a transaction has."""
    return lambda count: monkeypatch.setattr("fhirapp.features.imports.batches.MAX_RECORDS", count)


@pytest.fixture
def run_import(empty: Flask) -> Callable[..., Result]:
    """Return a function that runs `fhirapp import` in this process, on the app `empty`."""
    settings = settings_of(empty)
    # Settings of the tests are none of the command's.
    unset = dict.fromkeys(name for name in os.environ if name.startswith("FHIRAPP_"))
    runner = CliRunner(
        env={
            **unset,
            "FHIRAPP_INSTANCE_PATH": str(settings.instance),
            "FHIRAPP_DATABASE_URL": settings.database_url,
        }
    )

    def run(*arguments: str | Path, stdin: bytes = b"", **variables: str) -> Result:
        with empty.app_context():
            db.engine.dispose()
        environ = {f"FHIRAPP_{name}": value for name, value in variables.items()}
        result = runner.invoke(cli, ["import", *map(str, arguments)], input=stdin, env=environ)
        assert isinstance(result.exception, SystemExit | None), result.exception
        return result

    return run


@pytest.fixture
def refused_import(run_import: Callable[..., Result]) -> Callable[..., str]:
    """Return a function that runs an import that must be refused, and returns the sentence."""

    def run(*arguments: str | Path, **more: Any) -> str:
        result = run_import(*arguments, **more)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        # Downloads are reported on lines before it.
        sentence = result.stderr.splitlines()[-1]
        assert sentence.startswith("fhirapp: ")
        return sentence

    return run
