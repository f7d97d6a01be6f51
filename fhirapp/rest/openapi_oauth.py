"""The paths of the authorization server that programs ask, for /openapi.json.

/oauth/authorize is for browsers: the authorizationCode flow of the security scheme names it.
"""

from __future__ import annotations

from fhirapp.rest.openapi_parts import JSON, Node, content, instead, object_of

_FORM = "application/x-www-form-urlencoded"
_STRING: Node = {"type": "string"}
_DISCOVERY = (
    ("/.well-known/smart-configuration", "Tell how to get a token"),
    ("/fhir/.well-known/smart-configuration", "Tell how to get a token"),
    ("/.well-known/openid-configuration", "Tell OpenID Connect clients the same"),
    ("/fhir/.well-known/openid-configuration", "Tell OpenID Connect clients the same"),
    ("/.well-known/oauth-authorization-server", "Tell OAuth clients the same (RFC 8414)"),
    ("/oauth/jwks.json", "Give the keys to check id tokens with"),
)
_GRANTS = ["client_credentials", "authorization_code", "refresh_token"]
# How a client proves who it is in the body, where it does not by Basic.
_PROOF: Node = {
    "client_id": _STRING,
    "client_assertion_type": _STRING,
    "client_assertion": _STRING,
}


def oauth_paths() -> Node:
    """Return the paths; errors of the forms are OAuth's own (RFC 6749 §5.2)."""
    plain = {"description": "What was asked for", "content": content("Object", JSON)}
    found: Node = {
        path: {
            "get": {
                "security": [],
                "tags": ["Authorization"],
                "summary": doc,
                "responses": {"200": plain, **instead()},
            }
        }
        for path, doc in _DISCOVERY
    }
    asked = {"token": _STRING}
    hint = {"token_type_hint": _STRING, **_PROOF}
    token = object_of(
        {"grant_type": {"enum": _GRANTS}},
        scope=_STRING,
        code=_STRING,
        redirect_uri=_STRING,
        code_verifier=_STRING,
        refresh_token=_STRING,
        **_PROOF,
    )
    found["/oauth/token"] = _form("Get an access token", token, "Token")
    found["/oauth/introspect"] = _form("Say what a token is", object_of(asked, **hint), "Object")
    found["/oauth/revoke"] = _form("End a token", object_of(asked, **hint), "Object")
    return found


def _form(summary: str, body: Node, answer: str) -> Node:
    wrong = {"description": "Refused", "content": content("OAuthError", JSON)}
    return {
        "post": {
            "tags": ["Authorization"],
            "summary": summary,
            # By a secret, or by what is in the body.
            "security": [{"secret": []}, {}],
            "requestBody": {"required": True, "content": {_FORM: {"schema": body}}},
            "responses": {
                "200": {"description": summary, "content": content(answer, JSON)},
                **{str(one): wrong for one in (400, 401, 413, 414, 429, 431, 503)},
            },
        }
    }
