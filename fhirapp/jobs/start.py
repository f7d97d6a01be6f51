"""Begin a task in a process of its own, stop it, and forget what is old."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from threading import Thread
from typing import Any

from fhirapp.config import PREFIX, ConfigurationError, Settings
from fhirapp.disk import because, take
from fhirapp.jobs import files as tasks
from fhirapp.jobs.files import EXPORT, GIVEN, HELD, IMPORT, Task

# Of one kind, under way at once.
MOST = 4
# In seconds: how long what was given is kept for another try, and what was never begun.
DAY = 86_400
# So many of a kind are remembered.
_REMEMBERED = 200
# Between two sweeps of a process.
_SWEEP_SECONDS = 300


def start(
    settings: Settings,
    task_id: str,
    kind: str,
    *,
    who: str,
    now: int,
    asked: Mapping[str, Any],
    given: Path | None = None,
    passphrase: str = "",
) -> bool:
    """Begin a task; say whether it was this call that did: a form that is sent twice begins one.

    given is a folder that becomes the task's. Raises ConfigurationError, and leaves it then where
    it is.
    """
    if sys.platform == "win32" or not sys.executable:
        raise ConfigurationError("This server cannot begin a process here; use the command line.")
    if tasks.find(settings.instance, task_id) is not None:
        return False
    under_way = [one for one in tasks.every(settings.instance, kind) if one.is_under_way]
    if len(under_way) >= MOST:
        raise ConfigurationError(f"{MOST} of these are under way already; wait for one to end.")
    content = {"kind": kind, "who": who, "asked_at": now, "asked": dict(asked)}
    try:
        made = _made(settings.instance, task_id, content, given)
    except OSError as error:
        raise ConfigurationError(
            f"The folder {tasks.tasks_folder(settings.instance)} cannot be written "
            f"({because(error)}); make room, and try again."
        ) from None
    if made is None:
        return False
    folder, held = made
    try:
        _spawn(settings, folder, held, passphrase)
    except OSError as error:
        raise ConfigurationError(f"No process can be begun ({because(error)}).") from None
    finally:
        os.close(held)
    return True


def _made(
    instance: Path, task_id: str, content: Mapping[str, Any], given: Path | None
) -> tuple[Path, int] | None:
    """Make a task's folder, and hold it for the process that takes it over.

    None where it is there. Raises OSError, and what is given is then where it was.
    """
    new = tasks.claimed(instance, task_id, given)
    if new is None:
        return None
    held = -1
    try:
        tasks.write_asked(new, content)
        held = os.open(new / HELD, os.O_RDWR | os.O_CREAT, 0o600)
        take(held, alone=True)
        return tasks.named(new, task_id), held
    except OSError:
        if held >= 0:
            os.close(held)
        if given is not None:
            (new / GIVEN).rename(given)
        shutil.rmtree(new, ignore_errors=True)
        if tasks.find(instance, task_id) is not None:
            return None
        raise


def _spawn(settings: Settings, folder: Path, held: int, passphrase: str) -> None:
    """Start the process. What it needs to know it is given: a passphrase by a pipe alone."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "fhirapp.jobs", str(folder)],
        cwd=folder,
        env=_environment(settings),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        pass_fds=(held,),
        # Neither a key at the server's terminal nor the end of this process ends it.
        start_new_session=True,
    )
    assert process.stdin is not None
    with suppress(BrokenPipeError), process.stdin as pipe:
        pipe.write(passphrase.encode())
    # Lest it stays as a zombie.
    Thread(target=process.wait, daemon=True).start()


def _environment(settings: Settings) -> dict[str, str]:
    """Return this process's environment, with the settings that are in force."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    for one in fields(settings):
        value = getattr(settings, one.name)
        kept[PREFIX + one.name.upper()] = str(value)
    kept[f"{PREFIX}INSTANCE_PATH"] = str(settings.folder)
    path = [str(Path(__file__).resolve().parents[2]), *filter(None, [kept.get("PYTHONPATH")])]
    return {**kept, "PYTHONPATH": os.pathsep.join(path)}


def stop(task: Task) -> None:
    """Tell a task to stop; asked again, end it and what it started whatever they do."""
    if not task.is_under_way or not task.state.pid:
        return
    again = task.is_stopping
    tasks.mark_stopping(task)
    with suppress(ProcessLookupError):
        if again:
            os.killpg(task.state.pid, signal.SIGKILL)
        else:
            os.kill(task.state.pid, signal.SIGTERM)


def sweep(settings: Settings, now: float) -> None:
    """Remove what is kept no longer: exports, what was given or never begun, old reports."""
    instance = settings.instance
    for path in [*tasks.left_behind(instance, now - DAY), *_abandoned(instance, now - DAY)]:
        shutil.rmtree(path, ignore_errors=True)
    seen: dict[str, int] = {}
    for task in tasks.every(instance, *tasks.KINDS):
        seen[task.kind] = seen.get(task.kind, 0) + 1
        if task.is_under_way:
            continue
        since = task.state.ended_at or task.asked_at
        is_expired = task.kind == EXPORT and since + settings.export_hours * 3_600 < now
        if is_expired or seen[task.kind] > _REMEMBERED:
            tasks.remove(task)
        elif task.kind == IMPORT and since + DAY < now:
            shutil.rmtree(task.folder / GIVEN, ignore_errors=True)


def keep_swept(settings: Settings) -> None:
    """Start a thread that removes old tasks from time to time, without a page being opened."""
    Thread(target=_sweep_for_ever, args=(settings,), name="sweep", daemon=True).start()


def _sweep_for_ever(settings: Settings) -> None:
    while True:
        time.sleep(_SWEEP_SECONDS)
        with suppress(OSError):
            sweep(settings, time.time())


def uploads(settings: Settings) -> Path:
    """Return the folder of what is uploaded, until a task is given it."""
    return settings.instance / "uploads"


def _abandoned(instance: Path, before: float) -> list[Path]:
    folder = instance / "uploads"
    return [one for one in folder.glob("*") if tasks.is_older(one, before)]
