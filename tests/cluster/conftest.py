"""The cluster that these tests ask: the seed's records, and more of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from fhirapp.config import settings_of
from fhirapp.definition import types
from fhirapp.features.demo.seed import load_seed, seed_path
from fhirapp.features.imports.importer import import_paths
from fhirapp.store.write import Rendering
from tests.support.cluster import Cluster, cluster, need_programs
from tests.support.contract import allergy

# Beside the seed's.
ALLERGIES = 2_000


@pytest.fixture(scope="session")
def running() -> Iterator[Cluster]:
    """Three servers behind nginx, filled."""
    need_programs()
    # Not in pytest's folder, which PostgreSQL's user cannot reach; of a short name, for sockets.
    with TemporaryDirectory(prefix="cluster-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        with cluster(folder) as made:
            _fill(made, folder)
            yield made


def _fill(made: Cluster, folder: Path) -> None:
    records = folder / "records.ndjson"
    with records.open("w") as file:
        for number in range(ALLERGIES):
            code = {"coding": [{"system": "urn:codes", "code": f"c{number % 7}"}]}
            resource = allergy(f"a{number:05}", f"p{number % 14 + 1}", code=code)
            file.write(json.dumps(resource) + "\n")
    with made.app.app_context():
        settings = settings_of(made.app)
        load_seed(seed_path(), types(), Rendering.of(settings), "2026-01-01T00:00:00.000+00:00")
        report = import_paths([records], types(), settings)
    assert report.complete, report.rejected
