"""The command `fhirapp demo`."""

from __future__ import annotations

import time

import click

from fhirapp import create_app
from fhirapp.cli.common import say
from fhirapp.db import db
from fhirapp.environment import load_settings
from fhirapp.features.demo.reset import refuse_others, reset
from fhirapp.server.lock import in_use
from fhirapp.server.prepare import prepare


@click.group()
def demo() -> None:
    """The demo."""


@demo.command("reset")
def reset_() -> None:
    """Reset the demo's database to its first state; a running server keeps running."""
    settings = load_settings(demo=True)
    app = create_app(settings)
    # Before it is made ready: that would add the demo's people to whatever it is.
    refuse_others(app)
    prepare(app, say)
    with in_use(settings), app.app_context():
        count = reset(app, time.time())
        db.engine.dispose()
    say(f"The demo was reset to its first state: {count} versions.")
