"""A batch, published in one transaction: resources, deletions and histories, in their order.

And the garbage collection of a process that imports: between batches, not within.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection

from fhirapp.exchange.imports.admission import Admitted, Deletion
from fhirapp.exchange.imports.histories import restore
from fhirapp.exchange.imports.records import Record
from fhirapp.store.prepare import Prepared
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change

# A batch ends at so many resources, or so many bytes of them.
MAX_RECORDS, MAX_BYTES = 1_000, 2_000_000

Ready = tuple[Record, Admitted]
# (record, its type, its change, or why it was rejected)
Outcome = tuple[Record, str, Change | str]


def batches(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield records in batches."""
    batch: list[Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += record.size()
        if len(batch) >= MAX_RECORDS or size >= MAX_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def publish(
    publisher: Publisher,
    connection: Connection,
    ready: Sequence[Ready],
    *,
    hold_older: bool = True,
) -> list[Outcome]:
    """Publish a batch within the publisher's transaction.

    With hold_older, content that an earlier version had is not published: Change.OLDER.
    """
    outcomes: list[Outcome] = []
    held: set[tuple[str, str]] = set()
    for kind, run in groupby(ready, lambda pair: type(pair[1])):
        pairs = []
        for record, admitted in run:
            if _key(admitted) in held:
                # What comes after something that is held is held too.
                outcomes.append((record, admitted.definition.name, Change.OLDER))
            else:
                pairs.append((record, admitted))
        for group in [pairs] if kind is Deletion else _by_type(pairs):
            admitted_group: list[Any] = [admitted for _, admitted in group]
            changes: Sequence[Change | str]
            if kind is Prepared:
                changes = publisher.publish(admitted_group, hold_older=hold_older)
            elif kind is Deletion:
                changes = [
                    publisher.delete(*deletion, hold_older=hold_older)
                    for deletion in admitted_group
                ]
            else:
                changes = restore(publisher, connection, admitted_group)
            for (record, admitted), change in zip(group, changes, strict=True):
                outcomes.append((record, admitted.definition.name, change))
                if change is Change.OLDER:
                    held.add(_key(admitted))
    return outcomes


def _key(admitted: Admitted) -> tuple[str, str]:
    return admitted.definition.name, admitted.id


def _by_type(pairs: Iterable[Ready]) -> list[list[Ready]]:
    """Group by type, what others refer to first: bytes before their documents."""
    groups: dict[str, list[Ready]] = {}
    for pair in pairs:
        groups.setdefault(pair[1].definition.name, []).append(pair)
    return sorted(groups.values(), key=lambda group: group[0][1].definition.rank)


def tune_gc() -> None:
    """Prepare a process that imports: collect no garbage within a batch, nor what exists before.

    A batch makes so many objects that the collector would look through them again and again.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 2, 2)


def collect() -> None:
    """Free the cycles of the batch that ended, where tune_gc was called."""
    if gc.get_freeze_count():
        gc.collect()
