"""Downloads without a server: URLs, retries, and sanitized messages."""

from __future__ import annotations

import json

import pytest

from fhirapp.features.pull import remote
from fhirapp.features.pull.remote import (
    Clock,
    RemoteError,
    TransientError,
    diagnostics_of,
    next_wait,
    parse_retry_after,
    retry,
)

NOON = 1_769_947_200.0


def test_retry_after_is_seconds_or_a_date():
    expected = {
        "0": 1,
        "120": 120,
        " 7 ": 7,
        "9" * 5000: 999_999_999,
        "Sun, 01 Feb 2026 12:00:30 GMT": 30,
        "Sunday, 01-Feb-26 12:00:30 GMT": 30,
        "Sun, 01 Feb 2026 12:00:30": 30,
        "Sun, 01 Feb 2026 11:00:00 GMT": 1,
        **dict.fromkeys(["-5", "1.5", "٣", "soon", "Sun, 99 Feb 2026 12:00:30 GMT", "", None]),
    }
    assert {text: parse_retry_after(text, NOON) for text in expected} == expected


def test_wait_is_what_the_server_asks_for_or_grows_with_each_failure():
    expected = {(1, None): 1, (2, None): 2, (7, None): 60, (10_000, None): 60}
    expected |= {(5, 3.0): 3, (1, 21_600): 21_600}
    assert {case: next_wait(*case) for case in expected} == expected


def test_attempts_are_counted_and_wait_as_the_server_asks():
    waited: list[float] = []
    failures = iter([TransientError("a"), TransientError("b", 7.0), TransientError("c")])

    def attempt() -> str:
        for failure in failures:
            raise failure
        return "done"

    clock = Clock(lambda: NOON, waited.append)
    assert retry("It failed", 4, clock, attempt) == "done"
    assert waited == [1, 7, 4]
    failures = iter([TransientError("a"), TransientError("b"), TransientError("c")])
    with pytest.raises(RemoteError, match=r"It failed \(c\), after 3 attempts"):
        retry("It failed", 3, clock, attempt)


def test_base_of_an_export_is_the_address_before_it():
    expected = {
        "https://h/fhir/$export": "https://h/fhir",
        "https://h:8443/a/b/Patient/$export?_type=x": "https://h:8443/a/b",
        "https://h/fhir/Group/7/$export": "https://h/fhir",
        "https://h/%24export": "https://h",
        "https://h/a%2Fb/$export/": "https://h/a%2Fb",
        "https://h/fhir//$export": "https://h/fhir",
        "https://h/fhir/$export-poll-status?id=1": None,
        "https://h/fhir/Group/$export": "https://h/fhir/Group",
        "https://h/fhir?x=/$export": None,
        "https://h/fhir": None,
        "http://[": None,
    }
    assert {address: remote.fhir_base(address) for address in expected} == expected
    for address, base in expected.items():
        assert remote.is_export(address) is (base is not None), address


def test_base_of_another_address_is_looked_for_from_below():
    below = ["https://h/a/fhir/job", "https://h/a/fhir", "https://h/a", "https://h"]
    assert remote.possible_bases("https://h/a/fhir/job/7?x") == below
    assert remote.possible_bases("https://h/a/$export?x") == ["https://h/a"]
    assert remote.possible_bases("https://h") == ["https://h"]


def test_origin_is_scheme_host_and_port():
    expected = {
        ("https://h/a", "https://H:443/b"): True,
        ("http://h:80/", "http://h"): True,
        ("https://h", "http://h"): False,
        ("https://h", "https://h:8443"): False,
        ("https://h", "https://h.evil.example"): False,
        ("https://h", "https://evil.example/h"): False,
    }
    assert {pair: remote.origin(pair[0]) == remote.origin(pair[1]) for pair in expected} == expected


def test_relative_address_is_resolved_and_a_less_secure_one_refused():
    base = "https://h/fhir/$export"
    expected = {
        "/job": "https://h/job",
        "job?x": "https://h/fhir/job?x",
        "//other/job": "https://other/job",
        " https://other/job ": "https://other/job",
    }
    assert {address: remote.resolve_url(base, address) for address in expected} == expected
    for address in ("http://h/job", "http://other/", "ftp://h/", "https://[/", "a\0b"):
        with pytest.raises(RemoteError):
            remote.resolve_url(base, address)


def test_address_is_shown_without_its_query():
    assert remote.redact_url("https://h/file?signature=secret#x") == "https://h/file"
    assert remote.redact_url("http://[?secret") == "http://[?secret"


def test_message_of_a_server_is_sanitised_and_cut():
    expected = {
        ("a\r\n\tb\0c", 9): "a b c",
        ("x" * 10, 10): "x" * 10,
        ("x" * 11, 10): "x" * 9 + "…",
        ("\x1b[2J\u202eevil\u200b", 20): "[2J evil",
        (" " * 10_000_000 + "a", 20): "",
    }
    for case, text in expected.items():
        assert remote.sanitize(*case) == text, case[0][:20]


def test_diagnostics_of_an_error_are_found():
    cases = [
        ({"issue": [{"diagnostics": "No."}, {"details": {"text": "Not so."}}]}, ": No. Not so"),
        ({"issue": [{"code": "throttled"}]}, ": throttled"),
        ({"error": "invalid_client", "error_description": "Who?"}, ": invalid_client Who?"),
        ({"issue": "x"}, ""),
        ({"issue": [5, {"diagnostics": {"a": 1}}]}, ""),
        ([], ""),
        ("text", ""),
    ]
    for content, text in cases:
        assert diagnostics_of(json.dumps(content).encode()) == (text, False)
    assert diagnostics_of(b'{"issue": [{"code": "transient"}]}') == (": transient", True)
    assert diagnostics_of(b"<html>") == ("", False)
