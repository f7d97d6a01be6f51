"""A request as programs send it: copy it as curl, as Python (fhirpy), as JavaScript (fhirclient).

templates/explore/snippets has the programs. What is typed into an address is quoted in each, so
that a copied program does what the explorer did and nothing else. No token is in it.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import parse_qsl, quote

from flask import current_app

from fhirapp import urls
from fhirapp.auth.public_accounts import public_accounts

# What may stand in an address as it is (RFC 3986); but brackets and braces, which curl takes for a
# pattern, and a #, after which nothing is sent.
_PLAIN = "%/?:@!$&'()*+,;=-._~"
_TAKES_TOKEN_OUT = 'import json,sys; print(json.load(sys.stdin)["access_token"])'
# The languages, and what is to be installed first.
_LANGUAGES = {"curl": "", "Python": "pip install fhirpy", "JavaScript": "npm install fhirclient"}


class Snippet(NamedTuple):
    """A request as a program sends it; first is the command that installs what it needs."""

    label: str
    code: str
    first: str


def snippets(
    address: str, method: str = "GET", form: str = "", headers: Mapping[str, str] | None = None
) -> Sequence[Snippet]:
    """Return what sends a request to an address of ours, /fhir/Patient/p1, in each language.

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
    server = f"{urls.base_url()}/{root}"
    parameters: dict[str, list[str]] = {}
    for name, value in parse_qsl(body or query, keep_blank_values=True):
        parameters.setdefault(name, []).append(value)
    values = {
        "server": server,
        "path": rest,
        "query": f"{mark}{query}",
        "address": f"{server}/{rest}{mark}{query}",
        "body": body,
        "is_post": is_post,
        "parameters": parameters,
        "headers": headers or {},
        "shell": shlex.quote,
        "python": ascii,
        "js": _js,
    }
    template = current_app.jinja_env.get_template
    return [
        Snippet(label, template(f"explore/snippets/{label.lower()}.txt").render(values), first)
        for label, first in _LANGUAGES.items()
    ]


def encoded(text: str) -> str:
    """Return an address, or a form's body, as it is sent: what may not stand in it as %C3%A9."""
    return quote(text, safe=_PLAIN, errors="replace")


def how_to_get_a_token() -> str:
    """Return the command that sets TOKEN in a shell, which only the demo has."""
    public = public_accounts()
    if public is None:
        return ""
    return (
        f"export TOKEN=$(curl -s -u {public.backend}:{public.secret}"
        f" -d grant_type=client_credentials -d scope='system/*.rs' {shlex.quote(urls.token_url())}"
        f" | python3 -c {shlex.quote(_TAKES_TOKEN_OUT)})"
    )


def _js(text: str) -> str:
    """Return a text as JavaScript writes it, which ends no script in a page that it is put into."""
    return json.dumps(text).replace("<", r"\u003c")
