"""Round trips: an export is imported into an empty database, and into its own."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.definition import types
from tests.support.client_commands import done
from tests.support.contract import allergy, delete, fill, publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.exporting import STORED, binary_with, export
from tests.support.helpers import shared_secret

# Each test imports a whole database.
pytestmark = [pytest.mark.databases(SQLITE, POSTGRESQL), pytest.mark.campaign]

TIMES = [f"2026-0{month}-01T00:00:00.000+00:00" for month in range(3, 9)]
# What a server gives each version.
_OURS = re.compile(rb'"versionId": ?"[0-9]+",\s*"lastUpdated": ?"[^"]*"')


def import_folder(app: Flask, folder: Path, *more: str) -> dict[str, list[str]]:
    """Import a folder by the command, and nothing beside it; what came of each type's records."""
    with app.app_context():
        db.engine.dispose()
    settings = settings_of(app)
    options = (*(more or ("--no-provenance",)), "--json")
    url = settings.database_url
    secret = {name.upper(): value for name, value in shared_secret(url).items()}
    result = done(settings.instance, "import", str(folder), *options, DATABASE_URL=url, **secret)
    changes: dict[str, dict[str, int]] = json.loads(result.stdout)["changes"]
    return {
        name: [outcome for outcome, count in counts.items() if count and outcome != "read"]
        for name, counts in changes.items()
    }


def files_of(folder: Path) -> dict[str, bytes]:
    """Return the content of the files with lines, by name."""
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.ndjson"))}


def without_versions(content: bytes) -> bytes:
    """Return JSON without the versions and times that servers give."""
    return _OURS.sub(b"", content)


def bodies(app: Flask) -> dict[tuple[str, str, int], bytes | None]:
    """Return every version as it is served, by type, id and version; views too."""
    found: dict[tuple[str, str, int], bytes | None] = {}
    with app.app_context(), db.engine.connect() as connection:
        for name, definition in types().items():
            columns = definition.table.c
            asked = select(columns.id, columns.version_id, columns.body, columns.deleted)
            for row in connection.execute(asked):
                found[name, row.id, row.version_id] = None if row.deleted else row.body
    return found


def current_bodies(app: Flask) -> dict[tuple[str, str], bytes]:
    """Return what is served of each resource, by type and id, without versions."""
    newest: dict[tuple[str, str], bytes] = {}
    for (name, row_id, _), body in sorted(bodies(app).items()):
        if body is None:
            newest.pop((name, row_id), None)
        else:
            newest[name, row_id] = without_versions(body)
    return newest


def add_histories(app: Flask) -> None:
    """Give documents versions made with several versions of their bytes, some of them deleted."""
    document = {
        "resourceType": "DocumentReference",
        "id": "many",
        "status": "current",
        "subject": {"reference": "Patient/p1"},
        "content": [{"attachment": {"url": "Binary/b"}}, {"attachment": {"contentType":
                    "text/plain", "data": "QUJD"}}],
    }  # fmt: skip
    publish(app, copy.deepcopy(document), now=TIMES[0])
    publish(app, binary_with(b"first"), now=TIMES[0])
    publish(app, binary_with(b"second"), binary_with(b"third, longer"), now=TIMES[1])
    publish(app, {**copy.deepcopy(document), "description": "changed"}, now=TIMES[2])
    delete(app, "Binary", "b", now=TIMES[3])
    publish(app, binary_with(b"again"), now=TIMES[4])
    publish(app, allergy("back"), now=TIMES[0])
    delete(app, "AllergyIntolerance", "back", now=TIMES[1])
    publish(app, allergy("back", criticality="low"), now=TIMES[2])


@pytest.fixture(scope="module")
def filled(make_app: Callable[..., Flask]) -> Flask:
    """Return an app with all elements, deletions, and documents with a history."""
    app = make_app()
    fill(app)
    add_histories(app)
    return app


@pytest.fixture(scope="module")
def exported(filled: Flask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what the app holds now."""
    folder = tmp_path_factory.mktemp("export") / "plain"
    export(filled, folder)
    return folder


@pytest.fixture(scope="module")
def histories(filled: Flask, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all versions that the app holds."""
    folder = tmp_path_factory.mktemp("export") / "history"
    export(filled, folder, history=True)
    return folder


def test_export_is_imported_into_an_empty_database_byte_for_byte(filled, exported, empty, tmp_path):
    assert import_folder(empty, exported) == {name: ["new"] for name in STORED}
    export(empty, tmp_path)
    before, after = files_of(exported), files_of(tmp_path)
    assert [*before] == [*after] == sorted(f"{name}.ndjson" for name in STORED)
    for name, content in before.items():
        assert without_versions(after[name]) == without_versions(content), name
    assert current_bodies(empty) == current_bodies(filled)


def test_export_imported_into_its_own_database_creates_no_version(filled, exported):
    before = bodies(filled)
    assert import_folder(filled, exported) == {name: ["same"] for name in STORED}
    assert bodies(filled) == before


def test_all_versions_are_imported_into_an_empty_database_byte_for_byte(
    filled, histories, empty, tmp_path
):
    import_folder(empty, histories)
    export(empty, tmp_path, history=True)
    before, after = files_of(histories), files_of(tmp_path)
    assert [*before] == [*after] == sorted(f"{name}.ndjson" for name in STORED)
    for name, content in before.items():
        assert after[name] == content, name
    found, expected = bodies(empty), bodies(filled)
    assert found.keys() == expected.keys()
    assert [key for key, body in expected.items() if found[key] != body] == []


def test_all_versions_imported_into_their_own_database_create_none(filled, histories):
    before = bodies(filled)
    assert import_folder(filled, histories) == {name: ["same"] for name in STORED}
    assert bodies(filled) == before
