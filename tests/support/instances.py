"""Fixtures of folders: instances with and without records, a backup, a watched folder.

What they need of features is imported where it is used: all tests load this plugin, also those of
a server without a feature.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.client_commands import done


@pytest.fixture(scope="session")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an instance and a backup of it, which tests only read."""
    from tests.support.backups import make_clinic, taken

    folder = tmp_path_factory.mktemp("clinic")
    taken(make_clinic(folder / "instance"), folder / "clinic.backup")
    return folder


@pytest.fixture
def clinic_folder(example: Path, tmp_path: Path) -> Path:
    """The instance folder of a clinic, the test's own."""
    from tests.support.backups import copy_of

    return copy_of(example / "instance", tmp_path / "instance")


@pytest.fixture
def backup(example: Path) -> Path:
    """A backup of that instance."""
    return example / "clinic.backup"


@pytest.fixture(scope="session")
def prepared_instance(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance folder whose database has its tables: creating them takes a command long."""
    folder = tmp_path_factory.mktemp("prepared")
    done(folder, "db", "upgrade")
    return folder


@pytest.fixture
def instance(prepared_instance: Path, tmp_path: Path) -> Path:
    """An instance folder without records, users and clients."""
    return Path(shutil.copytree(prepared_instance, tmp_path / "instance"))


@pytest.fixture(scope="session")
def shared_practice(prepared_instance: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance folder with two patients, their people and no user, which tests only read."""
    from tests.support.importing import lines

    copied = tmp_path_factory.mktemp("records") / "instance"
    folder = Path(shutil.copytree(prepared_instance, copied))
    of_ben, ended = {"reference": "Patient/ben"}, {"end": "2020-12-31"}
    (folder / "records.ndjson").write_bytes(
        lines(
            {"resourceType": "Patient", "id": "ana"},
            {"resourceType": "Patient", "id": "ben"},
            {"resourceType": "Practitioner", "id": "dr"},
            {"resourceType": "RelatedPerson", "id": "mum", "patient": of_ben},
            {"resourceType": "RelatedPerson", "id": "gran", "patient": of_ben, "period": ended},
        )
    )
    done(folder, "import", str(folder / "records.ndjson"))
    return folder


@pytest.fixture
def practice_folder(shared_practice: Path, tmp_path: Path) -> Path:
    """The instance folder of a practice with two patients, the test's own."""
    return Path(shutil.copytree(shared_practice, tmp_path / "instance"))


@pytest.fixture
def inbox(tmp_path: Path) -> Path:
    """A folder that can be watched."""
    folder = tmp_path / "inbox"
    for own in ("done", "failed"):
        (folder / own).mkdir(parents=True)
    return folder
