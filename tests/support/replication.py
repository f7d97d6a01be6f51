"""A PostgreSQL primary and its streaming replica of a test's own, which it may stop and start.

    with primary_and_replica(folder) as (primary, replica):
        primary.url("postgres"), replica.url("postgres")

On sockets in the folder, without TCP. PostgreSQL refuses to run as root: there it runs as
`postgres`, which must be able to reach the folder.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

_INSTALLED = Path("/usr/lib/postgresql")
_LONGEST_SECONDS = 60


def binaries() -> Path | None:
    """Return the folder of PostgreSQL's programs, of the newest release; None without any."""
    found = sorted(_INSTALLED.glob("*/bin"), key=lambda folder: float(folder.parent.name))
    on_path = shutil.which("initdb")
    return found[-1] if found else Path(on_path).parent if on_path else None


class Postgres:
    """A server in a folder of its own; port only tells its socket from others' in the folder."""

    def __init__(self, folder: Path, port: int) -> None:
        self.folder, self.port = folder, port
        self.data = folder / str(port)
        self._user = "postgres" if os.geteuid() == 0 else None

    def url(self, database: str) -> str:
        return f"postgresql://postgres@/{database}?host={self.folder}&port={self.port}"

    def run(self, program: str, *words: str) -> None:
        """Run one of PostgreSQL's programs to its end."""
        folder = binaries()
        assert folder is not None, "PostgreSQL's programs are not here"
        with (self.folder / f"{self.port}.{program}").open("w+") as log:
            done = subprocess.run(
                [folder / program, *words],
                cwd=self.folder,
                user=self._user,
                extra_groups=None if self._user is None else [],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                timeout=_LONGEST_SECONDS,
                check=False,
            )
            log.seek(0)
            assert done.returncode == 0, log.read()

    def make(self) -> None:
        """Make an empty primary."""
        self.run("initdb", "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", *self._at)

    def copy(self, primary: Postgres) -> None:
        """Make a replica of a primary that runs."""
        source = f"host={primary.folder} port={primary.port} user=postgres"
        words = ("-R", "-X", "stream", "-c", "fast", "-C", "-S", f"slot{self.port}", *self._at)
        self.run("pg_basebackup", "-d", source, *words)

    def start(self, *settings: str) -> None:
        """Start it, and wait until it answers; by default nothing has to reach the disk."""
        place = "listen_addresses=''", f"unix_socket_directories={self.folder}", f"port={self.port}"
        # A machine's crash is not what these tests are about.
        written = " ".join(f"-c {one}" for one in (*place, *(settings or ("fsync=off",))))
        log = str(self.folder / f"{self.port}.log")
        self.run("pg_ctl", "start", "-s", "-w", "-l", log, "-o", written, *self._at)

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends its sessions, `immediate` is its crash."""
        self.run("pg_ctl", "stop", "-s", "-m", mode, *self._at)

    def freeze(self) -> None:
        """Let none of its processes go on, as on a machine that hangs."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        head = int((self.data / "postmaster.pid").read_text().split()[0])
        # The head first: it starts no more of them then.
        os.kill(head, number)
        for stat in Path("/proc").glob("[0-9]*/stat"):
            # A process that has ended meanwhile is none.
            with suppress(OSError):
                if int(stat.read_text().rpartition(")")[2].split()[1]) == head:
                    os.kill(int(stat.parent.name), number)

    def ask(self, sql: str, database: str = "postgres", values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement in a transaction of its own; return its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql, values)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    @property
    def is_running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(self.url("postgres"), autocommit=True)

    @property
    def _at(self) -> tuple[str, str]:
        return "-D", str(self.data)


def wait_for_replica(primary: Postgres, replica: Postgres) -> None:
    """Wait until a replica has replayed all that its primary has written."""
    with primary.connect() as connection:
        ((written,),) = connection.execute("SELECT pg_current_wal_lsn()").fetchall()
    deadline = time.monotonic() + _LONGEST_SECONDS
    asked = "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn"
    with replica.connect() as connection:
        while connection.execute(asked, (written,)).fetchall() != [(True,)]:
            assert time.monotonic() < deadline, "the replica does not catch up"
            time.sleep(0.02)


@contextmanager
def primary_and_replica(folder: Path) -> Iterator[tuple[Postgres, Postgres]]:
    """Run both in a folder, and stop what of them runs at the end."""
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    primary, replica = Postgres(folder, 5432), Postgres(folder, 5433)
    with ExitStack() as stack:
        for server in (primary, replica):
            server.copy(primary) if server is replica else server.make()
            stack.callback(lambda one=server: one.is_running and one.stop("immediate"))
            server.start()
        yield primary, replica
