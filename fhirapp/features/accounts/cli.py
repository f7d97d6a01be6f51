"""`fhirapp user …`: the people who can sign in.

A password is never an argument: it would stay in the shell's history, and every user of the machine
could read it in the list of processes.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import click
from sqlalchemy import Connection

from fhirapp import urls
from fhirapp.auth.links import RecordLink, lapse_of
from fhirapp.auth.models import PATIENT, ROLES
from fhirapp.auth.users import accounts
from fhirapp.cli.common import changing, demo_option, known_id, reading, say
from fhirapp.config import RefusedCommand
from fhirapp.url_syntax import is_loopback

# Longer than any password, in bytes: a line without an end is not read on.
_LONGEST_LINE = 10_000
# What `user list --json` prints; the rest is secret.
_SHOWN = (
    "username",
    "name",
    "role",
    "fhir_user",
    "disabled",
    "created_at",
    "signed_in_at",
)


@click.group()
def user() -> None:
    """People who can sign in."""


def _password_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the ways to give a password other than at the terminal."""
    for option in (
        click.option("--invite", is_flag=True, help="Print a one-time address to choose it."),
        click.option(
            "--password-stdin",
            is_flag=True,
            help="Read it as one line from standard input.  [default: a prompt]",
        ),
    ):
        command = option(command)
    return command


_keep_apps = click.option(
    "--keep-apps", is_flag=True, help="Apps that were allowed keep their access."
)


@user.command("add")
@click.argument("username")
@click.option("--role", required=True, type=click.Choice(ROLES))
@click.option("--name", help="Name that people see.  [default: the user name]")
@click.option(
    "--patient",
    "patients",
    multiple=True,
    help="Record that a patient may see; repeatable, their own first.",
)
@click.option("--practitioner", help="Their Practitioner record, for the other roles.")
@_password_options
@demo_option
def add(
    username: str,
    role: str,
    name: str | None,
    patients: tuple[str, ...],
    practitioner: str | None,
    password_stdin: bool,
    invite: bool,
    demo: bool | None,
) -> None:
    """Add a user; you are asked for the password at the terminal."""
    password = _password(password_stdin, invite)
    with changing(demo) as connection:
        fhir_user = None
        if practitioner is not None:
            fhir_user = f"Practitioner/{known_id(connection, 'Practitioner', practitioner)}"
        user_id = accounts.add_user(
            connection,
            username,
            name=name or username,
            role=role,
            password=password,
            fhir_user=fhir_user,
        )
        linked = dict.fromkeys(known_id(connection, "Patient", patient) for patient in patients)
        for place, patient_id in enumerate(linked):
            accounts.link(connection, user_id, patient_id, is_self=place == 0)
        address = _setup_address(connection, user_id) if invite else ""
    say(f"User {username} is added.")
    if invite:
        _print_setup(address)


@user.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")
@demo_option
def list_(as_json: bool, demo: bool | None) -> None:
    """List the users, their roles and the records that are linked to them."""
    with reading(demo) as connection:
        rows = accounts.list_users(connection)
    if as_json:
        shown = [
            {name: row[name] for name in _SHOWN}
            | _links(row["links"])
            | {"second_factor": row["totp_secret"] is not None}
            for row in rows
        ]
        click.echo(json.dumps(shown, indent=2))
        return
    # On standard error: a program that parses the table finds only users.
    say("User name\tRole\tName\tIn the records")
    for row in rows:
        state = " (disabled)" if row["disabled"] else ""
        click.echo(f"{row['username']}{state}\t{row['role']}\t{row['name']}\t{_records(row)}")


@user.command("password")
@click.argument("username")
@_password_options
@_keep_apps
@demo_option
def password(
    username: str, password_stdin: bool, invite: bool, keep_apps: bool, demo: bool | None
) -> None:
    """Set a user's password; all sessions of that user end."""
    with reading(demo) as connection:
        user_id = accounts.find_user(connection, username)["id"]
    chosen = _password(password_stdin, invite)
    if chosen is None:
        with changing(demo) as connection:
            address = _setup_address(connection, user_id)
        _print_setup(address)
        return
    with changing(demo) as connection:
        accounts.set_password(connection, user_id, chosen, keep_apps=keep_apps)
    say(f"User {username} has a new password.")


@user.command("disable")
@click.argument("username")
@demo_option
def disable(username: str, demo: bool | None) -> None:
    """Disable a user: sessions, and the access of allowed apps, end at once."""
    with changing(demo) as connection:
        user_id = accounts.find_user(connection, username)["id"]
        accounts.set_user_disabled(connection, user_id, disabled=True)
    say(f"User {username} is disabled.")


@user.command("enable")
@click.argument("username")
@demo_option
def enable(username: str, demo: bool | None) -> None:
    """Enable a disabled user; apps that were allowed have access again."""
    with changing(demo) as connection:
        user_id = accounts.find_user(connection, username)["id"]
        accounts.set_user_disabled(connection, user_id, disabled=False)
    say(f"User {username} is enabled.")


@user.command("role")
@click.argument("username")
@click.argument("role", type=click.Choice(ROLES))
@_keep_apps
@demo_option
def role(username: str, role: str, keep_apps: bool, demo: bool | None) -> None:
    """Change a user's role, with effect from the next request."""
    with changing(demo) as connection:
        user_id = accounts.find_user(connection, username)["id"]
        accounts.set_role(connection, user_id, role, keep_apps=keep_apps)
    say(f"User {username} has the role {role}.")


@user.command("link")
@click.argument("username")
@click.argument("patient_id")
@click.option("--proxy", is_flag=True, help="The record is someone else's, such as a child's.")
@click.option(
    "--related-person",
    help="Who the user is to the patient; the access lasts while that record says so.",
)
@demo_option
def link(
    username: str, patient_id: str, proxy: bool, related_person: str | None, demo: bool | None
) -> None:
    """Let a user with the role patient see a record."""
    with changing(demo) as connection:
        user_id = accounts.find_user(connection, username)["id"]
        known = known_id(connection, "Patient", patient_id)
        if related_person is not None:
            related_person = known_id(connection, "RelatedPerson", related_person)
            if lapse := lapse_of(known, related_person):
                raise RefusedCommand(lapse)
        accounts.link(connection, user_id, known, is_self=not proxy, related_person=related_person)
    whose = "someone else's" if proxy or related_person else "their own"
    by = f", as RelatedPerson/{related_person}" if related_person else ""
    say(f"User {username} can see Patient/{known}, as {whose} record{by}.")


@user.command("unlink")
@click.argument("username")
@click.argument("patient_id")
@demo_option
def unlink(username: str, patient_id: str, demo: bool | None) -> None:
    """Remove a user's access to a record; their apps lose it at once."""
    linked = patient_id.removeprefix("Patient/")
    with changing(demo) as connection:
        user_id = accounts.find_user(connection, username)["id"]
        if not accounts.unlink(connection, user_id, linked):
            raise RefusedCommand(f"User {username} is not linked to Patient/{linked}.")
    say(f"User {username} can no longer see Patient/{linked}.")


@user.command("second-factor-off")
@click.argument("username")
@_keep_apps
@demo_option
def second_factor_off(username: str, keep_apps: bool, demo: bool | None) -> None:
    """Turn off a user's second factor, such as after a lost phone."""
    with changing(demo) as connection:
        user_id = accounts.find_user(connection, username)["id"]
        accounts.end_second_factor(connection, user_id, keep_apps=keep_apps)
    say(f"User {username} signs in with the password alone.")


def _password(from_stdin: bool, invite: bool) -> str | None:
    """Return the new password, None for an invitation. Raises RefusedCommand."""
    if from_stdin and invite:
        raise RefusedCommand("Give --password-stdin or --invite, not both.")
    if invite:
        return None
    try:
        password = _line() if from_stdin else _prompted()
        password.encode()
    except UnicodeError:
        raise RefusedCommand("The password is not text in UTF-8.") from None
    return password


def _line() -> str:
    line = sys.stdin.buffer.readline(_LONGEST_LINE)
    return line.decode().removesuffix("\n").removesuffix("\r")


def _prompted() -> str:
    if not sys.stdin.isatty():
        raise RefusedCommand(
            "There is no terminal to ask for the password at; use --password-stdin or --invite."
        )
    password: str = click.prompt(
        "Password", hide_input=True, confirmation_prompt="Repeat the password", err=True
    )
    return password


def _setup_address(connection: Connection, user_id: str) -> str:
    return f"{urls.base_url()}/setup?code={accounts.new_setup_code(connection, user_id)}"


def _print_setup(address: str) -> None:
    hours = accounts.SETUP_SECONDS // 3600
    say(f"At this address the password can be chosen once, within {hours} hours:")
    click.echo(address)
    parts = urlsplit(address)
    if is_loopback(parts.netloc):
        say(
            f"Replace {parts.scheme}://{parts.netloc} where the server has another address: here,"
            " FHIRAPP_BASE_URL is not set."
        )


def _records(row: Mapping[str, Any]) -> str:
    if row["role"] != PATIENT:
        return row["fhir_user"] or ""
    return ", ".join(map(_record, row["links"]))


def _record(link: RecordLink) -> str:
    if link.is_self:
        return f"Patient/{link.patient_id}"
    by = f", as RelatedPerson/{link.related_person}" if link.related_person else ""
    no_more = "; no access now" if link.lapse else ""
    return f"Patient/{link.patient_id} (someone else's{by}{no_more})"


def _links(links: Sequence[RecordLink]) -> dict[str, Any]:
    """Return what `user list --json` prints of a user's links."""
    return {
        "patients": [link.patient_id for link in links],
        "own_patient": next((link.patient_id for link in links if link.is_self), None),
        "related_persons": [
            {
                "patient": link.patient_id,
                "related_person": link.related_person,
                "has_access": not link.lapse,
            }
            for link in links
            if link.related_person
        ],
    }
