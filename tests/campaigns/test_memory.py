"""Memory of requests: an answered request leaves nothing."""

from __future__ import annotations

import gc
import sys

from werkzeug.test import EnvironBuilder


def answer(app, token: str, path: str) -> bytes:
    """Return the body of an answer as the WSGI server has it: the tests' client keeps its own."""
    builder = EnvironBuilder(f"/fhir/{path}", headers={"Authorization": f"Bearer {token}"})
    environ = builder.get_environ()
    builder.close()
    return b"".join(app.wsgi_app(environ, lambda *_: None))


def test_answered_request_leaves_nothing_in_memory(app, fhir):
    left = []
    for _ in range(8):
        before = sys.getallocatedblocks()
        for _ in range(100):
            answer(app, fhir.token, "AllergyIntolerance?patient=p1&_revinclude=Provenance:target")
        gc.collect()
        left.append(sys.getallocatedblocks() - before)
    # The first rounds fill caches; a leak shows in each of the last 400 requests.
    assert sum(left[4:]) < 300
