"""How far a task is, written by its process for whoever looks."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from pathlib import Path

from fhirapp.exchange.importing.report import Report
from fhirapp.ops.tasks.folder import BEGINS, State, write_state

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
