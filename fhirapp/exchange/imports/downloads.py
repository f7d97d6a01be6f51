"""Imports from other servers: what addresses offer is downloaded, then imported, then deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree

from fhirapp.config import Settings
from fhirapp.definition import types
from fhirapp.exchange.imports.archives import OnRead
from fhirapp.exchange.imports.batches import tune_gc
from fhirapp.exchange.imports.deletions import partial_export_error, partial_export_reason
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.exchange.imports.report import Report
from fhirapp.exchange.imports.runs import Options
from fhirapp.exchange.remote.address import is_export, place, shown
from fhirapp.exchange.remote.authorization import Credentials
from fhirapp.exchange.remote.download import Say, download
from fhirapp.fhir import json as fhir_json


def is_address(argument: str) -> bool:
    """Say whether an argument of an import is an address, and not a path."""
    return argument.startswith(("http://", "https://"))


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


def download_all(
    arguments: Sequence[str],
    settings: Settings,
    credentials: Credentials | None,
    say: Say,
    *,
    complete: bool,
) -> Downloads:
    """Download the addresses among the arguments; the others are paths.

    Complete files stay in the instance folder until they are imported, so that a second run need
    not download them again. With complete, a partial export is refused. Raises RemoteError,
    ConfigurationError.
    """
    for address in filter(is_address, arguments) if complete else ():
        if is_export(address):
            # Before the other server begins to work.
            _check_complete(address, address)
    downloads = Downloads()
    for argument in arguments:
        if not is_address(argument):
            downloads.paths.append(Path(argument))
            continue
        folder = settings.instance / "downloads" / sha256(argument.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        manifest = download(argument, folder, credentials, say)
        if complete and not (manifest.request is None and is_export(argument)):
            _check_complete(argument, manifest.request)
        downloads.folders.append(folder)
        downloads.paths += [file.path for file in (*manifest.output, *manifest.deleted)]
        for file in manifest.error:
            downloads.faults += (f"{place(argument)}: {text}" for text in _errors_in(file.path))
        if manifest.base:
            downloads.bases.append(manifest.base.rstrip("/") + "/")
        if manifest.transaction_time:
            downloads.times.append(manifest.transaction_time)
    return downloads


def _check_complete(address: str, request: str | None) -> None:
    """Refuse an address whose export is partial. Raises ConfigurationError."""
    if reason := partial_export_reason(request):
        raise partial_export_error(place(address), reason)


def _errors_in(path: Path) -> Iterator[str]:
    """Yield the errors in a file of OperationOutcomes; a line that cannot be read is one."""
    with path.open("rb") as file:
        for line in file:
            try:
                errors = [
                    issue.get("diagnostics") or issue["code"]
                    for issue in fhir_json.loads(line)["issue"]
                    if issue["severity"] in ("fatal", "error")
                ]
            except (ValueError, TypeError, KeyError, AttributeError):
                errors = [line.decode(errors="replace")]
            yield from (shown(str(error), 300) for error in errors)


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
