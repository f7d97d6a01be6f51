"""What was imported: on the pages, and at the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from sqlalchemy import select

from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.disk.flock import is_left
from fhirapp.exchange.importing.report import OUTCOMES
from fhirapp.exchange.models import ImportRun, ImportSource
from fhirapp.fhir.temporal import moment_of
from fhirapp.ops.tasks import folder as tasks
from fhirapp.ops.tasks.folder import DONE, IMPORT, Task
from fhirapp.web.admin import running
from fhirapp.web.texts import _

# So many are listed.
_RUNS = 50


class Run(NamedTuple):
    """A line of the list: when in seconds since 1970, by whom, of what, what came of it."""

    began_at: int
    who: str
    what: str
    phase: str
    counts: Mapping[str, int]
    # The page of an import that was begun on a page.
    path: str = ""
    is_under_way: bool = False
    is_done: bool = False


def runs() -> list[Run]:
    """Return the imports, newest first: those of the pages, and those of the command line."""
    here = tasks.every(settings().instance, IMPORT)[:_RUNS]
    # Of a dry run it is a number in the copy.
    of_tasks = {task.state.run for task in here if not task.asked.get("dry_run")}
    found = [
        *map(_run_of_task, here),
        *(run for run_id, run in _run_rows() if run_id not in of_tasks),
    ]
    return sorted(found, key=lambda run: run.began_at, reverse=True)[:_RUNS]


def _run_of_task(task: Task) -> Run:
    what = ": ".join(filter(None, [task.asked.get("source"), files_of(task)]))
    if task.asked.get("dry_run"):
        what = _("dry run: %(what)s", what=what)
    return Run(
        task.asked_at,
        task.who,
        what,
        running.phase_of(task),
        total_of(task),
        f"/admin/imports/{task.id}",
        task.is_under_way,
        task.state.phase == DONE,
    )


def files_of(task: Task) -> str:
    """Return what an import was given: the first names, how many files, how large."""
    # One of an earlier release may say less.
    names, count = task.asked.get("names", []), task.asked.get("count", 0)
    more = _("%(count)s more", count=count - len(names)) if count > len(names) else ""
    size = running.size_of(task.asked.get("size", 0))
    return f"{', '.join(filter(None, [*names, more]))} ({size})"


def _run_rows() -> Iterator[tuple[int, Run]]:
    """Yield what the database knows of imports, with their numbers."""
    named = select(ImportRun, ImportSource.name).outerjoin(
        ImportSource, ImportSource.id == ImportRun.source_id
    )
    newest = None
    for run, source in db.session.execute(named.order_by(ImportRun.id.desc()).limit(_RUNS)):
        newest = newest or run.id
        inputs = ", ".join(one.rsplit("/", 1)[-1] for one in run.inputs[:3])
        if run.outcome is not None:
            phase = _("done")
        elif run.ended_at is None and run.id == newest and _one_is_at_work():
            phase = _("at work")
        else:
            phase = _("broken off")
        what = ": ".join(filter(None, [source, inputs])) or _("standard input")
        yield (
            run.id,
            Run(
                int(moment_of(run.began_at).timestamp()),
                run.who,
                what,
                phase,
                _sum(run.outcome or {}),
                is_done=run.outcome is not None,
            ),
        )


def _one_is_at_work() -> bool:
    path = settings().instance / "import.lock"
    return path.exists() and not is_left(path)


def total_of(task: Task) -> Mapping[str, int]:
    """Return what came of an import: each outcome with its count, of all types."""
    return _sum(task.state.counts)


def _sum(counts: Mapping[str, Mapping[str, int]]) -> Mapping[str, int]:
    """Return the counts of all types together."""
    return {
        outcome: sum(of_type.get(outcome, 0) for of_type in counts.values()) for outcome in OUTCOMES
    }
