"""Where the explorer's page leads on to: other addresses, asked as this one was."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlencode

from flask import request

from fhirapp.address import base_url
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.store.definition import types
from fhirapp.web.explore.sending import HEADERS
from fhirapp.web.texts import _

PAGE = "/explore"
# What goes with an address from page to page, beside it.
BESIDE = ("view", "method", "as", "lesson", *HEADERS)
# What another record is not asked for with: it is about the one that is shown.
_OF_THIS = {"method": "", "narrow": "", "if_none_match": ""}
_LESSON = re.compile(r"[a-z0-9-]{1,100}")
_RELATIVE = re.compile(rf"([A-Z][A-Za-z]+)/{ID_PATTERN}(?:/_history(?:/{ID_PATTERN})?)?")


def pages_of(content: Any) -> list[tuple[str, str]]:
    """Return the links of a Bundle to its other pages, in words."""
    words = {"previous": _("Page before"), "next": _("Next page")}
    is_bundle = isinstance(content, dict) and content.get("resourceType") == "Bundle"
    links = content.get("link", ()) if is_bundle else ()
    found = {one.get("relation"): link(str(one.get("url"))) for one in links}
    return [(words[name], href) for name in words if (href := found.get(name))]


def lesson() -> str:
    """Return the name of the lesson that led here; empty where none did."""
    name = request.args.get("lesson", "")
    return name if _LESSON.fullmatch(name) else ""


def link(text: str) -> str | None:
    """Return the page that asks for an address of ours, or what a reference names; else None."""
    own = base_url()
    relative = _RELATIVE.fullmatch(text)
    if relative and relative[1] in types():
        return again(f"/fhir/{text}", **_OF_THIS)
    # A self link may name the type alone: it is no search to repeat, it would find everybody's.
    if text.startswith(f"{own}/fhir/") or (text.startswith(f"{own}/api/") and "?" in text):
        return again(text.removeprefix(own), **_OF_THIS)
    return None


def again(address: str, path: str = PAGE, **changed: str) -> str:
    """Return a link that asks for an address as this page did, but for what is changed."""
    beside = {name: request.args.get(name, "") for name in BESIDE} | changed
    given = [("address", address), *((name, value) for name, value in beside.items() if value)]
    return f"{path}?{urlencode(given, safe='/:?=,$')}"
