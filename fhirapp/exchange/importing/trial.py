"""A copy of the database, to try an import in: what it would do is told, and nothing stays."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import NamedTuple

from fhirapp.config import ConfigurationError, Settings, sqlite_url
from fhirapp.disk.files import database_path
from fhirapp.disk.scratch import scratch


class Trial(NamedTuple):
    """Where a copy is: the address of its database, the folder that takes the place of instance."""

    database_url: str
    instance_path: str


@contextmanager
def trial_copy(settings: Settings) -> Iterator[Trial]:
    """Copy the database as it is now, for as long as the context lasts.

    Raises ConfigurationError.
    """
    path = database_path(settings)
    if path is None:
        raise ConfigurationError(
            "A dry run works on a copy of the database, which is made of SQLite's alone; on "
            "PostgreSQL restore a dump into a database of its own, and import there."
        )
    settings.instance.mkdir(parents=True, exist_ok=True)
    with scratch(settings.instance) as folder:
        # Below it: the folder itself is held.
        instance = folder / "instance"
        instance.mkdir()
        copy = instance / path.name
        if path.exists():
            try:
                with (
                    closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as source,
                    closing(sqlite3.connect(copy)) as target,
                ):
                    source.backup(target)
            except sqlite3.Error as error:
                raise ConfigurationError(
                    f"The database {path} cannot be copied for a dry run ({error})."
                ) from None
        yield Trial(sqlite_url(copy), str(instance))
