"""An address as others ask for it: copy it as curl, as Python (fhirpy), as JavaScript (fhirclient).

What somebody typed into an address is quoted, so that a program that is copied from here does what
the explorer did and nothing else. No token stands in it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from fhirapp.auth.demo import BACKEND, SECRET
from fhirapp.config import base_url, settings, token_url

# What may stand in an address as it is (RFC 3986); but brackets and braces, which curl takes for a
# pattern, and a #, after which nothing is sent.
_PLAIN = "%/?:@!$&'()*+,;=-._~"
_TAKES_TOKEN_OUT = 'import json,sys; print(json.load(sys.stdin)["access_token"])'
_PYTHON_GET = """\
import os
from fhirpy import SyncFHIRClient

client = SyncFHIRClient(
    {server},
    authorization="Bearer " + os.environ["TOKEN"],
)
answer = client.execute(
    {path},
    method="get",
    params={parameters},
)
print(answer)
"""
# fhirpy sends no forms, and takes what is no resource for a fault; requests comes with it.
_PYTHON_REQUESTS = """\
import os
import requests

answer = requests.{method}(
    {address},
    {sent}={parameters},
    headers={{
        "Authorization": "Bearer " + os.environ["TOKEN"],
{headers}    }},
)
print(answer.status_code)
print(answer.text)
"""
# In a browser the library's file has set FHIR already, and there is no process.
JAVASCRIPT_IN_NODE = """\
import smart from "fhirclient";
const FHIR = smart({}, {});
const token = process.env.TOKEN;

"""
_JAVASCRIPT = """\
const client = FHIR.client({{
  serverUrl: {server},
  tokenResponse: {{ access_token: token }},
}});
const answer = await client.request({asked});
console.log(answer);
"""


class Snippet(NamedTuple):
    """An address as a program asks for it; first is what to do before, in words or as a command."""

    label: str
    code: str
    first: str


def snippets(
    address: str, method: str = "GET", form: str = "", headers: Mapping[str, str] | None = None
) -> Sequence[Snippet]:
    """Return what asks for an address of ours, /fhir/Patient/p1, in each language.

    With POST its query goes into the form, as the explorer sends it, after what form has already.
    headers are those beside the token: Prefer decides whether a mistake is refused.
    """
    path, mark, query = encoded(address).partition("?")
    root, _slash, rest = path.removeprefix("/").partition("/")
    is_post = method.upper() == "POST"
    body = ""
    if is_post:
        rest = f"{rest.rstrip('/').removesuffix('/_search')}/_search"
        body, mark, query = "&".join(filter(None, (encoded(form), query))), "", ""
    asked = _Asked(f"{base_url()}/{root}", rest, f"{mark}{query}", body, is_post, headers or {})
    return (
        Snippet("curl", _curl(asked), ""),
        Snippet("Python", _python(asked), "pip install fhirpy"),
        Snippet("JavaScript", _javascript(asked), "npm install fhirclient"),
    )


class _Asked(NamedTuple):
    """A request: the server's FHIR base address, what comes after it, the query with its ?."""

    server: str
    path: str
    query: str
    form: str
    is_post: bool
    headers: Mapping[str, str]

    @property
    def address(self) -> str:
        return f"{self.server}/{self.path}{self.query}"


def encoded(text: str) -> str:
    """Return an address, or a form's body, as it is sent: what may not stand in it as %C3%A9."""
    return quote(text, safe=_PLAIN, errors="replace")


def how_to_get_a_token() -> str:
    """Return the command that sets TOKEN in a shell, which only the demo has."""
    if not settings().demo:
        return ""
    return (
        f"export TOKEN=$(curl -s -u {BACKEND}:{SECRET} -d grant_type=client_credentials"
        f" -d scope='system/*.rs' {shlex.quote(token_url())}"
        f" | python3 -c {shlex.quote(_TAKES_TOKEN_OUT)})"
    )


def _curl(asked: _Asked) -> str:
    given = "".join(
        f" -H {shlex.quote(f'{name}: {value}')}" for name, value in asked.headers.items()
    )
    # An empty --data is a POST too.
    sent = f" --data {shlex.quote(asked.form)}" if asked.is_post else ""
    return f'curl -H "Authorization: Bearer $TOKEN"{given}{sent} {shlex.quote(asked.address)}'


def _python(asked: _Asked) -> str:
    query = asked.query.removeprefix("?")
    if asked.is_post or asked.headers:
        return _PYTHON_REQUESTS.format(
            method="post" if asked.is_post else "get",
            address=ascii(asked.address.partition("?")[0]),
            sent="data" if asked.is_post else "params",
            parameters=_dictionary(asked.form if asked.is_post else query),
            headers="".join(
                f"        {name!a}: {value!a},\n" for name, value in asked.headers.items()
            ),
        ).rstrip()
    return _PYTHON_GET.format(
        server=ascii(asked.server),
        path=ascii(asked.path),
        parameters=_dictionary(query),
    ).rstrip()


def _dictionary(query: str) -> str:
    """Return the parameters of a query as Python writes them: names with the list of values."""
    found: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        found.setdefault(name, []).append(value)
    lines = [f"        {name!a}: {values!a},\n" for name, values in found.items()]
    return f"{{\n{''.join(lines)}    }}" if lines else "{}"


def _javascript(asked: _Asked) -> str:
    url = _js(f"{asked.path}{asked.query}")
    headers = dict(asked.headers)
    lines = [f"url: {url}"]
    if asked.is_post:
        headers |= {"Content-Type": "application/x-www-form-urlencoded"}
        lines += ['method: "POST"', f"body: {_js(asked.form)}"]
    if headers:
        named = ", ".join(f"{_js(name)}: {_js(value)}" for name, value in headers.items())
        lines.append(f"headers: {{ {named} }}")
        url = "{\n" + "".join(f"  {line},\n" for line in lines) + "}"
    asks = _JAVASCRIPT.format(server=_js(asked.server), asked=url)
    return f"{JAVASCRIPT_IN_NODE}{asks}".rstrip()


def _js(text: str) -> str:
    """Return a text as JavaScript writes it, which ends no script in a page that it is put into."""
    return json.dumps(text).replace("<", r"\u003c")
