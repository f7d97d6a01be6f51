"""`fhirapp import`."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from fhirapp.cli.common import demo_option, ready_app, say
from fhirapp.config import settings_of
from fhirapp.exchange.importer import import_paths, total_bytes
from fhirapp.store.definition import types

# So many faults are shown; --json has them all.
_SHOWN = 100


@click.command("import")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Report for a program to read.")
@demo_option
def import_(paths: tuple[Path, ...], as_json: bool, demo: bool | None) -> int:
    """Load NDJSON files, or folders of them, into the database."""
    app = ready_app(demo=demo)
    _collect_seldom()
    with app.app_context(), _progress(paths) as progress:
        report = import_paths(paths, types(), settings_of(app), progress)
    for fault in report.rejected[:_SHOWN]:
        say(fault)
    if len(report.rejected) > _SHOWN:
        say(f"… and {len(report.rejected) - _SHOWN} more; --json lists all.")
    click.echo(json.dumps(report.content(), indent=2) if as_json else report.table())
    return 0 if report.complete else 1


def _collect_seldom() -> None:
    """Look for garbage cycles seldom: an import makes none, and looking costs it a fifth."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(200_000, 50, 100)


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
        task = bar.add_task("import", total=total_bytes(paths, types()))
        yield lambda done: bar.update(task, advance=done)


commands = [import_]
