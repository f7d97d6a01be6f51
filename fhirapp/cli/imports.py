"""`fhirapp import`: what its options mean, and the download of addresses before the import."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any

import click
from flask import Flask

from fhirapp.cli.common import demo_option, opened_app, progress_bar, say
from fhirapp.config import Settings, load_settings, settings_of
from fhirapp.db import with_patience
from fhirapp.definition import types
from fhirapp.disk import database_path
from fhirapp.exchange.imports.batches import tune_gc
from fhirapp.exchange.imports.deletions import partial_export_error, partial_export_reason
from fhirapp.exchange.imports.importer import PATIENCE, import_paths
from fhirapp.exchange.imports.inputs import total_bytes
from fhirapp.exchange.imports.report import Report, write_report
from fhirapp.exchange.imports.runs import ID_PREFIX, Options, dry_run_copy
from fhirapp.exchange.remote.address import is_export, place, shown
from fhirapp.exchange.remote.authorization import Credentials
from fhirapp.exchange.remote.download import download
from fhirapp.exchange.tables import KINDS, template
from fhirapp.fhir import json as fhir_json
from fhirapp.ops.lock import in_use

# Faults that are printed; a report has them all.
_SHOWN = 100


@click.command("import")
@click.argument("paths", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--report", type=click.Path(path_type=Path), help="Write a report: .json or .html.")
@click.option("--rejected", type=click.Path(path_type=Path), help="File for rejected records.")
@click.option("--dry-run", is_flag=True, help="Report what would happen; change nothing.")
@click.option("--repair", is_flag=True, help="Repair by rule what is invalid; each is listed.")
@click.option("--source", default="", help="Name of the system that the records come from.")
@click.option("--delete-missing", is_flag=True, help="Delete what the source no longer holds.")
@click.option("--force", is_flag=True, help="Delete even most of a source's records.")
@click.option("--id-prefix", default="", help="Put before every id, where sources share ids.")
@click.option("--base", "bases", multiple=True, help="FHIR address whose references mean here.")
@click.option("--provenance/--no-provenance", default=True, help="Record what was loaded, when.")
@click.option("--client-id", help="Backend client at the server of an address.")
@click.option("--key", type=click.Path(path_type=Path), help="File of its private key, a JWK.")
@click.option("--template", "table", help="Print the headings of a table: allergies or documents.")
@demo_option
def import_(
    paths: tuple[str, ...],
    demo: bool | None,
    table: str | None,
    as_json: bool,
    report: Path | None,
    dry_run: bool,
    client_id: str | None,
    key: Path | None,
    **values: Any,
) -> int:
    """Load records into the database: FHIR, C-CDA and tables.

    PATHS are files, folders, - for standard input, or addresses of Bulk Data at another server.
    """
    if table is not None:
        click.echo(_template(table), nl=False)
        return 0
    if not paths:
        raise click.UsageError("Give PATHS to import: files, folders, or - for standard input")
    if report is not None and report.suffix not in (".json", ".html"):
        raise click.UsageError("--report takes a file that ends in .json or .html")
    options, credentials = _options(**values), _credentials(client_id, key)
    settings = load_settings(demo=demo)
    downloads = _download(paths, settings, credentials, complete=options.delete_missing)
    with _database(demo, settings, dry_run=dry_run) as app:
        outcome = _import(downloads, settings_of(app), options)
    if dry_run and options.rejected is None:
        # Deleted with the copy.
        outcome.rejected_file = ""
    if not dry_run:
        downloads.delete()
    if report is not None:
        write_report(outcome, report)
    _say_faults(outcome)
    if dry_run:
        say("This was a dry run: nothing was changed.")
    click.echo(json.dumps(outcome.content(), indent=2) if as_json else outcome.table())
    return 0 if outcome.complete else 1


def _template(table: str) -> str:
    if table not in KINDS:
        raise click.UsageError(f"--template knows {' and '.join(KINDS)}")
    return template(table)


def _credentials(client_id: str | None, key: Path | None) -> Credentials | None:
    if (client_id is None) != (key is None):
        raise click.UsageError("--client-id and --key go together")
    return Credentials(client_id, key) if client_id and key else None


def _options(*, id_prefix: str, bases: tuple[str, ...], **values: Any) -> Options:
    """Return the options of the import. Raises UsageError for what does not fit together."""
    if values["delete_missing"] and not values["source"]:
        raise click.UsageError("--delete-missing needs --source: missing from which source?")
    if not ID_PREFIX.fullmatch(id_prefix):
        raise click.UsageError("--id-prefix takes up to 20 letters, digits, dashes and dots")
    for base in bases:
        if not _is_address(base):
            raise click.UsageError("--base takes the address of a FHIR server: https://…/fhir")
    try:
        who = getpass.getuser()
    except (KeyError, OSError):
        who = f"account {os.getuid()}"
    bases_with_slash = [base.rstrip("/") + "/" for base in bases]
    return Options(prefix=id_prefix, bases=bases_with_slash, who=who, **values)


def _say_faults(report: Report) -> None:
    for fault in report.rejected[:_SHOWN]:
        say(fault)
    if report.fault_count > _SHOWN:
        say(f"… and {report.fault_count - _SHOWN} more; --report lists them.")
    for note in report.notes:
        say(note)


def _is_address(argument: str) -> bool:
    return argument.startswith(("http://", "https://"))


@dataclass
class _Downloads:
    """Paths to import, the bases that their references mean, and the folders of downloads."""

    paths: list[Path] = field(default_factory=list)
    bases: list[str] = field(default_factory=list)
    folders: list[Path] = field(default_factory=list)
    # Errors that servers report in their exports: records may be missing.
    faults: list[str] = field(default_factory=list)

    def delete(self) -> None:
        for folder in self.folders:
            rmtree(folder, ignore_errors=True)


def _download(
    arguments: Sequence[str],
    settings: Settings,
    credentials: Credentials | None,
    *,
    complete: bool,
) -> _Downloads:
    """Download the addresses among the arguments; the others are paths.

    What is downloaded stays in the instance folder until it is imported, so that a second run goes
    on where the first one stopped. With complete, a partial export is refused. Raises RemoteError,
    ConfigurationError.
    """
    for address in filter(_is_address, arguments) if complete else ():
        if is_export(address):
            # Before the other server begins to work.
            _check_complete(address, address)
    downloads = _Downloads()
    for argument in arguments:
        if not _is_address(argument):
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


@contextmanager
def _database(demo: bool | None, settings: Settings, *, dry_run: bool) -> Iterator[Flask]:
    """Open the database that is imported into; for a dry run a copy that is deleted afterwards."""
    with ExitStack() as stack:
        copy: dict[str, Any] = {}
        if dry_run:
            copy = stack.enter_context(dry_run_copy(settings))._asdict()
            # The copy is not the demo's own database.
            demo = False
        else:
            stack.enter_context(in_use(database_path(settings)))
        # Another writer only delays.
        stack.enter_context(with_patience(PATIENCE))
        yield stack.enter_context(opened_app(demo, **copy))


def _import(downloads: _Downloads, settings: Settings, options: Options) -> Report:
    """Import paths and downloads; what an incomplete export lacks is not deleted."""
    tune_gc()
    effective = replace(
        options,
        bases=[*options.bases, *downloads.bases],
        delete_missing=options.delete_missing and not downloads.faults,
    )
    read, total = 0, total_bytes(downloads.paths)
    with progress_bar("Importing") as show:

        def progress(count: int) -> None:
            nonlocal read
            read += count
            show(read, total)

        report = import_paths(downloads.paths, types(), settings, effective, progress, _waits)
    report.notes += (f"The export is not complete. {fault}" for fault in downloads.faults)
    if options.delete_missing and downloads.faults:
        report.notes.append("Nothing was deleted: what the export lacks may be what is missing.")
    return report


def _waits() -> None:
    say("Another import is running; this one begins when it has ended.")


commands = [import_]
