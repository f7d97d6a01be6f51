"""Security headers of answers, and the host names under which pages are shown."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from flask.testing import FlaskClient

from fhirapp.auth.models import CLINICIAN
from fhirapp.auth.protector import VIA_PROXY
from tests.support.browsing import Browser, add_person, address_of

HSTS = "max-age=31536000"

PATHS = (
    *(
        "/",
        "/sign-in",
        "/docs",
        "/static/style.css",
        "/fhir/metadata",
        "/fhir/Patient/p1",
        "/nowhere",
    ),
    *("/oauth/token", "/oauth/authorize", "/.well-known/smart-configuration", "/openapi.json"),
    *("/health/live", "/fhir/nonsense", "/api/AllergyIntolerance"),
)


def test_every_answer_forbids_to_guess_its_media_type(app):
    for path in PATHS:
        with app.test_client().get(path) as answer:
            assert answer.headers["X-Content-Type-Options"] == "nosniff", path


def test_answers_to_programs_run_nothing_and_cannot_be_framed(app):
    for path in ("/fhir/metadata", "/health/live", "/fhir/AllergyIntolerance", "/x"):
        with app.test_client().get(path) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy


def test_sign_out_clears_the_storage_of_the_browser(app):
    browser = Browser(app).resume(add_person(app, CLINICIAN))
    token = browser.get("/account").form("Sign out").fields["form_token"]
    response = browser.client.post(
        "/sign-out", data={"form_token": token}, base_url=address_of(app)
    )
    assert (response.status_code, response.headers["Clear-Site-Data"]) == (303, '"storage"')


@pytest.mark.parametrize(
    ("base_url", "expected"),
    [("https://clinic.example", HSTS), ("http://clinic.example", None), ("", None)],
)
def test_hsts_is_sent_where_the_base_url_is_https(make_app, base_url, expected):
    client = make_app(base_url=base_url).test_client()
    for path in ("/", "/fhir/metadata", "/health/live"):
        assert client.get(path).headers.get("Strict-Transport-Security") == expected


def statuses(client: FlaskClient, hosts: Iterable[str], path: str = "/sign-in") -> dict[str, int]:
    """Return the status of a page by the host that a request names."""
    return {
        host: client.get(path, environ_overrides={"HTTP_HOST": host}).status_code for host in hosts
    }


def test_pages_are_shown_under_the_servers_own_name_only(make_app):
    client = make_app(base_url="https://clinic.example").test_client()
    expected = {
        **dict.fromkeys(("clinic.example", "localhost", "127.0.0.1:8000", "[::1]"), 200),
        **dict.fromkeys(("evil.example", "clinic.example.evil.example", "clinic.example:99"), 421),
        **dict.fromkeys(("localhost.evil.example", "127.0.0.1.evil.example"), 421),
        "127.0.0.1:99999": 421,
    }
    assert statuses(client, expected) == expected
    for host in expected:
        # There are no websockets.
        websocket = {"Host": host, "Upgrade": "websocket", "Connection": "Upgrade"}
        assert client.get("/", headers=websocket).status_code == 400
        # Programs name the server by the address that they were given.
        assert client.get("/fhir/metadata", headers={"Host": host}).status_code == 200
    others = (
        *("clinic.example:80", "clinic.example:8443", "clinic.example..", ".", "[::2]", ""),
        *("evil@clinic.example", "clinic.example/", "clinic.example#", "clinic.example:443:443"),
        *("clinic.example\\", "clinic..example", "clinicexample", "clinic.example,evil.example"),
        "clinic.example:0443x",
    )
    assert set(statuses(client, others).values()) <= {400, 421}


@pytest.mark.parametrize(
    ("configured", "hosts"),
    [
        ("https://FHIR.Clinic.Example", "fhir.clinic.example FHIR.CLINIC.EXAMPLE:443"),
        ("https://clinic.example:443/", "clinic.example clinic.example. clinic.example.:443"),
        ("HTTPS://clinic.example./records/", "clinic.example clinic.example:"),
        ("http://clinic.example:80", "clinic.example clinic.example:80"),
        ("https://clinic.example:8443", "clinic.example:8443 CLINIC.example:8443"),
        ("https://[2001:DB8:0::1]:443", "[2001:db8::1] [2001:0db8:0:0::1]:443"),
        ("https://klinik-müller.example", "xn--klinik-mller-klb.example"),
        ("", "LocalHost:8000 localhost. [::1]:8000 127.0.0.1:80"),
    ],
)
def test_every_spelling_of_the_servers_name_is_accepted(make_app, configured, hosts):
    client = make_app(base_url=configured).test_client()
    path = "/records/sign-in" if "records" in configured else "/sign-in"
    assert set(statuses(client, hosts.split(), path).values()) == {200}
    assert statuses(client, ["rebound.example"], path) == {"rebound.example": 421}


def test_named_proxy_may_use_any_host_name(make_app):
    client = make_app(base_url="https://clinic.example").test_client()
    answer = client.get("/sign-in", headers={"Host": "app:8000"}, environ_base={VIA_PROXY: True})
    assert answer.status_code == 200


def test_fhir_answers_are_private_and_revalidated(fhir):
    answer = fhir.get("Patient/p1")
    assert answer.headers["Cache-Control"] == "no-cache, private"
