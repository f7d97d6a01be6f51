"""`fhirapp db …`."""

from __future__ import annotations

import click

from fhirapp import create_app
from fhirapp.cli.common import demo_option, ready_app, say
from fhirapp.config import load_settings, settings_of
from fhirapp.db import db, writing
from fhirapp.store.definition import types
from fhirapp.store.migrate import HEAD, is_newer, schema_version, shown
from fhirapp.store.reindex import reindex, rendering_in_force
from fhirapp.store.render import Rendering


@click.group("db")
def database() -> None:
    """The database."""


@database.command("upgrade")
@demo_option
def upgrade(demo: bool | None) -> None:
    """Bring the database to this release's schema."""
    with ready_app(demo=demo).app_context():
        say(f"{shown(db.engine)} has schema {HEAD}.")


@database.command("check")
@demo_option
def check(demo: bool | None) -> None:
    """Tell which schema the database has, and what a start would do."""
    with create_app(load_settings(demo=demo)).app_context():
        found = schema_version(db.engine)
        if found is None:
            state = "is empty; a start makes it"
        elif is_newer(found):
            state = f"has schema {found} of a newer fhirapp; a start refuses it"
        elif found == HEAD:
            state = "is up to date"
        else:
            state = f"has schema {found}; a start carries it to {HEAD}"
        click.echo(f"{shown(db.engine)} {state}.")


@database.command("reindex")
@demo_option
def reindex_(demo: bool | None) -> None:
    """Make every body and index row anew from the columns."""
    app = ready_app(demo=demo)
    with app.app_context(), writing() as connection:
        rendering = rendering_in_force(connection, Rendering.of(settings_of(app)))
        count = reindex(connection, types(), rendering)
    say(f"{count} versions made anew.")


commands = [database]
