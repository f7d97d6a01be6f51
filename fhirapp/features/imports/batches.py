"""Batches: what is admitted is published together, each batch in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from fhirapp.db import Reader, db
from fhirapp.features.imports.histories import ResourceHistory, restore
from fhirapp.features.imports.records import ImportRecord
from fhirapp.features.imports.sources import SourceRules
from fhirapp.search.values import values_at
from fhirapp.store.prepare import PreparedResource
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change

# A batch ends at so many resources, or so many bytes of them.
MAX_RECORDS, MAX_BYTES = 1_000, 2_000_000

# The elements that the search parameter `identifier` reads.
_IDENTIFIERS = ("identifier", "masterIdentifier")

Content = PreparedResource | ResourceHistory


class Admitted(NamedTuple):
    """A record, and the content that is published for it.

    superseded has the numbers of earlier records of the same resource, which differ where one of
    them had another content.
    """

    record: ImportRecord
    content: Content
    # References that are kept: (reference, reason).
    kept: Sequence[tuple[str, str]] = ()
    superseded: Sequence[int] = ()
    differ: bool = False


class Batch:
    """What is admitted and not published yet; lookups of it publish it first.

    publish receives a batch, and the snapshot that it was admitted in.
    """

    def __init__(self, publish: Callable[[Sequence[Admitted], Reader], None]) -> None:
        self._publish = publish
        self._admitted: list[Admitted] = []
        self._size = 0
        self._snapshot: Reader | None = None
        self._types: set[str] = set()
        self._names: set[str] = set()
        # The values of identifiers, by which a condition may find a resource.
        self._identifiers: set[str] = set()
        # The types of which records may still be admitted, and the values of their identifiers;
        # None where these are not known.
        self.expected: Mapping[str, Collection[str] | None] = {}

    @property
    def snapshot(self) -> Reader:
        """What is published, as the batch began."""
        if self._snapshot is None:
            self._snapshot = Reader(db.engine)
        return self._snapshot

    def add(self, admitted: Admitted) -> None:
        """Add a resource or a history; a batch that is full is published."""
        content = admitted.content
        self._admitted.append(admitted)
        self._size += len(admitted.record.content)
        self._types.add(content.definition.name)
        self._names.add(content.name)
        versions = (
            [content]
            if isinstance(content, PreparedResource)
            else [version.prepared for version in content.versions]
        )
        for prepared in versions:
            self._types.update("Binary" for _ in prepared.blobs)
            self._identifiers |= _stored_identifiers(prepared)
        if len(self._admitted) >= MAX_RECORDS or self._size >= MAX_BYTES:
            self.publish()

    def publish(self) -> None:
        """Publish what is admitted."""
        if self._admitted:
            self._publish(self._admitted, self.snapshot)
        self._admitted = []
        self._size = 0
        self._types.clear()
        self._names.clear()
        self._identifiers.clear()
        self.close()

    def close(self) -> None:
        """End the snapshot."""
        if self._snapshot is not None:
            self._snapshot.close()
            self._snapshot = None

    def snapshot_with(self, name: str) -> Reader:
        """Return a snapshot that has a resource, Type/id, if it was admitted."""
        if name in self._names:
            self.publish()
        return self.snapshot

    def snapshot_with_type(self, type_name: str) -> Reader:
        """Return a snapshot that has all resources of a type that were admitted."""
        if type_name in self._types:
            self.publish()
        return self.snapshot

    def snapshot_with_matches(self, condition: str) -> Reader:
        """Return a snapshot that has the admitted resources that a condition may find."""
        type_name = condition.partition("?")[0]
        if type_name in self._types and (
            not self.may_come(type_name) or _may_find(condition, self._identifiers)
        ):
            self.publish()
        return self.snapshot

    def may_come(self, awaited: str) -> bool:
        """Say whether records of a type, or one that a condition finds, may still be admitted."""
        type_name, is_condition, _ = awaited.partition("?")
        if type_name not in self.expected:
            return False
        identifiers = self.expected[type_name]
        return not is_condition or identifiers is None or _may_find(awaited, identifiers)


def identifiers_in(resource: Mapping[str, Any], path: str = "") -> set[str]:
    """Return the values of identifiers of a resource, or of those at a path, as compared."""
    names = (f"{path}{name}.value" for name in _IDENTIFIERS)
    return {_comparable(value) for name in names for value in values_at(resource, name)}


def _stored_identifiers(prepared: PreparedResource) -> set[str]:
    columns = prepared.definition.columns
    extra = prepared.columns.get("extra") or {}
    return identifiers_in(
        {
            name: prepared.columns.get(columns[name]) if name in columns else extra.get(name)
            for name in _IDENTIFIERS
        }
    )


def _may_find(condition: str, identifiers: Collection[str]) -> bool:
    """Say whether a condition may find a resource with one of these identifiers, or any other."""
    parameters = parse_qsl(condition.partition("?")[2], keep_blank_values=True)
    if {name for name, _ in parameters} != {"identifier"}:
        return True
    values = {part.rpartition("|")[2] for _, value in parameters for part in value.split(",")}
    if "" in values or any("\\" in value for _, value in parameters):
        return True
    return any(_comparable(value) in identifiers for value in values)


def _comparable(value: object) -> str:
    """Return an identifier's value without case and signs, as loosely as any search compares."""
    return "".join(filter(str.isalnum, str(value).casefold()))


def publish_contents(
    publisher: Publisher, rules: SourceRules, contents: Sequence[Content]
) -> list[Change | str]:
    """Publish contents within the publisher's transaction; what comes of each, in order.

    Neighbours of one type, and of one kind, are written together.
    """
    changes: list[Change | str] = []
    for (_, is_history), run in groupby(contents, _type_and_kind):
        together: list[Any] = [*run]
        if is_history:
            changes += restore(publisher, rules, together)
        else:
            latest = publisher.latest(together)
            rules.look_up(publisher.connection, together, latest)
            changes += publisher.publish(together, latest)
    return changes


def _type_and_kind(content: Content) -> tuple[str, bool]:
    return content.definition.name, isinstance(content, ResourceHistory)
