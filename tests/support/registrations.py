"""Registrations of each kind of client, and the message of a command that is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from joserfc.jwk import ECKey, KeySet, RSAKey

from fhirapp.auth.clients.registration import Registration
from fhirapp.auth.models import BASIC, NONE, SIGNED
from fhirapp.config import RefusedCommand

EC = ECKey.generate_key("P-384", {"kid": "ec"})
RSA = RSAKey.generate_key(2048, {"kid": "rsa"})
JWKS = KeySet([EC]).as_dict(private=False)
REDIRECT = "https://app.example/callback"
BACKEND = Registration(
    name="Lab", kind="backend", auth_method=SIGNED, scope="system/*.rs", jwks=JWKS
)
PUBLIC = Registration(
    name="App",
    kind="public",
    auth_method=NONE,
    scope="launch/patient patient/*.rs",
    redirect_uris=(REDIRECT,),
)
CONFIDENTIAL = replace(PUBLIC, kind="confidential", auth_method=BASIC)


def refusal_of(call: Callable[..., object], *arguments: Any, **given: Any) -> str:
    """Return the message of the RefusedCommand that a call raises; empty where it raises none."""
    try:
        call(*arguments, **given)
    except RefusedCommand as error:
        message = str(error)
        assert message.isprintable()
        return message
    return ""
