"""The two cookies, a session's and a visitor's, and the token of forms that hangs on them.

A form's token is what only this server can work out of the browser's cookie, which no other site
reads (OWASP CSRF Prevention Cheat Sheet, signed double-submit cookie).
"""

from __future__ import annotations

from flask import Response, g, request
from werkzeug.sansio.http import parse_cookie

from fhirapp.address import base_url
from fhirapp.auth.keys import keyed_digest
from fhirapp.auth.sessions import ABSOLUTE_SECONDS
from fhirapp.auth.tokens import new_token

_SESSION, _VISITOR = "fhirapp_session", "fhirapp_visitor"


def session_secret() -> str | None:
    """Return the secret of the session that the browser says it has."""
    return _sent(_SESSION)


def set_session(secret: str) -> None:
    """Give the browser its session's cookie; forms on the page that is made now go with it."""
    g.session_secret = secret


def end_session() -> None:
    """Take the session's cookie from the browser."""
    g.session_secret = ""


def form_token() -> str:
    """Return the token that this browser's forms carry."""
    return keyed_digest("form", _browser())


def send(response: Response) -> Response:
    """Send the cookies that changed while the request was answered."""
    secret = g.get("session_secret")
    if secret == "":
        response.delete_cookie(_name(_SESSION), secure=_is_secure(), httponly=True, samesite="Lax")
    for name, value in ((_SESSION, secret), (_VISITOR, g.get("new_visitor"))):
        if value:
            response.set_cookie(
                _name(name),
                value,
                max_age=ABSOLUTE_SECONDS,
                secure=_is_secure(),
                httponly=True,
                samesite="Lax",
            )
    return response


def _browser() -> str:
    """Return a secret of this browser's: its session's, or a visitor's."""
    secret = g.get("session_secret") or _sent(_SESSION) or _sent(_VISITOR)
    if secret:
        return str(secret)
    if "new_visitor" not in g:
        g.new_visitor = new_token()
    visitor: str = g.new_visitor
    return visitor


def _sent(name: str) -> str | None:
    # Not request.cookies, which fails where another site of the host set one that is no UTF-8.
    header = request.environ.get("HTTP_COOKIE", "").encode("latin-1").decode(errors="replace")
    return parse_cookie(header).get(_name(name))


def _name(name: str) -> str:
    """Return a cookie's name: with the prefix no other host of the domain can set it."""
    return f"__Host-{name}" if _is_secure() else name


def _is_secure() -> bool:
    return base_url().startswith("https://")
