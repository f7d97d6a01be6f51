"""Plain text of attached documents."""

from __future__ import annotations


class Unreadable(ValueError):
    """A document whose words cannot be read."""


class Extractor:
    """Reads documents."""

    def __enter__(self) -> Extractor:
        return self

    def __exit__(self, *_args: object) -> None:
        pass

    def text_of(self, data: bytes, content_type: str) -> str:
        """Return a document's text. Raises Unreadable."""
        if content_type.partition(";")[0].strip().lower() != "text/plain":
            raise Unreadable(f"{content_type} is not read")
        return data.decode(errors="replace")
