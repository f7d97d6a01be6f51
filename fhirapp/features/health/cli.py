"""The commands `doctor` and `logs`."""

from __future__ import annotations

import json
import textwrap
from datetime import UTC, datetime

import click

from fhirapp import create_app
from fhirapp.cli.common import demo_option
from fhirapp.config import RefusedCommand
from fhirapp.db import db
from fhirapp.environment import load_settings
from fhirapp.features.health.examine import examine
from fhirapp.probe import GOOD, NOTE, WRONG, Cost
from fhirapp.server import live_settings
from fhirapp.server.logs import last_errors

_MARKS = {GOOD: "ok", NOTE: "note", WRONG: "WRONG"}


@click.command()
@click.option("--quick", is_flag=True, help="Skip what reads whole files.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each finding.")
@demo_option
def doctor(quick: bool, as_json: bool, demo: bool | None) -> int:
    """Check settings, address, disk, database, audit trail, backups and jobs; say what to do.

    The exit code is 1 if something is wrong, so that cron reports it.
    """
    app = create_app(load_settings(demo=demo))
    with app.app_context():
        live_settings.refresh(app)
        result = examine(*(cost for cost in Cost if cost < Cost.WHOLE or not quick))
        db.engine.dispose()
    for title, findings in result.findings.items():
        for finding in findings:
            words, advice = finding.in_english()
            if as_json:
                fields = {"what": title, "state": finding.state, "words": words, "advice": advice}
                click.echo(json.dumps(fields))
                continue
            click.echo(f"{_MARKS[finding.state]:5}  {title}: {words}")
            if advice:
                click.echo(f"       {advice}")
    return 1 if result.has(WRONG) else 0


@click.command()
@click.argument("request_id", required=False, metavar="[ID]")
@click.option("--since", help="From this day or time on, UTC: 2026-03-01, 2026-03-01T09:00.")
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each.")
@demo_option
def logs(request_id: str | None, since: str | None, as_json: bool, demo: bool | None) -> None:
    """Print the latest warnings and errors, newest first, or those of one request ID."""
    entries = last_errors(load_settings(demo=demo).instance)
    if since is not None:
        moment = _moment(since)
        entries = [entry for entry in entries if datetime.fromisoformat(entry.time) >= moment]
    if request_id is not None:
        entries = [entry for entry in entries if entry.request == request_id]
        if not entries:
            raise RefusedCommand(
                f"No warnings or errors of this server are kept for the request ID {request_id}."
            )
    for entry in entries:
        if as_json:
            click.echo(json.dumps(entry._asdict()))
            continue
        click.echo(
            f"{entry.time} {entry.level} {entry.logger} {entry.request or '-'}: {entry.message}"
        )
        if entry.traceback:
            click.echo(textwrap.indent(entry.traceback, "    "))


def _moment(text: str) -> datetime:
    """Return a day or an instant; without a zone it is UTC. Raises RefusedCommand."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise RefusedCommand(f"{text!r} is not a date or time; use 2026-03-01T09:00.") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
