"""Sign-in: passwords, the page, throttling of failures, and weak passwords."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from argon2 import PasswordHasher
from flask import Flask
from sqlalchemy import delete, func, select, update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, PATIENT, Attempt, User
from fhirapp.auth.users import passwords, sign_in
from fhirapp.auth.users.sign_in import PER_ADDRESS, PER_NAME, PER_NAME_AND_ADDRESS
from fhirapp.config import settings_of
from tests.support.authorizing import alter, rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person

WRONG = "Incorrect user name or password."
# As it was before tests/conftest.py made hashes cheap.
real_hasher = passwords._hasher


@pytest.fixture
def hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The stored hashes that passwords were compared to."""
    compared: list[str] = []
    verify = PasswordHasher.verify

    def counted(self: PasswordHasher, stored: str, password: str) -> bool:
        compared.append(stored)
        return verify(self, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    return compared


def fail(app: Flask, username: str, times: int, browser: Browser | None = None) -> Browser:
    browser = browser or Browser(app)
    for _ in range(times):
        assert browser.sign_in(username, "wrong").status == 403
    return browser


def signed_out(app: Flask, username: str) -> Browser:
    """Return a browser in which a user signed in and out."""
    browser = Browser(app)
    browser.sign_in(username)
    browser.get("/account").submit("Sign out")
    return browser


def answer_of(page: Page) -> str:
    """Return the whole answer, but for the name that was typed and the form's token."""
    token, name = (page.form("Sign in").fields[name] for name in ("form_token", "username"))
    return page.response.text.replace(token, "").replace(name, "")


def set_values(app: Flask, username: str, **values: object) -> None:
    alter(app, update(User).where(User.username == username).values(**values))


@pytest.mark.parametrize(
    ("role", "patients", "path"),
    [
        (ADMINISTRATOR, (), "/admin"),
        (CLINICIAN, (), "/patients"),
        (PATIENT, ("p1",), "/patients/p1"),
        (PATIENT, ("p1", "p2"), "/patients"),
        (PATIENT, (), "/patients"),
    ],
)
def test_sign_in_leads_to_the_work_of_the_role(clinic, role, patients, path):
    form = {"username": add_person(clinic, role, *patients), "password": PASSWORD}
    page = Browser(clinic).get("/sign-in").submit("Sign in", **form)
    assert (page.status, page.path) == (200, path)


def test_sign_in_leads_to_the_requested_page(clinic, person):
    browser = Browser(clinic)
    page = browser.get("/account/apps?from=here")
    assert page.path.startswith("/sign-in")
    page = page.submit("Sign in", username=person, password=PASSWORD)
    assert (page.status, page.path) == (200, "/account/apps?from=here")
    for typed in (f" {person.upper()} ", f"{person}\t"):
        assert Browser(clinic).sign_in(typed).path == "/account"


def test_wrong_password_is_refused(clinic, person):
    for password in (
        *("", " ", "Demo", "demo ", "nobody's password", "x" * 3000, "é\0☃", PASSWORD * 300),
    ):
        # Each from an address of its own; five failures of a name at an address are throttled.
        page = Browser(clinic).sign_in(person, password)
        assert (page.status, page.path) == (403, "/sign-in"), password
        assert WRONG in page.words
    page = Browser(clinic).sign_in("x" * 201)
    assert page.status == 413


def test_user_without_a_password_or_disabled_cannot_sign_in(clinic, person):
    set_values(clinic, person, password_hash="")
    for password in ("", "nobody's password"):
        assert WRONG in Browser(clinic).sign_in(person, password).words
    disabled = add_person(clinic, CLINICIAN)
    set_values(clinic, disabled, disabled=True)
    assert WRONG in Browser(clinic).sign_in(disabled).words


def test_known_and_unknown_users_get_the_same_answer_for_the_same_work(clinic, hashes):
    known, disabled, without = (add_person(clinic, CLINICIAN) for _ in range(3))
    set_values(clinic, disabled, disabled=True)
    set_values(clinic, without, password_hash="")
    # The hash for unknown users is created once.
    Browser(clinic).sign_in("warm", "up")
    answers = Counter()
    for name in (known, disabled, without, "nobody", "İ☃", "a b", "control\x01", "x" * 200):
        hashes.clear()
        page = Browser(clinic).sign_in(name, "wrong")
        assert WRONG in page.words
        answers[page.status, answer_of(page), len(hashes)] += 1
    assert [(status, work) for status, _, work in answers] == [(403, 1)]


def test_every_password_hash_is_argon2id_of_the_full_cost(clinic, hashes, monkeypatch):
    monkeypatch.setattr(passwords, "_hasher", real_hasher)
    passwords._nobodys.cache_clear()
    username = add_person(clinic, CLINICIAN)
    set_values(clinic, username, password_hash=passwords.hashed(PASSWORD))
    for name in (username, "nobody"):
        Browser(clinic).sign_in(name, "wrong")
    passwords._nobodys.cache_clear()
    hashes.append(passwords.hashed(PASSWORD))
    assert len(set(hashes)) == 3
    assert all(stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$") for stored in hashes)


@pytest.mark.parametrize("change", [{"password_hash": "another"}, {"disabled": True}])
def test_change_while_the_password_is_verified_counts(clinic, person, monkeypatch, change):
    verify = PasswordHasher.verify

    def slowly(self: PasswordHasher, stored: str, password: str) -> bool:
        found = verify(self, stored, password)
        set_values(clinic, person, **change)
        return found

    monkeypatch.setattr(PasswordHasher, "verify", slowly)
    assert WRONG in Browser(clinic).sign_in(person).words


def test_hash_of_other_parameters_is_replaced_at_sign_in(clinic, person):
    old = PasswordHasher(time_cost=2, memory_cost=16, parallelism=1).hash(PASSWORD)
    set_values(clinic, person, password_hash=old)
    assert passwords.is_outdated(old)
    assert Browser(clinic).sign_in(person).path == "/account"
    found = select(User.password_hash, User.signed_in_at).where(User.username == person)
    ((stored, signed_in_at),) = rows(clinic, found)
    assert not passwords.is_outdated(stored)
    assert passwords.verify(stored, PASSWORD)
    assert time.time() - 60 < signed_in_at <= time.time()


def test_weak_password_is_refused():
    for password, words in (
        ("ninechars", "at least 10 characters"),
        ("x" * 201, "at most 200 characters"),
        ("abababababab", "harder to guess"),
        ("aaaabbbbcccc", "harder to guess"),
        ("I am ROBIN, hello", "contains your user name"),
        ("robinrobinrobin", "contains your user name"),
        ("our new FHIRapp", "contains the name of this software"),
        ("1234567890", "most common passwords"),
        ("Basketball", "most common passwords"),
    ):
        with pytest.raises(passwords.WeakPassword, match=words):
            passwords.check(password, "robin")


def test_password_of_ten_characters_is_accepted():
    accepted = ("ten charac", "four words in a row", "pässwörter", "x" * 195 + "abcde")
    for password in (*accepted, "a  b  c  d  e"):
        passwords.check(password, "robin")
    # A name of three letters may be a part of it.
    passwords.check("Anchovies and more", "anc")


def test_password_is_the_same_whichever_keyboard_composed_it():
    composed, decomposed = "pa\u00dfw\u00f6rter 1", "pa\u00dfwo\u0308rter 1"
    assert composed != decomposed
    assert passwords.verify(passwords.hashed(decomposed), composed)
    assert passwords.verify(passwords.hashed(composed), decomposed)


# Throttling.


def test_five_failures_of_a_name_at_an_address_are_throttled(clinic, person):
    browser = fail(clinic, person, PER_NAME_AND_ADDRESS)
    page = browser.sign_in(person)
    assert page.status == 429
    assert "15 minutes" in page.words
    assert page.form("Sign in").fields["username"] == person
    assert 800 < int(page.headers["Retry-After"]) <= 900
    # In the same words as of a name that nobody has.
    unknown = f"nobody-{person}"
    refused = fail(clinic, unknown, PER_NAME_AND_ADDRESS).sign_in(unknown)
    assert answer_of(refused) == answer_of(page)
    # The same person elsewhere, and another person at the same address.
    assert Browser(clinic).sign_in(person).path == "/account"
    other = add_person(clinic, CLINICIAN)
    assert Browser(clinic, browser.address).sign_in(other).path == "/account"
    alter(clinic, update(Attempt).values(expires_at=int(time.time()) - 1))
    assert browser.sign_in(person, "wrong").status == 403
    assert browser.sign_in(person).path == "/account"


def test_failures_where_the_user_signed_in_before_are_slowed_only(clinic, person, monkeypatch):
    """Others may share the address, as all do behind a proxy that is not named."""
    browser = signed_out(clinic, person)
    fail(clinic, person, PER_NAME_AND_ADDRESS, browser)
    assert browser.sign_in(person).path == "/account"
    monkeypatch.setattr(sign_in, "_PACE_SECONDS", 60)
    browser = signed_out(clinic, add_person(clinic, CLINICIAN))
    browser = signed_out(clinic, person)
    fail(clinic, person, PER_NAME_AND_ADDRESS + 1, browser)
    page = browser.sign_in(person)
    assert page.status == 429
    assert int(page.headers["Retry-After"]) <= 60
    alter(clinic, update(Attempt).where(Attempt.times == 1).values(expires_at=0))


def test_failures_of_a_name_are_limited_over_all_addresses(clinic, person, monkeypatch):
    monkeypatch.setattr(sign_in, "_PACE_SECONDS", 0)
    alter(clinic, update(Attempt).values(expires_at=0))
    before = signed_out(clinic, person)
    fail(clinic, person, 1)
    counted = update(Attempt).where(Attempt.times == 1, Attempt.expires_at < time.time() + 86_400)
    alter(clinic, counted.values(times=PER_NAME - 1))
    fail(clinic, person, 1)
    assert Browser(clinic).sign_in(person).status == 429
    # Where the user signed in before, strangers lock nobody out.
    fail(clinic, person, 1, before)
    assert before.sign_in(person).path == "/account"


def test_failures_at_an_address_are_limited_over_all_names(clinic, person):
    alter(clinic, update(Attempt).values(expires_at=0))
    browser = signed_out(clinic, person)
    stranger = add_person(clinic, CLINICIAN)
    fail(clinic, f"nobody-{person}", 1, browser)
    counted = update(Attempt).where(Attempt.times == 1, Attempt.expires_at < time.time() + 86_400)
    alter(clinic, counted.values(times=PER_ADDRESS - 1))
    fail(clinic, f"another-{person}", 1, browser)
    assert browser.sign_in(stranger).status == 429
    assert Browser(clinic).sign_in(stranger).path == "/account"
    # Who signed in there before is not locked out.
    assert browser.sign_in(person).path == "/account"


def test_network_of_a_sign_in_is_known_for_ninety_days(clinic, person):
    alter(clinic, delete(Attempt))
    Browser(clinic).sign_in(person)
    ((until,),) = rows(clinic, select(Attempt.expires_at))
    assert 0 <= time.time() + 90 * 86_400 - until < 60


def test_name_that_reads_like_a_counter_counts_for_nobody_else(clinic, person):
    browser, stranger = Browser(clinic), Browser(clinic)
    for typed in (f"{browser.address} {person}", f"of {person}", f"code {person}"):
        fail(clinic, typed, PER_NAME_AND_ADDRESS, stranger)
    assert fail(clinic, person, PER_NAME_AND_ADDRESS - 1, browser).sign_in(person).status == 200


def test_failures_count_across_the_processes_of_a_server(clinic, make_app, person):
    other = make_app(seed=False, database_url=settings_of(clinic).database_uri)
    browser = fail(clinic, person, 3)
    elsewhere = fail(other, person, 2, Browser(other, browser.address))
    assert browser.sign_in(person).status == 429
    assert elsewhere.sign_in(person).status == 429


@pytest.mark.usefixtures("unhurried")
def test_attempts_at_once_are_counted_each(clinic, person):
    address = Browser(clinic).address

    def attempt(_: int) -> int:
        return Browser(clinic, address).sign_in(person, "wrong").status

    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(attempt, range(12)))
    assert statuses == {403: PER_NAME_AND_ADDRESS, 429: 12 - PER_NAME_AND_ADDRESS}


def test_failed_names_are_stored_as_digests(clinic):
    fail(clinic, "my-password-by-mistake", 1)
    assert all(len(digest) == 32 for (digest,) in rows(clinic, select(Attempt.digest)))
    known = select(func.count()).where(User.username == "my-password-by-mistake")
    assert rows(clinic, known) == [(0,)]


# The page.


def test_demo_names_its_users_on_the_sign_in_page_and_no_other_server_does(clinic, make_app):
    page = Browser(make_app(demo=True)).get("/sign-in")
    for name in ("invented patients", "clinician", "admin", "patient"):
        assert name in page.words
    page = Browser(clinic).get("/sign-in")
    assert "demo" not in page.response.text.lower()
    # A forgotten password is reset by an administrator.
    assert "administrator" in page.words


def test_sign_out_leads_to_the_sign_in_page(clinic, person):
    page = Browser(clinic).resume(person).get("/account").submit("Sign out")
    assert page.path == "/sign-in?done=signed-out"
    assert 'role="status"' in page.response.text
    for done in ("<b>paid</b>", "You won", "\0", "é"):
        page = Browser(clinic).get("/sign-in", query_string={"done": done})
        assert page.status == 200
        assert 'role="status"' not in page.response.text
        assert "won" not in page.words


def test_signed_in_user_may_continue_sign_out_or_become_another(clinic, person):
    browser = Browser(clinic).resume(person)
    page = browser.get("/sign-in?next=/account/apps&done=signed-out")
    assert "Robin Example" in page.words
    assert browser.get(page.links["Continue"]).path == "/account/apps"
    # An app that wants the password again is no place to continue to.
    assert "Continue" not in browser.get("/sign-in?next=/oauth/authorize/x").links
    assert page.submit("Sign out").path == "/sign-in?done=signed-out"
    other = add_person(clinic, CLINICIAN, name="Kim Other")
    page = Browser(clinic).resume(person).get("/sign-in?next=/account")
    page = page.submit("Sign in", username=other, password=PASSWORD)
    assert page.heading == "Kim Other"
