"""Sign-in by an identity provider: a real one, oidc-provider, over HTTP; and the role rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyotp
import pytest
from flask import Flask
from sqlalchemy import select, update

from fhirapp.audit.entries import ADMINISTRATION, entries
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, Identity, User
from fhirapp.auth.users.provider import Provider, rule_of
from fhirapp.config import ConfigurationError
from fhirapp.db import writing
from fhirapp.environment import load_settings
from fhirapp.web.cookies import PROVIDER
from tests.support.authorizing import Flow, add_program, alter, rows
from tests.support.browsing import Browser, add_person, id_of
from tests.support.provider import SECRET, IdentityProvider, Person, running_provider

ROLES = "groups: fhir-admins=administrator; doctors=clinician"
LEE = {"name": "Dr. Lee", "preferred_username": "lee", "groups": ["staff", "doctors"]}
# Key words of refusals.
NO_ROLE, NOT_LINKED = "has no role on this server", "An administrator must first link"
NOT_PROVED = "did not confirm who you are"


@pytest.fixture(scope="module")
def identity_provider() -> Iterator[IdentityProvider]:
    """The clinic's provider."""
    with running_provider() as running:
        yield running


@pytest.fixture
def by_rule(make_app: Callable[..., Flask], identity_provider: IdentityProvider) -> Flask:
    """A server to which the provider tells roles."""
    return make_app(**identity_provider.settings, oidc_roles=ROLES)


@pytest.fixture
def by_hand(make_app: Callable[..., Flask], identity_provider: IdentityProvider) -> Flask:
    """A server whose administrator links everybody."""
    return make_app(**identity_provider.settings)


@pytest.fixture
def accounts(identity_provider: IdentityProvider) -> Iterator[Callable[..., None]]:
    """Return what gives the provider its accounts."""
    yield lambda **given: identity_provider.change(given)
    identity_provider.change({})


def user(app: Flask, username: str) -> Any:
    (found,) = rows(app, select(User.__table__).where(User.username == username))
    return found


def events(app: Flask) -> list[tuple[str, str]]:
    with app.app_context():
        return [(entry.event, entry.body) for entry in entries(kind=ADMINISTRATION)]


def test_new_user_with_a_role_gets_an_account(by_rule, accounts, identity_provider):
    accounts(s1=LEE)
    page = Person(Browser(by_rule), "s1").sign_in("/sign-in?next=/account")
    assert (page.status, page.path, page.heading) == (200, "/account", "Dr. Lee")
    lee = user(by_rule, "lee")
    assert (lee.name, lee.role) == ("Dr. Lee", CLINICIAN)
    assert ("sign-in", f"by {identity_provider.issuer}") in events(by_rule)
    assert ("provider-linked", f"{identity_provider.issuer}, s1") in events(by_rule)


def test_same_subject_is_the_same_account_without_a_second_password(by_rule, accounts):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    person.sign_in()
    person.browser.get("/account").submit("Sign out")
    # Another name there is still the same subject.
    accounts(s1={**LEE, "preferred_username": "lee-nguyen", "name": "Dr. Lee Nguyen"})
    assert person.sign_in().heading == "Dr. Lee"
    assert person.asked == 1
    assert len(rows(by_rule, select(User).where(User.username.like("lee%")))) == 1


def test_role_follows_the_provider(by_rule, accounts):
    add_person(by_rule, ADMINISTRATOR)
    accounts(s1={**LEE, "groups": ["fhir-admins", "doctors"]})
    person = Person(Browser(by_rule), "s1")
    person.sign_in()
    assert user(by_rule, "lee").role == ADMINISTRATOR
    accounts(s1=LEE)
    assert person.sign_in().status == 200
    assert user(by_rule, "lee").role == CLINICIAN
    accounts(s1={**LEE, "groups": ["staff"]})
    page = person.sign_in()
    assert (page.status, NO_ROLE in page.words) == (403, True)


def test_last_administrator_keeps_the_role(by_rule, accounts):
    accounts(s1={**LEE, "groups": ["fhir-admins"]})
    person = Person(Browser(by_rule), "s1")
    alter(by_rule, update(User).values(disabled=True))
    person.sign_in()
    accounts(s1=LEE)
    page = person.sign_in()
    assert "This is the last administrator" in page.words
    assert user(by_rule, "lee").role == ADMINISTRATOR


def test_user_name_that_is_taken_links_no_account(by_rule, accounts):
    """Who has an account of that name may be somebody else: an administrator knows."""
    username = add_person(by_rule, CLINICIAN)
    accounts(s1={**LEE, "preferred_username": username})
    page = Person(Browser(by_rule), "s1").sign_in()
    assert (page.status, NOT_LINKED in page.words) == (403, True)


def test_administrator_links_and_unlinks_an_account(by_hand, accounts, identity_provider):
    accounts(s1=LEE)
    person = Person(Browser(by_hand), "s1")
    page = person.sign_in()
    assert (page.status, NOT_LINKED in page.words) == (403, True)
    username = add_person(by_hand, CLINICIAN, name="Lee Nguyen")
    admin = Browser(by_hand).resume(add_person(by_hand, ADMINISTRATOR))
    assert "Signed in with Clinic login, not linked yet" in admin.get("/admin/users").words
    path = f"/admin/users/{id_of(by_hand, username)}"
    form = {"waiting": "s1", "form_token": admin.get(path).forms[0].fields["form_token"]}
    page = admin.post(f"{path}/link-provider", form)
    assert "Account linked. The user can sign in with it now." in page.words
    assert person.sign_in().heading == "Lee Nguyen"
    # Without a rule the role is the one that is given here.
    assert user(by_hand, username).role == CLINICIAN
    page = admin.get(path).submit("Unlink")
    assert "The user can no longer sign in with it" in page.words
    assert person.browser.get("/account").heading == "Sign in"
    assert NOT_LINKED in person.sign_in().words
    seen = [event for event, _what in events(by_hand)]
    assert {"provider-linked", "provider-unlinked", "sign-in-failed"} <= set(seen)


def test_subject_is_linked_to_one_user(by_hand, accounts):
    admin = Browser(by_hand).resume(add_person(by_hand, ADMINISTRATOR))
    first, second = (f"/admin/users/{id_of(by_hand, add_person(by_hand, CLINICIAN))}" for _ in "ab")
    assert admin.get(first).submit("Link account", subject="s9").status == 200
    page = admin.get(second).submit("Link account", subject="s9")
    assert (page.status, "already linked to another user" in page.words) == (409, True)
    (row,) = rows(by_hand, select(Identity.__table__))
    assert (row.subject, row.user_id) == ("s9", first.rpartition("/")[2])


def test_disabled_user_cannot_sign_in(by_rule, accounts):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    person.sign_in()
    alter(by_rule, update(User).where(User.username == "lee").values(disabled=True))
    page = person.sign_in()
    assert (page.status, "account on this server is disabled" in page.words) == (403, True)


def test_second_factor_of_this_server_is_asked_for(by_rule, accounts):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    page = person.sign_in("/sign-in?next=/account/second-factor")
    secret = page.form("Turn on second factor").fields.get("secret")
    assert secret
    key = "".join(page.words.partition("Or enter this secret in the app:")[2].split()[:8])
    # Whom the provider proved just now has no password to type.
    page = page.submit("Turn on second factor", code=pyotp.TOTP(key).now())
    assert "recovery" in page.words
    person.browser.get("/account").submit("Sign out")
    page = person.sign_in()
    assert page.path.startswith("/sign-in/code")
    with by_rule.app_context(), writing() as connection:
        connection.execute(update(User).values(totp_used=0))
    assert page.submit("Sign in", code=pyotp.TOTP(key).now()).heading == "Dr. Lee"


def test_old_sign_in_by_the_provider_does_not_turn_on_a_factor(by_rule, accounts, monkeypatch):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    page = person.sign_in("/sign-in?next=/account/second-factor")
    key = "".join(page.words.partition("Or enter this secret in the app:")[2].split()[:8])
    monkeypatch.setattr("fhirapp.features.accounts.account._LATELY_SECONDS", -1)
    page = page.submit("Turn on second factor", code=pyotp.TOTP(key).now())
    assert (page.status, "Sign in again" in page.words) == (403, True)


def test_required_factor_is_waived_where_the_provider_used_several(
    make_app, accounts, identity_provider, monkeypatch
):
    app = make_app(**identity_provider.settings, oidc_roles=ROLES, second_factor="staff")
    accounts(s1=LEE)
    person = Person(Browser(app), "s1")
    assert person.sign_in().path == "/account/second-factor"
    finish = Provider.finish
    # The provider of the tests knows passwords alone.
    vouched = lambda *given: finish(*given)._replace(several_factors=True)  # noqa: E731
    monkeypatch.setattr(Provider, "finish", vouched)
    assert person.sign_in().heading == "Dr. Lee"


def test_signed_in_user_authenticates_again_at_the_provider(by_rule, accounts):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    person.sign_in()
    assert person.sign_in().heading == "Dr. Lee"
    assert person.asked == 2


def test_app_with_prompt_login_gets_a_new_sign_in(by_rule, accounts, make_app):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    person.sign_in()
    person.browser.get("/account").submit("Sign out")
    flow = Flow(by_rule, add_program(by_rule), id_of(by_rule, "lee"))
    away = person.browser.get(f"/oauth/authorize/{flow.park('user/*.rs', prompt='login')}")
    page = person.go_on(away.offered["Sign in with Clinic login"])
    assert (page.status, person.asked) == (200, 2)
    assert page.path.startswith("/oauth/authorize/")


def test_sign_out_links_to_the_providers_sign_out(by_rule, accounts, identity_provider):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    person.sign_in()
    page = person.browser.get("/account").submit("Sign out")
    assert "may still be signed in at your identity provider" in page.words
    away = person.browser.get(page.links["Sign out at Clinic login too"])
    assert away.location is not None
    assert away.location.startswith(f"{identity_provider.issuer}/session/end?")
    assert "client_id=fhirapp" in away.location


def test_answer_is_used_once_by_the_browser_that_began(by_rule, accounts):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    begun = person.browser.get("/sign-in/provider?next=/account")
    kept = person.browser.cookie(PROVIDER)
    assert kept is not None
    assert parse_qs(urlsplit(str(begun.location)).query)["state"][0] not in kept
    back = person.at_provider(str(begun.location))
    stranger = Browser(by_rule).get(back)
    assert (stranger.status, "started in another browser" in stranger.words) == (400, True)
    assert person.browser.get(back).heading == "Dr. Lee"
    again = person.browser.get(back)
    assert (again.status, "started in another browser" in again.words) == (400, True)
    # Nor does what the browser kept bring the code back to life.
    thief = Browser(by_rule)
    thief.set_cookie(kept, PROVIDER)
    page = thief.get(back)
    assert (page.status, NOT_PROVED in page.words) == (403, True)


def test_answer_that_was_changed_or_is_an_error_is_refused(by_rule, accounts, identity_provider):
    accounts(s1=LEE)
    person = Person(Browser(by_rule), "s1")
    for change in ("state", "iss", "code"):
        begun = person.browser.get("/sign-in/provider")
        path, _mark, query = person.at_provider(str(begun.location)).partition("?")
        parameters = {name: values[0] for name, values in parse_qs(query).items()}
        page = person.browser.get(path, query_string=parameters | {change: "another"})
        assert (page.status, NOT_PROVED in page.words) == (403, True), change
    assert any(event == "sign-in-failed" for event, _what in events(by_rule))
    begun = person.browser.get("/sign-in/provider")
    state = parse_qs(urlsplit(str(begun.location)).query)["state"][0]
    answer = {"error": "access_denied", "state": state, "iss": identity_provider.issuer}
    page = person.browser.get("/sign-in/provider/answer", query_string=answer)
    assert (page.status, NOT_PROVED in page.words) == (403, True)


def test_wrong_client_secret_is_logged_without_the_secret(
    make_app, accounts, identity_provider, caplog
):
    values = {**identity_provider.settings, "oidc_client_secret": "wrong"}
    app = make_app(**values, oidc_roles=ROLES)
    accounts(s1=LEE)
    page = Person(Browser(app), "s1").sign_in()
    assert (page.status, NOT_PROVED in page.words) == (403, True)
    assert "invalid_client" in caplog.text
    assert SECRET not in caplog.text


def test_passwords_are_valid_while_the_provider_does_not_answer(make_app):
    app = make_app(oidc_issuer="http://127.0.0.1:9", oidc_client_id="x", oidc_name="Clinic login")
    browser = Browser(app)
    page = browser.get(browser.get("/sign-in").offered["Sign in with Clinic login"])
    assert (page.status, "is not responding correctly" in page.words) == (503, True)
    assert browser.sign_in(add_person(app, CLINICIAN)).path == "/account"


def test_pages_of_a_provider_are_absent_without_one(make_app):
    app = make_app()
    assert "Sign in with" not in Browser(app).get("/sign-in").words
    for path in ("", "/answer", "/leave"):
        assert Browser(app).get(f"/sign-in/provider{path}").status == 404


def test_failures_of_one_address_are_throttled(by_rule, accounts):
    statuses = []
    browser = Browser(by_rule)
    for _ in range(22):
        browser.get("/sign-in/provider")
        statuses.append(browser.get("/sign-in/provider/answer?state=x").status)
    assert (statuses[0], statuses[-1]) == (403, 429)


def test_role_rule_gives_the_first_role_whose_value_is_in_the_claim():
    rule = rule_of(ROLES)
    assert rule is not None
    for groups, role in (
        (["doctors"], CLINICIAN),
        (["doctors", "fhir-admins"], ADMINISTRATOR),
        ("doctors", CLINICIAN),
        (["Doctors"], None),
        ("doctors fhir-admins", None),
        ([], None),
        (None, None),
        ({"doctors": True}, None),
    ):
        assert rule.role({"groups": groups}) == role
    assert rule.role({}) is None
    rule = rule_of("memberOf: CN=Doctors,OU=Clinic,DC=example=clinician; *=patient")
    assert rule is not None
    assert rule.role({"memberOf": ["CN=Doctors,OU=Clinic,DC=example"]}) == CLINICIAN
    assert rule.role({"memberOf": ["CN=Others"]}) == "patient"
    nested = rule_of("realm_access.roles: dr=clinician")
    assert nested is not None
    assert nested.role({"realm_access": {"roles": ["dr"]}}) == CLINICIAN
    assert rule.role({}) is None


def test_invalid_role_rule_or_setting_stops_the_start():
    for text in ("groups", "groups:", "groups: a", "groups: a=king", ": a=clinician"):
        with pytest.raises(ConfigurationError, match="FHIRAPP_OIDC_ROLES"):
            rule_of(text)
    client = {"OIDC_CLIENT_ID": "x"}
    for settings, why in (
        ({"OIDC_ISSUER": "http://login.example"}, "https"),
        ({"OIDC_ISSUER": "login.example"}, "https"),
        ({"OIDC_ISSUER": "https://login.example"}, "OIDC_CLIENT_ID"),
        (client, "OIDC_ISSUER"),
        ({"OIDC_ISSUER": "https://a.example", **client, "OIDC_SCOPE": "email"}, "openid"),
    ):
        with pytest.raises(ConfigurationError, match=why):
            load_settings({f"FHIRAPP_{name}": value for name, value in settings.items()})
