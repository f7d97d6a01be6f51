"""The number of records of each type, for the overview."""

from __future__ import annotations

import time
from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple

from flask import current_app

from fhirapp.db import reader
from fhirapp.definition import types

# A count reads an index: ten million rows a second if they are in memory. The time is checked
# between types, so the last count may exceed it.
BUDGET_SECONDS = 3.0


class RecordCount(NamedTuple):
    """The number of current records of a type; None where counting took too long."""

    name: str
    records: int | None
    # The type that these records are derived from; empty if there is none.
    source: str


def count_records(budget: float = BUDGET_SECONDS) -> Sequence[RecordCount]:
    """Count the current records of each type."""
    end = time.monotonic() + budget
    counts = []
    for name, definition in types().items():
        count = None
        if time.monotonic() < end:
            rows = reader().all(f"SELECT count(*) FROM {definition.sql_table} WHERE is_current")
            count = int(rows[0][0])
        source = definition.view.source if definition.view else ""
        counts.append(RecordCount(name, count, source))
    return counts


_EXTENSION = "fhirapp.record_counts"
# Counts that are faster than this are not cached.
_FAST_SECONDS = 0.25
# A process spends at most 1/200 of its time on counting; an hour is the longest lifetime.
_LIFETIME_FACTOR = 200
_MAX_LIFETIME_SECONDS = 3600


class _Cache:
    """The counts of this process, and when they expire."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.counts: Sequence[RecordCount] = ()
        self.expires = 0.0


def record_counts() -> Sequence[RecordCount]:
    """Return the number of current records of each type, cached if counting takes long."""
    cache: _Cache = current_app.extensions.setdefault(_EXTENSION, _Cache())
    # Other threads wait for the counts instead of counting too.
    with cache.lock:
        began = time.monotonic()
        if began >= cache.expires:
            cache.counts = count_records()
            took = time.monotonic() - began
            cache.expires = 0.0
            if took > _FAST_SECONDS:
                lifetime = min(_MAX_LIFETIME_SECONDS, took * _LIFETIME_FACTOR)
                cache.expires = began + took + lifetime
        return cache.counts
