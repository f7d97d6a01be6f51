"""Clients registered with a demo that runs, of each kind that there is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from joserfc.jwk import ECKey, RSAKey

from fhirapp.auth.clients.administration import new_secret
from fhirapp.auth.clients.registration import Registration, register
from fhirapp.auth.models import BASIC, NONE, SIGNED
from tests.support.authorizing import EVERYTHING

if TYPE_CHECKING:
    from tests.support.live import Demo

# How an app proves who it is: not at all, by its secret, or by what it signs so.
PUBLIC, SECRET, RS384, ES384 = KINDS = ("public", "secret", "RS384", "ES384")
_METHODS = {PUBLIC: NONE, SECRET: BASIC}


class Registered(NamedTuple):
    """A client, with what proves that it is it: a secret, or a private key (a JWK)."""

    client_id: str
    secret: str | None = None
    key: dict[str, Any] | None = None


def register_app(demo: Demo, kind: str, uri: str, *, approved: bool = True) -> Registered:
    """Register an app that is at one address: where it starts, and where its users come back."""
    key = _new_key(kind)
    registration = Registration(
        name=f"App of kind {kind}",
        kind="public" if kind == PUBLIC else "confidential",
        auth_method=_METHODS.get(kind, SIGNED),
        scope=EVERYTHING,
        redirect_uris=(uri,),
        launch_uri=uri,
        jwks=key,
    )
    with demo.writing() as connection:
        client_id = register(connection, registration, approved=approved)
        secret = new_secret(connection, client_id) if kind == SECRET else None
    return Registered(client_id, secret, key)


def register_backend(demo: Demo, algorithm: str) -> Registered:
    """Register a backend service that signs."""
    key = _new_key(algorithm)
    registration = Registration(
        name="A backend", kind="backend", auth_method=SIGNED, scope="system/*.rs", jwks=key
    )
    with demo.writing() as connection:
        return Registered(register(connection, registration), key=key)


def _new_key(kind: str) -> dict[str, Any] | None:
    """Return a private key for an algorithm; registering keeps its public part."""
    parameters = {"kid": f"a key for {kind}", "alg": kind}
    if kind == RS384:
        return dict(RSAKey.generate_key(2048, parameters).as_dict(private=True))
    if kind == ES384:
        return dict(ECKey.generate_key("P-384", parameters).as_dict(private=True))
    return None
