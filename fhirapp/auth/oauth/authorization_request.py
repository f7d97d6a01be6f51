"""The parameters of an authorization request, checked; and EHR launches, which lead to one.

Source: RFC 6749 §4.1.1; RFC 7636 §4.3; OpenID Connect Core §3.1.2.1; SMART App Launch 2.2.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import InvalidRequestError, OAuth2Request
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from sqlalchemy import Connection, delete, insert, select, update
from werkzeug.datastructures import MultiDict

from fhirapp import urls
from fhirapp.auth.models import Launch, digest
from fhirapp.auth.oauth.server import authorization_server
from fhirapp.auth.refusals import shortened
from fhirapp.auth.tokens import new_token
from fhirapp.url_syntax import with_parameters

_LONGEST = 2000
_PRINTABLE = re.compile(r"[ -~]*")
_PROMPT = "(login|consent|select_account)"
# What a parameter that is there must look like. Authlib quotes some in its answers, where not all
# of ASCII is allowed.
_FORMS = {
    "response_type": (r"code", "must be code"),
    "response_mode": (r"query", "must be query"),
    "prompt": (
        rf"none|{_PROMPT}( +{_PROMPT})*",
        "must be none, or some of login, consent, select_account",
    ),
    "max_age": (r"[0-9]{1,9}", "must be a number of seconds"),
}
# What OpenID Connect Core §3.1.2.6 has an error for.
_ERRORS = {"response_type": "unsupported_response_type"}
# What an error_description may not hold (RFC 6749 §4.1.2.1).
_UNSAID = re.compile(r'["\\]')
_UNSUPPORTED = ("request", "request_uri", "registration")
# What is needed later. Other parameters are ignored (RFC 6749 §3.1).
_KEPT = (
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "launch",
    "nonce",
    "prompt",
    "max_age",
    "code_challenge",
    "code_challenge_method",
)


class AuthorizationRequest(OAuth2Request):  # type: ignore[misc]
    """A client's request, as Authlib takes it; decision is the user's, in authorize.py."""

    decision: Any

    def __init__(self, parameters: Mapping[str, str]) -> None:
        super().__init__("GET", "https://authorization.invalid/oauth/authorize")
        self.payload = BasicOAuth2Payload(dict(parameters))


def check_request(values: MultiDict[str, str]) -> dict[str, str]:
    """Return the parameters that are kept, of the scope what the client may ask for.

    Raises OAuth2Error.
    """
    _check_text(values)
    # Without a value it counts as left out (RFC 6749 §3.1).
    parameters = {name: text for name, text in values.items() if text}
    for name in _UNSUPPORTED:
        if name in parameters:
            raise OAuth2Error(f"{name} is not supported.", error=f"{name}_not_supported")
    if "response_type" not in parameters:
        raise InvalidRequestError("response_type is missing.")
    for name, (form, sentence) in _FORMS.items():
        if name in parameters and not re.fullmatch(form, parameters[name]):
            error = _ERRORS.get(name, "invalid_request")
            raise OAuth2Error(f"{name} {sentence}.", error=error)
    if parameters.get("aud", "").rstrip("/") != urls.fhir_url():
        raise InvalidRequestError(_other_audience(parameters.get("aud")))
    request = AuthorizationRequest(parameters)
    authorization_server().get_authorization_grant(request).validate_authorization_request()
    stored = {name: parameters[name] for name in _KEPT if name in parameters}
    return {**stored, "scope": request.scope}


def _other_audience(aud: str | None) -> str:
    """Say which address aud must be; what came holds neither quotes nor backslashes then."""
    fault = "is missing" if aud is None else f"is {_UNSAID.sub('?', shortened(aud))}"
    return f"aud must be the FHIR base address of this server, {urls.fhir_url()}; it {fault}."


def is_state(state: str) -> bool:
    """Say whether a text is a state, which goes back to the client (RFC 6749 Appendix A.5)."""
    return 0 < len(state) <= _LONGEST and _PRINTABLE.fullmatch(state) is not None


def _check_text(values: MultiDict[str, str]) -> None:
    for texts in values.listvalues():
        if len(texts) > 1:
            raise InvalidRequestError("A parameter is repeated.")
        if len(texts[0]) > _LONGEST or not _PRINTABLE.fullmatch(texts[0]):
            raise InvalidRequestError("A parameter is too long, or not printable ASCII.")


SECONDS = 300


def start(
    connection: Connection,
    *,
    client_id: str,
    launch_uri: str,
    user_id: str,
    patient_id: str,
    encounter_id: str | None = None,
    document_id: str | None = None,
) -> str:
    """Return the address that starts the app: its launch_uri, with iss and launch."""
    launch = new_token()
    now = int(time.time())
    connection.execute(delete(Launch).where(Launch.expires_at < now))
    row = {
        "digest": digest(launch),
        "client_id": client_id,
        "user_id": user_id,
        "patient_id": patient_id,
        "encounter_id": encounter_id,
        "document_id": document_id,
        "expires_at": now + SECONDS,
    }
    connection.execute(insert(Launch), [row])
    # The demo's own app is registered by its path.
    address = urls.base_url() + launch_uri if launch_uri.startswith("/") else launch_uri
    return with_parameters(address, [("iss", urls.fhir_url()), ("launch", launch)])


def spend(connection: Connection, launch: str, client_id: str) -> dict[str, Any] | None:
    """Use a launch id up; return user_id, patient_id, encounter_id and document_id.

    None where it is not known, was used, has expired, or is another client's.
    """
    now = int(time.time())
    mine = (
        Launch.digest == digest(launch),
        Launch.client_id == client_id,
        Launch.expires_at > now,
        Launch.used_at.is_(None),
    )
    if connection.execute(update(Launch).where(*mine).values(used_at=now)).rowcount == 0:
        return None
    row = connection.execute(
        select(Launch.user_id, Launch.patient_id, Launch.encounter_id, Launch.document_id).where(
            Launch.digest == digest(launch)
        )
    ).one()
    return dict(row._mapping)
