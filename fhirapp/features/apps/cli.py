"""`fhirapp client …` and `fhirapp token issue`."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from fhirapp.auth.clients import administration
from fhirapp.auth.clients.public_keys import public_keys
from fhirapp.auth.clients.registration import KINDS, Registration, register
from fhirapp.auth.models import BASIC, NONE, SIGNED
from fhirapp.cli.common import changing, demo_option, known_id, reading, say
from fhirapp.config import RefusedCommand
from fhirapp.fhir import json as fhir_json

# What `client show` prints; digests of secrets are left out.
_SHOWN = (
    "client_id",
    "name",
    "kind",
    "auth_method",
    "scope",
    "redirect_uris",
    "launch_uri",
    "jwks",
    "jwks_uri",
    "developer",
    "contact",
    "registered_at",
    "registered_from",
    "registered_by_itself",
    "approved_at",
    "disabled",
)
# What `client list --json` prints.
_LISTED = (
    *("client_id", "name", "kind", "auth_method", "scope"),
    *("registered_by_itself", "approved_at", "disabled"),
)


@click.group()
def client() -> None:
    """Apps and backend systems that can request tokens."""


@client.command("add")
@click.argument("client_id")
@click.option(
    "--kind",
    default="backend",
    show_default=True,
    type=click.Choice(KINDS),
    help="public: an app that cannot keep a secret; confidential: one that can; backend: no user.",
)
@click.option("--name", help="Name that people see.  [default: the client id]")
@click.option("--scope", required=True, help="Scopes it may request, such as 'system/*.rs'.")
@click.option(
    "--redirect-uri",
    "redirect_uris",
    multiple=True,
    help="Address to which users return to the app; may be repeated.",
)
@click.option("--launch-uri", help="Address at which fhirapp starts the app for a patient.")
@click.option(
    "--jwks",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with its public keys, a JSON Web Key Set.",
)
@click.option("--jwks-uri", help="Address of its public keys instead.")
@click.option("--developer", help="Who develops it; shown to people who allow it access.")
@click.option("--contact", help="How to reach the developer.")
@demo_option
def add(
    client_id: str,
    kind: str,
    name: str | None,
    scope: str,
    redirect_uris: tuple[str, ...],
    launch_uri: str | None,
    jwks: Path | None,
    jwks_uri: str | None,
    developer: str | None,
    contact: str | None,
    demo: bool | None,
) -> None:
    """Register a client; a confidential one without keys gets a secret, printed once."""
    method = _method(kind, has_keys=jwks is not None or jwks_uri is not None)
    registration = Registration(
        name=name or client_id,
        kind=kind,
        auth_method=method,
        scope=scope,
        redirect_uris=redirect_uris,
        launch_uri=launch_uri,
        jwks=None if jwks is None else _key_set(jwks),
        jwks_uri=jwks_uri,
        developer=developer,
        contact=contact,
    )
    with changing(demo) as connection:
        register(connection, registration, client_id=client_id)
        secret = administration.new_secret(connection, client_id) if method == BASIC else None
    say(f"Client {client_id} is registered.")
    if secret is not None:
        click.echo(secret)


@client.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@demo_option
def list_(as_json: bool, demo: bool | None) -> None:
    """List the clients."""
    with reading(demo) as connection:
        rows = administration.list_clients(connection)
    if as_json:
        listed = [{name: row[name] for name in _LISTED} for row in rows]
        click.echo(fhir_json.dumps_indented(listed))
        return
    # On standard error: a program that parses the table finds only clients.
    say("Client id\tName\tScopes")
    for row in rows:
        state = " (waiting for approval)" if row["approved_at"] is None else ""
        state += " (registered by itself)" if row["registered_by_itself"] else ""
        state += " (disabled)" if row["disabled"] else ""
        click.echo(f"{row['client_id']}{state}\t{row['name']}\t{row['scope']}")


@client.command("show")
@click.argument("client_id")
@demo_option
def show(client_id: str, demo: bool | None) -> None:
    """Show one client, as JSON."""
    with reading(demo) as connection:
        row = administration.find_known(connection, client_id)
    shown = {name: row[name] for name in _SHOWN}
    # Seconds since 1970 are for programs.
    for name in ("registered", "approved"):
        at = row[f"{name}_at"]
        shown[name] = None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
    click.echo(fhir_json.dumps_indented(shown))


@client.command("approve")
@click.argument("client_id")
@demo_option
def approve(client_id: str, demo: bool | None) -> None:
    """Approve a client that waits for it: it can then request tokens."""
    with changing(demo) as connection:
        administration.approve(connection, client_id)
    say(f"Client {client_id} is approved.")


@client.command("refuse")
@click.argument("client_id")
@demo_option
def refuse(client_id: str, demo: bool | None) -> None:
    """Refuse a client that waits for approval, and delete it."""
    with changing(demo) as connection:
        administration.reject(connection, client_id)
    say(f"Client {client_id} is refused and deleted.")


@client.command("disable")
@click.argument("client_id")
@demo_option
def disable(client_id: str, demo: bool | None) -> None:
    """Disable a client; its tokens stop working at once."""
    with changing(demo) as connection:
        administration.set_disabled(connection, client_id, disabled=True)
    say(f"Client {client_id} is disabled.")


@client.command("enable")
@click.argument("client_id")
@demo_option
def enable(client_id: str, demo: bool | None) -> None:
    """Enable a disabled client; its tokens that have not expired work again."""
    with changing(demo) as connection:
        administration.set_disabled(connection, client_id, disabled=False)
    say(f"Client {client_id} is enabled.")


@client.command("rotate")
@click.argument("client_id")
@demo_option
def rotate(client_id: str, demo: bool | None) -> None:
    """Print a client's new secret; the old one and the client's tokens end at once."""
    with changing(demo) as connection:
        secret = administration.new_secret(connection, client_id)
    say(f"Client {client_id} has a new secret.")
    click.echo(secret)


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
    type=click.IntRange(1, administration.LONGEST_SECONDS),
    help="Its lifetime, in seconds.",
)
@demo_option
def issue(
    scope: str, client_id: str | None, patient_id: str | None, expires: int, demo: bool | None
) -> None:
    """Print a new access token."""
    with changing(demo) as connection:
        if patient_id is not None:
            patient_id = known_id(connection, "Patient", patient_id)
        issued = administration.issue_token(
            connection, scope=scope, client_id=client_id, patient_id=patient_id, lifetime=expires
        )
    click.echo(issued)


def _method(kind: str, *, has_keys: bool) -> str:
    """Return how a client of a kind proves who it is."""
    if kind == "public":
        return NONE
    return SIGNED if has_keys or kind == "backend" else BASIC


def _key_set(path: Path) -> Any:
    """Return the public part of the keys in a file. Raises RefusedCommand."""
    try:
        content = fhir_json.loads(path.read_bytes())
    except ValueError:
        raise RefusedCommand(f"{path} is not JSON.") from None
    return public_keys(content)
