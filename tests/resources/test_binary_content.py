"""FHIR JSON of a Binary: the same, byte for byte, whether it is sent at once or in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from random import Random
from typing import Any, NamedTuple

import pytest
from flask import Flask

from fhirapp.db import reader
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.json import compact
from fhirapp.resources.binary.content import StoredBytes, StoredResource, newest_version
from fhirapp.resources.binary.schema import BinarySchema
from fhirapp.rest.response import Layout
from fhirapp.rest.stream import PIECE, Span
from tests.support.binaries import PUBLISHED, store
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import FHIR_JSON, Fhir, token_for

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

# Around a group of base64, and around where a body is sent in pieces.
SIZES = [
    *range(9),
    *(size + more for size in (PIECE // 4 * 3, PIECE, 3 * PIECE) for more in range(-2, 3)),
]
# Every element, and among the extensions what looks as `data` does.
EVERYTHING = {
    "meta": {"tag": [{"system": "urn:example", "code": "é"}]},
    "implicitRules": "urn:example:rules",
    "language": "fr",
    "_contentType": {
        "extension": [
            {"url": "urn:example:digits", "valueDecimal": Decimal("1.50")},
            {
                "url": "urn:example:data",
                "valueAttachment": {"data": "AA==", "title": '"data": "AA=='},
            },
            {"url": "urn:example:line", "valueString": '\n  "data": "AA=='},
        ]
    },
    "securityContext": {"reference": "Patient/p1"},
}
ORDER = (
    *("id", "meta", "implicitRules", "language"),
    *("_contentType", "contentType", "securityContext", "data"),
)


def expected(binary: dict[str, Any]) -> bytes:
    """Return the JSON that FHIR wants of a Binary, indented."""
    meta = {"versionId": "1", "lastUpdated": PUBLISHED, **binary.get("meta", {})}
    elements = {**binary, "meta": meta}
    ordered = {name: elements[name] for name in ORDER if name in elements}
    return fhir_json.dumps_indented({"resourceType": "Binary", **ordered})


class Sized(NamedTuple):
    """An app, a client that may read everything in it, and the Binaries that it holds, by id."""

    app: Flask
    fhir: Fhir
    binaries: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def sized(make_app: Callable[..., Flask]) -> Sized:
    """Binaries of SIZES, b0 and so on; and full0 and so on, with all that a Binary may have."""
    app = make_app(seed=False)
    binaries = {f"b{size}": store(app, f"b{size}", Random(size).randbytes(size)) for size in SIZES}
    for size in (0, 5, 2 * PIECE):
        row_id = f"full{size}"
        binaries[row_id] = store(app, row_id, Random(size).randbytes(size), **EVERYTHING)
    return Sized(app, Fhir(app, token_for(app, "system/*.rs")), binaries)


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("query", ["", "?_pretty=true", "?_pretty=false"])
def test_the_resource_is_the_same_json_whatever_its_size(sized, query, method):
    for row_id, binary in sized.binaries.items():
        body = expected(binary)
        if query == "?_pretty=false":
            body = compact(body)
        path = f"Binary/{row_id}{query}"
        response = sized.fhir.request(method, path, headers={"Accept": FHIR_JSON})
        assert (response.status_code, response.content_type) == (200, FHIR_JSON)
        assert response.content_length == len(body)
        assert response.data == (body if method == "GET" else b""), row_id


def parts(whole: bytes) -> Iterator[Span]:
    """Yield the whole, and every span within the last characters, where the base64 is."""
    length = len(whole)
    for start in range(length - 20, length + 1):
        yield from (Span(start, stop) for stop in range(start, length + 1))
    yield Span(0, length)


@pytest.mark.parametrize("row_id", ["b0", "b1", "b2", "b3", "b4", "b5", "b8", "full0", "full5"])
@pytest.mark.parametrize("pretty", [True, False])
def test_any_part_of_the_json_is_that_part_of_the_whole(sized, row_id, pretty):
    whole = expected(sized.binaries[row_id])
    if not pretty:
        whole = compact(whole)
    with sized.app.app_context():
        snapshot = reader()
        version = newest_version(snapshot, row_id)
        stored = StoredBytes.of(snapshot, version)
        content = StoredResource.of(snapshot, stored, BinarySchema(), Layout(pretty=pretty))
        assert content.length == len(whole)
        for span in parts(whole):
            assert content.piece(snapshot, span) == whole[span.start : span.stop]
