"""Apps that anybody may register on the page: throttled, few, and without tokens until approved."""

from __future__ import annotations

import time

from sqlalchemy import Connection, delete, func, select

from fhirapp.auth import attempts
from fhirapp.auth.attempts import TooOften
from fhirapp.auth.clients.registration import Registration, columns, owner_code, register
from fhirapp.auth.errors import RefusedCommand
from fhirapp.auth.models import Client
from fhirapp.auth.throttle import network_of
from fhirapp.db import db, writing

# From one address.
PER_HOUR = 10
# Of one client, by whoever holds its owner's address.
TESTS_PER_HOUR = 30
MOST_WAITING = 100
# What nobody approved meanwhile makes room for others.
WAITING_SECONDS = 30 * 86_400
_HOUR = 3600


def apply(registration: Registration, address: str) -> str:
    """Register a client that waits for approval; return the code of its owner's page.

    address is where the request comes from. Raises RefusedCommand, TooOften.
    """
    # Before the write lock is taken: anybody may send this.
    columns(registration)
    db.session.rollback()
    with writing() as connection:
        _count(connection, f"register {network_of(address)}", PER_HOUR)
        _make_room(connection)
        client_id = register(connection, registration, approved=False)
        return owner_code(connection, client_id)


def count_test(client_id: str) -> None:
    """Count one test of a client, which may ask another server. Raises TooOften."""
    db.session.rollback()
    with writing() as connection:
        _count(connection, f"test {client_id}", TESTS_PER_HOUR)


def _count(connection: Connection, key: str, limit: int) -> None:
    wait = attempts.wait_seconds(connection, key, limit)
    if wait:
        raise TooOften(wait)
    attempts.count(connection, key, _HOUR)


def _make_room(connection: Connection) -> None:
    waits = Client.approved_at.is_(None)
    oldest = int(time.time()) - WAITING_SECONDS
    connection.execute(delete(Client).where(waits, Client.registered_at < oldest))
    count = connection.execute(select(func.count()).select_from(Client).where(waits)).scalar()
    if count is not None and count >= MOST_WAITING:
        raise RefusedCommand(
            "%(count)s apps wait for approval already; ask the clinic's administrator.",
            count=MOST_WAITING,
        )
