"""A large JSON document, cut into its pieces as it is read: the members of its object, and each
entry of a Bundle or item of a list as the bytes it stands as.

Nothing is understood here but strings and brackets; each piece is parsed, or refused, by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import orjson

# Possessive: what was matched is not tried again, nor remembered for that.
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[][{}:,]|"', re.DOTALL)
_CHUNK = 262_144
_SOLID = re.compile(rb"[^ \t\r\n]")
_AFTER_PLAIN = re.compile(rb"[\s,:\]}\[{\"]")


class BrokenDocument(ValueError):
    """A document that cannot be cut any further; str() says why, line where."""

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

    Raises BrokenDocument where the document is no JSON any more, or a piece exceeds longest bytes.
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
    """The document, read a chunk at a time; what was taken is forgotten with the next one."""

    def __init__(self, stream: BinaryIO, longest: int) -> None:
        self._stream = stream
        self._longest = longest
        self._held = b""
        # What of it was taken.
        self._at = 0
        self.line = 1

    def broken(self, message: str, found: bytes) -> BrokenDocument:
        """Return what to raise where something else was found; nothing, at the end."""
        return BrokenDocument(message if found else "ends too early", self.line)

    def peek(self) -> bytes:
        """Return the next character that is no space; nothing at the end."""
        while True:
            if found := _SOLID.search(self._held, self._at):
                self.line += self._held.count(b"\n", self._at, found.start())
                self._at = found.start()
                return found[0]
            self.line += self._held.count(b"\n", self._at)
            self._at = len(self._held)
            if not self._more():
                return b""

    def punctuation(self) -> bytes:
        """Take the next character that is no space."""
        found = self.peek()
        self._at += len(found)
        return found

    def value(self) -> bytes:
        """Take the next value whole."""
        first = self.peek()
        if first in (b'"', b"{", b"["):
            end = self._end(is_text=first == b'"')
        else:
            end = self._end_of_plain()
        taken = self._held[self._at : end]
        self._at = end
        self.line += taken.count(b"\n")
        return taken

    def _end(self, *, is_text: bool) -> int:
        """Return where a string, an object or a list ends."""
        depth, beyond = 0, self._at
        while True:
            for token in _TOKEN.finditer(self._held, beyond):
                character = token[0][:1]
                if character == b'"':
                    if token.end() - token.start() == 1:
                        # It ends in what is not read yet.
                        beyond = token.start()
                        break
                    if is_text:
                        return token.end()
                elif character in b"{[":
                    depth += 1
                elif character in b"}]":
                    depth -= 1
                    if depth == 0:
                        return token.end()
                beyond = token.end()
            beyond -= self._at
            if not self._more(len(self._held) - self._at - beyond):
                raise BrokenDocument("ends too early", self.line)
            beyond += self._at

    def _end_of_plain(self) -> int:
        """Return where a number, true, false or null ends."""
        while True:
            found = _AFTER_PLAIN.search(self._held, self._at)
            if found or not self._more():
                end = found.start() if found else len(self._held)
                if end == self._at:
                    raise self.broken("must have a value here", self._held[self._at :])
                return end

    def _more(self, unread: int = 0) -> bool:
        """Read on; of a value that does not end, as much again as there is of it."""
        if len(self._held) - self._at > self._longest:
            raise BrokenDocument(f"holds a piece of more than {self._longest:,} bytes", self.line)
        chunk = self._stream.read(max(_CHUNK, unread))
        self._held = self._held[self._at :] + chunk
        self._at = 0
        return bool(chunk)
