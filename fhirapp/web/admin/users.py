"""The administrator's page of people."""

from __future__ import annotations

from fhirapp.web.pages import blueprint_of

blueprint = blueprint_of("admin_users", __name__)
