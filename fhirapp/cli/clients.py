"""`fhirapp client …` and `fhirapp token issue`."""

from __future__ import annotations

import json
from pathlib import Path

import click
from sqlalchemy import select

from fhirapp.auth import clients
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.registration import SIGNED, Registration, register
from fhirapp.cli.common import demo_option, ready_app, say
from fhirapp.db import db, writing
from fhirapp.store.definition import types


@click.group()
def client() -> None:
    """Backend clients that may ask for tokens."""


@client.command("add")
@click.argument("client_id")
@click.option("--name", help="What people call it.  [default: the client id]")
@click.option("--scope", required=True, help="Scopes it may ask for, such as 'system/*.rs'.")
@click.option(
    "--jwks",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with its public keys, a JSON Web Key Set.",
)
@demo_option
def add(client_id: str, name: str | None, scope: str, jwks: Path, demo: bool | None) -> None:
    """Register a backend client that signs with its own keys (private_key_jwt)."""
    try:
        keys = json.loads(jwks.read_bytes())
    except ValueError:
        raise RefusedCommand(f"{jwks} is not JSON.") from None
    registration = Registration(
        name=name or client_id, kind="backend", auth_method=SIGNED, scope=scope, jwks=keys
    )
    with ready_app(demo=demo).app_context(), writing() as connection:
        register(connection, registration, client_id=client_id)
    say(f"Client {client_id} is registered.")


@client.command("list")
@click.option("--json", "as_json", is_flag=True, help="For a program to read.")
@demo_option
def list_(as_json: bool, demo: bool | None) -> None:
    """List the clients."""
    with ready_app(demo=demo).app_context(), db.engine.connect() as connection:
        rows = clients.list_clients(connection)
    shown = [
        {name: row[name] for name in ("client_id", "name", "auth_method", "scope", "disabled")}
        for row in rows
    ]
    if as_json:
        click.echo(json.dumps(shown, indent=2))
        return
    for row in shown:
        state = " (disabled)" if row["disabled"] else ""
        click.echo(f"{row['client_id']}{state}\t{row['name']}\t{row['scope']}")


@client.command("show")
@click.argument("client_id")
@demo_option
def show(client_id: str, demo: bool | None) -> None:
    """Show one client, as JSON."""
    with ready_app(demo=demo).app_context(), db.engine.connect() as connection:
        row = clients.find(connection, client_id)
    if row is None:
        raise RefusedCommand(f"There is no client {client_id}.")
    click.echo(json.dumps({k: v for k, v in row.items() if k != "secret_digest"}, indent=2))


@client.command("disable")
@click.argument("client_id")
@demo_option
def disable(client_id: str, demo: bool | None) -> None:
    """Disable a client; its tokens stop working at once."""
    with ready_app(demo=demo).app_context(), writing() as connection:
        clients.set_disabled(connection, client_id, disabled=True)
    say(f"Client {client_id} is disabled.")


@client.command("enable")
@click.argument("client_id")
@demo_option
def enable(client_id: str, demo: bool | None) -> None:
    """Enable a client that was disabled; its tokens that still live work again."""
    with ready_app(demo=demo).app_context(), writing() as connection:
        clients.set_disabled(connection, client_id, disabled=False)
    say(f"Client {client_id} is enabled.")


@click.group()
def token() -> None:
    """Access tokens."""


@token.command("issue")
@click.option("--scope", required=True, help="Scopes, such as 'system/*.rs' or 'patient/*.rs'.")
@click.option("--client", "client_id", help="The client it belongs to.  [default: operator]")
@click.option("--patient", "patient_id", help="The patient in context, for patient/ scopes.")
@click.option(
    "--expires",
    default=3600,
    show_default=True,
    type=click.IntRange(1, clients.LONGEST_SECONDS),
    help="Its lifetime, in seconds.",
)
@demo_option
def issue(
    scope: str, client_id: str | None, patient_id: str | None, expires: int, demo: bool | None
) -> None:
    """Print a new access token."""
    with ready_app(demo=demo).app_context(), writing() as connection:
        if patient_id is not None:
            patient_id = patient_id.removeprefix("Patient/")
            table = types()["Patient"].table
            known = select(table.c.pk).where(table.c.id == patient_id, table.c.is_current)
            if connection.execute(known).first() is None:
                raise RefusedCommand(f"There is no patient {patient_id}.")
        issued = clients.issue_token(
            connection, scope=scope, client_id=client_id, patient_id=patient_id, lifetime=expires
        )
    click.echo(issued)


commands = [client, token]
