"""Imports that stop before they end."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from flask import Flask

from fhirapp.config import settings_of
from fhirapp.definition import types
from fhirapp.exchange.imports.archives import Archives
from fhirapp.exchange.imports.importer import Import
from fhirapp.exchange.imports.inputs import find_inputs
from fhirapp.exchange.imports.records import Scratch
from fhirapp.exchange.imports.runs import Options
from fhirapp.store.prepare import Notes


def document(words: str) -> dict[str, Any]:
    """Return a document with a text of its own inline."""
    content = base64.b64encode(words.encode()).decode()
    return {
        "resourceType": "DocumentReference",
        "id": "d",
        "status": "current",
        "subject": {"reference": "Patient/one"},
        "content": [{"attachment": {"contentType": "text/plain", "data": content}}],
    }


def begin(app: Flask, path: Path, **options: Any) -> None:
    """Import a path as far as a run comes that is killed before its end."""
    settings = settings_of(app)
    with (
        app.app_context(),
        Archives() as archives,
        Scratch() as scratch,
        Notes(types()["Binary"]) as notes,
    ):
        run = Import(types(), settings, Options(**options), notes, scratch)
        run.begin([str(path)])
        for one in find_inputs([path], path.parent, archives):
            run.take(one, lambda _bytes: None)
