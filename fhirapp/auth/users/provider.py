"""The clinic's own identity provider, by OpenID Connect: a person proves there who they are.

Authlib's client speaks with it. Here is what it does not settle: which issuer, audience and
algorithms are right, whether the person signed in just now, and which role their claims give.

Source: OpenID Connect Core 1.0 §3.1, RFC 7636 (PKCE), RFC 8176 (amr), RFC 9207 (iss).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, NamedTuple

from flask import Flask, current_app

from fhirapp.auth.models import ROLES
from fhirapp.auth.tokens import new_token
from fhirapp.config import ConfigurationError, Settings, settings, settings_of

if TYPE_CHECKING:
    from authlib.integrations.base_client import OAuth2Mixin

# For each request to the provider.
SECONDS = 5.0
# So long what it says of itself is believed; its keys too, unless it signs with one not seen yet.
_KNOWN_SECONDS = 3600
# What a clock may differ from ours.
_LEEWAY_SECONDS = 60
# Signatures that only the provider can make: by a shared secret, this server could too.
_ALGORITHMS = frozenset(
    f"{family}{bits}" for family in ("RS", "PS", "ES") for bits in (256, 384, 512)
) | {"EdDSA", "Ed25519"}
# RFC 8176: what somebody knows, has and is; two of the three are several factors.
_FACTORS = (
    frozenset({"pwd", "pin", "kba"}),
    frozenset({"otp", "hwk", "swk", "sc", "sms", "tel"}),
    frozenset({"fpt", "face", "iris", "retina", "vbm"}),
)
_LONGEST = 255
_NAMES_ITSELF = "authorization_response_iss_parameter_supported"
# Requests to the provider at once: it may be slow, and others need the threads.
_AT_ONCE = BoundedSemaphore(2)
_EXTENSION = "fhirapp.provider"


class Unproved(Exception):
    """The provider did not prove who somebody is; str() says why, to the log."""


class Unreachable(Exception):
    """The provider does not answer, or not as its standard has it; str() says why, to the log."""


class PendingSignIn(NamedTuple):
    """What the browser keeps while somebody is at the provider; nobody may read or change it."""

    state: str
    nonce: str
    verifier: str
    # Unix time. fresh: the person must prove who they are once more.
    at: int
    fresh: bool
    # Where to go on afterwards, a path of ours.
    back: str


class ProviderIdentity(NamedTuple):
    """Who somebody is, as the provider proved it."""

    issuer: str
    subject: str
    # As the provider has them, for administrators to know the person by; may be empty.
    name: str
    username: str
    # What the claims give; None without a rule, and where it gives none.
    role: str | None
    # Whether a second factor was shown there.
    several_factors: bool


class Rule(NamedTuple):
    """Which role a claim's values give: the first that fits."""

    claim: str
    roles: Sequence[tuple[str, str]]

    def role(self, claims: Mapping[str, Any]) -> str | None:
        """Return the role of somebody with these claims, None where they give none."""
        claim = _claim(claims, self.claim)
        values = {str(value) for value in (claim if isinstance(claim, list) else [claim])}
        if claim is None:
            return None
        return next((role for value, role in self.roles if value == "*" or value in values), None)


def rule_of(text: str) -> Rule | None:
    """Read FHIRAPP_OIDC_ROLES: `groups: admins=administrator; doctors=clinician`.

    Values may hold commas and equals signs, as LDAP's names do. Raises ConfigurationError.
    """
    if not text.strip():
        return None
    claim, _colon, rest = text.partition(":")
    pairs = [part.strip().rpartition("=") for part in rest.split(";") if part.strip()]
    roles = [(value.strip(), role.strip()) for value, _equals, role in pairs]
    if not claim.strip() or not roles or any(not v or r not in ROLES for v, r in roles):
        raise ConfigurationError(
            f"FHIRAPP_OIDC_ROLES={text!r} cannot be used: write the claim, and which role its "
            f"values give ({', '.join(ROLES)}): groups: admins=administrator; doctors=clinician"
        )
    return Rule(claim.strip(), roles)


def init_app(app: Flask) -> None:
    """Give the app its provider, where the settings name one. Raises ConfigurationError."""
    settings = settings_of(app)
    rule = rule_of(settings.oidc_roles)
    if settings.oidc_issuer:
        app.extensions[_EXTENSION] = Provider(settings, rule)


def provider() -> Provider | None:
    """Return the provider that the settings name."""
    current: Provider | None = current_app.extensions.get(_EXTENSION)
    return current


class Provider:
    """The provider, and this server as its client."""

    def __init__(self, settings: Settings, rule: Rule | None) -> None:
        self.issuer = settings.oidc_issuer
        self.rule = rule
        self._settings = settings
        self._client: OAuth2Mixin | None = None
        self._read_at = 0.0
        self._lock = Lock()

    @property
    def name(self) -> str:
        """What people call it: an administrator may change that meanwhile."""
        return settings().oidc_name or self.issuer.partition("://")[2].partition("/")[0]

    def begin(self, redirect_uri: str, back: str, *, fresh: bool) -> tuple[str, PendingSignIn]:
        """Return the address at the provider, and what the browser keeps. Raises Unreachable."""
        # 43 characters and more, as RFC 7636 asks of a verifier.
        login = PendingSignIn(new_token(), new_token(), new_token(), int(time.time()), fresh, back)
        again = {"prompt": "login", "max_age": 0} if fresh else {}
        with self._open_client() as client:
            authorization = client.create_authorization_url(
                redirect_uri,
                state=login.state,
                nonce=login.nonce,
                code_verifier=login.verifier,
                **again,
            )
        return str(authorization["url"]), login

    def finish(
        self, redirect_uri: str, answer: Mapping[str, str], login: PendingSignIn
    ) -> ProviderIdentity:
        """Return who it is that comes back with an answer. Raises Unproved, Unreachable."""
        if answer.get("state") != login.state:
            raise Unproved("the answer belongs to another request")
        with self._open_client() as client:
            names_itself = client.load_server_metadata().get(_NAMES_ITSELF)
            if answer.get("iss", "" if names_itself else self.issuer) != self.issuer:
                raise Unproved("the answer is another issuer's")
            if "error" in answer:
                raise Unproved(f"the provider answers {answer['error'][:100]!r}")
            token = client.fetch_access_token(
                redirect_uri, code=answer.get("code", ""), code_verifier=login.verifier
            )
            claims = self._proved(client, token, login)
        role = self.rule.role(claims) if self.rule else None
        username = _text(claims, "preferred_username") or _text(claims, "email")
        name = _text(claims, "name") or username
        return ProviderIdentity(
            self.issuer, claims["sub"], name, username, role, _has_several_factors(claims["amr"])
        )

    def leave(self, back: str) -> str:
        """Return the provider's address to sign out at, empty where it has none.

        Raises Unreachable.
        """
        with self._open_client() as client:
            if not client.load_server_metadata().get("end_session_endpoint"):
                return ""
            logout = client.create_logout_url(back, client_id=self._settings.oidc_client_id)
        return str(logout["url"])

    def _proved(
        self, client: Any, token: Mapping[str, Any], login: PendingSignIn
    ) -> dict[str, Any]:
        """Return the claims of an id token, and of the userinfo endpoint. Raises Unproved."""
        audience = self._settings.oidc_client_id
        options = {
            "iss": {"essential": True, "value": self.issuer},
            "aud": {"essential": True, "value": audience},
        }
        # Without a class of claims of ours: Authlib compares at_hash with its own only.
        claims = client.parse_id_token(token, login.nonce, options, leeway=_LEEWAY_SECONDS)
        subject = claims.get("sub") if claims else None
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST:
            raise Unproved("there is no id token, or it names nobody")
        auth_time = claims.get("auth_time")
        is_fresh = isinstance(auth_time, int | float) and auth_time >= login.at - _LEEWAY_SECONDS
        if login.fresh and not is_fresh:
            raise Unproved("the person was to sign in anew, and did not")
        known = dict(claims)
        needs = self.rule is not None and _claim(known, self.rule.claim) is None
        endpoint = client.load_server_metadata().get("userinfo_endpoint")
        if endpoint and (needs or not known.get("name")):
            further = client.userinfo(token=token)
            # OpenID Connect Core §5.3.2: another's claims are not this person's.
            if further.get("sub") != subject:
                raise Unproved("the userinfo endpoint tells of somebody else")
            known = {**further, **known}
        # Only what is signed tells how somebody proved who they are.
        return known | {"amr": claims.get("amr") or []}

    @contextmanager
    def _open_client(self) -> Iterator[Any]:
        """Yield Authlib's client; what goes wrong between it and the provider is one of two."""
        from authlib.common.errors import AuthlibBaseError
        from joserfc.errors import JoseError
        from requests import RequestException

        if not _AT_ONCE.acquire(timeout=SECONDS):
            raise Unreachable("others wait for it already")
        try:
            yield self._current_client()
        except RequestException as error:
            # Not its words: an address with a code may be in them.
            raise Unreachable(type(error).__name__) from None
        except (AuthlibBaseError, JoseError, KeyError, TypeError, ValueError) as error:
            # What the provider says of it is a line of the log.
            why = f"{type(error).__name__}: {error}"[:300]
            raise Unproved("".join(char if char.isprintable() else " " for char in why)) from None
        finally:
            _AT_ONCE.release()

    def _current_client(self) -> OAuth2Mixin:
        """Return the client, which knows what the provider says of itself. Raises Unproved."""
        with self._lock:
            if self._client is None or self._read_at < time.monotonic() - _KNOWN_SECONDS:
                self._client = self._new_client()
                self._read_at = time.monotonic()
            return self._client

    def _new_client(self) -> OAuth2Mixin:
        from authlib.integrations.base_client import BaseApp, OAuth2Mixin, OpenIDMixin
        from authlib.integrations.requests_client import OAuth2Session

        class Session(OAuth2Session):  # type: ignore[misc]
            def __init__(self, *given: Any, **named: Any) -> None:
                super().__init__(*given, **named)
                # Nobody sends this server, with its secret, elsewhere.
                self.max_redirects = 0

        class Client(OAuth2Mixin, OpenIDMixin, BaseApp):  # type: ignore[misc]
            client_cls = Session

        chosen = self._settings
        address = f"{self.issuer.rstrip('/')}/.well-known/openid-configuration"
        client: Any = Client(
            None,
            client_id=chosen.oidc_client_id,
            client_secret=chosen.oidc_client_secret or None,
            server_metadata_url=address,
            client_kwargs={
                "scope": chosen.oidc_scope,
                "code_challenge_method": "S256",
                "default_timeout": SECONDS,
            },
        )
        metadata = client.load_server_metadata()
        if metadata.get("issuer") != self.issuer:
            raise Unproved(f"{address} is of the issuer {metadata.get('issuer')!r}")
        announced = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
        allowed = [algorithm for algorithm in announced if algorithm in _ALGORITHMS]
        if not allowed:
            raise Unproved("it signs id tokens in no way that only it can")
        metadata["id_token_signing_alg_values_supported"] = allowed
        methods = metadata.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
        client.client_kwargs["token_endpoint_auth_method"] = (
            "none"
            if not chosen.oidc_client_secret
            else "client_secret_basic"
            if "client_secret_basic" in methods
            else "client_secret_post"
        )
        return client


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """Return a claim, or what lies within some: realm_access.roles. None where it is not there."""
    if name in claims:
        return claims[name]
    value: Any = claims
    for step in name.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _has_several_factors(amr: Sequence[Any]) -> bool:
    """Say whether the methods of a sign-in are more than one factor."""
    methods = {str(method) for method in amr}
    return "mfa" in methods or sum(bool(methods & kind) for kind in _FACTORS) > 1


def _text(claims: Mapping[str, Any], name: str) -> str:
    claim = claims.get(name)
    text = claim.strip()[:200] if isinstance(claim, str) else ""
    return text if text.isprintable() else ""
