"""/metrics of a running server: numbers of all its processes, on an address of its own."""

from __future__ import annotations

import os
import re
import signal
import time
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path

from tests.support.serving import Server, get
from tests.support.shell import fhirapp


class Scraped:
    """What Prometheus fetches of a server that was started in a folder."""

    def __init__(self, folder: Path) -> None:
        found = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", (folder / "log").read_text())
        assert found is not None
        self.port = int(found[1])

    def text(self, path: str = "/metrics") -> tuple[int, str]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=30)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

    def value(self, name: str) -> float:
        """Return a metric's value, 0 where nothing was counted yet."""
        status, text = self.text()
        assert status == 200
        found = re.search(rf"^{re.escape(name)} (\S+)$", text, re.M)
        return float(found[1]) if found else 0.0


READS = 'fhirapp_requests_total{interaction="read",status="401",type="AllergyIntolerance"}'


UNKNOWN = 'fhirapp_requests_total{interaction="unknown",status="404",type=""}'


def test_requests_resources_and_caches_of_all_processes_are_counted(start, tmp_path):
    server = start("--demo", METRICS="127.0.0.1:0")
    scraped = Scraped(tmp_path)
    done = fhirapp(tmp_path, "token", "issue", "--demo", "--scope", "system/*.rs")
    bearer = f"Authorization: Bearer {done.stdout.strip()}"
    for _ in range(12):
        assert server.ask(get("/fhir/AllergyIntolerance/al-p1-latex"))[0].status == 401
    for number in range(3):
        server.ask(get(f"/nothing-{number}"))
        server.ask(get("/fhir/AllergyIntolerance?_count=5", bearer))
    search = '{interaction="search_type",type="AllergyIntolerance"}'
    seconds = 'fhirapp_request_seconds_count{interaction="read",type="AllergyIntolerance"}'
    counted = {
        READS: 12,
        UNKNOWN: 3,
        seconds: 12,
        f"fhirapp_resources_total{search}": 15,
        "fhirapp_requests_in_flight": 0,
        "fhirapp_queue_seconds_count": 18,
        "fhirapp_ready": 1,
        "fhirapp_audit_writable": 1,
        'fhirapp_events_total{event="settings-changed"}': 1,
    }
    assert {name: scraped.value(name) for name in counted} == counted
    assert scraped.value(f"fhirapp_database_seconds_total{search}") > 0
    assert scraped.value("fhirapp_database_bytes") > 1_000_000
    assert scraped.value("fhirapp_disk_free_bytes") > 0
    for cache in ("tokens", "totals"):
        looks = [
            scraped.value(f'fhirapp_cache_total{{cache="{cache}",result="{result}"}}')
            for result in ("hit", "miss")
        ]
        assert sum(looks) == 3, cache
        assert looks[1] >= 1, cache
    _status, text = scraped.text()
    assert not re.search(r"al-p1|nothing-1|/fhir/", text)
    # On that address nothing else is answered, and on the other no metrics.
    assert scraped.text("/fhir/metadata")[0] == 404
    assert server.ask(get("/metrics"))[0].status == 404


def test_last_import_is_counted_by_type_and_outcome(start, tmp_path):
    records = tmp_path / "records.ndjson"
    records.write_text('{"resourceType": "Patient", "id": "p1"}\n{"resourceType": "Patient"}\n')
    assert fhirapp(tmp_path, "import", str(records)).returncode == 1
    start("--port", "0", METRICS="127.0.0.1:0")
    scraped = Scraped(tmp_path)
    assert 0 <= scraped.value("fhirapp_import_age_seconds") < 600
    of_patients = 'fhirapp_import_resources{outcome="%s",type="Patient"}'
    assert scraped.value(of_patients % "new") == 1
    assert scraped.value(of_patients % "rejected") == 1


def test_counts_of_a_killed_process_remain(start, tmp_path):
    server = start("--demo", METRICS="127.0.0.1:0")
    scraped = Scraped(tmp_path)
    pids = all_processes(server)
    for _ in range(6):
        server.ask(get("/fhir/AllergyIntolerance/al-p1-latex"))
    kill(server, pids[0])
    server.ask(get("/fhir/AllergyIntolerance/al-p1-latex"))
    assert scraped.value(READS) == 7
    assert scraped.value("fhirapp_requests_in_flight") == 0


def test_killed_process_of_metrics_is_replaced_and_logged(start, tmp_path):
    server = start("--demo", METRICS="127.0.0.1:0")
    server.ask(get("/fhir/AllergyIntolerance/al-p1-latex"))
    pid = all_processes(server)[-1]
    kill(server, pid)
    assert Scraped(tmp_path).value(READS) == 1
    assert (
        f"server process {pid} ended (status 9); it is replaced" in (tmp_path / "log").read_text()
    )


def all_processes(server: Server) -> list[int]:
    """Return the two processes that serve, and the one of metrics, which starts last."""
    while len(pids := server.serving()) < 3:
        time.sleep(0.05)
    return pids


def kill(server: Server, pid: int) -> None:
    """Kill a process, and wait until it is replaced."""
    os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while pid in server.serving() or len(server.serving()) < 3:
        assert time.monotonic() < deadline
        time.sleep(0.05)
