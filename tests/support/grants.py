"""Whether an access token is still accepted."""

from __future__ import annotations

from tests.support.authorizing import (
    Flow,
)
from tests.support.helpers import Fhir

ENDED = "The access was revoked, or has ended."


def is_alive(flow: Flow, access_token: str) -> bool:
    """Say whether an access token is one under /fhir."""
    status = Fhir(flow.app, access_token).get("AllergyIntolerance").status_code
    assert status in (200, 401)
    return status == 200
