"""Accounts that anybody may use, because their password is public: those of the demo."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fhirapp.config import settings
from fhirapp.feature import features, imported


class PublicAccount(NamedTuple):
    """The account of a user; a related person has the role of a patient."""

    username: str
    name: str
    role: str
    is_related_person: bool = False


class PublicAccounts(NamedTuple):
    """The accounts of users, and the client ID of a backend; all have the same secret."""

    people: Sequence[PublicAccount]
    backend: str
    secret: str


def public_accounts() -> PublicAccounts | None:
    """Return the public accounts of this server, None outside the demo."""
    if not settings().demo:
        return None
    accounts: PublicAccounts = next(
        imported(feature.public_accounts) for feature in features() if feature.public_accounts
    )
    return accounts
