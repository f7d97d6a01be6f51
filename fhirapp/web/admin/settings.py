"""Settings as they are."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any, NamedTuple

from flask import Response
from marshmallow import ValidationError
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from fhirapp.address import base_url
from fhirapp.config import PREFIX, Settings, settings
from fhirapp.db import db
from fhirapp.web.admin.process import processes
from fhirapp.web.pages import blueprint_of, for_administrators, page
from fhirapp.web.texts import _

blueprint = blueprint_of("admin_settings", __name__)
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
def every() -> Response:
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
        shown = masked(value) if one.name == "database_url" and value else _said(value)
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
