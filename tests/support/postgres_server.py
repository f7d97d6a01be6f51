"""A PostgreSQL server of a test's own, which it may stop and start.

    with postgres_server(folder) as server:
        server.url("postgres")

On a socket in the folder, without TCP. PostgreSQL refuses to run as root: there it runs as
`postgres`, which must be able to reach the folder.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
    """A server in a folder of its own; the port distinguishes sockets in one folder."""

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
        """Make an empty database cluster."""
        options = ("-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale")
        self.run("initdb", *options, *self._data_option)

    def start(self, *settings: str) -> None:
        """Start it, and wait until it answers; by default nothing has to reach the disk."""
        network = (
            "listen_addresses=''",
            f"unix_socket_directories={self.folder}",
            f"port={self.port}",
        )
        # A machine's crash is not what these tests are about.
        options = " ".join(f"-c {setting}" for setting in (*network, *(settings or ("fsync=off",))))
        log = str(self.folder / f"{self.port}.log")
        self.run("pg_ctl", "start", "-s", "-w", "-l", log, "-o", options, *self._data_option)

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `fast` ends its sessions, `immediate` is its crash."""
        self.run("pg_ctl", "stop", "-s", "-m", mode, *self._data_option)

    def ask(self, sql: str, database: str = "postgres", values: Sequence[Any] = ()) -> list[Any]:
        """Run a statement in a transaction of its own; return its rows."""
        with psycopg.connect(
            self.url(database), autocommit=True, options="-c search_path=fhirapp,public"
        ) as connection:
            cursor = connection.execute(sql, values)  # type: ignore[call-overload]
            return cursor.fetchall() if cursor.description else []

    @property
    def is_running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    @property
    def _data_option(self) -> tuple[str, str]:
        return "-D", str(self.data)


@contextmanager
def postgres_server(folder: Path) -> Iterator[Postgres]:
    """Run a server in a folder, and stop it at the end."""
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres")
    server = Postgres(folder, 5432)
    server.make()
    try:
        server.start()
        yield server
    finally:
        if server.is_running:
            server.stop("immediate")
