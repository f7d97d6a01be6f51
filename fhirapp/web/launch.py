"""Start an app for a patient (SMART's EHR launch), and what apps look like inside ours."""

from __future__ import annotations

from fhirapp.web.pages import blueprint_of

blueprint = blueprint_of("launch", __name__)
