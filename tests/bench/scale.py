"""`python -m tests.bench scale`: the cost of a request against records and against servers.

    python -m tests.bench scale --sizes 1000,100000,1000000 --folder /var/tmp

PostgreSQL runs with fsync in a folder, filled by a real import and copies of its rows
(multiplied.py). Our servers are one process each on core 0, PostgreSQL and the client run on the
other cores. CPU time is that of our processes, and separately of all of PostgreSQL. Each request is
for another record. The page scale.md of the manual shows this output.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import isnan, nan
from pathlib import Path
from statistics import median
from threading import Thread
from urllib.parse import quote

import psycopg

from tests.bench import multiplied, records
from tests.bench.cpu import MIN_SECONDS, TICK_SECONDS, children, cores, cpu_seconds
from tests.bench.database import Operation
from tests.bench.load import Load, Request
from tests.bench.multiplied import ALLERGIES, PATIENTS
from tests.bench.records import Size, allergy_codes
from tests.bench.report import TOO_SHORT
from tests.bench.servers import Server, issue_token, ours, send
from tests.support.postgres_server import Postgres

SIZES = (1_000, 10_000, 100_000, 1_000_000, 3_000_000)
CONNECTIONS = 8
_SPREAD, _ROUNDS, _MAX_REPEATS, _NOTES = 20_000, 3, 30, 10_000
_DATABASE = "fhirapp"
_SECRET = "a secret of 32 characters, of the benchmark's"
# Typical settings of a clinic: shared_buffers is a quarter of 4 GB. Filling needs no durability.
_SERVING = ("shared_buffers=1GB", "max_wal_size=4GB", "random_page_cost=1.1", "autovacuum=off")
_FILLING = ("shared_buffers=1GB", "autovacuum=off", "maintenance_work_mem=1GB", "max_wal_size=2GB")
_FILLING = (*_FILLING, "fsync=off", "full_page_writes=off")
_BASE = "/fhir/AllergyIntolerance"
_MEASURED = ("read", "search by patient")
# The audit trail's tables.
_TRAIL = ("audit_entry", "audit_seen", "audit_seal")
# A table grows in pages of 8 kB: fewer entries would not measure the size of one.
_MIN_ENTRIES = 1_000

Clock = Callable[[], float]


class Engine:
    """The database: its settings for our processes, and its CPU time."""

    def __init__(self, folder: Path, postgres: Postgres | None) -> None:
        self.folder = folder
        self.settings = {"FHIRAPP_PROCESSES": "1"}
        self.clocks: list[Clock] = []
        if postgres is not None:
            address = postgres.url(_DATABASE)
            self.settings |= {"FHIRAPP_DATABASE_URL": address, "FHIRAPP_SECRET": _SECRET}
            # SQLite's CPU time is that of our processes.
            self.clocks.append(lambda: _cpu_of(postgres))

    def load(self, warm_up: Path, path: Path) -> list[float]:
        """Import two files; return the CPU seconds of the second: ours, and the database's."""
        words = ("import", warm_up, path, "--no-provenance")
        with Operation(*words, instance=self.folder / "1", **self.settings) as operation:
            before = [clock() for clock in self.clocks]
            cost = operation.cost()
            # Its connections are still open: the time of an ended one is known in ticks only.
            after = [clock() for clock in self.clocks]
        spent = (end - start for start, end in zip(before, after, strict=True))
        return [cost.cpu_seconds, *spent]

    def load_block(self, block: int) -> list[float]:
        """Import a block; return the CPU seconds of its allergies."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            return self.load(*multiplied.write_block(Path(folder), block))

    @contextmanager
    def serve(self, count: int) -> Iterator[list[Server]]:
        """Run so many servers, each with an instance folder of its own."""
        with ExitStack() as stack:
            servers = []
            for number in range(1, count + 1):
                instance, log = self.folder / str(number), self.folder / f"{number}.log"
                servers.append(stack.enter_context(ours(instance, log, **self.settings)))
            for server in servers:
                server.wait_for("/health/live")
            yield servers


def _cpu_of(postgres: Postgres) -> float:
    """Return the CPU time of a PostgreSQL server: of its processes, and of those that ended."""
    pids = _processes(postgres)
    ended = Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[13:15]
    return sum(map(cpu_seconds, pids)) + sum(map(int, ended)) * TICK_SECONDS


def _processes(postgres: Postgres) -> list[int]:
    """Return the PIDs of the postmaster and of its children."""
    pid = int((postgres.data / "postmaster.pid").read_text().split()[0])
    return [pid, *children(pid)]


def costs(
    servers: Sequence[Server],
    token: str,
    requests: Sequence[Request],
    seconds: float,
    clocks: Sequence[Clock],
) -> list[float]:
    """Send requests to all servers alike; return µs per request and requests per second.

    The first is our CPU time, then that of each clock; all are medians of some rounds. A round
    takes so many seconds, and longer if that is too short to measure; NaN is what remains so.
    """
    share = max(1, CONNECTIONS // len(servers))
    clocks = (lambda: sum(server.cpu_seconds() for server in servers), *clocks)
    rounds = []
    with ExitStack() as stack:
        loads = [
            stack.enter_context(Load(server.port, token, requests[number:], share))
            for number, server in enumerate(servers)
        ]
        _drive(loads, lambda load: load.run(2 * share))
        for _ in range(_ROUNDS):
            before, began, count = [clock() for clock in clocks], time.perf_counter(), 0.0
            for _ in range(_MAX_REPEATS):
                rates: list[float] = []
                start = time.perf_counter()
                _drive(loads, lambda load, rates=rates: rates.append(load.rate(seconds)))
                count += sum(rates) * (time.perf_counter() - start)
                spent = [clock() - first for clock, first in zip(clocks, before, strict=True)]
                if min(spent) >= MIN_SECONDS:
                    break
            each = [used / count * 1e6 if used >= MIN_SECONDS else nan for used in spent]
            rounds.append([*each, count / (time.perf_counter() - began)])
    return [nan if nan in values else median(values) for values in zip(*rounds, strict=True)]


def _drive(loads: Sequence[Load], work: Callable[[Load], None]) -> None:
    threads = [Thread(target=work, args=(load,)) for load in loads]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def queries(server: Server, token: str, blocks: int) -> dict[str, list[Request]]:
    """Return the requests by name; a response about a copy is as long as that about block 0."""
    chance = random.Random(blocks)

    def request(path: str) -> Request:
        response = send(server.port, path, token)
        if response.status != 200:
            raise SystemExit(f"{path}: {response.status} {response.body.decode()}")
        return Request(path, len(response.body))

    def spread(count: int, path: Callable[[int, int], str]) -> list[Request]:
        lengths = [request(path(0, number)).length for number in range(min(count, 100))]
        picked = (
            (chance.randrange(blocks), chance.randrange(len(lengths))) for _ in range(_SPREAD)
        )
        return [Request(path(block, number), lengths[number]) for block, number in picked]

    by_code = [f"{_BASE}?code={code}&_count=10" for code in allergy_codes()]
    return {
        "read": spread(ALLERGIES, lambda *key: f"{_BASE}/{multiplied.allergy_id(*key)}"),
        "search by patient": spread(
            PATIENTS, lambda *key: f"{_BASE}?patient={multiplied.patient_id(*key)}"
        ),
        "search by a common code, a page of 10": [request(path) for path in by_code],
        "page of 100": [request(f"{_BASE}?_count=100")],
    }


def measure(engine: Engine, size: int, seconds: float) -> None:
    """Print the costs of requests at a size."""
    token = issue_token(engine.folder / "1", **engine.settings)
    with engine.serve(1) as (server,):
        code = quote(allergy_codes()[0])
        began = time.perf_counter()
        send(server.port, f"{_BASE}?code={code}&criticality=high&_count=1", token)
        _print("first count of all matches, s", time.perf_counter() - began, digits=3)
        for name, requests in queries(server, token, size // ALLERGIES).items():
            _print(name, *costs([server], token, requests, seconds, engine.clocks))


def measure_servers(engine: Engine, postgres: Postgres, size: int, seconds: float) -> None:
    """Print the costs with several servers on one database, and the growth of the audit trail."""
    token = issue_token(engine.folder / "1", **engine.settings)
    before = _trail(postgres)
    for count in (1, 2, 3):
        with engine.serve(count) as servers:
            found = queries(servers[0], token, size // ALLERGIES)
            for name in _MEASURED:
                values = costs(servers, token, found[name], seconds, engine.clocks)
                _print(f"{count} servers: {name}", *values)
    entries, size = (now - then for now, then in zip(_trail(postgres), before, strict=True))
    each = [size / entries] if entries >= _MIN_ENTRIES else []
    _print("audit trail of a request, bytes", *each)


def _trail(postgres: Postgres) -> tuple[int, int]:
    """Return the number of the audit trail's entries, and the bytes of its tables."""
    sizes = " + ".join(f"pg_total_relation_size('{name}')" for name in _TRAIL)
    entries, size = postgres.ask(f"SELECT count(*), {sizes} FROM audit_entry", _DATABASE)[0]
    return int(entries), int(size)


def import_notes(engine: Engine, postgres: Postgres) -> None:
    """Print the cost of an import of notes, and their size on disk."""
    with tempfile.TemporaryDirectory(dir=engine.folder) as folder:
        files = records.write(Path(folder), Size(PATIENTS, 1, _NOTES))
        before = _bytes(postgres)
        spent = engine.load(files["one"], files["documents"])
    _print_import(f"{_NOTES:,} notes of 1 to 3 kB", spent)
    _print("a note on disk, bytes", (_bytes(postgres) - before) / _NOTES)


def _bytes(postgres: Postgres) -> int:
    return int(postgres.ask("SELECT pg_database_size(%s)", values=(_DATABASE,))[0][0])


def on_postgresql(folder: Path, sizes: Sequence[int], seconds: float) -> None:
    """Measure each size on PostgreSQL, and several servers at the last."""
    postgres = Postgres(folder / "pg", 5432)
    postgres.folder.mkdir()
    if os.geteuid() == 0:
        shutil.chown(postgres.folder, "postgres")
    postgres.make()
    postgres.start(*_SERVING)
    engine, blocks = Engine(folder, postgres), 1
    try:
        postgres.run("createdb", "-h", str(postgres.folder), "-U", "postgres", _DATABASE)
        engine.load_block(0)
        for size in sizes:
            began = time.monotonic()
            postgres.stop()
            postgres.start(*_FILLING)
            with psycopg.connect(
                postgres.url(_DATABASE), autocommit=True, options="-c search_path=fhirapp"
            ) as connection:
                if size // ALLERGIES > blocks:
                    multiplied.multiply(connection, blocks, size // ALLERGIES - 1)
                else:
                    connection.execute("VACUUM (ANALYZE)")
                connection.execute("CHECKPOINT")
            _print_title("PostgreSQL", size, _bytes(postgres), time.monotonic() - began)
            postgres.stop()
            postgres.start(*_SERVING)
            _move_off_first_core(postgres)
            measure(engine, size, seconds)
            if size == sizes[0]:
                import_notes(engine, postgres)
            if size == sizes[-1]:
                measure_servers(engine, postgres, size, seconds)
            blocks = max(blocks, size // ALLERGIES) + 1
            _print_import(f"{ALLERGIES:,} allergies", engine.load_block(blocks - 1))
    finally:
        postgres.stop("immediate")


def on_sqlite(folder: Path, sizes: Sequence[int], seconds: float) -> None:
    """Measure each size on SQLite, which only imports fill."""
    engine, blocks = Engine(folder, None), 0
    for size in sizes:
        began, spent = time.monotonic(), list[float]()
        while blocks < size // ALLERGIES:
            spent = engine.load_block(blocks)
            blocks += 1
        taken = sum(path.stat().st_size for path in (folder / "1").glob("fhirapp.db*"))
        _print_title("SQLite", size, taken, time.monotonic() - began)
        measure(engine, size, seconds)
        _print_import(f"{ALLERGIES:,} allergies", spent)


def _print_title(engine: str, size: int, taken: int, seconds: float) -> None:
    print(f"\n{engine}, {size:,} allergies, {taken / 1e9:,.2f} GB, filled in {seconds:.0f} s")
    columns = (
        ["ours, µs", "its, µs", "a second"] if engine != "SQLite" else ["ours, µs", "a second"]
    )
    print(f"  {'':<44}", *(f"{column:>10}" for column in columns), flush=True)


def _print_import(what: str, spent: Sequence[float]) -> None:
    """Print the CPU seconds of an import, and nothing of one that was too short."""
    is_enough = spent and spent[0] >= MIN_SECONDS
    _print(f"import of {what}, CPU s", *(spent if is_enough else ()), digits=2)


def _print(name: str, *values: float, digits: int = 0) -> None:
    columns = ["too short" if isnan(value) else f"{value:,.{digits}f}" for value in values]
    print(f"  {name:<44}", *(f"{column:>10}" for column in columns or [TOO_SHORT]), flush=True)


def _move_off_first_core(postgres: Postgres) -> None:
    """Keep PostgreSQL, and this process, off the core that our servers pin themselves to."""
    others = set(cores()[1:]) or set(cores())
    for process in _processes(postgres):
        os.sched_setaffinity(process, others)


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench scale", description=__doc__)

    def sizes(text: str) -> list[int]:
        return [int(number) for number in text.split(",") if number]

    parser.add_argument("--sizes", type=sizes, default=[*SIZES], help="of allergies")
    parser.add_argument("--sqlite", type=sizes, default=[1_000, 10_000, 100_000])
    parser.add_argument("--folder", type=Path, help="on the disk to measure")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    for measure_sizes, given in ((on_sqlite, options.sqlite), (on_postgresql, options.sizes)):
        with tempfile.TemporaryDirectory(prefix="scale-", dir=options.folder) as name:
            folder = Path(name)
            # PostgreSQL runs as another user.
            folder.chmod(0o755)
            if given:
                measure_sizes(folder, given, options.seconds)
    print(f"\nDuration: {time.monotonic() - began:.0f} s.")
