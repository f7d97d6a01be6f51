"""What an import keeps while it runs."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fhirapp.exchange.imports.bundles import OnMatch
from fhirapp.exchange.imports.records import Record, Scratch


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    """Return tables of one run."""
    with Scratch() as made:
        yield made


def defer(scratch: Scratch, reason: str, name: str, content: bytes = b"{}") -> None:
    """Defer a record of a resource, Type/id."""
    type_name, _, resource_id = name.partition("/")
    resource = {"resourceType": type_name, "id": resource_id}
    if content == b"{}":
        content = json.dumps(resource).encode()
    scratch.defer(reason, name, content, Record("x.ndjson:1", bundle=3))


def names(records: Iterator[Record]) -> list[str]:
    """Return what records are about, in their order."""
    return [record.subject for record in records]


def test_what_is_deferred_comes_back_once_in_its_order(scratch):
    for name in ("Patient/b", "Patient/a", "Patient/b"):
        defer(scratch, "reference", name)
    defer(scratch, "older", "Patient/c")
    assert scratch.count_deferred("reference") == 3
    assert names(scratch.take_deferred("reference")) == ["Patient/b", "Patient/a", "Patient/b"]
    assert scratch.count_deferred("reference") == 0
    assert names(scratch.take_deferred("reference")) == []
    assert names(scratch.take_deferred("older")) == ["Patient/c"]


def test_a_record_comes_back_as_it_was(scratch):
    record = Record(
        "x.ndjson:1",
        bundle=3,
        condition="Patient?identifier=1",
        on_match=OnMatch.SKIP_OTHER,
        references_checked=True,
    )
    scratch.defer("reference", "Patient/a", b'{"resourceType":"Patient","id":"a"}', record)
    (taken,) = scratch.take_deferred("reference")
    resource = {"resourceType": "Patient", "id": "a"}
    text = b'{"resourceType":"Patient","id":"a"}'
    assert taken == replace(record, text=text, resource=resource, was_deferred=True)


def test_a_deletion_comes_back_as_one(scratch):
    scratch.defer("reference", "Patient/a", b"", Record("x.ndjson:1", deletes="Patient/a"))
    (taken,) = scratch.take_deferred("reference")
    assert taken == Record("x.ndjson:1", deletes="Patient/a", was_deferred=True)


def test_what_was_made_of_a_document_has_ids_of_our_own(scratch):
    scratch.defer("reference", "Patient/a", b"{}", Record("x.xml", grouped=True))
    (taken,) = scratch.take_deferred("reference")
    assert taken.references_checked


def test_by_name_the_records_of_one_resource_come_together(scratch):
    for place, name in enumerate(("b", "a", "b", "c", "a")):
        defer(scratch, "older", name, b"%d1" % (place + 1))
    taken = [record.resource for record in scratch.take_deferred("older", by_name=True)]
    assert taken == [21, 51, 11, 31, 41]


def test_what_is_deferred_meanwhile_waits_for_the_next_round(scratch):
    for number in range(200):
        defer(scratch, "reference", f"Patient/{number}")
    for record in scratch.take_deferred("reference"):
        defer(scratch, "reference", record.subject)
    assert scratch.count_deferred("reference") == 200
    assert len(names(scratch.take_deferred("reference"))) == 200


def test_the_newest_deferral_of_a_name_counts(scratch):
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


@pytest.mark.parametrize("name", ["Patient/a\0b", "Patient/" + "x" * 100_000])
def test_any_name_can_be_looked_up(scratch, name):
    defer(scratch, "reference", "Patient/a")
    assert scratch.deferral(name) is None
    assert scratch.target(scratch.new_bundle(), name) is None


def test_an_address_leads_where_its_first_entry_says_in_its_own_bundle(scratch):
    first, second = scratch.new_bundle(), scratch.new_bundle()
    scratch.add_address(first, "urn:a", "Patient/1", "")
    scratch.add_address(first, "urn:a", "Patient/2", "")
    scratch.add_address(second, "urn:a", "Patient/3", "Patient?_id=3")
    assert scratch.target(first, "urn:a") == ("Patient/1", "")
    assert scratch.target(second, "urn:a") == ("Patient/3", "Patient?_id=3")
    assert scratch.target(first, "urn:b") is None


def test_what_did_not_come_is_listed_in_its_order(scratch):
    scratch.add_seen([("Patient", "a"), ("Patient", "c"), ("Binary", "b"), ("Patient", "a")])
    assert scratch.unseen("Patient", ["d", "c", "b", "a"]) == ["d", "b"]
    assert scratch.unseen("Binary", []) == []


def test_what_is_deferred_lies_on_disk(scratch):
    """A hundred megabytes of it take a few of memory."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    content = b'"%s"' % (b"x" * 1_000_000)
    for number in range(100):
        defer(scratch, "reference", f"Patient/{number}", content)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown * (1 if sys.platform == "darwin" else 1024) < 40_000_000
    assert sum(len(record.text) - 2 for record in scratch.take_deferred("reference")) == 100_000_000
