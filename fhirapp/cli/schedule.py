"""`fhirapp schedule`: what the server does at set times."""

from __future__ import annotations

import json
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from fhirapp.cli.common import demo_option, opened_app, say
from fhirapp.config import settings_of
from fhirapp.jobs import schedules
from fhirapp.jobs.kinds import addable_kinds
from fhirapp.jobs.queue import DONE
from fhirapp.server import scheduler

_LOOK_SECONDS = 0.5


@click.group("schedule")
def schedule() -> None:
    """What the server does at set times."""


@schedule.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object for each schedule.")
@demo_option
def list_(as_json: bool, demo: bool | None) -> None:
    """List the schedules, with their next run and how the last one ended."""
    with opened_app(demo) as app:
        zone, found = settings_of(app).zone, schedules.schedules()
    for one in found:
        due_at = one.due_at(zone)
        due = datetime.fromtimestamp(due_at, zone).isoformat(timespec="minutes") if due_at else None
        last = one.last
        if as_json:
            click.echo(json.dumps({**one._asdict(), "next": due, "history": _shown(one)}))
            continue
        state = (
            "running" if one.job_id else f"{last.outcome} {last.note}" if last else "not run yet"
        )
        click.echo(f"{one.name}  {one.kind}  {one.timing}  next {due or 'paused'}  {state.strip()}")


def _shown(one: schedules.Schedule) -> list[dict[str, Any]]:
    return [vars(run) for run in one.history]


@schedule.command("add")
@click.argument("name")
@click.argument("kind", type=click.Choice([*addable_kinds()]))
@click.argument("when")
@click.option("--folder", help="Folder for the backups, or the folder to watch.")
@click.option("--keep", type=click.IntRange(1), help="Keep only so many of its backups.")
@click.option("--drill", is_flag=True, help="Test each backup.")
@click.option("--encrypt", is_flag=True, help="Take no backup without a passphrase.")
@click.option("--passphrase-file", help="File whose first line is the passphrase.")
@click.option("--address", help="Address of the other server's $export.")
@click.option("--client-id", help="Client id at that server.")
@click.option("--key", help="File with its private key, a JWK.")
@click.option("--since", help="First pull: only what changed since then, else everything.")
@click.option("--source", help="Name of the system that the records come from.")
@click.option("--repair", is_flag=True, help="Repair invalid records by fixed rules.")
@demo_option
def add(name: str, kind: str, when: str, demo: bool | None, **options: Any) -> None:
    """Add a schedule: hourly, 'every 15 minutes', 'daily 02:00' or 'weekly sunday 02:00'.

    KIND is backup, folder (import what is put there) or pull (import what changed at a server).
    """
    for option in ("folder", "passphrase_file", "key"):
        # The server runs in another folder.
        options[option] = str(Path(options[option]).absolute()) if options[option] else None
    with opened_app(demo):
        timing = scheduler.add(name, kind, when, options, int(time.time()), make_folders=True)
    say(f"The schedule {name} runs {timing}, while a server runs.")


@schedule.command("remove")
@click.argument("name")
@demo_option
def remove(name: str, demo: bool | None) -> None:
    """Remove a schedule; its backups and imported records stay."""
    with opened_app(demo):
        scheduler.remove(name)
    say(f"The schedule {name} is removed.")


@schedule.command("run")
@click.argument("name")
@demo_option
def run(name: str, demo: bool | None) -> int:
    """Run a schedule now, and wait until the run ends."""
    with opened_app(demo):
        scheduler.run_now(name, int(time.time()))
        while schedules.settle(one := schedules.find(name), int(time.time())):
            time.sleep(_LOOK_SECONDS)
        last = (schedules.find(name) if one.job_id else one).last
    assert last is not None
    say(f"{last.outcome}. {last.note}".strip())
    return 0 if last.outcome == DONE else 2
