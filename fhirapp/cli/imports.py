"""`fhirapp import`.

What `fhirapp import` is given, once addresses of other servers are fetched to this disk.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import click
from flask import Flask

from fhirapp.cli.common import demo_option, opened_app, say
from fhirapp.config import Settings, load_settings, settings_of
from fhirapp.db import with_patience
from fhirapp.definition import types
from fhirapp.disk import database_path
from fhirapp.exchange.imports.batches import tune_gc
from fhirapp.exchange.imports.deletions import partial_export_error, partial_export_reason
from fhirapp.exchange.imports.importer import PATIENCE, import_paths
from fhirapp.exchange.imports.inputs import total_bytes
from fhirapp.exchange.imports.options import ID_PREFIX, Options, dry_run_copy
from fhirapp.exchange.imports.report import Report, write_report
from fhirapp.exchange.remote.address import is_export, place, shown
from fhirapp.exchange.remote.authorization import Credentials
from fhirapp.exchange.remote.download import download
from fhirapp.fhir import json as fhir_json
from fhirapp.ops.lock import in_use

_SCHEMES = ("http://", "https://")


class Fetched:
    """Paths to import, the bases that their references mean, the folders to forget when done."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.bases: list[str] = []
        self.folders: list[Path] = []
        # What servers say that their exports lack.
        self.faults: list[str] = []

    def forget(self) -> None:
        """Remove what was fetched: it is imported."""
        for folder in self.folders:
            rmtree(folder, ignore_errors=True)


def is_address(given: str) -> bool:
    """Say whether an argument is an address, and no path."""
    return given.startswith(_SCHEMES)


def fetch(
    given: Sequence[str],
    settings: Settings,
    credentials: Credentials | None,
    *,
    whole: bool = False,
) -> Fetched:
    """Fetch the addresses among what was given; what is no address is a path as it stands.

    What is fetched lies in the instance folder until it is imported: a second run goes on where
    the first one stopped. Where it must be whole, an export of a part is refused. Raises
    RemoteError, ConfigurationError.
    """
    fetched = Fetched()
    for one in filter(is_address, given) if whole else ():
        if is_export(one):
            # Before another server is set to work.
            _check_whole(one, one)
    for one in given:
        if not is_address(one):
            fetched.paths.append(Path(one))
            continue
        folder = settings.instance / "downloads" / sha256(one.encode()).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        manifest = download(one, folder, credentials, say)
        if whole and not (manifest.request is None and is_export(one)):
            _check_whole(one, manifest.request)
        fetched.folders.append(folder)
        fetched.paths += [file.path for file in (*manifest.output, *manifest.deleted)]
        for file in manifest.error:
            fetched.faults += (f"{place(one)}: {text}" for text in _serious(file.path))
        if manifest.base:
            fetched.bases.append(manifest.base.rstrip("/") + "/")
    return fetched


def _check_whole(given: str, request: str | None) -> None:
    """Refuse an address whose export was asked for a part. Raises ConfigurationError."""
    if why := partial_export_reason(request):
        raise partial_export_error(place(given), why)


def _serious(path: Path) -> Iterator[str]:
    """Yield what OperationOutcomes say that is more than a hint; what cannot be read is."""
    with path.open("rb") as file:
        for line in file:
            try:
                issues = fhir_json.loads(line)["issue"]
                told = [
                    one.get("diagnostics") or one["code"]
                    for one in issues
                    if one["severity"] in ("fatal", "error")
                ]
            except (ValueError, TypeError, KeyError, AttributeError):
                told = [line.decode(errors="replace")]
            yield from (shown(str(one), 300) for one in told)


# So many faults are shown; a report has them all.
_SHOWN = 100


@click.command("import")
@click.argument("paths", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Report for a program to read.")
@click.option("--report", type=click.Path(path_type=Path), help="Write a report: .json or .html.")
@click.option("--rejected", type=click.Path(path_type=Path), help="Where to keep what is refused.")
@click.option("--dry-run", is_flag=True, help="Tell what would happen, and change nothing.")
@click.option("--repair", is_flag=True, help="Repair by rule what breaks FHIR's; each is listed.")
@click.option("--source", default="", help="Name of where the records come from.")
@click.option("--delete-missing", is_flag=True, help="Delete what the source holds no more.")
@click.option("--force", is_flag=True, help="Delete even most of a source's records.")
@click.option("--id-prefix", default="", help="Put before every id, where sources share ids.")
@click.option("--base", "bases", multiple=True, help="FHIR address whose references mean here.")
@click.option("--provenance/--no-provenance", default=True, help="Note what was loaded, when.")
@click.option("--client-id", help="Who this is at the server of an address: a backend client.")
@click.option("--key", type=click.Path(path_type=Path), help="File of its private key, a JWK.")
@click.option("--template", help="Print the headings of a table: allergies or documents.")
@demo_option
def import_(paths: tuple[str, ...], demo: bool | None, template: str | None, **given: Any) -> int:
    """Load records into the database: FHIR, C-CDA and tables.

    PATHS are files, folders, - for standard input, or addresses of Bulk Data at another server.
    """
    if template is not None:
        click.echo(_template(template), nl=False)
        return 0
    options, outputs = _options(paths, **given)
    settings = load_settings(demo=demo)
    fetched = fetch(paths, settings, outputs.credentials, whole=options.delete_missing)
    with _database(demo, outputs.dry_run) as app:
        report = _take(fetched, settings_of(app), options)
    if not outputs.dry_run:
        fetched.forget()
    if outputs.dry_run and options.rejected is None:
        # It went with the copy.
        report.rejected_file = ""
    if outputs.report is not None:
        write_report(report, outputs.report)
    for fault in report.rejected[:_SHOWN]:
        say(fault)
    if report.fault_count > _SHOWN:
        say(f"… and {report.fault_count - _SHOWN} more; --report lists them.")
    for note in report.notes:
        say(note)
    if outputs.dry_run:
        say("This was a dry run: nothing was changed.")
    click.echo(json.dumps(report.content(), indent=2) if outputs.as_json else report.table())
    return 0 if report.complete else 1


def _take(fetched: Fetched, settings: Settings, options: Options) -> Report:
    """Import what is here now. Of an export that is not whole, what it lacks is not gone."""
    tune_gc()
    wanted = replace(
        options,
        bases=[*options.bases, *fetched.bases],
        delete_missing=options.delete_missing and not fetched.faults,
    )
    with _progress(fetched.paths) as progress:
        report = import_paths(fetched.paths, types(), settings, wanted, progress, _waits)
    report.notes += (f"The export is not whole. {fault}" for fault in fetched.faults)
    if options.delete_missing and fetched.faults:
        report.notes.append("Nothing was deleted: what the export lacks may be what is missing.")
    return report


class Outputs(NamedTuple):
    """Where the report goes, and whether anything is done at all."""

    as_json: bool
    report: Path | None
    dry_run: bool
    # Who asks the servers of addresses.
    credentials: Credentials | None


def _options(
    paths: tuple[str, ...],
    *,
    as_json: bool,
    report: Path | None,
    dry_run: bool,
    id_prefix: str,
    bases: tuple[str, ...],
    client_id: str | None,
    key: Path | None,
    **given: Any,
) -> tuple[Options, Outputs]:
    """Return what was asked for. Raises UsageError for what does not fit together."""
    if not paths:
        raise click.UsageError("Give PATHS to import: files, folders, or - for standard input")
    if given["delete_missing"] and not given["source"]:
        raise click.UsageError("--delete-missing needs --source: what else would be missing?")
    if not ID_PREFIX.fullmatch(id_prefix):
        raise click.UsageError("--id-prefix takes up to 20 letters, digits, dashes and dots")
    if report is not None and report.suffix not in (".json", ".html"):
        raise click.UsageError("--report takes a file that ends in .json or .html")
    if (client_id is None) != (key is None):
        raise click.UsageError("--client-id and --key go together")
    for base in bases:
        if not is_address(base):
            raise click.UsageError("--base takes the address of a FHIR server: https://…/fhir")
    wanted = Options(
        prefix=id_prefix,
        bases=[base.rstrip("/") + "/" for base in bases],
        who=_who(),
        **given,
    )
    credentials = Credentials(client_id, key) if client_id and key else None
    return wanted, Outputs(as_json, report, dry_run, credentials)


def _who() -> str:
    """Return the name of the system's account that gives the command, or its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"account {os.getuid()}"


@contextmanager
def _database(demo: bool | None, dry_run: bool) -> Iterator[Flask]:
    """Open the database that is imported into; for a dry run a copy, which is thrown away."""
    with ExitStack() as open_:
        settings = load_settings(demo=demo)
        where: dict[str, Any] = {}
        if dry_run:
            where = open_.enter_context(dry_run_copy(settings))._asdict()
            # The copy of a demo's database is none of the demo's.
            demo = False
        else:
            open_.enter_context(in_use(database_path(settings)))
        # Whoever holds the lock meanwhile only delays.
        open_.enter_context(with_patience(PATIENCE))
        yield open_.enter_context(opened_app(demo, **where))


def _template(name: str) -> str:
    from fhirapp.exchange.tables import KINDS, template

    if name not in KINDS:
        raise click.UsageError(f"--template knows {' and '.join(KINDS)}")
    return template(name)


def _waits() -> None:
    say("Another import is at work; this one begins when that has ended.")


@contextmanager
def _progress(paths: Sequence[Path]) -> Iterator[Callable[[int], None]]:
    """Show a bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Importing"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("import", total=total_bytes(paths))
        yield lambda done: bar.update(task, advance=done)


commands = [import_]
