"""CPU time and memory of processes, and how long a measurement has to be."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

# A CPU clock advances in nanoseconds on some kernels, and at each timer tick on others: every
# 10 ms at most. Each measurement covers at least 50 of these, so a tick is 2 % of it.
TICK_SECONDS = 1 / os.sysconf("SC_CLK_TCK")
MIN_SECONDS = 50 * TICK_SECONDS


def cpu_seconds(pid: int) -> float:
    """Return the CPU time of all threads of a process."""
    # The clock id of clock_getcpuclockid(3): /proc/PID/stat has the resolution of a tick.
    return time.clock_gettime_ns((~pid << 3) | 2) / 1e9


def children(pid: int) -> list[int]:
    """Return the PIDs of the children of a process."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def anonymous_megabytes(pid: int) -> float:
    """Return RssAnon of a process, 0 after its end."""
    found = re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M)
    return int(found[1]) / 1024 if found else 0.0


def rates(count: int, seconds: float) -> list[float]:
    """Return the number per CPU second, or nothing if the time is too short to measure."""
    return [count / seconds] if seconds >= MIN_SECONDS else []


def cores() -> list[int]:
    """Return the cores that servers pin their processes to."""
    return sorted(os.sched_getaffinity(0))
