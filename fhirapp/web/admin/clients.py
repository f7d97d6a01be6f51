"""The administrator's page of clients: approve, disable, change."""

from __future__ import annotations

from fhirapp.web.pages import blueprint_of

blueprint = blueprint_of("admin_clients", __name__)
