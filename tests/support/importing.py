"""What the tests of imports share: inputs of the tests' own, and what is in the database after."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flask import Flask
from sqlalchemy import select

from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.exchange.imports.report import Report
from fhirapp.exchange.imports.runs import Options
from tests.support.helpers import Fhir, token_for

# Two more digits make it whole.
UUID = "0f0e0d0c-0b0a-4908-8706-0504030201"
URN = f"urn:uuid:{UUID}"


def load(app: Flask, *paths: Path, **options: Any) -> Report:
    """Import paths into an app's database."""
    with app.app_context():
        return import_paths(paths, types(), settings_of(app), Options(**options))


def write(folder: Path, content: Any, name: str = "records.json") -> Path:
    """Write a file of bytes, or of JSON, and return its path."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
    return path


def bundle(kind: str, *entries: Any) -> dict[str, Any]:
    """Return a Bundle."""
    return {"resourceType": "Bundle", "type": kind, "entry": [*entries]}


def asked(method: str, url: str, resource: Any = None, address: str = "", **more: str) -> Any:
    """Return an entry of a transaction or batch."""
    entry: dict[str, Any] = {"request": {"method": method, "url": url, **more}}
    if address:
        entry["fullUrl"] = address
    if resource is not None:
        entry["resource"] = resource
    return entry


def plain(resource: Any, address: str = "") -> dict[str, Any]:
    """Return an entry of a collection."""
    return {"fullUrl": address, "resource": resource} if address else {"resource": resource}


def put(resource: dict[str, Any]) -> Any:
    """Return an entry that puts a resource where its id says."""
    return asked("PUT", f"{resource['resourceType']}/{resource['id']}", resource)


def patient(resource_id: str | None = None, mrn: str = "", **elements: Any) -> dict[str, Any]:
    """Return a patient, known by a number where one is given."""
    made: dict[str, Any] = {"resourceType": "Patient", **elements}
    if resource_id:
        made["id"] = resource_id
    if mrn:
        made["identifier"] = [{"system": "urn:mrn", "value": mrn}]
    return made


def allergy(resource_id: str | None = None, of: str = "Patient/one", **more: Any) -> dict[str, Any]:
    """Return an allergy of a patient."""
    made = {**ALLERGY, "patient": {"reference": of}, **more}
    del made["id"]
    return {**made, "id": resource_id} if resource_id else made


def versions(app: Flask, type_name: str = "") -> list[tuple[str, str, int, bool]]:
    """Return (type, id, number, whether it is a deletion) of every version but Provenance's.

    Of one type where it is named, Provenance too.
    """
    return [
        (name, row.id, row.version_id, row.deleted)
        for name, row in _rows(app)
        if name == type_name or not (type_name or name == "Provenance")
    ]


def stored(app: Flask) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    """Return what every version holds, by type, id and number: content, owner, source."""
    return {
        (name, row.id, row.version_id): (row.deleted, row.is_current, row.digest, row.patient_id)
        for name, row in _rows(app)
        if name != "Provenance"
    }


def current(app: Flask, type_name: str) -> list[str]:
    """Return the ids of a type's resources that are there."""
    return sorted(row.id for name, row in _rows(app) if name == type_name and row.is_current)


def _rows(app: Flask) -> Iterator[tuple[str, Any]]:
    with app.app_context(), db.engine.connect() as connection:
        for name, definition in sorted(types().items()):
            if not definition.view:
                columns = definition.table.c
                found = select(definition.table).order_by(columns.id, columns.version_id)
                yield from ((name, row) for row in connection.execute(found))


PATIENT: dict[str, Any] = {"resourceType": "Patient", "id": "one"}


ALLERGY: dict[str, Any] = {
    "resourceType": "AllergyIntolerance",
    "id": "nuts",
    "patient": {"reference": "Patient/one"},
}


def nested(levels: int) -> dict[str, Any]:
    """Return a contained resource that is so many objects deep."""
    content: dict[str, Any] = {"x": 1}
    for _ in range(levels):
        content = {"x": content}
    return {"resourceType": "Basic", "id": "c", **content}


def lines(*resources: Any) -> bytes:
    """Return NDJSON; a resource that is bytes already stands as it is."""
    return b"".join(
        (one if isinstance(one, bytes) else json.dumps(one).encode()) + b"\n" for one in resources
    )


def load_lines(app: Flask, folder: Path, *resources: Any) -> Report:
    """Import resources by way of a file."""
    path = folder / "records.ndjson"
    path.write_bytes(lines(*resources))
    return load_paths(app, path)


def load_paths(app: Flask, *paths: Path) -> Report:
    """Import paths into an app's database."""
    with app.app_context():
        return import_paths(paths, types(), app.config["FHIRAPP"])


def asking(app: Flask) -> Fhir:
    """Return a client that may read and search everything."""
    return Fhir(app, token_for(app, "system/*.rs"))
