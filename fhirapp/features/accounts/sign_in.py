"""Sign in and out, the second factor, and the one-time address of a new password."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from urllib.parse import urlencode

from flask import Response, request

from fhirapp import urls
from fhirapp.auth.models import ADMINISTRATOR, SetupCode, User
from fhirapp.auth.public_accounts import public_accounts
from fhirapp.auth.throttle import TooOften
from fhirapp.auth.users import accounts
from fhirapp.auth.users.provider import provider
from fhirapp.auth.users.sign_in import NewSession, proved_otherwise, show_second_factor
from fhirapp.auth.users.sign_in import sign_in as try_to_sign_in
from fhirapp.db import db, writing
from fhirapp.web import pages
from fhirapp.web.cookies import end_session, form_fields, keeps, session_secret, set_session
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("sign_in", __name__)
# The same for an unknown name and a wrong password.
_WRONG = _("Incorrect user name or password.")
# Messages after an action, by the key in the address.
_DONE: Mapping[str, str] = {
    "administrator": _("Administrator account created. Sign in to continue."),
    "password": _("Password saved. Sign in with your new password."),
    "signed-out": _("You are signed out."),
    "signed-out-here": _(
        "You are signed out here. You may still be signed in at your identity provider."
    ),
    "ended": _(
        "You are signed out: your session has ended. Sessions end after a time without use, and "
        "for everybody when a backup is restored or a demo is reset."
    ),
    "reset": _("The demo was reset, so everybody is signed out."),
    "restored": _(
        "The server was restored from a backup, so everyone was signed out. Sign in with the "
        "password and the second factor that you had then."
    ),
    "late": _(
        "You were signed out before you sent the form, so nothing was changed. Sign in and "
        "send it again."
    ),
    "kept": _(
        "You were signed out before you sent the form, so nothing was changed. Sign in to "
        "return to it: your entries are kept, but choose files and enter passwords again."
    ),
}


@blueprint.get("/sign-in")
def form() -> Response:
    """Ask for name and password; next is where to go on, done a key of what was done before."""
    key = request.args.get("done", "")
    if not key and session_secret() and pages.current_session() is None:
        key = "ended"
    done = _(_DONE.get(key, ""))
    kept = form_fields()
    back = pages.local_path(kept.get("next", request.args.get("next")))
    left = key == "signed-out-here"
    return sign_in_form(back, done=done, username=kept.get("username", ""), left_here=left)


@blueprint.post("/sign-in")
@keeps("username", "next")
def enter() -> Response:
    """Start a session."""
    back, before = pages.local_path(request.form.get("next")), pages.current_session()
    name, password = pages.field("username", 200), pages.password_field("password")
    address, instead_of = request.remote_addr or "", before.session_id if before else None
    try:
        entered = try_to_sign_in(name, password, address, instead_of)
    except TooOften as error:
        return pages.too_often(partial(sign_in_form, back, username=name), error)
    if entered is None:
        return sign_in_form(back, _(_WRONG), 403, username=name)
    if before is None:
        # Where the browser's session expired unused, what depends on it ends now.
        pages.end_session_of_browser()
    return after_sign_in(entered, back)


def after_sign_in(entered: NewSession, back: str) -> Response:
    """Give the browser its session, and lead on: to the second factor where it is still to come."""
    set_session(entered.secret)
    return pages.see_other(
        back if entered.complete else f"/sign-in/code?{urlencode({'next': back})}"
    )


def _code(message: str = "", status: int = 200) -> Response:
    back = pages.local_path(_sent("next"))
    return pages.page(
        "accounts/code.html", status, leaves=_may_leave(back), next=back, message=message
    )


@blueprint.get("/sign-in/code")
def code_form() -> Response:
    """Ask for the second factor."""
    session, back = pages.current_session(), pages.local_path(request.args.get("next"))
    if session is None or session.lacks_factor:
        return pages.see_other(pages.sign_in_address(back))
    return pages.see_other(back) if session.complete else _code()


@blueprint.post("/sign-in/code")
@pages.form_action(_code)
def code() -> Response:
    """Complete a session by the second factor."""
    session, back = pages.current_session(), pages.local_path(request.form.get("next"))
    if session is None:
        return pages.see_other(pages.sign_in_address(back))
    if session.complete or session.lacks_factor:
        return pages.see_other(back)
    secret = show_second_factor(session, pages.field("code", 50), request.remote_addr or "")
    if secret is None:
        return _code(
            _("Incorrect or already used code. Wait for the next code and try again."), 403
        )
    set_session(secret)
    return pages.see_other(back)


@blueprint.post("/sign-out")
def leave() -> Response:
    """End the session, and the consents that last as long as it."""
    session = pages.current_session()
    is_at_provider = session is not None and session.issuer is not None
    pages.end_session_of_browser()
    end_session()
    response = pages.see_other(
        f"/sign-in?done={'signed-out-here' if is_at_provider else 'signed-out'}"
    )
    # What scripts keep in the browser, such as the token of /api-docs, is the person's too.
    # Below a path of the host others keep theirs beside it.
    if not urls.path_of_service():
        response.headers["Clear-Site-Data"] = '"storage"'
    return response


def _setup(message: str = "", status: int = 200) -> Response:
    user_id = _setup_code().user_id
    return pages.page(
        "accounts/setup.html",
        status,
        code=_sent("code"),
        user=None if user_id is None else db.session.get(User, user_id),
        message=message,
        username=request.form.get("username", ""),
        name=request.form.get("name", ""),
    )


@blueprint.get("/setup")
def setup_form() -> Response:
    """Ask for the first administrator, or a new password; the address has the code."""
    return _setup()


@blueprint.post("/setup")
@pages.form_action(_setup)
def setup() -> Response:
    """Create the first administrator, or set the new password; the address works once."""
    password = pages.password_field("password")
    if password != pages.password_field("again"):
        return _setup(_("The passwords do not match. Enter the same password twice."), 400)
    user_id = _setup_code().user_id
    with writing() as connection:
        if not accounts.spend_setup_code(connection, _sent("code")):
            raise _link_error()
        if user_id is None:
            accounts.add_user(
                connection,
                pages.field("username", 200),
                name=pages.field("name", 200),
                role=ADMINISTRATOR,
                password=password,
            )
        else:
            accounts.set_password(connection, user_id, password)
            proved_otherwise(connection, user_id, request.remote_addr or "")
    done = "administrator" if user_id is None else "password"
    return pages.see_other(f"/sign-in?done={done}")


def sign_in_form(
    back: str,
    message: str = "",
    status: int = 200,
    username: str = "",
    done: str = "",
    *,
    left_here: bool = False,
) -> Response:
    """Return the page to sign in at, with a message of what went wrong, or of what was done."""
    public = public_accounts()
    found = provider()
    leaves = _may_leave(back)
    return pages.page(
        "accounts/sign_in.html",
        status,
        leaves=leaves,
        next=back,
        # An app may want the password again: going on would lead back here.
        can_go_on=not leaves,
        done=done,
        message=message,
        username=username,
        people=public.people if public else (),
        demo_password=public.secret if public else "",
        provider=found.name if found else "",
        left_here=left_here,
        is_new=not accounts.has_administrator(db.session.connection()),
    )


def _sent(name: str) -> str:
    """Return a field of the form, or where none is sent the parameter of the address."""
    return request.form.get(name) or request.args.get(name, "")


def _may_leave(back: str) -> bool:
    """Return whether signing in may lead to an app at once, with an error for it."""
    return back.startswith("/oauth/authorize/")


def _setup_code() -> SetupCode:
    """Return the code in the address or in the form. Raises PageError where it is void."""
    found = accounts.setup_code(_sent("code"))
    if found is None:
        raise _link_error()
    return found


def _link_error() -> pages.PageError:
    return pages.PageError(
        404,
        _(
            "This link was already used or has expired. Ask an administrator for a new "
            "one. If there is no administrator yet, restart the server: it prints a new "
            "link."
        ),
        _("This link no longer works") if _sent("code") else "",
    )
