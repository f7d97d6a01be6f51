"""The second factor: one-time passwords and recovery codes."""

from __future__ import annotations

import base64
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pyotp
import pytest
from flask import Flask
from sqlalchemy import select, update

from fhirapp.auth.models import CLINICIAN, RecoveryCode, User
from fhirapp.auth.users import second_factor
from fhirapp.config import RefusedCommand
from fhirapp.db import db, writing
from tests.support.authorizing import alter, rows
from tests.support.browsing import add_person
from tests.support.second_factor import SECRET, code_now, enable, user_of

# In the middle of an interval; the codes of this one and those around it differ.
NOON = 1_800_000_015


def accept(app: Flask, username: str, code: str) -> bool:
    user_id = user_of(app, username).id
    with app.app_context():
        user = db.session.get_one(User, user_id)
        db.session.expunge_all()
        recovery = second_factor.recovery_code(user_id, code)
        with writing() as connection:
            return second_factor.accept(connection, user, code, recovery)


def code_at(seconds: float) -> str:
    return pyotp.TOTP(SECRET).at(int(seconds))


def test_one_time_code_is_valid_in_its_interval_and_those_around_it():
    expected = {
        code_at(NOON): 0,
        code_at(NOON - 30): -1,
        code_at(NOON + 30): 1,
        f"{code_at(NOON)[:3]} {code_at(NOON)[3:]}": 0,
        **dict.fromkeys((code_at(NOON - 60), code_at(NOON + 60), code_at(NOON)[:5])),
        **dict.fromkeys((f"{code_at(NOON)}0", "", "abcdef", "٠١٢٣٤٥", "\0" * 6)),
    }
    for code, interval in expected.items():
        valid = None if interval is None else NOON // 30 + interval
        assert second_factor.interval_of(SECRET, code, NOON) == valid, code


def test_secrets_are_160_random_bits():
    secrets = {second_factor.new_secret() for _ in range(10)}
    assert len(secrets) == 10
    assert {len(base64.b32decode(secret)) for secret in secrets} == {20}


def test_otpauth_url_names_the_server_and_the_user():
    assert second_factor.address(SECRET, "a@b.example") == (
        f"otpauth://totp/fhirapp:a%40b.example?secret={SECRET}&issuer=fhirapp"
    )


def test_one_time_code_is_used_once_and_none_before_it(clinic, person):
    enable(clinic, person)
    now = code_now()
    assert accept(clinic, person, now)
    assert not accept(clinic, person, now)
    assert not accept(clinic, person, code_now(later=-1))
    assert accept(clinic, person, code_now(later=1))


def test_code_that_turned_the_factor_on_does_not_sign_in(clinic, person):
    enable(clinic, person, int(time.time()) // 30)
    assert not accept(clinic, person, code_now(later=-1))


def test_recovery_code_is_used_once_however_it_is_typed(clinic, person):
    first, second, third, *_ = enable(clinic, person)
    assert accept(clinic, person, first)
    assert not accept(clinic, person, first)
    assert accept(clinic, person, f" {second.upper()} ")
    assert accept(clinic, person, third.replace("-", " "))


def test_recovery_code_is_for_its_own_user(clinic, person):
    other = add_person(clinic, CLINICIAN)
    code, *_ = enable(clinic, person)
    enable(clinic, other)
    assert not accept(clinic, other, code)
    assert accept(clinic, person, code)


def test_no_code_is_valid_without_a_second_factor_and_none_is_replaced(clinic, person):
    assert not accept(clinic, person, code_now())
    assert not accept(clinic, person, "")
    enable(clinic, person)
    with pytest.raises(RefusedCommand, match="already on"):
        enable(clinic, person)


def test_recovery_codes_are_valid_where_the_servers_key_was_lost(clinic, person):
    code, *_ = enable(clinic, person)
    alter(clinic, update(User).where(User.username == person).values(totp_secret=b"sealed else"))
    assert not accept(clinic, person, code_now())
    assert accept(clinic, person, code)


def test_secret_and_recovery_codes_are_stored_encrypted_and_hashed(clinic, person):
    codes = enable(clinic, person)
    user = user_of(clinic, person)
    assert user.totp_secret is not None
    assert SECRET.encode() not in user.totp_secret
    kept = rows(clinic, select(RecoveryCode.hash).where(RecoveryCode.user_id == user.id))
    assert len(kept) == len(codes) == 8
    assert all(stored.startswith("$argon2id$") for (stored,) in kept)


@pytest.mark.usefixtures("unhurried")
def test_code_that_eight_use_at_once_is_accepted_once(clinic, person):
    recovery, *_ = enable(clinic, person)
    for code in (code_now(), recovery):
        with ThreadPoolExecutor(8) as pool:
            used = Counter(pool.map(lambda _: accept(clinic, person, code), range(8)))  # noqa: B023
        assert used == {True: 1, False: 7}
