"""The service below a path of its host: FHIRAPP_BASE_URL=https://clinic.example/records.

Within the service every address begins at its own root: /notes, /fhir/Patient/p1. Here, at the
door, the path is taken off what is asked, and put before the addresses of ours in answers: in the
tags of pages, in redirects, in the path of cookies (web/cookies.py). Absolute addresses have it
already, from `urls.base_url`.

A proxy may pass the path on, or take it off.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import urlsplit

from flask import Flask, Response

from fhirapp.config import ConfigurationError, settings_of

# Attributes that hold addresses: HTML's, htmx's, and what our scripts read.
_ADDRESS = re.compile(
    r'(\s(?:href|src|action|formaction|hx-get|hx-post|data-description|data-htmx|data-upload)=")/(?!/)'
)
# In text and in attributes < is written as an entity, so this is a tag.
_TAG = re.compile(r"<[A-Za-z][^<>]*>")
_HEADERS = ("Location", "HX-Redirect")

Environ = dict[str, Any]


def init_app(app: Flask) -> None:
    """Serve below the path of the base address, if it has one; call it after all routes are known.

    Raises ConfigurationError if one of our addresses begins with that path.
    """
    path = urlsplit(settings_of(app).base_url).path
    if not path:
        return
    if any(f"{rule}/".startswith(f"{path}/") for rule in app.url_map.iter_rules()):
        raise ConfigurationError(
            f"FHIRAPP_BASE_URL={settings_of(app).base_url!r}: {path} is also an address within "
            "this server; choose another path."
        )
    inner = app.wsgi_app

    def without_path(environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        requested: str = environ["PATH_INFO"]
        if requested == path or requested.startswith(f"{path}/"):
            environ["PATH_INFO"] = requested.removeprefix(path) or "/"
        return inner(environ, start_response)

    def with_path(response: Response) -> Response:
        for name in _HEADERS:
            address = response.headers.get(name, "")
            if address.startswith("/") and not address.startswith("//"):
                response.headers[name] = path + address
        if response.mimetype == "text/html" and not response.is_streamed:
            response.set_data(_TAG.sub(in_tag, response.get_data(as_text=True)))
        return response

    def in_tag(tag: re.Match[str]) -> str:
        return _ADDRESS.sub(rf"\1{path}/", tag[0])

    app.wsgi_app = without_path  # type: ignore[method-assign]
    app.after_request(with_path)
