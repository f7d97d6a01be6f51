"""Deferred records and addresses of an import, kept on disk, and the memory of its batches."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fhirapp.features.imports.bundles import OnMatch
from fhirapp.features.imports.records import ImportRecord, Scratch


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    """The tables of one import."""
    with Scratch() as made:
        yield made


def defer(scratch: Scratch, reason: str, name: str, content: bytes = b"") -> None:
    """Defer a record of a resource, Type/id."""
    type_name, _, resource_id = name.partition("/")
    content = content or json.dumps({"resourceType": type_name, "id": resource_id}).encode()
    scratch.defer(reason, name, content, ImportRecord("x.ndjson:1", bundle=3))


def names(records: Iterator[ImportRecord]) -> list[str]:
    """Return the subjects of records, in their order."""
    return [record.subject for record in records]


def test_deferred_records_are_returned_once_in_their_order(scratch):
    for name in ("Patient/b", "Patient/a", "Patient/b"):
        defer(scratch, "reference", name)
    defer(scratch, "older", "Patient/c")
    assert scratch.count_deferred("reference") == 3
    assert names(scratch.take_deferred("reference")) == ["Patient/b", "Patient/a", "Patient/b"]
    assert scratch.count_deferred("reference") == 0
    assert names(scratch.take_deferred("reference")) == []
    assert names(scratch.take_deferred("older")) == ["Patient/c"]


def test_deferred_record_or_deletion_is_returned_as_it_was(scratch):
    text = b'{"resourceType":"Patient","id":"a"}'
    record = ImportRecord(
        "x.ndjson:1",
        bundle=3,
        condition="Patient?identifier=1",
        on_match=OnMatch.SKIP_OTHER,
        references_checked=True,
    )
    deletion = ImportRecord("x.ndjson:1", deletes="Patient/a")
    scratch.defer("reference", "Patient/a", text, record)
    (taken,) = scratch.take_deferred("reference")
    assert taken == replace(record, text=text, resource=json.loads(text), was_deferred=True)
    scratch.defer("reference", "Patient/a", b"", deletion)
    (taken,) = scratch.take_deferred("reference")
    assert taken == replace(deletion, was_deferred=True)
    # References of a document's resources are the importer's own.
    scratch.defer("reference", "Patient/a", b"{}", ImportRecord("x.xml", grouped=True))
    (taken,) = scratch.take_deferred("reference")
    assert taken.references_checked


def test_deferred_records_are_returned_by_name_and_those_deferred_meanwhile_later(scratch):
    for place, name in enumerate(("b", "a", "b", "c", "a")):
        defer(scratch, "older", name, b"%d1" % (place + 1))
    taken = []
    for record in scratch.take_deferred("older", by_name=True):
        taken.append(record.resource)
        defer(scratch, "older", "d")
    assert taken == [21, 51, 11, 31, 41]
    assert scratch.count_deferred("older") == 5


def test_newest_deferral_of_a_name_counts(scratch):
    assert scratch.deferral("Patient/a") is None
    defer(scratch, "reference", "Patient/a")
    assert scratch.deferral("Patient/a") == "reference"
    assert scratch.deferral("Patient/b") is None
    defer(scratch, "older", "Patient/a")
    assert scratch.deferral("Patient/a") == "older"
    names(scratch.take_deferred("older"))
    assert scratch.deferral("Patient/a") == "reference"
    names(scratch.take_deferred("reference"))
    assert scratch.deferral("Patient/a") is None


def test_address_leads_to_its_first_entry_in_its_own_bundle(scratch):
    first, second = scratch.new_bundle(), scratch.new_bundle()
    scratch.add_address(first, "urn:a", "Patient/1", "")
    scratch.add_address(first, "urn:a", "Patient/2", "")
    scratch.add_address(second, "urn:a", "Patient/3", "Patient?_id=3")
    assert scratch.target(first, "urn:a") == ("Patient/1", "")
    assert scratch.target(second, "urn:a") == ("Patient/3", "Patient?_id=3")
    assert scratch.target(first, "urn:b") is None
