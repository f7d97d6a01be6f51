"""Check a trail in files: whether each line follows the one before, each head is this server's.

A line that was changed, removed, put in between or moved is found by the digests; a trail that was
cut off, or made anew with the server's own key, by a head that was copied elsewhere. joins.py
checks the chains in PostgreSQL, by the same rules and by those of several.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fhirapp.fhir import json as fhir_json
from fhirapp.trail.chain import (
    HEAD,
    HEAD_LINES,
    NOTHING,
    Head,
    files,
    following,
    opened,
    over,
    signed_text,
    split,
)

# What reading a head raises that somebody made up.
MEANINGLESS = (LookupError, TypeError, ValueError, AttributeError)


class Misfit(Exception):
    """A place that does not fit; str() says what."""


@dataclass
class VerificationResult:
    """What a check found: faults are places that do not fit, the first of each chain.

    older counts the lines of the first edition, which have no digests; torn those that a full disk
    or a power cut left; first is the number of the first line, 0 where there is none; chains is 0
    for files, which are one.
    """

    lines: int = 0
    heads: int = 0
    older: int = 0
    torn: int = 0
    first: int = 0
    last: Head = NOTHING
    faults: list[str] = field(default_factory=list)
    chains: int = 0
    # By the numbers that copied heads name, the digest that the trail has there.
    seen: dict[int, str] = field(default_factory=dict)
    # What was torn off after the last line.
    pending: bytes = b""

    @property
    def fault(self) -> str:
        """The first, empty where there is none."""
        return self.faults[0] if self.faults else ""


def verify(
    folder: Path, keys: Collection[str], copied: Sequence[Mapping[str, Any]], *, kept: bool
) -> VerificationResult:
    """Check the trail of a folder against public keys (base64) and heads that were copied.

    kept says whether old days are removed by the settings, so that it need not begin with line 1.
    """
    found = VerificationResult(seen=dict.fromkeys((head["head"]["n"] for head in copied), ""))
    place = ""
    try:
        for where, line in _lines(folder):
            place = where
            take(found, line, keys, kept=kept)
        place = "the end"
        note(found)
        place = "a copied head"
        for head in copied:
            _compare(found, head, keys)
    except Misfit as misfit:
        found.faults.append(f"{place}: {misfit}")
    except MEANINGLESS:
        found.faults.append(f"{place}: a head that cannot be read")
    except (OSError, EOFError, zlib.error) as error:
        found.faults.append(f"{place or folder}: cannot be read ({error})")
    return found


def _lines(folder: Path) -> Iterator[tuple[str, bytes]]:
    for file in files(folder):
        with opened(file) as lines:
            for number, line in enumerate(lines, 1):
                yield f"{file.name}, line {number}", line


def take(
    found: VerificationResult, line: bytes, keys: Collection[str], *, kept: bool
) -> Mapping[str, Any] | None:
    """Take the next line; return what it holds. Raises Misfit where it does not follow."""
    parts = split(line)
    if parts is None:
        _take_other(found, line)
        return None
    body, head = parts
    content = _object(line)
    if content is None:
        raise Misfit(f"line {head.number} of the trail is not JSON")
    if found.last == NOTHING:
        _begin(found, head, content, kept=kept)
    expected = found.last.number + 1
    if head.number > expected:
        missing = head.number - expected
        raise Misfit(f"{missing} of the trail's lines missing before it, from number {expected} on")
    if head.number < expected:
        raise Misfit(
            f"line {head.number} of the trail stands where {expected} should: it was added or moved"
        )
    note(found)
    if following(found.last, body)[0] != head:
        raise Misfit(f"line {head.number} of the trail, or the one before, was changed")
    if content.get("event") == HEAD:
        check_signature(content, keys)
        if (content["head"]["n"], content["head"]["hash"]) != found.last:
            raise Misfit("this head is of another line")
        found.heads += 1
    elif head.number % HEAD_LINES == 0:
        raise Misfit(f"line {head.number} of the trail should be a head")
    found.last = head
    found.lines += 1
    return content


def _begin(
    found: VerificationResult, head: Head, content: Mapping[str, Any], *, kept: bool
) -> None:
    """Begin with the first line that there is: a head, which says what it follows."""
    if content.get("event") != HEAD:
        raise Misfit(f"the trail begins with line {head.number}, which is not a head")
    if head.number > 1 and not kept:
        raise Misfit(
            f"the trail begins with line {head.number}, and no setting removes what is old"
        )
    found.first = head.number
    found.last = Head(head.number - 1, str(content["head"]["hash"]))


def _take_other(found: VerificationResult, line: bytes) -> None:
    """Take a line without a digest: an older one, or a torn one, which the next digest covers."""
    if found.last == NOTHING:
        found.older += 1
        return
    if _object(line) is not None:
        raise Misfit("this line has no digest: it was added, or its digest was taken off")
    if line.strip():
        found.torn += 1
    found.pending += line


def note(found: VerificationResult) -> None:
    """Have what was torn off covered; note the digest of a line that a copied head names."""
    if found.pending:
        found.last, found.pending = over(found.last, found.pending), b""
    if found.last.number in found.seen:
        found.seen[found.last.number] = found.last.digest


def _compare(found: VerificationResult, head: Mapping[str, Any], keys: Collection[str]) -> None:
    """Raise Misfit where the trail does not have a head that was copied from it."""
    check_signature(head, keys)
    number, digest = head["head"]["n"], head["head"]["hash"]
    if number > found.last.number:
        raise Misfit(
            f"the trail ends with line {found.last.number}, and had {number}: it was cut off"
        )
    if number >= found.first and found.seen[number] != digest:
        raise Misfit(f"line {number} was different when the head was copied: it was rewritten")


def _object(line: bytes) -> Mapping[str, Any] | None:
    try:
        content = fhir_json.loads(line)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def check_signature(head: Mapping[str, Any], keys: Collection[str]) -> None:
    """Raise Misfit where none of these keys signed a head."""
    if head.get("key") not in keys:
        raise Misfit(f"this head is signed with another key: {head.get('key')}")
    try:
        named = Head(head["head"]["n"], head["head"]["hash"])
        signed = signed_text(named, head["at"], head.get("chain", ""), others(head))
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(head["key"]))
        key.verify(base64.b64decode(head["signature"]), signed)
    except (InvalidSignature, binascii.Error, *MEANINGLESS):
        raise Misfit("the signature of this head is wrong") from None


def others(head: Mapping[str, Any]) -> dict[str, Head]:
    """Return the last lines of other chains that a head names."""
    return {name: Head(number, digest) for name, (number, digest) in head.get("others", {}).items()}
