"""What strangers send to every page: where it leads, what is echoed, what it changes."""

from __future__ import annotations

from collections.abc import Callable
from html import unescape

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, Client, User
from fhirapp.web.cookies import SESSION, VISITOR
from fhirapp.web.pages import local_path
from tests.support.authorizing import alter
from tests.support.browsing import PASSWORD, Browser, add_person, cookie_name
from tests.support.helpers import BASE_URL
from tests.web.test_pages import NO_PAGES, UUID, addresses, assert_page

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


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/",
        "//evil.example/",
        "///evil.example/",
        "/\\evil.example/",
        "\\/evil.example",
        "\\\\evil.example",
        "/\t/evil.example",
        "/\n/evil.example",
        "\t//evil.example",
        " //evil.example",
        "/\r\nLocation: https://evil.example",
        "http:evil.example",
        "javascript:alert(1)",
        "evil.example",
        "",
        "/é",
        "/\0",
        "/\x7f",
        "/" * 2000,
        "/" + "a" * 16_000,
        "%2F%2Fevil.example",
        "account",
        None,
    ],
)
def test_who_signs_in_stays_on_this_site(clinic, back):
    assert local_path(back) == "/account"
    browser = Browser(clinic)
    page = browser.get("/sign-in", query_string={} if back is None else {"next": back})
    form = page.form("Sign in")
    assert form.fields["next"] == "/account"
    fields = {**form.fields, "username": "clinician", "password": PASSWORD, "next": back or ""}
    answer = browser.client.post("/sign-in", base_url=BASE_URL, data=fields)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/account")


@pytest.mark.parametrize(
    "back",
    [
        "/account/apps",
        "/oauth/authorize/abc?patient=other",
        "/launch?name=%2F%2Fevil.example",
        "/%2F%2Fevil.example",
        "/a/..//evil.example",
        "/?//evil.example",
        "/@evil.example",
        "/:80",
    ],
)
def test_who_asked_for_a_page_of_ours_is_sent_there(clinic, back):
    assert local_path(back) == back
    browser = Browser(clinic)
    form = browser.get("/sign-in", query_string={"next": back}).form("Sign in")
    fields = {**form.fields, "username": "clinician", "password": PASSWORD}
    answer = browser.client.post("/sign-in", base_url=BASE_URL, data=fields)
    assert (answer.status_code, answer.headers["Location"]) == (303, back)


def test_nothing_of_an_address_is_echoed_as_markup(clinic, browsers):
    for name in ("next", "code", "name", "born", "patient", "kind", "q", "role", "done", "client"):
        for one in addresses(clinic, "GET"):
            if one.rule in NO_PAGES:
                continue
            page = browsers[ADMINISTRATOR].get(one.path, query_string={name: SCRIPT})
            assert page.status < 500, (one, name)
            assert_page(page)


@pytest.mark.parametrize("part", [IMAGE, "%00", "%F0%9F", "é", "a" * 3000, ".."])
def test_nothing_of_a_path_is_echoed_as_markup(clinic, browsers, part):
    for method in ("GET", "POST"):
        for one in addresses(clinic, method):
            if "<" not in one.rule:
                continue
            path = one.path.replace("/x", f"/{part}").replace(UUID, part)
            page = browsers[ADMINISTRATOR]._open(method, path)
            assert page.status in (400, 404), one
            assert IMAGE not in page.response.text


def test_nothing_of_a_form_is_echoed_as_markup(clinic, browsers):
    """What was typed stands in the form again, as text."""
    browser = browsers["nobody"]
    page = browser.get("/sign-in").submit("Sign in", username=SCRIPT, password="x")
    assert page.form("Sign in").fields["username"] == SCRIPT
    assert SCRIPT not in page.response.text
    assert SCRIPT in unescape(page.response.text)
    assert_page(page)


def test_nothing_that_is_stored_is_echoed_as_markup(make_app):
    app = make_app()
    person = add_person(app, ADMINISTRATOR)
    alter(
        app,
        update(User).values(name=SCRIPT),
        update(Client).values(name=SCRIPT, developer=SCRIPT, contact=SCRIPT),
    )
    browser = Browser(app).resume(person)
    shown = 0
    for path in ("/account", "/account/password", "/launch?patient=p1", "/admin/clients"):
        page = browser.get(path)
        assert page.status == 200
        assert_page(page)
        assert SCRIPT not in page.response.text
        shown += SCRIPT in unescape(page.response.text)
    assert shown == 4


@pytest.mark.parametrize(
    "headers",
    [
        {"X-Forwarded-Host": "evil.example"},
        {"X-Forwarded-For": "203.0.113.1", "X-Forwarded-Proto": "http"},
        {"X-Forwarded-Prefix": "/evil", "X-Forwarded-Port": "1"},
        {"Forwarded": "for=203.0.113.1;host=evil.example;proto=http"},
        {"X-Original-URL": "/admin/users", "X-Rewrite-URL": "/admin/users"},
        {"X-HTTP-Method-Override": "DELETE"},
    ],
)
def test_what_strangers_say_of_the_address_changes_nothing(clinic, browsers, headers):
    # It would send its cookies to the host that is named.
    client = clinic.test_client(use_cookies=False)
    for role, cookie in (("nobody", VISITOR), (CLINICIAN, SESSION)):
        browsers[role].get("/sign-in")
        name, value = cookie_name(clinic, cookie), browsers[role].cookie(cookie)
        assert value
        cookies = {"Cookie": f"{name}={value}"}
        for one in addresses(clinic, "GET"):
            plain = client.get(one.path, base_url=BASE_URL, headers=cookies)
            said = client.get(one.path, base_url=BASE_URL, headers=cookies | headers)
            for header in ("Location", "Content-Security-Policy", "Content-Type", "Set-Cookie"):
                assert said.headers.get(header) == plain.headers.get(header), one
            assert said.status_code == plain.status_code
            assert "evil" not in said.text


def test_failures_are_counted_by_who_asks_not_by_what_is_said(clinic):
    person, browser = add_person(clinic, CLINICIAN), Browser(clinic)
    form = browser.get("/sign-in").form("Sign in")
    statuses = []
    for at in range(6):
        fields = {**form.fields, "username": person, "password": "wrong"}
        headers = {"X-Forwarded-For": f"203.0.113.{at}", "X-Real-IP": f"203.0.113.{at}"}
        statuses.append(browser.post("/sign-in", fields, headers=headers).status)
    assert statuses == [403] * 5 + [429]


@pytest.mark.parametrize(
    "cookie",
    [
        b"\xff\xfe",
        b"%s=\xff",
        b"%s=\xc3\xa9",
        b";;=;,",
        b"a" * 9000,
    ],
)
def test_cookies_that_are_no_text_are_nobodys(clinic, cookie):
    client = clinic.test_client(use_cookies=False)
    text = cookie.replace(b"%s", cookie_name(clinic).encode()).decode("latin-1")
    headers = {"Cookie": text}
    answer = client.get("/account", base_url=BASE_URL, headers=headers)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/sign-in?next=%2Faccount")


def test_with_a_cookie_that_is_no_text_beside_ours_one_signs_in(clinic):
    browser = Browser(clinic)
    page = browser.get("/sign-in")
    name, visitor = cookie_name(clinic, VISITOR), browser.cookie(VISITOR)
    fields = {**page.form("Sign in").fields, "username": "clinician", "password": PASSWORD}
    headers = {"Cookie": f"other=\xff; {name}={visitor}"}
    client = clinic.test_client(use_cookies=False)
    answer = client.post("/sign-in", base_url=BASE_URL, data=fields, headers=headers)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/account")
