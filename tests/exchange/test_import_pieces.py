"""Large JSON documents, cut into their pieces as they are read."""

from __future__ import annotations

import io
import json
import time
import tracemalloc
from typing import Any, BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fhirapp.exchange.imports.bundles import BrokenDocument, Piece, pieces

LONGEST = 1_000_000


class Slow(io.BytesIO):
    """Gives so many bytes at a time, however many are asked for."""

    def __init__(self, content: bytes, size: int) -> None:
        super().__init__(content)
        self._size = size

    def read(self, _size: int | None = -1, /) -> bytes:
        return super().read(self._size)


def cut(content: bytes | str, size: int = LONGEST, longest: int = LONGEST) -> list[Piece]:
    """Return the pieces of a document that comes so many bytes at a time."""
    text = content.encode() if isinstance(content, str) else content
    return list(pieces(Slow(text, size), longest))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(
    entries=st.lists(json_values, max_size=5),
    before=st.dictionaries(st.text().filter(lambda name: name != "entry"), json_values, max_size=3),
    size=st.integers(1, 40),
    indent=st.sampled_from([None, 0, 3, "\t", "\r\n"]),
    ascii_only=st.booleans(),
)
def test_the_pieces_are_the_members_and_the_entries(entries, before, size, indent, ascii_only):
    content: dict[str, Any] = {**before, "entry": entries, "last": 1}
    text = json.dumps(content, indent=indent, ensure_ascii=ascii_only)
    found = cut(text, size)
    assert [json.loads(one.text) for one in found] == [*before.values(), *entries, 1]
    assert [one.name == "" for one in found[len(before) :]] == [True] * len(entries) + [False]


@given(items=st.lists(json_values, max_size=5), size=st.integers(1, 40))
def test_the_items_of_a_list_are_pieces(items, size):
    found = cut(json.dumps(items, indent=1), size)
    assert [(one.name, json.loads(one.text)) for one in found] == [("", one) for one in items]


def test_each_piece_has_the_line_where_it_begins():
    text = (
        '\n{"type":\n "collection",\r\n\n "entry": [\n {\n"a": 1\n}, {"b": "x"},\n\n7]\n, "z": 0}\n'
    )
    assert [(one.name, one.line) for one in cut(text, 3)] == [
        ("type", 2),
        ("", 6),
        ("", 8),
        ("", 10),
        ("z", 11),
    ]


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ('{"a": "}]{[\\""}', "a", '"}]{[\\""'),
        ('{"a": "\\\\"}', "a", '"\\\\"'),
        ('{"a": -1.5e+3}', "a", "-1.5e+3"),
        ('{"a":{}}', "a", "{}"),
        ('{"a":[[],[{}]]}', "a", "[[],[{}]]"),
        ('{"entry": {"x": 1}}', "entry", '{"x": 1}'),
        ('{"": 1}', "", "1"),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 1_000])
def test_brackets_and_quotes_within_text_are_text(text, name, value, size):
    assert cut(text, size) == [Piece(name, value.encode(), 1)]


def test_a_name_may_be_written_with_escapes():
    found = cut('{"\\u0074ype": 1, "\\u0065ntry": [2, 3]}')
    assert [(one.name, one.text) for one in found] == [("type", b"1"), ("", b"2"), ("", b"3")]


@pytest.mark.parametrize(
    "content", ["{}", "[]", " \n{\n} ", "[ ]", '{"entry":[]}', '{"entry": [ ] }']
)
def test_what_is_empty_has_no_pieces(content):
    assert cut(content, 1) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "ends too early"),
        ("   \n", "ends too early"),
        ("7 ", "must begin with { or ["),
        ("{", "ends too early"),
        ("[", "ends too early"),
        ("[1", "ends too early"),
        ("[1,", "ends too early"),
        ('{"a', "ends too early"),
        ('{"a"', "ends too early"),
        ('{"a":', "ends too early"),
        ('{"a": 1', "ends too early"),
        ('{"a": "x', "ends too early"),
        ('{"a": {"b": [1}', "ends too early"),
        ('{"a": 1,}', "must have a value here"),
        ("{a: 1}", "must have a name here"),
        ('{"a" 1}', "must have a colon after a name"),
        ('{"a": 1 "b": 2}', "must have a comma or } here"),
        ("[1 2]", "must have a comma or ] here"),
        ("[1,]", "must have a value here"),
        ("[,1]", "must have a value here"),
        ('{"a": }', "must have a value here"),
        ("{} {}", "goes on after its end"),
        ("[]x", "goes on after its end"),
        ('{"entry": [1} ', "must have a comma or ] here"),
        ("{]", "must have a value here"),
    ],
)
@pytest.mark.parametrize("size", [1, 1_000])
def test_what_is_no_json_is_told(text, message, size):
    with pytest.raises(BrokenDocument) as raised:
        cut(text, size)
    assert str(raised.value) == message


def test_the_line_of_what_is_wrong_is_told():
    with pytest.raises(BrokenDocument) as raised:
        cut('{\n"a": 1,\n"b" 2}')
    assert raised.value.line == 3


@given(content=st.binary(max_size=60), size=st.integers(1, 9))
def test_whatever_comes_is_cut_or_told(content, size):
    try:
        found = cut(b'{"entry":[' + content, size)
    except BrokenDocument:
        return
    assert all(one.text for one in found)


@pytest.mark.parametrize("piece", ['"' + "x" * 30_000 + '"', "[" * 30_000, "1" * 30_000])
def test_a_piece_that_is_too_long_is_told(piece):
    with pytest.raises(BrokenDocument, match="holds a piece of more than 20,000 bytes"):
        cut(f'{{"entry": [1, {piece}', 1_000, 20_000)


class Endless(io.RawIOBase):
    """A Bundle of entries without end, but for so many."""

    def __init__(self, entry: bytes, count: int) -> None:
        self._rest = b'{"resourceType":"Bundle","entry":[' + entry
        self._entry = b"," + entry
        self._count = count

    def read(self, size: int = -1, /) -> bytes:
        while len(self._rest) < size and self._count:
            self._rest += self._entry
            self._count -= 1
            if not self._count:
                self._rest += b"]}"
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def endless(entry: bytes, count: int) -> BinaryIO:
    """Return such a Bundle as a file."""
    return Endless(entry, count)  # type: ignore[return-value]


def test_memory_does_not_grow_with_the_entries():
    entry = json.dumps({"resource": {"x": "y" * 10_000}}).encode()
    tracemalloc.start()
    try:
        count = sum(1 for _ in pieces(endless(entry, 3_000), LONGEST))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 3_002
    assert peak < 3_000_000


@pytest.mark.parametrize(
    "unit", [b"x", b"\\n", b'\\"', b"\\\\"], ids=["plain", "lines", "quotes", "backslashes"]
)
def test_a_long_text_costs_its_length(unit):
    """As an attachment is, or a note with many line ends."""

    def cost(count: int) -> float:
        content = b'{"entry":["' + unit * count + b'"]}'
        began = time.process_time()
        assert len(list(pieces(io.BytesIO(content), 100_000_000))) == 1
        return time.process_time() - began

    assert cost(8_000_000 // len(unit)) < 40 * max(cost(1_000_000 // len(unit)), 0.001)


def test_a_text_of_many_escapes_takes_little_memory():
    content = b'{"entry":["' + b"\\n" * 2_000_000 + b'"]}'
    tracemalloc.start()
    try:
        list(pieces(io.BytesIO(content), 100_000_000))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(content)
