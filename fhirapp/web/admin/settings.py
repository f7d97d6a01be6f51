"""Settings as they are in force, and the keys that sign id tokens."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any, NamedTuple

from flask import Response, current_app, request
from flask.blueprints import BlueprintSetupState
from marshmallow import ValidationError
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from fhirapp.auth.oauth import openid
from fhirapp.config import PREFIX, ConfigurationError, Settings, base_url, settings
from fhirapp.db import db
from fhirapp.trail.events import record
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

blueprint = blueprint_of("admin_settings", __name__)
# The keys' file cannot be read or written; what to do is told with it.
blueprint.register_error_handler(ConfigurationError, lambda error: error_page(500, str(error)))


@blueprint.get("/admin/keys")
@for_administrators
def keys() -> Response:
    """Show the keys, and what each is for now."""
    return _keys(done=request.args.get("done") == "rotated")


@blueprint.post("/admin/keys/rotate")
@for_administrators
def rotate() -> Response:
    """Make a new key, once the administrator confirmed it; `fhirapp key rotate` does the same."""
    now = int(time.time())
    if _waits(now):
        # The button was pressed twice, or in two browsers.
        raise PageError(409, _("A new key was made some minutes ago, and does not sign yet."))
    if field("sure") != "yes":
        return _keys(asks=True)
    record("keys-changed", what="a new key for id tokens")
    openid.rotate(settings().instance, now)
    return see_other("/admin/keys?done=rotated")


def _waits(now: int) -> bool:
    """Say whether a key is published that does not sign yet."""
    return any(one.signs_from > now for one in openid.published())


def _keys(*, asks: bool = False, done: bool = False) -> Response:
    now = int(time.time())
    keys = openid.published()
    return page(
        "admin/keys.html",
        keys=keys,
        active=openid.active_key(now).kid,
        at=now,
        algorithm=openid.ALGORITHM,
        minutes=openid.PUBLISHED_BEFORE_SECONDS // 60,
        hours=openid.KEPT_SECONDS // 3600,
        waits=_waits(now),
        asks=asks,
        done=_("The new key is made, and published.") if done else "",
    )


_EXTENSION = "fhirapp.process"


def note_start(state: BlueprintSetupState) -> None:
    """Remember when an app was made, and how many cores it may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    state.app.extensions[_EXTENSION] = int(time.time()), cores or 1


def started_at() -> int:
    """Return since when the server runs, in seconds since 1970."""
    at: int = current_app.extensions[_EXTENSION][0]
    return at


def processes() -> int:
    """Return with how many processes the server was started."""
    cores: int = current_app.extensions[_EXTENSION][1]
    return settings().processes or cores


# Of an address's query: libpq takes passwords there too.
_SECRET = re.compile("pass|secret|token|key", re.I)


class Shown(NamedTuple):
    """A setting as the page shows it; in_effect is what an empty one comes to."""

    variable: str
    doc: str
    value: str
    in_effect: str
    default: str
    origin: str


@blueprint.get("/admin/settings")
@for_administrators
def index() -> Response:
    """Show every setting: nothing can be changed here."""
    return page("admin/settings.html", listed=list(_listed()), parts=parts)


def parts(text: str) -> list[tuple[str, bool]]:
    """Return the pieces of a sentence, and of each whether it is `code`."""
    return [(piece, place % 2 == 1) for place, piece in enumerate(text.split("`")) if piece]


def masked(address: str) -> str:
    """Return a database's address without its secrets."""
    try:
        return shown_url(make_url(address))
    except (ArgumentError, ValueError):
        # It may be nothing but a password.
        return _("not shown")


def shown_url(url: URL) -> str:
    """Return an address without its password, wherever that stands."""
    hidden = {name: "hidden" for name in url.query if _SECRET.search(name)}
    return url.update_query_dict(hidden).render_as_string(hide_password=True)


def _listed() -> Iterator[Shown]:
    now = settings()
    in_effect = {
        "database_url": shown_url(db.engine.url),
        "base_url": base_url(),
        "instance_path": str(now.instance),
        "processes": str(processes()),
        "timezone": str(now.zone),
    }
    for one in fields(Settings):
        value = getattr(now, one.name)
        is_default = value == one.default
        shown = _said(value)
        if one.metadata["secret"] and value:
            shown = masked(value) if one.name == "database_url" else _("not shown")
        yield Shown(
            variable=PREFIX + one.name.upper(),
            doc=one.metadata["doc"],
            value="" if is_default and one.name in in_effect else shown,
            in_effect=in_effect[one.name] if is_default and one.name in in_effect else "",
            default=one.metadata["shown"] or f"`{_said(one.default)}`",
            origin=_origin(one, value),
        )


def _said(value: Any) -> str:
    if isinstance(value, bool):
        return _("on") if value else _("off")
    return str(value)


def _origin(setting: Field[Any], value: Any) -> str:
    """Return where a value came from."""
    text = os.environ.get(PREFIX + setting.name.upper(), "")
    try:
        if text and setting.metadata["parser"].deserialize(text) == value:
            return _("environment")
    except ValidationError:
        # Something overrode it, or the server had not started.
        pass
    return _("default") if value == setting.default else _("command line")
