"""Errors of the token endpoint, and whether a token is still valid."""

from __future__ import annotations

from werkzeug.test import TestResponse

from tests.support.authorizing import Flow
from tests.support.helpers import Fhir

DEMO = ("demo-backend", "demo")
# Key words of the error for a consent that has ended.
ENDED = "revoked, or has ended"


def assert_error(
    response: TestResponse, error: str, words: str = "", status: int | None = 400
) -> None:
    """Assert that an answer is this error in the form of RFC 6749 §5.2, not to be cached.

    Without a status it is 400 or 401, as RFC 6749 has it for invalid_client.
    """
    assert response.status_code in ((400, 401) if status is None else (status,)), response.text
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    answer = response.get_json()
    assert answer.keys() <= {"error", "error_description", "error_uri"}
    assert answer["error"] == error
    assert words in answer.get("error_description", "")


def is_valid(flow: Flow, access_token: str) -> bool:
    """Return whether an access token is accepted under /fhir."""
    status = Fhir(flow.app, access_token).get("AllergyIntolerance").status_code
    assert status in (200, 401)
    return status == 200
