"""Every page of every blueprint: its headers, its form's token, who may see it.

The pages are those of the app's address map: one that is added is among them by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

import pytest
from flask import Flask
from sqlalchemy import delete

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, ROLES, STAFF, Client
from fhirapp.auth.users import sessions
from fhirapp.db import writing
from tests.support.authorizing import alter
from tests.support.browsing import PASSWORD, Browser, Page, add_person, id_of
from tests.support.helpers import BASE_URL

# Who may see what, by the beginning of its address; the first that fits counts. ANYBODY needs no
# session.
ANYBODY = ("nobody", *ROLES)
WHO = (
    ("/sign-in", ANYBODY),
    ("/sign-out", ANYBODY),
    ("/setup", ANYBODY),
    ("/oauth/authorize", ANYBODY),
    ("/smart-style.json", ANYBODY),
    ("/demo/app", ANYBODY),
    ("/api-docs", ANYBODY),
    ("/docs", ANYBODY),
    ("/language", ANYBODY),
    # Of the demo: elsewhere there are none.
    ("/learn", ANYBODY),
    ("/apps/", ANYBODY),
    ("/account", ROLES),
    ("/explore", ROLES),
    ("/patients", ROLES),
    ("/notes", ROLES),
    ("/launch", (CLINICIAN, ADMINISTRATOR)),
    ("/admin", (ADMINISTRATOR,)),
)
# What is not HTML or only sends on, and what another site's form may be sent to.
NO_PAGES = {
    "/smart-style.json",
    "/admin/plots/<name>.svg",
    "/admin/audit/download/<kind>",
}
NO_PAGES |= {"/explore/address", "/explore/form", "/explore/codes", "/explore/whole"}
NO_PAGES |= {"/learn/<name>/progress", "/learn/classes/<class_id>/results.csv"}
# They lead to an identity provider, and are not there without one.
NO_PAGES |= {f"/sign-in/provider{part}" for part in ("", "/answer", "/leave")}
NO_PAGES |= {f"/admin/{part}/<job_id>/files/<name>" for part in ("imports", "exports")}
NO_PAGES |= {"/patients/<patient_id>/summary/document"}
NO_PAGES |= {"/admin/backups/<name>/file", "/admin/uploads/<upload_id>"}
# It sends on but for the seconds in which a server restarts.
NO_PAGES |= {"/admin/restoring"}
_CONTENT = "/notes/<note_id>/content/<int:number>"
NO_PAGES |= {_CONTENT, f"{_CONTENT}/page/<int:place>.png", f"{_CONTENT}/file"}
# Where people sign in, allow and change who may what, no script runs.
NO_SCRIPTS = ("/sign-in", "/setup", "/oauth/", "/account", "/apps/")
SCRIPTS = re.compile(r'<script src="/static/[a-z./-]+\?v=[0-9a-f]{16}" defer></script>')
FROM_ELSEWHERE = {"/oauth/authorize"}
UUID = "5e0c9a4e-0d5c-4b6a-9b0a-9d1f0e6c1a2b"
TOO_OLD = "This form has expired or did not come from this site. Go back and try again."


class Address(NamedTuple):
    """An address of a page: what it is asked with, and an example of it."""

    method: str
    rule: str
    path: str


def addresses(app: Flask, method: str) -> list[Address]:
    """Return the addresses of our blueprints that take a method."""
    ours = {
        name
        for name, blueprint in app.blueprints.items()
        if blueprint.import_name.startswith("fhirapp.web.")
    }
    return [
        Address(method, rule.rule, example(rule.rule))
        for rule in app.url_map.iter_rules()
        if rule.endpoint.partition(".")[0] in ours and method in (rule.methods or ())
    ]


def example(rule: str) -> str:
    """Return a path that a rule matches."""
    for converter, value in (("<uuid:[^>]*>", UUID), ("<int:[^>]*>", "1"), ("<[^>]*>", "x")):
        rule = re.sub(converter, value, rule)
    return rule


def who_may(rule: str) -> tuple[str, ...]:
    for beginning, roles in WHO:
        if rule.startswith(beginning):
            return roles
    if rule == "/":
        return ANYBODY
    raise AssertionError(f"say in WHO who may see {rule}")


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture(scope="module")
def browsers(clinic: Flask) -> dict[str, Browser]:
    """A browser of each role, signed in, and nobody's."""
    found = {"nobody": Browser(clinic)}
    for role in ROLES:
        found[role] = Browser(clinic).resume(add_person(clinic, role))
    return found


def assert_page(page: Page) -> None:
    """Assert that an answer is a page, with the headers that every page has."""
    assert page.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(one.split(" ", 1) for one in page.headers["Content-Security-Policy"].split("; "))
    assert policy.pop("form-action", "'self'") == "'self'"
    common = {"img-src": "'self' data:", "frame-ancestors": "'none'", "base-uri": "'none'"}
    has_scripts = policy["default-src"] == "'self'"
    if has_scripts:
        assert not page.path.startswith(NO_SCRIPTS)
        assert policy == {**common, "default-src": "'self'", "object-src": "'none'"}
    else:
        assert policy == {**common, "default-src": "'none'", "style-src": "'self'"}
    assert page.headers["X-Frame-Options"] == "DENY"
    assert page.headers["X-Content-Type-Options"] == "nosniff"
    assert page.headers["Referrer-Policy"] == "no-referrer"
    assert page.headers["Cache-Control"] == "no-store"
    # An app may open our pages in a window of its own, and hear from it afterwards.
    assert "Cross-Origin-Opener-Policy" not in page.headers
    assert "Access-Control-Allow-Origin" not in page.headers
    text = page.response.text
    if has_scripts:
        text = SCRIPTS.sub("", text)
    assert text.startswith('<!doctype html>\n<html lang="en">')
    assert page.heading
    # What the policy forbids is not there either.
    assert not re.search(r"<script|<style|<iframe|<base|\sstyle=|\son[a-z]+=|javascript:", text)


def test_there_are_pages(clinic):
    paths = {one.rule for method in ("GET", "POST") for one in addresses(clinic, method)}
    assert {"/sign-in", "/account/apps", "/launch", "/admin/users"} <= paths
    assert len(paths) > 20


def test_every_page_has_the_headers_of_pages(clinic, browsers):
    for one in addresses(clinic, "GET"):
        if one.rule in NO_PAGES:
            continue
        for role, browser in browsers.items():
            page = browser.get(one.path, headers={"Origin": "https://app.example"})
            assert page.status in (200, 400, 403, 404), (one, role)
            assert_page(page)


def test_every_page_says_the_same_to_head(clinic, browsers):
    browser = browsers[ADMINISTRATOR]
    for one in addresses(clinic, "GET"):
        asked = browser.client.get(one.path, base_url=BASE_URL)
        head = browser.client.head(one.path, base_url=BASE_URL)
        assert head.status_code == asked.status_code
        assert head.text == ""


def test_where_a_page_sends_on_nothing_is_kept(clinic, browsers):
    for one in addresses(clinic, "GET"):
        answer = browsers["nobody"].client.get(one.path, base_url=BASE_URL)
        if answer.status_code == 303:
            assert answer.headers["Location"].startswith("/sign-in")
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_every_page_is_for_its_roles_alone(clinic, browsers):
    for one in addresses(clinic, "GET"):
        for role, browser in browsers.items():
            page = browser.get(one.path)
            if role in who_may(one.rule):
                assert page.heading != "You don't have access to this", (one, role)
                asks = one.rule == "/" or one.rule.startswith("/sign-in")
                assert page.heading != "Sign in" or asks, (one, role)
            elif role == "nobody":
                assert page.heading == "Sign in", one
                assert page.form("Sign in").fields["next"] == one.path
            else:
                assert (page.status, page.heading) == (403, "You don't have access to this"), (
                    one,
                    role,
                )


def test_every_form_is_for_its_roles_alone(clinic, browsers):
    for one in addresses(clinic, "POST"):
        for role, browser in browsers.items():
            if role in who_may(one.rule):
                continue
            # The token of a form that this browser may send.
            token = browser.get("/sign-in").form("Sign in").fields["form_token"]
            page = browser.post(one.path, {"form_token": token})
            if role == "nobody":
                assert page.heading == "Sign in", one
                assert page.form("Sign in").fields["next"] == "/account"
            else:
                assert (page.status, page.heading) == (403, "You don't have access to this"), (
                    one,
                    role,
                )


def forged(clinic: Flask, browser: Browser) -> dict[str, dict[str, str]]:
    """Return forms as another site could send them with this browser."""
    token = browser.get("/sign-in").form("Sign in").fields["form_token"]
    other = Browser(clinic).get("/sign-in").form("Sign in").fields["form_token"]
    return {
        "without a token": {},
        "with an empty one": {"form_token": ""},
        "with another browser's": {"form_token": other},
        "with one that was changed": {
            "form_token": token[:-1] + ("0" if token[-1] != "0" else "1")
        },
        "with text that is no ASCII": {"form_token": "é☃"},
    }


def test_every_form_of_another_site_is_refused(clinic, browsers):
    for role in ("nobody", ADMINISTRATOR):
        browser = browsers[role]
        for name, form in forged(clinic, browser).items():
            for one in addresses(clinic, "POST"):
                if one.rule in FROM_ELSEWHERE:
                    continue
                page = browser.post(one.path, form)
                assert (page.status, page.heading) == (400, "Invalid request"), (one, name)
                assert TOO_OLD in page.words
                assert_page(page)


def test_a_token_in_the_address_is_none(clinic, browsers):
    browser = browsers[ADMINISTRATOR]
    token = browser.get("/sign-in").form("Sign in").fields["form_token"]
    assert browser.post(f"/sign-out?form_token={token}").status == 400
    assert browser.get("/account").heading == "Robin Example"


def test_a_token_goes_with_the_session(clinic):
    person, browser = add_person(clinic, CLINICIAN), Browser(clinic)
    form = browser.get("/sign-in").form("Sign in")
    browser.sign_in(person)
    old = {**form.fields, "username": person, "password": PASSWORD}
    assert browser.post("/sign-in", old).status == 400
    account = browser.get("/account")
    browser.sign_in(person)
    assert account.submit("Sign out").status == 400


def test_nothing_but_a_page_comes_of_a_form_that_another_site_may_send(clinic, browsers):
    browser = browsers[ADMINISTRATOR]
    page = browser.post("/oauth/authorize", {"client_id": "x"})
    assert page.status == 400
    assert_page(page)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_other_methods_are_refused(clinic, browsers, method):
    for one in addresses(clinic, "GET"):
        answer = browsers[ADMINISTRATOR].client.open(one.path, method=method, base_url=BASE_URL)
        assert answer.status_code == 405, one


@pytest.mark.parametrize(
    ("options", "status", "heading"),
    [
        ({"query_string": "x=" + "a" * 9000}, 414, "Address too long"),
        ({"headers": {"X-Long": "a" * 40_000}}, 431, "Something went wrong"),
    ],
)
def test_what_is_too_long_is_refused_with_a_page(browsers, options, status, heading):
    page = browsers[CLINICIAN].get("/account", **options)
    assert (page.status, page.heading) == (status, heading)
    assert_page(page)


def test_a_form_that_is_too_long_is_refused_with_a_page(browsers):
    browser = browsers[CLINICIAN]
    page = browser.post("/account/password", {"old": "a" * 2_000_000})
    assert (page.status, page.heading) == (413, "Input too long")
    page = browser.post("/account/password", {f"f{at}": "" for at in range(2000)})
    assert page.status in (400, 413)
    assert_page(page)


def test_a_bug_is_told_by_a_request_id_and_nothing_else(make_app, caplog):
    app = make_app()
    browser = Browser(app).resume("clinician")
    app.view_functions["account.account"] = lambda: 1 / 0
    page = browser.get("/account")
    request_id = page.headers["X-Request-Id"]
    assert page.status == 500
    ending = f"The server encountered an error. Request id: {request_id}"
    assert ending in page.words
    assert "ZeroDivisionError" not in page.response.text
    assert f"request {request_id} failed" in caplog.text
    assert_page(page)


def test_a_patient_finds_no_way_to_what_staff_do(browsers):
    links = browsers[PATIENT].get("/account").links.values()
    assert not any(one.startswith(("/launch", "/admin")) for one in links)


def test_staff_find_what_they_may(browsers):
    assert "/launch" in browsers[CLINICIAN].get("/account").links.values()
    assert not any(
        one.startswith("/admin") for one in browsers[CLINICIAN].get("/account").links.values()
    )
    assert "/admin" in browsers[ADMINISTRATOR].get("/account").links.values()


@pytest.mark.parametrize("role", ["nobody", *ROLES])
def test_the_servers_address_leads_to_where_one_begins(clinic, browsers, role):
    page = browsers[role].get("/")
    assert (page.status, page.path) == (200, "/")
    if role in STAFF:
        # They find a patient on the page itself.
        assert page.response.text.index('action="/patients"') < page.response.text.index("tasks")
    else:
        offered = next(iter(page.offered.values()))
        assert offered == ("/sign-in" if role == "nobody" else "/patients")


def test_who_has_the_second_factor_to_show_shows_it_first(clinic, browsers):
    browser = Browser(clinic)
    username = add_person(clinic, CLINICIAN)
    with clinic.app_context(), writing() as connection:
        browser.set_cookie(sessions.begin(connection, id_of(clinic, username), complete=False))
    assert browser.get("/").path == "/sign-in/code?next=%2F"


def test_administrators_begin_with_how_the_server_is(browsers):
    assert browsers[ADMINISTRATOR].get("/admin").path == "/admin"


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/admin/clients", "apps that developers register at /apps/register wait here"),
        ("/admin/grants", "the consent is listed here with its end date"),
        ("/admin/imports", "Imports from this page, schedules and the command line"),
        ("/admin/exports", "Exports that apps request ($export) are listed here"),
        ("/admin/backups", "Backups are listed here with their size"),
        ("/admin/schedules", "Schedules are listed here with their next and last run"),
        ("/admin/refusals", "it is listed here for"),
        ("/admin/logs", "Problems are listed here with the request id"),
    ],
)
def test_a_list_that_is_empty_tells_what_comes_there_and_how(make_app, path, told):
    app = make_app(seed=False)
    alter(app, delete(Client))
    assert told in Browser(app).resume(add_person(app, ADMINISTRATOR)).get(path).words
