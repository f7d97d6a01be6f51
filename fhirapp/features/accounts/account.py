"""The pages of the own account: connected apps, the password, the second factor."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import NamedTuple

from flask import Response, request

from fhirapp import config, urls
from fhirapp.auth.links import linked_patients
from fhirapp.auth.models import PATIENT, Client, Grant
from fhirapp.auth.users import accounts, second_factor, sessions
from fhirapp.auth.users.accounts import active_grants, revoke_consent
from fhirapp.auth.users.provider import provider
from fhirapp.auth.users.sessions import ABSOLUTE_SECONDS, IDLE_SECONDS, Signed, must_have_factor
from fhirapp.auth.users.sign_in import prove, show_second_factor
from fhirapp.db import writing
from fhirapp.keys import opened, sealed
from fhirapp.web import pages
from fhirapp.web.cookies import set_session
from fhirapp.web.labels import ScopeLabel, in_words, returns_to
from fhirapp.web.people import Person, people, person
from fhirapp.web.texts import _
from fhirapp.web.times import day, moment

blueprint = pages.blueprint_of("account", __name__)
# How long the page that shows a new secret can be answered.
_SECRET_SECONDS = 10 * 60
_PURPOSE = "second-factor"
# Seconds after a provider sign-in in which users may change how they sign in.
_LATELY_SECONDS = 10 * 60
# Sooner expiries are shown with the time of day.
_SOON_SECONDS = 2 * 86_400
_WRONG_PASSWORD = _("Incorrect password. Enter your current password.")
_ENDED = {"one": _("Session ended."), "all": _("You are signed out everywhere else.")}


class ConnectedApp(NamedTuple):
    """The consents to an app about a record; person is None if the record is not shown.

    id is that of the newest consent, times their number, until the end of the last one.
    """

    id: str
    client: Client
    returns_to: str
    times: int
    since: str
    until: str
    # Whether there is a patient in context, and who it is.
    is_of_one: bool
    person: Person | None
    scopes: Sequence[ScopeLabel]


@blueprint.get("/account")
@pages.for_signed_in
def account() -> Response:
    """Show who is signed in, for how long, and what they can do."""
    session = pages.signed_in()
    user = session.user
    linked = linked_patients(user.id) if user.role == PATIENT else []
    records = people(linked)
    return pages.page(
        "accounts/account.html",
        user=user,
        records=records,
        missing=len(linked) - len(records),
        since=session.signed_in_at,
        until=session.signed_in_at + ABSOLUTE_SECONDS,
        idle_minutes=IDLE_SECONDS // 60,
    )


@blueprint.get("/account/apps")
@pages.for_signed_in
def apps() -> Response:
    """List the apps that the user gave access to."""
    user = pages.signed_in().user
    theirs = linked_patients(user.id) if user.role == PATIENT else None
    of_record: dict[tuple[str, str | None], list[tuple[Grant, Client]]] = {}
    for grant, client in active_grants(user.id):
        of_record.setdefault((client.client_id, grant.patient_id), []).append((grant, client))
    connected = [
        _connected_app([grant for grant, _client in consents], consents[0][1], theirs)
        for consents in of_record.values()
    ]
    done = pages.done_message({"revoked": _("Access revoked.")})
    return pages.page("accounts/apps.html", connected=connected, done=done)


@blueprint.post("/account/apps/<grant_id>/revoke")
@pages.for_signed_in
def revoke(grant_id: str) -> Response:
    """End an app's access to a record. 404 for another user's, as for an unknown one."""
    user_id = pages.signed_in().user.id
    with writing() as connection:
        # PostgreSQL refuses text that contains NUL.
        is_revoked = (
            revoke_consent(connection, grant_id, user_id) if grant_id.isprintable() else None
        )
    if is_revoked is None:
        raise pages.PageError(
            404,
            _("This access does not exist. Your connected apps are listed under Connected apps."),
        )
    return pages.acted("/account/apps", "revoked", is_changed=is_revoked)


@blueprint.get("/account/sessions")
@pages.for_signed_in
def browsers() -> Response:
    """List where the user is signed in."""
    session = pages.signed_in()
    return pages.page(
        "accounts/sessions.html",
        sessions=sessions.of_user(session.user.id),
        here=session.session_id,
        done=pages.done_message(_ENDED),
    )


@blueprint.post("/account/sessions/end")
@pages.for_signed_in
def end_session() -> Response:
    """End one of the user's sessions, or all but this one. 404 for another user's."""
    session, wanted = pages.signed_in(), pages.field("session", 100)
    user_id, here = session.user.id, session.session_id
    with writing() as connection:
        if not wanted:
            is_changed = sessions.sign_out_everywhere(
                connection, user_id, but=here, keep_apps=pages.keeps_apps()
            )
            return pages.acted("/account/sessions", "all", is_changed=is_changed)
        if wanted == here or not sessions.end_one(connection, user_id, wanted):
            raise pages.PageError(404, _("This session has already ended."))
    return pages.acted("/account/sessions", "one")


def _password(message: str = "", status: int = 200) -> Response:
    session, chosen = pages.signed_in(), provider()
    by = chosen.name if chosen and session.issuer else ""
    return pages.page("accounts/password.html", status, user=session.user, message=message, by=by)


@blueprint.get("/account/password")
@pages.for_signed_in
def password_form() -> Response:
    """Ask for the old password and the new one."""
    return _password()


@blueprint.post("/account/password")
@pages.for_signed_in
@pages.form_action(_password)
def password() -> Response:
    """Change the password, and end all other sessions."""
    session = pages.signed_in()
    user_id, session_id = session.user.id, session.session_id
    old, new = pages.password_field("old"), pages.password_field("password")
    if new != pages.password_field("again"):
        return _password(_("The new passwords do not match. Enter the same password twice."), 400)
    if not prove(user_id, old, request.remote_addr or ""):
        return _password(_(_WRONG_PASSWORD), 403)
    if new == old:
        same = _("The new password is the same as the current one.")
        return _password(f"{same} {_(pages.NOTHING_CHANGED)}", 400)
    with writing() as connection:
        accounts.set_password(
            connection, user_id, new, keep=session_id, keep_apps=pages.keeps_apps()
        )
        set_session(sessions.renewed(connection, session_id))
    return pages.page("accounts/password.html", user=pages.signed_in().user, is_done=True)


def _second_factor(message: str = "", status: int = 200, sealed_secret: str = "") -> Response:
    """Return the page; sealed_secret is the one that it showed before."""
    session = pages.proved_by_password()
    user = session.user
    if user.totp_secret is not None:
        left = second_factor.codes_left(user.id)
        return pages.page(
            "accounts/second_factor.html",
            status,
            is_on=True,
            left=left,
            message=message,
            by=session.issuer,
        )
    secret = _decrypt(sealed_secret, user.id)
    if secret is None:
        secret = second_factor.new_secret()
        sealed_secret = _encrypt(secret, user.id)
    address = second_factor.address(secret, user.username)
    return pages.page(
        "accounts/second_factor.html",
        status,
        is_on=False,
        secret=" ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        address=address,
        picture=_picture(address),
        sealed=sealed_secret,
        must=session.lacks_factor,
        by=session.issuer,
        message=message,
    )


@blueprint.get("/account/second-factor")
@pages.for_whom_a_factor_is_made
def second_factor_form() -> Response:
    """Show a new secret for the phone; or, where there is one, how to turn it off."""
    return _second_factor()


@blueprint.post("/account/second-factor")
@pages.for_whom_a_factor_is_made
@pages.form_action(_second_factor)
def turn_second_factor() -> Response:
    """Turn the second factor on or off."""
    if "off" in request.form:
        return _turn_off()
    session = pages.proved_by_password()
    user_id, session_id = session.user.id, session.session_id
    sealed_secret = pages.field("secret", 1000)
    secret = _decrypt(sealed_secret, user_id)
    if secret is None:
        return _second_factor(_("The QR code has expired. Scan the new one."), 400)
    interval = second_factor.interval_of(secret, pages.field("code", 50))
    if interval is None:
        message = _("Incorrect code. Wait for the next code in the app and try again.")
        return _second_factor(message, 403, sealed_secret)
    if fault := _unproved(session):
        return _second_factor(fault, 403, sealed_secret)
    try:
        with writing() as connection:
            codes = second_factor.enable(connection, user_id, secret, interval)
            sessions.sign_out_everywhere(
                connection, user_id, but=session_id, keep_apps=pages.keeps_apps()
            )
            set_session(sessions.renewed(connection, session_id))
    except config.RefusedCommand:
        return pages.see_other("/account/second-factor")
    return pages.page("accounts/second_factor_codes.html", scripts=True, codes=codes)


_MUST_HAVE = _(
    "This server requires a second factor for your role, so you can't turn it off. For a "
    "new phone, ask an administrator to remove it, then set up a new one right away."
)


def _turn_off() -> Response:
    session, address = pages.signed_in(), request.remote_addr or ""
    user_id = session.user.id
    if session.user.totp_secret is None:
        return pages.see_other("/account/second-factor")
    if must_have_factor(session.user.role):
        return _second_factor(_(_MUST_HAVE), 403)
    if fault := _unproved(session):
        return _second_factor(fault, 403)
    secret = show_second_factor(session, pages.field("code", 50), address)
    if secret is None:
        return _second_factor(
            _("Incorrect or already used code. Wait for the next code and try again."), 403
        )
    set_session(secret)
    with writing() as connection:
        second_factor.disable(connection, user_id)
        sessions.sign_out_everywhere(
            connection, user_id, but=session.session_id, keep_apps=pages.keeps_apps()
        )
    return pages.see_other("/account/second-factor")


def _unproved(session: Signed) -> str:
    """Return why the user must prove their identity again; empty if they need not.

    Proof is the password, or a recent sign-in at the identity provider. Raises TooOften.
    """
    if session.issuer is None:
        proved = prove(session.user.id, pages.password_field("password"), request.remote_addr or "")
        return "" if proved else _(_WRONG_PASSWORD)
    if session.signed_in_at > time.time() - _LATELY_SECONDS:
        return ""
    return _("You signed in too long ago to change this. Sign in again, then make the change.")


def _encrypt(secret: str, user_id: str) -> str:
    """Return a secret for the form, encrypted for this user and a limited time."""
    return sealed(f"{_PURPOSE} {user_id} {int(time.time()) + _SECRET_SECONDS} {secret}").decode()


def _decrypt(sealed_secret: str, user_id: str) -> str | None:
    """Return the secret in a form of this user; None where it is too old, or not theirs."""
    try:
        purpose, whose, until, secret = opened(sealed_secret.encode()).split(" ")
    except ValueError:
        return None
    is_theirs = purpose == _PURPOSE and whose == user_id
    return secret if is_theirs and int(until) > time.time() else None


def _picture(address: str) -> str:
    """Return a QR code as the data URI of an image."""
    # Imported where it is used: a server without pages in use never needs it.
    import segno

    code = segno.make(address, error="m", micro=False)
    return str(code.svg_data_uri(scale=5, light="white"))


def _connected_app(
    grants: Sequence[Grant], client: Client, theirs: Collection[str] | None
) -> ConnectedApp:
    """Return the consents to an app about one record; grants are sorted newest first.

    theirs are the records that a patient user may see now.
    """
    newest = grants[0]
    last = max(grants, key=lambda grant: (grant.expires_at, grant.session_id is None))
    patient_id, soon = newest.patient_id, last.expires_at - time.time() < _SOON_SECONDS
    until = moment(last.expires_at) if soon else day(last.expires_at)
    is_shown = patient_id is not None and (theirs is None or patient_id in theirs)
    scopes = dict.fromkeys(text for grant in grants for text in grant.scope.split())
    return ConnectedApp(
        newest.id,
        client,
        returns_to(client.redirect_uris or (), urls.base_url()),
        len(grants),
        moment(newest.created_at),
        _("you sign out, or %(until)s at the latest", until=until) if last.session_id else until,
        patient_id is not None,
        person(patient_id) if is_shown and patient_id is not None else None,
        [in_words(text) for text in scopes],
    )
