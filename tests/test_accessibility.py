"""Every page of ours, as it is shown to somebody: axe finds nothing wrong, and it fits a phone.

A page that is added stands in PAGES too, once for each thing that it can show.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode, urlsplit

import pyotp
import pytest
from werkzeug.routing import MapAdapter

from fhirapp import create_app
from fhirapp.auth import passwords
from fhirapp.auth.demo import SECRET as DEMO_PASSWORD
from fhirapp.auth.models.user import CLINICIAN
from fhirapp.auth.registration import owner_code
from fhirapp.auth.users import add_user, find_user, new_setup_code
from fhirapp.config import load_settings
from tests.authorizing import VERIFIER, challenge
from tests.registered import RS384, SECRET, register_app, register_backend
from tests.test_pages import NO_PAGES, addresses

if TYPE_CHECKING:
    from tests.browser import Visit
    from tests.live import Demo

pytest_plugins = ["tests.live", "tests.browser"]

NOBODY, WALKER = "", "walker"
REQUEST = "/oauth/authorize?{request}"
CONSENT = "/oauth/authorize/<handle>"
USER = "/admin/users/<uuid:key>"
CLIENT = "/admin/clients/<client_id>"


class Page(NamedTuple):
    """A page: the rule of its address, where to begin (there, unless told), what to do then."""

    rule: str
    begin: str = ""
    go: Callable[[Visit], None] = lambda _: None


def _press(words: str) -> Callable[[Visit], None]:
    return lambda one: one.press(words)


def _enter(button: str, **filled: str) -> Callable[[Visit], None]:
    """Return what fills in fields, by their ids, and presses a button."""

    def go(one: Visit) -> None:
        for name, text in filled.items():
            one.page.locator(f"#{name}").fill(text)
        one.press(button)

    return go


def _allow(one: Visit) -> None:
    one.allow()
    one.open("/account/apps")


def _use(one: Visit) -> None:
    one.press("Connect to my records")
    one.allow()
    one.page.get_by_role("heading", name="Allergies").wait_for()


def _turn_on(one: Visit) -> None:
    secret = one.page.locator(".secret").inner_text().replace(" ", "")
    _enter("Turn it on", code=pyotp.TOTP(secret).now())(one)


def _sign_in_again(one: Visit) -> None:
    one.press("Sign out")
    one.sign_in(WALKER)


# By who sees them, in the order in which they are looked at.
PAGES: Mapping[str, Sequence[Page]] = {
    NOBODY: [
        Page("/sign-in"),
        Page("/sign-in", go=_enter("Sign in", username="nobody", password="nonsense")),
        Page("/setup", "/setup?code={invitation}"),
        Page("/setup", "/setup?code=nonsense"),
        Page("/oauth/authorize"),
        Page("/demo/app"),
        Page("/apps/register"),
        Page("/apps/register", "/apps/register?kind=public"),
        Page("/apps/register", "/apps/register?kind=confidential"),
        Page("/apps/register", "/apps/register?kind=backend", _enter("Register", name="Mine")),
        Page("/apps/<code>", "/apps/{code_of_waiting}"),
        Page("/apps/<code>", "/apps/{code_of_backend}"),
        Page("/apps/<code>", "/apps/{code_of_app}"),
        Page("/apps/<code>/test", "/apps/{code_of_app}", _press("Test this client")),
        Page("/apps/<code>/secret", "/apps/{code_of_app}", _press("Make another secret")),
    ],
    "patient": [
        Page("/account"),
        Page(CONSENT, REQUEST),
        Page("/account/apps", REQUEST, _allow),
        Page("/demo/app", go=_use),
        # That is not for patients.
        Page("/launch"),
    ],
    "clinician": [
        Page(CONSENT, REQUEST),
        Page(CONSENT, REQUEST, _enter("Search", name="nobody")),
        Page(CONSENT, REQUEST, _enter("Search", born="nonsense")),
        Page(CONSENT, REQUEST, _press("Luis")),
        Page("/launch"),
        Page("/launch", "/launch?name=nobody"),
        Page("/launch", "/launch?patient=p2"),
    ],
    WALKER: [
        Page("/account"),
        Page("/account/apps"),
        Page("/account/password"),
        Page("/account/second-factor"),
        Page("/account/second-factor", go=_enter("Turn it on", code="nonsense")),
        Page("/account/second-factor", go=_turn_on),
        Page("/account/second-factor"),
        Page("/sign-in/code", "/account", _sign_in_again),
        Page("/sign-in/code", go=_enter("Go on", code="nonsense")),
    ],
    "admin": [
        Page("/admin/users"),
        Page("/admin/users", "/admin/users?name=nobody"),
        Page("/admin/users/new"),
        Page("/admin/users/new", go=_enter("Add", name="Somebody", username="admin")),
        Page(USER, "/admin/users/{patient}"),
        Page(USER, "/admin/users/{patient}?find=Luis"),
        Page(USER, "/admin/users/{walker}"),
        Page(f"{USER}/address", "/admin/users/{walker}", _press("Make an address")),
        Page("/admin/clients"),
        Page(CLIENT, "/admin/clients/{waiting}"),
        Page(CLIENT, "/admin/clients/{app}"),
        Page(CLIENT, "/admin/clients/{backend}"),
        Page(f"{CLIENT}/change", "/admin/clients/{app}", _enter("Save", scope="nonsense")),
        Page(f"{CLIENT}/secret", "/admin/clients/{app}", _press("Make a secret")),
        Page(f"{CLIENT}/owner", "/admin/clients/{app}", _press("Make an address")),
        Page("/admin/refusals"),
        Page("/admin/refusals", "/admin/refusals?id=nonsense"),
        Page(
            "/account/password", go=_enter("Change it", old="x", password="y" * 10, again="y" * 10)
        ),
    ],
}


@pytest.fixture(scope="module")
def rules() -> Iterator[MapAdapter]:
    """The addresses of the app."""
    with TemporaryDirectory() as folder:
        yield create_app(load_settings({}, instance_path=folder, demo=True)).url_map.bind("")


@pytest.fixture(scope="module")
def there(demo: Demo, app_url: str) -> dict[str, str]:
    """What the addresses name."""
    app = register_app(demo, SECRET, app_url).client_id
    waiting = register_app(demo, SECRET, app_url, approved=False).client_id
    backend = register_backend(demo, RS384).client_id
    clients = {"app": app, "waiting": waiting, "backend": backend}
    with demo.writing() as connection:
        walker = add_user(
            connection,
            WALKER,
            name="Robin Walker",
            role=CLINICIAN,
            password_hash=passwords.hashed(DEMO_PASSWORD),
        )
        people = {"walker": walker, "patient": find_user(connection, "patient")["id"]}
        invitation = new_setup_code(connection, walker)
        codes = {f"code_of_{name}": owner_code(connection, one) for name, one in clients.items()}
    # One request that is refused, to be told of.
    narrow = {"Authorization": f"Bearer {demo.token('system/AllergyIntolerance.rs')}"}
    demo.ask("GET", "/fhir/DocumentReference", **narrow)
    request = {
        "response_type": "code",
        "client_id": app,
        "redirect_uri": app_url,
        "aud": demo.fhir,
        "scope": "launch/patient openid fhirUser profile patient/*.rs offline_access",
        "code_challenge": challenge(VERIFIER),
        "code_challenge_method": "S256",
    }
    return {**clients, **people, **codes, "invitation": invitation, "request": urlencode(request)}


@pytest.mark.parametrize("who", PAGES)
def test_axe_finds_nothing_wrong_with_pages_and_they_fit_a_phone(visit, there, rules, who):
    one = visit()
    if who != NOBODY:
        one.open("/sign-in")
        one.sign_in(who)
    faults: list[str] = []
    for page in PAGES[who]:
        one.open((page.begin or page.rule).format(**there))
        one.unfold()
        page.go(one)
        assert page.rule == rule_of(rules, one.page.url)
        faults += [f"{page.begin or page.rule}: {fault}" for fault in one.faults()]
    assert faults == []


def rule_of(rules: MapAdapter, url: str) -> str:
    """Return the rule of an address."""
    path = urlsplit(url).path
    (method, *_) = {"GET", "POST"} & set(rules.allowed_methods(path))
    rule, _ = rules.match(path, method, return_rule=True)
    return rule.rule


def test_every_page_is_looked_at():
    with TemporaryDirectory() as folder:
        app = create_app(load_settings({}, instance_path=folder, demo=True))
    pages = {one.rule for one in addresses(app, "GET")} - NO_PAGES
    assert pages - {page.rule for pages in PAGES.values() for page in pages} == set()
