"""The rows about cores and connections: what processes, a busy neighbour and a crowd change.

Requests a second, of a search by patient; and how long answers take where half as much is asked
as can be answered.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import quantiles

from tests.bench import measure
from tests.bench.load import Question, Waits, throughput
from tests.bench.rows import Row, Section, Target
from tests.bench.servers import Server, ours

FEW, MANY, CROWD = 8, 64, 512

_PROCESSES = Target(1.8, at_most=False)
_CROWD = Target(0.9, at_most=False)
_BUSY = Target(0.7, at_most=False)
_SLOWEST = Target(4)
# Of one client there are more connections than it may have by default.
MANY_OF_ONE = {"FHIRAPP_CONNECTIONS_OF_ADDRESS": "1000"}
_BUSY_PROGRAM = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile True: pass"


class Cores:
    """A server's database and the questions that are asked of it."""

    def __init__(
        self,
        instance: Path,
        token: str,
        asked: Callable[[Server], Sequence[Question]],
        folder: Path,
        seconds: float,
        rounds: int,
    ) -> None:
        self._instance, self._token, self._asked, self._folder = instance, token, asked, folder
        self._seconds, self._rounds = seconds, rounds

    def sections(self) -> list[Section]:
        """Measure all rows."""
        found: dict[str, list[float]] = {}
        times: tuple[list[float], list[float]] = [], []
        for _ in range(self._rounds):
            with self._serve("1") as (server, asked):
                alone = self._rate(server, asked, FEW)
                found.setdefault("one", []).append(alone)
                for place, time in enumerate(self._waits(server, asked, alone / 2)):
                    times[place].append(time)
            with self._serve("0") as (server, asked):
                for count in (FEW, MANY, CROWD):
                    rate = self._rate(server, asked, count)
                    found.setdefault(str(count), []).append(rate)
                with busy_program():
                    rate = self._rate(server, asked, MANY)
                    found.setdefault("busy", []).append(rate)
        few, many = found[str(FEW)], found[str(MANY)]
        rates = [
            Row(f"a process for each core against one, {FEW}", few, found["one"], _PROCESSES),
            Row(f"{CROWD} connections against {FEW}", found[str(CROWD)], few, _CROWD),
            Row(f"one core busy otherwise, {MANY}", found["busy"], many, _BUSY),
        ]
        half = Row("half of what one process can answer", times[1], times[0], _SLOWEST)
        return [
            Section("Requests per second, by patient", "this", "against", rates),
            Section("Time of an answer, ms", "p99", "p50", [half]),
        ]

    @contextmanager
    def _serve(self, processes: str) -> Iterator[tuple[Server, Sequence[Question]]]:
        log = self._folder / "cores.log"
        settings = {"FHIRAPP_PROCESSES": processes, **MANY_OF_ONE}
        with ours(self._instance, log, **settings) as server:
            server.first_answer("/fhir/metadata")
            yield server, self._asked(server)

    def _rate(self, server: Server, asked: Sequence[Question], connections: int) -> float:
        return throughput(
            server.port,
            self._token,
            asked,
            connections=connections,
            seconds=self._seconds,
            folder=self._folder,
        )

    def _waits(self, server: Server, asked: Sequence[Question], rate: float) -> tuple[float, float]:
        """Return p50 and p99 in milliseconds where so many a second are asked."""
        with measure.apart():
            waits = Waits(server.port, self._token, asked, FEW).at_rate(rate, self._seconds)
        percent = quantiles([1_000 * wait for wait in waits], n=100)
        return percent[49], percent[98]


@contextmanager
def busy_program() -> Iterator[None]:
    """Keep the first core busy with something else."""
    words = [sys.executable, "-c", _BUSY_PROGRAM, str(measure.cores()[0])]
    with subprocess.Popen(words) as program:
        try:
            yield
        finally:
            program.kill()
