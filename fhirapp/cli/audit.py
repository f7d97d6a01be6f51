"""`fhirapp audit list`: who requested what."""

from __future__ import annotations

import json

import click
from sqlalchemy import select

from fhirapp.audit.read import Entry, entries
from fhirapp.auth.models import User
from fhirapp.cli.common import demo_option, reading

_MOST = 100_000


@click.group()
def audit() -> None:
    """Who looked at what."""


@audit.command("list")
@click.option("--patient", "patient_id", help="Of this record alone.")
@click.option("--user", "username", help="By this person alone.")
@click.option("--client", "client_id", help="By this client alone.")
@click.option("--since", help="Not before this instant: 2026-03-01T09:00:00.000+00:00.")
@click.option(
    "--limit", default=50, show_default=True, type=click.IntRange(1, _MOST), help="At the most."
)
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each, with all of it.")
@demo_option
def list_entries(
    patient_id: str | None,
    username: str | None,
    client_id: str | None,
    since: str | None,
    limit: int,
    as_json: bool,
    demo: bool | None,
) -> int:
    """List the requests for records, the newest first, and what each was answered with."""
    with reading(demo) as connection:
        rows = connection.execute(select(User.id, User.username))
        names = {row.id: row.username for row in rows}
        ids = {name: user_id for user_id, name in names.items()}
        if username is not None and username not in ids:
            raise click.UsageError(f"There is no user {username}")
        listed = entries(
            patient_id=patient_id,
            user_id=ids[username] if username else None,
            client_id=client_id,
            since=since,
            limit=limit,
        )
    for entry in listed:
        click.echo(json.dumps(entry._asdict()) if as_json else _line(entry, names))
    return 0


def _line(entry: Entry, names: dict[str, str]) -> str:
    who = names.get(entry.user_id or "", "") or entry.client_id or "nobody known"
    by = f" by {entry.client_id}" if entry.user_id and entry.client_id else ""
    # One line each, whatever an address holds.
    path = "".join(letter if letter.isprintable() else "�" for letter in entry.path)
    return (
        f"{entry.at}  {who}{by}  {entry.method} {path}  {entry.status}  "
        f"{len(entry.served)} in the answer"
    )


commands = [audit]
