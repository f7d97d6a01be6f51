"""The cookies: a session's and a visitor's, with the token of forms, and what was typed.

Browsers send a host's cookies to each of its ports: a cookie's name tells the servers of one host
apart, such as a demo beside a clinic, and is the same in each process of one.

A form's token is what only this server can work out of the browser's cookie, which no other site
reads (OWASP CSRF Prevention Cheat Sheet, signed double-submit cookie).

What was typed into a form that came too late: the browser keeps it for the form's page.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from flask import Response, current_app, g, request
from werkzeug.datastructures import MultiDict
from werkzeug.sansio.http import parse_cookie

from fhirapp.address import base_url
from fhirapp.auth.keys import keyed_digest
from fhirapp.auth.tokens import new_token
from fhirapp.auth.users.sessions import ABSOLUTE_SECONDS
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


View = TypeVar("View", bound=Callable[..., Any])
_KEPT, _PAGE = "keeps_typed", "page_of_form"
# In characters: with more, browsers drop a cookie.
_MOST = 3_500


def keeps(*names: str, page: str = "") -> Callable[[View], View]:
    """Say which fields of a form are kept; page is the one that has it, where that is not above."""

    def named(view: View) -> View:
        setattr(view, _KEPT, names)
        setattr(view, _PAGE, page)
        return view

    return named


def is_ours() -> bool:
    """Say whether the browser tells that one of our own pages sends this form."""
    return request.headers.get("Sec-Fetch-Site") == "same-origin"


def page_of_form() -> str:
    """Return the path of the page that has the form: the same one, or the nearest above it."""
    adapter, path = current_app.create_url_adapter(request), request.path
    if told := str(getattr(_view(), _PAGE, "")):
        return told
    while path and adapter is not None and not adapter.test(path, "GET"):
        path = path.rpartition("/")[0]
    return path or "/"


def keep() -> bool:
    """Keep what was typed; say whether there was something, and room for it."""
    names = getattr(_view(), _KEPT, ())
    pairs = [(name, one) for name in names for one in request.form.getlist(name) if one]
    text = urlencode(pairs)
    if not pairs or len(text) > _MOST:
        return False
    set_typed(f"{page_of_form()}?{text}")
    return True


def typed_typed() -> MultiDict[str, str]:
    """Return what stands in the form of this page: what is sent now, or was kept of it, once."""
    if request.method == "POST":
        return request.form
    path, _sign, query = (typed() or "").partition("?")
    if path != request.path:
        return MultiDict()
    set_typed("")
    return MultiDict(parse_qsl(query))


def _view() -> object:
    return current_app.view_functions.get(request.endpoint or "")
