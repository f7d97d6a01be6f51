"""Exports of an app's records, and the lines of the exported files."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from flask import Flask

from fhirapp.definition import types
from fhirapp.features.exports.export import (
    ExportOptions,
    Progress,
    export_to,
    types_to_export,
)
from fhirapp.features.exports.files import ExportManifest
from fhirapp.fhir import json as fhir_json
from tests.support.contract import SERVED

STORED = [name for name, one in SERVED.items() if not one.view]


TAKEN = datetime(2026, 5, 1, 10, 30, tzinfo=UTC)


def silent(_done: int, _total: int) -> None:
    """Be told of progress, and say nothing."""


def export(
    app: Flask, folder: Path, *names: str, progress: Progress = silent, **wanted: Any
) -> ExportManifest:
    """Export types, all where none is named."""
    with app.app_context():
        served = types()
        asked = ExportOptions(types_to_export(served, names), **wanted)
        binary = served["Binary"]
        return export_to(
            folder, asked, binary, request="test", progress=progress, clock=lambda: TAKEN
        )


def lines_of(folder: Path, name: str) -> list[Any]:
    """Return the lines of a type's file, none where there is no file."""
    path = folder / f"{name}.ndjson"
    lines = path.read_bytes().splitlines() if path.exists() else []
    return [fhir_json.loads(line) for line in lines]


def binary_with(content: bytes) -> dict[str, Any]:
    """Return a Binary."""
    text = base64.b64encode(content).decode()
    return {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "data": text}
