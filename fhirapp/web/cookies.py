"""The cookies: a session's and a visitor's, with the token of forms, and what was typed.

Browsers send a host's cookies to each of its ports: a cookie's name tells the servers of one host
apart, such as a demo beside a clinic, and is the same in each process of one.

A form's token is what only this server can work out of the browser's cookie, which no other site
reads (OWASP CSRF Prevention Cheat Sheet, signed double-submit cookie).
"""

from __future__ import annotations

from flask import Response, g, request
from werkzeug.sansio.http import parse_cookie

from fhirapp.address import base_url
from fhirapp.auth.keys import keyed_digest
from fhirapp.auth.people.sessions import ABSOLUTE_SECONDS
from fhirapp.auth.tokens import new_token
from fhirapp.config import settings

SESSION, VISITOR, TYPED = "session", "visitor", "typed"
# What was typed into a form that came too late is kept as long as signing in again takes.
_TYPED_SECONDS = 900


def session_secret() -> str | None:
    """Return the secret of the session that the browser says it has."""
    return _sent(SESSION)


def set_session(secret: str) -> None:
    """Give the browser its session's cookie; forms on the page that is made now go with it."""
    g.session_secret = secret


def end_session() -> None:
    """Take the session's cookie from the browser."""
    g.session_secret = ""


def typed() -> str | None:
    """Return what the browser keeps of a form (typed.py)."""
    return _sent(TYPED)


def set_typed(text: str) -> None:
    """Let the browser keep what was typed into a form; nothing where the text is empty."""
    g.typed = text


def form_token() -> str:
    """Return the token that this browser's forms carry."""
    return keyed_digest("form", _browser())


def send(response: Response) -> Response:
    """Send the cookies that changed while the request was answered."""
    changed = (
        (SESSION, g.get("session_secret"), ABSOLUTE_SECONDS),
        (VISITOR, g.get("new_visitor"), ABSOLUTE_SECONDS),
        (TYPED, g.get("typed"), _TYPED_SECONDS),
    )
    for cookie, value, seconds in changed:
        if value == "":
            response.delete_cookie(
                name_of(cookie), secure=_is_secure(), httponly=True, samesite="Lax"
            )
        elif value:
            response.set_cookie(
                name_of(cookie),
                value,
                max_age=seconds,
                secure=_is_secure(),
                httponly=True,
                samesite="Lax",
            )
    return response


def _browser() -> str:
    """Return a secret of this browser's: its session's, or a visitor's."""
    secret = g.get("session_secret") or _sent(SESSION) or _sent(VISITOR)
    if secret:
        return str(secret)
    if "new_visitor" not in g:
        g.new_visitor = new_token()
    visitor: str = g.new_visitor
    return visitor


def _sent(cookie: str) -> str | None:
    # Not request.cookies, which fails where another site of the host set one that is no UTF-8.
    header = request.environ.get("HTTP_COOKIE", "").encode("latin-1").decode(errors="replace")
    return parse_cookie(header).get(name_of(cookie))


def name_of(cookie: str) -> str:
    """Return the name of a cookie of this server's: fhirapp_session_1a2b3c4d.

    With the prefix __Host- no other host of the domain can set it.
    """
    # Without the password of the database, which may change.
    server = keyed_digest("cookie", settings().database_uri.rpartition("@")[2])[:8]
    name = f"fhirapp_{cookie}_{server}"
    return f"__Host-{name}" if _is_secure() else name


def _is_secure() -> bool:
    return base_url().startswith("https://")
