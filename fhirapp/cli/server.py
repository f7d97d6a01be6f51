"""The commands of the server itself: `serve`, `key`, `db`."""

from __future__ import annotations

import time

import click

from fhirapp import config, create_app
from fhirapp.audit import Unwritable
from fhirapp.audit.events import record, record_settings
from fhirapp.auth.oauth import signing_keys
from fhirapp.auth.server_secrets import server_secrets
from fhirapp.cli.common import demo_option, opened_app, ready_app, say
from fhirapp.core import core_app
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.documents.ocr import why_unusable
from fhirapp.environment import load_settings
from fhirapp.feature import features, imported
from fhirapp.server import live_settings, logs
from fhirapp.server.check import Depth, check_database
from fhirapp.server.prepare import first_setup_code, prepare
from fhirapp.server.proxies import seems_behind_proxy
from fhirapp.server.serve import is_restart, listen, listen_aside
from fhirapp.server.serve import serve as run
from fhirapp.store import migrate
from fhirapp.store.write import Rendering, rendering_in_force


@click.command()
@click.option("--demo", is_flag=True, default=None, help="Demo data and demo clients.")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on; 0 for any that is free.")
def serve(demo: bool | None, host: str | None, port: int | None) -> None:
    """Serve FHIR until stopped."""
    app = ready_app(serving=True, is_restart=is_restart(), demo=demo, host=host, port=port)
    settings = config.settings_of(app)
    logs.configure(settings)
    listener, side_servers = listen(settings), listen_aside(settings)
    try:
        with app.app_context():
            record_settings(live_settings.started_with(app))
    except Unwritable as error:
        say(f"{error} Until it can, requests for records are refused.")
    code = first_setup_code(app)
    _greet(settings, listener.getsockname()[1], code)
    if seems_behind_proxy(settings):
        say(
            f"Clients reach this server at {settings.base_url}, so there seems to be a reverse "
            "proxy, but FHIRAPP_TRUSTED_PROXY does not name it: all clients count as one, and "
            "wrong passwords from one lock out the others."
        )
    for side_server in side_servers:
        say(side_server.announcement)
    run(app, listener, side_servers)


def _greet(settings: config.Settings, port: int, code: str | None) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = settings.base_url or f"http://{host}:{port}"
    say(f"fhirapp serves FHIR R4 at {address}/fhir")
    if code is not None:
        say(
            f"There is no administrator yet: create the first one at {address}/setup?code={code}\n"
            "This address works once, within a day; each start prints it or a new one."
        )
    for feature in features():
        if feature.greeting and (text := imported(feature.greeting)(settings, address)):
            say(text)


@click.group()
def key() -> None:
    """The keys that sign id tokens."""


@key.command("rotate")
def rotate() -> None:
    """Create a new key for id tokens; existing tokens stay valid, and nothing restarts."""
    now = int(time.time())
    app = core_app(load_settings())
    with app.app_context():
        server_secrets().check()
        record("keys-changed", what="a new key for id tokens")
        minutes = (signing_keys.rotate(now) - now) // 60
    say(f"The new key is published now, and starts to sign in {minutes} minutes.")


@click.group("db")
def database() -> None:
    """The database."""


@database.command("upgrade")
@demo_option
def upgrade(demo: bool | None) -> None:
    """Upgrade the database to this release's schema."""
    # The tables of the pages too.
    app = create_app(load_settings(demo=demo))
    prepare(app, say)
    with app.app_context():
        say(f"{migrate.redact_url(db.engine)} has schema {migrate.HEAD}.")


@database.command("check")
@click.option("--quick", is_flag=True, help="Skip bodies, and comparing indexes with rows.")
@click.option("--full", is_flag=True, help="Also compare bodies and indexes with the columns.")
@demo_option
def check(demo: bool | None, quick: bool, full: bool) -> int:
    """Show the database's schema and what a start would do, and check for damage."""
    depth = Depth.CONTENT if full else Depth.QUICK if quick else Depth.STRUCTURE
    with core_app(load_settings(demo=demo)).app_context():
        schema = migrate.schema_version(db.engine)
        if schema is None:
            state = "is empty; a start creates its tables"
        elif migrate.is_newer(schema):
            state = f"has schema {schema} of a newer fhirapp; a start refuses it"
        elif migrate.is_too_old(schema):
            state = (
                f"has schema {schema} of an older fhirapp; a start refuses it until fhirapp "
                f"{migrate.UPGRADED_BY} has upgraded it"
            )
        elif schema != migrate.HEAD:
            state = f"has schema {schema}; a start copies it and upgrades it to {migrate.HEAD}"
        else:
            state = "is up to date"
        click.echo(f"{migrate.redact_url(db.engine)} {state}.")
        if schema is None:
            return 0
        if schema != migrate.HEAD:
            # Versions can be checked only in tables as this release knows them.
            checked = check_database(db.engine, {}, depth)
            done = "SQLite's own checks were run"
        else:
            checked = check_database(db.engine, types(), depth)
            done = f"{checked.versions} versions were checked"
        db.engine.dispose()
    for fault in checked.faults:
        click.echo(fault)
    say(f"{done}: {'damage found' if checked.faults else 'no damage found'}.")
    return 2 if checked.faults else 0


@database.command("reindex")
@demo_option
def reindex_(demo: bool | None) -> None:
    """Rebuild all resource bodies and index rows; with OCR, read scans that were not."""
    with opened_app(demo) as app:
        settings = config.settings_of(app)
        languages = settings.ocr_languages
        if languages and not why_unusable(languages):
            say(
                f"Scans that were machine-read: {migrate.read_scans(types()['Binary'], languages)}."
            )
        with writing() as connection:
            rendering = rendering_in_force(connection, Rendering.of(settings))
            count = migrate.reindex(connection, types(), rendering)
    say(f"{count} versions rebuilt.")
