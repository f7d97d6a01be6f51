"""`fhirapp key rotate`."""

from __future__ import annotations

import time

import click

from fhirapp.auth.oauth import signing
from fhirapp.cli.common import say
from fhirapp.config import load_settings, settings_of
from fhirapp.core import core_app


@click.group()
def key() -> None:
    """The keys that sign id tokens."""


@key.command("rotate")
def rotate() -> None:
    """Make a new key for id tokens; nothing is restarted, and tokens that live stay good."""
    settings = settings_of(core_app(load_settings()))
    now = int(time.time())
    minutes = (signing.rotate(settings.instance, now) - now) // 60
    say(f"The new key is published at once and signs in {minutes} minutes.")


commands = [key]
