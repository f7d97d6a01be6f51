"""What a client's developer begins with: the values of commands that work as they are.

templates/apps/first_steps.html has the commands. They are made from the client's own registration;
what only the developer has (the secret, the private key, the code that comes back) is a variable or
a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from shlex import quote
from typing import Any
from urllib.parse import urlencode

from authlib.oauth2.rfc7636 import create_s256_code_challenge

from fhirapp import urls
from fhirapp.auth.clients.diagnosis import can_be_granted
from fhirapp.auth.models import ANY_LOOPBACK, BASIC, SIGNED, Client
from fhirapp.auth.scopes import LAUNCH, OFFLINE, ONLINE, SEARCH, clinical_scopes
from fhirapp.definition import featured_types, types
from fhirapp.keys import keyed_digest

_DEMO_REDIRECT = "http://localhost:3000/"
_ALGORITHMS = {"RSA": "RS384", "EC": "ES384"}

# How a pair of keys is made, for whoever registers a client that signs.
MAKE_KEYS = """python3 -m venv keys && keys/bin/pip install joserfc
keys/bin/python <<'END'
import json, pathlib
from joserfc.jwk import ECKey
key = ECKey.generate_key("P-384", {"kid": "key-1", "use": "sig", "alg": "ES384"})
private = pathlib.Path("private-key.json")
private.touch(0o600)
private.write_text(json.dumps(key.as_dict(private=True)))
print(json.dumps({"keys": [key.as_dict(private=False)]}))
END"""


def discovery_url() -> str:
    """Return the address at which clients find all others."""
    return f"{urls.fhir_url()}/.well-known/smart-configuration"


def first_steps(client: Client) -> Mapping[str, Any]:
    """Return the values of the commands that lead an approved client to its first answer."""
    registered = client.scope.split()
    # No page of ours starts the app, so there is no launch context.
    scope = " ".join(text for text in registered if can_be_granted(client, text) and text != LAUNCH)
    methods = client.auth_method.split()
    # The key of MAKE_KEYS where none is registered.
    key = client.jwks["keys"][0] if client.jwks else {"kty": "EC", "kid": "key-1"}
    algorithm, kid = _ALGORITHMS[key["kty"]], key.get("kid", "")
    uri = str((client.redirect_uris or [""])[0])
    redirect_uri = _DEMO_REDIRECT if uri == ANY_LOOPBACK else uri
    # The same each time the page is shown, and different for each client.
    verifier = keyed_digest("pkce example", client.client_id)
    authorize = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "scope": scope,
        "state": keyed_digest("state", client.client_id)[:16],
        "aud": urls.fhir_url(),
        "code_challenge": create_s256_code_challenge(verifier),
        "code_challenge_method": "S256",
    }
    searchable = _searchable(client)
    return {
        "is_backend": client.kind == "backend",
        "signs": SIGNED in methods,
        "has_secret": BASIC in methods,
        "client_id": client.client_id,
        "algorithm": algorithm,
        "header": json.dumps({"alg": algorithm, "typ": "JWT"} | ({"kid": kid} if kid else {})),
        "scope": scope,
        "redirect_uri": redirect_uri,
        "verifier": verifier,
        "authorize_url": f"{urls.base_url()}/oauth/authorize?{urlencode(authorize)}",
        "token_url": urls.token_url(),
        "search_url": f"{urls.fhir_url()}/{searchable}?_count=5" if searchable else "",
        "asks_offline": OFFLINE in scope.split(),
        "has_offline": OFFLINE in registered,
        "has_online": ONLINE in registered,
        "quote": quote,
    }


def _searchable(client: Client) -> str | None:
    """Return a type that the client may search."""
    searched = {
        scope.resource_type
        for scope in clinical_scopes(client.scope)
        if SEARCH in scope.permissions
    }
    names = [*featured_types(), *(name for name, type_ in types().items() if type_.searchable)]
    return next((name for name in names if {name, "*"} & searched), None)
