"""An administrator's client for AuditEvent, and its search."""

from __future__ import annotations

from typing import Any

from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR
from tests.support.authorizing import EVERYTHING, Flow, add_person, add_program
from tests.support.helpers import Fhir

SCOPE = "user/AuditEvent.rs"


def administrator(app: Flask, scope: str = SCOPE, role: str = ADMINISTRATOR) -> Fhir:
    """Return an app of a user that was allowed this."""
    program = add_program(app, scope=f"{EVERYTHING} {SCOPE}")
    return Flow(app, program, add_person(app, role)).fhir(scope)


def listed(client: Fhir, query: str = "_count=100") -> list[dict[str, Any]]:
    bundle = client.read(f"AuditEvent?{query}")
    return [entry["resource"] for entry in bundle.get("entry", ())]
