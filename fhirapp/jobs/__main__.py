"""The process of a task: reads what was asked for in its folder, does it, and says how it ended."""

from __future__ import annotations

import logging
import os
import signal
import sqlite3
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType

from sqlalchemy.exc import DBAPIError

from fhirapp.config import ConfigurationError, Settings, load_settings
from fhirapp.disk import because, database_path
from fhirapp.jobs import work
from fhirapp.jobs.files import (
    BACKUP,
    DONE,
    DRILL,
    EXPORT,
    FAILED,
    IMPORT,
    STOPPED,
    Progress,
    Task,
    find,
)
from fhirapp.ops import health
from fhirapp.ops.lock import in_use

_log = logging.getLogger("fhirapp.jobs")
# Given the settings, the task, how far it is, and a passphrase; returns what is to be said of it.
_Work = Callable[[Settings, Task, Progress, str], str]
_WORK: Mapping[str, _Work] = {
    IMPORT: work.importing_work,
    EXPORT: work.exporting_work,
    BACKUP: work.work,
    DRILL: work.work_drill,
}

_EXPECTED = (ConfigurationError, DBAPIError, sqlite3.Error, OSError, MemoryError)


class _Stopped(BaseException):
    """A user asked the task to stop."""


def main(folder: Path) -> None:
    """Do the task of a folder."""
    # Records are what only this user may read.
    os.umask(0o077)
    if hasattr(os, "sched_setaffinity"):
        # The server's processes have a core each.
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
    settings = load_settings()
    health.configure(settings)
    task = find(folder.parent.parent, folder.name)
    passphrase = sys.stdin.buffer.read().decode()
    if task is None:
        return
    progress = Progress(folder)
    signal.signal(signal.SIGTERM, _stop)
    try:
        with in_use(database_path(settings)):
            said = _WORK[task.kind](settings, task, progress, passphrase)
        _deaf()
        progress.end(DONE, said)
    except _Stopped:
        progress.end(STOPPED)
    except _EXPECTED as error:
        _deaf()
        progress.end(FAILED, _sentence(error))
    except Exception:
        _deaf()
        progress.end(FAILED, "It failed by a mistake of this server's; its log says more.")
        raise
    _log.info("%s %s of %s: %s", task.kind, task.id, task.who, progress.state.phase)


def _stop(_number: int, _frame: FrameType | None) -> None:
    _deaf()
    raise _Stopped


def _deaf() -> None:
    """Be told to stop no more: what remains is to say how it ended."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _sentence(error: Exception) -> str:
    """Return why a task failed."""
    if isinstance(error, ConfigurationError):
        return str(error)
    if isinstance(error, DBAPIError | sqlite3.Error):
        cause = getattr(error, "orig", None) or error
        reason = str(cause).strip().splitlines()[0]
        return f"The database cannot be used ({reason}); what was done until then stays."
    if isinstance(error, OSError):
        return f"The disk cannot be used ({because(error)}); what was done until then stays."
    return "There was not enough memory for it; what was done until then stays."


if __name__ == "__main__":
    main(Path(sys.argv[1]))
