"""Tokens that were looked up, kept until anything is written.

A look-up costs a fifth of a read. What was found holds as long as nothing is committed by any
process of this server (db/generation.py), so a revocation, a changed role or a new link act on the
next request; and for a second at the most, for what others commit: another host on the same
PostgreSQL.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from fhirapp.db.generation import generation
from fhirapp.db.reader import read_since

LONGEST_SECONDS = 1.0
_MOST = 10_000
Found = TypeVar("Found")


class _Kept(NamedTuple, Generic[Found]):
    found: Found
    generation: bytes
    until: float


class Verified(Generic[Found]):
    """What was found by a digest, in this process."""

    def __init__(self) -> None:
        self._kept: dict[bytes, _Kept[Found]] = {}

    def get(self, digest: bytes, look_up: Callable[[bytes], Found | None]) -> Found | None:
        """Return what belongs to a digest; look_up finds it where it is not known to hold."""
        kept = self._kept.get(digest)
        if (
            kept is not None
            and kept.generation == generation().now()
            and kept.until > time.monotonic()
        ):
            return kept.found
        # Not that of now: the request's snapshot may be older.
        since = read_since()
        found = look_up(digest)
        if found is not None:
            if len(self._kept) >= _MOST:
                self._kept.clear()
            self._kept[digest] = _Kept(found, since, time.monotonic() + LONGEST_SECONDS)
        return found
