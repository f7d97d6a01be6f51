"""The home page of the demo: an example search with its answer, the accounts, the clients."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from flask import Response, current_app
from werkzeug.exceptions import NotFound

from fhirapp.config import settings
from fhirapp.features.demo import accounts
from fhirapp.features.demo.live_search import ADDRESS, live_search
from fhirapp.features.demo.reset import reset
from fhirapp.web.pages import blueprint_of, for_administrators, see_other
from fhirapp.web.texts import _

blueprint = blueprint_of("demo", __name__)
# A search of the demo's records, to begin with, and the one that the page shows, explained.
_EXAMPLE = {"address": "/fhir/AllergyIntolerance?patient=p1&_explain=true"}
_EXPLAINED = {"address": f"{ADDRESS}&_explain=true", "narrow": "1"}
# By the user name of a demo account: the page to which it signs in, the words of the button, what
# it may see.
_ACCOUNTS: Mapping[str, tuple[str, str, str]] = {
    "clinician": ("/patients", _("Continue as clinician"), _("Clinician: all patients")),
    "patient": ("/patients", _("Continue as patient"), _("Patient: their own record")),
    "parent": ("/patients", _("Continue as parent"), _("Parent: the record of a child")),
    "admin": (
        "/admin",
        _("Continue as administrator"),
        _("Administrator: users, apps and imports"),
    ),
}


def home() -> tuple[str, Mapping[str, Any]] | None:
    """Return the template of the home page with its values, None outside the demo."""
    if not settings().demo:
        return None
    return "demo/home.html", {
        "people": {person.username: person for person in accounts.PEOPLE},
        "password": accounts.SECRET,
        "clients": _clients(),
        "sample": accounts.SAMPLE_PATH,
        "example": f"/explore?{urlencode(_EXAMPLE)}",
        "explained": f"/explore?{urlencode(_EXPLAINED)}#explained",
        "live": live_search(),
        "accounts": _ACCOUNTS,
    }


@blueprint.post("/demo/reset")
@for_administrators
def reset_demo() -> Response:
    """Put the demo back to its first state, which ends all sessions. 404 outside the demo."""
    if not settings().demo:
        raise NotFound
    reset(current_app, time.time())
    return see_other("/sign-in?done=reset")


def _clients() -> Sequence[tuple[str, str, str]]:
    """Return the clients of the demo: id, secret, what it is for."""
    return (
        (accounts.BACKEND, accounts.SECRET, _("System (no user), for all patients")),
        (accounts.APP, "", _("Browser or mobile app, with PKCE")),
        (accounts.CONFIDENTIAL, accounts.SECRET, _("An app with its own server")),
    )
