"""A batch, published in one transaction: resources, deletions and histories, in their order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

from sqlalchemy import Connection

from fhirapp.exchange.imports.admission import Admitted
from fhirapp.exchange.imports.histories import Past, restore
from fhirapp.exchange.imports.records import Unit
from fhirapp.store.prepare import Prepared
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change

# A batch is so many resources, or so many bytes of them.
MOST, MOST_BYTES = 1_000, 2_000_000

Ready = tuple[Unit, Admitted]
# What came of a unit of a type; a sentence says why it was refused.
Outcome = tuple[Unit, str, Change | str]


def batches(units: Iterable[Unit]) -> Iterator[list[Unit]]:
    """Yield units in batches."""
    batch: list[Unit] = []
    size = 0
    for unit in units:
        batch.append(unit)
        size += unit.size()
        if len(batch) >= MOST or size >= MOST_BYTES:
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
    """Publish a batch, within the transaction that publisher writes in; hold_older is its."""
    outcomes: list[Outcome] = []
    held: set[tuple[str, str]] = set()
    for kind, run in groupby(ready, lambda pair: type(pair[1])):
        pairs = list(run)
        # What comes after something that is held is held too.
        behind = [pair for pair in pairs if _name(pair[1]) in held]
        if behind:
            pairs = [pair for pair in pairs if _name(pair[1]) not in held]
            outcomes += _told(behind, [Change.OLDER] * len(behind))
        if kind is Prepared:
            done = _write(publisher, pairs, hold_older=hold_older)
            held |= {
                (type_name, unit.resource["id"])
                for unit, type_name, outcome in done
                if outcome is Change.OLDER
            }
        elif kind is Past:
            done = _restore(publisher, connection, pairs)
        else:
            done = _delete(publisher, pairs, hold_older=hold_older)
            held |= {
                _name(one)
                for (_, one), (*_, outcome) in zip(pairs, done, strict=True)
                if outcome is Change.OLDER
            }
        outcomes += done
    return outcomes


def _name(one: Admitted) -> tuple[str, str]:
    return one.definition.name, one.id


def _write(publisher: Publisher, pairs: Sequence[Any], *, hold_older: bool) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for group in _by_type(pairs):
        changes = publisher.publish([one for _, one in group], hold_older=hold_older)
        outcomes += _told(group, changes)
    return outcomes


def _delete(publisher: Publisher, pairs: Sequence[Any], *, hold_older: bool) -> list[Outcome]:
    return _told(pairs, [publisher.delete(*one, hold_older=hold_older) for _, one in pairs])


def _restore(publisher: Publisher, connection: Connection, pairs: Sequence[Any]) -> list[Outcome]:
    outcomes: list[Outcome] = []
    for group in _by_type(pairs):
        outcomes += _told(group, restore(publisher, connection, [one for _, one in group]))
    return outcomes


def _by_type(pairs: Iterable[Any]) -> Iterator[list[Any]]:
    """Group by type, what others point to first: bytes before their documents."""
    groups: dict[str, list[Any]] = {}
    for pair in pairs:
        groups.setdefault(pair[1].definition.name, []).append(pair)
    yield from sorted(groups.values(), key=lambda group: group[0][1].definition.rank)


def _told(pairs: Sequence[Any], changes: Sequence[Change | str]) -> list[Outcome]:
    return [
        (unit, one.definition.name, change)
        for (unit, one), change in zip(pairs, changes, strict=True)
    ]
