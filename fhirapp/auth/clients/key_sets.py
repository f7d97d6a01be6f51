"""The key sets at clients' addresses (jwks_uri), remembered so that they are seldom fetched.

A client may change its keys whenever it likes, so a set in which no key fits is fetched anew; but
anybody can name a client and a key that is none, so that happens once a minute at the most. While
one thread fetches, others wait for its result, but never all threads: reading goes on.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from threading import Condition, Lock
from urllib.parse import urlsplit

from joserfc.jwk import KeySet

from fhirapp.auth.clients.fetch import SECONDS, KeySetUnavailable, fetch_keys
from fhirapp.config import Settings
from fhirapp.fhir.outcome import Unavailable

_log = logging.getLogger(__name__)

# A set is fetched again after this, or sooner where its Cache-Control says so.
KEPT_SECONDS = 600
# An address that failed is left alone so long; and no set is kept for less.
REST_SECONDS = 10
# Between two fetches that are made because no known key fits.
RENEWAL_SECONDS = 60
# So many addresses are remembered; then the one not asked for longest is forgotten.
MOST_ADDRESSES = 256
# How long the last free thread waits for a place among those who wait.
_TURN_SECONDS = 0.25
_RETRY_SECONDS = 2


@dataclass(eq=False)
class _Address:
    """What is known of an address; whoever changes it holds turn."""

    turn: Lock = field(default_factory=Lock)
    known: KeySet | None = None
    known_until: float = -inf
    rests_until: float = -inf
    renewable_from: float = -inf

    def keys(self, now: float) -> KeySet | None:
        return self.known if now < self.known_until else None


class KeySets:
    """The key sets at clients' addresses, remembered by this process; one for each app.

    clock tells seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # The one not asked for longest comes first.
        self._addresses: dict[str, _Address] = {}
        self._waiting = 0
        self._changed = Condition()

    def at(self, uri: str, settings: Settings) -> Iterator[KeySet]:
        """Give the key set at an address and, to whoever asks on, a newer one where there may be.

        Raises KeySetUnavailable; Unavailable if nearly all threads wait for such answers already.
        """
        address = self._address(uri)
        known = address.keys(self._clock())
        if known is not None:
            yield known
        with self._place(settings.threads):
            newer = self._newer(uri, address, known, settings.fetch_private)
        if newer is not None:
            yield newer

    def _address(self, uri: str) -> _Address:
        with self._changed:
            address = self._addresses.pop(uri, None) or _Address()
            self._addresses[uri] = address
            if len(self._addresses) > MOST_ADDRESSES:
                del self._addresses[next(iter(self._addresses))]
        return address

    def _newer(
        self, uri: str, address: _Address, known: KeySet | None, private: bool
    ) -> KeySet | None:
        """Return another key set than the known one; None where it is too soon to fetch one."""
        # Whoever waits here takes what the one before has fetched.
        if not address.turn.acquire(timeout=SECONDS):
            raise KeySetUnavailable("others wait too")
        try:
            now = self._clock()
            current = address.keys(now)
            if current is not None and current is not known:
                return current
            if current is not None and now < address.renewable_from:
                return None
            if now < address.rests_until:
                raise KeySetUnavailable("failed a moment ago")
            return self._fetch(uri, address, private, is_renewal=current is not None)
        finally:
            address.turn.release()

    def _fetch(self, uri: str, address: _Address, private: bool, *, is_renewal: bool) -> KeySet:
        host = urlsplit(uri).hostname
        try:
            keys, max_age = fetch_keys(uri, private=private)
        except KeySetUnavailable as error:
            _log.warning("The keys of a client at %s were not fetched: %s", host, error)
            address.rests_until = self._clock() + REST_SECONDS
            raise
        finally:
            if is_renewal:
                address.renewable_from = self._clock() + RENEWAL_SECONDS
        lifetime = KEPT_SECONDS if max_age is None else min(max_age, KEPT_SECONDS)
        address.known = keys
        address.known_until = self._clock() + max(lifetime, REST_SECONDS)
        _log.info("The keys of a client at %s were fetched: %d", host, len(keys.keys))
        return keys

    @contextmanager
    def _place(self, threads: int) -> Iterator[None]:
        """Hold one of the places of those who wait, one fewer than there are threads."""
        most = max(1, threads - 1)
        with self._changed:
            if not self._changed.wait_for(lambda: self._waiting < most, _TURN_SECONDS):
                raise Unavailable(
                    "Too many wait for keys of clients; try again shortly.",
                    headers={"Retry-After": str(_RETRY_SECONDS)},
                )
            self._waiting += 1
        try:
            yield
        finally:
            with self._changed:
                self._waiting -= 1
                self._changed.notify()
