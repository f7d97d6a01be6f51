"""A user's second factor, and its one-time codes."""

from __future__ import annotations

import time

import pyotp
from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import User
from fhirapp.auth.users import second_factor
from fhirapp.db import writing
from tests.support.authorizing import rows

SECRET = "JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP"


def user_of(app: Flask, username: str) -> User:
    ((user,),) = rows(app, select(User).where(User.username == username))
    found: User = user
    return found


def enable(app: Flask, username: str, interval: int = 1) -> list[str]:
    """Turn a user's second factor on with SECRET; return the recovery codes."""
    user_id = user_of(app, username).id
    with app.app_context(), writing() as connection:
        return second_factor.enable(connection, user_id, SECRET, interval)


def code_now(secret: str = SECRET, later: int = 0) -> str:
    """Return a code that counts now: this interval's, or with later=1 the next one's."""
    return pyotp.TOTP(secret).at(int(time.time()) + 30 * later)
