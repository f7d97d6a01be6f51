"""How a client proves who it is at the token, introspection and revocation endpoints.

By Basic, by a signed assertion (client_assertion.py), or not at all where it is public.
Source: RFC 6749 §2.3, §3.2.
"""

from __future__ import annotations

import base64
import binascii
import re
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from authlib.oauth2.rfc6749 import ClientAuthentication as OneOfSeveralMethods
from authlib.oauth2.rfc6749 import InvalidClientError, InvalidRequestError
from authlib.oauth2.rfc6749.authenticate_client import authenticate_client_secret_basic
from flask import request
from sqlalchemy import select

from fhirapp.auth.models import BASIC, NONE, SIGNED, Client, RefreshToken, digest
from fhirapp.db import db

_ASSERTION = "client_assertion"
_PRINTABLE = re.compile(r"[ !#-\[\]-~]*")


class ClientAuthentication(OneOfSeveralMethods):  # type: ignore[misc]
    """Authenticates a client by the one method that its request uses.

    Authlib tries one method after the other, so that an app whose proof is wrong could pass as a
    public client, and lists the methods where none fits.
    """

    def authenticate(self, request: Any, methods: Any, endpoint: str) -> Client:
        """Return the client. Raises InvalidClientError."""
        method = _method(request)
        client: Client | None = _public_refresher(request, methods)
        if client is None and method in methods:
            client = self._methods[method](self.query_client, request)
            if client is not None and not client.check_endpoint_auth_method(method, endpoint):
                client = None
        if client is None:
            raise InvalidClientError(
                description="No client proved who it is: by Basic, or by a signed assertion.",
                status_code=401,
            )
        request.auth_method = method
        return client


def client_secret_basic(query_client: Any, request: Any) -> Any:
    """Return the client, None without the secret: a stranger does not learn which clients exist."""
    with suppress(InvalidClientError):
        return authenticate_client_secret_basic(query_client, request)
    return None


def find_client(client_id: str) -> Client | None:
    """Return a client that is registered, approved and not disabled."""
    if not _PRINTABLE.fullmatch(client_id):
        return None
    return db.session.scalars(
        select(Client).where(
            Client.client_id == client_id,
            Client.disabled.is_(False),
            Client.approved_at.is_not(None),
        )
    ).one_or_none()


def _method(request: Any) -> str:
    """Return the way in which the sender of a request says who it is."""
    if "Authorization" in request.headers:
        return BASIC
    return SIGNED if _ASSERTION in request.form else NONE


def _public_refresher(request: Any, methods: Any) -> Client | None:
    """Return the public client of a refresh token that comes without client_id.

    SMART's own client for JavaScript sends none; the token alone proves as much.
    """
    token = request.form.get("refresh_token")
    is_unnamed = _method(request) == NONE and not request.form.get("client_id")
    if token is None or NONE not in methods or not is_unnamed:
        return None
    refresh_token = db.session.get(RefreshToken, digest(token))
    client = None if refresh_token is None else find_client(refresh_token.client_id)
    return client if client is not None and client.kind == "public" else None


def check_form(needed: str) -> None:
    """Refuse what Authlib lets pass: repeated or misplaced parameters, two ways to authenticate.

    needed is the parameter without which nothing is asked for. Raises InvalidRequestError.
    RFC 6749 §2.3, §3.2.
    """
    if request.query_string:
        raise InvalidRequestError("Parameters belong in the body.")
    form = request.form
    if any(len(values) > 1 for _, values in form.lists()):
        raise InvalidRequestError("A parameter is repeated.")
    # Authlib quotes values in its answers, where RFC 6749 §5.2 allows no others.
    if not all(map(_PRINTABLE.fullmatch, form.values())):
        raise InvalidRequestError("A parameter has characters outside printable ASCII.")
    header = request.headers.get("Authorization", "")
    basic = header.lower().startswith("basic ")
    user = _basic_user() if basic else None
    if header and (len(header.split()) != 2 or (basic and user is None)):
        raise InvalidRequestError("The Authorization header is not readable.")
    if user is not None and form.get("client_id", user) != user:
        raise InvalidRequestError("client_id contradicts the Authorization header.")
    if bool(header) + (_ASSERTION in form) + ("client_secret" in form) > 1:
        raise InvalidRequestError("Authenticate in one way only.")
    if not form.get(needed):
        raise InvalidRequestError(f"{needed} is missing.")


def _basic_user() -> str | None:
    """Return the user of the Basic header, None where it cannot be read. RFC 6749 §2.3.1."""
    text = request.headers["Authorization"].split(None, 1)[-1]
    try:
        user, colon, _ = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, ValueError):
        return None
    return unquote(user) if colon else None
