"""Why a client is refused, as functions of client, code, token, consent and user.

Except for invalid_scope, which only a client that proved who it is can get, the answer is terse:
these sentences are for the client's owner and the administrator, who read them among the refused
requests (refusals.py). Of what a client sent nothing is repeated that may be about a patient.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Iterator, Mapping

from authlib.oauth2.rfc7636 import create_s256_code_challenge

from fhirapp.auth.models import BASIC, PATIENT, AuthorizationCode, Client, Grant, RefreshToken, User
from fhirapp.auth.protector import BearerToken
from fhirapp.auth.scopes import CONTEXTS_OF_ROLE, SESSION_SCOPES, parse_scope
from fhirapp.fhir.outcome import FhirError, Forbidden
from fhirapp.fhir.temporal import exact_at

# Characters that are repeated of what a client sent.
_LONGEST = 100
_UNPRINTABLE = re.compile(r"[^ -~]")
# What an error_description may not hold either (RFC 6749 §4.1.2.1, §5.2).
_UNSAID = re.compile(r'["\\]')


def of_client(client: Client, secret: str | None) -> Iterator[str]:
    """Say why a client cannot prove who it is; secret is what it sent, None where it sent none."""
    if client.disabled:
        yield "The client is disabled."
    if secret is None:
        return
    if BASIC not in client.auth_method.split():
        yield f"It sent a secret, but is registered for {client.auth_method}."
    elif client.secret_digest is None:
        yield "It has no secret yet."
    elif not client.check_client_secret(secret):
        yield "The secret is not the current one."


def of_audience(aud: object, token_url: str) -> Iterator[str]:
    """Say why an assertion's audience is wrong (RFC 7523 §3)."""
    auds = aud if isinstance(aud, list) else [aud]
    if token_url not in auds:
        came = ", ".join(shortened(url) if isinstance(url, str) else "no text" for url in auds[:3])
        fault = "is missing" if aud is None else f"is {came or 'empty'}"
        yield f"aud of the assertion must be {token_url}; it {fault}."


def of_scope(client: Client, requested: str) -> Iterator[str]:
    """Say what a client requested, as far as this server knows such scopes, and what it may."""
    known = [
        text if text in SESSION_SCOPES or parse_scope(text) else "(no scope that this server knows)"
        for text in requested.split()
    ]
    yield f"It requested: {' '.join(known) or 'no scope'}"
    yield f"The client is registered for: {client.scope}"


def of_code(
    client: Client,
    code: AuthorizationCode | None,
    grant: Grant | None,
    user: User | None,
    form: Mapping[str, str],
) -> Iterator[str]:
    """Say why an authorization code is refused (RFC 6749 §4.1.3, RFC 7636 §4.6)."""
    if code is None:
        yield "The code was not issued here, or more than a day ago."
    elif code.client_id != client.client_id:
        yield "The code was issued to another client."
    else:
        if code.used_at is not None:
            yield f"The code was used before, at {exact_at(code.used_at)}. A code can be used once."
        if code.expires_at <= time.time():
            yield f"The code expired at {exact_at(code.expires_at)}. A code is valid for a minute."
        if form.get("redirect_uri") != code.redirect_uri:
            yield "redirect_uri is not the one of the authorization request."
        if create_s256_code_challenge(form.get("code_verifier", "")) != code.code_challenge:
            yield "code_verifier does not match the code_challenge of the authorization request."
        yield from of_consent(grant, user)


def of_refresh_token(
    client: Client, token: RefreshToken | None, grant: Grant | None, user: User | None
) -> Iterator[str]:
    """Say why a refresh token is refused (RFC 6749 §6)."""
    if token is None:
        yield "The refresh token was not issued here, or expired more than a day ago."
    elif token.client_id != client.client_id:
        yield "The refresh token was issued to another client."
    else:
        if token.used_at is not None:
            yield (
                f"The refresh token was used before, at {exact_at(token.used_at)}. Each can be used"
                " once: the response has the next one."
            )
        if token.expires_at <= time.time():
            yield f"The refresh token expired at {exact_at(token.expires_at)}."
        yield from of_consent(grant, user)


def of_consent(grant: Grant | None, user: User | None) -> Iterator[str]:
    """Say why nothing comes of a user's consent any more; nothing where it is in force."""
    if grant is None or user is None:
        yield "The consent was removed with its user."
        return
    if grant.revoked_at is not None:
        yield f"The consent ended at {exact_at(grant.revoked_at)}."
    elif grant.expires_at <= time.time():
        yield f"The consent expired at {exact_at(grant.expires_at)}."
    if user.disabled:
        yield "The user is disabled."


def of_token(token: BearerToken, error: FhirError, lapses: Iterable[str]) -> Iterator[str]:
    """Say which part of scope ∩ client ∩ user a request with a token lacks.

    lapses say why the user is not linked to the patient in context any more.
    """
    yield error.diagnostics
    yield from _needed(token, error)
    if token.is_expired():
        yield f"The token expired at {exact_at(token.expires_at)}."
    if token.revoked:
        yield "The token was revoked."
    if token.grant_revoked:
        yield "The user, or the client, ended the consent that the token came of."
    if token.client_disabled:
        yield "The client is disabled."
    if token.user_disabled:
        yield "The user is disabled."
    yield f"The token's scope: {token.scope}"
    yield f"The client is registered for: {token.registered}"
    if token.role is not None:
        yield f"The user's role: {token.role}"
    if token.role == PATIENT and token.patient_id is not None and not token.is_linked:
        yield "The patient in context is not linked to the user any more."
        yield from lapses
    if token.is_expired() or token.is_revoked():
        # Nothing is, whatever its scopes.
        return
    access = token.access()
    scopes = [str(scope) for scope in access.scopes if scope.context != "patient" or access.patient]
    yield f"What is left of these together: {' '.join(scopes) or 'nothing'}"


def _needed(token: BearerToken, error: FhirError) -> Iterator[str]:
    """Name the scope that would have reached, in the contexts that the token's user can allow."""
    if not isinstance(error, Forbidden) or error.needed_scope is None:
        return
    rest = error.needed_scope.partition("/")[2]
    if not rest:
        yield f"It would have needed: {error.needed_scope}"
        return
    contexts = ["system"] if token.role is None else [*CONTEXTS_OF_ROLE[token.role]]
    if error.parameter is not None and "patient" in contexts:
        # The token is for one patient, and this is another.
        contexts.remove("patient")
    if contexts:
        yield f"It would have needed: {' or '.join(f'{context}/{rest}' for context in contexts)}"


def denied_scopes(requested: str) -> str:
    """Return the error_description for a client that may have none of the requested scopes."""
    if not requested.split():
        return "scope is missing."
    return f"The client may not have: {quotable(requested, 500)}"


def shortened(text: str, longest: int = _LONGEST) -> str:
    """Return the beginning of what a client sent, as far as it is printable ASCII."""
    printable = _UNPRINTABLE.sub("?", text[:longest])
    return printable if len(text) <= longest else f"{printable}..."


def quotable(text: str, longest: int = _LONGEST) -> str:
    """Return the same as an error_description can hold it."""
    return _UNSAID.sub("?", shortened(text, longest))
