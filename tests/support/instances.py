"""Fixtures of an instance folder and a backup of it."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an instance and a backup of it, which tests only read."""
    # Here: without the feature backups, this plugin is loaded too.
    from tests.support.backups import make_clinic, taken

    folder = tmp_path_factory.mktemp("clinic")
    taken(make_clinic(folder / "instance"), folder / "clinic.backup")
    return folder


@pytest.fixture
def clinic(example: Path, tmp_path: Path) -> Path:
    """An instance of the test's own."""
    from tests.support.backups import copy_of

    return copy_of(example / "instance", tmp_path / "instance")


@pytest.fixture
def backup(example: Path) -> Path:
    """A backup of that instance."""
    return example / "clinic.backup"
