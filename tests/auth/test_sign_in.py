"""Sign in: the page, what it costs, how often it may fail."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from argon2 import PasswordHasher
from flask import Flask
from sqlalchemy import delete, func, select, update

from fhirapp.auth.models import CLINICIAN, PATIENT, Attempt, User
from fhirapp.auth.users import sessions, sign_in
from fhirapp.auth.users.sign_in import PER_ADDRESS, PER_NAME, PER_NAME_AND_ADDRESS
from fhirapp.config import settings_of
from tests.support.authorizing import alter, rows
from tests.support.browsing import PASSWORD, Browser, Page, add_person

WRONG = "Incorrect user name or password."
A_PASSWORD = "four words in a row"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with users of its own."""
    return make_app()


@pytest.fixture
def person(clinic: Flask) -> str:
    """A clinician's user name."""
    return add_person(clinic, CLINICIAN)


@pytest.fixture
def hashes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The hashes that passwords were compared to, as they are."""
    compared: list[str] = []
    verify = PasswordHasher.verify

    def counted(self: PasswordHasher, stored: str, password: str) -> bool:
        compared.append(stored)
        return verify(self, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    return compared


def fail(app: Flask, username: str, times: int, browser: Browser | None = None) -> Browser:
    """Try a wrong password so many times."""
    browser = browser or Browser(app)
    for _ in range(times):
        assert browser.sign_in(username, "wrong").status == 403
    return browser


def told(page: Page) -> str:
    """Return the whole answer, but for the name that was typed and the form's token."""
    token, name = (page.form("Sign in").fields[name] for name in ("form_token", "username"))
    return page.response.text.replace(token, "").replace(name, "")


def values(app: Flask, username: str, **changes: object) -> None:
    alter(app, update(User).where(User.username == username).values(**changes))


def test_who_signs_in_is_shown_their_account(clinic, person):
    page = Browser(clinic).sign_in(person)
    assert (page.status, page.path, page.heading) == (200, "/account", "Robin Example")


def test_who_asked_for_a_page_signs_in_and_is_there(clinic, person):
    browser = Browser(clinic)
    page = browser.get("/account/apps?from=here")
    assert page.heading == "Sign in"
    page = page.submit("Sign in", username=person, password=PASSWORD)
    assert (page.status, page.path) == (200, "/account/apps?from=here")


@pytest.mark.parametrize("typed", [" {} ", "{}\t"])
def test_a_name_is_found_however_it_is_typed(clinic, person, typed):
    assert Browser(clinic).sign_in(typed.format(person.upper())).path == "/account"


@pytest.mark.parametrize(
    "password", ["", " ", "Demo", "demo ", "nobody's password", "x" * 3000, "é\0☃", PASSWORD * 300]
)
def test_another_password_is_wrong(clinic, person, password):
    page = Browser(clinic).sign_in(person, password)
    assert (page.status, page.path) == (403, "/sign-in")
    assert WRONG in page.words


def test_a_user_who_has_no_password_yet_cannot_sign_in(clinic, person):
    values(clinic, person, password_hash="")
    for password in ("", "nobody's password"):
        assert WRONG in Browser(clinic).sign_in(person, password).words


def test_known_and_unknown_users_get_the_same_answer_for_the_same_work(clinic, hashes):
    known, disabled, without = (add_person(clinic, CLINICIAN) for _ in range(3))
    values(clinic, disabled, disabled=True)
    values(clinic, without, password_hash="")
    # Once made, nobody's hash is kept.
    Browser(clinic).sign_in("warm", "up")
    answers = Counter()
    for name in (known, disabled, without, "nobody", "İ☃", "a b", "control\x01", "x" * 200):
        hashes.clear()
        page = Browser(clinic).sign_in(name, "wrong")
        assert WRONG in page.words
        answers[page.status, told(page), len(hashes)] += 1
    assert [(status, work) for status, _, work in answers] == [(403, 1)]


def test_every_hash_that_is_compared_costs_the_same(clinic, person, hashes):
    for name in (person, "nobody"):
        Browser(clinic).sign_in(name, "wrong")
    parameters = {stored.split("$")[3] for stored in hashes}
    assert len(parameters) == 1


def test_a_disabled_user_is_refused_with_the_right_password_too(clinic, person):
    values(clinic, person, disabled=True)
    assert WRONG in Browser(clinic).sign_in(person).words


@pytest.mark.parametrize("change", [{"password_hash": "another"}, {"disabled": True}])
def test_a_change_while_the_password_is_checked_counts(clinic, person, monkeypatch, change):
    verify = PasswordHasher.verify

    def slowly(self: PasswordHasher, stored: str, password: str) -> bool:
        found = verify(self, stored, password)
        values(clinic, person, **change)
        return found

    monkeypatch.setattr(PasswordHasher, "verify", slowly)
    assert WRONG in Browser(clinic).sign_in(person).words


def test_a_hash_of_other_parameters_is_made_anew(clinic, person):
    old = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)
    values(clinic, person, password_hash=old)
    assert Browser(clinic).sign_in(person).path == "/account"
    ((stored,),) = rows(clinic, select(User.password_hash).where(User.username == person))
    assert not sessions.is_outdated(stored)
    assert sessions.verify(stored, PASSWORD)


def test_it_is_remembered_when_somebody_signed_in(clinic, person):
    ((before,),) = rows(clinic, select(User.signed_in_at).where(User.username == person))
    Browser(clinic).sign_in(person)
    ((after,),) = rows(clinic, select(User.signed_in_at).where(User.username == person))
    assert before is None
    assert time.time() - 60 < after <= time.time()


def test_a_name_longer_than_any_is_refused(clinic):
    page = Browser(clinic).sign_in("x" * 201)
    assert (page.status, page.heading) == (413, "Input too long")


@pytest.mark.parametrize(
    ("password", "message"),
    [
        ("ninechars", "Choose a password of at least 10 characters."),
        ("x" * 201, "Choose a password of at most 200 characters."),
        (
            "abababababab",
            "Choose a password that is harder to guess, such as a few unrelated words.",
        ),
        ("I am ROBIN, hello", "The password contains your user name. Choose another one."),
        ("our new FHIRapp", "The password contains the name of this software. Choose another one."),
        ("robinrobinrobin", "The password contains your user name. Choose another one."),
        ("1234567890", "This is one of the most common passwords. Choose another one."),
        ("Basketball", "This is one of the most common passwords. Choose another one."),
    ],
)
def test_a_weak_password_is_not_taken(password, message):
    with pytest.raises(sessions.WeakPassword) as refused:
        sessions.check(password, "robin")
    assert str(refused.value) == message


@pytest.mark.parametrize(
    "password", ["ten charac", A_PASSWORD, "pässwörter", "x" * 195 + "abcde", "a  b  c  d  e"]
)
def test_a_password_of_ten_characters_is_taken(password):
    sessions.check(password, "robin")


def test_a_name_of_three_letters_may_stand_in_a_password():
    sessions.check("Anchovies and more", "anc")


def test_a_password_is_the_same_whichever_keyboard_composed_it():
    composed, apart = "pa\u00dfw\u00f6rter 1", "pa\u00dfwo\u0308rter 1"
    assert composed != apart
    assert sessions.verify(sessions.hashed(apart), composed)
    assert sessions.verify(sessions.hashed(composed), apart)


def test_after_five_failures_the_right_password_waits_too(clinic, person):
    browser = fail(clinic, person, PER_NAME_AND_ADDRESS)
    page = browser.sign_in(person)
    assert page.status == 429
    assert "Too many attempts. Wait 15 minutes." in page.words
    assert page.form("Sign in").fields["username"] == person
    assert 800 < int(page.headers["Retry-After"]) <= 900


def test_unknown_names_are_throttled_in_the_same_words(clinic, person):
    names = (person, f"nobody-{person}")
    answers = {told(fail(clinic, name, PER_NAME_AND_ADDRESS).sign_in(name)) for name in names}
    assert len(answers) == 1


def test_the_same_person_elsewhere_signs_in_meanwhile(clinic, person):
    fail(clinic, person, PER_NAME_AND_ADDRESS)
    assert Browser(clinic).sign_in(person).path == "/account"


def test_another_person_at_the_same_address_signs_in_meanwhile(clinic, person):
    browser = fail(clinic, person, PER_NAME_AND_ADDRESS)
    other = Browser(clinic, browser.address)
    assert other.sign_in(add_person(clinic, CLINICIAN)).path == "/account"


def test_after_the_window_it_begins_anew(clinic, person):
    browser = fail(clinic, person, PER_NAME_AND_ADDRESS)
    alter(clinic, update(Attempt).values(expires_at=int(time.time()) - 1))
    assert browser.sign_in(person, "wrong").status == 403
    assert browser.sign_in(person).path == "/account"


def test_where_the_password_was_used_before_it_is_never_refused_for_long(clinic, person):
    browser = Browser(clinic)
    browser.sign_in(person)
    browser.get("/account").submit("Sign out")
    # Whoever shares the address, as all do behind a proxy that is not named, guesses.
    fail(clinic, person, PER_NAME_AND_ADDRESS, browser)
    assert browser.sign_in(person).path == "/account"


def test_who_guesses_where_the_password_was_used_before_does_so_slowly(clinic, person, monkeypatch):
    monkeypatch.setattr(sign_in, "_PACE_SECONDS", 60)
    browser = Browser(clinic)
    browser.sign_in(person)
    browser.get("/account").submit("Sign out")
    fail(clinic, person, PER_NAME_AND_ADDRESS + 1, browser)
    page = browser.sign_in(person)
    assert page.status == 429
    assert int(page.headers["Retry-After"]) <= 60
    alter(clinic, update(Attempt).where(Attempt.times == 1).values(expires_at=0))


def test_one_name_is_not_tried_from_many_addresses(clinic, person):
    alter(clinic, update(Attempt).values(expires_at=0))
    fail(clinic, person, 1)
    alter(clinic, update(Attempt).values(times=PER_NAME - 1))
    fail(clinic, person, 1)
    assert Browser(clinic).sign_in(person).status == 429


def test_strangers_who_guess_do_not_lock_out_who_signed_in_there_before(
    clinic, person, monkeypatch
):
    monkeypatch.setattr(sign_in, "_PACE_SECONDS", 0)
    alter(clinic, update(Attempt).values(expires_at=0))
    browser = Browser(clinic)
    browser.sign_in(person)
    browser.get("/account").submit("Sign out")
    for _ in range(PER_NAME):
        fail(clinic, person, 1)
    assert Browser(clinic).sign_in(person).status == 429
    fail(clinic, person, 1, browser)
    assert browser.sign_in(person).path == "/account"


def test_many_failures_of_others_at_an_address_do_not_lock_out_who_signed_in_there(clinic, person):
    browser = Browser(clinic)
    browser.sign_in(person)
    browser.get("/account").submit("Sign out")
    for number in range(PER_ADDRESS):
        fail(clinic, f"{person}{number}", 1, browser)
    assert browser.sign_in(f"{person}x", "wrong").status == 429
    assert browser.sign_in(person).path == "/account"


def test_a_network_is_known_for_ninety_days(clinic, person):
    browser = Browser(clinic)
    alter(clinic, delete(Attempt))
    browser.sign_in(person)
    ((until,),) = rows(clinic, select(Attempt.expires_at))
    assert 0 <= time.time() + 90 * 86_400 - until < 60


def test_many_names_are_not_tried_from_one_address(clinic, person):
    alter(clinic, update(Attempt).values(expires_at=0))
    browser = fail(clinic, f"nobody-{person}", 1)
    alter(clinic, update(Attempt).values(times=PER_ADDRESS - 1))
    fail(clinic, f"another-{person}", 1, browser)
    assert browser.sign_in(person).status == 429
    assert Browser(clinic).sign_in(person).path == "/account"


@pytest.mark.parametrize(
    "name", ["{address} {name}", "of {name}", "{name} {address}", "code {name}"]
)
def test_what_is_typed_as_a_name_counts_for_nobody_else(clinic, person, name):
    browser = Browser(clinic)
    stranger = Browser(clinic)
    typed = name.format(address=browser.address, name=person)
    fail(clinic, typed, PER_NAME_AND_ADDRESS, stranger)
    assert fail(clinic, person, PER_NAME_AND_ADDRESS - 1, browser).sign_in(person).status == 200


def test_failures_count_across_the_processes_of_a_server(clinic, make_app, person):
    other = make_app(seed=False, database_url=settings_of(clinic).database_uri)
    browser = fail(clinic, person, 3)
    elsewhere = fail(other, person, 2, Browser(other, browser.address))
    assert browser.sign_in(person).status == 429
    assert elsewhere.sign_in(person).status == 429


@pytest.mark.usefixtures("unhurried")
def test_tries_at_once_are_counted_each(clinic, person):
    address = Browser(clinic).address

    def attempt(_: int) -> int:
        return Browser(clinic, address).sign_in(person, "wrong").status

    with ThreadPoolExecutor(8) as pool:
        statuses = Counter(pool.map(attempt, range(12)))
    assert statuses == {403: PER_NAME_AND_ADDRESS, 429: 12 - PER_NAME_AND_ADDRESS}


def test_no_password_and_no_name_that_failed_is_kept(clinic, person):
    fail(clinic, "my-password-by-mistake", 1)
    kept = rows(clinic, select(Attempt.digest))
    assert all(len(digest) == 32 for (digest,) in kept)
    assert rows(clinic, select(func.count()).where(User.username == "my-password-by-mistake")) == [
        (0,)
    ]


def test_the_people_of_the_demo_stand_on_its_sign_in_page(make_app):
    page = Browser(make_app(demo=True)).get("/sign-in")
    assert "Demo: invented patients only." in page.words
    for name in ("clinician", "admin", "patient"):
        assert name in page.words


def test_elsewhere_nobody_is_named(clinic):
    page = Browser(clinic).get("/sign-in")
    assert "demo" not in page.response.text.lower()


def test_a_patient_signs_in_like_everybody(clinic):
    page = Browser(clinic).sign_in(add_person(clinic, PATIENT, "p1"))
    assert "Amelia Rose Hartwell, born 12 April 1958" in page.words


def test_who_has_left_is_told(clinic, person):
    browser = Browser(clinic).resume(person)
    page = browser.get("/account").submit("Sign out")
    assert (page.heading, page.path) == ("Sign in", "/sign-in?done=signed-out")
    assert "You are signed out." in page.words


@pytest.mark.parametrize("done", ["<b>paid</b>", "You won", "\0", "é"])
def test_what_is_told_is_one_of_ours(clinic, done):
    page = Browser(clinic).get("/sign-in", query_string={"done": done})
    assert page.status == 200
    assert 'role="status"' not in page.response.text
    assert "won" not in page.words


def test_who_forgot_the_password_is_told_whom_to_ask(clinic):
    assert "Ask an administrator to reset it." in Browser(clinic).get("/sign-in").words


def test_who_is_signed_in_already_is_told_so_and_goes_on(clinic, person):
    browser = Browser(clinic).resume(person)
    page = browser.get("/sign-in?next=/account/apps&done=signed-out")
    assert "You are signed in as Robin Example" in page.words
    assert "You are signed out." not in page.words
    assert browser.get(page.links["Continue"]).path == "/account/apps"
    assert page.submit("Sign out").path == "/sign-in?done=signed-out"


def test_who_is_signed_in_already_may_become_somebody_else(clinic, person):
    other = add_person(clinic, CLINICIAN, name="Kim Other")
    page = Browser(clinic).resume(person).get("/sign-in")
    page = page.submit("Sign in", username=other, password=PASSWORD)
    assert page.heading == "Kim Other"


def test_who_shall_type_the_password_for_an_app_is_not_led_in_a_circle(clinic, person):
    page = Browser(clinic).resume(person).get("/sign-in?next=/oauth/authorize/x")
    assert "The app asks you to sign in again" in page.words
    assert "Continue" not in page.links
