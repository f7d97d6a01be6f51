"""What is worked out without a server: addresses, waits, and the words of others."""

from __future__ import annotations

import json

import pytest

from fhirapp.exchange.remote.address import (
    Passing,
    RemoteError,
    diagnostics_of,
    fhir_base,
    following,
    is_export,
    origin,
    place,
    possible_bases,
    shown,
)
from fhirapp.exchange.remote.connection import Clock, asked_wait, next_wait, steadily

NOON = 1_769_947_200.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 1),
        ("120", 120),
        (" 7 ", 7),
        ("9" * 5000, 999_999_999),
        ("Sun, 01 Feb 2026 12:00:30 GMT", 30),
        ("Sunday, 01-Feb-26 12:00:30 GMT", 30),
        ("Sun, 01 Feb 2026 12:00:30", 30),
        ("Sun, 01 Feb 2026 11:00:00 GMT", 1),
        ("-5", None),
        ("1.5", None),
        ("٣", None),
        ("soon", None),
        ("Sun, 99 Feb 2026 12:00:30 GMT", None),
        ("", None),
        (None, None),
    ],
)
def test_a_retry_after_is_seconds_or_a_date(text, seconds):
    assert asked_wait(text, NOON) == seconds


@pytest.mark.parametrize(
    ("failures", "asked", "seconds"),
    [
        (1, None, 1),
        (2, None, 2),
        (7, None, 60),
        (10_000, None, 60),
        (5, 3.0, 3),
        (1, 21_600, 21_600),
    ],
)
def test_a_wait_is_what_is_asked_for_or_longer_each_time(failures, asked, seconds):
    assert next_wait(failures, asked) == seconds


def test_a_failure_after_progress_is_the_first():
    waited: list[float] = []
    failures = iter([Passing("a"), Passing("b"), Passing("c", progress=True), Passing("d", 7.0)])

    def attempt() -> str:
        for failure in failures:
            raise failure
        return "done"

    assert steadily("It failed", 3, Clock(lambda: NOON, waited.append), attempt) == "done"
    assert waited == [1, 2, 1, 7]


@pytest.mark.parametrize(
    ("address", "base"),
    [
        ("https://h/fhir/$export", "https://h/fhir"),
        ("https://h:8443/a/b/Patient/$export?_type=x", "https://h:8443/a/b"),
        ("https://h/fhir/Group/7/$export", "https://h/fhir"),
        ("https://h/%24export", "https://h"),
        ("https://h/a%2Fb/$export/", "https://h/a%2Fb"),
        ("https://h/fhir//$export", "https://h/fhir"),
        ("https://h/fhir/$export-poll-status?id=1", None),
        ("https://h/fhir/Group/$export", "https://h/fhir/Group"),
        ("https://h/fhir?x=/$export", None),
        ("https://h/fhir", None),
        ("http://[", None),
    ],
)
def test_the_base_of_an_export_is_what_comes_before_it(address, base):
    assert fhir_base(address) == base
    assert is_export(address) is (base is not None)


def test_the_base_of_another_address_is_looked_for_from_below():
    assert possible_bases("https://h/a/fhir/job/7?x") == [
        "https://h/a/fhir/job",
        "https://h/a/fhir",
        "https://h/a",
        "https://h",
    ]
    assert possible_bases("https://h/a/$export?x") == ["https://h/a"]
    assert possible_bases("https://h") == ["https://h"]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("https://h/a", "https://H:443/b", True),
        ("http://h:80/", "http://h", True),
        ("https://h", "http://h", False),
        ("https://h", "https://h:8443", False),
        ("https://h", "https://h.evil.example", False),
        ("https://h", "https://evil.example/h", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(one, other, same):
    assert (origin(one) == origin(other)) is same


@pytest.mark.parametrize(
    ("named", "found"),
    [
        ("/job", "https://h/job"),
        ("job?x", "https://h/fhir/job?x"),
        ("//other/job", "https://other/job"),
        (" https://other/job ", "https://other/job"),
    ],
)
def test_an_address_may_be_relative(named, found):
    assert following("https://h/fhir/$export", named) == found


@pytest.mark.parametrize(
    "named", ["http://h/job", "http://other/", "ftp://h/", "https://[/", "a\0b"]
)
def test_an_address_that_must_not_be_followed_is_refused(named):
    with pytest.raises(RemoteError):
        following("https://h/fhir/$export", named)


def test_an_address_is_told_without_what_may_be_secret():
    assert place("https://h/file?signature=secret#x") == "https://h/file"
    assert place("http://[?secret") == "http://[?secret"


@pytest.mark.parametrize(
    ("text", "longest", "found"),
    [
        ("a\r\n\tb\0c", 9, "a b c"),
        ("x" * 10, 10, "x" * 10),
        ("x" * 11, 10, "x" * 9 + "…"),
        ("\x1b[2J\u202eevil\u200b", 20, "[2J evil"),
        (" " * 10_000_000 + "a", 20, ""),
    ],
)
def test_the_words_of_others_are_cut_and_made_harmless(text, longest, found):
    assert shown(text, longest) == found


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"issue": [{"diagnostics": "No."}, {"details": {"text": "Not so."}}]}, ": No. Not so"),
        ({"issue": [{"code": "throttled"}]}, ": throttled"),
        ({"error": "invalid_client", "error_description": "Who?"}, ": invalid_client Who?"),
        ({"issue": "x"}, ""),
        ({"issue": [5, {"diagnostics": {"a": 1}}]}, ""),
        ([], ""),
        ("text", ""),
    ],
)
def test_what_an_error_says_is_found(content, said):
    assert diagnostics_of(json.dumps(content).encode()) == (said, False)


def test_an_error_may_say_that_it_passes():
    assert diagnostics_of(b'{"issue": [{"code": "transient"}]}') == (": transient", True)
    assert diagnostics_of(b"<html>") == ("", False)
