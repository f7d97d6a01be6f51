"""The second factor: one-time passwords of an app on the phone (TOTP), and recovery codes.

Source: RFC 6238, with 30 seconds and six digits; the interval before and after count too.
"""

from __future__ import annotations

import secrets
import time

from sqlalchemy import Connection, delete, func, insert, select, update

from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.keys import opened, sealed
from fhirapp.auth.models import RecoveryCode, User, digest
from fhirapp.db import db

ISSUER = "fhirapp"
_INTERVAL = 30
_RECOVERY_CODES = 8
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
    changed = connection.execute(
        update(User)
        .where(User.id == user_id, User.totp_secret.is_(None))
        .values(totp_secret=sealed(secret), totp_used=interval)
    )
    if changed.rowcount == 0:
        raise RefusedCommand("The second factor is on already.")
    connection.execute(delete(RecoveryCode).where(RecoveryCode.user_id == user_id))
    codes = ["".join(secrets.choice(_ALPHABET) for _ in range(16)) for _ in range(_RECOVERY_CODES)]
    connection.execute(
        insert(RecoveryCode), [{"digest": digest(code), "user_id": user_id} for code in codes]
    )
    return [f"{code[:4]}-{code[4:8]}-{code[8:12]}-{code[12:]}" for code in codes]


def disable(connection: Connection, user_id: str) -> None:
    """Ask for no second factor any more."""
    connection.execute(update(User).where(User.id == user_id).values(totp_secret=None))
    connection.execute(delete(RecoveryCode).where(RecoveryCode.user_id == user_id))


def codes_left(user_id: str) -> int:
    """Return how many recovery codes were not used yet."""
    count = select(func.count()).where(RecoveryCode.user_id == user_id)
    return db.session.execute(count).scalar_one()


def accept(connection: Connection, user: User, code: str) -> bool:
    """Use a one-time password or a recovery code; False where it is wrong or was used."""
    if user.totp_secret is None:
        return False
    try:
        interval = interval_of(opened(user.totp_secret), code)
    except ValueError:
        # The server's key was lost, and a new one made: the recovery codes still serve.
        interval = None
    if interval is not None:
        changed = connection.execute(
            update(User)
            .where(User.id == user.id, User.totp_used < interval)
            .values(totp_used=interval)
        )
        return changed.rowcount == 1
    spent = connection.execute(
        delete(RecoveryCode).where(
            RecoveryCode.user_id == user.id,
            RecoveryCode.digest == digest(code.lower().replace("-", "").replace(" ", "")),
        )
    )
    return spent.rowcount == 1
