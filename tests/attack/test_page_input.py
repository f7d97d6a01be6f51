"""Hostile input to pages: redirects, echoed markup, forwarded headers and cookies."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape
from itertools import product

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, Client, User
from fhirapp.web.cookies import SESSION, VISITOR
from fhirapp.web.pages import local_path
from tests.support.authorizing import alter
from tests.support.browsing import PASSWORD, Browser, add_person, cookie_name
from tests.support.helpers import BASE_URL
from tests.support.page_addresses import EXAMPLE_UUID, NO_PAGES, addresses
from tests.support.pages import assert_page

IMAGE = "<img src=x onerror=alert(1)>"
SCRIPT = "<script>alert('x')</script>\"'<b>"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture(scope="module")
def browsers(clinic: Flask) -> dict[str, Browser]:
    """A browser of nobody's, of a clinician's and of an administrator's."""
    found = {"nobody": Browser(clinic)}
    for role in (CLINICIAN, ADMINISTRATOR):
        found[role] = Browser(clinic).resume(add_person(clinic, role))
    return found


def sign_in_location(app: Flask, back: str | None, **typed: str) -> str:
    """Return where a sign-in leads whose page was asked for with `next`."""
    browser = Browser(app)
    page = browser.get("/sign-in", query_string={} if back is None else {"next": back})
    fields = {**page.form("Sign in").fields, "username": "clinician", "password": PASSWORD}
    answer = browser.client.post("/sign-in", base_url=BASE_URL, data=fields | typed)
    assert answer.status_code == 303
    return answer.headers["Location"]


def test_sign_in_leads_to_a_page_of_this_site_only(clinic):
    elsewhere = (
        *("https://evil.example/", "//evil.example/", "///evil.example/", "/\\evil.example/"),
        *("\\/evil.example", "\\\\evil.example", "/\t/evil.example", "/\n/evil.example"),
        *("\t//evil.example", " //evil.example", "/\r\nLocation: https://evil.example"),
        *("http:evil.example", "javascript:alert(1)", "evil.example", "", "/é", "/\0", "/\x7f"),
        *("/" * 2000, "/" + "a" * 16_000, "%2F%2Fevil.example", "account", None),
    )
    assert {local_path(back) for back in elsewhere} == {"/start"}
    own = (
        *("/account/apps", "/oauth/authorize/abc?patient=other", "/launch?name=%2F%2Fevil.example"),
        *("/%2F%2Fevil.example", "/a/..//evil.example", "/?//evil.example", "/@evil.example"),
        "/:80",
    )
    assert {back: local_path(back) for back in own} == {back: back for back in own}
    for back in ("//evil.example/", None, "/\\evil.example/"):
        assert sign_in_location(clinic, back) == "/start"
        assert sign_in_location(clinic, back, next=back or "") == "/start"
    assert sign_in_location(clinic, own[1]) == own[1]


NAMES = ("next", "code", "name", "born", "patient", "kind", "q", "role", "done", "client")


def assert_not_echoed(browser: Browser, path: str, name: str) -> None:
    page = browser.get(path, query_string={name: SCRIPT})
    assert page.status < 500, (path, name)
    assert_page(page)


def test_query_of_a_page_is_not_echoed_as_markup(browsers):
    for path, name in (
        *(("/sign-in", "next"), ("/sign-in", "done"), ("/apps/register", "kind")),
        *(("/launch", "patient"), ("/notes", "q"), ("/admin/clients", "client")),
    ):
        assert_not_echoed(browsers[ADMINISTRATOR], path, name)


@pytest.mark.campaign
@pytest.mark.parametrize("name", NAMES)
def test_query_of_every_page_is_not_echoed_as_markup(clinic, browsers, name):
    for address in addresses(clinic, "GET"):
        if address.rule not in NO_PAGES:
            assert_not_echoed(browsers[ADMINISTRATOR], address.path, name)


@pytest.mark.parametrize("part", [IMAGE, "%00", "%F0%9F", "é", "a" * 3000, ".."])
def test_path_of_a_page_is_not_echoed_as_markup(clinic, browsers, part):
    for method in ("GET", "POST"):
        for address in addresses(clinic, method):
            if "<" not in address.rule:
                continue
            path = address.path.replace("/x", f"/{part}").replace(EXAMPLE_UUID, part)
            page = browsers[ADMINISTRATOR]._open(method, path)
            assert page.status in (400, 404), address
            assert IMAGE not in page.response.text


def test_form_input_is_not_echoed_as_markup(clinic, browsers):
    """What was typed stands in the form again, as text."""
    browser = browsers["nobody"]
    page = browser.get("/sign-in").submit("Sign in", username=SCRIPT, password="x")
    assert page.form("Sign in").fields["username"] == SCRIPT
    assert SCRIPT not in page.response.text
    assert SCRIPT in unescape(page.response.text)
    assert_page(page)


@pytest.fixture(scope="module")
def named_in_markup(make_app: Callable[..., Flask]) -> Browser:
    """An administrator's browser, of an app whose users and clients have markup as names."""
    app = make_app()
    person = add_person(app, ADMINISTRATOR)
    alter(
        app,
        update(User).values(name=SCRIPT),
        update(Client).values(name=SCRIPT, developer=SCRIPT, contact=SCRIPT),
    )
    return Browser(app).resume(person)


def test_stored_text_is_not_shown_as_markup(named_in_markup):
    shown = 0
    for path in ("/account", "/account/password", "/launch?patient=p1", "/admin/clients"):
        page = named_in_markup.get(path)
        assert page.status == 200
        assert_page(page)
        assert SCRIPT not in page.response.text
        shown += SCRIPT in unescape(page.response.text)
    assert shown == 4


FORWARDED = (
    {"X-Forwarded-Host": "evil.example"},
    {"X-Forwarded-For": "203.0.113.1", "X-Forwarded-Proto": "http"},
    {"X-Forwarded-Prefix": "/evil", "X-Forwarded-Port": "1"},
    {"Forwarded": "for=203.0.113.1;host=evil.example;proto=http"},
    {"X-Original-URL": "/admin/users", "X-Rewrite-URL": "/admin/users"},
    {"X-HTTP-Method-Override": "DELETE"},
)


def test_forwarded_headers_of_strangers_change_nothing(clinic, browsers):
    # A client with cookies would send them to the host that is named.
    client = clinic.test_client(use_cookies=False)
    for role, cookie in (("nobody", VISITOR), (CLINICIAN, SESSION)):
        browsers[role].get("/sign-in")
        value = browsers[role].cookie(cookie)
        assert value
        cookies = {"Cookie": f"{cookie_name(clinic, cookie)}={value}"}
        for path, headers in product(("/sign-in", "/account"), FORWARDED):
            plain = client.get(path, base_url=BASE_URL, headers=cookies)
            forwarded = client.get(path, base_url=BASE_URL, headers=cookies | headers)
            for header in ("Location", "Content-Security-Policy", "Content-Type", "Set-Cookie"):
                assert forwarded.headers.get(header) == plain.headers.get(header), path
            assert forwarded.status_code == plain.status_code
            assert "evil" not in forwarded.text


def test_failures_are_counted_by_the_address_of_the_connection(clinic):
    person, browser = add_person(clinic, CLINICIAN), Browser(clinic)
    form = browser.get("/sign-in").form("Sign in")
    statuses = []
    for at in range(6):
        fields = {**form.fields, "username": person, "password": "wrong"}
        headers = {"X-Forwarded-For": f"203.0.113.{at}", "X-Real-IP": f"203.0.113.{at}"}
        statuses.append(browser.post("/sign-in", fields, headers=headers).status)
    assert statuses == [403] * 5 + [429]


def test_cookies_that_are_not_text_are_ignored(clinic):
    client = clinic.test_client(use_cookies=False)
    for cookie in (b"\xff\xfe", b"%s=\xff", b"%s=\xc3\xa9", b";;=;,", b"a" * 9000):
        text = cookie.replace(b"%s", cookie_name(clinic).encode()).decode("latin-1")
        answer = client.get("/account", base_url=BASE_URL, headers={"Cookie": text})
        assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in?next=%2Faccount")
    browser = Browser(clinic)
    page = browser.get("/sign-in")
    name, visitor = cookie_name(clinic, VISITOR), browser.cookie(VISITOR)
    fields = {**page.form("Sign in").fields, "username": "clinician", "password": PASSWORD}
    headers = {"Cookie": f"other=\xff; {name}={visitor}"}
    answer = client.post("/sign-in", base_url=BASE_URL, data=fields, headers=headers)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/start")
