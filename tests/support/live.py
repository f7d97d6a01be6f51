"""The demo as users run it, in a process of its own, for clients of other projects.

A pytest plugin: the modules that share its servers name it in `pytest_plugins`.
"""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from sqlalchemy import Connection

from fhirapp import create_app
from fhirapp.db import db, writing
from fhirapp.environment import load_settings
from fhirapp.features.demo.accounts import BACKEND, DEMO_KEY, SECRET
from tests.support.client_questions import MORE, Search
from tests.support.contract import SERVED, Held, versions_held
from tests.support.helpers import FHIR_JSON
from tests.support.node import NODE, node_is_there
from tests.support.serving import WAIT_SECONDS, listening_port
from tests.support.shell import MAIN, environment, fhirapp


class Demo:
    """A running demo."""

    def __init__(self, instance: Path, port: int, url: str) -> None:
        self.url = url
        self.fhir = f"{self.url}/fhir"
        self.key: dict[str, Any] = json.loads((instance / "demo" / DEMO_KEY).read_bytes())
        # In this process, on the same database.
        self._twin = create_app(load_settings({}, instance_path=str(instance), demo=True))
        self.held = versions_held(self._twin)
        self._instance = instance
        self._port = port

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> bytes:
        """Return the body of an answer, whatever its status."""
        # A new connection each time: the server closes idle ones.
        with closing(HTTPConnection("127.0.0.1", self._port, timeout=WAIT_SECONDS)) as connection:
            connection.request(method, path, body or None, headers)
            return connection.getresponse().read()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """Open a transaction in the server's database, as in a request to the server."""
        with self._twin.test_request_context(base_url=self.url), writing() as connection:
            yield connection

    def close(self) -> None:
        """Leave the database."""
        with self._twin.app_context():
            db.engine.dispose()

    def token(self, scope: str = "system/*.rs") -> str:
        """Return a token that the demo's client got for its secret."""
        secret = base64.b64encode(f"{BACKEND}:{SECRET}".encode()).decode()
        form = urlencode({"grant_type": "client_credentials", "scope": scope})
        kind = {
            "Authorization": f"Basic {secret}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        token: str = json.loads(self.ask("POST", "/oauth/token", form, **kind))["access_token"]
        return token

    def patient_token(self, patient: str) -> str:
        """Return a token that sees one patient, from the shell."""
        words = ("token", "issue", "--demo", "--scope", "patient/*.rs", "--patient", patient)
        return fhirapp(self._instance, *words).stdout.strip()

    def ids(self, search: Search) -> list[str]:
        """Return the ids that a search must find, sorted."""
        newest = {row_id: versions[-1] for row_id, versions in self.held[search.type].items()}
        matches = (row_id for row_id, row in newest.items() if row and search.belongs(row))
        return sorted(matches)

    @cached_property
    def answers(self) -> dict[str, bytes]:
        """The body of each answer, by path under /fhir: reads, versions, histories and MORE."""
        kind = {"Authorization": f"Bearer {self.token()}", "Accept": FHIR_JSON}
        paths = [*_addresses(self.held), *MORE]
        return {path: self.ask("GET", f"/fhir/{path}", **kind) for path in paths}


def _addresses(held: Held) -> Iterator[str]:
    """Yield the address of each resource, of its versions and of its history."""
    for name, resources in held.items():
        interactions = SERVED[name].interactions
        for row_id, versions in resources.items():
            path = f"{name}/{row_id}"
            yield path
            if "vread" in interactions:
                yield from (f"{path}/_history/{number + 1}" for number in range(len(versions)))
            if "history-instance" in interactions:
                yield f"{path}/_history"


@contextmanager
def run(folder: Path, *, port: int = 0, **settings: str) -> Iterator[Demo]:
    """Run `fhirapp serve --demo`, by default on a port of its own; settings lack their prefix."""
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", MAIN, "serve", "--demo", "--port", str(port)],
            env=environment(folder, **settings),
            stdout=log,
            stderr=log,
            text=True,
        )
    try:
        port = listening_port(process, folder / "log")
        base = settings.get("BASE_URL") or f"http://127.0.0.1:{port}"
        with closing(Demo(folder, port, base)) as running:
            yield running
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo as it starts without any setting."""
    with run(tmp_path_factory.mktemp("demo")) as running:
        yield running


# Numbers as no seeded resource has them, with zeros that a float would lose.
MEASURED = """{
  "resourceType": "AllergyIntolerance",
  "id": "al-p14-measured",
  "clinicalStatus": {"coding": [{
    "system": "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical",
    "code": "active"
  }]},
  "code": {"text": "Latex"},
  "patient": {"reference": "Patient/p14"},
  "onsetRange": {"low": {"value": 1.50}, "high": {"value": 0.000001}}
}"""


@pytest.fixture(scope="session")
def complete_demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """The demo for clients that refuse a document without content (decisions 2.12)."""
    folder = tmp_path_factory.mktemp("complete")
    records = folder / "measured.ndjson"
    records.write_text(MEASURED.replace("\n", ""))
    done = fhirapp(folder, "import", "--demo", str(records))
    assert done.returncode == 0, done.stderr
    with run(folder, EMPTY_CONTENT="dar") as running:
        yield running


@pytest.fixture(scope="session")
def node() -> Callable[[str, object], Any]:
    """Return a function that runs a script of tests/node with JSON, and returns JSON."""
    node_is_there()

    def run_script(name: str, given: object) -> Any:
        done = subprocess.run(
            ["node", str(NODE / name)],
            input=json.dumps(given),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return json.loads(done.stdout)

    return run_script
