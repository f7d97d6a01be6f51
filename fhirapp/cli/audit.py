"""`fhirapp audit …`: who requested what, and whether the trail is whole."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
from sqlalchemy import select

from fhirapp.audit import Unwritable
from fhirapp.audit.entries import ADMINISTRATION, RECORDS, AuditEntry, entries
from fhirapp.audit.events import EVENTS, FAILED
from fhirapp.audit.seals import Seal, public_key, seal_all
from fhirapp.audit.verify import verify
from fhirapp.auth.models import User
from fhirapp.auth.server_secrets import server_secrets
from fhirapp.cli.common import demo_option, opened_app, reading, say
from fhirapp.config import RefusedCommand
from fhirapp.disk import reason_of
from fhirapp.keys import key_of

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
def list_entries(username: str | None, as_json: bool, demo: bool | None, **filters: Any) -> None:
    """List requests for records, and other events such as sign-ins, newest first."""
    with reading(demo) as connection:
        names = dict(connection.execute(select(User.id, User.username)).all())
        ids = {name: user_id for user_id, name in names.items()}
        if username is not None and username not in ids:
            raise click.UsageError(f"Unknown user: {username}")
        listed = entries(user_id=ids[username] if username else None, **filters)
    for entry in listed:
        click.echo(json.dumps(entry._asdict()) if as_json else _line(entry, names))


def _line(entry: AuditEntry, names: dict[str, str]) -> str:
    unknown = entry.address if entry.address.startswith("shell:") else "unknown"
    who = names.get(entry.user_id or "", "") or entry.client_id or unknown
    by = f" by {entry.client_id}" if entry.user_id and entry.client_id else ""
    if entry.event:
        what = " ".join(filter(None, (entry.about, entry.body)))
        failed = "  failed" if entry.event in FAILED else ""
        return f"{entry.at}  {who}  {EVENTS.get(entry.event, entry.event)}  {what}{failed}".rstrip()
    # One line each, even if an address contains line breaks.
    path = "".join(letter if letter.isprintable() else "�" for letter in entry.path)
    return (
        f"{entry.at}  {who}{by}  {entry.method} {path}  {entry.status}  "
        f"{len(entry.served)} returned"
    )


@audit.command("head")
@demo_option
def head(demo: bool | None) -> None:
    """Seal the trail and print the newest seal, to keep elsewhere for `audit verify --head`."""
    with opened_app(demo) as app:
        server_secrets().check()
        try:
            newest = seal_all(app)
        except OSError as error:
            raise Unwritable(reason_of(error)) from None
        click.echo(json.dumps({**newest.as_json(), "key": public_key(key_of(app))}))


@audit.command("verify")
@click.option(
    "--head",
    "copies",
    multiple=True,
    help="Copied heads: a file with one a line, - for standard input, or the text of one.",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    help="Public key of an earlier server whose seals are accepted too.",
)
@demo_option
def verify_(copies: tuple[str, ...], keys: tuple[str, ...], demo: bool | None) -> int:
    """Check that no entry of the trail was changed, removed or added."""
    heads = [_head(line) for copy in copies for line in _lines(copy) if line.strip()]
    with opened_app(demo) as app:
        server_secrets().check()
        own = public_key(key_of(app))
        found = verify(app, {own, *keys}, heads)
    for fault in found.faults:
        click.echo(f"The trail is not intact: {fault}.")
    if found.faults:
        return 1
    removed = f"; {found.removed} were removed before" if found.removed else ""
    click.echo(
        f"The trail is intact: {found.entries} entries, {found.seals} seals signed with {own}"
        f"{removed}."
    )
    if found.unsealed:
        say(f"{found.unsealed} entries are not sealed yet.")
    if not heads:
        say("Only a head that was copied elsewhere can show whether its end was cut off: --head.")
    return 0


def _lines(copy: str) -> Iterable[str]:
    """Read a file of heads, or take a head's text itself. Raises RefusedCommand."""
    if copy.lstrip().startswith("{"):
        return [copy]
    if copy == "-":
        return sys.stdin
    try:
        return Path(copy).read_text("utf-8").splitlines()
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it is not text"
        raise RefusedCommand(f"The file {copy} cannot be read ({reason}).") from None


def _head(line: str) -> Seal:
    """Read a head that was copied. Raises RefusedCommand."""
    try:
        return Seal.of_json(json.loads(line))
    except (ValueError, LookupError, TypeError):
        raise RefusedCommand(
            "This is not a head. Use the output of `fhirapp audit head` of this release."
        ) from None
