"""The keys that tokens are signed with."""

from __future__ import annotations

import time

from flask import Response, request

from fhirapp.auth.oauth import signing
from fhirapp.config import ConfigurationError, settings
from fhirapp.web.pages import (
    PageError,
    blueprint_of,
    error_page,
    field,
    for_administrators,
    page,
    see_other,
)
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_keys", __name__)
# The keys' file cannot be read or written; what to do is told with it.
blueprint.register_error_handler(ConfigurationError, lambda error: error_page(500, str(error)))


@blueprint.get("/admin/keys")
@for_administrators
def every() -> Response:
    """Show the keys, and what each is for now."""
    return _keys(done=request.args.get("done") == "rotated")


@blueprint.post("/admin/keys/rotate")
@for_administrators
def rotate() -> Response:
    """Make a new key, once somebody said that they are sure; `fhirapp key rotate` does the same."""
    now = int(time.time())
    if _waits(now):
        # The button was pressed twice, or in two browsers.
        raise PageError(409, _("A new key was made some minutes ago, and does not sign yet."))
    if field("sure") != "yes":
        return _keys(asks=True)
    signing.rotate(settings().instance, now)
    return see_other("/admin/keys?done=rotated")


def _waits(now: int) -> bool:
    """Say whether a key is published that does not sign yet."""
    return any(one.signs_from > now for one in signing.published())


def _keys(*, asks: bool = False, done: bool = False) -> Response:
    now = int(time.time())
    keys = signing.published()
    return page(
        "admin/keys.html",
        keys=keys,
        active=signing.active_key(now).kid,
        at=now,
        algorithm=signing.ALGORITHM,
        minutes=signing.PUBLISHED_BEFORE_SECONDS // 60,
        hours=signing.KEPT_SECONDS // 3600,
        waits=_waits(now),
        asks=asks,
        done=_("The new key is made, and published.") if done else "",
    )
