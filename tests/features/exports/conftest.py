"""Fixtures of exports: an app that holds all elements, and what it exports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask

from tests.support.contract import fill
from tests.support.exporting import export


@pytest.fixture(scope="session")
def filled(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app, with resources that use all elements; nothing is written to it."""
    app = make_app()
    fill(app)
    return app


@pytest.fixture(scope="session")
def exported(filled: Flask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all that this app holds."""
    folder = tmp_path_factory.mktemp("export") / "new"
    export(filled, folder)
    return folder
