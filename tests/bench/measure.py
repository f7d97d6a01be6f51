"""CPU time per request, in rounds that alternate between the servers.

Other programs may share the machine and change its speed, so the compared values are measured
within seconds of each other, and each round has its own ratio.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.bench.cpu import MIN_SECONDS
from tests.bench.load import Load, Request
from tests.bench.servers import Server

# Enough to keep a server busy, so that its cost is work and not waking up.
CONNECTIONS = 8
_WARM_UP = 2 * CONNECTIONS


def cost_per_call(
    run: Callable[[int], None], cpu: Callable[[], float], first: int
) -> tuple[float, int]:
    """Return the CPU seconds of a call, and how many calls were made to measure them.

    run makes so many calls, first ones of them at first and more until MIN_SECONDS are spent.
    """
    start, done, batch = cpu(), 0, first
    while True:
        run(batch)
        done += batch
        spent = cpu() - start
        if spent >= MIN_SECONDS:
            return spent / done, done
        missing = done * (MIN_SECONDS / spent - 1) if spent > 0 else done
        batch = max(first // 8, min(round(missing * 1.05), done), 1)


@dataclass
class Candidate:
    """A server and the requests of a row; costs are CPU µs per request, one per round."""

    server: Server
    token: str
    requests: Sequence[Request]
    costs: list[float] = field(default_factory=list)
    _count: int = _WARM_UP

    def measure(self) -> None:
        """Measure one round."""
        with Load(self.server.port, self.token, self.requests, CONNECTIONS) as load:
            load.run(_WARM_UP)
            cost, self._count = cost_per_call(load.run, self.server.cpu_seconds, self._count)
            self.costs.append(cost * 1e6)


def cpu_rounds(candidates: Sequence[Candidate], rounds: int) -> None:
    """Measure each candidate once per round, one after the other."""
    with off_first_core():
        for _ in range(rounds):
            for candidate in candidates:
                candidate.measure()


@contextmanager
def off_first_core() -> Iterator[None]:
    """Keep this process, the client, off the first core, which a single server process uses."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, before - {min(before)} or before)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
