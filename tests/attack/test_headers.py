"""What every answer says to browsers, and under which names pages are shown."""

from __future__ import annotations

import pytest

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


@pytest.mark.parametrize("path", PATHS)
def test_no_browser_guesses_a_media_type(app, path):
    with app.test_client().get(path) as answer:
        assert answer.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/fhir/metadata", "/health/live", "/fhir/AllergyIntolerance", "/x"]
)
def test_nothing_runs_in_an_answer_and_nobody_frames_it(app, path):
    with app.test_client().get(path) as answer:
        policy = answer.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy


def test_what_the_browser_keeps_goes_when_the_person_signs_out(app):
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
def test_browsers_keep_to_https_where_it_is_the_servers_address(make_app, base_url, expected):
    client = make_app(base_url=base_url).test_client()
    for path in ("/", "/fhir/metadata", "/health/live"):
        assert client.get(path).headers.get("Strict-Transport-Security") == expected


@pytest.mark.parametrize(
    ("host", "status"),
    [
        *(("clinic.example", 200), ("localhost", 200), ("127.0.0.1:8000", 200), ("[::1]", 200)),
        *(("evil.example", 421), ("clinic.example.evil.example", 421), ("clinic.example:99", 421)),
        *(
            ("localhost.evil.example", 421),
            ("127.0.0.1.evil.example", 421),
            ("127.0.0.1:99999", 421),
        ),
    ],
)
def test_pages_are_shown_under_the_servers_own_name_only(make_app, host, status):
    client = make_app(base_url="https://clinic.example").test_client()
    answer = client.get("/sign-in", headers={"Host": host})
    assert answer.status_code == status
    # `GET http://evil.example HTTP/1.1`: it is not sent on to / of whatever it names.
    for more in ({"Upgrade": "websocket", "Connection": "Upgrade"}, {}):
        headers = {"Host": host, **more}
        no_path = client.get("/", headers=headers, environ_overrides={"PATH_INFO": ""})
        assert no_path.status_code == status
    # What programs read they name by the address that they were given.
    assert client.get("/fhir/metadata", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    ("configured", "hosts"),
    [
        (
            "https://FHIR.Clinic.Example",
            ("fhir.clinic.example", "FHIR.CLINIC.EXAMPLE", "fhir.clinic.example:443"),
        ),
        (
            "https://fhir.clinic.example:443/",
            ("fhir.clinic.example", "fhir.clinic.example.", "fhir.clinic.example.:443"),
        ),
        ("HTTPS://fhir.clinic.example./records/", ("fhir.clinic.example", "fhir.clinic.example:")),
        ("http://fhir.clinic.example:80", ("fhir.clinic.example", "fhir.clinic.example:80")),
        (
            "https://fhir.clinic.example:8443",
            ("fhir.clinic.example:8443", "FHIR.clinic.example:8443"),
        ),
        ("https://[2001:DB8:0::1]:443", ("[2001:db8::1]", "[2001:0db8:0:0::1]:443")),
        ("https://klinik-müller.example", ("xn--klinik-mller-klb.example",)),
        ("", ("LocalHost:8000", "localhost.", "[::1]:8000", "127.0.0.1:80")),
    ],
)
def test_spellings_of_the_servers_name_are_the_same_name(make_app, configured, hosts):
    client = make_app(base_url=configured).test_client()
    path = "/records/sign-in" if "records" in configured else "/sign-in"
    for host in hosts:
        assert client.get(path, headers={"Host": host}).status_code == 200, host


@pytest.mark.parametrize(
    "host",
    [
        *("fhir.clinic.example:80", "fhir.clinic.example:8443", "fhir.clinic.example..", "."),
        *("evil@fhir.clinic.example", "fhir.clinic.example/", "fhir.clinic.example#", ""),
        *("fhir.clinic.example:443:443", "fhir.clinic.example\\", "fhir..clinic.example", "[::2]"),
        *("fhirclinic.example", "fhir.clinic.example,evil.example", "fhir.clinic.example:0443x"),
    ],
)
def test_what_only_looks_like_the_servers_name_is_refused(make_app, host):
    client = make_app(base_url="https://fhir.clinic.example").test_client()
    answer = client.get("/sign-in", environ_overrides={"HTTP_HOST": host})
    assert answer.status_code in (400, 421)


def test_a_named_proxy_may_use_any_name(make_app):
    client = make_app(base_url="https://clinic.example").test_client()
    answer = client.get("/sign-in", headers={"Host": "app:8000"}, environ_base={VIA_PROXY: True})
    assert answer.status_code == 200


def test_without_an_address_of_its_own_a_server_answers_loopback_names_only(make_app):
    client = make_app(base_url="").test_client()
    assert client.get("/sign-in", headers={"Host": "localhost:8000"}).status_code == 200
    assert client.get("/sign-in", headers={"Host": "rebound.example"}).status_code == 421


def test_fhir_answers_keep_how_they_may_be_kept(fhir):
    answer = fhir.get("Patient/p1")
    assert answer.headers["Cache-Control"] == "no-cache, private"


@pytest.mark.parametrize("path", ["/sign-in", "/nowhere", "/../AllergyIntolerance/_search"])
def test_a_form_that_is_sent_with_no_host_that_can_be_is_refused(app, path):
    response = app.test_client().post(path, data={"x": "y"}, headers={"Host": "a" * 200})
    assert 400 <= response.status_code < 500
