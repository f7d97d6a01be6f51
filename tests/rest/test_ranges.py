"""Range requests on the bytes of a Binary, and their conditions. RFC 9110 §13.1, §14."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.rest.stream import PIECE, parse_range
from tests.support.binaries import PUBLISHED_DATE, store
from tests.support.effort import sample
from tests.support.helpers import Fhir, assert_outcome, token_for

# Sent at once, at the border, and in pieces.
SIZES = (1, 2, 1000, PIECE, PIECE + 1, 2 * PIECE + 7)
STORED = {f"b{size}": Random(size).randbytes(size) for size in SIZES}
SMALL = STORED["b1000"]
CHANGED = "The version that the request names is not the current one."


@pytest.fixture(scope="module")
def fhir(make_app: Callable[..., Flask]) -> Fhir:
    """A client of an app that holds STORED; `empty`, which has no bytes; and two with a history.

    `twice` was published two times in one second, `thrice` in another second before that too,
    `later` in two seconds.
    """
    app = make_app(seed=False)
    # In the order of time: nothing is published before what is there.
    for row_id in ("thrice", "later"):
        store(app, row_id, b"first" * 200, now="2026-01-31T11:59:59.999+00:00")
    for row_id, content in {**STORED, "empty": b"", "later": SMALL}.items():
        store(app, row_id, content)
    for row_id in ("twice", "thrice"):
        store(app, row_id, b"again" * 200, now="2026-01-31T12:00:00.100+00:00")
    for row_id in ("twice", "thrice"):
        store(app, row_id, SMALL, now="2026-01-31T12:00:00.900+00:00")
    return Fhir(app, token_for(app, "system/*.rs"))


RANGES = [
    ("bytes=0-0", (0, 1)), ("bytes=0-499", (0, 500)), ("bytes=500-999", (500, 1000)),
    ("bytes=500-", (500, 1000)), ("bytes=999-", (999, 1000)), ("bytes=0-", (0, 1000)),
    ("bytes=900-5000", (900, 1000)), ("bytes=0-99999999999999999999999999", (0, 1000)),
    ("bytes=-1", (999, 1000)), ("bytes=-1000", (0, 1000)), ("bytes=-1001", (0, 1000)),
    ("bytes=-99999999999999999999999999", (0, 1000)), ("bytes=007-008", (7, 9)),
    ("BYTES=1-2", (1, 3)), ("bytes=1-2,", (1, 3)), ("bytes= \t1-2 , ,", (1, 3)),
]  # fmt: skip


def test_one_range_is_a_206(fhir):
    for header, span in RANGES:
        assert parse_range(header, 1000) == span
        response = fhir.get("Binary/b1000", headers={"Range": header})
        assert response.status_code == 206
        assert response.data == SMALL[slice(*span)]
        assert response.headers["Content-Range"] == f"bytes {span[0]}-{span[1] - 1}/1000"
        assert response.content_length == span[1] - span[0]
        assert response.content_type == "application/pdf"
        assert response.headers["ETag"] == 'W/"1"'
        assert response.headers["Last-Modified"] == PUBLISHED_DATE
        assert response.headers["Cache-Control"] == "no-cache, private"
        assert response.headers["Content-Security-Policy"].startswith("sandbox")
        assert response.headers["X-Content-Type-Options"] == "nosniff"


IGNORED = [
    "", "bytes", "bytes=", "bytes=,", "bytes=-", "bytes=--1", "bytes=-1-", "bytes=1-2-3",
    "bytes=5-4", "bytes=a-b", "bytes=0x0-0x5", "bytes=1.0-2", "bytes=+1-2", "bytes=1 - 2",
    "bytes=\u0661-\u0662", "bytes=" + "9" * 5000 + "-", "bytes:0-5", "bytes 0-5/1000", "0-5",
    "items=0-5", "bytes=0-0,5-9", "bytes=0-0,-1", "bytes=0-0,5000-",
    # Two headers, as a server joins them.
    "bytes=0-5,bytes=6-9", "bytes=0-5, bytes=0-5",
]  # fmt: skip


def test_several_ranges_other_units_and_what_cannot_be_read_get_the_whole(fhir):
    for header in IGNORED:
        assert parse_range(header, 1000) is None
        response = fhir.get("Binary/b1000", headers={"Range": header.encode().decode("latin-1")})
        assert (response.status_code, response.data) == (200, SMALL)
        assert "Content-Range" not in response.headers
        assert response.headers["Accept-Ranges"] == "bytes"


BEYOND = ["bytes=1000-", "bytes=1000-1000", "bytes=5000-6000", "bytes=-0", "bytes=-000"]


def test_a_range_beyond_the_end_is_refused(fhir):
    for header in BEYOND:
        response = fhir.get("Binary/b1000", headers={"Range": header})
        assert_outcome(response, 416, "value", "There are 1000 bytes; ask for a range of those.")
        assert response.headers["Content-Range"] == "bytes */1000"


EMPTY = ["bytes=0-", "bytes=0-0", "bytes=-5", "bytes=7-"]


def test_of_no_bytes_every_range_gets_all(fhir):
    for header in EMPTY:
        response = fhir.get("Binary/empty", headers={"Range": header})
        assert (response.status_code, response.data) == (200, b"")


@settings(max_examples=sample(25, 200))
@given(st.data())
def test_any_range_is_that_part_of_the_bytes(fhir, data):
    row_id = data.draw(st.sampled_from(sorted(STORED)))
    content = STORED[row_id]
    first = data.draw(st.integers(0, len(content) - 1))
    last = data.draw(st.integers(first, len(content) + 10))
    response = fhir.get(f"Binary/{row_id}", headers={"Range": f"bytes={first}-{last}"})
    assert response.status_code == 206
    assert response.data == content[first : last + 1]
    end = first + len(response.data) - 1
    assert response.headers["Content-Range"] == f"bytes {first}-{end}/{len(content)}"
    assert response.content_length == len(response.data)


UNCHANGED = ["b1000", "later"]


def test_if_range_by_date_gives_the_rest_of_what_has_not_changed(fhir):
    for path in UNCHANGED:
        held = {"Range": "bytes=900-", "If-Range": PUBLISHED_DATE}
        response = fhir.get(f"Binary/{path}", headers=held)
        assert (response.status_code, response.data) == (206, SMALL[900:])


OTHER_IF_RANGE = [
    ("b1000", "Sat, 31 Jan 2026 11:59:59 GMT"), ("b1000", "Sat, 31 Jan 2026 12:00:01 GMT"),
    ("b1000", "2026-01-31T12:00:00Z"), ("b1000", 'W/"1"'), ("b1000", '"1"'), ("b1000", "*"),
    ("b1000", ""),
    # The date is that of two versions.
    ("twice", PUBLISHED_DATE), ("thrice", PUBLISHED_DATE),
]  # fmt: skip


def test_any_other_if_range_gives_the_whole(fhir):
    for path, held in OTHER_IF_RANGE:
        for header in ["bytes=900-", "bytes=5000-"]:
            response = fhir.get(f"Binary/{path}", headers={"Range": header, "If-Range": held})
            assert (response.status_code, response.data) == (200, SMALL)


BEFORE, AFTER = "Sat, 31 Jan 2026 11:59:59 GMT", "Sat, 31 Jan 2026 12:00:01 GMT"


HELD = [
    {"If-Match": 'W/"1"'}, {"If-Match": '"1"'}, {"If-Match": '"7", W/"1"'}, {"If-Match": "*"},
    {"If-Match": 'W/"1"', "If-Unmodified-Since": BEFORE}, {"If-Unmodified-Since": PUBLISHED_DATE},
    {"If-Unmodified-Since": AFTER}, {"If-Unmodified-Since": "yesterday"},
    {"If-Unmodified-Since": "Sat, 31 Jan 2026 12:00:99999999999999999999 GMT"},
    {"If-Match": "", "If-Unmodified-Since": AFTER}, {"If-Match": "W/1"},
]  # fmt: skip


def test_a_part_of_the_version_that_the_client_holds_is_sent(fhir):
    for held in HELD:
        response = fhir.get("Binary/b1000", headers={"Range": "bytes=900-", **held})
        assert (response.status_code, response.data) == (206, SMALL[900:])


OTHER_VERSIONS = [
    {"If-Match": 'W/"2"'},
    {"If-Match": '"11"'},
    {"If-Match": '"'},
    {"If-Match": '"7"', "If-Unmodified-Since": AFTER},
    {"If-Unmodified-Since": BEFORE},
]


def test_another_version_than_the_client_holds_is_not_sent(fhir):
    for held in OTHER_VERSIONS:
        for header in ["bytes=900-", "bytes=5000-", ""]:
            for accept in ["*/*", "application/fhir+json"]:
                headers = {"Range": header, "Accept": accept, **held}
                assert_outcome(fhir.get("Binary/b1000", headers=headers), 412, "conflict", CHANGED)


WHOLE = [{"If-None-Match": 'W/"1"'}, {"If-Modified-Since": PUBLISHED_DATE}]


def test_if_none_match_wins_over_range(fhir):
    for header in ["bytes=900-", "bytes=5000-"]:
        for held in WHOLE:
            response = fhir.get("Binary/b1000", headers={"Range": header, **held})
            assert (response.status_code, response.data) == (304, b"")
            assert "Content-Range" not in response.headers


@pytest.mark.parametrize("scope", ["patient/*.rs", "patient/AllergyIntolerance.rs"])
@pytest.mark.parametrize("header", ["bytes=0-0", "bytes=5000-", "nonsense"])
@pytest.mark.parametrize("held", [{}, {"If-Match": '"7"'}])
def test_a_range_opens_nothing_that_the_token_may_not_see(app, as_patient, scope, header, held):
    fhir = as_patient("p2", scope)
    path = "Binary/bin-p1-hp-2024"
    asked, plain = fhir.get(path, headers={"Range": header, **held}), fhir.get(path)
    assert (asked.status_code, asked.data) == (plain.status_code, plain.data)
    assert asked.status_code in (403, 404)
    for answer in (asked, plain):
        # It names the request.
        answer.headers.pop("X-Request-Id", None)
    assert asked.headers == plain.headers
