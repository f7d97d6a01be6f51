"""The manual's Caddy and nginx, in front of a server of its own name and of one below a path."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest
from flask import Flask

from fhirapp import create_app
from fhirapp.audit.entries import entries
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.environment import load_settings
from fhirapp.features.imports.importer import import_paths
from tests.support import proxies
from tests.support.balancer import balance
from tests.support.browsing import Browser
from tests.support.bulk import ASYNC, Exports
from tests.support.contract import allergy
from tests.support.helpers import Fhir, token_for
from tests.support.proxies import BELOW, CLIENT, OWN, Front
from tests.support.serving import WAIT_SECONDS
from tests.support.shell import MAIN, environment

# Of some kilobytes each: the file of an export is larger than any buffer on its way.
ALLERGIES, NOTE = 1_500, "x" * 4_000


class Service(NamedTuple):
    """A server: its port and its log, and an app of this process on its folder and database."""

    port: int
    log: Path
    app: Flask


@pytest.fixture(scope="session")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Service]]:
    """A server of each address, as the manual sets it."""
    made: dict[str, Service] = {}
    with ExitStack() as stack:
        # Begun together: each takes a while.
        for base in (OWN, BELOW):
            folder = tmp_path_factory.mktemp("server")
            variables = {"BASE_URL": base, "TRUSTED_PROXY": "127.0.0.1", "PROCESSES": "1"}
            port = stack.enter_context(_served(folder, variables))
            environ = {f"FHIRAPP_{name}": value for name, value in variables.items()}
            app = create_app(load_settings(environ, instance_path=str(folder)))
            made[base] = Service(port, folder / "log", app)
        for service in made.values():
            until(lambda service=service: "serves FHIR R4 at" in service.log.read_text())
            with service.app.app_context():
                records = _records(service.log.parent)
                import_paths([records], types(), settings_of(service.app))
        yield made
    for service in made.values():
        with service.app.app_context():
            db.engine.dispose()


def _records(folder: Path) -> Path:
    path = folder / "records.ndjson"
    with path.open("w") as file:
        for number in range(ALLERGIES):
            file.write(json.dumps(allergy(f"a{number:04}", "p1", note=[{"text": NOTE}])) + "\n")
    return path


@contextmanager
def _served(folder: Path, variables: dict[str, str]) -> Iterator[int]:
    """Run `fhirapp serve` on a port of its own."""
    port, log = proxies.free_port(), folder / "log"
    with log.open("w") as file:
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", MAIN, "serve", "--port", str(port)],
            env=environment(folder, **variables),
            stdout=file,
            stderr=file,
        )
    try:
        yield port
    finally:
        process.terminate()
        process.wait(WAIT_SECONDS)


def until(ask: Callable[[], Any]) -> Any:
    """Return an answer once it is there."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not (found := ask()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


@pytest.fixture(scope="session", params=["caddy", "nginx"])
def front(
    request: pytest.FixtureRequest,
    services: Mapping[str, Service],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Front]:
    """A proxy in front of both."""
    run = {"caddy": proxies.caddy, "nginx": proxies.nginx}[request.param]
    with run(tmp_path_factory.mktemp("proxy"), services[OWN].port, services[BELOW].port) as made:
        yield made


@pytest.fixture(params=[OWN, BELOW], ids=["own name", "below a path"])
def base(request: pytest.FixtureRequest) -> str:
    """The address that clients use."""
    address: str = request.param
    return address


@pytest.fixture
def app(front: Front, services: Mapping[str, Service], base: str) -> Flask:
    """The app on the server's database, whose clients ask through the proxy."""
    app = services[base].app
    balance(app, [front.asked(base)])
    return app


@pytest.fixture
def fhir(app: Flask) -> Fhir:
    return Fhir(app, token_for(app, "system/*.rs"))


def path_of(base: str) -> str:
    return urlsplit(base).path


def test_page_loads_its_style_below_any_path(app, base):
    browser = Browser(app)
    page = browser.get(f"{path_of(base)}/sign-in")
    assert (page.status, page.heading) == (200, "Sign in")
    style = browser.client.get("/static/style.css")
    assert (style.status_code, style.mimetype) == (200, "text/css")
    assert f'href="{path_of(base)}/static/style.css?v=' in page.response.text
    assert page.headers["Strict-Transport-Security"]
    assert app.test_client().get("/health/ready").get_json() == {"status": "ready"}


def test_links_of_fhir_answers_have_the_public_address(fhir, base):
    bundle = fhir.read("AllergyIntolerance?_count=1&patient=p1")
    assert bundle["entry"][0]["fullUrl"].startswith(f"{base}/fhir/AllergyIntolerance/")
    links = {link["relation"]: link["url"] for link in bundle["link"]}
    following = fhir.read(links["next"].removeprefix(base))
    assert following["entry"][0]["fullUrl"] != bundle["entry"][0]["fullUrl"]
    found = fhir.post("AllergyIntolerance/_search", {"patient": "p1", "_count": "0"})
    assert found.get_json(force=True)["total"] == ALLERGIES
    smart = fhir.read(".well-known/smart-configuration")
    assert smart["token_endpoint"] == f"{base}/oauth/token"


def test_export_files_are_complete(app, base, front):
    exports = Exports(app)
    begun = exports.kick_off("$export?_type=AllergyIntolerance", **ASYNC)
    status = begun.headers["Content-Location"].removeprefix(base)

    def manifest() -> Any:
        answer = exports.get(status)
        assert answer.status_code in (200, 202), answer.text
        return answer.get_json() if answer.status_code == 200 else None

    (file,) = until(manifest)["output"]
    answer = exports.get(file["url"].removeprefix(base))
    assert len(answer.data) > ALLERGIES * len(NOTE)
    assert len(answer.data.splitlines()) == file["count"] == ALLERGIES
    assert "temporary file" not in front.log.read_text()


def test_audit_trail_has_the_address_of_the_client_not_a_forged_one(app, fhir):
    answer = fhir.get("AllergyIntolerance/a0001", headers={"X-Forwarded-For": "203.0.113.9"})
    assert answer.status_code == 200
    with app.app_context():
        (entry, *_) = entries(limit=1)
    assert (entry.address, entry.request_id) == (CLIENT, answer.headers["X-Request-Id"])
    # The proxy's own id: those of the server have 16 digits.
    assert len(entry.request_id) >= 32


def test_http_leads_to_https(front):
    with closing(HTTPConnection("127.0.0.1", front.plain_port, timeout=WAIT_SECONDS)) as plain:
        plain.request("GET", "/fhir/metadata?x=1", headers={"Host": urlsplit(OWN).netloc})
        answer = plain.getresponse()
        assert answer.status in (301, 308)
        assert answer.headers["Location"] == f"{OWN}/fhir/metadata?x=1"
