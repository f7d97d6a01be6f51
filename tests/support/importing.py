"""Imports of files into an app.

Names of tests.support.records, bundles and stored are here too: many tests import them from here.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from flask import Flask

from fhirapp.config import settings_of
from fhirapp.definition import types
from fhirapp.features.imports.importer import Import, import_paths
from fhirapp.features.imports.report import Report
from fhirapp.features.imports.runs import Options
from tests.support import bundles, records
from tests.support import stored as versions_stored
from tests.support.helpers import Fhir, token_for

ALLERGY, PATIENT, URN, UUID = records.ALLERGY, records.PATIENT, records.URN, records.UUID
allergy, patient = records.allergy, records.patient
asked, bundle, plain, put = bundles.asked, bundles.bundle, bundles.plain, bundles.put
current, stored, versions = (
    versions_stored.current, versions_stored.stored, versions_stored.versions,
)  # fmt: skip


def load(app: Flask, *paths: Path, **options: Any) -> Report:
    """Import paths into an app's database."""
    with app.app_context():
        return import_paths(paths, types(), settings_of(app), Options(**options))


def skipped_files(report: Report) -> dict[str, str]:
    """Return the files of an import that were skipped, each with the reason."""
    return {file.name: file.message for file in report.files if file.state == "skipped"}


class Interrupted(Exception):
    """The end of an import that is killed."""


def interrupted_import(app: Flask, path: Path, *, batches: int = 1, **options: Any) -> None:
    """Import a path until so many batches are published."""
    published = 0

    def interrupt(run: Import, batch: Any, snapshot: Any) -> None:
        nonlocal published
        publish(run, batch, snapshot)
        published += 1
        if published == batches:
            raise Interrupted

    publish = Import._publish_batch
    with app.app_context(), pytest.MonkeyPatch.context() as patched, suppress(Interrupted):
        patched.setattr(Import, "_publish_batch", interrupt)
        import_paths([path], types(), settings_of(app), Options(**options))


def write(folder: Path, content: Any, name: str = "records.json") -> Path:
    """Write a file of bytes, or of JSON, and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def lines(*resources: Any) -> bytes:
    """Return NDJSON; a resource that is bytes already stands as it is."""
    return b"".join(
        (resource if isinstance(resource, bytes) else json.dumps(resource).encode()) + b"\n"
        for resource in resources
    )


def load_lines(app: Flask, folder: Path, *resources: Any, **options: Any) -> Report:
    """Import resources by way of a file."""
    return load(app, write(folder, lines(*resources), "records.ndjson"), **options)


def asking(app: Flask) -> Fhir:
    """Return a client that may read and search everything."""
    return Fhir(app, token_for(app, "system/*.rs"))
