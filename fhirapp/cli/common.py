"""What the commands share: an app whose database is ready, progress, and records to be found."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from flask import Flask
from sqlalchemy import Connection, select

from fhirapp import create_app
from fhirapp.config import RefusedCommand
from fhirapp.core import core_app
from fhirapp.db import db, writing
from fhirapp.definition import types
from fhirapp.environment import check_listening, load_settings
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.server.prepare import prepare

_ID = re.compile(ID_PATTERN)

demo_option = click.option("--demo", is_flag=True, default=None, help="Use the demo's database.")


def say(message: str) -> None:
    """Tell the person at the terminal."""
    click.echo(message, err=True)


def ready_app(*, serving: bool = False, is_restart: bool = False, **overrides: Any) -> Flask:
    """Return an app with a ready database, with pages if served. Raises ConfigurationError."""
    settings = load_settings(**overrides)
    if serving:
        check_listening(settings)
    app = create_app(settings) if serving else core_app(settings)
    prepare(app, say, serving=serving, is_restart=is_restart)
    return app


@contextmanager
def opened_app(demo: bool | None, **overrides: Any) -> Iterator[Flask]:
    """Open an app with a ready database, and close it. Raises ConfigurationError.

    The last connection to an SQLite database that closes merges the write-ahead log into the file.
    """
    app = ready_app(demo=demo, **overrides)
    with app.app_context():
        try:
            yield app
        finally:
            db.engine.dispose()


@contextmanager
def reading(demo: bool | None) -> Iterator[Connection]:
    """Open the database of an app that is current meanwhile. Raises ConfigurationError."""
    with opened_app(demo), db.engine.connect() as connection:
        yield connection


@contextmanager
def changing(demo: bool | None) -> Iterator[Connection]:
    """Open the writing transaction in the same way; an error undoes all of it."""
    with opened_app(demo), writing() as connection:
        yield connection


@contextmanager
def progress_bar(label: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar on a terminal, nothing in a pipe; yield what draws it, of how much is done."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr) as bar:

        def show(done: int, total: int | None) -> None:
            if total is not None:
                bar.length = max(total, 1)
                bar.update(done - bar.pos)

        yield show


def known_id(connection: Connection, resource_type: str, text: str) -> str:
    """Return the id of an existing record, given as <id> or <Type>/<id>. Raises RefusedCommand."""
    id_ = text.removeprefix(f"{resource_type}/")
    table = types()[resource_type].table
    query = select(table.c.pk).where(table.c.id == id_, table.c.is_current)
    if not _ID.fullmatch(id_):
        raise RefusedCommand(f"{text!r} is not a {resource_type} id.")
    if connection.execute(query).first() is None:
        raise RefusedCommand(f"There is no {resource_type}/{id_}.")
    return id_
