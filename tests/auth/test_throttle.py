"""Failures counted by the minute, in this process. Those of the endpoints are tested there."""

from __future__ import annotations

import pytest

from fhirapp.auth import throttle
from fhirapp.auth.throttle import Failures


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock: its only entry is the time."""
    clock = [1000.0]
    monkeypatch.setattr(throttle.time, "time", lambda: clock[0])
    return clock


def test_failures_beyond_the_limit_wait_until_their_minute_ends(at):
    failures = Failures(2)
    assert [failures.count("192.0.2.1") for _ in range(3)] == [0, 0, 60]
    at[0] += 59.5
    assert failures.count("192.0.2.1") == 1
    assert failures.count("192.0.2.2") == 0
    at[0] += 0.5
    assert [failures.count("192.0.2.1") for _ in range(3)] == [0, 0, 60]


def test_addresses_whose_minute_ended_are_forgotten(at):
    failures = Failures()
    for number in range(100):
        failures.count(f"192.0.2.{number}")
        at[0] += 1
    assert len(failures._counts) == 60


def test_a_clock_that_is_set_back_prolongs_no_minute(at):
    failures = Failures(2)
    failures.count("192.0.2.1")
    at[0] -= 600
    assert [failures.count("192.0.2.2") for _ in range(3)] == [0, 0, 60]
    assert [*failures._counts] == ["192.0.2.2"]
    at[0] += 60
    assert failures.count("192.0.2.2") == 0


def test_an_ipv6_network_is_one_address(at):
    failures = Failures(1)
    assert failures.count("2001:db8::1") == 0
    assert failures.count("2001:db8::2") == 60
    assert failures.count("2001:db8:0:1::2") == 0
