"""The options of an import, and the copy of the database that a dry run works on."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fhirapp.config import ConfigurationError, Settings, sqlite_url
from fhirapp.disk import database_path, scratch

# Short enough that most ids, with it, stay within FHIR's 64 characters.
ID_PREFIX = re.compile(r"[A-Za-z0-9.-]{0,20}")


@dataclass(frozen=True)
class Options:
    """How to import.

    source is the name of the system that the records come from. delete_missing deletes what that
    source no longer holds, force even where that is most of its records. prefix is put before
    every id. bases are the addresses of FHIR servers, each with its last slash, whose absolute
    references mean records here. who is the person or account that runs the import.
    """

    source: str = ""
    delete_missing: bool = False
    force: bool = False
    repair: bool = False
    prefix: str = ""
    bases: Sequence[str] = ()
    provenance: bool = True
    rejected: Path | None = None
    who: str = ""


class DryRun(NamedTuple):
    """The settings of a dry run: the copy's address, and the folder used as instance folder."""

    database_url: str
    instance_path: str


@contextmanager
def dry_run_copy(settings: Settings) -> Iterator[DryRun]:
    """Copy the database for as long as the context lasts. Raises ConfigurationError."""
    path = database_path(settings)
    if path is None:
        raise ConfigurationError(
            "A dry run works on a copy of the database, which only SQLite can make; on PostgreSQL "
            "restore a dump into a separate database and import there."
        )
    settings.instance.mkdir(parents=True, exist_ok=True)
    with scratch(settings.instance) as folder:
        # A folder below: the scratch folder itself is locked.
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
        yield DryRun(sqlite_url(copy), str(instance))
