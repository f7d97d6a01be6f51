"""Large JSON documents, cut into members and entries while they are read."""

from __future__ import annotations

import io
import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhirapp.features.imports.bundles import BrokenDocument, BundlePiece, pieces

LONGEST = 1_000_000


class Chunks(io.BytesIO):
    """Returns so many bytes at a time, however many are requested."""

    def __init__(self, content: bytes, size: int) -> None:
        super().__init__(content)
        self._size = size

    def read(self, _size: int | None = -1, /) -> bytes:
        return super().read(self._size)


def cut(content: bytes | str, size: int = LONGEST, longest: int = LONGEST) -> list[BundlePiece]:
    """Return the pieces of a document that comes so many bytes at a time."""
    text = content.encode() if isinstance(content, str) else content
    return list(pieces(Chunks(text, size), longest))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=15)
@given(
    entries=st.lists(json_values, max_size=5),
    before=st.dictionaries(st.text().filter(lambda name: name != "entry"), json_values, max_size=3),
    size=st.integers(1, 40),
    indent=st.sampled_from([None, 0, 3, "\t", "\r\n"]),
    ascii_only=st.booleans(),
)
def test_pieces_are_the_members_entries_and_items(entries, before, size, indent, ascii_only):
    content: dict[str, Any] = {**before, "entry": entries, "last": 1}
    text = json.dumps(content, indent=indent, ensure_ascii=ascii_only)
    found = cut(text, size)
    assert [json.loads(piece.text) for piece in found] == [*before.values(), *entries, 1]
    names = [piece.name == "" for piece in found[len(before) :]]
    assert names == [True] * len(entries) + [False]
    items = cut(json.dumps(entries, indent=indent, ensure_ascii=ascii_only), size)
    assert [(piece.name, json.loads(piece.text)) for piece in items] == [("", of) for of in entries]


@settings(max_examples=30)
@given(content=st.binary(max_size=60), size=st.integers(1, 9))
def test_any_bytes_are_cut_or_refused(content, size):
    try:
        found = cut(b'{"entry":[' + content, size)
    except BrokenDocument:
        return
    assert all(piece.text for piece in found)


def test_pieces_have_the_line_where_they_begin():
    text = (
        '\n{"type":\n "collection",\r\n\n "entry": [\n {\n"a": 1\n}, {"b": "x"},\n\n7]\n, "z": 0}\n'
    )
    expected = [("type", 2), ("", 6), ("", 8), ("", 10), ("z", 11)]
    assert [(piece.name, piece.line) for piece in cut(text, 3)] == expected


def test_text_with_brackets_quotes_and_escaped_names_is_cut():
    text = '{"\\u0074ype": "}]{[\\"\\\\", "": -1.5e+3, "x":[[],[{}]], "\\u0065ntry": [2], "z":{}}'
    for size in (1, 2, 1_000):
        assert [(piece.name, piece.text) for piece in cut(text, size)] == [
            ("type", b'"}]{[\\"\\\\"'),
            ("", b"-1.5e+3"),
            ("x", b"[[],[{}]]"),
            ("", b"2"),
            ("z", b"{}"),
        ]
        assert cut('{"entry": {"x": 1}}', size) == [BundlePiece("entry", b'{"x": 1}', 1)]
        for empty in ("{}", "[]", " \n{\n} ", "[ ]", '{"entry":[]}', '{"entry": [ ] }'):
            assert cut(empty, size) == []


EARLY = "ends too early"
BROKEN = {
    "": EARLY,
    "   \n": EARLY,
    "7 ": "must begin with { or [",
    "{": EARLY,
    "[": EARLY,
    "[1": EARLY,
    "[1,": EARLY,
    '{"a': EARLY,
    '{"a"': EARLY,
    '{"a":': EARLY,
    '{"a": 1': EARLY,
    '{"a": "x': EARLY,
    '{"a": {"b": [1}': EARLY,
    '{"a": 1,}': "must have a value here",
    "{a: 1}": "must have a name here",
    '{"a" 1}': "must have a colon after a name",
    '{"a": 1 "b": 2}': "must have a comma or } here",
    "[1 2]": "must have a comma or ] here",
    "[1,]": "must have a value here",
    "[,1]": "must have a value here",
    '{"a": }': "must have a value here",
    "{} {}": "goes on after its end",
    "[]x": "goes on after its end",
    '{"entry": [1} ': "must have a comma or ] here",
    "{]": "must have a value here",
}


@pytest.mark.parametrize("size", [1, 1_000])
def test_broken_json_is_refused_with_its_fault_and_line(size):
    found = {}
    for text in BROKEN:
        with pytest.raises(BrokenDocument) as raised:
            cut(text, size)
        found[text] = str(raised.value)
    assert found == BROKEN
    with pytest.raises(BrokenDocument) as raised:
        cut('{\n"a": 1,\n"b" 2}', size)
    assert raised.value.line == 3


def test_piece_that_is_too_long_is_refused():
    for piece in ('"' + "x" * 30_000 + '"', "[" * 30_000, "1" * 30_000):
        with pytest.raises(BrokenDocument, match="holds a piece of more than 20,000 bytes"):
            cut(f'{{"entry": [1, {piece}', 1_000, 20_000)


# Memory and time; that of many entries is measured in test_processes.py


def test_text_of_many_escapes_takes_memory_of_its_length():
    content = b'{"entry":["' + b"\\n" * 500_000 + b'"]}'
    tracemalloc.start()
    try:
        assert len([*pieces(io.BytesIO(content), 100_000_000)]) == 1
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10 * len(content)
