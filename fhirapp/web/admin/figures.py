"""The number of records of each type, and a cache for figures that take long to compute."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, NamedTuple, TypeVar

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


def record_counts(budget: float = BUDGET_SECONDS) -> Sequence[RecordCount]:
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


_EXTENSION = "fhirapp.figures"
# Figures that are computed faster than this are not cached.
_FAST_SECONDS = 0.25
# A process spends at most 1/200 of its time on computing figures; an hour is the longest lifetime.
_LIFETIME_FACTOR = 200
_MAX_LIFETIME_SECONDS = 3600
Figure = TypeVar("Figure")


class _CacheEntry:
    """A figure, and when it expires."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.figure: Any = None
        self.expires = 0.0


def cached(name: str, compute: Callable[[], Figure]) -> Figure:
    """Return this process's cached figure, computed anew if it has expired."""
    entries: dict[str, _CacheEntry] = current_app.extensions.setdefault(_EXTENSION, {})
    entry = entries.setdefault(name, _CacheEntry())
    # Other threads wait for the figure instead of computing it too.
    with entry.lock:
        began = time.monotonic()
        if began >= entry.expires:
            entry.figure = compute()
            took = time.monotonic() - began
            entry.expires = 0.0
            if took > _FAST_SECONDS:
                lifetime = min(_MAX_LIFETIME_SECONDS, took * _LIFETIME_FACTOR)
                entry.expires = began + took + lifetime
        figure: Figure = entry.figure
        return figure
