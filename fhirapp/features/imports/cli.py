"""`fhirapp import`: what its options mean, and what it prints."""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from flask import Flask

from fhirapp.cli.common import demo_option, opened_app, progress_bar, say
from fhirapp.config import Settings, settings_of
from fhirapp.db import with_patience
from fhirapp.disk import temporary_folder
from fhirapp.environment import load_settings
from fhirapp.feature import features, imported
from fhirapp.features.imports import ID_PREFIX
from fhirapp.features.imports.downloads import (
    Downloads,
    downloads_folder,
    import_downloads,
    is_address,
)
from fhirapp.features.imports.inputs import total_bytes
from fhirapp.features.imports.outputs import conflict, rejected_files
from fhirapp.features.imports.report import Report, write_report
from fhirapp.features.imports.runs import Options, dry_run_copy
from fhirapp.features.imports.tables import KINDS, template
from fhirapp.server.lock import in_use
from fhirapp.store.import_models import PATIENCE

# Faults that are printed; a report has them all.
_SHOWN = 100


@click.command("import")
@click.argument("paths", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--report", type=click.Path(path_type=Path), help="Write a report: .json or .html.")
@click.option("--rejected", type=click.Path(path_type=Path), help="File for rejected records.")
@click.option("--dry-run", is_flag=True, help="Report what would happen; change nothing.")
@click.option("--repair", is_flag=True, help="Repair invalid records by rule, and list how.")
@click.option("--source", default="", help="Name of the system that the records come from.")
@click.option("--delete-missing", is_flag=True, help="Delete what the source no longer has.")
@click.option("--force", is_flag=True, help="Delete even most of a source's records.")
@click.option("--id-prefix", default="", help="Prefix for all ids, if sources share ids.")
@click.option("--base", "bases", multiple=True, help="FHIR address of the source, in references.")
@click.option("--provenance/--no-provenance", default=True, help="Record what was loaded, when.")
@click.option("--client-id", help="Client id at the other FHIR server.")
@click.option("--key", type=click.Path(path_type=Path), help="File with its private key, a JWK.")
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

    PATHS are files, folders, - for standard input, or Bulk Data addresses of another FHIR server.
    """
    if table is not None:
        click.echo(_template(table), nl=False)
        return 0
    if not paths:
        raise click.UsageError("Give PATHS to import: files, folders, or - for standard input")
    if report is not None and report.suffix not in (".json", ".html"):
        raise click.UsageError("--report takes a file that ends in .json or .html")
    options = _options(**values)
    if (client_id is None) != (key is None):
        raise click.UsageError("--client-id and --key go together")
    _check_outputs([Path(path) for path in paths if not is_address(path)], report, options, key)
    settings = load_settings(demo=demo)
    with ExitStack() as stack:
        folder = downloads_folder(settings)
        if dry_run:
            folder = stack.enter_context(temporary_folder(settings.instance))
        downloads = _downloaded(paths, folder, client_id, key, options)
        app = stack.enter_context(_database(demo, settings, dry_run=dry_run))
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


def _check_outputs(
    inputs: list[Path], report: Path | None, options: Options, key: Path | None
) -> None:
    """Refuse a file to be written that is read too, or twice. Raises UsageError."""
    rejected = rejected_files(options.rejected) if options.rejected else []
    outputs = [("--rejected", path) for path in rejected]
    if report is not None:
        outputs.append(("--report", report))
        if conflict(report, rejected):
            raise click.UsageError("--report and --rejected name the same file; name two files")
    for option, path in outputs:
        if reason := conflict(path, [*inputs, *([key] if key else [])]):
            raise click.UsageError(f"{option}: {reason}")


def _template(table: str) -> str:
    if table not in KINDS:
        raise click.UsageError(f"--template takes {' or '.join(KINDS)}")
    return template(table)


def _downloaded(
    paths: tuple[str, ...],
    folder: Path,
    client_id: str | None,
    key: Path | None,
    options: Options,
) -> Downloads:
    """Return what is imported: addresses are downloaded into a folder, by the feature that can."""
    for feature in features():
        if feature.download:
            download_all = imported(feature.download)
            complete = options.delete_missing
            found: Downloads = download_all(paths, folder, client_id, key, say, complete=complete)
            return found
    if any(map(is_address, paths)):
        raise click.UsageError("This server has no feature that downloads from addresses")
    return Downloads([Path(path) for path in paths])


def _options(*, id_prefix: str, bases: tuple[str, ...], **values: Any) -> Options:
    """Return the options of the import. Raises UsageError for what does not fit together."""
    if values["delete_missing"] and not values["source"]:
        raise click.UsageError("--delete-missing needs --source: missing from which source?")
    if not ID_PREFIX.fullmatch(id_prefix):
        raise click.UsageError("--id-prefix takes up to 20 letters, digits, dashes and dots")
    for base in bases:
        if not is_address(base):
            raise click.UsageError("--base takes the address of a FHIR server: https://…/fhir")
    try:
        who = getpass.getuser()
    except (KeyError, OSError):
        who = f"account {os.getuid()}"
    with_slash = [base.rstrip("/") + "/" for base in bases]
    return Options(prefix=id_prefix, bases=with_slash, who=who, **values)


def _say_faults(report: Report) -> None:
    more = report.fault_count - _SHOWN
    rest = [f"… and {more} more; --report lists them."] if more > 0 else []
    for line in (*report.rejected[:_SHOWN], *rest, *report.notes):
        say(str(line))


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
            stack.enter_context(in_use(settings))
        # Another writer only delays.
        stack.enter_context(with_patience(PATIENCE))
        yield stack.enter_context(opened_app(demo, **copy))


def _import(downloads: Downloads, settings: Settings, options: Options) -> Report:
    read, total = 0, total_bytes(downloads.paths)
    waits = partial(say, "Another import is running; this one starts when it has finished.")
    with progress_bar("Importing") as show:

        def progress(count: int) -> None:
            nonlocal read
            read += count
            show(read, total)

        return import_downloads(downloads, settings, options, progress, waits)
