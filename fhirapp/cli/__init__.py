"""The `fhirapp` command, thin: each command calls one function elsewhere.

Results on standard output, progress and messages on standard error; exit codes 0 done, 1 done in
part, 2 not done. What needs neither records nor settings is here, and imports neither Flask nor
SQLAlchemy.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from collections.abc import Mapping
from functools import cache
from io import TextIOWrapper
from typing import Any, NoReturn

import click
from click.shell_completion import get_completion_class

from fhirapp.feature import features, imported

# The commands of the core; features declare theirs. Each has its reference and what it does, so
# that none is imported to list them.
_CORE = {
    "audit": (
        "fhirapp.cli.audit:audit",
        "List what was requested, and verify that no line was changed.",
    ),
    "db": ("fhirapp.cli.server:database", "Check, upgrade and index the database."),
    "key": ("fhirapp.cli.server:key", "Replace the key that signs id tokens."),
    "schedule": ("fhirapp.cli.schedule:schedule", "Set what the server does at set times."),
    "serve": ("fhirapp.cli.server:serve", "Serve FHIR until stopped."),
}


@cache
def commands() -> Mapping[str, tuple[str, str]]:
    """Return the reference and the summary of each command that has a module of its own."""
    found = dict(_CORE)
    for feature in features():
        found |= feature.commands
    return found


class _Commands(click.Group):
    """Commands whose errors are one sentence and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.commands:
            # For a misspelled command all are imported, to suggest a similar one.
            meant = [cmd_name] if cmd_name in commands() else commands()
            for name in meant:
                self.add_command(imported(commands()[name][0]))
        return super().get_command(ctx, cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        known = {name: command.get_short_help_str(100) for name, command in self.commands.items()}
        known |= {name: summary for name, (_, summary) in commands().items()}
        with formatter.section("Commands"):
            formatter.write_dl([(name, known[name]) for name in self.list_commands(ctx)])

    def main(self, *arguments: Any, **extra: Any) -> NoReturn:
        try:
            status = super().main(*arguments, **{**extra, "standalone_mode": False})
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            status = 2
        except click.ClickException as error:
            # click lists the choices on separate lines.
            message = " ".join(error.format_message().split()).rstrip(".")
            end = "" if message.endswith("?") else "."
            click.echo(f"fhirapp: {message}{end} See --help.", err=True)
            status = 2
        except (click.Abort, KeyboardInterrupt):
            status = 130
        except Exception as error:  # noqa: BLE001
            click.echo(f"fhirapp: {_refusal(error)}", err=True)
            status = 2
        sys.exit(status if isinstance(status, int) else 0)


def _refusal(error: Exception) -> str:
    """Return why a command was not done; raises the error where that is a mistake of ours."""
    from sqlalchemy.exc import DBAPIError

    from fhirapp.audit import Unwritable
    from fhirapp.config import ConfigurationError

    if isinstance(error, ConfigurationError | Unwritable):
        return str(error)
    if isinstance(error, DBAPIError | sqlite3.Error):
        cause = getattr(error, "orig", None) or error
        reason = str(cause).strip().splitlines()[0]
        return f"the database cannot be used ({reason}); what was done is kept."
    raise error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fhirapp")
def cli() -> None:
    """fhirapp: a small FHIR R4 server for clinical notes and allergies."""


@cli.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print a script for shell completion: eval "$(fhirapp completion bash)"."""
    made = get_completion_class(shell)
    assert made is not None
    root = context.find_root().command
    click.echo(made(root, {}, "fhirapp", "_FHIRAPP_COMPLETE").source())


def main() -> None:
    """Run the command line."""
    # Databases and keys must be readable by this user only.
    os.umask(0o077)
    if isinstance(sys.stdout, TextIOWrapper) and isinstance(sys.stderr, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
        sys.stderr.reconfigure(errors="backslashreplace")
    cli.main(prog_name="fhirapp")
