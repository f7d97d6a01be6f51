"""Changes to the consents, tokens and sessions of a flow, and tokens of backends."""

from __future__ import annotations

import time
from typing import Any

from sqlalchemy import select, update

from fhirapp.auth.models import Grant, digest
from fhirapp.auth.users import sessions
from fhirapp.db import writing
from tests.support.authorizing import Flow, alter, rows


def end_sessions(flow: Flow) -> None:
    """Sign the user out everywhere."""
    with flow.app.app_context(), writing() as connection:
        sessions.end_all(connection, flow.user_id)


def expire(flow: Flow, model: Any, secret: str, seconds: int = 0) -> None:
    """Set the expiry of a token or code to so many seconds ago."""
    row = update(model).where(model.digest == digest(secret))
    alter(flow.app, row.values(expires_at=int(time.time()) - seconds))


def row_of(flow: Flow, model: Any, secret: str) -> Any:
    """Return the row of a token, code, launch or request, which is stored by its digest."""
    ((found,),) = rows(flow.app, select(model).where(model.digest == digest(secret)))
    return found


def set_grant(flow: Flow, **values: int) -> None:
    """Change all that the user allowed."""
    alter(flow.app, update(Grant).where(Grant.user_id == flow.user_id).values(values))


def token_of_backend(flow: Flow, scope: str = "system/*.rs", **options: Any) -> str:
    """Return a token that the flow's program gets for itself."""
    form = {"grant_type": "client_credentials", "scope": scope}
    token: str = flow.ask("/oauth/token", **options, **form).get_json()["access_token"]
    return token
