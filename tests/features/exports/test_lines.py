"""Lines of an export: the stored source, in bounded memory."""

from __future__ import annotations

import copy
import tracemalloc
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from flask import Flask
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select

from fhirapp.db import db
from fhirapp.definition import Definition
from fhirapp.features.exports.lines import SMALL
from fhirapp.fhir import datatypes
from fhirapp.fhir import json as fhir_json
from fhirapp.store.prepare import prepare
from tests.support.contract import NOW, SERVED, allergy, publish
from tests.support.exporting import STORED, binary_with, export, lines_of
from tests.support.round_trips import NAMES, PRIMITIVES, REPEATABLE, resources


def rows_of(app: Flask, definition: Definition) -> Iterator[Mapping[str, Any]]:
    """Yield the current rows of a type, by id, as SQLAlchemy reads them."""
    table = definition.table
    with app.app_context(), db.engine.connect() as connection:
        found = select(table).where(table.c.is_current).order_by(table.c.id)
        yield from connection.execute(found).mappings()


def test_line_is_the_elements_of_the_row_in_the_order_of_the_specification(
    filled, exported, subtests
):
    for name in STORED:
        with subtests.test(name=name):
            definition, found = SERVED[name], lines_of(exported, name)
            rows = [*rows_of(filled, definition)]
            assert len(found) == len(rows) > 0
            for resource, row in zip(found, rows, strict=True):
                source = definition.schema.source(row)
                ours = {"versionId": str(row["version_id"]), "lastUpdated": row["last_updated"]}
                expected = {
                    **source.elements,
                    "resourceType": name,
                    "id": row["id"],
                    "meta": {**ours, **source.elements.get("meta", {})},
                }
                assert fhir_json.canonical(resource) == fhir_json.canonical(expected)
                served = definition.schema.searched(definition.schema.dump(row))
                # A partial date is served beside its element, and stored in it.
                places = {"date": "_date"} if "_date" in served else {}
                members = [*served]
                assert [*resource] == sorted(
                    resource, key=lambda member: members.index(places.get(member, member))
                )


def test_line_is_parsed_into_the_same_columns_and_digest(filled, exported, subtests):
    for name in STORED:
        definition = SERVED[name]
        columns = [*({*definition.columns.values(), "extra"} - {"id", "data"})]
        rows = rows_of(filled, definition)
        for resource, row in zip(lines_of(exported, name), rows, strict=True):
            with subtests.test(f"{name}/{row['id']}"):
                prepared = prepare(definition, resource)
                assert prepared.digest == row["digest"]
                values = {column: prepared.columns.get(column) for column in columns}
                stored = {column: row[column] for column in columns}
                assert fhir_json.canonical(values) == fhir_json.canonical(stored)
                assert prepared.columns.get("data") == row.get("data")


@pytest.mark.parametrize("name", NAMES)
def test_any_resource_is_exported_as_it_came(empty, tmp_path, monkeypatch, name):
    monkeypatch.setitem(PRIMITIVES, datatypes.media_type, st.just("text/plain"))
    came: dict[str, bytes] = {}

    # All examples are published first and exported together.
    @settings(REPEATABLE, max_examples=12)
    @given(resources(name))
    def bring(resource: dict[str, Any]) -> None:
        resource["id"] = f"r{len(came):03}"
        for attachment in attachments_of(resource):
            attachment.pop("data", None)
        came[resource["id"]] = fhir_json.canonical(said_in(resource))
        publish(empty, copy.deepcopy(resource), now=NOW)

    bring()
    export(empty, tmp_path, name)
    written = {
        resource["id"]: fhir_json.canonical(said_in(resource))
        for resource in lines_of(tmp_path, name)
    }
    assert written == came


def attachments_of(resource: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a document's attachments."""
    if resource["resourceType"] != "DocumentReference":
        return []
    return [content["attachment"] for content in resource.get("content", ())]


def said_in(resource: dict[str, Any]) -> dict[str, Any]:
    """Return a resource without the version and time that a server gives it."""
    meta = {
        name: value
        for name, value in resource.get("meta", {}).items()
        if name not in ("versionId", "lastUpdated")
    }
    rest = {name: value for name, value in resource.items() if name != "meta"}
    return {**rest, "meta": meta} if meta else rest


NEVER_CLAIMED = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-diagnosticreport-note"


@pytest.mark.parametrize(
    "resource",
    [
        allergy("a"),
        allergy("a", code={"coding": [{"system": "http://snomed.info/sct", "code": "409137002"}]}),
        {"resourceType": "DocumentReference", "id": "d", "status": "current", "meta": {"profile":
         [NEVER_CLAIMED]}},
    ],
)  # fmt: skip
def test_export_adds_nothing_to_the_source(make_app, tmp_path, resource):
    app = make_app(seed=False, empty_content="dar")
    publish(app, resource, now=NOW)
    export(app, tmp_path)
    meta = {"versionId": "1", "lastUpdated": NOW, **resource.get("meta", {})}
    assert lines_of(tmp_path, resource["resourceType"]) == [{**resource, "meta": meta}]


def test_attachment_is_written_without_what_follows_from_its_bytes(empty, tmp_path):
    binary = {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "data": "QUJD"}
    document = {
        "resourceType": "DocumentReference",
        "id": "d",
        "status": "current",
        "content": [{"attachment": {"url": "Binary/b", "title": "Note"}}],
    }
    publish(empty, binary, now=NOW)
    publish(empty, document, now=NOW)
    export(empty, tmp_path)
    (written,) = lines_of(tmp_path, "DocumentReference")
    assert written["content"] == document["content"]


def test_bytes_that_came_with_a_document_are_a_binary_that_it_names(empty, tmp_path):
    document = {
        "resourceType": "DocumentReference",
        "id": "d",
        "status": "current",
        "content": [{"attachment": {"contentType": "text/plain", "data": "QUJD"}}],
    }
    publish(empty, copy.deepcopy(document), now=NOW)
    export(empty, tmp_path)
    (binary,) = lines_of(tmp_path, "Binary")
    (written,) = lines_of(tmp_path, "DocumentReference")
    assert (binary["contentType"], binary["data"]) == ("text/plain", "QUJD")
    assert written["content"][0]["attachment"]["url"] == f"Binary/{binary['id']}"
    assert "data" not in written["content"][0]["attachment"]


@pytest.mark.parametrize("length", [1, 2, SMALL, SMALL + 1, 3 * SMALL, 3 * SMALL + 1, 7 * SMALL])
def test_bytes_of_any_length_are_written_whole(empty, tmp_path, length):
    content = (b"0123456789abcdef\xff" * (length // 17 + 1))[:length]
    publish(empty, binary_with(content), now=NOW)
    export(empty, tmp_path)
    (written,) = lines_of(tmp_path, "Binary")
    assert prepare(SERVED["Binary"], written).columns["data"] == content


@pytest.mark.campaign
@pytest.mark.parametrize("history", [False, True])
def test_large_binary_is_streamed(empty, tmp_path, history):
    size = 48_000_000
    publish(empty, binary_with(bytes(size)), now=NOW)
    tracemalloc.start()
    export(empty, tmp_path, history=history)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (tmp_path / "Binary.ndjson").stat().st_size > size * 4 // 3
    assert most < size / 3


def test_decimal_keeps_its_digits(empty, tmp_path):
    digits = ["123456789012345678901234567890", "0.10", "1E+400", "-0.0", "5.00"]
    extension = ",".join(f'{{"url":"u","valueDecimal":{decimal}}}' for decimal in digits)
    text = f'{{"resourceType":"Patient","id":"d","extension":[{extension}]}}'
    publish(empty, fhir_json.loads(text), now=NOW)
    export(empty, tmp_path)
    assert extension in (tmp_path / "Patient.ndjson").read_text()
