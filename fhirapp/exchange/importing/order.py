"""The order in which inputs are imported: what others point to comes first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from math import inf

import orjson

from fhirapp.exchange.importing.archives import Broken
from fhirapp.exchange.importing.inputs import Input, Kind, kind_of
from fhirapp.store.definition import Definition

_HEAD = 1_048_576
# Of the header: it comes before any other.
_EFFECTIVE = re.compile(rb'<(?:\w+:)?effectiveTime\b[^>]*?\bvalue\s*=\s*["\'](\d{4,14})')
# Documents of C-CDA come after all others, whose people they may mean.
_MIXED, _OTHER, _CDA = 500, 1_000, 2_000


def in_order(inputs: Iterable[Input], definitions: Mapping[str, Definition]) -> list[Input]:
    """Return the inputs, those first whose type the others point to.

    What is in the wrong order all the same waits; that takes longer.
    """

    def place(one: Input) -> tuple[float, int, bytes]:
        rank = _rank(one, definitions)
        return (inf, rank, _made(one)) if rank == _CDA else (one.given, rank, b"")

    return sorted(inputs, key=place)


def _made(one: Input) -> bytes:
    """Return when a C-CDA document was made: of two about the same, the newer one is to count."""
    try:
        with one.open() as stream:
            found = _EFFECTIVE.search(stream.read(_HEAD))
    except Broken:
        found = None
    return found[1].ljust(14, b"0") if found else b""


def _rank(one: Input, definitions: Mapping[str, Definition]) -> int:
    """Return the rank of the type that an input's first resource has."""
    try:
        kind, _ = kind_of(one)
        if kind is Kind.CDA:
            return _CDA
        if kind is not Kind.LINES:
            return _MIXED
        with one.open() as stream:
            line = stream.readline(_HEAD)
        resource = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except (Broken, orjson.JSONDecodeError):
        return _OTHER
    type_name = resource.get("resourceType") if type(resource) is dict else None
    if type_name == "Bundle":
        type_name = _type_in(resource)
    definition = definitions.get(str(type_name))
    return definition.rank if definition else _OTHER


def _type_in(bundle: Mapping[str, object]) -> str | None:
    """Return the type of a history's resource."""
    entries = bundle.get("entry")
    if bundle.get("type") != "history" or type(entries) is not list or not entries:
        return None
    first = entries[0]
    return str(first.get("fullUrl", "")).partition("/")[0] if type(first) is dict else None
