"""Where a page begins: an opaque, signed cursor; the server keeps nothing.

A cursor holds the place of the row beside the page in the order of results, the direction, how far
the table had grown when paging began, and a fingerprint of the query, so that it fits no other.
Source: decisions §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from itsdangerous import BadData, URLSafeSerializer

from fhirapp.fhir.outcome import InvalidParameter


class Cursor(NamedTuple):
    """The place after which, or with backwards before which, a page lies.

    mark is the last row number there was at the first page: what is newer is on no later page.
    """

    place: tuple[Any, ...]
    backwards: bool
    mark: int


class Cursors:
    """Signs and reads cursors with the server's key."""

    def __init__(self, key: bytes) -> None:
        self._serializer = URLSafeSerializer(key, salt="cursor")

    def write(self, cursor: Cursor, fingerprint: str) -> str:
        text = self._serializer.dumps([*cursor, fingerprint])
        return text if isinstance(text, str) else text.decode()

    def read(self, value: str, fingerprint: str) -> Cursor:
        """Raises InvalidParameter when it was tampered with or belongs to another query."""
        try:
            place, backwards, mark, made_for = self._serializer.loads(value)
        except (BadData, ValueError, TypeError):
            raise InvalidParameter(
                "_cursor", "is not one of this server's; start again from the first page"
            ) from None
        if made_for != fingerprint:
            raise InvalidParameter(
                "_cursor", "belongs to another search; start again from the first page"
            )
        return Cursor(tuple(place), backwards, mark)


def fingerprint(resource_type: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return what tells one query from another: type and parameters, in any order."""
    text = repr((resource_type, sorted(parameters)))
    return blake2b(text.encode(), digest_size=6).hexdigest()
