"""The cache of clients' key sets: expiry, renewal, failures, and concurrent requests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import pytest
from joserfc.jwk import ECKey

from fhirapp.auth.clients.fetch import KeySetUnavailable
from fhirapp.auth.clients.key_sets import (
    KEPT_SECONDS,
    MOST_ADDRESSES,
    RENEWAL_SECONDS,
    REST_SECONDS,
    KeySets,
)
from fhirapp.config import Settings
from fhirapp.fhir.outcome import Unavailable
from tests.support.key_server import KeyServer, ok, reply, running

KEY = ECKey.generate_key("P-384", {"kid": "any"}).as_dict(private=False)
BROKEN = reply("500 Internal Server Error")
SETTINGS = Settings(fetch_private=True, threads=9)


@pytest.fixture
def server() -> Iterator[KeyServer]:
    with running() as server:
        server.answer = named("first")
        yield server


class Clock:
    """The time, in seconds, that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def key_sets(clock: Clock) -> KeySets:
    return KeySets(clock)


def named(kid: str, *headers: str) -> bytes:
    """Return the answer that holds one key of this name."""
    return ok({"keys": [KEY | {"kid": kid}]}, *headers)


def given(key_sets: KeySets, uri: str, most: int = 1, settings: Settings = SETTINGS) -> list[str]:
    """Return the name of the key in each set, of which so many are asked for at the most."""
    return [keys.keys[0].kid or "" for keys in islice(key_sets.at(uri, settings), most)]


def test_key_set_is_cached_for_ten_minutes(server, key_sets, clock):
    assert given(key_sets, server.url) == ["first"]
    server.answer = named("second")
    clock.now += KEPT_SECONDS - 1
    assert given(key_sets, server.url) == ["first"]
    assert len(server.asked) == 1
    clock.now += 1
    assert given(key_sets, server.url) == ["second"]
    # An expired set is not used where it cannot be fetched again.
    clock.now += KEPT_SECONDS
    server.answer = BROKEN
    with pytest.raises(KeySetUnavailable):
        given(key_sets, server.url)


def test_key_set_is_cached_for_less_where_the_server_says_so(server, key_sets, clock):
    for number, (header, seconds) in enumerate(
        (
            ("max-age=60", 60),
            ("max-age=86400", KEPT_SECONDS),
            ("max-age=0", REST_SECONDS),
            ("max-age=-60", REST_SECONDS),
            ("no-store", REST_SECONDS),
        )
    ):
        uri = f"{server.url}?{number}"
        server.answer = named("first", f"Cache-Control: {header}")
        server.asked.clear()
        given(key_sets, uri)
        clock.now += seconds - 1
        given(key_sets, uri)
        assert len(server.asked) == 1, header
        clock.now += 1
        given(key_sets, uri)
        assert len(server.asked) == 2, header


def test_key_set_that_does_not_fit_is_fetched_again_once_a_minute(server, key_sets, clock):
    given(key_sets, server.url)
    server.answer = named("second")
    assert given(key_sets, server.url, 3) == ["first", "second"]
    server.answer = named("third")
    clock.now += RENEWAL_SECONDS - 1
    assert given(key_sets, server.url, 3) == ["second"]
    assert len(server.asked) == 2
    clock.now += 1
    assert given(key_sets, server.url, 3) == ["second", "third"]


def test_failure_is_cached_for_a_short_time(server, key_sets, clock, caplog):
    server.answer = BROKEN
    with pytest.raises(KeySetUnavailable, match="status 500"):
        given(key_sets, server.url)
    server.answer = named("first")
    clock.now += REST_SECONDS - 1
    with pytest.raises(KeySetUnavailable, match="failed a moment ago"):
        given(key_sets, server.url)
    assert len(server.asked) == 1
    clock.now += 1
    assert given(key_sets, server.url) == ["first"]
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.getMessage() == "The keys of a client at localhost were not fetched: status 500"


def test_log_names_only_the_host(server, key_sets, caplog):
    caplog.set_level(logging.INFO)
    uri = f"http://user:password@localhost:{server.port}/path?token=query"
    given(key_sets, uri)
    server.answer = BROKEN
    with pytest.raises(KeySetUnavailable):
        given(key_sets, uri, 2)
    said = [record.getMessage() for record in caplog.records]
    assert said == [
        "The keys of a client at localhost were fetched: 1",
        "The keys of a client at localhost were not fetched: status 500",
    ]


def test_failed_renewal_keeps_the_cached_set_and_is_not_repeated(server, key_sets, clock):
    given(key_sets, server.url)
    server.answer = BROKEN
    with pytest.raises(KeySetUnavailable, match="status 500"):
        given(key_sets, server.url, 2)
    assert given(key_sets, server.url, 2) == ["first"]
    assert len(server.asked) == 2
    clock.now += RENEWAL_SECONDS
    server.answer = named("second")
    assert given(key_sets, server.url, 2) == ["first", "second"]


@pytest.mark.parametrize("is_renewal", [False, True])
def test_eight_requests_at_once_fetch_once(server, key_sets, is_renewal):
    if is_renewal:
        given(key_sets, server.url)
        server.answer = named("second")
    expected = ["first", "second"] if is_renewal else ["first"]
    with ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(given, key_sets, server.url, len(expected)) for _ in range(8)]
        answers = [future.result() for future in asking]
    # Who came when it was done already was given the new set alone.
    assert {tuple(answer) for answer in answers} <= {tuple(expected), tuple(expected[-1:])}
    assert len(server.asked) == len(expected)


def test_eight_requests_at_once_fail_with_one_fetch(server, key_sets):
    server.answer = BROKEN
    with ThreadPoolExecutor(8) as threads:
        asking = [threads.submit(given, key_sets, server.url) for _ in range(8)]
        reasons = [str(future.exception()) for future in asking]
    assert sorted(reasons) == ["failed a moment ago"] * 7 + ["status 500"]
    assert len(server.asked) == 1


def test_last_free_thread_does_not_wait(server, key_sets):
    asked = server.hold()
    two = Settings(fetch_private=True, threads=2)
    with ThreadPoolExecutor(1) as threads:
        waits = threads.submit(given, key_sets, server.url, 1, two)
        assert asked.wait(5)
        for uri in (server.url, server.url + "?other"):
            with pytest.raises(Unavailable):
                given(key_sets, uri, 1, two)
        server.over.set()
        assert waits.result() == ["first"]
    assert given(key_sets, server.url + "?other", 1, two) == ["first"]


def test_request_with_a_cached_key_does_not_wait_for_a_renewal(server, key_sets):
    given(key_sets, server.url)
    asked = server.hold()
    server.answer = named("second")
    with ThreadPoolExecutor(1) as threads:
        renews = threads.submit(given, key_sets, server.url, 2)
        assert asked.wait(5)
        assert given(key_sets, server.url) == ["first"]
        server.over.set()
        assert renews.result() == ["first", "second"]


def test_least_recently_used_url_is_dropped_from_the_cache(server, key_sets):
    for number in range(MOST_ADDRESSES):
        given(key_sets, f"{server.url}?{number}")
    given(key_sets, f"{server.url}?0")
    assert len(server.asked) == MOST_ADDRESSES
    given(key_sets, f"{server.url}?another")
    given(key_sets, f"{server.url}?0")
    assert len(server.asked) == MOST_ADDRESSES + 1
    given(key_sets, f"{server.url}?1")
    assert len(server.asked) == MOST_ADDRESSES + 2
