"""The second factor: a one-time password of a phone (TOTP, RFC 6238), or a recovery code."""

from __future__ import annotations

import secrets
import time

from sqlalchemy import Connection, delete, func, insert, select, update

from fhirapp.audit.events import record
from fhirapp.auth.models import RecoveryCode, User, digest
from fhirapp.auth.users import passwords
from fhirapp.config import RefusedCommand
from fhirapp.db import db
from fhirapp.keys import opened, sealed

ISSUER = "fhirapp"
_INTERVAL = 30
_RECOVERY_CODES, _RECOVERY_LENGTH = 8, 16
# Without letters and digits that look alike.
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"


def new_secret() -> str:
    """Return a new secret, as the phone's app takes it."""
    import pyotp

    return pyotp.random_base32()


def address(secret: str, username: str) -> str:
    """Return the otpauth: address that the QR code shows."""
    import pyotp

    return pyotp.TOTP(secret).provisioning_uri(name=username, issuer_name=ISSUER)


def interval_of(secret: str, code: str, now: float | None = None) -> int | None:
    """Return the interval that a code belongs to, None where it is wrong."""
    import pyotp

    moment = int(time.time() if now is None else now) // _INTERVAL
    digits = code.replace(" ", "")
    for interval in (moment, moment - 1, moment + 1):
        if secrets.compare_digest(
            pyotp.TOTP(secret).at(interval * _INTERVAL).encode(), digits.encode()
        ):
            return interval
    return None


def enable(connection: Connection, user_id: str, secret: str, interval: int) -> list[str]:
    """Ask for a second factor from now on; return the recovery codes, shown this once.

    Raises RefusedCommand where there is one already: it is turned off first.
    """
    without = update(User).where(User.id == user_id, User.totp_secret.is_(None))
    values = {"totp_secret": sealed(secret), "totp_used": interval}
    if connection.execute(without.values(values)).rowcount == 0:
        raise RefusedCommand("The second factor is already on.")
    connection.execute(delete(RecoveryCode).where(RecoveryCode.user_id == user_id))
    codes = [
        "".join(secrets.choice(_ALPHABET) for _ in range(_RECOVERY_LENGTH))
        for _ in range(_RECOVERY_CODES)
    ]
    rows = [{"hash": passwords.hashed(_digits(code)), "user_id": user_id} for code in codes]
    connection.execute(insert(RecoveryCode), rows)
    record("factor-on", about=f"user/{user_id}", user_id=user_id)
    return [f"{code[:4]}-{code[4:8]}-{code[8:12]}-{code[12:]}" for code in codes]


def disable(connection: Connection, user_id: str) -> bool:
    """Ask for no second factor any more; False where there is none."""
    has_one = (User.id == user_id, User.totp_secret.is_not(None))
    if connection.execute(update(User).where(*has_one).values(totp_secret=None)).rowcount == 0:
        return False
    connection.execute(delete(RecoveryCode).where(RecoveryCode.user_id == user_id))
    record("factor-off", about=f"user/{user_id}")
    return True


def codes_left(user_id: str) -> int:
    """Return how many recovery codes were not used yet."""
    count = select(func.count()).where(RecoveryCode.user_id == user_id)
    return db.session.execute(count).scalar_one()


def _digits(code: str) -> str:
    """Return what is hashed of a recovery code, as it was typed."""
    return digest(code.lower().replace("-", "").replace(" ", "")).hex()


def recovery_code(user_id: str, code: str) -> str:
    """Return the hash of a user's recovery code; empty where it is none of theirs.

    It takes as long as many passwords: no transaction may be open meanwhile.
    """
    typed = code.replace("-", "").replace(" ", "")
    if len(typed) != _RECOVERY_LENGTH:
        return ""
    stored = db.session.scalars(
        select(RecoveryCode.hash).where(RecoveryCode.user_id == user_id)
    ).all()
    db.session.close()
    digits = _digits(code)
    return next((code_hash for code_hash in stored if passwords.verify(code_hash, digits)), "")


def accept(connection: Connection, user: User, code: str, recovery: str = "") -> bool:
    """Use a one-time password or a recovery code; False where it is wrong or was used.

    recovery is what recovery_code() found of the code.
    """
    if user.totp_secret is None:
        return False
    try:
        interval = interval_of(opened(user.totp_secret), code)
    except ValueError:
        # The server's key was lost, and a new one made: the recovery codes still serve.
        interval = None
    if interval is not None:
        unused = update(User).where(User.id == user.id, User.totp_used < interval)
        return connection.execute(unused.values(totp_used=interval)).rowcount == 1
    own = (RecoveryCode.user_id == user.id, RecoveryCode.hash == recovery)
    return connection.execute(delete(RecoveryCode).where(*own)).rowcount == 1
