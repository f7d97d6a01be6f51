"""Sign in and out, the second factor, and the one-time address of a new password."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from urllib.parse import urlencode

from flask import Response, request

from fhirapp.auth.demo import PEOPLE, SECRET
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.models import User
from fhirapp.auth.models.user import ADMINISTRATOR
from fhirapp.auth.throttle import TooOften
from fhirapp.auth.users import accounts, sessions
from fhirapp.auth.users.sign_in import proved_otherwise, show_second_factor
from fhirapp.auth.users.sign_in import sign_in as try_to_sign_in
from fhirapp.config import settings
from fhirapp.db import db, writing
from fhirapp.web.cookies import end_session, form_fields, keeps, session_secret, set_session
from fhirapp.web.pages import (
    PageError,
    blueprint_of,
    current_session,
    field,
    local_path,
    page,
    password_field,
    see_other,
    sign_in_address,
    too_often,
)
from fhirapp.web.texts import _, said

blueprint = blueprint_of("sign_in", __name__)
# The same for a name that is not known and a password that is wrong.
_WRONG = _("That name and password do not go together.")
# What was just done, told on the page to sign in at.
_DONE: Mapping[str, str] = {
    "administrator": _("The administrator is made. Sign in now."),
    "password": _("Your password is saved. Sign in with it now."),
    "signed-out": _("You are signed out."),
    "late": _(
        "You were signed out meanwhile, so what you sent was not done. Sign in, and send it again."
    ),
    "kept": _(
        "You were signed out meanwhile, so what you sent was not done. Sign in: what you typed"
        " is in the form again. Choose files and type passwords once more."
    ),
}


@blueprint.get("/sign-in")
def form() -> Response:
    """Ask for name and password; next is where to go on, done a key of what was done before."""
    done = _(_DONE.get(request.args.get("done", ""), ""))
    kept = form_fields()
    back = local_path(kept.get("next", request.args.get("next")))
    return _form(back, done=done, username=kept.get("username", ""))


@blueprint.post("/sign-in")
@keeps("username", "next")
def enter() -> Response:
    """Begin a session."""
    back, before = local_path(request.form.get("next")), current_session()
    name, password = field("username", 200), password_field("password")
    address, instead_of = request.remote_addr or "", before.session_id if before else None
    try:
        entered = try_to_sign_in(name, password, address, instead_of)
    except TooOften as error:
        return too_often(partial(_form, back, username=name), error)
    if entered is None:
        return _form(back, _(_WRONG), 403, username=name)
    if before is None:
        # Where the browser's session was not used for long, what hangs on it ends now.
        _end_of_browser()
    set_session(entered.secret)
    return see_other(back if entered.complete else f"/sign-in/code?{urlencode({'next': back})}")


@blueprint.get("/sign-in/code")
def code_form() -> Response:
    """Ask for the second factor."""
    found, back = current_session(), local_path(request.args.get("next"))
    if found is None:
        return see_other(sign_in_address(back))
    return see_other(back) if found.complete else _code(back)


@blueprint.post("/sign-in/code")
def code() -> Response:
    """Complete a session by the second factor."""
    found, back = current_session(), local_path(request.form.get("next"))
    if found is None:
        return see_other(sign_in_address(back))
    if found.complete:
        return see_other(back)
    try:
        secret = show_second_factor(found, field("code", 50), request.remote_addr or "")
    except TooOften as error:
        return too_often(partial(_code, back), error)
    if secret is None:
        message = _("That code is not right, or was used before. Wait for the next one.")
        return _code(back, message, 403)
    set_session(secret)
    return see_other(back)


@blueprint.post("/sign-out")
def leave() -> Response:
    """End the session, and what apps were allowed only as long as it lasts."""
    _end_of_browser()
    end_session()
    return see_other("/sign-in?done=signed-out")


@blueprint.get("/setup")
def setup_form() -> Response:
    """Ask for the first administrator, or a new password; the code came with the address."""
    return _setup(request.args.get("code", ""))


@blueprint.post("/setup")
def setup() -> Response:
    """Make the first administrator, or the new password; the address serves once."""
    code, password = request.form.get("code", "")[:200], password_field("password")
    if password != password_field("again"):
        return _setup(code, _("The two passwords are not the same."))
    found = accounts.setup_code(code)
    if found is None:
        raise _spent()
    user_id = found.user_id
    db.session.rollback()
    try:
        with writing() as connection:
            if not accounts.spend_setup_code(connection, code):
                raise _spent()
            if user_id is None:
                accounts.add_user(
                    connection,
                    field("username", 200),
                    name=field("name", 200),
                    role=ADMINISTRATOR,
                    password=password,
                )
            else:
                accounts.set_password(connection, user_id, password)
                proved_otherwise(connection, user_id, request.remote_addr or "")
    except RefusedCommand as error:
        return _setup(code, said(error))
    return see_other(f"/sign-in?done={'administrator' if user_id is None else 'password'}")


def _end_of_browser() -> None:
    secret = session_secret()
    if secret:
        db.session.rollback()
        with writing() as connection:
            sessions.end_of_browser(connection, secret)


def _form(
    back: str, message: str = "", status: int = 200, username: str = "", done: str = ""
) -> Response:
    people = PEOPLE if settings().demo else ()
    leaves = _may_leave(back)
    return page(
        "sign_in.html",
        status,
        leaves=leaves,
        next=back,
        # An app may want the password again: going on would lead back here.
        can_go_on=not leaves,
        done=done,
        message=message,
        username=username,
        people=people,
        demo_password=SECRET,
        is_new=not accounts.has_administrator(db.session.connection()),
    )


def _code(back: str, message: str = "", status: int = 200) -> Response:
    return page("code.html", status, leaves=_may_leave(back), next=back, message=message)


def _may_leave(back: str) -> bool:
    """Say whether signing in may lead to an app at once, with an error that it is told."""
    return back.startswith("/oauth/authorize/")


def _setup(code: str, message: str = "") -> Response:
    found = accounts.setup_code(code)
    if found is None:
        raise _spent()
    user = None if found.user_id is None else db.session.get(User, found.user_id)
    return page(
        "setup.html",
        400 if message else 200,
        code=code,
        user=user,
        message=message,
        username=request.form.get("username", ""),
        name=request.form.get("name", ""),
    )


def _spent() -> PageError:
    return PageError(
        404,
        _(
            "This address was used, or is too old. Ask an administrator for another; before there"
            " is one, restart the server, which prints a new one."
        ),
        _("This address was used") if request.values.get("code") else "",
    )
