"""What an import reads: paths, and what was downloaded from other servers and is deleted after."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from shutil import rmtree

from fhirapp.config import Settings
from fhirapp.definition import types
from fhirapp.features.imports.archives import OnRead
from fhirapp.features.imports.importer import import_paths, tune_gc
from fhirapp.features.imports.report import Report
from fhirapp.features.imports.runs import Options


def is_address(argument: str) -> bool:
    """Say whether an argument of an import is an address, and not a path."""
    return argument.startswith(("http://", "https://"))


def downloads_folder(settings: Settings) -> Path:
    """Return the folder of downloads that are not imported yet."""
    return settings.instance / "downloads"


@dataclass
class Downloads:
    """Paths to import, the bases that their references mean, and the folders of downloads."""

    paths: list[Path] = field(default_factory=list)
    bases: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    # Errors that servers report in their exports: records may be missing.
    faults: list[str] = field(default_factory=list)
    # The servers' times of what was exported, where they tell.
    times: list[str] = field(default_factory=list)

    def delete(self) -> None:
        for folder in self.folders:
            rmtree(folder, ignore_errors=True)


def import_downloads(
    downloads: Downloads,
    settings: Settings,
    options: Options,
    progress: OnRead,
    waits: Callable[[], None],
    begun: Callable[[Report], None] = lambda _report: None,
) -> Report:
    """Import paths and downloads; what an incomplete export lacks is not deleted.

    Raises ConfigurationError, as import_paths() does.
    """
    tune_gc()
    effective = replace(
        options,
        bases=[*options.bases, *downloads.bases],
        delete_missing=options.delete_missing and not downloads.faults,
    )
    report = import_paths(downloads.paths, types(), settings, effective, progress, waits, begun)
    report.notes += (f"The export is not complete. {fault}" for fault in downloads.faults)
    if options.delete_missing and downloads.faults:
        report.notes.append("Nothing was deleted: what the export lacks may be what is missing.")
    return report
