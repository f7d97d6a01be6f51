"""Instance folders for commands: empty ones, and one with patients and the people around them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.client_commands import done
from tests.support.importing import lines


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance folder whose database has its tables: creating them takes a command long."""
    folder = tmp_path_factory.mktemp("prepared")
    done(folder, "db", "upgrade")
    return folder


@pytest.fixture
def instance(prepared: Path, tmp_path: Path) -> Path:
    """An instance folder without records, users and clients."""
    return Path(shutil.copytree(prepared, tmp_path / "instance"))


@pytest.fixture(scope="session")
def records(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An instance folder with two patients, their people and no user."""
    folder = Path(shutil.copytree(prepared, tmp_path_factory.mktemp("records") / "instance"))
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
def clinic(records: Path, tmp_path: Path) -> Path:
    """A copy of the folder with records."""
    return Path(shutil.copytree(records, tmp_path / "instance"))
