"""Sign in at the clinic's identity provider: to it, back from it, and out of it."""

from __future__ import annotations

import json
import logging
import time

from flask import Response, current_app, request
from werkzeug.exceptions import NotFound

from fhirapp import urls
from fhirapp.audit.events import record
from fhirapp.auth.oauth.authorize import asks_anew
from fhirapp.auth.throttle import Failures, TooOften
from fhirapp.auth.users import identities
from fhirapp.auth.users.provider import PendingSignIn, Provider, Unproved, Unreachable, provider
from fhirapp.db import db
from fhirapp.features.accounts.sign_in import after_sign_in, sign_in_form
from fhirapp.web import pages
from fhirapp.web.cookies import PROVIDER_SECONDS, provider_state, set_provider_state
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("provider", __name__)
_log = logging.getLogger(__name__)
_FAILURES = "fhirapp.features.accounts.provider"
# Per IP address: each sends a request to the provider.
_FAILURES_A_MINUTE = 20
_LONGEST = 1_500
_NO_ANSWER = _("%(provider)s is not responding correctly. Try again later.")
_NOT_PROVED = _("%(provider)s did not confirm who you are. Try again.")
_TOO_LATE = _("Sign-in took too long or was started in another browser. Try again.")
# The reasons of identities.SignInRefused.
_REASONS = (
    _("Your account at the identity provider has no role on this server."),
    _(
        "An administrator must first link your account at the identity provider to an account "
        "on this server."
    ),
    _("Your account on this server is disabled."),
)


@blueprint.get("/sign-in/provider")
def begin() -> Response:
    """Lead to the provider; next is where to go on afterwards."""
    chosen, back = _provider(), pages.local_path(request.args.get("next"))
    if len(back) > _LONGEST:
        # Browsers reject longer cookies.
        back = pages.START
    # Who is signed in and comes here is asked for it, or is somebody else.
    fresh = pages.current_session() is not None or _asks_anew(back)
    # The provider may be slow: do not hold a snapshot open.
    db.session.close()
    try:
        address, begun = chosen.begin(_address_of_answer(), back, fresh=fresh)
    except (Unreachable, Unproved) as error:
        return _failed(chosen, back, error)
    set_provider_state(json.dumps(begun))
    return pages.see_other(address)


@blueprint.get("/sign-in/provider/answer")
def answer() -> Response:
    """Begin a session of whom the provider sends back."""
    chosen, begun = _provider(), _pending_sign_in()
    if begun is None:
        return sign_in_form(pages.START, _(_TOO_LATE), 400)
    back = pages.local_path(begun.back)
    before = pages.current_session()
    instead_of = before.session_id if before else None
    db.session.close()
    try:
        arrived = chosen.finish(_address_of_answer(), request.args.to_dict(), begun)
    except (Unreachable, Unproved) as error:
        return _failed(chosen, back, error)
    try:
        entered = identities.enter(arrived, by_rule=chosen.rule is not None, instead_of=instead_of)
    except identities.SignInRefused as error:
        return sign_in_form(back, _(str(error)), 403)
    if before is None:
        pages.end_session_of_browser()
    return after_sign_in(entered, back)


@blueprint.get("/sign-in/provider/leave")
def leave() -> Response:
    """Lead to where one signs out of the provider."""
    chosen, done = _provider(), "/sign-in?done=signed-out"
    try:
        return pages.see_other(chosen.leave(f"{urls.base_url()}{done}") or done)
    except (Unreachable, Unproved) as error:
        return _failed(chosen, pages.START, error)


def _provider() -> Provider:
    found = provider()
    if found is None:
        raise NotFound
    return found


def _address_of_answer() -> str:
    """Return the address that the provider has registered of this server."""
    return f"{urls.base_url()}/sign-in/provider/answer"


def _pending_sign_in() -> PendingSignIn | None:
    """Return what this browser began, None where it began nothing, or too long ago."""
    kept = provider_state()
    begun = PendingSignIn(*json.loads(kept)) if kept else None
    return begun if begun and begun.at > time.time() - PROVIDER_SECONDS else None


def _asks_anew(back: str) -> bool:
    """Say whether the page to go on to is an app's request for the person to sign in anew."""
    handle = back.removeprefix("/oauth/authorize/")
    return handle != back and asks_anew(handle.partition("?")[0])


def _failed(chosen: Provider, back: str, error: Unproved | Unreachable) -> Response:
    """Return the form once more; the log has why, and the trail that somebody did not come in."""
    _log.warning("sign-in by %s: %s", chosen.issuer, error)
    if isinstance(error, Unreachable):
        return sign_in_form(back, _(_NO_ANSWER, provider=chosen.name), 503)
    failures = current_app.extensions.setdefault(
        _FAILURES, Failures(_FAILURES_A_MINUTE, "provider")
    )
    if seconds := failures.count(request.remote_addr or ""):
        raise pages.PageError(429, pages.wait(TooOften(seconds)))
    record("sign-in-failed", what=f"by {chosen.issuer}: {error}")
    return sign_in_form(back, _(_NOT_PROVED, provider=chosen.name), 403)
