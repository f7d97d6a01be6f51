"""Probes: what the core and features report about the state of the server.

A probe yields findings, which `fhirapp doctor` and the pages of administrators show, and gauges,
which /metrics serves. A feature declares its probes in `Feature.probes`; features/health runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from types import MappingProxyType
from typing import NamedTuple

from fhirapp.disk import human_size

# The states of findings: something to fix; worth knowing; as it should be.
WRONG, NOTE, GOOD = "wrong", "note", "good"


class Cost(IntEnum):
    """What a probe costs; who runs probes chooses up to which cost."""

    # It reads the database, settings and files of this machine.
    FAST = 0
    # It asks the storage that several servers share, which may take seconds to fail.
    REMOTE = 1
    # It sends requests, starts processes or reads many rows.
    SLOW = 2
    # It reads the whole database or audit trail.
    WHOLE = 3


class Bytes(int):
    """A number of bytes, written with its unit."""

    def __str__(self) -> str:
        return human_size(self)


class Counts(dict[str, int]):
    """Numbers by what is counted, which pages translate: 7 new, 1 unchanged."""

    def __str__(self) -> str:
        return ", ".join(f"{count} {words}" for words, count in self.items()) or "0"


class Moment(int):
    """A moment in seconds since 1970."""

    def __str__(self) -> str:
        return f"{datetime.fromtimestamp(self, UTC):%Y-%m-%d %H:%M} UTC"


class Finding(NamedTuple):
    """A state of something, in a sentence, with what to do and the page where to do it.

    The texts are marked by N_() for translation; values fill in what they name as %(name)s.
    """

    state: str
    text: str
    advice: str = ""
    path: str = ""
    values: Mapping[str, object] = MappingProxyType({})

    def in_english(self) -> tuple[str, str]:
        """Return the text and the advice."""
        return self.text % self.values, self.advice % self.values


class Gauge(NamedTuple):
    """A number of /metrics, in base units (seconds, bytes, 0 or 1)."""

    name: str
    description: str
    value: float
    labels: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Probe:
    """A function that looks at something, within the app's context. It changes nothing."""

    title: str
    look: Callable[[], Iterator[Finding | Gauge]]
    cost: Cost = Cost.FAST
    # Whether it can only look while the database can be read.
    reads_database: bool = True


class SetupStep(NamedTuple):
    """Something that an administrator sets up once; steps are ordered by position.

    The checklist is complete without the optional ones.
    """

    position: int
    name: str
    description: str
    path: str
    is_done: bool
    is_optional: bool = False
