"""A server is killed and PostgreSQL is restarted, while all kinds of clients ask.

No answer is wrong, no export that was accepted is lost, and clients are told to come back for a few
seconds at most. With FHIRAPP_TEST_LONG=1 it all happens again and again, and PostgreSQL
crashes too.
"""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

from werkzeug.test import TestResponse

from fhirapp.auth.models import ADMINISTRATOR
from fhirapp.jobs.queue import DONE, INTERRUPTED
from tests.cluster.load import Load, content, walk
from tests.support.browsing import Browser, add_person
from tests.support.cluster import Cluster, Server
from tests.support.effort import sample
from tests.support.helpers import token_for
from tests.support.import_pages import Upload, patient
from tests.support.jobs import task_id, wait_for

# How long clients may be told to come back after the fault is over.
_RECOVERY_SECONDS = 5.0
# Rounds between two faults, of over a second each.
_BETWEEN = sample(2, 10)
_IMPORTED = 4_000


class Fault(NamedTuple):
    """What happened, and from when to when in seconds of time.monotonic()."""

    name: str
    began: float
    ended: float


class Faults:
    """What is done to the cluster while it is asked."""

    def __init__(self, running: Cluster, load: Load) -> None:
        self._running, self._load = running, load
        self.done: list[Fault] = []

    def each(self) -> None:
        """Let each of them happen, and wait in between until all is well."""
        for happen in (self.kill_a_server, self.restart_postgresql):
            began = time.monotonic()
            happen()
            self.done.append(Fault(happen.__name__, began, time.monotonic()))
            self._load.wait_for_rounds(_BETWEEN)

    def kill_a_server(self) -> None:
        """Kill the one that has a job under way, and start it again later."""
        servers = self._running.servers
        victim = next((server for server in servers if server.jobs()), servers[1])
        victim.kill()
        self._load.wait_for_rounds(_BETWEEN)
        victim.start()
        victim.wait_until_live()

    def restart_postgresql(self) -> None:
        self._running.postgres.stop(mode="immediate" if len(self.done) > 2 else "fast")
        time.sleep(0.5)
        self._running.postgres.start()


def test_faults_are_bounded_and_nothing_is_wrong_or_lost(running):
    load = Load(running)
    faults = Faults(running, load)
    upload = Upload(Browser(running.app).resume(add_person(running.app, ADMINISTRATOR)))
    people = b"".join(patient(f"while-it-fails-{number}") for number in range(_IMPORTED))
    assert upload.send(0, "people.ndjson", people).json == {"have": len(people)}
    with load.going_on():
        load.wait_for_rounds(_BETWEEN)
        begun = upload.begin()
        for _ in range(sample(1, 5)):
            faults.each()

    assert load.wrong == []
    assert_bounded(load, faults.done)
    _assert_exports_end(load)
    _assert_import_told(running, upload, task_id(begun))
    _assert_as_before(running, load)
    for server in running.servers:
        server.command("audit", "verify")


def assert_bounded(load: Load, faults: list[Fault]) -> None:
    """Assert that clients were told to come back only while something failed, and not by all."""
    late = [
        refused
        for refused in load.refused
        if not any(fault.began <= refused.at <= fault.ended + _RECOVERY_SECONDS for fault in faults)
    ]
    assert late == []
    of_servers = [
        refused
        for fault in faults
        for refused in load.refused
        if fault.name == "kill_a_server" and fault.began <= refused.at <= fault.ended
    ]
    # What was sent to the one that was killed, and may not be sent twice: a form.
    assert len(of_servers) <= 5, of_servers
    assert not {refused.kind for refused in of_servers} & {"read", "search", "walk"}, of_servers


def _assert_exports_end(load: Load) -> None:
    """Assert that each export that was accepted is complete in the end."""
    assert load.exports
    for exports, status in load.exports:
        # 429: many are asked for, and each only so often.
        answer = load.running.wait(
            partial(exports.get, status), lambda found: found.status_code not in (202, 429)
        )
        assert answer.status_code == 200, answer.text
        found = [resource["id"] for resource in exports.lines(answer.get_json())]
        assert len(found) == len(set(found))
        assert set(found) == set(load.walked)


def _assert_import_told(running: Cluster, upload: Upload, job_id: str) -> None:
    """Assert that the import is done, or said to be interrupted; run again it is done."""
    job = wait_for(running.app, job_id)
    assert job.state in (DONE, INTERRUPTED), job
    if job.state == INTERRUPTED:
        page = upload.browser.get(f"/admin/imports/{job_id}")
        assert "was interrupted" in page.words
        job = wait_for(running.app, task_id(page.submit("Import again")))
    assert job.state == DONE


def _assert_as_before(running: Cluster, load: Load) -> None:
    """Assert that each server answers what it answered before all this."""
    token = token_for(running.app, "system/*.rs")
    for server in running.servers:
        found = {path: content(server.get(f"/fhir/{path}", token)) for path in load.expected}
        assert found == load.expected
        assert walk(partial(_get, server, token)) == load.walked


def _get(server: Server, token: str, path: str) -> TestResponse:
    return server.get(path if path.startswith("/") else f"/fhir/{path}", token)
