"""The report of an import, for a person and for a program, and the files of rejected records.

A report can be printed as a table, or written as JSON or as an HTML page. Rejected records are
written to files that can be corrected and imported again.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from fhirapp.config import ConfigurationError
from fhirapp.features.imports import LISTED, OUTCOMES
from fhirapp.features.imports.outputs import rejected_rows
from fhirapp.features.imports.records import Faults, Rejection

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


@dataclass
class Report:
    """Counts by type, and lists of what was rejected or left as it was, with its place."""

    run: int = 0
    changes: dict[str, Counter[str]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    # Reasons by file without records; counts by reason.
    skipped_files: dict[str, str] = field(default_factory=dict)
    skipped_file_count: Counter[str] = field(default_factory=Counter)
    # Rejected resources, rows and inputs, also by type; each may have several faults.
    rejected_lines: int = 0
    rejected_types: Counter[str] = field(default_factory=Counter)
    faults: list[ImportFault] = field(default_factory=list)
    fault_count: int = 0
    rejected_file: str = ""
    # By place, how many were rejected with their patient, and where their line is in faults.
    _followers: Counter[str] = field(default_factory=Counter)
    _follower_lines: dict[str, int] = field(default_factory=dict)
    # Reasons by reference that was kept as it is; counts by reason.
    kept: dict[str, str] = field(default_factory=dict)
    kept_count: Counter[str] = field(default_factory=Counter)
    # Reasons by stored resource that nobody can read; counts by what can be done.
    unreachable: dict[str, str] = field(default_factory=dict)
    unreachable_count: Counter[str] = field(default_factory=Counter)
    # Attached documents, and files or pages within, whose text could not be read, by reason;
    # and those that OCR read.
    unreadable: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    # By reason, the resources, Type/id, with such a part.
    unread_in: dict[str, list[str]] = field(default_factory=dict)
    machine_read: Counter[str] = field(default_factory=Counter)
    repaired: list[Repaired] = field(default_factory=list)
    repaired_count: Counter[str] = field(default_factory=Counter)
    # Resources that the input held twice, with different content: the last one counts.
    twice: list[str] = field(default_factory=list)
    twice_count: int = 0
    # Remarks on single records, with their counts.
    remarks: Counter[str] = field(default_factory=Counter)
    # Reasons why a part of the work was not done.
    notes: list[str] = field(default_factory=list)

    def count(self, type_name: str, outcome: str, times: int = 1) -> None:
        self.changes.setdefault(type_name, Counter())[outcome] += times

    def add_skipped_file(self, place: str, reason: str) -> None:
        """Add a file that holds no records."""
        if len(self.skipped_files) < LISTED:
            self.skipped_files[place] = reason
        self.skipped_file_count[reason] += 1

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
        if not rejection.follows:
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

    def add_kept(self, reference: str, reason: str, times: int = 1) -> None:
        """Add a reference that could not be resolved."""
        if len(self.kept) < LISTED:
            self.kept[reference] = reason
        self.kept_count[reason] += times

    def add_unreachable(self, name: str, reason: str, advice: str) -> None:
        """Add a stored resource, Type/id, that cannot be read, and what to do."""
        if len(self.unreachable) < LISTED:
            self.unreachable[name] = reason
        self.unreachable_count[advice] += 1

    def add_repair(self, repaired: Repaired) -> None:
        if len(self.repaired) < LISTED:
            self.repaired.append(repaired)
        self.repaired_count[repaired.rule] += 1

    def remark(self, place: str, text: str) -> None:
        """Add a remark on a record; beyond the first many, different ones are counted together."""
        remark = f"{place}: {text}" if place else text
        self.remarks[remark if len(self.remarks) < LISTED else "and others"] += 1

    def add_twice(self, names: Sequence[str]) -> None:
        """Add resources, Type/id, of which the input held more than one content."""
        self.twice_count += len(names)
        self.twice += names[: LISTED - len(self.twice)]

    @property
    def rejected(self) -> list[str]:
        """Each fault as a line: place, path, message."""
        return [str(fault) for fault in self.faults]

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
            ("references kept", self.kept_count),
            ("cannot be read", self.unreachable_count),
            ("documents without words", self.unreadable),
            ("parts without words", in_parts),
            ("machine-read documents", +self.machine_read),
            ("repaired", self.repaired_count),
            ("remarks", self.remarks),
        )
        rows = [
            (what, count, which)
            for what, counter in counters
            for which, count in sorted(counter.items())
        ]
        if self.twice:
            rows.append(("twice in the input", self.twice_count, "the last counts"))
        return rows

    def _skipped_by_reason(self) -> Counter[str]:
        """Return how many files were skipped, by reason with the first of them."""
        names: dict[str, list[str]] = {}
        for name, reason in self.skipped_files.items():
            names.setdefault(reason, []).append(name)
        return Counter(
            {
                _naming(reason, names.get(reason, ()), count): count
                for reason, count in self.skipped_file_count.items()
            }
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
            "run": self.run,
            "changes": dict(self.rows()),
            "skipped": dict(self.skipped),
            "skippedFiles": self.skipped_files,
            "skippedFileCount": dict(self.skipped_file_count),
            "rejected": [fault._asdict() for fault in self.faults],
            "rejectedCount": self.rejected_lines,
            "rejectedFile": self.rejected_file or None,
            "kept": self.kept,
            "keptCount": dict(self.kept_count),
            "unreachable": self.unreachable,
            "unreachableCount": dict(self.unreachable_count),
            "unreadable": dict(self.unreadable),
            "unreadableParts": dict(self.unread),
            "unreadablePartsIn": self.unread_in,
            "machineRead": self.machine_read.total(),
            "repaired": [repaired._asdict() for repaired in self.repaired],
            "twice": self.twice,
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
    return environment.get_template("report.html").render(report=report, outcomes=OUTCOMES)


class Rejects(AbstractContextManager["Rejects"]):
    """The files of rejected records: NDJSON, and for rows of tables a CSV file beside it.

    Each is created with its first record, and complete once the context has ended.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paths: list[Path] = []
        self._last_row = ""
        self._files: dict[Path, FileIO] = {}
        self._replacing: dict[Path, Path] = {}

    def __exit__(self, kind: type[BaseException] | None, *_error: object) -> None:
        for file in self._files.values():
            file.close()
        if kind is None:
            for written, path in self._replacing.items():
                written.replace(path)

    def add(self, rejection: Rejection) -> None:
        """Write a record as a JSON line, or a row below its heading. Raises ConfigurationError."""
        try:
            if not rejection.table_kind:
                if rejection.line:
                    self._file(self.path).write(rejection.line + b"\n")
            elif rejection.place != self._last_row:
                # The other resources of the same row are not written again.
                self._last_row = rejection.place
                path = rejected_rows(self.path, rejection.table_kind)
                self._file(path, rejection.heading).write(rejection.line.rstrip(b"\r\n") + b"\n")
        except OSError as error:
            raise ConfigurationError(
                f"Rejected records cannot be kept in {self.path} ({error.strerror}); what was "
                "imported stays. Make room, or name another file with --rejected, and import again."
            ) from None

    def _file(self, path: Path, heading: bytes = b"") -> FileIO:
        file = self._files.get(path)
        if file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            # An existing file is replaced at the end: an import that is interrupted leaves it.
            written = path.with_name(f"{path.name}.part") if path.is_file() else path
            if written != path:
                self._replacing[written] = path
            # Unbuffered: a full disk is known at once.
            file = self._files[path] = written.open("wb", buffering=0)
            self.paths.append(path)
            if heading:
                file.write(heading.rstrip(b"\r\n") + b"\n")
        return file


def _naming(reason: str, names: Sequence[str], count: int) -> str:
    """Return a reason with the first names of the count that it holds for."""
    first = names[:_NAMED]
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return f"{reason}: {', '.join(first)}{more}" if first else reason
