"""Errors of the token endpoint."""

from __future__ import annotations

from werkzeug.test import TestResponse

DEMO = ("demo-backend", "demo")


def assert_error(
    response: TestResponse, error: str, description: str | None = None, status: int = 400
) -> None:
    """Assert that an answer is this error in the form of RFC 6749 §5.2, not to be cached."""
    assert response.status_code == status, response.text
    assert response.content_type == "application/json"
    assert response.headers["Cache-Control"] == "no-store"
    answer = response.get_json()
    assert answer.keys() <= {"error", "error_description", "error_uri"}
    assert answer["error"] == error
    if description is not None:
        assert answer["error_description"] == description
