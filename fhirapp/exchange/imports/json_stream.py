"""A large JSON document, split as it is read: the members of its object, and each entry of a Bundle
or item of a list, as the bytes that came.

Only strings and brackets are recognised here; each piece is parsed, or rejected, by itself. ijson
would be no replacement: it stops at the first damaged entry, keeps no bytes (1E5 becomes 1E+5, -0
becomes 0), and takes the last of two members with one name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import orjson

# Possessive quantifiers: no positions are remembered for another attempt.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Up to the next bracket outside of strings, or the beginning of a string that is cut off.
_BRACKET = re.compile(rb'(?:[^][{}"]++|' + _TEXT.pattern + rb')*+([][{}"]|\Z)', re.DOTALL)
_SOLID = re.compile(rb"[^ \t\r\n]")
_AFTER_PLAIN = re.compile(rb"[\s,:\]}\[{\"]")
_CHUNK = 262_144


class BrokenDocument(ValueError):
    """A document that cannot be split any further; str() is the reason."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line


class Piece(NamedTuple):
    """A member of the outermost object; or an entry, whose name is empty. It begins at line."""

    name: str
    text: bytes
    line: int


def pieces(stream: BinaryIO, longest: int) -> Iterator[Piece]:
    """Yield the members of an object, of `entry` each item; or the items of a list.

    Raises BrokenDocument where the document stops being JSON, or a piece exceeds longest bytes.
    """
    text = _Text(stream, longest)
    opening = text.punctuation()
    if opening == b"[":
        yield from _items(text)
    elif opening == b"{":
        yield from _members(text)
    else:
        raise text.broken("must begin with { or [", opening)
    if beyond := text.peek():
        raise text.broken("goes on after its end", beyond)


def _members(text: _Text) -> Iterator[Piece]:
    if text.peek() == b"}":
        text.punctuation()
        return
    while True:
        line = text.line
        name = text.value()
        if name[:1] != b'"':
            raise text.broken("must have a name here", name)
        if (found := text.punctuation()) != b":":
            raise text.broken("must have a colon after a name", found)
        if _text_of(name) == "entry" and text.peek() == b"[":
            text.punctuation()
            yield from _items(text)
        else:
            yield Piece(_text_of(name), text.value(), line)
        if _is_last(text, b"}"):
            return


def _text_of(name: bytes) -> str:
    try:
        return str(orjson.loads(name))
    except orjson.JSONDecodeError:
        return name.decode(errors="replace")


def _items(text: _Text) -> Iterator[Piece]:
    if text.peek() == b"]":
        text.punctuation()
        return
    while True:
        text.peek()
        line = text.line
        yield Piece("", text.value(), line)
        if _is_last(text, b"]"):
            return


def _is_last(text: _Text, closing: bytes) -> bool:
    found = text.punctuation()
    if found not in (closing, b","):
        raise text.broken(f"must have a comma or {closing.decode()} here", found)
    return found == closing


class _Text:
    """The document, read a chunk at a time; what was taken is dropped with the next chunk."""

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        self._stream = stream
        self._longest = longest
        self._held = b""
        # Where in it what was not taken yet begins.
        self._at = 0
        self.line = 1

    def broken(self, message: str, found: bytes) -> BrokenDocument:
        """Return the error where something else was found; nothing, at the end."""
        return BrokenDocument(message if found else "ends too early", self.line)

    def peek(self) -> bytes:
        """Return the next character that is no space, b"" at the end."""
        while True:
            found = _SOLID.search(self._held, self._at)
            end = found.start() if found else len(self._held)
            self.line += self._held.count(b"\n", self._at, end)
            self._at = end
            if found:
                return found[0]
            if not self._read():
                return b""

    def punctuation(self) -> bytes:
        """Take the next character that is no space."""
        found = self.peek()
        self._at += len(found)
        return found

    def value(self) -> bytes:
        """Take the next value whole."""
        first = self.peek()
        if first == b'"':
            end = self._end_of_text()
        elif first in (b"{", b"["):
            end = self._end_of_brackets()
        else:
            end = self._end_of_plain()
        value = self._held[self._at : end]
        self._at = end
        self.line += value.count(b"\n")
        return value

    def _end_of_text(self) -> int:
        while not (text := _TEXT.match(self._held, self._at)):
            self._need(len(self._held) - self._at)
        return text.end()

    def _end_of_brackets(self) -> int:
        depth, start = 0, self._at
        while True:
            for token in _BRACKET.finditer(self._held, start):
                start = token.start(1)
                if token[1] in (b"{", b"["):
                    depth += 1
                elif token[1] in (b"}", b"]"):
                    depth -= 1
                    if not depth:
                        return token.end()
                else:
                    break
            start -= self._at
            self._need(len(self._held) - self._at - start)
            start += self._at

    def _end_of_plain(self) -> int:
        """Return where a number, true, false or null ends."""
        while True:
            found = _AFTER_PLAIN.search(self._held, self._at)
            if found or not self._read():
                end = found.start() if found else len(self._held)
                if end == self._at:
                    raise self.broken("must have a value here", self._held[self._at :])
                return end

    def _need(self, unread: int) -> None:
        """Read on in a value that has not ended."""
        if not self._read(unread):
            raise BrokenDocument("ends too early", self.line)

    def _read(self, unread: int = 0) -> bool:
        """Read on; in a value that has not ended, as much again as is held of it."""
        if len(self._held) - self._at > self._longest:
            raise BrokenDocument(f"holds a piece of more than {self._longest:,} bytes", self.line)
        chunk = self._stream.read(max(_CHUNK, unread))
        self._held = self._held[self._at :] + chunk
        self._at = 0
        return bool(chunk)
