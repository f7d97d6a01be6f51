"""Make the database ready: its schema, the demo's data, bodies that fit the settings."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from flask import Flask
from sqlalchemy import func, select
from sqlalchemy.exc import DatabaseError

from fhirapp.auth.demo import add_demo
from fhirapp.auth.keys import demo_key
from fhirapp.auth.users import has_administrator, new_setup_code
from fhirapp.config import ConfigurationError, settings_of
from fhirapp.db import db, writing
from fhirapp.fhir.temporal import instant
from fhirapp.store.definition import types
from fhirapp.store.migrate import HEAD, shown, upgrade
from fhirapp.store.reindex import reindex, rendering_in_force
from fhirapp.store.render import Rendering
from fhirapp.store.seed import load_seed, seed_path


def prepare(app: Flask, say: Callable[[str], None], *, serving: bool = False) -> None:
    """Make the app's database ready; say tells what was done. Raises ConfigurationError.

    With serving, bodies that were made with other settings than the app's are made anew.
    """
    settings = settings_of(app)
    rendering = Rendering.of(settings)
    with app.app_context():
        before = upgrade(db.engine)
        if before is not None and before != HEAD:
            say(f"The database was carried forward from schema {before} to {HEAD}.")
        try:
            if settings.demo:
                _fill_demo(app, rendering, say)
            with writing() as connection:
                stored = rendering_in_force(connection, rendering)
                if serving and stored != rendering:
                    count = reindex(connection, types(), rendering)
                    say(f"The settings changed how resources look: {count} versions made anew.")
        except DatabaseError as error:
            reason = str(error.orig).strip().splitlines()[0]
            raise ConfigurationError(
                f"The database {shown(db.engine)} cannot be written ({reason}); "
                "give this user the right to write it and its folder."
            ) from None
        db.engine.dispose()


def _fill_demo(app: Flask, rendering: Rendering, say: Callable[[str], None]) -> None:
    settings = settings_of(app)
    patients = types()["Patient"].table
    with db.engine.connect() as connection:
        is_empty = connection.execute(select(func.count()).select_from(patients)).scalar() == 0
    if is_empty:
        now = instant(datetime.now(UTC))
        count = load_seed(seed_path(), types(), rendering, now)
        say(f"The demo database was filled from seed.sql: {count} versions.")
    key = demo_key(settings.instance)
    with writing() as connection:
        add_demo(connection, key)


def first_setup_code(app: Flask) -> str | None:
    """Return the code at which the first administrator is made, None once somebody can sign in."""
    with app.app_context():
        with writing() as connection:
            code = None if has_administrator(connection) else new_setup_code(connection)
        db.engine.dispose()
    return code
