"""`fhirapp demo …`."""

from __future__ import annotations

import time

import click

from fhirapp import create_app
from fhirapp.cli.common import say
from fhirapp.config import load_settings
from fhirapp.db import db
from fhirapp.disk.files import database_path
from fhirapp.ops.lock import in_use
from fhirapp.ops.prepare import prepare
from fhirapp.ops.reset import refuse_others, reset


@click.group()
def demo() -> None:
    """The demo."""


@demo.command("reset")
def reset_() -> None:
    """Put the demo's database back as it was at first; a server that runs goes on."""
    settings = load_settings(demo=True)
    app = create_app(settings)
    # Before it is made ready: that would add the demo's people to whatever it is.
    refuse_others(app)
    prepare(app, say)
    with in_use(database_path(settings)), app.app_context():
        count = reset(app, time.time())
        db.engine.dispose()
    say(f"The demo is as it was at first: {count} versions.")


commands = [demo]
