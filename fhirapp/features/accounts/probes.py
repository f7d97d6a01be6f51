"""The probe of administrators' accounts, and the steps that set up accounts."""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import ColumnElement, func, select

from fhirapp.auth.models import ADMINISTRATOR, User
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.feature import N_
from fhirapp.probe import GOOD, NOTE, WRONG, Finding, Probe, SetupStep
from fhirapp.web.pages import signed_in

_IS_ENABLED = User.disabled.is_(False)
_IS_ADMINISTRATOR = (User.role == ADMINISTRATOR, _IS_ENABLED)
_NEW_ADMINISTRATOR = f"/admin/users/new?role={ADMINISTRATOR}"
_NO_SECOND_FACTOR = (*_IS_ADMINISTRATOR, User.totp_secret.is_(None))


def _administrators() -> Iterator[Finding]:
    count, unprotected = _count(*_IS_ADMINISTRATOR), _count(*_NO_SECOND_FACTOR)
    values = {"count": count, "without": unprotected}
    if count == 0:
        text = N_("There is no administrator.")
        advice = N_("Create the first at the address that the server prints when it starts.")
        yield Finding(WRONG, text, advice)
    elif count == 1 and not settings().demo:
        text = N_("There is only one administrator.")
        advice = N_("A second one can let the first in again, without a command on the server.")
        yield Finding(NOTE, text, advice, _NEW_ADMINISTRATOR)
    else:
        yield Finding(GOOD, N_("Administrators: %(count)s"), values=values)
    if unprotected and not settings().demo and not settings().oidc_issuer:
        text = N_("Administrators without a second factor: %(without)s of %(count)s.")
        advice = N_("Require it in the settings: FHIRAPP_SECOND_FACTOR=administrators.")
        yield Finding(NOTE, text, advice, f"/admin/users?role={ADMINISTRATOR}", values)


def add_users() -> SetupStep:
    """Return the step that adds users."""
    return SetupStep(
        20,
        N_("Add users"),
        N_("Clinicians, and patients if they are to see their own record."),
        "/admin/users/new",
        _count(_IS_ENABLED, User.role != ADMINISTRATOR) > 0,
    )


def add_second_administrator() -> SetupStep:
    """Return the step that adds a second administrator, who can let the first in again."""
    return SetupStep(
        25,
        N_("Add a second administrator"),
        N_("They can let you in again if you forget your password or lose your phone."),
        _NEW_ADMINISTRATOR,
        _count(*_IS_ADMINISTRATOR) > 1,
    )


def add_second_factor() -> SetupStep:
    """Return the step that protects administrators."""
    lacks_own = signed_in().user.totp_secret is None
    return SetupStep(
        60,
        N_("Protect administrators with a second factor"),
        N_("A code from a phone in addition to the password."),
        "/account/second-factor" if lacks_own else f"/admin/users?role={ADMINISTRATOR}",
        # The identity provider asks for its own.
        bool(settings().oidc_issuer) or _count(*_NO_SECOND_FACTOR) == 0,
    )


def _count(*conditions: ColumnElement[bool]) -> int:
    return db.session.execute(select(func.count(User.id)).where(*conditions)).scalar_one()


PROBES = (Probe(N_("Accounts"), _administrators),)
