"""`fhirapp export`: everything that is stored, into a folder."""

from __future__ import annotations

import json
from pathlib import Path

import click

from fhirapp.cli.common import demo_option, opened_app, progress_bar, say
from fhirapp.config import ConfigurationError
from fhirapp.definition import types
from fhirapp.features.exports.export import ExportOptions, command_of, export_to, types_to_export
from fhirapp.features.exports.files import ExportManifest
from fhirapp.fhir.temporal import instant_of, interval


@click.command("export")
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--type", "names", multiple=True, metavar="T", help="Only this type; repeatable.")
@click.option("--since", metavar="INSTANT", help="Only what was published or deleted since then.")
@click.option("--history", is_flag=True, help="Every version and deletion.")
@click.option("--gzip", "compressed", is_flag=True, help="Compress the files.")
@click.option("--json", "as_json", is_flag=True, help="Print the manifest as JSON.")
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
    """Export all records to NDJSON files in DIR, for `fhirapp import`."""
    start = _instant(since)
    with opened_app(demo), progress_bar("Exporting") as progress:
        options = ExportOptions(types_to_export(types(), names), start, history, compressed)
        request = command_of(names, start, history=history, compressed=compressed)
        binary = types()["Binary"]
        manifest = export_to(folder, options, binary, request=request, progress=progress)
    if binary not in options.types and any(type_.attachments for type_ in options.types):
        say("The files of documents are not exported; add --type Binary for them.")
    click.echo(json.dumps(manifest.content(request), indent=2) if as_json else _table(manifest))
    return 0


def _instant(since: str | None) -> str | None:
    """Return the instant that --since names. Raises ConfigurationError."""
    if since is None:
        return None
    try:
        return instant_of(interval(since).low)
    except ValueError as error:
        raise ConfigurationError(f"--since: {since!r} {error}.") from None


def _table(manifest: ExportManifest) -> str:
    """Return the counts of an export as a table for the terminal."""
    head = f"{'file':<32}{'resources':>10}{'versions':>10}{'bytes':>14}"
    rows = [
        f"{file.url:<32}{file.lines:>10}{file.versions:>10}{file.size:>14}"
        for file in manifest.files
    ]
    return "\n".join([head, *rows])
