"""Make the jobs the only record of the runs of schedules.

Both tables are small. They are read, dropped and made again, so that a new database has the same
columns in the same order, and the runs that had no job are numbered in the order of time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"

_Row = dict[str, Any]
_METADATA = sa.MetaData()
# Sorted by its bytes on both engines.
_TEXT = sa.String().with_variant(sa.String(collation="C"), "postgresql")
_UNDER_WAY, _SUCCESSES = ("queued", "running"), ("done", "idle")
_IS_UNDER_WAY = sa.text("state IN ('queued', 'running')")
_JOB = sa.Table(
    "job",
    _METADATA,
    sa.Column("number", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True),
    sa.Column("id", _TEXT, nullable=False, unique=True),
    sa.Column("kind", _TEXT, nullable=False),
    sa.Column("owner", _TEXT, nullable=False),
    sa.Column("state", _TEXT, nullable=False),
    sa.Column("created_at", sa.Integer, nullable=False),
    sa.Column("ended_at", sa.Integer),
    sa.Column("expires_at", sa.Integer, index=True),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("free_attempts", sa.Integer, nullable=False),
    sa.Column("lease_until", sa.Integer),
    sa.Column("stop_requests", sa.Integer, nullable=False),
    sa.Column("request", sa.JSON, nullable=False),
    sa.Column("progress", sa.JSON, nullable=False),
    sa.Column("error", _TEXT),
    sa.Column("schedule", _TEXT),
    sa.Index("ix_job_kind_owner", "kind", "owner"),
    sa.Index("ix_job_schedule_number", "schedule", "number"),
    sa.Index(
        "ix_job_schedule_under_way",
        "schedule",
        unique=True,
        sqlite_where=_IS_UNDER_WAY,
        postgresql_where=_IS_UNDER_WAY,
    ),
)
_SCHEDULE = sa.Table(
    "schedule",
    _METADATA,
    sa.Column("name", _TEXT, primary_key=True),
    sa.Column("kind", _TEXT, nullable=False),
    sa.Column("timing", _TEXT, nullable=False),
    sa.Column("options", sa.JSON, nullable=False),
    sa.Column("is_paused", sa.Boolean, nullable=False),
    sa.Column("handled_at", sa.BigInteger, nullable=False),
    sa.Column("since", _TEXT),
    sa.Column("idle_at", sa.BigInteger),
)


def upgrade() -> None:
    """Add job.schedule and schedule.idle_at; turn the history of each schedule into jobs."""
    connection = op.get_bind()
    jobs, schedules = (_read(connection, table) for table in (_JOB, _SCHEDULE))
    for table in (_JOB, _SCHEDULE):
        op.drop_table(table.name)
    _METADATA.create_all(connection)
    jobs = [*map(_job, jobs)]
    for schedule in schedules:
        runs = [job for job in jobs if _is_run(job, schedule)]
        for run in runs:
            run["schedule"] = schedule["name"]
        jobs.extend(_runs_without_job(schedule, runs, {job["id"] for job in jobs}))
        idle = [run["ended_at"] for run in schedule["history"] if run["outcome"] == "idle"]
        schedule["idle_at"] = max(idle, default=None)
    jobs.sort(key=lambda job: job["created_at"])
    for table, rows in ((_JOB, jobs), (_SCHEDULE, schedules)):
        names = [column.name for column in table.columns if column.name != "number"]
        values = [{name: row[name] for name in names} for row in rows]
        if values:
            connection.execute(table.insert(), values)


def _read(connection: sa.Connection, table: sa.Table) -> list[_Row]:
    """Return the rows of a table as it was, in the order of its key, with decoded JSON."""
    was = sa.Table(table.name, sa.MetaData(), autoload_with=connection)
    (key,) = was.primary_key.columns
    return [dict(row) for row in connection.execute(sa.select(was).order_by(key)).mappings()]


def _job(row: Mapping[str, Any]) -> _Row:
    """Return a job whose failure is in its error, and whose files may still be being stored.

    Before, the first note said why it failed, and the note before that why they were not stored.
    """
    job = {**row, "progress": dict(row["progress"]), "schedule": None, "free_attempts": 0}
    notes, outcome = [*job["progress"].get("notes", [])], job["progress"].pop("ends", "")
    if outcome:
        job["progress"]["storage_error"] = notes.pop(0)
        job |= {"state": "uploading", "stop_requests": int(outcome == "stopped")}
    if (outcome or job["state"]) == "failed" and job["error"] is None and notes:
        job["error"] = notes.pop(0)
    job["progress"]["notes"] = notes
    return job


def _is_run(job: Mapping[str, Any], schedule: Mapping[str, Any]) -> bool:
    """Return whether a job is a run of a schedule; only one is under way."""
    is_own = job["owner"] == f"schedule:{schedule['name']}" and job["kind"] == schedule["kind"]
    return is_own and (job["state"] not in _UNDER_WAY or job["id"] == schedule["job_id"])


def _runs_without_job(
    schedule: Mapping[str, Any], runs: list[_Row], known: set[str]
) -> Iterator[_Row]:
    """Yield a job for each run that has none: it could not begin, or its job was removed."""
    history = [*reversed(schedule["history"])]
    ended = [run for run in history if run["outcome"] not in ("idle", "skipped")]
    # It was claimed by a process that was killed before it added the job.
    if schedule["job_id"]:
        at = schedule["began_at"] or schedule["handled_at"]
        lost = {"began_at": at, "ended_at": at, "outcome": "interrupted", "note": ""}
        ended.append({**lost, "job_id": schedule["job_id"]})
    # The last success may be later than every success in the history.
    successes = [run["ended_at"] for run in history if run["outcome"] in _SUCCESSES]
    successes += [run["ended_at"] or 0 for run in runs if run["state"] == "done"]
    at = schedule["succeeded_at"]
    if at is not None and at > max(successes, default=0):
        success = {"began_at": at, "ended_at": at, "outcome": "done", "note": ""}
        ended.append({**success, "job_id": None})
    for run in ended:
        if run["job_id"] not in known:
            is_failed = run["outcome"] in ("failed", "interrupted")
            yield {
                "id": run["job_id"] or token_hex(12),
                "kind": schedule["kind"],
                "owner": f"schedule:{schedule['name']}",
                "state": run["outcome"],
                "created_at": run["began_at"],
                "ended_at": run["ended_at"],
                "expires_at": None,
                "attempts": 0,
                "free_attempts": 0,
                "lease_until": None,
                "stop_requests": 0,
                "request": {},
                "progress": {"notes": [run["note"]] if run["note"] and not is_failed else []},
                "error": run["note"] or None if is_failed else None,
                "schedule": schedule["name"],
            }
