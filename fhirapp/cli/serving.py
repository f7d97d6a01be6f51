"""`fhirapp serve`."""

from __future__ import annotations

import click

from fhirapp.auth.demo import APP, BACKEND, CONFIDENTIAL, PEOPLE, SAMPLE_PATH, SECRET
from fhirapp.cli.common import ready_app, say
from fhirapp.config import Settings, settings_of
from fhirapp.ops import logs
from fhirapp.ops.prepare import first_setup_code
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
    code = first_setup_code(app)
    _greet(settings, listener.getsockname()[1], code)
    run(app, listener)


def _greet(settings: Settings, port: int, code: str | None) -> None:
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    address = settings.base_url or f"http://{host}:{port}"
    say(f"fhirapp serves FHIR R4 at {address}/fhir")
    if code is not None:
        say(
            f"There is no administrator yet: make the first one at {address}/setup?code={code}\n"
            "This address serves once, for a day; the next start prints another."
        )
    if settings.demo:
        people = ", ".join(person.username for person in PEOPLE)
        clients = ", ".join((BACKEND, APP, CONFIDENTIAL))
        say(
            f"Demo mode: try the sample app at {address}{SAMPLE_PATH}; "
            f"sign in as {people}, password {SECRET}.\n"
            f"Clients {clients}, secret {SECRET}. Never put real data here."
        )


commands = [serve]
