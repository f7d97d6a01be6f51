"""What an import came to, for a person and for a program.

A report as a file: JSON for a program, a page of HTML for a person.
The file of what was refused: to be mended, and imported again.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, PackageLoader, StrictUndefined

from fhirapp.config import ConfigurationError
from fhirapp.exchange.imports.records import Unit

# So many of a kind are listed each; all are counted.
LISTED = 10_000
# The outcomes in their order. The first is what was read.
OUTCOMES = ("read", "new", "changed", "same", "deleted", "rejected")
UNKNOWN_TYPE = "?"


class Fault(NamedTuple):
    """What is wrong with one element: the place, the element's path, what was expected."""

    place: str
    path: str
    message: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


class Mended(NamedTuple):
    """An element that was repaired by rule."""

    place: str
    path: str
    rule: str
    before: str
    after: str


@dataclass
class Report:
    """Counts by type, and what was rejected or left as it was, each with its place."""

    changes: dict[str, Counter[str]] = field(default_factory=dict)
    skipped: Counter[str] = field(default_factory=Counter)
    faults: list[Fault] = field(default_factory=list)
    # Resources, rows and inputs that were refused; each may have several faults. Also by type.
    rejected_lines: int = 0
    rejected_types: Counter[str] = field(default_factory=Counter)
    fault_count: int = 0
    # How many were refused with their patient, by place.
    followers: Counter[str] = field(default_factory=Counter)
    # Where the line of a place stands among the faults.
    _follower_lines: dict[str, int] = field(default_factory=dict)
    # References that were kept as they are, with the reason; how many for each reason.
    kept: dict[str, str] = field(default_factory=dict)
    kept_count: Counter[str] = field(default_factory=Counter)
    # What is stored and nobody can read, with the reason; how many for what is to be done.
    unreachable: dict[str, str] = field(default_factory=dict)
    unreachable_count: Counter[str] = field(default_factory=Counter)
    # Attached documents whose words could not be read, by the reason; they are stored all the same.
    unreadable: Counter[str] = field(default_factory=Counter)
    # The same of the files within documents: of those all other words can be found.
    unread: Counter[str] = field(default_factory=Counter)
    mended: list[Mended] = field(default_factory=list)
    mended_count: Counter[str] = field(default_factory=Counter)
    # Resources that the input held twice, with different content: the last one counts.
    twice: list[str] = field(default_factory=list)
    twice_count: int = 0
    # What is said of single records, how often.
    remarks: Counter[str] = field(default_factory=Counter)
    # What else a person should know.
    notes: list[str] = field(default_factory=list)
    rejected_file: str = ""
    run: int = 0

    def count(self, type_name: str, outcome: str, times: int = 1) -> None:
        self.changes.setdefault(type_name, Counter())[outcome] += times

    def reject(self, place: str, faults: list[tuple[str, str]], type_name: str = "") -> None:
        """Note what was refused, with each of its faults: (element path, what was expected)."""
        self.rejected_lines += 1
        self.rejected_types[type_name or UNKNOWN_TYPE] += 1
        self.fault_count += len(faults)
        room = LISTED - len(self.faults)
        self.faults += [Fault(place, path, message) for path, message in faults[:room]]

    def follow(self, place: str, type_name: str = "") -> None:
        """Note what was refused with its patient; of each place one line tells how many."""
        self.rejected_lines += 1
        self.rejected_types[type_name or UNKNOWN_TYPE] += 1
        self.followers[place] += 1
        count = self.followers[place]
        line = Fault(place, "", f"refused too, because it is not clear whose they are: {count}")
        if count == 1:
            self.fault_count += 1
            self._follower_lines[place] = len(self.faults)
            if len(self.faults) < LISTED:
                self.faults.append(line)
        elif self._follower_lines[place] < LISTED:
            self.faults[self._follower_lines[place]] = line

    def lose(self, name: str, reason: str, advice: str) -> None:
        """Note what is stored and nobody can read: Type/id, why, and what is to be done."""
        if len(self.unreachable) < LISTED:
            self.unreachable[name] = reason
        self.unreachable_count[advice] += 1

    def keep(self, reference: str, reason: str, times: int = 1) -> None:
        """Note a reference that could not be resolved."""
        if len(self.kept) < LISTED:
            self.kept[reference] = reason
        self.kept_count[reason] += times

    def mend(self, mended: Mended) -> None:
        """Note a value that was repaired."""
        if len(self.mended) < LISTED:
            self.mended.append(mended)
        self.mended_count[mended.rule] += 1

    def remark(self, where: str, what: str) -> None:
        """Note what is said of a record; of many different remarks the first are told apart."""
        said = f"{where}: {what}" if where else what
        self.remarks[said if len(self.remarks) < LISTED else "and others"] += 1

    def came_twice(self, names: list[str]) -> None:
        """Note resources, as Type/id, of which the input held more than one content."""
        self.twice_count += len(names)
        self.twice += names[: LISTED - len(self.twice)]

    @property
    def rejected(self) -> list[str]:
        """Each fault as a line: place, path, message."""
        return [str(fault) for fault in self.faults]

    @property
    def complete(self) -> bool:
        """Whether everything was done."""
        return self.rejected_lines == 0 and not self.notes

    def rows(self) -> list[tuple[str, dict[str, int]]]:
        """Return the counts of each type, with what was read of it."""
        rows = []
        for name in sorted({*self.changes, *self.rejected_types}):
            counts = {**self.changes.get(name, {}), "rejected": self.rejected_types[name]}
            read = sum(counts.values()) - counts.get("deleted", 0)
            rows.append((name, {"read": read, **counts}))
        return rows

    def also(self) -> list[tuple[str, int, str]]:
        """Return what else is counted: (what, how many, which)."""
        return [
            *(("not stored", count, name) for name, count in sorted(self.skipped.items())),
            *(("references kept", count, why) for why, count in sorted(self.kept_count.items())),
            *(
                ("nobody can read", count, what)
                for what, count in sorted(self.unreachable_count.items())
            ),
            *(
                ("documents without words", count, why)
                for why, count in sorted(self.unreadable.items())
            ),
            *(("parts without words", count, why) for why, count in sorted(self.unread.items())),
            *(("repaired", count, rule) for rule, count in sorted(self.mended_count.items())),
            *(("remarks", count, what) for what, count in sorted(self.remarks.items())),
            *((("twice in the input", self.twice_count, "the last counts"),) if self.twice else ()),
        ]

    def table(self) -> str:
        """Return the counts as a table for the terminal."""
        lines = [f"{'type':<24}" + "".join(f"{name:>10}" for name in OUTCOMES)]
        for type_name, counts in self.rows():
            cells = "".join(f"{counts.get(name, 0):>10}" for name in OUTCOMES)
            lines.append(f"{type_name:<24}{cells}")
        lines += [f"{what:<24}{count:>10} {which}" for what, count, which in self.also()]
        # As somebody here would type it.
        kept = self.rejected_file.replace(f"{Path.cwd()}/", "")
        lines.append(f"{'rejected':<24}{self.rejected_lines:>10} {kept}".rstrip())
        return "\n".join(lines)

    def content(self) -> dict[str, Any]:
        """Return the report as JSON."""
        return {
            "run": self.run,
            "changes": dict(self.rows()),
            "skipped": dict(self.skipped),
            "rejected": [fault._asdict() for fault in self.faults],
            "rejectedCount": self.rejected_lines,
            "rejectedFile": self.rejected_file or None,
            "kept": self.kept,
            "keptCount": dict(self.kept_count),
            "unreachable": self.unreachable,
            "unreachableCount": dict(self.unreachable_count),
            "unreadable": dict(self.unreadable),
            "unreadableParts": dict(self.unread),
            "repaired": [one._asdict() for one in self.mended],
            "twice": self.twice,
            "remarks": dict(self.remarks),
            "notes": self.notes,
        }


def write_report(report: Report, path: Path) -> None:
    """Write a report; the name's end says in which form. Raises ConfigurationError."""
    text = page(report) if path.suffix == ".html" else json.dumps(report.content(), indent=2) + "\n"
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise ConfigurationError(
            f"The report {path} cannot be written ({error.strerror}); the import is done."
        ) from None


def page(report: Report) -> str:
    """Return a page that needs nothing else."""
    environment = Environment(
        loader=PackageLoader("fhirapp.exchange.imports"),
        autoescape=True,
        undefined=StrictUndefined,
    )
    return environment.get_template("report.html").render(report=report, outcomes=OUTCOMES)


class Rejects:
    """Writes refused resources to a file, made with the first; rows of tables to one beside it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.paths: list[Path] = []
        self._last_row = ""
        self._files: dict[Path, FileIO] = {}
        self._replacing: dict[Path, Path] = {}

    def add(self, unit: Unit) -> None:
        """Keep a resource as one line of JSON, a row of a table below its headings.

        Raises ConfigurationError where that cannot be written.
        """
        try:
            self._add(unit)
        except OSError as error:
            raise ConfigurationError(
                f"What was refused cannot be kept in {self.path} ({error.strerror}); what was "
                "imported stays. Make room, or name another file with --rejected, and import again."
            ) from None

    def _add(self, unit: Unit) -> None:
        if unit.row_of:
            if unit.place == self._last_row:
                # It stood for several resources.
                return
            self._last_row = unit.place
            path = self.path.with_suffix(f".{unit.row_of}.csv")
            self._file(path, unit.heading).write(unit.text.rstrip(b"\r\n") + b"\n")
        elif content := unit.refused():
            self._file(self.path).write(content + b"\n")

    def _file(self, path: Path, heading: bytes = b"") -> FileIO:
        file = self._files.get(path)
        if file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
            # A file that is there may be what is read now: it is replaced at the end.
            written = path.with_name(f"{path.name}.part") if path.is_file() else path
            if written != path:
                self._replacing[written] = path
            # Unbuffered: what cannot be written is known at once.
            file = self._files[path] = written.open("wb", buffering=0)
            self.paths.append(path)
            if heading:
                file.write(heading.rstrip(b"\r\n") + b"\n")
        return file

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        for written, path in self._replacing.items():
            written.replace(path)
