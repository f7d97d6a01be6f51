"""`fhirapp export`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click

from fhirapp.cli.common import demo_option, opened_app, say
from fhirapp.config import ConfigurationError
from fhirapp.definition import types
from fhirapp.exchange.exports.export import Wanted, export_to, wanted_types
from fhirapp.fhir.temporal import instant_of, interval


@click.command("export")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--type", "names", multiple=True, metavar="T", help="Only this type; repeats.")
@click.option("--since", metavar="INSTANT", help="Only what was published or deleted since.")
@click.option("--history", is_flag=True, help="Every version and deletion.")
@click.option("--gzip", "compressed", is_flag=True, help="Compress the files.")
@click.option("--json", "as_json", is_flag=True, help="Report for a program to read.")
@demo_option
def export(
    folder: Path,
    names: tuple[str, ...],
    since: str | None,
    history: bool,
    compressed: bool,
    as_json: bool,
    demo: bool | None,
) -> int:
    """Write everything that is stored to NDJSON files in DIR, which import takes."""
    start = _instant(since)
    with opened_app(demo), _progress() as progress:
        wanted = Wanted(wanted_types(types(), names), start, history, compressed)
        request = _request(names, start, history, compressed)
        binary = types()["Binary"]
        manifest = export_to(folder, wanted, binary, request=request, progress=progress)
    if binary not in wanted.types and any(one.attachments for one in wanted.types):
        say("The bytes of the documents are not in it; for them add --type Binary.")
    click.echo(json.dumps(manifest.content(), indent=2) if as_json else manifest.table())
    return 0


def _instant(since: str | None) -> str | None:
    """Return the instant that --since names. Raises ConfigurationError."""
    if since is None:
        return None
    try:
        return instant_of(interval(since).low)
    except ValueError as error:
        raise ConfigurationError(f"--since: {since!r} {error}.") from None


def _request(names: Sequence[str], since: str | None, history: bool, compressed: bool) -> str:
    """Return the command, without its folder: a manifest tells nothing of the machine."""
    parts = ["fhirapp export", *(f"--type {name}" for name in names)]
    if since is not None:
        parts.append(f"--since {since}")
    return " ".join(parts + ["--history"] * history + ["--gzip"] * compressed)


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show a bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    columns = (TextColumn("Exporting"), BarColumn(), MofNCompleteColumn(), Remaining())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("export", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


commands = [export]
