"""The report of an import: a table for the terminal, JSON for a program, an HTML page."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from jinja2 import Environment, PackageLoader, StrictUndefined

from fhirapp.config import ConfigurationError
from fhirapp.features.imports import LISTED, OUTCOMES
from fhirapp.features.imports.records import Faults, Rejection
from fhirapp.features.imports.skipped import UnreadInput

# The number of the JSON report's schema: the manual's table of its keys.
VERSION = 1
_UNKNOWN_TYPE = "?"
# How many files or resources a line of the terminal's table names.
_NAMED = 5


class ImportFault(NamedTuple):
    """What is wrong with an element: the record's place, the element's path, what is expected."""

    place: str
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


class Repaired(NamedTuple):
    """An element that was repaired by a rule."""

    place: str
    path: str
    rule: str
    before: str
    after: str


@dataclass(slots=True)
class InputFile:
    """An input with counts of its records; if it was not read to its end, the reason."""

    name: str
    # The number of the last record before it.
    start: int
    state: str = "read"
    records: int = 0
    rejected: int = 0
    reason: str = ""
    remedy: str = ""
    # The reason as it is in the lists of skipped files and of faults.
    message: str = ""

    def content(self) -> dict[str, Any]:
        """Return it as JSON."""
        counted = {"records": self.records, "rejected": self.rejected}
        unread = {"reason": self.reason, "remedy": self.remedy} if self.reason else {}
        return {"name": self.name, "state": self.state, **counted, **unread}


_Item = TypeVar("_Item")


class CountedReasons(dict[_Item, str]):
    """The first LISTED items of a kind with their reasons; counts has all of them, by reason."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def add(self, item: _Item, reason: str, times: int = 1, *, counted_as: str = "") -> None:
        """Add an item; counted_as takes the place of the reason in the counts."""
        if len(self) < LISTED:
            self[item] = reason
        self.counts[counted_as or reason] += times


@dataclass
class Report:
    """Counts by type, and lists of what was rejected or left as it was, with its place."""

    run: int = 0
    # In the order of reading.
    files: list[InputFile] = field(default_factory=list)
    changes: dict[str, Counter[str]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    # Rejected resources, rows and inputs, also by type; each may have several faults.
    rejected_lines: int = 0
    rejected_types: Counter[str] = field(default_factory=Counter)
    faults: list[ImportFault] = field(default_factory=list)
    fault_count: int = 0
    rejected_file: str = ""
    # By place, how many were rejected with their patient, and where their line is in faults.
    _followers: Counter[str] = field(default_factory=Counter)
    _follower_lines: dict[str, int] = field(default_factory=dict)
    # References that were kept as they are.
    kept: CountedReasons[str] = field(default_factory=CountedReasons)
    # Stored resources, Type/id, that nobody can read; counted by what can be done.
    unreachable: CountedReasons[str] = field(default_factory=CountedReasons)
    # Attached documents, and files or pages within, whose text could not be read, by reason;
    # and those that OCR read.
    unreadable: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    # By reason, the resources, Type/id, with such a part.
    unread_in: dict[str, list[str]] = field(default_factory=dict)
    machine_read: Counter[str] = field(default_factory=Counter)
    # By rule.
    repaired: CountedReasons[Repaired] = field(default_factory=CountedReasons)
    # Resources, Type/id, that the input held twice, with different content.
    twice: CountedReasons[str] = field(default_factory=CountedReasons)
    # Remarks on single records, with their counts.
    remarks: Counter[str] = field(default_factory=Counter)
    # Reasons why a part of the work was not done.
    notes: list[str] = field(default_factory=list)

    def count(self, type_name: str, outcome: str, times: int = 1) -> None:
        self.changes.setdefault(type_name, Counter())[outcome] += times

    def begin_file(self, name: str, start: int = 0) -> InputFile:
        """Add an input that is read from now on; start is the number of the last record so far."""
        self.files.append(InputFile(name, start))
        return self.files[-1]

    def add_unread(self, error: UnreadInput) -> None:
        """Note why the last input was not read, or not to its end."""
        file = self.files[-1]
        file.state, file.message = error.state, str(error)
        file.reason, file.remedy = error.reason, error.remedy

    def file_of(self, number: int) -> InputFile:
        """Return the input of the record with this number; 0 is one of the last input."""
        after = bisect_left(self.files, number, key=lambda file: file.start) if number else 0
        return self.files[after - 1]

    def add_rejected(self, place: str, faults: Faults, type_name: str = "") -> None:
        """Add a rejected record with its faults: (element path, what is expected)."""
        self.rejected_lines += 1
        self.rejected_types[type_name or _UNKNOWN_TYPE] += 1
        self.fault_count += len(faults)
        room = LISTED - len(self.faults)
        self.faults += [ImportFault(place, path, message) for path, message in faults[:room]]

    def add_rejection(self, rejection: Rejection) -> None:
        """Add a rejected record; of those rejected with their patient, one line for each place."""
        place, type_name = rejection.place, rejection.type_name
        if not rejection.with_patient:
            self.add_rejected(place, rejection.faults, type_name)
            return
        self._followers[place] += 1
        count = self._followers[place]
        message = f"rejected too, because their patient is not clear: {count}"
        if count == 1:
            self._follower_lines[place] = len(self.faults)
            self.add_rejected(place, [("", message)], type_name)
            return
        self.add_rejected(place, [], type_name)
        line = self._follower_lines[place]
        if line < LISTED:
            self.faults[line] = ImportFault(place, "", message)

    def remark(self, place: str, text: str) -> None:
        """Add a remark on a record; beyond the first many, different ones are counted together."""
        remark = f"{place}: {text}" if place else text
        self.remarks[remark if len(self.remarks) < LISTED else "and others"] += 1

    @property
    def rejected(self) -> list[str]:
        """Each fault as a line: place, path, message."""
        return [str(fault) for fault in self.faults]

    @property
    def file_counts(self) -> dict[str, int]:
        """How many inputs were read, skipped and rejected."""
        counts = Counter(file.state for file in self.files)
        return {state: counts[state] for state in ("read", "skipped", "rejected")}

    @property
    def listed_files(self) -> list[InputFile]:
        """The inputs, of each state the first LISTED."""
        listed, counts = [], Counter[str]()
        for file in self.files:
            counts[file.state] += 1
            if counts[file.state] <= LISTED:
                listed.append(file)
        return listed

    @property
    def skipped_file_count(self) -> Counter[str]:
        """How many files have no records, by reason."""
        return Counter(file.message for file in self.files if file.state == "skipped")

    @property
    def complete(self) -> bool:
        """Whether everything was imported."""
        return self.rejected_lines == 0 and not self.notes

    def rows(self) -> list[tuple[str, dict[str, int]]]:
        """Return the counts of each type by outcome."""
        rows = []
        for name in sorted({*self.changes, *self.rejected_types}):
            counts = {**self.changes.get(name, {}), "rejected": self.rejected_types[name]}
            read = sum(counts.values()) - counts.get("deleted", 0)
            rows.append((name, {"read": read, **counts}))
        return rows

    def also(self) -> list[tuple[str, int, str]]:
        """Return the other counts: (what, how many, which)."""
        in_parts: Counter[str] = Counter()
        for reason, count in self.unread.items():
            named = self.unread_in.get(reason, ())
            in_parts[_naming(reason, named, len(named))] = count
        counters: Iterable[tuple[str, Counter[str]]] = (
            ("not stored", self.skipped),
            ("files skipped", self._skipped_by_reason()),
            ("references kept", self.kept.counts),
            ("cannot be read", self.unreachable.counts),
            ("documents without words", self.unreadable),
            ("parts without words", in_parts),
            ("machine-read documents", +self.machine_read),
            ("repaired", self.repaired.counts),
            ("remarks", self.remarks),
            ("twice in the input", self.twice.counts),
        )
        return [
            (what, count, which)
            for what, counter in counters
            for which, count in sorted(counter.items())
        ]

    def _skipped_by_reason(self) -> Counter[str]:
        """Return how many files were skipped, by reason with the first of them."""
        names: dict[str, list[str]] = {}
        for file in self.files:
            if file.state == "skipped":
                names.setdefault(file.message, []).append(file.name)
        return Counter(
            {_naming(reason, of_it, len(of_it)): len(of_it) for reason, of_it in names.items()}
        )

    def table(self) -> str:
        """Return the counts as a table for the terminal."""
        lines = [f"{'type':<24}" + "".join(f"{name:>10}" for name in OUTCOMES)]
        for type_name, counts in self.rows():
            cells = "".join(f"{counts.get(name, 0):>10}" for name in OUTCOMES)
            lines.append(f"{type_name:<24}{cells}")
        lines += [f"{what:<24}{count:>10} {which}" for what, count, which in self.also()]
        # Relative, as a person here would type it.
        file = self.rejected_file.replace(f"{Path.cwd()}/", "")
        lines.append(f"{'rejected':<24}{self.rejected_lines:>10} {file}".rstrip())
        return "\n".join(lines)

    def content(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "version": VERSION,
            "run": self.run,
            "files": [file.content() for file in self.listed_files],
            "fileCount": self.file_counts,
            "changes": dict(self.rows()),
            "skipped": dict(self.skipped),
            "rejected": [fault._asdict() for fault in self.faults],
            "rejectedCount": self.rejected_lines,
            "rejectedFile": self.rejected_file or None,
            "kept": self.kept,
            "keptCount": dict(self.kept.counts),
            "unreachable": self.unreachable,
            "unreachableCount": dict(self.unreachable.counts),
            "unreadable": dict(self.unreadable),
            "unreadableParts": dict(self.unread),
            "unreadablePartsIn": self.unread_in,
            "machineRead": self.machine_read.total(),
            "repaired": [repaired._asdict() for repaired in self.repaired],
            "twice": [*self.twice],
            "remarks": dict(self.remarks),
            "notes": self.notes,
        }


def write_report(report: Report, path: Path) -> None:
    """Write a report as HTML or JSON, by the suffix. Raises ConfigurationError."""
    text = page(report) if path.suffix == ".html" else json.dumps(report.content(), indent=2) + "\n"
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigurationError(
            f"The report {path} cannot be written ({error.strerror}); the import is done."
        ) from None


def page(report: Report) -> str:
    """Return a report as an HTML page without other files."""
    environment = Environment(
        loader=PackageLoader("fhirapp.features.imports"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("report.html").render(
        report=report, outcomes=OUTCOMES, listed=LISTED
    )


def _naming(reason: str, names: Sequence[str], count: int) -> str:
    """Return a reason with the first names of the count that it holds for."""
    first = names[:_NAMED]
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return f"{reason}: {', '.join(first)}{more}" if first else reason
