"""The job of a scheduled pull: what changed at another FHIR server is imported."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from shutil import rmtree
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from flask import current_app

from fhirapp.config import ConfigurationError, RefusedCommand, Settings, settings_of
from fhirapp.core import current_core
from fhirapp.db import with_patience
from fhirapp.disk import is_older
from fhirapp.feature import N_
from fhirapp.features.imports.downloads import downloads_folder
from fhirapp.features.imports.folder import REPAIR, SOURCE
from fhirapp.features.imports.inputs import total_bytes
from fhirapp.features.imports.jobs import PULL, ScheduledImport, reason_of
from fhirapp.features.pull.authorization import read_key
from fhirapp.features.pull.download import download_all
from fhirapp.features.pull.folder import LOCK
from fhirapp.features.pull.remote import is_export, origin, redact_url
from fhirapp.fhir.temporal import moment_of
from fhirapp.file_locks import lock
from fhirapp.jobs import queue, schedules
from fhirapp.jobs.kinds import FormField, ScheduleKind
from fhirapp.jobs.process import MADE, Tracker
from fhirapp.jobs.queue import WORKS, Job
from fhirapp.store.import_models import PATIENCE
from fhirapp.url_syntax import with_parameters

# How long the files of a download that failed are kept.
_KEPT_SECONDS = 7 * 24 * 3_600


def pull(settings: Settings, job: Job, tracker: Tracker, _passphrase: str) -> str:
    """Import what changed at another server since the last run that brought everything.

    Raises ConfigurationError; the next run then asks for the same again.
    """
    request = job.request

    def say(message: str) -> None:
        tracker.progress.notes = [message]
        tracker.note()

    tracker.phase(WORKS)
    address, key = request["address"], request.get("key")
    if request["since"]:
        address = with_parameters(address, [("_since", request["since"])])
    downloads = download_all(
        [address],
        downloads_folder(settings),
        request.get("client_id"),
        key and Path(key),
        say,
        complete=False,
        prefix=f"{request['schedule']}.",
    )
    tracker.progress.notes = []
    made = tracker.folder / MADE
    made.mkdir(mode=0o700, exist_ok=True)
    with with_patience(PATIENCE), current_core(settings):
        tracker.phase(WORKS, total_bytes(downloads.paths))
        report = ScheduledImport(settings, job, tracker).run(downloads, made)
        # Asked anew, the server may have mended what was rejected.
        downloads.delete()
        if not report.complete:
            raise ConfigurationError(f"{reason_of(report)} The next run asks for the same again.")
        time_there = next(iter(downloads.times), "")
        if not _is_moment(time_there):
            return "The server does not tell the time of its export: the next is of everything."
        schedules.remember_since(job.id, time_there)
    return ""


def sweep(now: int) -> None:
    """Remove the downloads that no run continued for a week, and those of removed schedules."""
    folders = [*downloads_folder(settings_of(current_app)).glob("*/")]
    if not folders or any(job.is_under_way for job in queue.jobs(PULL)):
        # A run of a removed schedule goes on; its files are read while it imports them.
        return
    names = {"", *(schedule.name for schedule in schedules.schedules())}
    for folder in folders:
        schedule, _, _ = folder.name.rpartition(".")
        if schedule not in names or is_older(folder, now - _KEPT_SECONDS):
            with lock(folder / LOCK, wait=False, create=True) as is_free:
                if is_free is not False:
                    rmtree(folder, ignore_errors=True)


def _is_moment(text: str) -> bool:
    try:
        return bool(moment_of(text))
    except ValueError:
        return False


def _check(_settings: Settings, _name: str, options: Mapping[str, Any]) -> None:
    address, key = options.get("address") or "", options.get("key")
    if not address:
        raise RefusedCommand(
            "Enter the URL of an export, such as https://fhir.example/fhir/$export."
        )
    origin(address)
    if not is_export(address):
        raise RefusedCommand(
            "%(place)s is not the URL of an export. Use a URL such as "
            "https://fhir.example/fhir/$export.",
            place=redact_url(address),
        )
    if any(name == "_since" for name, _value in parse_qsl(urlsplit(address).query)):
        raise RefusedCommand("Remove _since from the URL: each run sets it.")
    if bool(key) != bool(options.get("client_id")):
        raise RefusedCommand("A client id needs a key file, and a key file needs a client id.")
    if key:
        read_key(Path(key))
    since = options.get("since")
    if since and not _is_moment(since):
        raise RefusedCommand("%(text)r is not a date or time.", text=since)


SCHEDULE = ScheduleKind(
    name=PULL,
    label=N_("Import from another server"),
    fields={
        "address": FormField(
            N_("URL"),
            N_("The URL of its Bulk Data export: https://fhir.example/fhir/$export"),
            is_needed=True,
        ),
        "client_id": FormField(
            N_("Client id"), N_("This server's client id at that server. Leave empty for none.")
        ),
        "key": FormField(N_("Private key file"), N_("Path on the server to a JWK.")),
        "source": SOURCE,
        "repair": REPAIR,
    },
    more_options=frozenset({"since"}),
    job_path="/admin/imports/{job_id}",
    check=_check,
    # The page of an import shows these names of files.
    request=lambda run: {
        "names": [redact_url(run.options["address"])],
        "count": 1,
        "provenance": True,
    },
)
