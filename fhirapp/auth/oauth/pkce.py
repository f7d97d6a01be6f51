"""PKCE, with S256 alone. Source: RFC 7636; SMART App Launch 2.2 requires it of every client."""

from __future__ import annotations

import re
from typing import Any

from authlib.oauth2.rfc6749 import InvalidRequestError
from authlib.oauth2.rfc7636 import CodeChallenge

METHOD = "S256"
# SHA-256 in base64url without padding.
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")


class S256Challenge(CodeChallenge):  # type: ignore[misc]
    """Asks for a challenge with each authorization request, and for its verifier with the code."""

    SUPPORTED_CODE_CHALLENGE_METHOD = [METHOD]

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:  # noqa: ARG002
        """Check an authorization request. Raises InvalidRequestError."""
        parameters = grant.request.payload.data
        challenge = parameters.get("code_challenge")
        if not challenge:
            raise InvalidRequestError("code_challenge is missing: PKCE with S256 is required.")
        if parameters.get("code_challenge_method") != METHOD:
            raise InvalidRequestError("code_challenge_method must be S256.")
        if not _CHALLENGE.fullmatch(challenge):
            raise InvalidRequestError("code_challenge must be 43 characters of base64url.")

    def get_authorization_code_challenge_method(self, authorization_code: Any) -> str:  # noqa: ARG002
        return METHOD
