"""A task's folder: what was asked for, how far it is, what came of it. This user alone reads it.

    tasks/<task>/asked.json   what, by whom, when; never a passphrase
    tasks/<task>/held         locked by the task's process for as long as that lives
    tasks/<task>/state.json   how far it is, written by that process alone
    tasks/<task>/given/       what an import reads
    tasks/<task>/made/        what can be fetched

A folder gets its name when it is whole, and on the disk: of two that ask for the same task one has
it, and one whose power is cut is a task or was never begun.

The task's process writes its progress.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from fhirapp.disk import sync, sync_folder, take
from fhirapp.exchange.imports.report import Report

IMPORT, EXPORT, BACKUP, DRILL = "import", "export", "backup", "drill"
# Where a task is: begun, behind another import, at work; or how it ended.
BEGINS, WAITS, WORKS = "begins", "waits", "works"
DONE, FAILED, STOPPED, KILLED = "done", "failed", "stopped", "killed"
UNDER_WAY = frozenset({BEGINS, WAITS, WORKS})
KINDS = (IMPORT, EXPORT, BACKUP, DRILL)
GIVEN, MADE, HELD = "given", "made", "held"
_ASKED, _STATE, _STOP = "asked.json", "state.json", "stop"
_ID = re.compile(r"[0-9a-f]{24}")
# Of folders that are not whole yet.
_NEW = ".new-"


@dataclass
class State:
    """How far a task is; counts are by type and outcome, times in seconds since 1970."""

    phase: str = BEGINS
    # Of bytes or of versions; a total of None is not known.
    done: int = 0
    total: int | None = None
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    # What a person should know, as sentences; the first says how it ended.
    said: list[str] = field(default_factory=list)
    # The number of the import's run, of a dry run 0; the name of a backup that was taken.
    run: int = 0
    name: str = ""
    pid: int = 0
    ended_at: int = 0


class Task(NamedTuple):
    """A task: who began it, what was asked for, and how far it is."""

    id: str
    kind: str
    who: str
    asked_at: int
    asked: Mapping[str, Any]
    state: State
    folder: Path

    @property
    def is_under_way(self) -> bool:
        return self.state.phase in UNDER_WAY

    @property
    def is_stopping(self) -> bool:
        return self.is_under_way and (self.folder / _STOP).exists()

    @property
    def files(self) -> list[Path]:
        """What can be fetched, by name."""
        return _files(self.folder / MADE)

    @property
    def has_given(self) -> bool:
        """Whether what it reads is here yet, so that it can be begun again."""
        return (self.folder / GIVEN).is_dir()


def tasks_folder(instance: Path) -> Path:
    """Return the folder of all tasks."""
    return instance / "tasks"


def new_id() -> str:
    """Return the id of a new task: a form has it before it is sent, so that twice is once."""
    return secrets.token_hex(12)


def is_id(text: str) -> bool:
    """Say whether a text may be the id of a task, and so a name in a folder."""
    return _ID.fullmatch(text) is not None


def write_asked(folder: Path, content: Mapping[str, Any]) -> None:
    """Note in a folder that is to be a task's its kind, who, asked_at and what was asked."""
    path = folder / _ASKED
    path.write_text(json.dumps(content))
    sync(path)
    sync_folder(folder)


def find(instance: Path, task_id: str) -> Task | None:
    """Return a task, None where there is none."""
    return _read(tasks_folder(instance) / task_id) if is_id(task_id) else None


def every(instance: Path, *kinds: str) -> list[Task]:
    """Return the tasks of some kinds, newest first."""
    folder = tasks_folder(instance)
    names = [one.name for one in os.scandir(folder)] if folder.is_dir() else []
    found = [task for name in names if (task := find(instance, name)) and task.kind in kinds]
    return sorted(found, key=_when, reverse=True)


def _when(task: Task) -> int:
    """Return when a task was asked for, to tell apart those of one second."""
    try:
        return (task.folder / _ASKED).stat().st_mtime_ns
    except OSError:
        return 0


def _read(folder: Path) -> Task | None:
    # Before its state is read: a process that is gone writes no other.
    lives = _is_held(folder / HELD)
    state = _state(folder)
    if state.phase in UNDER_WAY and not lives:
        state.phase = KILLED
    try:
        return _task(folder, (folder / _ASKED).read_bytes(), state)
    except OSError:
        return None


def _task(folder: Path, asked: bytes, state: State) -> Task | None:
    try:
        content: dict[str, Any] = json.loads(asked)
        return Task(folder.name, folder=folder, state=state, **content)
    except (ValueError, TypeError):
        return None


def _state(folder: Path) -> State:
    try:
        return State(**json.loads((folder / _STATE).read_bytes()))
    except (OSError, ValueError, TypeError):
        return State()


def _is_held(path: Path) -> bool:
    """Say whether a task's process lives."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        # Shared: two that look do not take each other for the process.
        return take(descriptor, alone=False) is False
    finally:
        os.close(descriptor)


def write_state(folder: Path, state: State) -> None:
    """Write how far a task is, whole."""
    part = folder / f"{_STATE}.part"
    part.write_text(json.dumps(asdict(state)))
    part.replace(folder / _STATE)


def mark_stopping(task: Task) -> None:
    """Record that a task was asked to stop."""
    (task.folder / _STOP).touch()


def claimed(instance: Path, task_id: str, given: Path | None) -> Path | None:
    """Return the folder that becomes a task's, with what it is given moved there.

    None where another has it, or what is given is not there any more.
    """
    tasks = tasks_folder(instance)
    tasks.mkdir(mode=0o700, parents=True, exist_ok=True)
    new = tasks / f"{_NEW}{task_id}"
    if (tasks / task_id).exists():
        return None
    try:
        new.mkdir(mode=0o700)
    except FileExistsError:
        return None
    if given is not None:
        try:
            given.rename(new / GIVEN)
        except OSError:
            new.rmdir()
            return None
    return new


def named(new: Path, task_id: str) -> Path:
    """Give a folder that is whole its name."""
    folder = new.with_name(task_id)
    new.rename(folder)
    sync_folder(folder.parent)
    return folder


def remove(task: Task) -> None:
    """Remove a task that has ended, with all that came of it."""
    shutil.rmtree(task.folder, ignore_errors=True)


def left_behind(instance: Path, before: float) -> list[Path]:
    """Return the old folders that never became a task's, or say no more whose they are."""
    folder = tasks_folder(instance)
    found = [*folder.iterdir()] if folder.is_dir() else []
    return [
        one
        for one in found
        if (one.name.startswith(_NEW) or (is_id(one.name) and _is_nobodys(one)))
        and is_older(one, before)
    ]


def _is_nobodys(folder: Path) -> bool:
    """Say whether nothing tells what a folder's task was, and no process is at it."""
    try:
        asked = (folder / _ASKED).read_bytes()
    except FileNotFoundError:
        asked = b""
    except OSError:
        # It may be readable later.
        return False
    return _task(folder, asked, State()) is None and not _is_held(folder / HELD)


def is_older(path: Path, moment: float) -> bool:
    """Say whether a file or folder is here, and was changed last before a moment."""
    try:
        return path.stat().st_mtime < moment
    except OSError:
        return False


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    found = (one for one in folder.iterdir() if not one.name.startswith("."))
    return sorted(one for one in found if one.is_file() and not one.is_symlink())


# In seconds, between two that are written.
_PAUSE = 0.5
# A file whose room is kept for the last state: where the disk is full by then, that says so.
_ROOM, _ROOM_BYTES = "room", 64 * 1024


class Progress:
    """The state of a task's folder, written now and then while it works."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.state = State(BEGINS, pid=os.getpid())
        self.report: Report | None = None
        self._written = 0.0
        self._keep_room()
        self.write()

    def phase(self, phase: str, total: int | None = None) -> None:
        """Note that the task came so far, and how much there is to do."""
        self.state.phase = phase
        self.state.total = self.state.total if total is None else total
        self.write()

    def add(self, done: int) -> None:
        """Note that more is done."""
        self.at(self.state.done + done, self.state.total)

    def at(self, done: int, total: int | None) -> None:
        """Note how much is done, of how much."""
        self.state.done, self.state.total = done, total
        if time.monotonic() - self._written > _PAUSE:
            self.write()

    def end(self, phase: str, *said: str) -> None:
        """Note how it ended."""
        self.state.phase, self.state.ended_at = phase, int(time.time())
        self.state.said = [*filter(None, said), *self.state.said]
        (self.folder / _ROOM).unlink(missing_ok=True)
        self._write()

    def write(self) -> None:
        """Write how far it is; where that cannot be, the work goes on."""
        with suppress(OSError):
            self._write()

    def _write(self) -> None:
        if self.report is not None:
            self.state.run = self.report.run
            self.state.counts = {name: dict(counts) for name, counts in self.report.rows()}
        write_state(self.folder, self.state)
        self._written = time.monotonic()

    def _keep_room(self) -> None:
        with suppress(OSError), (self.folder / _ROOM).open("wb") as file:
            file.write(bytes(_ROOM_BYTES))
            file.flush()
            os.fsync(file.fileno())
