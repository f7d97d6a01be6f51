"""What pages list of clients, users and refusals."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from sqlalchemy import func, or_, select, union_all
from sqlalchemy.orm import joinedload

from fhirapp.auth.models import (
    OF_PAGES,
    AccessToken,
    Client,
    Grant,
    RefreshToken,
    User,
)
from fhirapp.db import db

MOST_USERS = 50
_MOST_NAMESAKES = 5
# Of what is typed as a name: more tell nobody apart.
_MOST_WORDS = 8


class ListedClient(NamedTuple):
    """A client, and when the newest of its tokens was issued that has not been swept out."""

    client: Client
    token_at: int | None


def list_with_tokens() -> Sequence[ListedClient]:
    """Return every client: first those that wait for approval, then by name."""
    issued = union_all(
        *(
            select(kind.client_id, func.max(kind.issued_at).label("at")).group_by(kind.client_id)
            for kind in (AccessToken, RefreshToken)
        )
    ).subquery()
    newest = (
        select(issued.c.client_id, func.max(issued.c.at).label("at"))
        .group_by(issued.c.client_id)
        .subquery()
    )
    rows = db.session.execute(
        select(Client, newest.c.at)
        .outerjoin(newest, newest.c.client_id == Client.client_id)
        .where(Client.kind != OF_PAGES)
        .options(joinedload(Client.origin))
        .order_by(Client.approved_at.is_not(None), func.lower(Client.name), Client.client_id)
    )
    return [ListedClient(client, at) for client, at in rows]


def find_client(client_id: str) -> Client | None:
    """Return a client, whatever its state."""
    # PostgreSQL refuses a text with NUL in it, instead of not finding it.
    return db.session.get(Client, client_id) if client_id.isprintable() else None


def namesakes(client: Client) -> Sequence[Client]:
    """Return other clients that people could take for this one by their names, approved ones first.

    Case, spaces, punctuation, accents and forms of letters make no difference.
    """
    mine = _letters(client.name)
    order = (Client.approved_at.is_(None), Client.client_id)
    others = select(Client).where(Client.client_id != client.client_id).order_by(*order)
    alike = (other for other in db.session.scalars(others) if _letters(other.name) == mine)
    return [*islice(alike, _MOST_NAMESAKES)]


def _letters(name: str) -> str:
    text = unicodedata.normalize("NFKD", name).casefold()
    return "".join(filter(str.isalnum, text)) or text


def consents_to(client_id: str) -> int:
    """Return how many consents to a client are in force."""
    count = select(func.count()).where(
        Grant.client_id == client_id,
        Grant.revoked_at.is_(None),
        Grant.expires_at > int(time.time()),
    )
    return db.session.execute(count).scalar_one()


def find_users(text: str, role: str = "") -> tuple[Sequence[User], bool]:
    """Return the users in whose name or user name each word stands, and whether there are more.

    A comma parts words too: Muster, Anna. With a role only those who have it. By user name.
    """
    if not text.isprintable():
        return [], False
    query = select(User).where(
        *(
            or_(
                func.lower(User.name).contains(word, autoescape=True),
                User.username.contains(word, autoescape=True),
            )
            for word in text.lower().replace(",", " ").split()[:_MOST_WORDS]
        )
    )
    if role:
        query = query.where(User.role == role)
    users = db.session.scalars(query.order_by(User.username).limit(MOST_USERS + 1)).all()
    return users[:MOST_USERS], len(users) > MOST_USERS
