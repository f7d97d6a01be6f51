"""What an administrator does with a client beside approving it: change, revoke, reject."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, delete, update

from fhirapp.auth.clients.registered import change, find_known
from fhirapp.auth.clients.registration import Registration, columns
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.models import AccessToken, Client, Grant, Refusal
from fhirapp.auth.tokens import revoke_grants


def edit(
    connection: Connection, client_id: str, *, scope: str, redirect_uris: Sequence[str]
) -> None:
    """Change what a client may ask for, and where it may send users back to.

    Checked as at its registration; tokens follow at once. Raises RefusedCommand.
    """
    row = find_known(connection, client_id)
    kept = ("name", "kind", "auth_method", "launch_uri", "jwks", "jwks_uri", "developer", "contact")
    registration = Registration(
        **{name: row[name] for name in kept}, scope=scope, redirect_uris=tuple(redirect_uris)
    )
    checked = columns(registration)
    change(connection, client_id, {name: checked[name] for name in ("scope", "redirect_uris")})


def revoke_everything(connection: Connection, client_id: str) -> None:
    """Revoke every consent to a client, and every token that it holds."""
    revoke_grants(connection, Grant.client_id == client_id)
    connection.execute(
        update(AccessToken).where(AccessToken.client_id == client_id).values(revoked=True)
    )


def reject(connection: Connection, client_id: str) -> None:
    """Delete a client that waits for approval. Raises RefusedCommand where it does not."""
    gone = connection.execute(
        delete(Client).where(Client.client_id == client_id, Client.approved_at.is_(None))
    )
    if gone.rowcount == 0:
        raise RefusedCommand("This app was approved already; switch it off instead.")
    connection.execute(delete(Refusal).where(Refusal.client_id == client_id))
