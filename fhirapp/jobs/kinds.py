"""The kinds of jobs and schedules, which features declare."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from fhirapp.config import RefusedCommand, Settings
from fhirapp.feature import features, imported
from fhirapp.jobs.process import Tracker
from fhirapp.jobs.queue import Job

if TYPE_CHECKING:
    from fhirapp.jobs.schedules import Schedule

# Does a job within its process; the text is the passphrase, or empty. Returns a note for the job's
# page, or an empty text.
JobFunction = Callable[[Settings, Job, Tracker, str], str]


class FormField(NamedTuple):
    """A field of the form of a schedule; the texts are translated by the page."""

    label: str
    hint: str = ""
    value: str = ""
    is_tick: bool = False
    is_count: bool = False
    is_needed: bool = False


@dataclass(frozen=True)
class ScheduleKind:
    """A kind of schedule. Each of its runs is a job of the kind with the same name."""

    name: str
    label: str
    # The options in the form.
    fields: Mapping[str, FormField]
    # The path of the page that shows a run's job.
    job_path: str
    # Checks the name and the options of a new schedule. Raises ConfigurationError.
    check: Callable[[Settings, str, Mapping[str, Any]], None] = lambda *_: None
    # Options that only the command takes.
    more_options: frozenset[str] = frozenset()
    # Makes the folders that a new schedule needs; only the command asks for that. Raises
    # ConfigurationError.
    make_folders: Callable[[Mapping[str, Any]], None] = lambda _options: None
    # Whether there is work at a time, in seconds since 1970. Raises ConfigurationError.
    has_work: Callable[[Schedule, int], bool] = lambda _schedule, _now: True
    # The passphrase of a run, which is stored nowhere. Raises ConfigurationError.
    passphrase: Callable[[Schedule], str] = lambda _schedule: ""
    # Further values of the request of a run's job, beside the options.
    request: Callable[[Schedule], Mapping[str, Any]] = lambda _schedule: {}
    # How many files failed and need attention.
    count_failed: Callable[[Schedule], int] = lambda _schedule: 0

    @property
    def options(self) -> frozenset[str]:
        """The names of its options."""
        return self.more_options | self.fields.keys()


@dataclass(frozen=True, kw_only=True)
class BuiltInKind(ScheduleKind):
    """A kind whose only schedule a setting adds and removes. It has the name of its kind."""

    # When it runs, as Timing reads it; empty for never.
    timing: Callable[[Settings], str]
    # Does a run within the server's process and an app context, at a time in seconds since 1970.
    # Returns a note for its job.
    run: Callable[[int], str]
    # Shown to a user who tries to run, pause or remove it.
    refusal: str


def job_kinds() -> Mapping[str, str]:
    """Return the reference of the function of each kind of job."""
    return {kind: reference for feature in features() for kind, reference in feature.jobs.items()}


def schedule_kinds() -> Mapping[str, ScheduleKind]:
    """Return the kinds of schedules by name."""
    kinds: list[ScheduleKind] = [
        imported(reference) for feature in features() for reference in feature.schedule_kinds
    ]
    return {kind.name: kind for kind in kinds}


def addable_kinds() -> Mapping[str, ScheduleKind]:
    """Return the kinds of which users add schedules, by name."""
    return {
        name: kind for name, kind in schedule_kinds().items() if not isinstance(kind, BuiltInKind)
    }


def count_failed(schedule: Schedule) -> int:
    """Return how many files of a schedule failed and need attention."""
    kind = schedule_kinds().get(schedule.kind)
    return kind.count_failed(schedule) if kind else 0


def check_folder(folder: str) -> None:
    """Check a folder that a schedule names. Raises RefusedCommand where there is none."""
    if not Path(folder).is_absolute() or not Path(folder).is_dir():
        raise RefusedCommand(
            "The folder %(folder)s does not exist. Enter an absolute path, starting with /.",
            folder=folder,
        )
