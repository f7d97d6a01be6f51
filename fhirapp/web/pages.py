"""How a page is made: who may see it, its headers, its form's fields and token, its errors.

Pages that sign in, consent and change things have no scripts; those that show things may have our
own, from files. No page can be framed. Each form carries a token (cookies.py), so no other site can
send it. What goes wrong is shown as a page too.
"""

from __future__ import annotations

import errno
import hmac
import logging
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial, wraps
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode, urlsplit

from flask import Blueprint, Flask, Response, current_app, g, render_template, request
from markupsafe import Markup
from werkzeug.exceptions import HTTPException

from fhirapp import config, urls
from fhirapp.audit import Unwritable, acts
from fhirapp.auth.models import ADMINISTRATOR, STAFF
from fhirapp.auth.protector import VIA_PROXY, request_id
from fhirapp.auth.throttle import TooOften
from fhirapp.auth.users import sessions
from fhirapp.auth.users.sessions import Signed
from fhirapp.db import is_busy, writing
from fhirapp.fhir.outcome import FhirError
from fhirapp.fhir.words import in_words_of, shortened, without_direction
from fhirapp.files import FilesUnavailable
from fhirapp.rest.errors import ERROR_PAGE
from fhirapp.url_syntax import is_loopback, normalise_authority
from fhirapp.web import cookies, navigation, texts, times
from fhirapp.web.browsers import browser
from fhirapp.web.texts import _, ngettext, numeral

# By the answer's status: the heading, and what to do where no other message is given.
_TITLES = {
    400: (_("Invalid request"), _("Go back and try again.")),
    403: (_("You don't have access to this"), _("Sign in with an account that has access.")),
    421: (_("Wrong address"), _("Open this site at its configured address.")),
    404: (_("Page not found"), _("Check the address, or go to your account.")),
    405: (_("Action not available"), _("Go back and use the links and buttons on the page.")),
    409: (_("Already done"), _("Go back and reload the page.")),
    413: (_("Input too long"), _("Go back and shorten it.")),
    414: (_("Address too long"), _("Go back and shorten it.")),
    429: (_("Too many attempts"), _("Wait a few minutes and try again.")),
    503: (_("The server is busy"), _("Wait a moment and try again.")),
    507: (
        _("The server's disk is full"),
        _("Nothing was saved. Ask an administrator to free disk space, then try again."),
    ),
}
_OTHER = (_("Something went wrong"), _("Go back and try again."))
_POLICY = (
    "default-src 'none'; style-src 'self'; img-src 'self' data:; frame-ancestors 'none';"
    " base-uri 'none'"
)
# Scripts come from our own files, and send requests to this server only.
_POLICY_OF_SCRIPTS = (
    "default-src 'self'; img-src 'self' data:; object-src 'none'; frame-ancestors 'none';"
    " base-uri 'none'"
)
# What is said of a form that changed nothing, and its key in an address.
UNCHANGED, NOTHING_CHANGED = "nothing", _("Nothing was changed.")
# Redirects users to the first page of their role (web/home.py).
START = "/start"
# Attributes of views.
_OPEN, _ASKS = "from_elsewhere", "asks_to_sign_in"
# Of the page to return to after signing in: the explorer's contains another address.
_LONGEST_PATH = 16_000
_log = logging.getLogger(__name__)
View = TypeVar("View", bound=Callable[..., Any])


class PageError(Exception):
    """A page cannot be shown; str() tells the person why and what to do.

    title replaces the heading of the status; form is the path of the page with the form.
    """

    def __init__(self, status: int, message: str, title: str = "", form: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.title = title
        self.form = form


def init_app(app: Flask) -> None:
    """Give the templates what each page shows."""
    app.context_processor(_shared)
    for show in (times.day, times.exact, times.moment, times.partial, numeral, browser, shortened):
        app.add_template_filter(show)
    app.add_template_global(has_page)
    app.extensions[ERROR_PAGE] = error_page
    app.jinja_env.finalize = _without_direction


def has_page(path: str) -> bool:
    """Return whether this server has a page at a path: its feature may not be there."""
    return current_app.url_map.bind("localhost").test(urlsplit(path).path, "GET")


def _without_direction(value: object) -> object:
    """Return a value as a template writes it: no text turns the words around it.

    A record may have an author such as `Dr. \u202eevE`, which reads as `Dr. Eve`. Markup stays,
    such as the value of a field that is sent back; a shown document warns of these characters.
    """
    return without_direction(value) if type(value) is str else value


def blueprint_of(name: str, module: str) -> Blueprint:
    """Return a blueprint of pages: its forms are checked, its errors are pages too."""
    blueprint = Blueprint(name, module, template_folder="templates")
    blueprint.before_request(_check_host)
    blueprint.before_request(_check_form)
    blueprint.after_request(cookies.send)
    blueprint.register_error_handler(PageError, _render_error)
    blueprint.register_error_handler(HTTPException, lambda error: error_page(error.code or 500))
    blueprint.register_error_handler(FhirError, _render_refused)
    blueprint.register_error_handler(Exception, _render_unexpected)
    return blueprint


def page(
    template: str, status: int = 200, *, leaves: bool = False, scripts: bool = False, **values: Any
) -> Response:
    """Return a page. With leaves its form's answer sends the browser to another site.

    With scripts it has those that its template names, beside htmx.
    """
    response = Response(render_template(template, scripts=scripts, **values), status)
    policy = _POLICY_OF_SCRIPTS if scripts else _POLICY
    policy = policy if leaves else f"{policy}; form-action 'self'"
    response.headers["Content-Security-Policy"] = policy
    response.headers["X-Frame-Options"] = "DENY"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers["Cache-Control"] = "no-store"
    return texts.add_language_headers(response)


def see_other(location: str) -> Response:
    """Return 303 to an address, which the browser then gets."""
    response = Response(status=303)
    # Not resolved against the Host header, which anybody can send.
    response.autocorrect_location_header = False
    response.headers["Location"] = location
    response.headers["Cache-Control"] = "no-store"
    response.headers["Referrer-Policy"] = "no-referrer"
    return response


def acted(path: str, action: str, *, is_changed: bool = True) -> Response:
    """Return 303 to a page, whose address says what was done, or that nothing was changed."""
    return see_other(f"{path}?done={action if is_changed else UNCHANGED}")


def done_message(messages: Mapping[str, str]) -> str:
    """Return the message of the action that the page's address names."""
    action = request.args.get("done", "")
    return _(NOTHING_CHANGED if action == UNCHANGED else messages.get(action, ""))


def _shared() -> dict[str, Any]:
    session = current_session()
    field = Markup('<input type="hidden" name="form_token" value="{}">')
    return {
        "signed": session if session is not None and session.complete else None,
        "token": lambda: field.format(cookies.form_token()),
        "demo": config.settings().demo,
        "base_url": urls.base_url(),
        "now": int(time.time()),
        "zone": str(config.settings().zone),
        "clinic_name": config.settings().clinic_name,
        "address_of_page": _address_of_page,
        "navigation": navigation,
    }


def _address_of_page() -> str:
    """Return the address of this page, or of the one with the form that was sent."""
    if request.method not in ("GET", "HEAD"):
        return cookies.page_of_form()
    query = request.query_string.decode("latin-1")
    return quote(request.path) + (f"?{query}" if query else "")


def current_session() -> Signed | None:
    """Return the session of this browser, also one that still needs the second factor."""
    if "signed" not in g:
        secret = cookies.session_secret()
        g.signed = sessions.find(secret) if secret else None
        if g.signed is not None:
            acts(g.signed.user.id)
            # An error's page asks for it when the database may be gone.
            g.is_administrator = g.signed.complete and g.signed.user.role == ADMINISTRATOR
    session: Signed | None = g.signed
    return session


def signed_in() -> Signed:
    """Return the complete session of this browser. Raises PageError where there is none."""
    session = current_session()
    if session is None or not session.complete:
        raise PageError(403, _("Sign in first."))
    return session


def end_session_of_browser() -> None:
    """End the session whose secret the browser sends, also where it was not used for long."""
    secret = cookies.session_secret()
    if secret:
        with writing() as connection:
            sessions.end_of_browser(connection, secret)


def proved_by_password() -> Signed:
    """Return the session of this browser, also one whose second factor is still to be made.

    Raises PageError where there is none.
    """
    session = current_session()
    if session is not None and session.lacks_factor:
        return session
    return signed_in()


def for_signed_in(view: View) -> View:
    """Show a page only to signed-in people; others sign in first, and come back."""
    return _for(view, None)


def for_staff(view: View) -> View:
    """Show a page only to clinicians and administrators."""
    return _for(view, STAFF)


def for_administrators(view: View) -> View:
    """Show a page only to administrators."""
    return _for(view, (ADMINISTRATOR,))


def for_whom_a_factor_is_made(view: View) -> View:
    """Show a page to signed-in people, and to those who must make a second factor first."""
    return _for(view, None, without_factor=True)


def _for(view: View, roles: Collection[str] | None, *, without_factor: bool = False) -> View:
    @wraps(view)
    def checked(*args: Any, **values: Any) -> Any:
        session = current_session()
        if without_factor and session is not None and session.lacks_factor:
            return view(*args, **values)
        if session is None or not session.complete:
            if request.method not in ("GET", "HEAD"):
                return _too_late()
            return see_other(sign_in_address(request.full_path.rstrip("?")))
        if roles is not None and session.user.role not in roles:
            names = _(" or ").join(map(_, roles))
            raise PageError(403, _("You need the role %(roles)s to see this page.", roles=names))
        return view(*args, **values)

    setattr(checked, _ASKS, True)
    return cast(View, checked)


def in_words(view: View) -> View:
    """Word names of resources and $summary in the language of the page, for a view."""

    @wraps(view)
    def worded(*args: Any, **values: Any) -> Any:
        with in_words_of(texts.translator(), texts.language()):
            return view(*args, **values)

    return cast(View, worded)


def sign_in_address(back: str, done: str = "") -> str:
    """Return the address to sign in at, or for the second factor; then back.

    done is a key of the messages of that page.
    """
    session = current_session()
    if session is not None and session.lacks_factor:
        return "/account/second-factor"
    step = "" if session is None or session.complete else "/code"
    query = {"next": back} | ({"done": done} if done else {})
    return f"/sign-in{step}?{urlencode(query)}"


def local_path(text: str | None) -> str:
    """Return where to go on after signing in: a path of ours, or where the role's work is."""
    # A browser takes //host and /\host for other sites.
    is_ours = text is not None and text.startswith("/") and text[1:2] not in ("/", "\\")
    if is_ours and text is not None and text.isprintable() and text.isascii():
        return text if len(text) < _LONGEST_PATH else START
    return START


def field(name: str, longest: int = 2000, form: Mapping[str, str] | None = None) -> str:
    """Return a field of a form, by default the one that is sent, without spaces around it.

    Raises PageError where it is too long, or not text.
    """
    text = plain((request.form if form is None else form).get(name, ""))
    if len(text) > longest:
        raise PageError(
            413,
            _(
                "“%(start)s…” is too long: this field can have at most %(most)s characters.",
                start=text[:30].strip(),
                most=longest,
            ),
        )
    return text.strip()


def plain(text: str) -> str:
    """Return a text that can be stored. Raises PageError."""
    # PostgreSQL takes no NUL in a text.
    if "\0" in text:
        raise PageError(400, _("Fields can contain only text."))
    return text


def keeps_apps() -> bool:
    """Say whether the form says that apps keep their access; by default they do not."""
    return request.form.get("keep_apps") == "yes"


def password_field(name: str) -> str:
    """Return a password as it was typed; of one that is too long, enough to reject it."""
    return request.form.get(name, "")[:1000]


def from_elsewhere(view: View) -> View:
    """Accept a form that another site sends; the view must only show a page."""
    setattr(view, _OPEN, True)
    return view


def _check_host() -> None:
    """Refuse a page under another host name than ours. Raises PageError.

    A host name that resolves to us (DNS rebinding) would share our origin and cookies. A named
    proxy checks host names itself.
    """
    configured = urlsplit(config.settings().base_url)
    host = normalise_authority(request.environ.get("HTTP_HOST", ""), configured.scheme or "http")
    is_ours = host == configured.netloc and host != ""
    if not (is_ours or is_loopback(host) or request.environ.get(VIA_PROXY)):
        raise PageError(
            421, _("The address of this server is %(address)s", address=urls.base_url())
        )


def _check_form() -> Response | None:
    """Refuse a form that does not come from a page of ours, or too late. Raises PageError."""
    view = current_app.view_functions.get(request.endpoint or "")
    if request.method in ("GET", "HEAD", "OPTIONS") or getattr(view, _OPEN, False):
        return None
    # A header where the body is no form: no other site's script may send that one.
    token = request.form.get("form_token") or request.headers.get("X-Form-Token", "")
    if hmac.compare_digest(token.encode(), cookies.form_token().encode()):
        return None
    if not cookies.is_ours():
        raise PageError(
            400, _("This form has expired or did not come from this site. Go back and try again.")
        )
    session = current_session()
    if session is None and request.endpoint == "sign_in.leave":
        return see_other("/sign-in?done=signed-out")
    if getattr(view, _ASKS, False) and (session is None or not session.complete):
        return _too_late()
    message = _(
        "The form has expired, or you signed in or out after you opened it. Nothing was changed."
    )
    if cookies.keep():
        message = f"{message} {_('Your entries are still in the form.')}"
    raise PageError(400, message, _("This form has expired"), cookies.page_of_form())


def _too_late() -> Response:
    """Lead from a form that is sent after its session ended to signing in, and back to the form."""
    if not cookies.is_ours():
        return see_other(sign_in_address(START))
    return see_other(sign_in_address(cookies.page_of_form(), "kept" if cookies.keep() else "late"))


def wait(error: TooOften) -> str:
    """Return how long to wait, in words."""
    return ngettext("Wait %(num)s minute.", "Wait %(num)s minutes.", -(-error.seconds // 60))


def form_action(
    form: Callable[..., Response],
    status: int = 400,
    error: type[config.ConfigurationError] = config.RefusedCommand,
) -> Callable[[View], View]:
    """Show a form again, with the reason, where its action is refused or tried too often.

    form takes the values of the view, then message and status. error is the exception of a
    refusal.
    """

    def decorate(view: View) -> View:
        @wraps(view)
        def act(**values: Any) -> Any:
            try:
                return view(**values)
            except error as refusal:
                return form(**values, message=texts.reason_of(refusal), status=status)
            except TooOften as too_many:
                return too_often(partial(form, **values), too_many)

        return cast(View, act)

    return decorate


def too_often(form: Callable[..., Response], error: TooOften) -> Response:
    """Return a form with the message that there were too many tries."""
    response = form(message=f"{_('Too many attempts.')} {wait(error)}", status=429)
    response.headers["Retry-After"] = str(error.seconds)
    return response


def title_and_advice(status: int) -> tuple[str, str]:
    """Return the heading of a status, and what to do."""
    title, advice = _TITLES.get(status, _OTHER)
    return _(title), _(advice)


def error_page(
    status: int,
    message: str = "",
    title: str = "",
    form: str = "",
    entry: str = "",
    english: str = "",
) -> Response:
    """Return the page that says what went wrong and what to do; form is where to try again.

    entry is where an administrator finds what the log says of it; english a message of a protocol.
    """
    usual, advice = title_and_advice(status)
    return page(
        "error.html",
        status,
        title=title or usual,
        message=message or advice,
        form=form,
        entry=entry,
        english=english,
    )


def _render_error(error: PageError) -> Response:
    return error_page(error.status, str(error), error.title, error.form)


def _render_refused(error: FhirError) -> Response:
    """Return the page for what is refused under every address: too long, too often."""
    response = error_page(error.status)
    response.headers.extend(error.headers)
    return response


def _render_unexpected(error: Exception) -> Response:
    """Return the page for a busy database; for a bug one with a request id and nothing else."""
    # The database may not be there to find the session.
    g.signed = None
    if is_busy(error):
        _log.warning("database busy: %s", type(error).__name__)
        response = error_page(503, form=_form_again())
        response.headers["Retry-After"] = "2"
        return response
    if isinstance(error, Unwritable):
        message = _(
            "The audit trail cannot be written (%(reason)s), so nothing was done.",
            reason=error.reason,
        )
        return error_page(503, message, form=_form_again())
    if isinstance(error, FilesUnavailable):
        _log.warning("files: %s", error.strerror)
        message = _("The files shared by the servers are not available. Try again later.")
        return error_page(503, message, form=_form_again())
    if is_disk_full(error):
        _log.error("request %s found the disk full", request_id())
        return error_page(507, form=_form_again())
    _log.error("request %s failed", request_id(), exc_info=error)
    message = _("The server encountered an error. Request id: %(id)s", id=request_id())
    entry = f"/admin/logs?{urlencode({'id': request_id()})}" if g.get("is_administrator") else ""
    return error_page(500, message, entry=entry)


def is_disk_full(error: BaseException) -> bool:
    """Return whether an error means that the disk, or a quota, is full."""
    cause = getattr(error, "orig", None) or error
    if isinstance(cause, OSError):
        return cause.errno in (errno.ENOSPC, errno.EDQUOT)
    # PostgreSQL's code is of its appendix A.
    return (
        getattr(cause, "sqlite_errorcode", None) == sqlite3.SQLITE_FULL
        or getattr(cause, "sqlstate", None) == "53100"
    )


def _form_again() -> str:
    """Return where to try again what was sent and not done; its fields are kept."""
    if request.method != "POST" or not cookies.is_ours():
        return ""
    cookies.keep()
    return cookies.page_of_form()
