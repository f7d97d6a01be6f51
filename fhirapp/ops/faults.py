"""What is wrong with a database, told in sentences, however much it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

# Of one kind of fault, so many are told.
_SHOWN = 5


class Faults:
    """Gathers faults by what they are of: all are counted, the first of each told."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._told: list[tuple[str, str]] = []

    def add(self, kind: str, where: str = "") -> None:
        """Take up a fault: `has no body`, of `Patient/one, version 2`."""
        self._counts[kind] += 1
        if self._counts[kind] <= _SHOWN:
            self._told.append((kind, f"{where} {kind}".strip()))

    def extend(self, kinds: Iterable[str]) -> None:
        """Take up faults that are told whole."""
        for kind in kinds:
            self.add(kind)

    def lines(self) -> list[str]:
        """Return a sentence for each fault that is told, and for a kind how many are not."""
        lines = []
        last = {kind: place for place, (kind, _) in enumerate(self._told)}
        for place, (kind, line) in enumerate(self._told):
            lines.append(line)
            more = self._counts[kind] - _SHOWN
            if more > 0 and last[kind] == place:
                lines.append(f"… and {more} more {kind}")
        return lines
