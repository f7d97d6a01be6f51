"""The service below a path of its host: FHIRAPP_BASE_URL=https://clinic.example/records."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from flask import Flask, Response
from werkzeug.test import TestResponse

from fhirapp.config import ConfigurationError
from tests.support.browsing import Browser, add_person

BASE = "https://clinic.example/records"
# What a browser or htmx asks for, as it stands in a tag.
ADDRESS = re.compile(r'<[^<>]*\s(?:href|src|action|formaction|hx-get|hx-post|data-\w+)="(/[^"]*)"')
# What ends the session, makes a picture of all records, or is downloaded.
LEFT = ("/records/sign-out", "/records/openapi.json")


@pytest.fixture
def below(make_app: Callable[..., Flask]) -> Flask:
    return make_app(base_url=BASE)


def get(browser: Browser, address: str) -> TestResponse:
    return browser.client.get(address, base_url="https://clinic.example", buffered=True)


@pytest.mark.parametrize("role", ["administrator", "clinician", "patient"])
def test_every_link_of_every_page_leads_below_the_path(below, role):
    records = ["p1"] if role == "patient" else []
    person = Browser(below).resume(add_person(below, role, *records))
    waiting, seen = ["/records/"], {"/records/"}
    routes: dict[str, int] = {}
    while waiting:
        address = waiting.pop()
        answer = get(person, address)
        while answer.status_code == 303:
            address = answer.headers["Location"]
            assert address.startswith("/records/"), address
            answer = get(person, address)
        assert answer.status_code < 500, address
        if answer.mimetype != "text/html":
            continue
        assert answer.status_code == 200, (address, answer.text)
        for found in ADDRESS.findall(answer.text):
            found = found.replace("&amp;", "&")
            assert found.startswith("/records"), (address, found)
            # One page of each kind; its forms are sent elsewhere.
            kind = re.sub(r"[^/]*\d[^/]*", "#", found.partition("?")[0])
            if routes.setdefault(kind, 0) < 2 and found not in seen and not found.startswith(LEFT):
                routes[kind] += 1
                seen.add(found)
                if not re.search(rf'action="{re.escape(found)}"', answer.text):
                    waiting.append(found)
    assert len(routes) > 25


def test_a_proxy_may_take_the_path_off_or_leave_it(below):
    nobody = below.test_client()
    for path in ("/records/health/ready", "/health/ready", "/records/fhir/metadata", "/records"):
        assert nobody.get(path).status_code == 200, path
    assert nobody.get("/recordsfhir/metadata").status_code == 404
    statement = nobody.get("/records/fhir/metadata").get_json()
    assert statement["implementation"]["url"] == f"{BASE}/fhir"
    smart = nobody.get("/records/fhir/.well-known/smart-configuration").get_json()
    assert smart["token_endpoint"] == f"{BASE}/oauth/token"


def test_who_signs_in_comes_back_below_the_path(below):
    username = add_person(below, "clinician")
    person = Browser(below)
    asked = get(person, "/records/patients?name=a")
    assert asked.headers["Location"].startswith("/records/sign-in?next=%2Fpatients")
    page = person.get(asked.headers["Location"])
    page = page.submit("Sign in", username=username, password="demo")
    assert (page.status, page.path) == (200, "/records/patients?name=a")


def test_cookies_are_for_the_path_alone(below):
    person = Browser(below)
    sent = person.get("/records/sign-in").headers["Set-Cookie"]
    assert sent.startswith("__Secure-fhirapp_visitor_")
    assert "Path=/records" in sent
    # What other services of the host keep in the browser stays there.
    person.resume(add_person(below, "clinician"))
    left = person.post("/records/sign-out")
    assert "Clear-Site-Data" not in left.headers


def test_text_of_a_record_is_not_taken_for_a_link(below):
    with below.test_request_context("/"):
        shown = (
            '<p title="href=&#34;/x">src="/a" <a href="/b">href="/c"</a> <a href="//d">e</a></p>'
        )
        answer = below.process_response(Response(shown, mimetype="text/html"))
    assert answer.get_data(as_text=True) == shown.replace('"/b"', '"/records/b"')


@pytest.mark.parametrize("path", ["/a b", "/a//b", "/a/../b", "/a%20b", "/.hidden"])
def test_an_odd_path_is_refused(make_app, path):
    with pytest.raises(ConfigurationError, match="FHIRAPP_BASE_URL"):
        make_app(base_url=f"https://clinic.example{path}")


@pytest.mark.parametrize("path", ["/admin", "/fhir/metadata", "/notes"])
def test_a_path_that_is_within_the_service_is_refused(make_app, path):
    with pytest.raises(ConfigurationError, match="choose another path"):
        make_app(base_url=f"https://clinic.example{path}")
