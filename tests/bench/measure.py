"""The measurements, each in short rounds that alternate between the sides.

The machine may be shared and its speed may change: what is compared is measured within a second or
two of each other, and the ratio is taken in each round.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.load import Load, Question, throughput
from tests.bench.servers import Server, bare, ours, recorded

# Enough to keep a server busy, so that its cost is that of work and not of waking up.
CONNECTIONS = 8
_WARM_UP = 2 * CONNECTIONS


@dataclass
class Candidate:
    """A server that is asked one row's question; costs are CPU µs per request, one a round."""

    server: Server
    token: str
    questions: Sequence[Question]
    costs: list[float] = field(default_factory=list)
    _requests: int = 0

    def calibrate(self, seconds: float) -> None:
        """Choose how many requests take so much processor time."""
        cost = self._cost(_WARM_UP)
        self._requests = max(_WARM_UP, round(seconds / cost))

    def measure(self) -> None:
        """Take one round."""
        self.costs.append(self._cost(self._requests) * 1e6)

    def _cost(self, requests: int) -> float:
        load = Load(self.server.port, self.token, self.questions, CONNECTIONS)
        try:
            load.run(_WARM_UP)
            before = self.server.cpu_seconds()
            load.run(requests)
            return (self.server.cpu_seconds() - before) / requests
        finally:
            load.close()


def cpu_rounds(candidates: Sequence[Candidate], rounds: int, seconds: float) -> None:
    """Measure each candidate for so many processor seconds in each round, one after the other."""
    with apart():
        for candidate in candidates:
            candidate.calibrate(seconds)
        for _ in range(rounds):
            for candidate in candidates:
                candidate.measure()


def rate_rounds(
    sides: Sequence[Server],
    token: str,
    questions: Sequence[Question],
    connections: Sequence[int],
    *,
    rounds: int,
    seconds: float,
    folder: Path,
) -> dict[tuple[int, int], list[float]]:
    """Return the requests per second of each round, by the side's place and the connections."""
    rates: dict[tuple[int, int], list[float]] = {}
    for _ in range(rounds):
        for count in connections:
            for place, server in enumerate(sides):
                rate = throughput(
                    server.port,
                    token,
                    questions,
                    connections=count,
                    seconds=seconds,
                    folder=folder,
                )
                rates.setdefault((place, count), []).append(rate)
    return rates


def starts(
    instance: Path, token: str, search: str, count: int, log: Path
) -> dict[str, list[float]]:
    """Return the seconds from the start of a process to its first 200.

    Of our /fhir/metadata and of a search right after, and of the bare application.
    """
    found: dict[str, list[float]] = {"metadata": [], "search": [], "bare": []}
    for _ in range(count):
        with ours(instance, log) as server:
            found["metadata"].append(server.first_answer("/fhir/metadata"))
            found["search"].append(server.first_answer(search, token))
            answers = recorded(server, token, {search: [search]})
        with bare(answers, log, cores()) as server:
            found["bare"].append(server.first_answer(search))
    return found


def cores() -> list[int]:
    """Return the cores that servers pin themselves to."""
    return sorted(os.sched_getaffinity(0))


@contextmanager
def apart() -> Iterator[None]:
    """Keep this process, which asks, off the first core, where a single server process runs."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {min(before)} or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
