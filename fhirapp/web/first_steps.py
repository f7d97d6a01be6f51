"""The commands with which a client's developer begins: they work as they stand.

Each is made of the client's own registration; what only the developer has (the secret, the private
key, the code that comes back) is a variable or a file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from shlex import quote
from typing import NamedTuple
from urllib.parse import urlencode

from authlib.oauth2.rfc7636 import create_s256_code_challenge

from fhirapp.auth.clients.diagnosis import can_be_granted
from fhirapp.auth.keys import keyed_digest
from fhirapp.auth.models import ANY_LOOPBACK, BASIC, SIGNED, Client
from fhirapp.auth.scopes import LAUNCH, LAUNCH_ENCOUNTER, OFFLINE, ONLINE, SEARCH, clinical_scopes
from fhirapp.config import base_url, fhir_url, token_url
from fhirapp.definition import featured_types, types
from fhirapp.web.texts import _

_DEMO_REDIRECT = "http://localhost:3000/"
_JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ALGORITHMS = {"RSA": "RS384", "EC": "ES384"}
_TAKE_TOKEN = """python3 -c 'import json, sys; print(json.load(sys.stdin)["access_token"])'"""

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


class Step(NamedTuple):
    """A step: what it does, and the command or address that does it."""

    title: str
    text: str
    is_address: bool = False


def first_steps(client: Client) -> list[Step]:
    """Return the steps from nothing to the first answer, for an approved client."""
    return [
        Step(_("Ask where everything is"), f"curl -s {quote(discovery_url())}"),
        *(_as_backend(client) if client.kind == "backend" else _as_app(client)),
        *_read(client),
    ]


def discovery_url() -> str:
    """Return the address at which clients find all others."""
    return f"{fhir_url()}/.well-known/smart-configuration"


def _as_backend(client: Client) -> Iterator[Step]:
    yield from _prove(client)
    fields = {"grant_type": "client_credentials", "scope": _scope(client)}
    command = f"{_post(client, fields)} | {_TAKE_TOKEN}"
    yield Step(_("Get a token, for five minutes"), f"TOKEN=$({command})")


def _as_app(client: Client) -> Iterator[Step]:
    redirect_uri = _redirect_uri(client)
    verifier = _verifier(client)
    asked = {
        "response_type": "code",
        "client_id": client.client_id,
        "redirect_uri": redirect_uri,
        "scope": _scope(client),
        "state": keyed_digest("state", client.client_id)[:16],
        "aud": fhir_url(),
        "code_challenge": create_s256_code_challenge(verifier),
        "code_challenge_method": "S256",
    }
    address = f"{base_url()}/oauth/authorize?{urlencode(asked)}"
    if OFFLINE in asked["scope"].split():
        title = _(
            "Open this in a browser, sign in and tick “Keep access when you are away”, and allow it"
        )
    else:
        title = _("Open this in a browser, sign in, and allow it")
    yield Step(title, address, is_address=True)
    yield Step(
        _("The browser goes to %(uri)s, with a code; copy it within a minute", uri=redirect_uri),
        "CODE='the code from the address'",
    )
    yield from _prove(client)
    fields = {
        "grant_type": "authorization_code",
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    command = _post(client, fields, '-d code="$CODE"')
    yield Step(_("Exchange the code, which serves once"), f"ANSWER=$({command})")
    command = f'TOKEN=$(printf %s "$ANSWER" | {_TAKE_TOKEN})'
    yield Step(_("Take the token out of the answer"), command)


def _read(client: Client) -> Iterator[Step]:
    readable = _searchable(client)
    if readable is not None:
        url = quote(f"{fhir_url()}/{readable}?_count=5")
        yield Step(_("Read"), f'curl -s -H "Authorization: Bearer $TOKEN" {url}')
    if client.kind != "backend" and {OFFLINE, ONLINE}.intersection(client.scope.split()):
        command = _post(
            client, {"grant_type": "refresh_token"}, '-d refresh_token="$REFRESH_TOKEN"'
        )
        later = (
            _(
                "Later, take refresh_token out of the answer, and get new tokens for it, with a new"
                " assertion."
            )
            if _signs(client)
            else _("Later, take refresh_token out of the answer, and get new tokens for it.")
        )
        yield Step(
            f"{later} {_when_refreshed(client)}",
            f"REFRESH_TOKEN='refresh_token from the answer'\n{command}",
        )


def _when_refreshed(client: Client) -> str:
    """Say when the answer has a refresh_token."""
    if OFFLINE in client.scope.split():
        return _(
            "It is there only where the person ticked “Keep access when you are away”"
            " (offline_access), and serves as long as they chose beside it"
        )
    return _(
        "It is there only where the person left “Keep access as long as you stay signed in” ticked"
    )


def _post(client: Client, fields: dict[str, str], *more: str) -> str:
    """Return the curl that asks the token endpoint, and proves who the client is."""
    if _signs(client):
        proof = f'-d client_assertion_type={_JWT_BEARER} -d client_assertion="$ASSERTION"'
    elif BASIC in client.auth_method.split():
        proof = f'-u {quote(client.client_id)}:"$SECRET"'
    else:
        proof = f"-d client_id={quote(client.client_id)}"
    sent = [f"--data-urlencode {quote(f'{name}={value}')}" for name, value in fields.items()]
    return " \\\n  ".join([f"curl -s {quote(token_url())}", proof, *sent, *more])


def _signs(client: Client) -> bool:
    return SIGNED in client.auth_method.split()


def _prove(client: Client) -> Iterator[Step]:
    """Give the step that makes ready what _post sends."""
    if _signs(client):
        yield _sign(client)
    elif BASIC in client.auth_method.split():
        yield Step(_("Its secret, as this page showed it"), "SECRET='the secret'")


def _sign(client: Client) -> Step:
    algorithm, kid = _key_of(client)
    header = json.dumps({"alg": algorithm, "typ": "JWT", **({"kid": kid} if kid else {})})
    return Step(
        _("Sign who you are, for each request anew; private-key.json is a JSON Web Key"),
        f"""# once: python3 -m venv keys && keys/bin/pip install joserfc
ASSERTION=$(keys/bin/python <<'END'
import json, time, uuid
from joserfc import jwk, jwt
key = jwk.import_key(json.load(open("private-key.json")))
now = int(time.time())
claims = {{
    "iss": {json.dumps(client.client_id)},
    "sub": {json.dumps(client.client_id)},
    "aud": {json.dumps(token_url())},
    "exp": now + 240,
    "iat": now,
    "jti": str(uuid.uuid4()),
}}
print(jwt.encode({header}, claims, key, algorithms=["{algorithm}"]))
END
)""",
    )


def _key_of(client: Client) -> tuple[str, str]:
    """Return the algorithm and kid of a client's first key; those of MAKE_KEYS by default."""
    if not client.jwks:
        return "ES384", "key-1"
    key = client.jwks["keys"][0]
    return _ALGORITHMS[key["kty"]], key.get("kid", "")


def _scope(client: Client) -> str:
    """Return what to ask for when no page of ours started the app."""
    left_out = {LAUNCH, LAUNCH_ENCOUNTER}
    asked = [text for text in client.scope.split() if can_be_granted(client, text)]
    return " ".join(text for text in asked if text not in left_out)


def _redirect_uri(client: Client) -> str:
    first = str((client.redirect_uris or [""])[0])
    return _DEMO_REDIRECT if first == ANY_LOOPBACK else first


def _verifier(client: Client) -> str:
    """Return a PKCE verifier: the same each time this client's page is shown, and nobody else's."""
    return keyed_digest("pkce example", client.client_id)


def _searchable(client: Client) -> str | None:
    """Return a type that the client may search."""
    searched = {
        scope.resource_type
        for scope in clinical_scopes(client.scope)
        if SEARCH in scope.permissions
    }
    names = [*featured_types(), *(name for name, each in types().items() if each.searchable)]
    return next((name for name in names if {name, "*"} & searched), None)
