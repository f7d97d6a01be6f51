"""What came is what was announced: gzip is opened, resources are counted, the end is looked at."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path

import orjson

from fhirapp.exchange.remote.faults import Passing, RemoteError

_BLOCK = 1 << 20
_LAST_LINE = 16 << 20
_BOM = b"\xef\xbb\xbf"


def is_gzip(path: Path) -> bool:
    """Say whether a file is gzip'd, whatever its name: some servers do not tell."""
    with path.open("rb") as file:
        return file.read(2) == b"\x1f\x8b"


def unpack(source: Path, target: Path, most: int, look: Callable[[int], None]) -> None:
    """Open a gzip'd file, of any number of members; target must be there.

    look is told, once in a while, how many bytes came of it. Raises Passing where it is damaged or
    ends too soon, RemoteError where it is larger than most.
    """
    inflater, size = zlib.decompressobj(31), 0
    with source.open("rb") as packed, target.open("wb") as opened:
        try:
            while block := inflater.unconsumed_tail or inflater.unused_data or packed.read(_BLOCK):
                if inflater.eof:
                    inflater = zlib.decompressobj(31)
                plain = inflater.decompress(block, _BLOCK)
                opened.write(plain)
                size += len(plain)
                if size > most:
                    raise RemoteError(f"A gzip'd file holds more than {most} bytes; it is refused.")
                look(size)
        except zlib.error:
            raise Passing("the file is damaged") from None
    if not inflater.eof:
        raise Passing("the file ends too soon")


def count_resources(path: Path) -> int:
    """Return how many lines are not blank. Raises Passing where the first begins no JSON object."""
    count, is_begun, is_first = 0, False, True
    with path.open("rb") as file:
        for block in iter(lambda: file.read(_BLOCK), b""):
            if is_first:
                text = block.removeprefix(_BOM).lstrip()
                if text and not text.startswith(b"{"):
                    raise Passing("the file is no NDJSON")
                is_first = not text
            *ended, rest = block.split(b"\n")
            for line in ended:
                count += is_begun or _has_text(line)
                is_begun = False
            is_begun = is_begun or _has_text(rest)
    return count + is_begun


def is_ended(path: Path) -> bool:
    """Say whether a file ends with a whole line."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - _LAST_LINE))
        end = file.read()
    if not end or end.endswith(b"\n"):
        return True
    start = end.rfind(b"\n") + 1
    if start == 0 and size > _LAST_LINE:
        return end.rstrip().endswith(b"}")
    try:
        orjson.loads(end[start:].removeprefix(_BOM))
    except orjson.JSONDecodeError:
        return False
    return True


def _has_text(line: bytes) -> bool:
    return bool(line) and not line.isspace()
