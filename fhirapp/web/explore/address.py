"""The address of a request: as people type it, taken apart, and put together again.

Nothing is lost on the way: what no field can show stays as it stands in the address.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from typing import NamedTuple
from urllib.parse import quote, unquote, unquote_plus

from fhirapp.config import base_url
from fhirapp.definition import Definition, types
from fhirapp.rest.blueprint import ROOTS
from fhirapp.web.texts import _

# What may stand in an address as it is; the rest is written as percent signs and digits.
_PLAIN = "%/:?@!$&'()*+,;=-._~|[]"
# As the links of our own answers have it (rest/links.py).
_PLAIN_IN_VALUES = ":,/|$"
# Unseen signs, and such as turn a line around: the address would read as another one.
_UNSEEN = re.compile("[\u00ad\u061c\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]")
_SPACES = re.compile(r"[\r\n\t]+")
_METHOD = re.compile(r"(?:GET|HEAD)\s+", re.IGNORECASE)
# What stands beside the address where HTTP writes a request.
_VERSION = re.compile(r"\s+HTTP/[0-9.]+$", re.IGNORECASE)
_POST_OR_HEADERS = re.compile(r"POST\s|(?s:.*)[\r\n][A-Za-z-]+:[ ]", re.IGNORECASE)
_SEARCH = re.compile(r"/(?:fhir|api)/([A-Za-z]+)(?:/|/_search)?")
_OF_TYPE = re.compile(r"/(?:fhir|api)/([A-Za-z]+)(?:/.*)?")


class NoAddressError(ValueError):
    """What was typed is no address of ours; str() says in a sentence what would be right."""


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
        found = _SEARCH.fullmatch(unquote(self.path))
        definition = types().get(found[1]) if found else None
        return definition if definition is not None and definition.searchable else None

    @property
    def type_name(self) -> str:
        """The type that it is about, empty where there is none that is served."""
        found = _OF_TYPE.fullmatch(unquote(self.path))
        return found[1] if found and found[1] in types() else ""


def read_address(typed: str) -> Address:
    """Read what somebody typed: /fhir/Patient/p1, with our own host or without, Patient/p1.

    Raises NoAddressError.
    """
    typed = typed.strip()
    if _POST_OR_HEADERS.match(typed):
        raise NoAddressError(
            _(
                "Write the address alone, as in /fhir/AllergyIntolerance?patient=p1: headers, and"
                " that it is sent as POST, are chosen under Headers and method."
            )
        )
    text = _VERSION.sub("", _METHOD.sub("", _SPACES.sub("", typed), count=1))
    text = quote(text.partition("#")[0], safe=_PLAIN, errors="replace")
    own = base_url()
    if text.startswith(f"{own}/"):
        text = text.removeprefix(own)
    elif text.startswith("fhir/"):
        text = f"/{text}"
    elif re.match(r"[A-Z][A-Za-z]*(?:[/?]|$)|(?:\$|metadata)", text):
        text = f"/fhir/{text}"
    path, _mark, query = text.partition("?")
    if path.rstrip("/") not in ROOTS and not path.startswith(tuple(f"{one}/" for one in ROOTS)):
        raise NoAddressError(
            _("This page asks this server only: begin with /fhir/, or with %(own)s/fhir/.", own=own)
        )
    if any(unquote(part) in (".", "..") for part in path.split("/")) or "\\" in unquote(path):
        raise NoAddressError(
            _("An address goes down from /fhir/: it has no steps such as .. in it.")
        )
    return Address(path, tuple(filter(None, query.split("&"))))


def readable(typed: str) -> str:
    """Return what somebody typed with unseen signs as they are sent, %E2%80%AE."""
    return _UNSEEN.sub(lambda found: quote(found[0]), typed)


def mark_of(typed: str) -> str:
    """Return what tells whether an address was changed, in short: a form holds several."""
    return blake2b(_SPACES.sub("", typed).strip().encode(), digest_size=8).hexdigest()


def pieces_of(typed: str) -> list[str]:
    """Return the pieces of what somebody typed as a parameter: code=a, or several between &."""
    text = quote(_SPACES.sub("", typed).strip(), safe=_PLAIN.replace("?", ""), errors="replace")
    return [*filter(None, text.split("&"))]


def piece(name: str, value: str) -> str:
    """Return a parameter as it stands in an address."""
    return "=".join(
        quote(one, safe=_PLAIN_IN_VALUES, errors="replace").replace("%20", "+")
        for one in (name, value)
    )


def pair(text: str) -> tuple[str, str] | None:
    """Return the name and value of a piece; None where no field can show it.

    That has no value, is no UTF-8, or has signs that a field of one line drops.
    """
    name, _equals, value = text.partition("=")
    try:
        found = unquote_plus(name, errors="strict"), unquote_plus(value, errors="strict")
    except UnicodeDecodeError:
        return None
    shown = all(one and not re.search("[\0-\x1f\x7f]", one) for one in found)
    return found if shown else None
