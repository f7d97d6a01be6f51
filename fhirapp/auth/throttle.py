"""Counts failed attempts by address, in each process for itself; successes cost nothing."""

from __future__ import annotations

import math
import time

from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import FixedWindowRateLimiter

PER_MINUTE = 60
_LIMIT = parse(f"{PER_MINUTE}/minute")


class Failures:
    """Failed attempts to authenticate, of which PER_MINUTE a minute are answered as such."""

    def __init__(self) -> None:
        self._limiter = FixedWindowRateLimiter(MemoryStorage())

    def count(self, address: str) -> int:
        """Count one failure; return the seconds to wait once there were too many, else 0."""
        if self._limiter.hit(_LIMIT, address):
            return 0
        reset = self._limiter.get_window_stats(_LIMIT, address).reset_time
        return max(1, math.ceil(reset - time.time()))
