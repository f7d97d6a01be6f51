"""Cursors: opaque, signed, and for the one query that they were made for. decisions §3."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from itsdangerous import URLSafeSerializer

from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.paging import Cursors, PageCursor, fingerprint
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.effort import sample

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

REPEATABLE = settings(max_examples=sample(20, 200))
KEY = b"k" * 32
MARK = fingerprint("AllergyIntolerance", [("status", "active")])
CURSOR = PageCursor(
    "AllergyIntolerance",
    ["2024-03-01T09:00:00.000+00:00", "al-1"],
    backwards=False,
    marks=[["AllergyIntolerance", 7]],
)
FOREIGN = "_cursor: is not one of this server's; start again from the first page"
OTHER = "_cursor: belongs to another search; start again from the first page"
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def refusal(cursors: Cursors, value: str, mark: str = MARK) -> str:
    with pytest.raises(InvalidParameter) as raised:
        cursors.read(value, mark)
    return raised.value.diagnostics


@REPEATABLE
@given(
    st.builds(
        PageCursor,
        TEXT,
        st.lists(TEXT | st.integers(-(10**16), 10**16)),
        st.booleans(),
        st.lists(st.tuples(TEXT, st.integers(0)).map(list)),
    ),
    TEXT,
)
def test_a_cursor_is_read_back(cursor, mark):
    written = Cursors(KEY).write(cursor, mark)
    assert PageCursor(*Cursors(KEY).read(written, mark)) == cursor
    assert written.isascii()
    assert not set(written) & set(' "#%&+/<>?')


def test_a_cursor_of_another_key_or_query_is_refused():
    written = Cursors(KEY).write(CURSOR, MARK)
    assert refusal(Cursors(b"j" * 32), written) == FOREIGN
    assert refusal(Cursors(KEY), written, fingerprint("AllergyIntolerance", [])) == OTHER


@REPEATABLE
@given(st.data(), st.characters())
def test_a_cursor_that_was_tampered_with_is_refused(data, letter):
    """Save its last letter, of whose bits two belong to nothing."""
    written = Cursors(KEY).write(CURSOR, MARK)
    place = data.draw(st.integers(0, len(written) - 2))
    tampered = written[:place] + letter + written[place + 1 :]
    if tampered != written:
        assert refusal(Cursors(KEY), tampered) == FOREIGN


@REPEATABLE
@given(st.text())
def test_any_other_text_is_refused(value):
    assert refusal(Cursors(KEY), value) == FOREIGN


def test_cursor_signed_for_another_purpose_is_refused():
    for content in [[], [1, 2, 3], "abcd", 7, None, {"a": 1}, [1, 2, 3, 4, 5]]:
        written = URLSafeSerializer(KEY, salt="page").dumps(content)
        assert refusal(Cursors(KEY), written) in (FOREIGN, OTHER)
        elsewhere = URLSafeSerializer(KEY, salt="other").dumps([*CURSOR, MARK])
        assert refusal(Cursors(KEY), elsewhere) == FOREIGN


PAIRS = st.lists(st.tuples(TEXT, TEXT), max_size=4)


@REPEATABLE
@given(PAIRS, PAIRS)
def test_a_fingerprint_tells_queries_apart_and_not_their_order(one, other):
    same = sorted(one) == sorted(other)
    assert (fingerprint("T", one) == fingerprint("T", other)) == same
    assert fingerprint("T", one) == fingerprint("T", one[::-1])
    assert fingerprint("T", one) != fingerprint("U", one)
