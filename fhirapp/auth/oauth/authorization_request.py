"""The parameters of an authorization request, checked.

Source: RFC 6749 §4.1.1; RFC 7636 §4.3; OpenID Connect Core §3.1.2.1; SMART App Launch 2.2.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from authlib.oauth2 import OAuth2Error
from authlib.oauth2.rfc6749 import InvalidRequestError, OAuth2Request
from authlib.oauth2.rfc6749.requests import BasicOAuth2Payload
from sqlalchemy import Connection
from werkzeug.datastructures import MultiDict

from fhirapp import urls
from fhirapp.auth.oauth.server import authorization_server
from fhirapp.auth.reasons import quotable

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
_UNSUPPORTED = ("request", "request_uri", "registration")
# What is needed later. Other parameters are ignored (RFC 6749 §3.1).
_KEPT = (
    *("response_type", "client_id", "redirect_uri", "state", "launch", "nonce", "prompt"),
    *("max_age", "code_challenge", "code_challenge_method"),
)


class AuthorizationRequest(OAuth2Request):  # type: ignore[misc]
    """A client's request, as Authlib takes it; grant is the row of the user's consent."""

    grant: Mapping[str, Any]
    # The transaction in which a code is stored.
    connection: Connection

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
            is_type = name == "response_type"
            error = "unsupported_response_type" if is_type else "invalid_request"
            raise OAuth2Error(f"{name} {sentence}.", error=error)
    if parameters.get("aud", "").rstrip("/") != urls.fhir_url():
        raise InvalidRequestError(_other_audience(parameters.get("aud")))
    request = AuthorizationRequest(parameters)
    authorization_server().get_authorization_grant(request).validate_authorization_request()
    stored = {name: parameters[name] for name in _KEPT if name in parameters}
    return {**stored, "scope": request.scope}


def _other_audience(aud: str | None) -> str:
    """Say which address aud must be; what came holds neither quotes nor backslashes then."""
    fault = "is missing" if aud is None else f"is {quotable(aud)}"
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
