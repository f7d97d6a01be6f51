"""Settings as they are in force and as they are changed, and the keys that sign id tokens."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from flask import Response, current_app, request
from flask.blueprints import BlueprintSetupState
from marshmallow.fields import Boolean, Integer
from marshmallow.fields import Field as Parser
from marshmallow.validate import OneOf
from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError
from werkzeug.exceptions import NotFound

from fhirapp import config, urls
from fhirapp.audit.events import record
from fhirapp.auth.models import User
from fhirapp.auth.oauth import signing_keys
from fhirapp.db import db
from fhirapp.server import live_settings
from fhirapp.server.live_settings import StoredSettings, chosen
from fhirapp.web import pages
from fhirapp.web.admin.audit_descriptions import names_of
from fhirapp.web.cookies import form_fields
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("admin_settings", __name__)
# The keys' file cannot be read or written; the error says what to do.
blueprint.register_error_handler(
    config.ConfigurationError, lambda error: pages.error_page(500, str(error))
)


@blueprint.get("/admin/keys")
@pages.for_administrators
def keys() -> Response:
    """Show the keys, and what each is for now."""
    return _keys(done=request.args.get("done") == "rotated")


@blueprint.post("/admin/keys/rotate")
@pages.for_administrators
def rotate() -> Response:
    """Make a new key, once the administrator confirmed it; `fhirapp key rotate` does the same."""
    now = int(time.time())
    if any(key.signs_from > now for key in signing_keys.published()):
        # The button was pressed twice, or in two browsers.
        raise pages.PageError(
            409, _("A new key was created a few minutes ago and is not in use yet.")
        )
    if pages.field("sure") != "yes":
        return _keys(asks=True)
    record("keys-changed", what="a new key for id tokens")
    signing_keys.rotate(now)
    return pages.see_other("/admin/keys?done=rotated")


def _keys(*, asks: bool = False, done: bool = False) -> Response:
    now, keys = int(time.time()), signing_keys.published()
    return pages.page(
        "admin/keys.html",
        keys=keys,
        active=signing_keys.active_key(now).kid,
        at=now,
        algorithm=signing_keys.ALGORITHM,
        minutes=signing_keys.PUBLISHED_BEFORE_SECONDS // 60,
        hours=signing_keys.KEPT_SECONDS // 3600,
        waits=any(key.signs_from > now for key in keys),
        asks=asks,
        done=_("The new key is published.") if done else "",
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
    return config.settings().processes or cores


blueprint.record(note_start)
# Of an address's query: libpq takes passwords there too.
_SECRET = re.compile("pass|secret|token|key", re.I)


# In the page's order, each setting with its title; every setting is in one.
GROUPS: Sequence[tuple[str, Mapping[str, str]]] = (
    (
        _("Pages"),
        {
            "clinic_name": _("Name of the clinic"),
            "timezone": _("Time zone"),
            "checklist": _("Setup checklist"),
            "clinic_logo": _("Logo of the clinic"),
            "translation": _("Translation of all pages"),
        },
    ),
    (
        _("Sign-in and apps"),
        {
            "second_factor": _("Who must have a second factor"),
            "oidc_name": _("Identity provider: name"),
            "oidc_issuer": _("Identity provider: issuer"),
            "oidc_client_id": _("Identity provider: client id"),
            "oidc_client_secret": _("Identity provider: client secret"),
            "oidc_scope": _("Identity provider: scopes"),
            "oidc_roles": _("Identity provider: roles"),
            "fetch_private": _("Keys of apps from private addresses"),
            "dynamic_registration": _("Apps register themselves"),
        },
    ),
    (
        _("Searches and answers"),
        {
            "page_size": _("Results on a page"),
            "page_max": _("Results on a page at most"),
            "require_patient_or_id": _("Searches must name a patient"),
            "self_link": _("Self link of a search"),
            "export_hours": _("Hours that exports are kept"),
            "inline_max": _("Largest inline attachment"),
            "empty_content": _("Documents without content"),
        },
    ),
    (
        _("Logs, metrics and audit trail"),
        {
            "log_level": _("What is logged"),
            "log_format": _("Log format"),
            "access_log": _("Access log"),
            "metrics": _("Address for Prometheus"),
            "audit": _("If the audit trail cannot be written"),
            "audit_keep": _("Days that the audit trail is kept"),
        },
    ),
    (
        _("Address and connections"),
        {
            "base_url": _("Address of this server"),
            "host": _("Listening address"),
            "port": _("Port"),
            "trusted_proxy": _("Reverse proxies"),
            "connections": _("Open connections"),
            "connections_of_address": _("Slow connections of one client"),
            "processes": _("Processes"),
            "threads": _("Threads in each process"),
        },
    ),
    (
        _("Database, files and keys"),
        {
            "database_url": _("Database"),
            "instance_path": _("Folder of the database and the keys"),
            "files": _("Shared files"),
            "secret": _("Secret of the servers"),
            "ocr_languages": _("Languages of scans"),
        },
    ),
    (
        _("Demo and lessons"),
        {
            "demo": _("Demo mode"),
            "demo_reset": _("Reset of the demo"),
            "lessons": _("Own lessons"),
        },
    ),
)


@blueprint.get("/admin/settings")
@pages.for_administrators
def index() -> Response:
    """Show every setting, where it comes from, and forms for those that can be changed here."""
    return _settings()


@blueprint.post("/admin/settings/<name>")
@pages.for_administrators
def change(name: str) -> Response:
    """Change a setting for all servers of this database, or use its default again."""
    is_default = pages.field("default") == "yes"
    if name not in live_settings.LIVE and not (is_default and name in chosen().rows):
        raise NotFound
    value = None if is_default else pages.field(name, 500) or None
    try:
        is_changed = live_settings.change(name, value, pages.signed_in().user.id)
    except config.ConfigurationError as error:
        return _settings(faulty=name, fault=str(error), status=400)
    return pages.see_other(
        f"/admin/settings?{'done' if is_changed else pages.UNCHANGED}={name}#{name}"
    )


def _settings(*, faulty: str = "", fault: str = "", status: int = 200) -> Response:
    known = chosen()
    listed = {view["name"]: view for view in _views(known)}
    groups = [(title, [listed[name] for name in names]) for title, names in GROUPS]
    return pages.page(
        "admin/settings.html",
        status,
        groups=groups,
        changed=[view for view in listed.values() if view["origin"] == config.STORED],
        unknown={name: row for name, row in known.rows.items() if name not in listed},
        names=names_of(User.id, User.name, (row.changed_by for row in known.rows.values())),
        origins={
            config.ENVIRONMENT: _("environment variable"),
            config.COMMAND_LINE: _("command line"),
            config.STORED: _("this page"),
        },
        stored=config.STORED,
        prefix=config.PREFIX,
        faulty=faulty,
        fault=fault,
        done={
            request.args.get("done", ""): _("Saved."),
            request.args.get(pages.UNCHANGED, ""): _(pages.NOTHING_CHANGED),
        },
    )


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


def _views(known: StoredSettings) -> Iterator[dict[str, Any]]:
    """Yield each setting as the page shows it."""
    now = config.settings()
    in_effect = {
        "database_url": shown_url(db.engine.url),
        "base_url": urls.base_url(),
        "instance_path": str(now.instance),
        "processes": str(processes()),
        "timezone": str(now.zone),
    }
    typed = form_fields()
    titles = {name: title for _group, names in GROUPS for name, title in names.items()}
    for field in config.declared():
        name, value, parser = field.name, getattr(now, field.name), field.metadata["parser"]
        doc, default = field.metadata["doc"], field.metadata["shown"]
        shown = _as_text(value)
        if field.metadata["secret"] and value:
            shown = masked(value) if name == "database_url" else _("not shown")
        is_unset = value == field.default and name in in_effect
        origin, is_live = now.origins.get(name, ""), name in live_settings.LIVE
        yield {
            "name": name,
            "title": titles[name],
            "doc": _(doc),
            "value": "" if is_unset else shown,
            # What an empty value comes to.
            "in_effect": in_effect[name] if is_unset else "",
            "default": _(default) if default else f"`{_as_text(field.default)}`",
            "origin": origin,
            # Whether it can be changed here; and whether it is not set where the server is started.
            "is_live": is_live,
            "is_open": is_live and origin in ("", config.STORED),
            "options": _zones(str(value)) if name == "timezone" else _options(parser),
            "is_number": isinstance(parser, Integer),
            "typed": typed.get(name, str(value)) if is_live else "",
            # What an administrator chose, and why that has no effect.
            "stored": known.rows.get(name),
            "ignored": known.ignored.get(name, ""),
        }


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return _("on") if value else _("off")
    return str(value)


@cache
def _regions() -> Sequence[str]:
    """Return the time zones that are named for a place."""
    names = available_timezones()
    return sorted(name for name in names if "/" in name and not name.startswith("Etc/"))


def _zones(chosen_now: str) -> list[tuple[str, str]]:
    """Return the time zones to choose from: the machine's, UTC, those of places, the current."""
    names = dict.fromkeys(["UTC", *_regions(), *filter(None, [chosen_now])])
    return [("", _("the machine's")), *((name, name) for name in names)]


def _options(parser: Parser[Any]) -> list[tuple[str, str]]:
    """Return the values among which one is chosen, empty where it is typed."""
    if isinstance(parser, Boolean):
        return [("True", _("on")), ("False", _("off"))]
    for validator in parser.validators:
        if isinstance(validator, OneOf):
            return [(str(choice), str(choice)) for choice in validator.choices]
    return []
