"""Copy a database of an older release before it is carried forward."""

from __future__ import annotations

import sqlite3
from datetime import datetime
from pathlib import Path

from fhirapp.config import ConfigurationError
from fhirapp.disk.files import because, sync_folder
from fhirapp.disk.scratch import scratch
from fhirapp.ops.backups.snapshot import copy_database, faults_of, schema_of


def copy_before_upgrade(database: Path, schema: str, now: datetime) -> Path | None:
    """Copy a database beside itself, named with its schema and the time; return the copy.

    None where another process has carried it forward meanwhile. Raises ConfigurationError: what
    cannot be copied is not carried forward.
    """
    name = f"{database.stem}.schema-{schema}.{now:%Y%m%dT%H%M%SZ}{database.suffix}"
    target = database.with_name(name)
    with scratch(database.parent) as folder:
        copy = folder / name
        try:
            copy_database(database, copy)
            faults = faults_of(copy)
            if faults:
                raise ConfigurationError(
                    f"The database {database} is damaged and is not carried forward ({faults[0]}); "
                    "restore a backup."
                )
            if schema_of(copy) != schema:
                return None
            copy.replace(target)
            sync_folder(target.parent)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"The database {database} cannot be copied before it is carried forward "
                f"({because(error)}); nothing was changed."
            ) from None
    return target
