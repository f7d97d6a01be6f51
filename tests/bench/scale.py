"""`python -m tests.bench scale`: what a request costs against rows, and against servers.

    python -m tests.bench scale --sizes 1000,100000,1000000 --folder /var/tmp

PostgreSQL with fsync in a folder, filled with a real import and copies of it (multiplied.py); our
servers are one process each on core 0, PostgreSQL and who asks are on the others. CPU time is that
of our processes, and apart that of all of PostgreSQL's; each request is about another record. The
manual's page scale.md is made of what this prints.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from threading import Thread
from typing import NamedTuple
from urllib.parse import urlencode

import psycopg

from tests.bench import multiplied, records
from tests.bench.load import Load, Question
from tests.bench.multiplied import ALLERGIES, PATIENTS
from tests.bench.records import Size, allergy_codes
from tests.bench.servers import Server, ask, command, cpu_seconds, environment, ours
from tests.support.replication import Postgres, wait_for_replica

SIZES = (1_000, 10_000, 100_000, 1_000_000, 3_000_000)
CONNECTIONS = 8
_SPREAD = 20_000
_DATABASE = "fhirapp"
_SECRET = "a secret of 32 characters, of the benchmark's"
# What a clinic sets: a quarter of 4 GB. While it is filled nothing has to reach the disk.
_SERVING = ("shared_buffers=1GB", "max_wal_size=4GB", "random_page_cost=1.1", "autovacuum=off")
_FILLING = ("shared_buffers=1GB", "autovacuum=off", "maintenance_work_mem=1GB", "max_wal_size=2GB")
_FILLING = (*_FILLING, "fsync=off", "full_page_writes=off")
_TICKS = os.sysconf("SC_CLK_TCK")
_BASE = "/fhir/AllergyIntolerance"
_TRAIL = ("audit_line", "audit_entry", "audit_seen")
_ROUNDS = 3
_NOTES = 10_000


class Cost(NamedTuple):
    """CPU µs per request of ours and of the database, and requests a second."""

    ours: float
    database: float
    rate: float

    def __str__(self) -> str:
        return f"{self.ours:>10,.0f} {self.database:>10,.0f} {self.rate:>10,.0f}"


class Engine:
    """The database that is asked: its settings for our processes, and its processor time."""

    def __init__(self, folder: Path, postgres: Postgres | None) -> None:
        self.folder, self.postgres = folder, postgres
        self.settings = {"FHIRAPP_PROCESSES": "1"}
        if postgres is not None:
            address = postgres.url(_DATABASE)
            self.settings |= {"FHIRAPP_DATABASE_URL": address, "FHIRAPP_SECRET": _SECRET}

    def cpu(self) -> float:
        """Return the processor time of the whole of PostgreSQL; of SQLite it is ours."""
        return 0.0 if self.postgres is None else _cpu_of(self.postgres)

    def trail(self) -> list[tuple[int, int]]:
        """Return of each table of the audit trail how many lines it holds, and its bytes."""
        assert self.postgres is not None
        lines = ("count(*)", "count(*)", "count(DISTINCT number)")
        return [
            self.postgres.ask(
                f"SELECT {line}, pg_total_relation_size('{name}') FROM {name}", _DATABASE
            )[0]
            for name, line in zip(_TRAIL, lines, strict=True)
        ]

    def run(self, *words: str | Path) -> tuple[float, float, str]:
        """Run a command of ours; return the CPU seconds of it and of the database, its output."""
        before, output = self.cpu(), self.folder / "output"
        with output.open("w") as file:
            pid = os.posix_spawn(
                sys.executable,
                command(*map(str, words)),
                environment(self.folder / "1", **self.settings),
                file_actions=[
                    (os.POSIX_SPAWN_DUP2, file.fileno(), 1),
                    (os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_WRONLY, 0),
                ],
            )
            _, status, usage = os.wait4(pid, 0)
        if status:
            raise SystemExit(f"fhirapp {words} ended with {os.waitstatus_to_exitcode(status)}")
        spent = usage.ru_utime + usage.ru_stime
        return spent, self.cpu() - before, output.read_text().strip()

    def token(self) -> str:
        return self.run("token", "issue", "--scope", "system/*.rs", "--expires", "86400")[2]

    def import_block(self, block: int) -> tuple[float, float]:
        """Import a block; return CPU seconds of ours and of the database."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            files = multiplied.write_block(Path(folder), block)
            return self.run("import", "--no-provenance", *files)[:2]

    def size(self) -> int:
        """Return the bytes of the database in PostgreSQL."""
        assert self.postgres is not None
        return int(self.postgres.ask("SELECT pg_database_size(%s)", values=(_DATABASE,))[0][0])

    @contextmanager
    def serve(self, count: int) -> Iterator[list[Server]]:
        """Run so many servers, each with an instance folder of its own."""
        with ExitStack() as stack:
            servers = []
            for number in range(1, count + 1):
                instance = self.folder / str(number)
                log = self.folder / f"{number}.log"
                servers.append(stack.enter_context(ours(instance, log, **self.settings)))
            for server in servers:
                server.first_answer("/health/live")
            yield servers


def _cpu_of(postgres: Postgres) -> float:
    pid = int((postgres.data / "postmaster.pid").read_text().split()[0])
    # Those that have ended are counted where they were waited for: cutime and cstime.
    ended = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[13:15]
    found = cpu_seconds(pid) + sum(map(int, ended)) / _TICKS
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return found + sum(cpu_seconds(int(child)) for child in children)


def costs(
    engine: Engine, servers: Sequence[Server], token: str, asked: list[Question], seconds: float
) -> Cost:
    """Ask these questions for so long, of all servers alike; return the median of some rounds."""
    share = max(1, CONNECTIONS // len(servers))
    loads = [Load(server.port, token, asked[place:], share) for place, server in enumerate(servers)]

    def drive(work: Callable[[Load], None]) -> None:
        threads = [Thread(target=work, args=(load,)) for load in loads]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    rounds = []
    try:
        drive(lambda load: load.run(2 * share))
        for _ in range(_ROUNDS):
            rates: list[float] = []
            before = sum(server.cpu_seconds() for server in servers), engine.cpu()
            began = time.perf_counter()
            drive(lambda load, rates=rates: rates.append(load.rate(seconds)))
            passed = time.perf_counter() - began
            after = sum(server.cpu_seconds() for server in servers), engine.cpu()
            count = sum(rates) * passed
            spent = ((end - start) / count * 1e6 for start, end in zip(before, after, strict=True))
            rounds.append(Cost(*spent, sum(rates)))
    finally:
        for load in loads:
            load.close()
    return Cost(*map(median, zip(*rounds, strict=True)))


def questions(server: Server, token: str, blocks: int) -> dict[str, list[Question]]:
    """Return what is asked for, by name; each of a copy is as long as that of block 0."""
    chance = random.Random(blocks)

    def length(path: str) -> int:
        answer = ask(server.port, path, token)
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {answer.body.decode()}")
        return len(answer.body)

    def spread(count: int, path: Callable[[int, int], str]) -> list[Question]:
        lengths = [length(path(0, number)) for number in range(min(count, 100))]
        picked = [
            (chance.randrange(blocks), chance.randrange(len(lengths))) for _ in range(_SPREAD)
        ]
        return [Question(path(*one), lengths[one[1]]) for one in picked]

    by_code = [f"{_BASE}?code={code}&_count=10" for code in allergy_codes()]
    return {
        "read": spread(ALLERGIES, lambda *one: f"{_BASE}/{multiplied.allergy_id(*one)}"),
        "search by patient": spread(
            PATIENTS, lambda *one: f"{_BASE}?patient={multiplied.patient_id(*one)}"
        ),
        "search by a common code, 10 of a page": [Question(one, length(one)) for one in by_code],
        "page of 100": [Question(f"{_BASE}?_count=100", length(f"{_BASE}?_count=100"))],
    }


def first_total(server: Server, token: str) -> float:
    """Return the seconds of a search whose matches were not counted yet."""
    began = time.perf_counter()
    path = f"{_BASE}?{urlencode({'code': allergy_codes()[0], 'criticality': 'high'})}&_count=1"
    total = json.loads(ask(server.port, path, token).body)["total"]
    assert total > 0
    return time.perf_counter() - began


def measure(engine: Engine, size: int, effort: float) -> None:
    """Print what requests cost at a size."""
    token = engine.token()
    with engine.serve(1) as (server,):
        print(f"  {'a count of matches, the first time, s':<44}{first_total(server, token):>10.3f}")
        for name, asked in questions(server, token, size // ALLERGIES).items():
            print(f"  {name:<44}{costs(engine, [server], token, asked, effort)}", flush=True)


def measure_servers(engine: Engine, size: int, effort: float) -> None:
    """Print what requests cost with so many servers on one database, and what they leave there."""
    token, trail = engine.token(), engine.trail()
    for count in (1, 2, 3):
        with engine.serve(count) as servers:
            asked = questions(servers[0], token, size // ALLERGIES)
            for name in ("read", "search by patient"):
                cost = costs(engine, servers, token, asked[name], effort)
                print(f"  {f'{count} servers: {name}':<44}{cost}", flush=True)
    # Lines come to the other two tables later: each has its own count.
    grown = [
        (after[1] - before[1]) / (after[0] - before[0])
        for before, after in zip(trail, engine.trail(), strict=True)
    ]
    print(f"  {'audit trail of such a request, bytes':<44}{sum(grown):>10,.0f}")


def measure_replica(engine: Engine, size: int, effort: float) -> None:
    """Print what requests cost the primary where records are read from a replica."""
    primary = engine.postgres
    assert primary is not None
    replica = Postgres(primary.folder, primary.port + 1)
    replica.copy(primary)
    replica.start(*_SERVING)
    try:
        wait_for_replica(primary, replica)
        _apart(replica)
        engine.settings["FHIRAPP_REPLICA_URLS"] = replica.url(_DATABASE)
        token = engine.token()
        with engine.serve(1) as (server,):
            asked = questions(server, token, size // ALLERGIES)
            for name in ("read", "search by patient"):
                before = _cpu_of(replica), engine.cpu()
                cost = costs(engine, [server], token, asked[name], effort)
                on_replica, on_primary = _cpu_of(replica) - before[0], engine.cpu() - before[1]
                print(f"  {f'{name}, of it the primary':<44}{cost}")
                print(
                    f"  {'… and the replica':<54} {cost.database * on_replica / on_primary:>10,.0f}"
                )
    finally:
        del engine.settings["FHIRAPP_REPLICA_URLS"]
        replica.stop("immediate")
        # Else the primary would keep for it all that is written from now on.
        primary.ask("SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots")
        shutil.rmtree(replica.data)


def import_notes(engine: Engine) -> None:
    """Print what an import of notes takes, and what they take on disk."""
    with tempfile.TemporaryDirectory(dir=engine.folder) as folder:
        files = records.write(Path(folder), Size(PATIENTS, 1, _NOTES))
        engine.run("import", "--no-provenance", files["others"])
        before = engine.size()
        mine, database, _ = engine.run("import", "--no-provenance", files["documents"])
    print(
        f"  {f'import of {_NOTES:,} notes of 1 to 3 kB, CPU s':<44}{mine:>10.2f} {database:>10.2f}"
    )
    print(f"  {'a note on disk, bytes':<44}{(engine.size() - before) / _NOTES:>10,.0f}")


def on_postgresql(folder: Path, sizes: Sequence[int], effort: float) -> None:
    """Measure each size on PostgreSQL, and at the last the number of servers."""
    postgres = Postgres(folder / "pg", 5432)
    postgres.folder.mkdir()
    if os.geteuid() == 0:
        shutil.chown(postgres.folder, "postgres")
    postgres.make()
    postgres.start(*_SERVING)
    engine = Engine(folder, postgres)
    try:
        postgres.run("createdb", "-h", str(postgres.folder), "-U", "postgres", _DATABASE)
        spent = engine.import_block(0)
        blocks = 1
        for size in sizes:
            filled = time.monotonic()
            postgres.stop()
            postgres.start(*_FILLING)
            with psycopg.connect(postgres.url(_DATABASE), autocommit=True) as connection:
                if size // ALLERGIES > blocks:
                    multiplied.multiply(connection, blocks, size // ALLERGIES - 1)
                else:
                    connection.execute("VACUUM (ANALYZE)")
                connection.execute("CHECKPOINT")
            _head("PostgreSQL", size, engine.size(), time.monotonic() - filled)
            postgres.stop()
            postgres.start(*_SERVING)
            _apart(postgres)
            measure(engine, size, effort)
            if size == sizes[0]:
                measure_replica(engine, size, effort)
                import_notes(engine)
            if size == sizes[-1]:
                measure_servers(engine, size, effort)
            blocks = max(blocks, size // ALLERGIES) + 1
            spent = engine.import_block(blocks - 1)
            _import(spent)
    finally:
        postgres.stop("immediate")


def on_sqlite(folder: Path, sizes: Sequence[int], effort: float) -> None:
    """Measure each size on SQLite, which is filled by imports alone."""
    engine, blocks = Engine(folder, None), 0
    for size in sizes:
        began, spent = time.monotonic(), (0.0, 0.0)
        while blocks < size // ALLERGIES:
            spent = engine.import_block(blocks)
            blocks += 1
        taken = sum(path.stat().st_size for path in (folder / "1").glob("fhirapp.db*"))
        _head("SQLite", size, taken, time.monotonic() - began)
        measure(engine, size, effort)
        _import(spent)


def _head(engine: str, size: int, taken: int, seconds: float) -> None:
    print(
        f"\n{engine}, {size:,} allergies, {taken / 1e9:,.2f} GB, filled in {seconds:.0f} s\n"
        f"  {'':<44}{'ours, µs':>10} {'its, µs':>10} {'a second':>10}",
        flush=True,
    )


def _import(spent: tuple[float, float]) -> None:
    """Print what an import of one more block took, with the start of its process."""
    mine, database = spent
    print(f"  {f'import of {ALLERGIES:,} allergies, CPU s':<44}{mine:>10.2f} {database:>10.2f}")


def _apart(postgres: Postgres) -> None:
    """Keep PostgreSQL, and this process, off the core where our servers pin themselves."""
    cores = sorted(os.sched_getaffinity(0))
    others = set(cores[1:]) or set(cores)
    pid = int((postgres.data / "postmaster.pid").read_text().split()[0])
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    for one in (pid, *map(int, children)):
        os.sched_setaffinity(one, others)


def main(arguments: Sequence[str]) -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench scale", description=__doc__)

    def sizes(text: str) -> list[int]:
        return [int(one) for one in text.split(",") if one]

    parser.add_argument("--sizes", type=sizes, default=[*SIZES], help="of allergies")
    parser.add_argument("--sqlite", type=sizes, default=[1_000, 10_000, 100_000])
    parser.add_argument("--folder", type=Path, help="on the disk that is measured")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a round of asking")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    if options.folder:
        options.folder.mkdir(parents=True, exist_ok=True)
    for name, sized, work in (
        ("sqlite", options.sqlite, on_sqlite),
        ("postgresql", options.sizes, on_postgresql),
    ):
        with tempfile.TemporaryDirectory(prefix=f"scale-{name}-", dir=options.folder) as made:
            folder = Path(made)
            folder.chmod(0o755)
            if sized:
                work(folder, sized, options.seconds)
    print(f"\nThe whole took {time.monotonic() - began:.0f} s.")
