"""How a page is made: its headers, its form's token, who signed in, what went wrong.

No script is needed anywhere, none is allowed; nothing may frame a page. Each form carries a token
that only this server can work out of the browser's cookie, so no other site can send it.
"""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from functools import wraps
from typing import Any, TypeVar
from urllib.parse import urlencode

from flask import Blueprint, Flask, Response, current_app, g, render_template, request
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from fhirapp.address import base_url
from fhirapp.auth import sessions
from fhirapp.auth.keys import keyed_digest
from fhirapp.auth.models.user import ADMINISTRATOR, STAFF
from fhirapp.auth.sessions import ABSOLUTE_SECONDS, Signed
from fhirapp.auth.tokens import new_token
from fhirapp.config import settings

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none';"
    " base-uri 'none'"
)
_TITLES = {
    400: "That could not be read",
    403: "That is not for you",
    404: "There is no such page",
    405: "That is not how this page works",
    409: "That was done already",
    413: "That is too long",
    429: "Too many tries",
}
_OPEN = "from_elsewhere"
_SESSION, _VISITOR = "fhirapp_session", "fhirapp_visitor"
Answer = TypeVar("Answer", bound=Callable[..., Any])


def init_app(app: Flask) -> None:
    """Give the templates what each page shows."""
    app.context_processor(_shared)
    app.add_template_filter(day, "day")
    app.add_template_filter(moment, "moment")


def blueprint_of(name: str, module: str) -> Blueprint:
    """Return a blueprint of pages: its forms are checked, its errors are pages too."""
    blueprint = Blueprint(name, module, template_folder="templates")
    blueprint.before_request(_check_form)
    blueprint.register_error_handler(PageError, _render_error)
    blueprint.register_error_handler(HTTPException, _render_http)
    return blueprint


class PageError(Exception):
    """A page cannot be shown; str() tells the person why and what to do."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


def page(template: str, status: int = 200, *, leaves: bool = False, **values: Any) -> Response:
    """Return a page. With leaves its form's answer sends the browser to another site."""
    response = Response(render_template(template, **values), status)
    policy = _POLICY if leaves else f"{_POLICY}; form-action 'self'"
    response.headers["Content-Security-Policy"] = policy
    response.headers["X-Frame-Options"] = "DENY"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    response.headers["Cross-Origin-Opener-Policy"] = "same-origin"
    visitor = g.get("new_visitor")
    if visitor is not None:
        _set_cookie(response, _VISITOR, visitor)
    return response


def see_other(location: str) -> Response:
    """Return 303 to an address, to be asked for with GET whatever was asked now."""
    response = Response(status=303)
    # Not resolved against the Host header, which anybody can send.
    response.autocorrect_location_header = False
    response.headers["Location"] = location
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def signed() -> Signed | None:
    """Return who signed in with this browser; also with the second factor still to come."""
    if "signed" not in g:
        secret = request.cookies.get(_cookie(_SESSION))
        g.signed = sessions.find(secret) if secret else None
    found: Signed | None = g.signed
    return found


def somebody() -> Signed:
    """Return who signed in, on a page that asks for it."""
    found = signed()
    if found is None or not found.complete:
        raise PageError(403, "Sign in first.")
    return found


def for_signed_in(view: Answer) -> Answer:
    """Show a page only to people who signed in; others sign in first, and come back."""
    return _for(view, None)


def for_staff(view: Answer) -> Answer:
    """Show a page only to clinicians and administrators."""
    return _for(view, STAFF)


def for_administrators(view: Answer) -> Answer:
    """Show a page only to administrators."""
    return _for(view, (ADMINISTRATOR,))


def from_elsewhere(view: Answer) -> Answer:
    """Take a form that another site sends: nothing may be done by it but to show a page."""
    setattr(view, _OPEN, True)
    return view


def _for(view: Any, roles: Collection[str] | None) -> Any:
    @wraps(view)
    def checked(*args: Any, **values: Any) -> Any:
        found = signed()
        if found is None or not found.complete:
            here = request.full_path.rstrip("?") if request.method == "GET" else "/account"
            return see_other(sign_in_address(here))
        if roles is not None and found.user.role not in roles:
            raise PageError(403, f"This page is for the role {' or '.join(roles)}.")
        return view(*args, **values)

    return checked


def sign_in_address(back: str) -> str:
    """Return the address to sign in at, and then go back to a page of ours."""
    return f"/sign-in?{urlencode({'next': back})}"


def local_path(text: str | None) -> str:
    """Return where to go on after signing in: a path of ours, or the account's page.

    A browser takes //host and /\\host for other sites.
    """
    is_ours = text is not None and text.startswith("/") and text[1:2] not in ("/", "\\")
    if is_ours and text is not None and text.isprintable() and text.isascii() and len(text) < 2000:
        return text
    return "/account"


def set_session(response: Response, secret: str) -> Response:
    """Give the browser its session's cookie."""
    _set_cookie(response, _SESSION, secret)
    return response


def end_session(response: Response) -> Response:
    """Take the session's cookie from the browser."""
    response.delete_cookie(_cookie(_SESSION), secure=_is_secure(), httponly=True, samesite="Lax")
    return response


def form_token() -> str:
    """Return the token that this browser's forms carry."""
    return keyed_digest("form", _browser())


def _token_field() -> Markup:
    return Markup('<input type="hidden" name="form_token" value="{}">').format(form_token())


def field(name: str, longest: int = 2000) -> str:
    """Return a form's field, stripped. Raises PageError where it is too long."""
    text = request.form.get(name, "")
    if len(text) > longest:
        raise PageError(413, f"The field {name} takes {longest} characters at most.")
    return text.strip()


def day(seconds: int | None) -> str:
    """Return a day as people write it, in UTC: 3 May 2026."""
    if not seconds:
        return "never"
    then = datetime.fromtimestamp(seconds, UTC)
    return f"{then.day} {then:%B %Y}"


def moment(seconds: int | None) -> str:
    """Return a moment as people write it: 3 May 2026, 14:05 UTC."""
    if not seconds:
        return "never"
    return f"{day(seconds)}, {datetime.fromtimestamp(seconds, UTC):%H:%M} UTC"


def _shared() -> dict[str, Any]:
    if request.blueprint is None:
        return {}
    found = signed()
    complete = found if found is not None and found.complete else None
    return {
        "signed": complete,
        "token": _token_field,
        "demo": settings().demo,
        "base_url": base_url(),
        "now": int(time.time()),
    }


def _check_form() -> None:
    """Refuse a form that does not come from a page of ours. Raises PageError."""
    view = current_app.view_functions.get(request.endpoint or "")
    if request.method in ("GET", "HEAD", "OPTIONS") or getattr(view, _OPEN, False):
        return
    token = request.form.get("form_token", "")
    if not hmac.compare_digest(token.encode(), form_token().encode()):
        raise PageError(
            400, "This form is too old, or did not come from this site. Go back, and try again."
        )


def _browser() -> str:
    """Return a secret of this browser's: its session's, or a visitor's."""
    secret = request.cookies.get(_cookie(_SESSION)) or request.cookies.get(_cookie(_VISITOR))
    if secret:
        return secret
    if "new_visitor" not in g:
        g.new_visitor = new_token()
    visitor: str = g.new_visitor
    return visitor


def _is_secure() -> bool:
    return base_url().startswith("https://")


def _cookie(name: str) -> str:
    """Return a cookie's name: with the prefix no other host of the domain can set it."""
    return f"__Host-{name}" if _is_secure() else name


def _set_cookie(response: Response, name: str, value: str) -> None:
    response.set_cookie(
        _cookie(name),
        value,
        max_age=ABSOLUTE_SECONDS,
        secure=_is_secure(),
        httponly=True,
        samesite="Lax",
        path="/",
    )


def error_page(status: int, message: str) -> Response:
    """Return the page that tells what went wrong."""
    title = _TITLES.get(status, "Something went wrong")
    return page("error.html", status, title=title, message=message)


def _render_error(error: PageError) -> Response:
    return error_page(error.status, str(error))


def _render_http(error: HTTPException) -> Response:
    status = error.code or 500
    return error_page(status, _TITLES.get(status, "Something went wrong") + ".")
