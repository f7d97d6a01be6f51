"""Every page of every blueprint: its headers, the token of its form, and who may see it.

The pages are those of the app's URL map, so a new page is tested without being listed here.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask import Flask

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, ROLES
from fhirapp.auth.users import sessions
from fhirapp.db import writing
from tests.support.browsing import PASSWORD, Browser, Page, add_person, id_of
from tests.support.helpers import BASE_URL
from tests.support.page_addresses import NO_PAGES, Address, addresses
from tests.support.pages import assert_page, browser_of, submit_to

PARTS = 16
NOBODY = "nobody"
ANYBODY = (NOBODY, *ROLES)
# Who may see what, by the start of the address; the first that fits counts.
WHO = {
    **dict.fromkeys(("/sign-in", "/sign-out", "/setup", "/oauth/authorize"), ANYBODY),
    **dict.fromkeys(("/smart-style.json", "/demo/app", "/api-docs", "/docs"), ANYBODY),
    # Lessons are in the demo alone.
    **dict.fromkeys(("/language", "/learn", "/apps/"), ANYBODY),
    **dict.fromkeys(("/account", "/explore", "/notes", "/patients", "/start"), ROLES),
    "/launch": (CLINICIAN, ADMINISTRATOR),
    **dict.fromkeys(("/admin", "/demo/reset"), (ADMINISTRATOR,)),
}
# Apps send their users here from other sites.
FROM_OTHER_SITES = {"/oauth/authorize"}


def who_may(rule: str) -> tuple[str, ...]:
    if rule == "/":
        return ANYBODY
    return next(roles for start, roles in WHO.items() if rule.startswith(start))


@pytest.fixture(scope="module")
def browsers(clinic: Flask) -> dict[str, Browser]:
    """A browser of each role, signed in, and one of nobody."""
    return {NOBODY: Browser(clinic)} | {role: browser_of(clinic, role) for role in ROLES}


@pytest.fixture(params=range(PARTS))
def part(request: pytest.FixtureRequest, clinic: Flask) -> Callable[[str], list[Address]]:
    """Return the addresses of a method that a test requests in one item: it may take 0.5 s."""
    return lambda method: addresses(clinic, method)[request.param :: PARTS]


def form_token(browser: Browser) -> str:
    return browser.get("/sign-in").form("Sign in").fields["form_token"]


def is_forbidden(page: Page) -> bool:
    return page.status == 403 and page.heading == "You don't have access to this"


def is_sign_in(page: Page, following: str) -> bool:
    """Return whether a page asks to sign in, and then leads to another."""
    return any(form.fields.get("next") == following for form in page.forms)


def test_addresses_are_those_of_the_url_map(clinic):
    rules = {address.rule for method in ("GET", "POST") for address in addresses(clinic, method)}
    assert {"/sign-in", "/account/apps", "/launch", "/admin/users"} <= rules
    assert len(rules) > 100


@pytest.mark.parametrize("role", ANYBODY)
def test_every_page_has_the_headers_of_pages_and_is_for_its_roles_alone(part, browsers, role):
    for address in part("GET"):
        page = browsers[role].get(address.path, headers={"Origin": "https://app.example"})
        if address.rule not in NO_PAGES:
            assert page.status in (200, 400, 403, 404), address
            assert_page(page)
        if role in who_may(address.rule):
            assert not is_forbidden(page), address
            is_sent_to_sign_in = page.path.startswith("/sign-in")
            assert not is_sent_to_sign_in or address.rule.startswith("/sign-in"), address
        elif role == NOBODY:
            assert is_sign_in(page, address.path), address
        else:
            assert is_forbidden(page), address


@pytest.mark.parametrize("role", ANYBODY)
def test_every_form_is_for_its_roles_alone(part, browsers, role):
    token = form_token(browsers[role])
    for address in part("POST"):
        if role not in who_may(address.rule):
            page = browsers[role].post(address.path, {"form_token": token})
            if role == NOBODY:
                assert is_sign_in(page, "/start"), address
            else:
                assert is_forbidden(page), address


def test_head_has_the_status_of_get_and_a_redirect_is_not_cached(part, browsers):
    client, nobody = browsers[ADMINISTRATOR].client, browsers[NOBODY].client
    for address in part("GET"):
        answer, head = (
            client.open(address.path, method=method, base_url=BASE_URL)
            for method in ("GET", "HEAD")
        )
        assert (head.status_code, head.text) == (answer.status_code, ""), address
        redirect = nobody.get(address.path, base_url=BASE_URL)
        if redirect.status_code == 303:
            assert redirect.headers["Location"].startswith("/sign-in")
            assert redirect.headers["Cache-Control"] == "no-store"
            assert redirect.headers["Referrer-Policy"] == "no-referrer"


def forged_forms(clinic: Flask, browser: Browser) -> dict[str, dict[str, str]]:
    """Return forms that another site could send with this browser."""
    token = form_token(browser)
    changed = token[:-1] + ("0" if token[-1] != "0" else "1")
    return {
        "without a token": {},
        "with an empty token": {"form_token": ""},
        "with the token of another browser": {"form_token": form_token(Browser(clinic))},
        "with a changed token": {"form_token": changed},
        "with text that is not ASCII": {"form_token": "é☃"},
    }


@pytest.mark.parametrize("role", [NOBODY, ADMINISTRATOR])
def test_every_form_of_another_site_is_refused(clinic, part, browsers, role):
    forms = forged_forms(clinic, browsers[role])
    ours = [address for address in part("POST") if address.rule not in FROM_OTHER_SITES]
    for number, address in enumerate(ours):
        # Each form is sent in one of the ways, and the first in all of them.
        for name in [*forms] if number == 0 else [[*forms][number % len(forms)]]:
            page = browsers[role].post(address.path, forms[name])
            assert (page.status, page.heading) == (400, "Invalid request"), (address, name)
            assert "Go back and try again." in page.words
            assert_page(page)


def test_csrf_token_is_of_the_session_and_of_the_body(clinic, browsers):
    administrator = browsers[ADMINISTRATOR]
    token = form_token(administrator)
    assert administrator.post(f"/sign-out?form_token={token}").status == 400
    assert administrator.get("/account").status == 200
    username, browser = add_person(clinic, CLINICIAN), Browser(clinic)
    form = browser.get("/sign-in").form("Sign in")
    browser.sign_in(username)
    earlier = {**form.fields, "username": username, "password": PASSWORD}
    assert browser.post("/sign-in", earlier).status == 400
    account = browser.get("/account")
    browser.sign_in(username)
    assert submit_to(account, "/sign-out").status == 400


def test_form_that_other_sites_may_send_is_answered_with_a_page(browsers):
    page = browsers[ADMINISTRATOR].post("/oauth/authorize", {"client_id": "x"})
    assert page.status == 400
    assert_page(page)


def test_other_methods_are_refused(part, browsers):
    client = browsers[ADMINISTRATOR].client
    for number, address in enumerate(part("GET")):
        method = ("PUT", "PATCH", "DELETE")[number % 3]
        answer = client.open(address.path, method=method, base_url=BASE_URL)
        assert answer.status_code == 405, address


def test_request_that_is_too_long_is_refused_with_a_page(browsers):
    browser = browsers[CLINICIAN]
    pages = {
        414: browser.get("/account", query_string="x=" + "a" * 9000),
        431: browser.get("/account", headers={"X-Long": "a" * 40_000}),
        413: browser.post("/account/password", {"old": "a" * 2_000_000}),
    }
    fields = browser.post("/account/password", {f"f{number}": "" for number in range(2000)})
    assert [page.status for page in pages.values()] == [*pages]
    assert fields.status in (400, 413)
    for page in (*pages.values(), fields):
        assert_page(page)


def test_error_page_has_a_request_id_and_nothing_of_the_error(make_app, caplog):
    app = make_app()
    browser = Browser(app).resume("clinician")
    app.view_functions["account.account"] = lambda: 1 / 0
    page = browser.get("/account")
    request_id = page.headers["X-Request-Id"]
    assert page.status == 500
    assert request_id in page.words
    assert "ZeroDivisionError" not in page.response.text
    assert f"request {request_id} failed" in caplog.text
    assert_page(page)


def test_session_without_its_second_factor_sees_no_page(clinic):
    browser = Browser(clinic)
    username = add_person(clinic, CLINICIAN)
    with clinic.app_context(), writing() as connection:
        browser.set_cookie(sessions.begin(connection, id_of(clinic, username), complete=False))
    assert browser.get("/").path == "/sign-in/code?next=%2F"


def test_message_of_a_long_entry_repeats_its_beginning_and_no_field_name(clinic):
    admin = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    form = admin.get("/admin/patients/p1/delete")
    page = form.send("/delete", typed="p1", reason="Two files " + "x" * 3000)
    assert page.status == 413
    assert (
        "“Two files xxxxxxxxxxxxxxxxxxxx…” is too long: this field can have at most" in page.words
    )
    assert "field reason" not in page.words
