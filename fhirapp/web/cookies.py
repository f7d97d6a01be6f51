"""The cookies of a session, a visitor, a late form, a language, a sign-in; the forms' token.

Browsers send a host's cookies to each of its ports, so a cookie's name has a part that differs
between the servers of one host, such as a demo beside a clinic, and is the same in their processes.

A form's token is derived from the browser's cookie with the server's key, so no other site can make
it (OWASP CSRF Prevention Cheat Sheet, signed double-submit cookie).

The fields of a form that arrives after its session ended are kept in the browser until the person
signs in again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from urllib.parse import parse_qsl, urlencode

from flask import Response, current_app, g, request
from sqlalchemy import make_url
from werkzeug.datastructures import MultiDict
from werkzeug.sansio.http import parse_cookie

from fhirapp import config, urls
from fhirapp.auth.tokens import new_token
from fhirapp.auth.users.sessions import ABSOLUTE_SECONDS
from fhirapp.keys import keyed_digest, opened, sealed

SESSION, VISITOR, TYPED, PROVIDER = "session", "visitor", "typed", "provider"
LANGUAGE = "language"
# A kept form: the path of its page, ? and its fields. Long enough to sign in again.
_TYPED_SECONDS = 900
# Somebody may have to find their phone at the identity provider.
PROVIDER_SECONDS = 900
_LANGUAGE_SECONDS = 365 * 86_400


def session_secret() -> str | None:
    """Return the secret of the session in the browser's cookie."""
    return _sent(SESSION)


def set_session(secret: str) -> None:
    """Set the session's cookie; forms on the page that is rendered now belong to it."""
    g.session_secret = secret


def end_session() -> None:
    """Delete the session's cookie."""
    g.session_secret = ""


def provider_state() -> str:
    """Return what this browser keeps while somebody is at the identity provider, once."""
    sent = _sent(PROVIDER) or ""
    if sent:
        g.provider_state = ""
    try:
        return opened(sent.encode()) if sent else ""
    except ValueError:
        return ""


def set_provider_state(text: str) -> None:
    """Let the browser keep a text that it cannot read."""
    g.provider_state = sealed(text).decode()


def language() -> str:
    """Return the language that this browser's reader chose; empty where none was."""
    return _sent(LANGUAGE) or ""


def set_language(code: str) -> None:
    """Let the browser keep the language that its reader chose."""
    g.chosen_language = code


def form_token() -> str:
    """Return the token that this browser's forms carry."""
    return keyed_digest("form", _browser())


def send(response: Response) -> Response:
    """Send the cookies that changed while the request was answered."""
    changed = (
        (SESSION, g.get("session_secret"), ABSOLUTE_SECONDS),
        (VISITOR, g.get("new_visitor"), ABSOLUTE_SECONDS),
        (TYPED, g.get("typed"), _TYPED_SECONDS),
        (PROVIDER, g.get("provider_state"), PROVIDER_SECONDS),
        (LANGUAGE, g.get("chosen_language"), _LANGUAGE_SECONDS),
    )
    for cookie, value, seconds in changed:
        if value is not None:
            response.set_cookie(
                name_of(cookie),
                value,
                # An empty one is deleted.
                max_age=seconds if value else 0,
                expires=None if value else 0,
                secure=_is_secure(),
                httponly=True,
                samesite="Lax",
                path=urls.path_of_service() or "/",
            )
    return response


def _browser() -> str:
    """Return the secret in this browser's cookie: its session's, or a visitor's."""
    secret = g.get("session_secret") or _sent(SESSION) or _sent(VISITOR)
    if not secret:
        secret = g.setdefault("new_visitor", new_token())
    return str(secret)


def _sent(cookie: str) -> str | None:
    # request.cookies fails where another site of the host sets a cookie that is not UTF-8.
    header = request.environ.get("HTTP_COOKIE", "").encode("latin-1").decode(errors="replace")
    return parse_cookie(header).get(name_of(cookie))


def name_of(cookie: str) -> str:
    """Return the name of a cookie of this server's: fhirapp_session_1a2b3c4d.

    With the prefix __Host- no other host of the domain can set it. Below a path of the host the
    cookie is for that path, which that prefix does not allow: others stand beside it.
    """
    # Servers on one PostgreSQL may name its host each in another way, and its password may change.
    uri = config.settings().database_uri
    own = make_url(uri).database if config.settings().is_postgresql else uri.rpartition("@")[2]
    server = keyed_digest("cookie", own or "")[:8]
    name = f"fhirapp_{cookie}_{server}"
    if not _is_secure():
        return name
    return f"__Secure-{name}" if urls.path_of_service() else f"__Host-{name}"


def _is_secure() -> bool:
    return urls.base_url().startswith("https://")


View = TypeVar("View", bound=Callable[..., Any])
_KEPT, _PAGE = "keeps_typed", "page_of_form"
# In characters; browsers drop longer cookies.
_MOST = 3_500


def keeps(
    *names: str, page: str = "", more: Callable[[], Iterable[str]] = lambda: ()
) -> Callable[[View], View]:
    """Name the form fields that are kept; page is the path of the form, unless it is a parent path.

    more returns further names when a form is kept.
    """

    def named(view: View) -> View:
        setattr(view, _KEPT, lambda: (*names, *more()))
        setattr(view, _PAGE, page)
        return view

    return named


def is_ours() -> bool:
    """Return whether the browser says that one of our own pages sends this form."""
    return request.headers.get("Sec-Fetch-Site") == "same-origin"


def page_of_form() -> str:
    """Return the path of the page that has the form: the same one, or the nearest above it."""
    # Not for the request's own host, which may be none that routes can be bound to.
    adapter, path = current_app.url_map.bind("localhost"), request.path
    if page := str(getattr(_view(), _PAGE, "")):
        return page
    while path and not adapter.test(path, "GET"):
        path = path.rpartition("/")[0]
    return path or "/"


def keep() -> bool:
    """Keep the fields of the form; return False where they are empty or too long."""
    names: tuple[str, ...] = getattr(_view(), _KEPT, tuple)()
    pairs = [(name, value) for name in names for value in request.form.getlist(name) if value]
    text = urlencode(pairs)
    if not pairs or len(text) > _MOST:
        return False
    g.typed = f"{page_of_form()}?{text}"
    return True


def form_fields() -> MultiDict[str, str]:
    """Return the fields of this page's form: those sent now, or those that were kept, once."""
    if request.method == "POST":
        return request.form
    path, _sign, query = (_sent(TYPED) or "").partition("?")
    if path != request.path:
        return MultiDict()
    g.typed = ""
    return MultiDict(parse_qsl(query))


def _view() -> object:
    return current_app.view_functions.get(request.endpoint or "")
