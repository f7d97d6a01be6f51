"""A flow that yields an ID token, and the parts of that token."""

from __future__ import annotations

import base64
import json
from typing import Any

from joserfc import jwt
from joserfc.jwk import KeySet
from werkzeug.test import TestResponse

from tests.support.authorizing import (
    Flow,
)

DOCTOR = "Practitioner/dr-adeyemi"


def header_of(id_token: str) -> dict[str, Any]:
    """Return the header of a compact JWS."""
    part = id_token.partition(".")[0]
    header: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    return header


def claims_of(flow: Flow, answer: dict[str, Any]) -> dict[str, Any]:
    """Return the claims of an answer's id token, checked as a client does it: by jwks.json."""
    published = flow.app.test_client().get("/oauth/jwks.json").get_json()
    keys = KeySet.import_key_set(published)
    return dict(jwt.decode(answer["id_token"], keys, algorithms=["RS256"]).claims)


def user_info(flow: Flow, token: str, method: str = "GET") -> TestResponse:
    """Ask who the user of a token is."""
    headers = {"Authorization": f"Bearer {token}"}
    return flow.app.test_client().open("/oauth/userinfo", method=method, headers=headers)
