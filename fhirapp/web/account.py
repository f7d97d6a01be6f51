"""What a user manages: connected apps, the password, the second factor."""

from __future__ import annotations

from fhirapp.web.pages import blueprint_of

blueprint = blueprint_of("account", __name__)
