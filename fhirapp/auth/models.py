"""The authorization server's tables.

Clients, users and their sessions, what a user allowed a client and the codes and tokens that came
of it, and security events: attempts and refused requests.

Secrets and tokens are stored as SHA-256: they are 256 random bits, or in demo mode no secret at
all, so a slow hash would protect nothing; passwords, which people choose, as argon2id. Times are
seconds since 1970.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

from sqlalchemy import ForeignKey, Integer, LargeBinary
from sqlalchemy.orm import Mapped, mapped_column, relationship

from fhirapp import urls
from fhirapp.audit.events import RequestKey
from fhirapp.auth.scopes import CONTEXTS_OF_KIND, enforceable, grantable
from fhirapp.db import Base
from fhirapp.url_syntax import LAST_PORT, is_loopback, split_address


def digest(secret: str) -> bytes:
    """Return the SHA-256 under which a token or secret is stored."""
    return hashlib.sha256(secret.encode()).digest()


# How a client proves who it is at the token endpoint.
BASIC, SIGNED, NONE = "client_secret_basic", "private_key_jwt", "none"
# The kinds of clients that are this server's own, and ask for no tokens: they are not registered.
OF_SHELL, OF_PAGES = "operator", "pages"
# What the demo's apps have registered beside addresses: any one of this machine, on whatever port.
# A path is one of this server's own; whoever registers an app can give neither.
ANY_LOOPBACK = "loopback"


class Client(Base):
    """A registered client, as Authlib asks for it (its ClientMixin's methods)."""

    __tablename__ = "oauth_client"

    client_id: Mapped[str] = mapped_column(primary_key=True)
    name: Mapped[str]
    # public: an app that can keep no secret; confidential: one that can; backend: a system without
    # a user; operator and pages: the shell and our own pages.
    kind: Mapped[str] = mapped_column(default="backend")
    # NONE, BASIC, SIGNED, or the last two with a space.
    auth_method: Mapped[str]
    secret_digest: Mapped[bytes | None] = mapped_column(LargeBinary)
    # A JSON Web Key Set of public keys, or the https address of one.
    jwks: Mapped[Any | None]
    jwks_uri: Mapped[str | None]
    # What it may ask for, space-separated.
    scope: Mapped[str]
    # Where a user's browser may be sent back to, as check_redirect_uri() compares it.
    redirect_uris: Mapped[Any | None]
    # Where our own pages start it, with a patient in context.
    launch_uri: Mapped[str | None]
    # Who made it, and how to reach them, in their own words.
    developer: Mapped[str | None]
    contact: Mapped[str | None]
    registered_at: Mapped[int] = mapped_column(Integer, default=0)
    # None until an administrator approves what somebody registered on the page, or a program.
    approved_at: Mapped[int | None] = mapped_column(Integer)
    # Of the address of the page on which whoever registered it manages it.
    owner_digest: Mapped[bytes | None] = mapped_column(LargeBinary, unique=True)
    disabled: Mapped[bool] = mapped_column(default=False)
    # None of what an administrator registered.
    origin: Mapped[RegistrationOrigin | None] = relationship(viewonly=True)

    def get_client_id(self) -> str:
        return self.client_id

    def get_default_redirect_uri(self) -> None:
        """Return nothing: each request names its own, to be compared."""

    def get_allowed_scope(self, scope: str | None) -> str | None:
        """Return what of the asked scopes the client may have; None, an invalid_scope, if nothing.

        A backend may have system/ scopes only, an app those of its users.
        """
        contexts = CONTEXTS_OF_KIND.get(self.kind, ())
        return " ".join(grantable((scope or "").split(), self.scope, contexts, enforceable)) or None

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        """Say whether an address is registered, to the letter; of a native app, on any port."""
        registered = self.redirect_uris or ()
        if ANY_LOOPBACK in registered and _is_loopback(redirect_uri):
            return True
        own = [urls.base_url() + uri for uri in registered if uri[0] == "/"]
        others = [_without_port(uri) for uri in registered if uri[0] != "/"]
        return redirect_uri in own or _without_port(redirect_uri) in others

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code" and self.kind in ("public", "confidential")

    def check_client_secret(self, client_secret: str) -> bool:
        stored = self.secret_digest or b""
        return hmac.compare_digest(stored, digest(client_secret))

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:  # noqa: ARG002
        """Say whether it may prove who it is in this way, at whichever endpoint."""
        return method in self.auth_method.split() and (method != NONE or self.kind == "public")

    def check_grant_type(self, grant_type: str) -> bool:
        if self.kind == "backend":
            return grant_type == "client_credentials"
        if self.kind in (OF_SHELL, OF_PAGES):
            return False
        return grant_type in ("authorization_code", "refresh_token")


# A native app listens on whatever port it gets. Not on localhost, which may be another machine:
# RFC 8252 §7.3, §8.3.
_OF_NATIVE_APP = re.compile(r"http://(127\.0\.0\.1|\[::1\])(?::([1-9][0-9]{0,4}))?((?:[/?].*)?)")


def _without_port(uri: str) -> str:
    """Return an address, without its port where that may be any."""
    match = _OF_NATIVE_APP.fullmatch(uri)
    if match is None or int(match[2] or 80) > LAST_PORT:
        return uri
    return f"http://{match[1]}{match[3]}"


def _is_loopback(uri: str) -> bool:
    parts = split_address(uri)
    return parts.scheme == "http" and is_loopback(parts.netloc) and not parts.fragment


class RegistrationOrigin(Base):
    """Where the registration of a client came from that waits for approval, or waited for it."""

    __tablename__ = "oauth_origin"

    client_id: Mapped[str] = mapped_column(
        ForeignKey(Client.client_id, ondelete="CASCADE"), primary_key=True
    )
    address: Mapped[str]
    # Whether a program registered itself (RFC 7591), and nobody filled in the page.
    by_itself: Mapped[bool]


class UsedAssertion(Base):
    """The jti of a client assertion that was used; kept until the assertion expires."""

    __tablename__ = "oauth_used_assertion"

    client_id: Mapped[str] = mapped_column(primary_key=True)
    jti: Mapped[str] = mapped_column(primary_key=True)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)


CLINICIAN, ADMINISTRATOR, PATIENT = "clinician", "administrator", "patient"
ROLES = (CLINICIAN, ADMINISTRATOR, PATIENT)
STAFF = (CLINICIAN, ADMINISTRATOR)


class User(Base):
    """A person who can sign in."""

    __tablename__ = "auth_user"

    # Random, and the subject (`sub`) of id tokens: never another person's.
    id: Mapped[str] = mapped_column(primary_key=True)
    # As it is typed to sign in, in lower case.
    username: Mapped[str] = mapped_column(unique=True)
    name: Mapped[str]
    role: Mapped[str]
    # argon2id, in its own notation.
    password_hash: Mapped[str]
    # Of the one-time passwords, encrypted with the server's key; None without.
    totp_secret: Mapped[bytes | None] = mapped_column(LargeBinary)
    # The interval of the one-time password used last: none serves twice.
    totp_used: Mapped[int] = mapped_column(Integer, default=0)
    # A Practitioner, as Practitioner/<id>: who this is in the records.
    fhir_user: Mapped[str | None]
    disabled: Mapped[bool] = mapped_column(default=False)
    created_at: Mapped[int] = mapped_column(Integer)
    signed_in_at: Mapped[int | None] = mapped_column(Integer)


class Identity(Base):
    """Who somebody is at the clinic's identity provider (OpenID Connect: iss and sub)."""

    __tablename__ = "auth_identity"

    issuer: Mapped[str] = mapped_column(primary_key=True)
    subject: Mapped[str] = mapped_column(primary_key=True)
    # None until an administrator links it.
    user_id: Mapped[str | None] = mapped_column(ForeignKey(User.id), index=True)
    # As the provider has them, for the administrator to know the person by; empty if unknown.
    name: Mapped[str]
    username: Mapped[str]
    seen_at: Mapped[int] = mapped_column(Integer)


class UserPatient(Base):
    """A record that a patient user may see: their own, or a child's."""

    __tablename__ = "auth_user_patient"

    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), primary_key=True)
    # A Patient's id; the record may come later than the link.
    patient_id: Mapped[str] = mapped_column(primary_key=True, index=True)
    # Whether it is the user's own: then that Patient is who the user is (fhirUser).
    is_self: Mapped[bool] = mapped_column(default=True)
    # A RelatedPerson's id: who the user is to that patient, and for how long the link holds
    # (links.py). None where the link does not depend on the records.
    related_person: Mapped[str | None]


class Session(Base):
    """A session: a browser that a user signed in with."""

    __tablename__ = "auth_session"

    # Stays while the secret in the cookie changes: what ends with the session refers to it.
    id: Mapped[str] = mapped_column(primary_key=True)
    digest: Mapped[bytes] = mapped_column(LargeBinary, unique=True)
    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), index=True)
    # Whether the second factor, where the user has one, was shown too.
    complete: Mapped[bool]
    # When the password was typed; the absolute limit counts from here.
    signed_in_at: Mapped[int] = mapped_column(Integer)
    used_at: Mapped[int] = mapped_column(Integer, index=True)
    ended_at: Mapped[int | None] = mapped_column(Integer)
    # From where the password was typed, and what the browser calls itself.
    address: Mapped[str | None]
    browser: Mapped[str | None]
    # The identity provider that proved who it is, None where the password did; and whether the
    # person showed a second factor there.
    issuer: Mapped[str | None]
    several_factors: Mapped[bool] = mapped_column(default=False)


class RecoveryCode(Base):
    """A recovery code, which replaces a lost second factor once."""

    __tablename__ = "auth_recovery_code"

    # argon2id, in its own notation, of the code's SHA-256 in hexadecimal digits.
    hash: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), index=True)


class SetupCode(Base):
    """The one-time address at which the first administrator, or a user's password, is made."""

    __tablename__ = "auth_setup_code"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    # None: the first administrator's.
    user_id: Mapped[str | None] = mapped_column(ForeignKey(User.id))
    expires_at: Mapped[int] = mapped_column(Integer)


class ServerSecret(Base):
    """A secret that servers on one PostgreSQL share; on SQLite it is a file instead."""

    __tablename__ = "server_secret"

    # As the file would be called.
    name: Mapped[str] = mapped_column(primary_key=True)
    # Sealed with the key that FHIRAPP_SECRET stands for.
    content: Mapped[bytes] = mapped_column(LargeBinary)
    changed_at: Mapped[int] = mapped_column(Integer)


class Attempt(Base):
    """How often something was tried within a window, counted for all processes."""

    __tablename__ = "auth_attempt"

    # Of what is counted: a name that was typed may be a password.
    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    times: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)


class Refusal(Base):
    """Why a client's request was refused, for its owner and the administrator to read."""

    __tablename__ = "auth_refusal"

    # The key of the request, as RequestKey writes it.
    request_id: Mapped[str] = mapped_column(primary_key=True)
    at: Mapped[int] = mapped_column(Integer, index=True)
    client_id: Mapped[str] = mapped_column(index=True)
    user_id: Mapped[str | None]
    status: Mapped[int] = mapped_column(Integer)
    # What was asked for, without ids and values: GET /fhir/AllergyIntolerance/<id>
    asked: Mapped[str]
    # As refusals.py words it: a list of sentences.
    reasons: Mapped[Any]

    @property
    def shown_id(self) -> str:
        """The X-Request-Id of the answer."""
        return RequestKey.parse(self.request_id).shown


class Grant(Base):
    """A user's consent to a client's request: what its tokens hang on, until it is revoked."""

    __tablename__ = "oauth_grant"

    id: Mapped[str] = mapped_column(primary_key=True)
    user_id: Mapped[str] = mapped_column(ForeignKey(User.id), index=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id), index=True)
    # What was ticked, in the syntax asked for.
    scope: Mapped[str]
    # The patient and encounter in context.
    patient_id: Mapped[str | None]
    encounter_id: Mapped[str | None]
    # A document that the app was started from (fhirContext).
    document_id: Mapped[str | None]
    # Whether an app started by our own pages must show whose record it is.
    need_patient_banner: Mapped[bool] = mapped_column(default=True)
    # When the user typed the password: id tokens tell it.
    signed_in_at: Mapped[int] = mapped_column(Integer)
    created_at: Mapped[int] = mapped_column(Integer)
    # The absolute limit of whatever comes of it.
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    # With online_access it ends with this session.
    session_id: Mapped[str | None] = mapped_column(index=True)
    revoked_at: Mapped[int | None] = mapped_column(Integer)


class AuthorizationCode(Base):
    """A code (RFC 6749 §4.1), as Authlib asks for it; serves once, for 60 seconds."""

    __tablename__ = "oauth_code"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    grant_id: Mapped[str] = mapped_column(ForeignKey(Grant.id))
    client_id: Mapped[str]
    redirect_uri: Mapped[str]
    scope: Mapped[str]
    nonce: Mapped[str | None]
    # RFC 7636, S256.
    code_challenge: Mapped[str]
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    used_at: Mapped[int | None] = mapped_column(Integer)

    def get_redirect_uri(self) -> str:
        return self.redirect_uri

    def get_scope(self) -> str:
        return self.scope

    def get_nonce(self) -> str | None:
        return self.nonce

    def get_auth_time(self) -> None:
        """Return nothing: the grant knows, and openid.py tells."""

    def get_acr(self) -> None: ...

    def get_amr(self) -> None: ...


class AccessToken(Base):
    """An opaque access token."""

    __tablename__ = "oauth_access_token"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id), index=True)
    # None for a backend's, and for the operator's.
    grant_id: Mapped[str | None] = mapped_column(ForeignKey(Grant.id), index=True)
    scope: Mapped[str]
    # The patient in context.
    patient_id: Mapped[str | None]
    issued_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    revoked: Mapped[bool] = mapped_column(default=False)


class RefreshToken(Base):
    """A refresh token, as Authlib asks for it; serves once, and another takes its place."""

    __tablename__ = "oauth_refresh_token"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    grant_id: Mapped[str] = mapped_column(ForeignKey(Grant.id), index=True)
    client_id: Mapped[str]
    scope: Mapped[str]
    issued_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    used_at: Mapped[int | None] = mapped_column(Integer)

    def check_client(self, client: Client) -> bool:
        return self.client_id == client.client_id

    def get_scope(self) -> str:
        return self.scope


class Launch(Base):
    """An app's start from our own pages (SMART's EHR launch); serves once, for five minutes."""

    __tablename__ = "oauth_launch"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    client_id: Mapped[str] = mapped_column(ForeignKey(Client.client_id))
    user_id: Mapped[str] = mapped_column(ForeignKey(User.id))
    patient_id: Mapped[str]
    encounter_id: Mapped[str | None]
    # A document that the app was started from (fhirContext).
    document_id: Mapped[str | None]
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    used_at: Mapped[int | None] = mapped_column(Integer)


class ParkedRequest(Base):
    """An authorization request that was checked and waits for the user's answer."""

    __tablename__ = "oauth_request"

    digest: Mapped[bytes] = mapped_column(LargeBinary, primary_key=True)
    # Its parameters, by name.
    parameters: Mapped[Any]
    # From a launch: whose it is, and what it is about; patient and encounter also from the pickers.
    user_id: Mapped[str | None]
    patient_id: Mapped[str | None]
    # Empty where the user chose to go on without one.
    encounter_id: Mapped[str | None]
    # A document that the app was started from (fhirContext).
    document_id: Mapped[str | None]
    created_at: Mapped[int] = mapped_column(Integer)
    expires_at: Mapped[int] = mapped_column(Integer, index=True)
    used_at: Mapped[int | None] = mapped_column(Integer)
