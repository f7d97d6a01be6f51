"""The tasks that take a backup, and try one out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from fhirapp.config import ConfigurationError, Settings
from fhirapp.disk.files import database_path, megabytes
from fhirapp.ops.backups.backup import back_up, local_database
from fhirapp.ops.backups.drill import drill
from fhirapp.ops.backups.rotation import Naming, is_backup
from fhirapp.ops.tasks.folder import WORKS, Task
from fhirapp.ops.tasks.progress import Progress

# So many faults of a backup are told.
_TOLD = 100


def backups_folder(settings: Settings) -> Path:
    """Return the folder of the backups that are taken here."""
    return settings.instance / "backups"


def backups(settings: Settings) -> Sequence[Path]:
    """Return the backups that are there, whatever their names, newest first."""
    folder = backups_folder(settings)
    # One that is being taken has a name with a dot before it until it is whole.
    there = [one for one in folder.iterdir() if one.name[0] != "."] if folder.is_dir() else []
    found = filter(is_backup, there)
    return sorted(found, key=_taken_at, reverse=True)


def _taken_at(path: Path) -> tuple[float, str]:
    try:
        return path.stat().st_mtime, path.name
    except OSError:
        # Somebody deletes it.
        return 0, path.name


def cannot(settings: Settings) -> str:
    """Return why no backup can be taken here, and what to do instead; empty where one can."""
    try:
        local_database(settings, "pg_dump --format=custom --file=FILE")
    except ConfigurationError as error:
        return str(error)
    return ""


def work(settings: Settings, _task: Task, progress: Progress, passphrase: str) -> str:
    """Take a backup into the folder of backups, encrypted where there is a passphrase."""
    progress.phase(WORKS)
    folder = backups_folder(settings)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    database = database_path(settings)
    moment = datetime.now(UTC)
    naming = Naming.of(folder, database.stem if database else "fhirapp")
    taken = back_up(settings, naming.path(moment), moment, passphrase or None)
    progress.state.name = taken.path.name
    return f"Backed up, and read back: {megabytes(taken.size)}."


def work_drill(settings: Settings, task: Task, progress: Progress, passphrase: str) -> str:
    """Open a copy of a backup and read everything in it. Raises ConfigurationError."""
    progress.phase(WORKS)
    progress.state.name = task.asked["name"]
    drilled = drill(settings, backups_folder(settings) / task.asked["name"], passphrase or None)
    if drilled.faults:
        progress.state.said = drilled.faults[:_TOLD]
        raise ConfigurationError(f"This backup, taken {drilled.manifest.taken}, is not whole.")
    return f"It is whole: all of its {drilled.versions} versions were read."
