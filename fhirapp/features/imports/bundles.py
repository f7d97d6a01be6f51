"""Bundles: cut into entries as they are read, and what each entry requests.

A large JSON document is cut into pieces, kept as the bytes that came; each is parsed, or rejected,
by itself. ijson would be no replacement: it stops at the first damaged entry, keeps no bytes (1E5
becomes 1E+5, -0 becomes 0), and takes the last of two members with one name.

Source: FHIR R4 bundle §2.36.4 (resolving references), http §3.1.0.11 (transaction and batch).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote

import orjson

from fhirapp.features.imports.archives import Broken
from fhirapp.fhir.datatypes import ID_PATTERN, ID_RULE
from fhirapp.search.values import escape

# Possessive quantifiers: no positions are remembered for another attempt.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
# Up to the next bracket outside of strings, or the beginning of a string that is cut off.
_BRACKET = re.compile(rb'(?:[^][{}"]++|' + _TEXT.pattern + rb')*+([][{}"]|\Z)', re.DOTALL)
_SOLID = re.compile(rb"[^ \t\r\n]")
_AFTER_PLAIN = re.compile(rb"[\s,:\]}\[{\"]")
_CHUNK = 262_144

_URN = re.compile(r"urn:uuid:([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_ON_SERVER = re.compile(
    rf"(https?://.+/)([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/{ID_PATTERN})?"
)
_LAST_PARTS = re.compile(r"https?://.+/([A-Z][A-Za-z]+/[^/?#]+)")
_RELATIVE = re.compile(r"[A-Z][A-Za-z]+/")
_NAME = re.compile(rf"([A-Z][A-Za-z]+)/({ID_PATTERN})")
_REQUESTS = ("transaction", "batch")
BUNDLE_TYPES = ("collection", "document", "message", "searchset", *_REQUESTS, "history")


class BrokenDocument(Broken):
    """A document that cannot be split any further."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(message)
        self.line = line

    @property
    def reason(self) -> str:
        return f"line {self.line}: {self}"


class BundlePiece(NamedTuple):
    """A member of the outermost object; or an entry, whose name is empty. It begins at line."""

    name: str
    text: bytes
    line: int


def pieces(stream: BinaryIO, longest: int) -> Iterator[BundlePiece]:
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


def _members(text: _Text) -> Iterator[BundlePiece]:
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
            yield BundlePiece(_text_of(name), text.value(), line)
        if _is_last(text, b"}"):
            return


def _text_of(name: bytes) -> str:
    try:
        return str(orjson.loads(name))
    except orjson.JSONDecodeError:
        return name.decode(errors="replace")


def _items(text: _Text) -> Iterator[BundlePiece]:
    if text.peek() == b"]":
        text.punctuation()
        return
    while True:
        text.peek()
        line = text.line
        yield BundlePiece("", text.value(), line)
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


class OnMatch(Enum):
    """What comes of a resource whose condition finds another."""

    # It becomes the next version of that one.
    UPDATE = "update"
    # Nothing: it was to be created only where there is none.
    SKIP = "skip"
    # Nothing, unless it is that one itself.
    SKIP_OTHER = "skip other"


class InvalidEntry(ValueError):
    """An entry that cannot be imported; str() says what is expected at path."""

    def __init__(self, path: str, message: str) -> None:
        super().__init__(message)
        self.path = path


class BundleEntry(NamedTuple):
    """What an entry of a Bundle requests.

    resource is None for a deletion, whose Type/id is target. condition is the query that a creation
    or an update depends on.
    """

    resource: dict[str, Any] | None
    full_url: str
    target: str = ""
    condition: str = ""
    on_match: OnMatch = OnMatch.UPDATE


def read_entry(entry: Any, bundle_type: str) -> BundleEntry | None:
    """Return what an entry requests, None for nothing to import. Raises InvalidEntry."""
    if type(entry) is not dict:
        raise InvalidEntry("Bundle.entry", "must be a JSON object")
    full_url, resource = entry.get("fullUrl", ""), entry.get("resource")
    if type(full_url) is not str:
        raise InvalidEntry("Bundle.entry.fullUrl", "must be a uri, written as a JSON string")
    if resource is not None and type(resource) is not dict:
        raise InvalidEntry("Bundle.entry.resource", "must be a resource, a JSON object")
    if bundle_type not in _REQUESTS:
        search = entry.get("search")
        # OperationOutcomes of a search are no records.
        is_outcome = type(search) is dict and search.get("mode") == "outcome"
        return None if resource is None or is_outcome else BundleEntry(resource, full_url)
    request = entry.get("request")
    if type(request) is not dict:
        raise InvalidEntry("Bundle.entry.request", f"is required in a {bundle_type}")
    return _read_request(request, resource, full_url)


def _read_request(
    request: Mapping[str, Any], resource: dict[str, Any] | None, full_url: str
) -> BundleEntry | None:
    method, url = request.get("method"), str(request.get("url", ""))
    if method in ("GET", "HEAD"):
        return None
    if method == "DELETE":
        if not _NAME.fullmatch(url):
            rule = f"must be Type/id in a DELETE; {ID_RULE}"
            raise InvalidEntry("Bundle.entry.request.url", rule)
        return BundleEntry(None, full_url, url)
    if method not in ("POST", "PUT"):
        path = "Bundle.entry.request.method"
        raise InvalidEntry(path, "must be POST, PUT or DELETE: no other is imported")
    if resource is None:
        raise InvalidEntry("Bundle.entry.resource", f"is required with {method}")
    type_name = str(resource.get("resourceType"))
    if method == "POST":
        query = str(request.get("ifNoneExist") or "").lstrip("?")
        condition = f"{type_name}?{query}" if request.get("ifNoneExist") else ""
        return BundleEntry(resource, full_url, condition=condition, on_match=OnMatch.SKIP)
    if url.startswith(f"{type_name}?"):
        return BundleEntry(resource, full_url, condition=url)
    if url != f"{type_name}/{resource.get('id')}":
        path = "Bundle.entry.request.url"
        raise InvalidEntry(path, "must be Type/id of the resource, or Type?condition, in a PUT")
    return BundleEntry(resource, full_url)


def entry_id(entry: BundleEntry) -> str | None:
    """Return the id for the resource of an entry: its own, else that in its fullUrl.

    It is the same at every import; a generated one would differ.
    """
    own = (entry.resource or {}).get("id")
    if type(own) is str:
        return own
    if urn := _URN.fullmatch(entry.full_url):
        return urn[1].lower()
    address = _ON_SERVER.fullmatch(entry.full_url)
    return address[3] if address else None


def relative_name(address: str) -> str:
    """Return the last two parts of an absolute address, as in a relative reference, or ""."""
    parts = _LAST_PARTS.fullmatch(address)
    return parts[1] if parts else ""


def prefixed(reference: str, prefix: str) -> str:
    """Return a relative reference with a prefix before its id; any other as it is."""
    if prefix and _RELATIVE.match(reference):
        return reference.replace("/", f"/{prefix}", 1)
    return reference


def identifier_condition(type_name: str, identifiers: Iterable[tuple[str, str]]) -> str:
    """Return the condition that finds a resource by any of these (system, value), "" for none."""
    values = ",".join(f"{escape(system)}|{escape(value)}" for system, value in identifiers)
    return f"{type_name}?identifier={quote(values, safe=':/|,')}" if values else ""


def split_address(address: str) -> tuple[str, str] | None:
    """Return (base, Type/id) of an absolute address of a resource, None for any other address."""
    parts = _ON_SERVER.fullmatch(address)
    return (parts[1], f"{parts[2]}/{parts[3]}") if parts else None
