"""Serve with waitress, in processes forked over one listening socket, each pinned to a core.

A waitress process that may run on several cores collapses under many connections (at 64: 719
searches a second, pinned 3,038), so there is one for each core. A child that dies is replaced;
SIGTERM lets the requests in flight finish. So does SIGUSR1, and then the server starts anew as the
same process, on the same listening socket: who comes meanwhile waits there.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Thread
from types import FrameType
from typing import NoReturn, Protocol

from flask import Flask

from fhirapp import keys
from fhirapp.audit.seals import sealing
from fhirapp.config import ConfigurationError, Settings, settings_of
from fhirapp.db.generation import following_others
from fhirapp.disk import database_path
from fhirapp.feature import features, imported
from fhirapp.jobs.worker import running_jobs
from fhirapp.server import RESTARTS, live_settings
from fhirapp.server.connections import Server
from fhirapp.server.integrity import check_meanwhile
from fhirapp.server.lock import in_use

_log = logging.getLogger(__name__)

# Less than the ten seconds after which container engines kill.
DRAIN_SECONDS = 8
_POLL_SECONDS = 0.5
# A child that dies sooner is not replaced at once, lest the machine does nothing else.
_SHORT_LIFE_SECONDS = 1.0
_CGROUP = Path("/sys/fs/cgroup")
_NO_QUOTA = 1_000
_STOP = (signal.SIGTERM, signal.SIGINT)
# Descriptors for other things than connections: databases, files, pipes.
_OTHER_FILES = 256
# Environment variable that hands the PID and the listening socket to the restarted server.
_LISTENER = "LISTENER_OF_RESTART"


class SideServer(Protocol):
    """Serves a further address in a process of its own, as long as the server runs."""

    # Printed when the server starts.
    announcement: str

    def serve(self, app: Flask, is_wanted: Callable[[], bool]) -> None:
        """Serve as long as that is wanted."""

    def forget(self, pid: int) -> None:
        """Remove the counts of a server process that has ended."""


def is_restart() -> bool:
    """Say whether this process was a server before."""
    return os.environ.get(_LISTENER, "").startswith(f"{os.getpid()} ")


def _restart(listener: socket.socket) -> NoReturn:
    """Start this server anew: what it had open, but for the listening socket, is closed."""
    listener.set_inheritable(True)
    os.environ[_LISTENER] = f"{os.getpid()} {listener.fileno()}"
    logging.shutdown()
    sys.stdout.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def listen(settings: Settings) -> socket.socket:
    """Return the listening socket. Raises ConfigurationError where the port is in use."""
    if is_restart():
        return socket.socket(fileno=int(os.environ[_LISTENER].split()[1]))
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            listener.listen(1024)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise ConfigurationError(
            f"Cannot listen on {settings.host} port {settings.port} "
            f"({error.strerror or error}); is another server running there? Choose another with "
            "--port."
        ) from None
    listener.set_inheritable(True)
    return listener


def listen_aside(settings: Settings) -> list[SideServer]:
    """Listen at the further addresses that features serve. Raises ConfigurationError."""
    found = (imported(each.side_server)(settings) for each in features() if each.side_server)
    return [side_server for side_server in found if side_server is not None]


def serve(app: Flask, listener: socket.socket, side_servers: Sequence[SideServer] = ()) -> None:
    """Serve until SIGTERM or SIGINT. Raises ConfigurationError where a restore goes on."""
    settings = settings_of(app)
    cores = _cores()
    count = settings.processes or min(len(cores), _quota())
    # Held by each process, so that nothing is restored under one that outlives its parent.
    with in_use(settings):
        # A restore may have ended since the app was made.
        keys.init_app(app)
        if hasattr(signal, "SIGUSR1"):
            app.extensions[RESTARTS] = os.getpid()
        # What is there now stays: no collection looks through it, or has a child copy its pages.
        gc.collect()
        gc.freeze()
        # As PID 1 of a container it is the parent of every orphan, after a restart that of the
        # jobs that it has started before: a supervisor waits for them.
        has_children = os.getpid() == 1 or is_restart()
        os.environ.pop(_LISTENER, None)
        is_alone = count == 1 and not side_servers and not has_children
        if is_alone or not hasattr(os, "fork"):
            for side_server in side_servers:
                Thread(target=side_server.serve, args=(app, lambda: True), daemon=True).start()
            _pin(cores[0])
            kept = run_one(app, listener)
        else:
            slots = [cores[slot % len(cores)] for slot in range(count)]
            kept = listener if _Supervisor(app, listener, slots, side_servers).run() else None
    if kept is None:
        return
    # Who stops the server now ends it at once: no request is under way.
    for number in _STOP:
        signal.signal(number, signal.SIG_DFL)
    if cores[0] is not None:
        os.sched_setaffinity(0, {core for core in cores if core is not None})
    _restart(kept)


def run_one(
    app: Flask,
    listener: socket.socket,
    processes: int = 1,
    still_wanted: Callable[[], bool] = lambda: True,
) -> socket.socket | None:
    """Serve in this process until a signal or the parent's end; then drain.

    Return the listening socket where the signal was to start anew.
    """
    settings = settings_of(app)
    server = Server(app, listener, settings, _most_connections(settings, processes))
    stopping = restarting = False

    def stop(number: int, _frame: FrameType | None) -> None:
        nonlocal stopping, restarting
        restarting = number not in _STOP and (restarting or not stopping)
        stopping = True

    for number in _signals():
        signal.signal(number, stop)
    live_settings.watch(app)
    if database := database_path(settings):
        check_meanwhile(database)
    with sealing(app):
        with following_others(app), running_jobs(app):
            while not stopping and still_wanted():
                server.turn(_POLL_SECONDS)
        # Else who comes now is refused at once.
        kept = listener.dup() if restarting else None
        _drain(server)
    return kept if restarting else None


def _signals() -> set[signal.Signals]:
    """Return the signals that end a server's process, or start it anew."""
    return {*_STOP, *([signal.SIGUSR1] if hasattr(signal, "SIGUSR1") else [])}


def _most_connections(settings: Settings, processes: int) -> int:
    """Return a process's part of the connections, as far as the system lets it open files."""
    if sys.platform == "win32":
        # Its select() takes 512 sockets.
        return min(settings.connections, 500)
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = settings.connections // processes + _OTHER_FILES
    if soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return max(1, min(wanted, soft) - _OTHER_FILES)


def _drain(server: Server) -> None:
    """Take no new connection; go on until every request that was begun is answered."""
    server.stop_accepting()
    deadline = time.monotonic() + DRAIN_SECONDS
    while time.monotonic() < deadline and server.is_busy:
        server.turn(_POLL_SECONDS)
    server.end_threads(1)


class _Supervisor:
    """The parent process: it serves nothing, and keeps one child alive for each slot.

    The slots after those of the cores are of the side servers.
    """

    def __init__(
        self,
        app: Flask,
        listener: socket.socket,
        cores: list[int | None],
        side_servers: Sequence[SideServer],
    ) -> None:
        self._app = app
        self._listener = listener
        self._cores = cores
        self._side_servers = side_servers
        self._children: dict[int, tuple[int, float]] = {}
        self._stopping = self._restarting = False

    def run(self) -> bool:
        """Return whether the server is to start anew."""
        for number in _signals():
            signal.signal(number, self._stop)
        for slot in range(len(self._cores) + len(self._side_servers)):
            self._start(slot)
        while self._children:
            pid, status = os.waitpid(-1, 0)
            for side_server in self._side_servers:
                side_server.forget(pid)
            slot, started = self._children.pop(pid, (-1, 0.0))
            if slot < 0 or self._stopping:
                continue
            _log.error("server process %d ended (status %d); it is replaced", pid, status)
            if time.monotonic() - started < _SHORT_LIFE_SECONDS:
                time.sleep(_SHORT_LIFE_SECONDS)
            self._start(slot)
        return self._restarting

    def _start(self, slot: int) -> None:
        # A signal between fork and the entry in the table would miss the child.
        signals = _signals()
        signal.pthread_sigmask(signal.SIG_BLOCK, signals)
        parent = os.getpid()
        pid = 0 if self._stopping else os.fork()
        if pid:
            self._children[pid] = (slot, time.monotonic())
        elif not self._stopping:
            self._be_child(slot, parent, signals)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)

    def _be_child(self, slot: int, parent: int, signals: set[signal.Signals]) -> NoReturn:
        def is_wanted() -> bool:
            return os.getppid() == parent

        status, count = 1, len(self._cores)
        try:
            for number in signals:
                signal.signal(number, lambda *_: os._exit(0))
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signals)
            if slot < count:
                _pin(self._cores[slot])
                run_one(self._app, self._listener, count, is_wanted)
            else:
                self._listener.close()
                self._side_servers[slot - count].serve(self._app, is_wanted)
            status = 0
        except BaseException:
            _log.exception("server process failed")
            raise
        finally:
            _end(status)

    def _stop(self, number: int, _frame: FrameType | None) -> None:
        self._restarting = number not in _STOP and (self._restarting or not self._stopping)
        self._stopping = True
        if not self._restarting:
            self._listener.close()
        for pid in list(self._children):
            # A child that has ended already waits to be noticed.
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)


def _end(status: int) -> NoReturn:
    """Leave a forked child without running what belongs to its parent."""
    logging.shutdown()
    os._exit(status)


def _cores() -> list[int | None]:
    """Return the processor cores that this process may use; None where they cannot be chosen."""
    if hasattr(os, "sched_getaffinity"):
        return [*sorted(os.sched_getaffinity(0))]
    return [None] * (os.cpu_count() or 1)


def _quota() -> int:
    """Return how many cores' time a container may use, rounded up; many where it has no limit."""
    for quota, period in (
        ("cpu.max", ""),
        ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"),
    ):
        try:
            words = (_CGROUP / quota).read_text(encoding="ascii").split()
            words += (_CGROUP / period).read_text(encoding="ascii").split() if period else []
            used, of = int(words[0]), int(words[1])
        except (OSError, ValueError, IndexError):
            continue
        if used > 0 and of > 0:
            return -(-used // of)
    return _NO_QUOTA


def _pin(core: int | None) -> None:
    if core is not None:
        os.sched_setaffinity(0, {core})
