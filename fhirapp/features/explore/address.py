"""The address of a request: read as people type it, taken apart, written again; and links to it.

Nothing is lost on the way: what no field of the form can show stays as it is in the address.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import Any, NamedTuple
from urllib.parse import quote, unquote, unquote_plus, urlencode

from flask import request

from fhirapp import urls
from fhirapp.definition import Definition, types
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.rest.blueprint import ROOTS
from fhirapp.web.pages import PageError
from fhirapp.web.texts import _

PAGE = "/explore"
# The audit trail's name for requests that a person sends with the explorer.
SENT_VIA = "explore"
# The header fields of the form, by the names of its controls.
HEADERS = {"accept": "Accept", "prefer": "Prefer", "if_none_match": "If-None-Match"}
# The controls that go from page to page beside the address.
BESIDE = ("view", "method", "as", "lesson", *HEADERS)
# What may stand in an address as it is; the rest is percent-encoded.
_PLAIN = "%/:?@!$&'()*+,;=-._~|[]"
# As the links of our own answers have it (rest/links.py).
_PLAIN_IN_VALUES = ":,/|$"
# Invisible characters, and such as reverse the direction of a line: the address would be misread.
UNSEEN = re.compile("[\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")
_SPACES = re.compile(r"[\r\n\t]+")
_METHOD = re.compile(r"(?:GET|HEAD)\s+", re.IGNORECASE)
# What comes after the address where HTTP writes a request.
_VERSION = re.compile(r"\s+HTTP/[0-9.]+$", re.IGNORECASE)
_POST_OR_HEADERS = re.compile(r"POST\s|(?s:.*)[\r\n][A-Za-z-]+:[ ]", re.IGNORECASE)
_SEARCH = re.compile(r"/(?:fhir|api)/([A-Za-z]+)(?:/|/_search)?")
_OF_TYPE = re.compile(r"/(?:fhir|api)/([A-Za-z]+)(?:/.*)?")
_LESSON = re.compile(r"[a-z0-9-]{1,100}")
_RELATIVE = re.compile(rf"([A-Z][A-Za-z]+)/{ID_PATTERN}(?:/_history(?:/{ID_PATTERN})?)?")


class NoAddressError(PageError):
    """What was typed is no address of this server; str() says in a sentence what would be right."""

    def __init__(self, sentence: str) -> None:
        super().__init__(400, sentence)


class Address(NamedTuple):
    """A path from /fhir on, and the pieces of its query between & and &, as they are sent."""

    path: str
    pieces: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.path}?{self.query}" if self.pieces else self.path

    @property
    def query(self) -> str:
        return "&".join(self.pieces)

    @property
    def searched(self) -> Definition | None:
        """The type that is searched; None where it is something else."""
        match = _SEARCH.fullmatch(unquote(self.path))
        definition = types().get(match[1]) if match else None
        return definition if definition is not None and definition.searchable else None

    @property
    def type_name(self) -> str:
        """The name of its type; empty where that is not served."""
        match = _OF_TYPE.fullmatch(unquote(self.path))
        return match[1] if match and match[1] in types() else ""


def read_address(typed: str) -> Address:
    """Read an address as it is typed: /fhir/Patient/p1, with our own host, or Patient/p1.

    Raises NoAddressError.
    """
    typed = typed.strip()
    if _POST_OR_HEADERS.match(typed):
        raise NoAddressError(
            _(
                "Enter only the address, for example /fhir/AllergyIntolerance?patient=p1. Set "
                "headers and POST under Headers and method."
            )
        )
    text = _VERSION.sub("", _METHOD.sub("", _SPACES.sub("", typed), count=1))
    text = quote(text.partition("#")[0], safe=_PLAIN, errors="replace")
    own = urls.base_url()
    if text.startswith(f"{own}/"):
        text = text.removeprefix(own)
    elif text.startswith("fhir/"):
        text = f"/{text}"
    elif re.match(r"[A-Z][A-Za-z]*(?:[/?]|$)|(?:\$|metadata)", text):
        text = f"/fhir/{text}"
    path, _mark, query = text.partition("?")
    if path.rstrip("/") not in ROOTS and not path.startswith(tuple(f"{root}/" for root in ROOTS)):
        raise NoAddressError(
            _(
                "This page sends requests to this server only. Start the address with /fhir/ or "
                "%(own)s/fhir/.",
                own=own,
            )
        )
    if any(unquote(part) in (".", "..") for part in path.split("/")) or "\\" in unquote(path):
        raise NoAddressError(_('The address must not contain path segments such as "..".'))
    return Address(path, tuple(filter(None, query.split("&"))))


def readable(typed: str) -> str:
    """Return an address with its invisible characters as they are sent, %E2%80%AE."""
    return UNSEEN.sub(lambda match: quote(match[0]), typed)


def mark_of(typed: str) -> str:
    """Return a digest that tells whether an address was changed."""
    return blake2b(_SPACES.sub("", typed).strip().encode(), digest_size=8).hexdigest()


def pieces_of(typed: str) -> list[str]:
    """Return the pieces of a parameter as it is typed: code=a, or several between &."""
    text = quote(_SPACES.sub("", typed).strip(), safe=_PLAIN.replace("?", ""), errors="replace")
    return [*filter(None, text.split("&"))]


def piece(name: str, value: str) -> str:
    """Return a parameter as it stands in an address."""
    encoded = (quote(text, safe=_PLAIN_IN_VALUES, errors="replace") for text in (name, value))
    return "=".join(encoded).replace("%20", "+")


def pair(text: str) -> tuple[str, str] | None:
    """Return the name and value of a piece; None if no field can show it.

    Fields do not show empty values, invalid UTF-8, or control characters.
    """
    name, _equals, value = text.partition("=")
    try:
        decoded = unquote_plus(name, errors="strict"), unquote_plus(value, errors="strict")
    except UnicodeDecodeError:
        return None
    is_shown = all(part and not re.search("[\0-\x1f\x7f]", part) for part in decoded)
    return decoded if is_shown else None


def explorer_link(address: str, page: str = PAGE, **beside: str) -> str:
    """Return the page that sends an address; beside are the other controls of its form."""
    sent = {"address": address} | {name: value for name, value in beside.items() if value}
    return f"{page}?{urlencode(sent, safe='/:?=,$')}"


def again(address: str, page: str = PAGE, **changed: str) -> str:
    """Return a link that sends an address as this page did, but for what is changed."""
    beside = {name: request.args.get(name, "") for name in BESIDE}
    return explorer_link(address, page, **beside | changed)


def link(text: str) -> str | None:
    """Return the page that sends an address of ours, or reads what a reference names; else None."""
    # These belong to the request that is shown, not to another.
    without = {"method": "", "narrow": "", "if_none_match": ""}
    own = urls.base_url()
    relative = _RELATIVE.fullmatch(text)
    if relative and relative[1] in types():
        return again(f"/fhir/{text}", **without)
    # A self link may name the type alone: sent again, that would search every patient.
    if text.startswith(f"{own}/fhir/") or (text.startswith(f"{own}/api/") and "?" in text):
        return again(text.removeprefix(own), **without)
    return None


def pages_of(content: Any) -> list[tuple[str, str]]:
    """Return the links of a Bundle to its other pages, in words."""
    words = {"previous": _("Previous page"), "next": _("Next page")}
    is_bundle = isinstance(content, dict) and content.get("resourceType") == "Bundle"
    links = content.get("link", ()) if is_bundle else ()
    pages = {page_link.get("relation"): link(str(page_link.get("url"))) for page_link in links}
    return [(words[name], href) for name in words if (href := pages.get(name))]


def lesson() -> str:
    """Return the name of the lesson that led here; empty where none did."""
    name = request.args.get("lesson", "")
    return name if _LESSON.fullmatch(name) else ""
