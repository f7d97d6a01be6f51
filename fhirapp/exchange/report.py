"""What an import came to, for a person and for a program."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from fhirapp.store.publish import Change


@dataclass
class Report:
    """Counts by type, and what was rejected or left as it was, each with its place."""

    changes: dict[str, Counter[str]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    rejected: list[str] = field(default_factory=list)
    # References that were kept as they are, with the reason; how many for each reason.
    kept: dict[str, str] = field(default_factory=dict)
    kept_count: Counter[str] = field(default_factory=Counter)
    rejected_lines: int = 0
    # Attached documents whose words could not be read, by the reason; they are stored all the same.
    unreadable: Counter[str] = field(default_factory=Counter)

    def count(self, type_name: str, change: Change) -> None:
        self.changes.setdefault(type_name, Counter())[change.value] += 1

    def reject(self, place: str, faults: list[str]) -> None:
        """Note a line that was refused, with each of its faults."""
        self.rejected_lines += 1
        self.rejected += [f"{place}: {fault}" for fault in faults]

    def keep(self, reference: str, reason: str) -> None:
        """Note a conditional reference that could not be resolved."""
        self.kept[reference] = reason
        self.kept_count[reason] += 1

    @property
    def complete(self) -> bool:
        """Whether nothing was rejected."""
        return self.rejected_lines == 0

    def table(self) -> str:
        """Return the counts as a table for the terminal."""
        names = [change.value for change in Change]
        lines = [f"{'type':<24}" + "".join(f"{name:>10}" for name in names)]
        for type_name, counts in sorted(self.changes.items()):
            lines.append(f"{type_name:<24}" + "".join(f"{counts[name]:>10}" for name in names))
        for type_name, count in sorted(self.skipped.items()):
            lines.append(f"{type_name:<24}{count:>10} not stored, skipped")
        for reason, count in sorted(self.kept_count.items()):
            lines.append(f"{'references kept':<24}{count:>10} {reason}")
        for reason, count in sorted(self.unreadable.items()):
            lines.append(f"{'documents without words':<24}{count:>10} {reason}")
        lines.append(f"{'rejected lines':<24}{self.rejected_lines:>10}")
        return "\n".join(lines)

    def content(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "changes": {name: dict(counts) for name, counts in sorted(self.changes.items())},
            "skipped": dict(self.skipped),
            "rejected": self.rejected,
            "rejectedLines": self.rejected_lines,
            "kept": self.kept,
            "unreadable": dict(self.unreadable),
        }
