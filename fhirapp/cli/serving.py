"""`fhirapp serve`."""

from __future__ import annotations

import click

from fhirapp.auth.clients import DEMO_BACKEND, DEMO_SECRET
from fhirapp.cli.common import ready_app, say
from fhirapp.config import Settings, settings_of
from fhirapp.ops import logs
from fhirapp.ops.serve import listen
from fhirapp.ops.serve import serve as run


@click.command()
@click.option("--demo", is_flag=True, default=None, help="Demo data and demo clients.")
@click.option("--host", help="Address to listen on.")
@click.option("--port", type=int, help="Port to listen on; 0 for any that is free.")
def serve(demo: bool | None, host: str | None, port: int | None) -> None:
    """Serve FHIR until stopped."""
    app = ready_app(serving=True, demo=demo, host=host, port=port)
    settings = settings_of(app)
    logs.configure(settings)
    listener = listen(settings)
    _greet(settings, listener.getsockname()[1])
    run(app, listener)


def _greet(settings: Settings, port: int) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    say(f"fhirapp serves FHIR R4 at {settings.base_url or f'http://{host}:{port}'}/fhir")
    if settings.demo:
        say(f"Demo mode: client {DEMO_BACKEND}, secret {DEMO_SECRET}. Never put real data here.")


commands = [serve]
