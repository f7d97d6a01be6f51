"""Register an app, and manage one that was registered: its state, its secret, its refusals."""

from __future__ import annotations

from fhirapp.web.pages import blueprint_of

blueprint = blueprint_of("apps", __name__)
