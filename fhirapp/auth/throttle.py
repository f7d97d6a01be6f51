"""Counts failed attempts by address, in each process for itself; successes cost nothing."""

from __future__ import annotations

import math
import time
from functools import cached_property
from ipaddress import IPv6Address, IPv6Network
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from limits.strategies import FixedWindowRateLimiter

PER_MINUTE = 60


def network_of(address: str) -> str:
    """Return what is counted as one: an IPv4 address, or the /64 that one customer has of IPv6."""
    try:
        parsed = IPv6Address(address)
    except ValueError:
        return address
    return str(parsed.ipv4_mapped or IPv6Network((int(parsed) >> 64 << 64, 64)))


class Failures:
    """Failed attempts to authenticate, of which per_minute a minute are answered as such."""

    def __init__(self, per_minute: int = PER_MINUTE) -> None:
        self._per_minute = per_minute

    def count(self, address: str) -> int:
        """Count one failure of an address, or of another key.

        Return the seconds to wait once there were too many, else 0.
        """
        from limits import RateLimitItemPerMinute

        limit = RateLimitItemPerMinute(self._per_minute)
        key = network_of(address)
        if self._limiter.hit(limit, key):
            return 0
        reset = self._limiter.get_window_stats(limit, key).reset_time
        return max(1, math.ceil(reset - time.time()))

    @cached_property
    def _limiter(self) -> FixedWindowRateLimiter:
        # Made at the first failure: its memory starts a thread, and a process that forks has none.
        from limits.storage import MemoryStorage
        from limits.strategies import FixedWindowRateLimiter

        return FixedWindowRateLimiter(MemoryStorage())
