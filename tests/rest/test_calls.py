"""What a request costs in calls of Python functions, which no other program on the machine changes.

The limits are a tenth above what is needed today. Who needs more finds out why first.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from types import FrameType
from typing import Any

import pytest
from flask import Flask
from werkzeug.test import EnvironBuilder

from fhirapp.config import settings_of
from tests.support.helpers import Fhir


def calls(app: Flask, path: str, token: str) -> int:
    """Return how many functions written in Python the answer to a GET takes."""
    count = 0
    statuses: list[str] = []

    def note(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal count
        count += event == "call"

    for watched in (False, False, True):
        # As the WSGI server calls the app: the tests' client has calls of its own.
        builder = EnvironBuilder(path, headers={"Authorization": f"Bearer {token}"})
        environ = builder.get_environ()
        builder.close()
        sys.setprofile(note if watched else None)
        try:
            content: Iterable[bytes] = app.wsgi_app(
                environ, lambda status, _headers, _error=None: statuses.append(status)
            )
            b"".join(content)
        finally:
            sys.setprofile(None)
        assert statuses.pop() == "200 OK"
    return count


@pytest.mark.skipif(sys.gettrace() is not None, reason="what measures coverage calls too")
@pytest.mark.parametrize(
    ("path", "most"),
    [
        ("AllergyIntolerance/al-p1-penicillin", 345),
        ("AllergyIntolerance?patient=p1", 555),
        ("AllergyIntolerance?patient=p1&_revinclude=Provenance:target", 750),
        ("AllergyIntolerance?_count=100", 770),
        ("DocumentReference?patient=p1", 585),
        ("metadata", 225),
    ],
)
def test_a_request_takes_no_more_calls_than_it_needs(app: Flask, fhir: Fhir, path: str, most: int):
    if settings_of(app).is_postgresql:
        pytest.skip("the driver of PostgreSQL is written in Python too")
    assert calls(app, f"/fhir/{path}", fhir.token) <= most
