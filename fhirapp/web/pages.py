"""How a page is made: its headers, its form's token, who signed in, what went wrong.

No script is needed anywhere, none is allowed; nothing may frame a page. Each form carries a token
(cookies.py), so no other site can send it.
"""

from __future__ import annotations

import hmac
import logging
import time
from collections.abc import Callable, Collection
from functools import wraps
from typing import Any, TypeVar, cast
from urllib.parse import urlencode

from flask import Blueprint, Flask, Response, current_app, g, render_template, request
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from fhirapp.address import base_url
from fhirapp.auth import sessions
from fhirapp.auth.models.user import ADMINISTRATOR, STAFF
from fhirapp.auth.refusals import HEADER, request_id
from fhirapp.auth.sessions import Signed
from fhirapp.auth.sign_in import TooOften
from fhirapp.config import settings
from fhirapp.db import is_busy
from fhirapp.fhir.outcome import FhirError
from fhirapp.rest.errors import ERROR_PAGE
from fhirapp.web import cookies
from fhirapp.web.dates import day, moment, partial

_log = logging.getLogger(__name__)

_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none';"
    " base-uri 'none'"
)
# What went wrong, by the answer's status, and what to do where nothing else is said of it.
_TITLES = {
    400: ("That could not be read", "Go back, and try again."),
    403: ("That is not for you", "Sign in as somebody who may do that."),
    404: ("There is no such page", "Look at the address again, or begin at your account."),
    405: ("That is not how this page works", "Go back, and use what the page offers."),
    409: ("That was done already", "Go back, and look at what is there now."),
    413: ("That is too long", "Go back, and write less."),
    414: ("That address is too long", "Go back, and write less."),
    429: ("Too many tries", "Wait a while, and try again."),
    503: ("Not just now", "The server is busy. Wait a moment, and try again."),
}
_OTHER = ("Something went wrong", "Go back, and try again.")
_OPEN = "from_elsewhere"
Answer = TypeVar("Answer", bound=Callable[..., Any])


def init_app(app: Flask) -> None:
    """Give the templates what each page shows."""
    app.context_processor(_shared)
    app.add_template_filter(day, "day")
    app.add_template_filter(moment, "moment")
    app.add_template_filter(partial, "partial")
    app.extensions[ERROR_PAGE] = error_page


def blueprint_of(name: str, module: str) -> Blueprint:
    """Return a blueprint of pages: its forms are checked, its errors are pages too."""
    blueprint = Blueprint(name, module, template_folder="templates")
    blueprint.before_request(_check_form)
    blueprint.after_request(cookies.send)
    blueprint.register_error_handler(PageError, _render_error)
    blueprint.register_error_handler(HTTPException, _render_http)
    blueprint.register_error_handler(FhirError, _render_refused)
    blueprint.register_error_handler(Exception, _render_unexpected)
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
        secret = cookies.session_secret()
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


def _for(view: Answer, roles: Collection[str] | None) -> Answer:
    @wraps(view)
    def checked(*args: Any, **values: Any) -> Any:
        found = signed()
        if found is None or not found.complete:
            asks = request.method in ("GET", "HEAD")
            here = request.full_path.rstrip("?") if asks else "/account"
            return see_other(sign_in_address(here))
        if roles is not None and found.user.role not in roles:
            raise PageError(403, f"This page is for the role {' or '.join(roles)}.")
        return view(*args, **values)

    return cast(Answer, checked)


def sign_in_address(back: str) -> str:
    """Return the address to sign in at, or to show the second factor; then back to our page."""
    found = signed()
    step = "" if found is None or found.complete else "/code"
    return f"/sign-in{step}?{urlencode({'next': back})}"


def local_path(text: str | None) -> str:
    """Return where to go on after signing in: a path of ours, or the account's page.

    A browser takes //host and /\\host for other sites.
    """
    is_ours = text is not None and text.startswith("/") and text[1:2] not in ("/", "\\")
    if is_ours and text is not None and text.isprintable() and text.isascii() and len(text) < 2000:
        return text
    return "/account"


def _token_field() -> Markup:
    return Markup('<input type="hidden" name="form_token" value="{}">').format(cookies.form_token())


def field(name: str, longest: int = 2000) -> str:
    """Return a form's field, stripped. Raises PageError where it is too long, or no text."""
    text = request.form.get(name, "")
    if len(text) > longest:
        raise PageError(413, f"The field {name} takes {longest} characters at most.")
    return plain(text).strip()


def plain(text: str) -> str:
    """Return a text that can be stored. Raises PageError."""
    # PostgreSQL takes no NUL in a text.
    if "\0" in text:
        raise PageError(400, "A field takes text only.")
    return text


def password_field(name: str) -> str:
    """Return a password as it was typed; of one that is too long, enough to find it wrong."""
    return request.form.get(name, "")[:1000]


def too_often(form: Callable[[str, int], Response], error: TooOften) -> Response:
    """Return a form with the message that there were too many tries."""
    minutes = -(-error.seconds // 60)
    wait = f"Wait {minutes} minute{'s' if minutes > 1 else ''}."
    response = form(f"There were too many tries. {wait}", 429)
    response.headers["Retry-After"] = str(error.seconds)
    return response


def _shared() -> dict[str, Any]:
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
    if not hmac.compare_digest(token.encode(), cookies.form_token().encode()):
        raise PageError(
            400, "This form is too old, or did not come from this site. Go back, and try again."
        )


def error_page(status: int, message: str = "") -> Response:
    """Return the page that tells what went wrong, and what to do."""
    title, advice = _TITLES.get(status, _OTHER)
    return page("error.html", status, title=title, message=message or advice)


def _render_error(error: PageError) -> Response:
    return error_page(error.status, str(error))


def _render_http(error: HTTPException) -> Response:
    return error_page(error.code or 500)


def _render_refused(error: FhirError) -> Response:
    """Return the page for what is refused under every address: too long, too often."""
    response = error_page(error.status)
    response.headers.extend(error.headers)
    return response


def _render_unexpected(error: Exception) -> Response:
    """Return the page for a busy database; for a bug one with a request id and nothing else."""
    # The database may not be there to ask who signed in.
    g.signed = None
    if is_busy(error):
        _log.warning("database busy: %s", type(error).__name__)
        response = error_page(503)
        response.headers["Retry-After"] = "2"
        return response
    _log.error("request %s failed", request_id(), exc_info=error)
    response = error_page(500, f"It was a mistake of this server's; its request id {request_id()}.")
    response.headers[HEADER] = request_id()
    return response
