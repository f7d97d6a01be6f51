"""Users added within a transaction, as commands and pages add them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from fhirapp.auth.models import CLINICIAN
from fhirapp.auth.users import accounts

PASSWORD = "a few words, say"


def add(connection: Connection, username: str = "maria", **given: Any) -> str:
    """Add a user who is valid but for what is given."""
    wanted = {"name": "Maria", "role": CLINICIAN, "password": PASSWORD, **given}
    return accounts.add_user(connection, username, **wanted)
