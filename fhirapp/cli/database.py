"""`fhirapp db …`."""

from __future__ import annotations

import click

from fhirapp import create_app
from fhirapp.cli.common import demo_option, opened_app, say
from fhirapp.config import load_settings, settings_of
from fhirapp.core import core_app
from fhirapp.db import db, writing
from fhirapp.ops.check import check_database, check_file
from fhirapp.ops.prepare import prepare
from fhirapp.store.definition import types
from fhirapp.store.migrate import HEAD, is_newer, is_older, schema_version, shown
from fhirapp.store.reindex import reindex, rendering_in_force
from fhirapp.store.render import Rendering


@click.group("db")
def database() -> None:
    """The database."""


@database.command("upgrade")
@demo_option
def upgrade(demo: bool | None) -> None:
    """Bring the database to this release's schema."""
    # The tables of the pages too.
    app = create_app(load_settings(demo=demo))
    prepare(app, say)
    with app.app_context():
        say(f"{shown(db.engine)} has schema {HEAD}.")


@database.command("check")
@click.option("--quick", is_flag=True, help="Leave out the bodies, and indexes against their rows.")
@demo_option
def check(demo: bool | None, quick: bool) -> int:
    """Tell which schema the database has, what a start would do, and whether all of it is whole."""
    with core_app(load_settings(demo=demo)).app_context():
        found = schema_version(db.engine)
        if found is None:
            state = "is empty; a start makes it"
        elif is_newer(found):
            state = f"has schema {found} of a newer fhirapp; a start refuses it"
        elif is_older(found):
            state = f"has schema {found}; a start copies it and carries it to {HEAD}"
        else:
            state = "is up to date"
        click.echo(f"{shown(db.engine)} {state}.")
        if found is None:
            return 0
        if found != HEAD:
            # The rest needs tables as this release knows them.
            faults, looked_at = check_file(db.engine, quick=quick), "SQLite's own checks were made"
        else:
            checked = check_database(db.engine, types(), quick=quick)
            faults, looked_at = checked.faults, f"{checked.versions} versions were looked at"
        db.engine.dispose()
    for fault in faults:
        click.echo(fault)
    say(f"{looked_at}: {'it is not whole' if faults else 'it is whole'}.")
    return 2 if faults else 0


@database.command("reindex")
@demo_option
def reindex_(demo: bool | None) -> None:
    """Make every body and index row anew from the columns."""
    with opened_app(demo) as app, writing() as connection:
        rendering = rendering_in_force(connection, Rendering.of(settings_of(app)))
        count = reindex(connection, types(), rendering)
    say(f"{count} versions made anew.")


commands = [database]
