"""A start finishes interrupted restores, and dumps a PostgreSQL database before an upgrade."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

from flask import Flask

from fhirapp import keys
from fhirapp.config import Settings, settings_of
from fhirapp.db import checked_url
from fhirapp.disk import database_path
from fhirapp.features.backups.backup import back_up, why_no_backup
from fhirapp.features.backups.prepared import carry_out, note_outcome
from fhirapp.features.backups.restore import drop_staged, finish_swap
from fhirapp.features.backups.schemas import drop_loaded
from fhirapp.server.lock import in_use, server_engine


def recover(
    app: Flask, say: Callable[[str], None], *, serving: bool, is_restart: bool
) -> Callable[[], None]:
    """Complete an interrupted restore, and carry out the one that this restart is for.

    Returns what is to be done once the database is ready, with the app current. Raises
    ConfigurationError.
    """
    settings = settings_of(app)
    database = database_path(settings)
    if finish_swap(database):
        # The keys may be others than when the app was made.
        keys.init_app(app)
        say("An interrupted restore was completed.")
    restored = carry_out(settings, is_restart=is_restart) if serving else None
    if restored is not None:
        keys.init_app(app)
    # Meanwhile no restore goes on.
    with in_use(settings):
        if database is None:
            drop_loaded(server_engine(checked_url(settings)))
        else:
            drop_staged(settings.instance, database)

    def finish() -> None:
        if restored is not None:
            say(note_outcome(app, restored))

    return finish


def dump_before_upgrade(
    settings: Settings, schema: str, now: datetime, say: Callable[[str], None]
) -> Path | None:
    """Back a PostgreSQL database up into the instance folder; None, told, without a pg_dump.

    Raises ConfigurationError: what cannot be copied is not carried forward.
    """
    if why := why_no_backup(settings):
        say(f"The database is upgraded without a copy. {why}")
        return None
    path = settings.instance / f"fhirapp.schema-{schema}.{now:%Y%m%dT%H%M%SZ}.backup"
    return back_up(settings, path, now, None).path
