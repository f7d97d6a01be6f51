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
from fhirapp.jobs import queue, schedules
from fhirapp.jobs.kinds import addable_kinds
from fhirapp.jobs.queue import DONE, UPLOADING, Job
from fhirapp.jobs.schedules import ScheduleRuns

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
        zone, listed = settings_of(app).zone, schedules.schedules()
        runs_of = schedules.runs_of(*listed)
    for row in listed:
        due_at, runs = row.due_at(zone), runs_of[row.name]
        due = datetime.fromtimestamp(due_at, zone).isoformat(timespec="minutes") if due_at else None
        if as_json:
            click.echo(json.dumps({**row._asdict(), "next": due, **_as_json(runs)}))
        else:
            state = _state_of(runs)
            click.echo(f"{row.name}  {row.kind}  {row.timing}  next {due or 'paused'}  {state}")


def _state_of(runs: ScheduleRuns) -> str:
    if runs.current:
        return "running"
    if runs.is_idle:
        return "nothing to do"
    return _result_of(runs.ended[0]) if runs.ended else "not run yet"


def _result_of(job: Job) -> str:
    """Return how a run ended, in words."""
    sentences = [f"{job.outcome}.", job.summary]
    if job.state == UPLOADING:
        sentences.append(f"Its files are still being stored: {job.progress.storage_error}.")
    return " ".join(filter(None, sentences))


def _as_json(runs: ScheduleRuns) -> dict[str, Any]:
    return {
        "job_id": runs.current and runs.current.id,
        "began_at": runs.current and runs.current.created_at,
        "succeeded_at": runs.succeeded_at,
        "failed_at": runs.failed_at,
        "failures": len(runs.failures),
        "history": [
            {
                "began_at": job.created_at,
                "ended_at": job.ended_at,
                "outcome": job.state,
                "note": job.summary,
                "job_id": job.id,
            }
            for job in runs.ended
        ],
    }


@schedule.command("add")
@click.argument("name")
@click.argument("kind", type=click.Choice([*addable_kinds()]))
@click.argument("when")
@click.option("--folder", help="Folder for the backups, or the folder to watch.")
@click.option("--keep", type=click.IntRange(1), help="Keep only so many of its backups.")
@click.option("--drill", is_flag=True, help="Verify each backup.")
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
        timing = schedules.add(name, kind, when, options, int(time.time()), make_folders=True)
    say(f"The schedule {name} runs {timing}, while a server runs.")


@schedule.command("remove")
@click.argument("name")
@demo_option
def remove(name: str, demo: bool | None) -> None:
    """Remove a schedule; its backups and imported records stay."""
    with opened_app(demo):
        schedules.remove(name)
    say(f"The schedule {name} is removed.")


@schedule.command("run")
@click.argument("name")
@demo_option
def run(name: str, demo: bool | None) -> int:
    """Run a schedule now, and wait until the run ends."""
    with opened_app(demo):
        job_id = schedules.run_now(name, int(time.time()))
        while (job := queue.find_any(job_id)) and job.is_under_way:
            time.sleep(_LOOK_SECONDS)
    if job is None:
        raise click.ClickException("The job of the run was removed.")
    say(_result_of(job))
    return 0 if job.outcome == DONE else 2
