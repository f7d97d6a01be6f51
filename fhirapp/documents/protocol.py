"""How a worker is asked: frames over its standard input and output, each led by its length.

First the worker says that it is READY. A request is two frames, the kind and the document; its
answer is one, TEXT or UNREADABLE and then the text or the reason; behind a text, each led by a NUL,
section and reason of what could not be read of it. A worker that dies says why by its exit status.
"""

from __future__ import annotations

from typing import IO

from fhirapp.documents.media import Kind, Reading, Unread

READY = b"!"
TEXT = b"+"
UNREADABLE = b"-"
# The exit status of a worker that could get no more memory.
OUT_OF_MEMORY = 3
_LENGTH = 4


def write_frame(stream: IO[bytes], *parts: bytes) -> None:
    """Write one frame. Raises OSError when nobody reads."""
    stream.write(sum(map(len, parts)).to_bytes(_LENGTH))
    for part in parts:
        stream.write(part)
    stream.flush()


def read_frame(stream: IO[bytes]) -> bytes:
    """Return one frame. Raises EOFError when the other side is gone."""
    return _read(stream, int.from_bytes(_read(stream, _LENGTH)))


def _read(stream: IO[bytes], length: int) -> bytes:
    data = stream.read(length)
    if len(data) < length:
        raise EOFError
    return data


def pack(found: Reading) -> bytes:
    """Return the bytes of what was read: tidy text has no NUL."""
    return "\0".join([found.text, *(part for one in found.unread for part in one)]).encode()


def unpack(answer: bytes) -> Reading:
    """Return what was read."""
    text, *parts = answer.decode().split("\0")
    return Reading(text, tuple(map(Unread, parts[::2], parts[1::2])))


def write_request(stream: IO[bytes], kind: Kind, data: bytes) -> None:
    """Ask for the text of a document."""
    write_frame(stream, " ".join(kind).encode())
    write_frame(stream, data)


def read_request(stream: IO[bytes]) -> tuple[Kind, bytes]:
    """Return what is asked for next. Raises EOFError when nobody asks any more."""
    reader, _, codec = read_frame(stream).decode().partition(" ")
    return Kind(reader, codec), read_frame(stream)  # type: ignore[arg-type]
