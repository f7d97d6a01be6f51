"""Our application with two routes of constant bytes, one protected: what protection costs.

`python -m tests.bench.guarded`: one process, on the first core, on a port that is free.
"""

from __future__ import annotations

from flask import Flask, Response

from fhirapp.auth.protector import authenticate
from fhirapp.cli.common import ready_app, say
from fhirapp.config import settings_of
from fhirapp.ops.serve import listen
from fhirapp.ops.serve import serve as run

PLAIN, PROTECTED = "/bench/plain", "/bench/protected"
# About a page of search results.
_BODY = b"x" * 30_000


def add_routes(app: Flask) -> None:
    """Serve the two routes."""
    app.add_url_rule(PLAIN, "plain", lambda: Response(_BODY))

    def protected() -> Response:
        authenticate()
        return Response(_BODY)

    app.add_url_rule(PROTECTED, "protected", protected)


if __name__ == "__main__":
    app = ready_app(serving=True, port=0)
    add_routes(app)
    listener = listen(settings_of(app))
    say(f"serves at http://127.0.0.1:{listener.getsockname()[1]}/")
    run(app, listener)
