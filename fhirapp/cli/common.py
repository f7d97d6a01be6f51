"""What the commands share: an app whose database is ready."""

from __future__ import annotations

from typing import Any

import click
from flask import Flask

from fhirapp import create_app
from fhirapp.config import load_settings
from fhirapp.ops.prepare import prepare

demo_option = click.option("--demo", is_flag=True, default=None, help="Use the demo's database.")


def say(message: str) -> None:
    """Tell the person at the terminal."""
    click.echo(message, err=True)


def ready_app(*, serving: bool = False, **overrides: Any) -> Flask:
    """Return an app whose database is ready. Raises ConfigurationError."""
    app = create_app(load_settings(**overrides))
    prepare(app, say, serving=serving)
    return app
