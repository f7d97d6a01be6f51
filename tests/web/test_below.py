"""The service under a path of its host: FHIRAPP_BASE_URL=https://clinic.example/records."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask, Response
from werkzeug.test import TestResponse

from fhirapp.auth.models import CLINICIAN
from fhirapp.config import ConfigurationError
from tests.support.browsing import Browser, add_person
from tests.support.pages import browser_of, submit_to

BASE = "https://clinic.example/records"
# Addresses in a tag that a browser or htmx requests.
ADDRESS = re.compile(r'<[^<>]*\s(?:href|src|action|formaction|hx-get|hx-post|data-\w+)="(/[^"]*)"')


@pytest.fixture(scope="module")
def below(make_app: Callable[..., Flask]) -> Flask:
    return make_app(base_url=BASE)


def get(browser: Browser, address: str) -> TestResponse:
    return browser.client.get(address, base_url="https://clinic.example", buffered=True)


def test_links_of_a_page_lead_below_the_path(below):
    browser = browser_of(below, CLINICIAN)
    for path in ("/records/", "/records/patients/p1", "/records/explore", "/records/account"):
        found = ADDRESS.findall(get(browser, path).text)
        assert len(found) > 10
        assert [address for address in found if not address.startswith("/records")] == [], path


def test_proxy_may_strip_the_path_or_leave_it(below):
    nobody = below.test_client()
    for path in ("/records/health/ready", "/health/ready", "/records/fhir/metadata", "/records"):
        assert nobody.get(path).status_code == 200, path
    assert nobody.get("/recordsfhir/metadata").status_code == 404
    statement = nobody.get("/records/fhir/metadata").get_json()
    assert statement["implementation"]["url"] == f"{BASE}/fhir"
    smart = nobody.get("/records/fhir/.well-known/smart-configuration").get_json()
    assert smart["token_endpoint"] == f"{BASE}/oauth/token"


def test_sign_in_leads_back_below_the_path_and_its_cookies_are_for_the_path(below):
    username, browser = add_person(below, CLINICIAN), Browser(below)
    answer = get(browser, "/records/patients?name=a")
    assert answer.headers["Location"].startswith("/records/sign-in?next=%2Fpatients")
    page = browser.get(answer.headers["Location"])
    cookie = page.headers["Set-Cookie"]
    assert cookie.startswith("__Secure-fhirapp_visitor_")
    assert "Path=/records" in cookie
    page = submit_to(page, "/records/sign-in", username=username, password="demo")
    assert (page.status, page.path) == (200, "/records/patients?name=a")
    # Other services of the host keep their data in the browser.
    assert "Clear-Site-Data" not in browser.post("/records/sign-out").headers


def test_text_of_a_record_is_not_taken_for_a_link(below):
    shown = '<p title="href=&#34;/x">src="/a" <a href="/b">href="/c"</a> <a href="//d">e</a></p>'
    with below.test_request_context("/"):
        answer = below.process_response(Response(shown, mimetype="text/html"))
    assert answer.get_data(as_text=True) == shown.replace('"/b"', '"/records/b"')


def test_invalid_path_is_refused_at_the_start(make_app):
    for paths, message in (
        (("/a b", "/a//b", "/a/../b", "/a%20b", "/.hidden"), "FHIRAPP_BASE_URL"),
        (("/admin", "/fhir/metadata", "/notes"), "choose another path"),
    ):
        for path in paths:
            with pytest.raises(ConfigurationError, match=message):
                make_app(base_url=f"https://clinic.example{path}")
