"""The task that exports everything, or some of it, to files that can be fetched."""

from __future__ import annotations

import zipfile
from pathlib import Path

from fhirapp.config import ConfigurationError, Settings
from fhirapp.core import current_core
from fhirapp.disk.files import because, need_space
from fhirapp.exchange.exporting.export import Wanted, export_to, wanted_types
from fhirapp.ops.tasks.folder import MADE, WORKS, Task
from fhirapp.ops.tasks.progress import Progress
from fhirapp.store.definition import types

# All of its files in one.
ARCHIVE = "export.zip"


def work(settings: Settings, task: Task, progress: Progress, _passphrase: str) -> str:
    """Export what was asked for, and pack it."""
    progress.phase(WORKS)
    names, since, history = (task.asked[name] for name in ("types", "since", "history"))
    with current_core(settings):
        wanted = Wanted(wanted_types(types(), names), since or None, history)
        made = task.folder / MADE
        manifest = export_to(
            made, wanted, types()["Binary"], request=_request(task), progress=progress.at
        )
    progress.state.counts = {
        one.url: {"resources": one.lines, "versions": one.versions}
        for one in (*manifest.output, *manifest.deleted)
    }
    progress.write()
    try:
        _pack(made)
    except (OSError, ConfigurationError) as error:
        (made / ARCHIVE).unlink(missing_ok=True)
        reason = because(error) if isinstance(error, OSError) else str(error)
        return f"There is no archive of all files ({reason}); each can be fetched by itself."
    return ""


def _pack(made: Path) -> None:
    """Write an archive of all files, which an import takes as it is."""
    files = sorted(made.iterdir())
    need_space(made, sum(one.stat().st_size for one in files), "the archive")
    part = made / f".{ARCHIVE}.part"
    with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, compresslevel=5) as archive:
        for one in files:
            archive.write(one, one.name)
    part.replace(made / ARCHIVE)


def _request(task: Task) -> str:
    """Return the command that does the same, as a manifest tells it."""
    parts = ["fhirapp export", *(f"--type {name}" for name in task.asked["types"])]
    if task.asked["since"]:
        parts.append(f"--since {task.asked['since']}")
    return " ".join(parts + ["--history"] * task.asked["history"])
