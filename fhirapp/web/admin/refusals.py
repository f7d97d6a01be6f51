"""Why was I denied? The administrator looks a refusal up by its request id."""

from __future__ import annotations

from fhirapp.web.pages import blueprint_of

blueprint = blueprint_of("admin_refusals", __name__)
