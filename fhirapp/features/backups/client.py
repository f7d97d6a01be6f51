"""PostgreSQL's own programs: which pg_dump fits the server, and how it is run.

They get the address in their environment, which no other user of the machine can read. Their input
and output go through this process, so they end with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, NamedTuple

from sqlalchemy import URL

from fhirapp.config import PREFIX, ConfigurationError
from fhirapp.disk import CHUNK

# Debian has a folder for each version here; its programs on PATH choose a cluster first.
DEBIAN = Path("/usr/lib/postgresql")
_PROGRAMS = ("pg_dump", "pg_restore", "psql")
_MAJOR = re.compile(r"\(PostgreSQL\) (\d+)")
_VERSION_SECONDS = 10
# How long a dump waits for a program that changes a table.
_LOCK_MS = 60_000
# A lost connection is noticed within two minutes.
_ALIVE = {"keepalives_idle": "60", "keepalives_interval": "10", "keepalives_count": "6"}
_CONNECT_SECONDS = "10"
# As SQLite's copy is packed: a higher level takes much longer for little.
_LEVEL = 3
# Lines of a dump's list that are about neither tables nor what belongs to them.
_NOT_TABLES = re.compile(rb"\d+; \d+ \d+ (?:SCHEMA|EXTENSION|COMMENT|ACL|DEFAULT ACL) ")
# The first object of a dump as SQL; before it are settings of the session.
_FIRST_OBJECT = b"-- Name: "
# pg_restore sets it from version 17 on; older servers do not know it.
_UNKNOWN_SETTING = b"SET transaction_timeout "


class PostgresClient(NamedTuple):
    """A folder with the programs, and their major version."""

    folder: Path
    major: int


def clients() -> list[PostgresClient]:
    """Return the programs that are here, of the oldest version first."""
    places = [*(Path(place) for place in os.get_exec_path()), *sorted(DEBIAN.glob("*/bin"))]
    found = [PostgresClient(place, major) for place in places if (major := _major(place))]
    return sorted(found, key=lambda programs: programs.major)


def _major(place: Path) -> int | None:
    """Return the version of the programs in a folder, None where they are not all there."""
    if not all(shutil.which(name, path=str(place)) for name in _PROGRAMS):
        return None
    try:
        shown = subprocess.run(
            [place / _PROGRAMS[0], "--version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _MAJOR.search(shown)
    return int(match[1]) if match else None


def client_for(server: int, *, newest: bool = False) -> PostgresClient:
    """Return the programs for a server of a major version: its own, or the next newer that is here.

    With newest, those that read every dump. Raises ConfigurationError.
    """
    found = clients()
    fitting = [programs for programs in found if programs.major >= server]
    if not fitting:
        others = f"only that of {found[-1].major} is" if found else "none is"
        raise ConfigurationError(
            f"For a backup of PostgreSQL {server} its pg_dump is needed, or a newer one, and "
            f"{others} here: install Debian's postgresql-client-{server}."
        )
    return fitting[-1 if newest else 0]


def dump(client: PostgresClient, url: URL, schema: str, snapshot: str, target: Path) -> None:
    """Write a schema of a database, as a transaction's snapshot has it, into a new file.

    Raises ConfigurationError, OSError.
    """
    words = [
        *("pg_dump", "--format=custom", f"--compress={_LEVEL}", f'--schema="{schema}"'),
        *("--no-owner", "--no-privileges", "--no-comments", "--no-tablespaces"),
        *(f"--snapshot={snapshot}", f"--lock-wait-timeout={_LOCK_MS}"),
    ]
    with (
        _running(client, words, target.parent, url, stdout=subprocess.PIPE) as program,
        target.open("wb") as file,
    ):
        assert program.stdout is not None
        shutil.copyfileobj(program.stdout, file, CHUNK)


def load(
    client: PostgresClient, url: URL, source: Path, server: int, before: str, after: str
) -> None:
    """Load a dump in one transaction, with SQL before and after it. Raises ConfigurationError.

    server is the major version of the server.
    """
    words = ["psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--set=VERBOSITY=terse"]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL}
    with _running(client, words, source.parent, url, **pipes) as program:
        assert program.stdin is not None
        program.stdin.write(f"BEGIN;\n{before}\n".encode())
        with _as_sql(client, source) as sql:
            _copy(sql, program.stdin, server)
        # Only now: if either process ends before, nothing is changed.
        program.stdin.write(f"\n{after}\nCOMMIT;\n".encode())
        program.stdin.close()


def read_through(client: PostgresClient, source: Path) -> None:
    """Read a dump to its end. Raises ConfigurationError if that fails."""
    with _as_sql(client, source) as sql:
        while sql.read(CHUNK):
            pass


@contextmanager
def _as_sql(client: PostgresClient, source: Path) -> Iterator[IO[bytes]]:
    """Open the content of a dump as SQL, without the statement that creates its schema."""
    with _running(
        client, ["pg_restore", "--list", source], source.parent, stdout=subprocess.PIPE
    ) as program:
        assert program.stdout is not None
        listed = [line for line in program.stdout if not _NOT_TABLES.match(line)]
    chosen = source.with_name("list")
    chosen.write_bytes(b"".join(listed))
    words = ["pg_restore", f"--use-list={chosen}", "--no-owner", "--no-privileges"]
    words += ["--no-tablespaces", "--file=-", str(source)]
    with _running(client, words, source.parent, stdout=subprocess.PIPE) as program:
        assert program.stdout is not None
        yield program.stdout


def _copy(sql: IO[bytes], target: IO[bytes], server: int) -> None:
    line = b""
    while not line.startswith(_FIRST_OBJECT) and (line := sql.readline()):
        if server >= 17 or not line.startswith(_UNKNOWN_SETTING):
            target.write(line)
    shutil.copyfileobj(sql, target, CHUNK)


@contextmanager
def _running(
    client: PostgresClient,
    words: Sequence[str | Path],
    folder: Path,
    url: URL | None = None,
    **pipes: Any,
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program while the block runs. Raises ConfigurationError if it fails.

    Its standard error goes to a file in the folder.
    """
    name, *rest = words
    environ = {key: value for key, value in os.environ.items() if not key.startswith(PREFIX)}
    if url is not None:
        variables, others = parameters(url)
        environ.update(variables)
        rest += ["--no-password", f"--dbname={others}"]
    # Its messages are parsed below.
    environ["LC_ALL"] = "C"
    with (folder / f"{name}.errors").open("w+b") as errors:
        program = subprocess.Popen(
            [client.folder / name, *rest], env=environ, stderr=errors, **pipes
        )
        try:
            yield program
            status = program.wait()
        except BrokenPipeError:
            if program.stdin is None:
                raise
            # It ended before its input did; its message says why.
            status = program.wait() or -1
        finally:
            _end(program)
        if status:
            errors.seek(0)
            raise ConfigurationError(f"{name} failed ({_reason(errors.read(CHUNK), status)}).")


def _end(program: subprocess.Popen[bytes]) -> None:
    """End a program that still runs, and close its pipes."""
    if program.poll() is None:
        program.kill()
        program.wait()
    for pipe in filter(None, (program.stdin, program.stdout)):
        # Buffered input that it does not read any more.
        with suppress(BrokenPipeError):
            pipe.close()


def _reason(output: bytes, status: int) -> str:
    """Return a program's first error message, without the rows that it quotes."""
    lines = output.decode(errors="replace").splitlines()
    wrong = [line for line in lines if "error:" in line.lower()] or lines
    return re.sub(r"^\S+: (error: )?", "", wrong[0]).strip() if wrong else f"status {status}"


def parameters(url: URL) -> tuple[dict[str, str], str]:
    """Return the environment and the connection string for a database.

    A password is only in the environment.
    """
    from psycopg.conninfo import make_conninfo
    from psycopg.pq import Conninfo

    dialect = url.get_dialect()()
    stated = {"connect_timeout": _CONNECT_SECONDS, **_ALIVE}
    if "PGCONNECT_TIMEOUT" in os.environ:
        del stated["connect_timeout"]
    stated |= {name: str(value) for name, value in dialect.create_connect_args(url)[1].items()}
    environ, others = {}, {}
    for option in Conninfo.get_defaults():
        name = option.keyword.decode()
        if name not in stated:
            continue
        if option.envvar:
            environ[option.envvar.decode()] = stated[name]
        elif option.dispchar != b"*":
            others[name] = stated[name]
    return environ, make_conninfo(**others)
