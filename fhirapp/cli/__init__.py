"""The `fhirapp` command, thin: each command calls one function elsewhere.

Results on standard output, progress and messages on standard error; exit codes 0 done, 1 done in
part, 2 not done.
"""

from __future__ import annotations

import os
import sqlite3
import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any, NoReturn

import click
from sqlalchemy.exc import DBAPIError

from fhirapp.config import ConfigurationError
from fhirapp.trail import Unwritable

_MODULES = (
    *("server", "imports", "exports", "clients", "users", "patients"),
    *("audit", "backup", "schedule"),
)


class _Commands(click.Group):
    """Commands whose errors are one sentence and exit code 2."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        for name in _MODULES:
            self._load(name)
        return super().list_commands(ctx)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        # One that is its module's name reads no other: a backup is to take little memory.
        names = (cmd_name,) if cmd_name in _MODULES else _MODULES
        for name in names:
            self._load(name)
        return super().get_command(ctx, cmd_name)

    def _load(self, name: str) -> None:
        for command in import_module(f"fhirapp.cli.{name}").commands:
            self.add_command(command)

    def main(self, *arguments: Any, **extra: Any) -> NoReturn:
        try:
            status = super().main(*arguments, **{**extra, "standalone_mode": False})
        except (ConfigurationError, Unwritable) as error:
            click.echo(f"fhirapp: {error}", err=True)
            status = 2
        except (DBAPIError, sqlite3.Error) as error:
            cause = getattr(error, "orig", None) or error
            reason = str(cause).strip().splitlines()[0]
            click.echo(
                f"fhirapp: the database cannot be used ({reason}); what was done is kept.", err=True
            )
            status = 2
        except click.exceptions.NoArgsIsHelpError as error:
            click.echo(error.format_message(), err=True)
            status = 2
        except click.ClickException as error:
            # click lists what could have been chosen, each on a line.
            message = " ".join(error.format_message().split()).rstrip(".")
            click.echo(f"fhirapp: {message}. See --help.", err=True)
            status = 2
        except (click.Abort, KeyboardInterrupt):
            status = 130
        sys.exit(status if isinstance(status, int) else 0)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fhirapp")
def cli() -> None:
    """fhirapp: a small FHIR R4 server for clinical notes and allergies."""


def main() -> None:
    """Run the command line."""
    # Databases and keys hold what only this user may read.
    os.umask(0o077)
    if isinstance(sys.stdout, TextIOWrapper) and isinstance(sys.stderr, TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
        sys.stderr.reconfigure(errors="backslashreplace")
    cli.main(prog_name="fhirapp")
