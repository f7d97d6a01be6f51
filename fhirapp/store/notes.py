"""The words of attached documents: read out before anything is written, kept with the bytes.

A document that cannot be read is stored all the same; it is found by everything but its words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from types import TracebackType

from fhirapp.search.tokenizer import normalised
from fhirapp.store.definition import Definition
from fhirapp.store.prepare import Prepared
from fhirapp.text import Extractor, Unreadable


class Notes:
    """Reads documents; unreadable counts those that could not be, by the reason.

    unread counts the files within others that could not be.
    """

    def __init__(self, binary: Definition) -> None:
        self.unreadable: Counter[str] = Counter()
        self.unread: Counter[str] = Counter()
        self._binary = binary
        self._extractor = Extractor()

    def __enter__(self) -> Notes:
        self._extractor.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._extractor.__exit__(kind, error, trace)

    def read(self, batch: Sequence[Prepared], known: frozenset[str]) -> list[Prepared]:
        """Return resources with the words of their documents, save those that are known."""
        return [self._read(prepared, known) for prepared in batch]

    def _read(self, prepared: Prepared, known: frozenset[str]) -> Prepared:
        if prepared.definition is self._binary:
            data, kind = prepared.columns.get("data"), prepared.columns.get("content_type")
            words = self.words_of(data or b"", kind or "")
            return replace(prepared, columns={**prepared.columns, "words": words})
        if not prepared.blobs:
            return prepared
        blobs = [
            blob
            if blob.id in known
            else blob._replace(words=self.words_of(blob.data, blob.content_type))
            for blob in prepared.blobs
        ]
        return replace(prepared, blobs=blobs)

    def words_of(self, data: bytes, content_type: str) -> str | None:
        """Return the words of a document, None where it cannot be read."""
        try:
            found = self._extractor.read(data, content_type)
        except Unreadable as error:
            self.unreadable[str(error)] += 1
            return None
        self.unread.update(one.reason for one in found.unread)
        return normalised(found.text)


def blob_ids(batch: Sequence[Prepared]) -> list[str]:
    """Return the ids of the documents that come with resources."""
    return [blob.id for prepared in batch for blob in prepared.blobs]
