"""Passwords: which are strong enough, and their argon2id hashes.

A process computes two hashes at once at most: each takes 19 MiB.
"""

from __future__ import annotations

import unicodedata
from functools import cache
from pathlib import Path
from threading import BoundedSemaphore
from typing import TYPE_CHECKING

from fhirapp.config import RefusedCommand

if TYPE_CHECKING:
    from argon2 import PasswordHasher

SHORTEST, LONGEST = 10, 200
# A shorter name than this stands in too many words by chance.
_NAME_TELLS = 4
_AT_ONCE = BoundedSemaphore(2)


class WeakPassword(RefusedCommand):
    """A password that is not taken; str() says why, to whoever chose it."""


def check(password: str, username: str) -> None:
    """Raise WeakPassword for one that is too short, or easily guessed."""
    if len(password) < SHORTEST:
        raise WeakPassword("Choose a password of at least %(least)s characters.", least=SHORTEST)
    if len(password) > LONGEST:
        raise WeakPassword("Choose a password of at most %(most)s characters.", most=LONGEST)
    if len(username) >= _NAME_TELLS and username in password.lower():
        raise WeakPassword("The password contains your user name. Choose another one.")
    if "fhirapp" in password.lower():
        raise WeakPassword("The password contains the name of this software. Choose another one.")
    if _composed(password).casefold() in _common():
        raise WeakPassword("This is one of the most common passwords. Choose another one.")
    if len(set(password)) < 5:
        raise WeakPassword(
            "Choose a password that is harder to guess, such as a few unrelated words."
        )


@cache
def _common() -> frozenset[str]:
    """Return the passwords that are tried first, in small letters."""
    path = Path(__file__).with_name("common_passwords.txt")
    lines = path.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("# "))


def hashed(password: str) -> str:
    """Return the argon2id hash to store."""
    with _AT_ONCE:
        return _hasher().hash(_composed(password))


def verify(stored: str | None, password: str) -> bool:
    """Say whether a password is the stored one; without one it takes as long, and is not."""
    from argon2.exceptions import InvalidHashError, VerificationError

    with _AT_ONCE:
        try:
            return _hasher().verify(stored or _nobodys(), _composed(password)) and bool(stored)
        except (VerificationError, InvalidHashError):
            return False


def _composed(password: str) -> str:
    """Return the same bytes whichever keyboard composed the letters (NIST SP 800-63B §5.1.1.2)."""
    return unicodedata.normalize("NFKC", password)


def is_outdated(stored: str) -> bool:
    """Say whether a hash was made with other parameters than these."""
    return _hasher().check_needs_rehash(stored)


@cache
def _hasher() -> PasswordHasher:
    # Imported at the first sign-in: a server that only answers programs never needs it.
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19_456, parallelism=1)


@cache
def _nobodys() -> str:
    return _hasher().hash("nobody's password")
