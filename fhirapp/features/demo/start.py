"""The start of the demo: it fills an empty database, and prints who may sign in."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from flask import Flask
from sqlalchemy import func, select

from fhirapp.config import Settings, settings_of
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.features.demo import accounts
from fhirapp.features.demo.seed import load_seed, seed_path
from fhirapp.fhir.temporal import instant
from fhirapp.store.write import Rendering


def fill(app: Flask, say: Callable[[str], None]) -> None:
    """Load seed.sql into a database without patients; add the people and clients that are missing.

    Within an app context.
    """
    settings = settings_of(app)
    patients = types()["Patient"].table
    with db.engine.connect() as connection:
        is_empty = connection.execute(select(func.count()).select_from(patients)).scalar() == 0
    if is_empty:
        now = instant(datetime.now(UTC))
        count = load_seed(seed_path(), types(), Rendering.of(settings), now)
        say(f"The demo database was filled from seed.sql: {count} versions.")
    key = accounts.demo_key(settings.instance)
    with writing() as connection:
        accounts.add_demo(connection, key)


def greeting(settings: Settings, address: str) -> str:
    """Return the names and the password to sign in with; empty outside the demo."""
    if not settings.demo:
        return ""
    people = ", ".join(person.username for person in accounts.PEOPLE)
    clients = ", ".join((accounts.BACKEND, accounts.APP, accounts.CONFIDENTIAL))
    return (
        f"Demo mode: try the sample app at {address}{accounts.SAMPLE_PATH}; "
        f"sign in as {people}, password {accounts.SECRET}.\n"
        f"Clients {clients}, secret {accounts.SECRET}. Never put real data here."
    )
