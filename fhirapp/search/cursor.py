"""Where a page begins: an opaque, signed cursor; the server keeps nothing.

A cursor holds the sort key of the row beside the page, the direction, and a fingerprint of the
query, so that it fits no other. Source: decisions §3.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import NamedTuple

from itsdangerous import BadData, URLSafeSerializer

from fhirapp.fhir.outcome import InvalidParameter


class Cursor(NamedTuple):
    """The row after which, or with backwards before which, a page lies in the order of results."""

    last_updated: str
    id: str
    backwards: bool


class Cursors:
    """Signs and reads cursors with the server's key."""

    def __init__(self, key: bytes) -> None:
        self._serializer = URLSafeSerializer(key, salt="cursor")

    def write(self, cursor: Cursor, fingerprint: str) -> str:
        return self._text(self._serializer.dumps([*cursor, fingerprint]))

    def read(self, value: str, fingerprint: str) -> Cursor:
        """Raises InvalidParameter when it was tampered with or belongs to another query."""
        try:
            last_updated, row_id, backwards, made_for = self._serializer.loads(value)
        except (BadData, ValueError, TypeError):
            raise InvalidParameter(
                "_cursor", "is not one of this server's; start again from the first page"
            ) from None
        if made_for != fingerprint:
            raise InvalidParameter(
                "_cursor", "belongs to another search; start again from the first page"
            )
        return Cursor(last_updated, row_id, backwards)

    @staticmethod
    def _text(value: str | bytes) -> str:
        return value if isinstance(value, str) else value.decode()


def fingerprint(resource_type: str, parameters: Sequence[tuple[str, str]]) -> str:
    """Return what tells one query from another: type and parameters, in any order."""
    text = repr((resource_type, sorted(parameters)))
    return blake2b(text.encode(), digest_size=6).hexdigest()
