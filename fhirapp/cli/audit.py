"""`fhirapp audit …`: who requested what, and whether the trail is whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import click
from flask import current_app
from sqlalchemy import select

from fhirapp.audit.read import ADMINISTRATION, RECORDS, AuditEntry, entries
from fhirapp.audit.tables import mend
from fhirapp.auth.models import User
from fhirapp.auth.server_secrets import server_secrets
from fhirapp.cli.common import demo_option, reading, say
from fhirapp.config import RefusedCommand, load_settings
from fhirapp.core import core_app
from fhirapp.keys import key_of
from fhirapp.trail import public_key, trail_of
from fhirapp.trail.events import EVENTS, FAILED
from fhirapp.trail.joins import verify_trail

_MOST = 100_000


@click.group()
def audit() -> None:
    """Who requested what, and other events."""


@audit.command("list")
@click.option("--patient", "patient_id", help="Only requests for this patient's record.")
@click.option("--user", "username", help="Only by this user.")
@click.option("--client", "client_id", help="Only by this client.")
@click.option(
    "--kind",
    type=click.Choice([RECORDS, ADMINISTRATION]),
    help="Only requests for records, or only other events.",
)
@click.option("--since", help="From this time on: 2026-03-01T09:00:00.000+00:00.")
@click.option(
    "--limit",
    default=50,
    show_default=True,
    type=click.IntRange(1, _MOST),
    help="How many at most.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each.")
@demo_option
def list_entries(
    patient_id: str | None,
    username: str | None,
    client_id: str | None,
    kind: str | None,
    since: str | None,
    limit: int,
    as_json: bool,
    demo: bool | None,
) -> int:
    """List requests for records, and other events such as sign-ins, newest first."""
    with reading(demo) as connection:
        rows = connection.execute(select(User.id, User.username))
        names = {row.id: row.username for row in rows}
        ids = {name: user_id for user_id, name in names.items()}
        if username is not None and username not in ids:
            raise click.UsageError(f"Unknown user: {username}")
        listed = entries(
            patient_id=patient_id,
            user_id=ids[username] if username else None,
            client_id=client_id,
            kind=kind,
            since=since,
            limit=limit,
        )
    for entry in listed:
        click.echo(json.dumps(entry._asdict()) if as_json else _line(entry, names))
    return 0


def _line(entry: AuditEntry, names: dict[str, str]) -> str:
    unknown = entry.address if entry.address.startswith("shell:") else "unknown"
    who = names.get(entry.user_id or "", "") or entry.client_id or unknown
    by = f" by {entry.client_id}" if entry.user_id and entry.client_id else ""
    if entry.event:
        what = " ".join(filter(None, (entry.about, entry.body)))
        failed = "  failed" if entry.event in FAILED else ""
        return f"{entry.at}  {who}  {EVENTS.get(entry.event, entry.event)}  {what}{failed}".rstrip()
    # One line each, whatever an address holds.
    path = "".join(letter if letter.isprintable() else "�" for letter in entry.path)
    return (
        f"{entry.at}  {who}{by}  {entry.method} {path}  {entry.status}  "
        f"{len(entry.served)} returned"
    )


@audit.command("head")
@demo_option
def head(demo: bool | None) -> None:
    """Print the trail's signed head, to keep elsewhere for `fhirapp audit verify --head`."""
    app = core_app(load_settings(demo=demo))
    with app.app_context():
        server_secrets().check()
        click.echo(json.dumps(trail_of(app).head()))


@audit.command("verify")
@click.option(
    "--head",
    "copies",
    multiple=True,
    type=click.File("rb"),
    help="File of heads that were printed before, one a line; - is standard input.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Public key of an earlier server whose heads are accepted too.",
)
@demo_option
def verify_(copies: tuple[Any, ...], keys: tuple[str, ...], demo: bool | None) -> int:
    """Check that no line of the trail was changed, removed or added."""
    heads = [_head(line) for copy in copies for line in copy if line.strip()]
    app = core_app(load_settings(demo=demo))
    with app.app_context():
        server_secrets().check()
        own = public_key(key_of(current_app))
        found = verify_trail(app, {own, *keys}, heads)
        if found.chains and not found.faults:
            # Else what pages show may be what a line was before it was changed.
            found.faults += mend()
    if found.older:
        say(f"{found.older} lines were written by the first edition, whose trail had no digests.")
    if found.torn:
        say(f"{found.torn} lines were cut off by a full disk or a power cut.")
    for fault in found.faults:
        click.echo(f"The trail is not intact: {fault}.")
    if found.faults:
        return 1
    beginning = f", from line {found.first} on" if found.first > 1 else ""
    chains = f" in {found.chains} chains" if found.chains else ""
    click.echo(
        f"The trail is intact{beginning}: {found.lines} lines{chains}, {found.heads} heads "
        f"signed with {own}."
    )
    if not heads:
        say("Only a head that was copied elsewhere can show whether its end was cut off: --head.")
    return 0


def _head(line: bytes) -> Mapping[str, Any]:
    """Read a head that was copied. Raises RefusedCommand."""
    try:
        head = json.loads(line)
        if isinstance(head["head"]["n"], int) and isinstance(head["head"]["hash"], str):
            return {"key": "", "signature": "", "at": "", **head}
    except (ValueError, LookupError, TypeError):
        pass
    raise RefusedCommand("This is not a head. Use the output of `fhirapp audit head`.")
