"""Input that is made to break an import: each is told, and whatever lies beside it is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.exchange.imports.batches import batches
from fhirapp.exchange.imports.records import Record
from tests.exchange.test_references import DOCTOR, NPI
from tests.support.importing import (
    allergy,
    asking,
    bundle,
    current,
    lines,
    load,
    nested,
    patient,
    plain,
    write,
)


@pytest.fixture(scope="module")
def kept(make_app: Callable[..., Flask]) -> Flask:
    """Return one app for the tests that bring records of their own."""
    return make_app(seed=False)


def recorded(resource_id: str, reference: str) -> dict[str, Any]:
    """Return an allergy with a recorder."""
    return allergy(resource_id, recorder={"reference": reference})


def deep(levels: int) -> dict[str, Any]:
    """Return a patient with content so many objects deep."""
    return patient("deep", contained=[nested(levels)])


WAITS = recorded("waits", f"Practitioner?identifier={NPI}|none")
SURROGATE = "\ud800"
BAD: dict[str, Any] = {
    "surrogate in an id": patient(SURROGATE),
    "surrogate in a type": {"resourceType": SURROGATE, "id": "x"},
    "surrogate in a reference": recorded("bad", f"Practitioner/{SURROGATE}"),
    "surrogate in a condition": recorded("bad", f"Practitioner?identifier={SURROGATE}"),
    "surrogate in a urn": recorded("bad", f"urn:uuid:{SURROGATE}"),
    "surrogate in an address": recorded("bad", f"https://{SURROGATE}/fhir/Practitioner/1"),
    "surrogate in a name": {**patient("bad"), SURROGATE: 1},
    "null in a condition": recorded("bad", "Practitioner?identifier=a\0b"),
    "null in a reference": recorded("bad", "Practitioner/a\0b"),
    "many values": recorded(
        "bad", "Practitioner?identifier=" + ",".join(str(one) for one in range(40_000))
    ),
    "many parameters": recorded("bad", "Practitioner?" + "&".join(["identifier=1"] * 2_000)),
    "wrong escapes": recorded("bad", "Practitioner?identifier=%ff%fe%00%zz"),
    "deep": deep(300),
    "very deep": b'{"resourceType":"Patient","id":"deep","contained":' + b"[" * 100_000,
    "id that is a number": {"resourceType": "Patient", "id": 5},
    "id that is an object": {"resourceType": "Patient", "id": {"a": 1}},
    "type that is a list": {"resourceType": ["Patient"], "id": "x"},
    "references of other kinds": {
        **allergy("bad"),
        "recorder": {"reference": 7},
        "asserter": {"reference": ["x"]},
    },
    "history of nothing": bundle("history"),
    "history of text": bundle("history", "text"),
    "history of null": bundle("history", None),
    "history with an address that is no text": bundle("history", {"fullUrl": 7}),
    "history of no object": {"resourceType": "Bundle", "type": "history", "entry": {}},
    "Bundle of text": {"resourceType": "Bundle", "type": "collection", "entry": ["text", None, 7]},
    "Bundle of itself": bundle("collection", plain(bundle("collection", plain({})))),
    "huge number": b'{"resourceType":"Patient","id":"n","multipleBirthInteger":1e999999999}',
    "duplicate key": b'{"resourceType":"Patient","id":"k","gender":"male","gender":"female"}',
    "invalid UTF-8": b'{"resourceType":"Patient","id":"u","language":"\xc3\x28"}',
    "null": b"null",
    "control character": b'{"resourceType":"Patient","id":"c","language":"\x01"}',
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_bad_stops_nothing_wherever_it_stands(kept, tmp_path, name):
    bad = BAD[name]
    before, after = patient("before"), patient("after")
    write(tmp_path, lines(bad, before, after), "first.ndjson")
    write(tmp_path, lines(before, after, bad), "last.ndjson")
    write(tmp_path, lines(before, WAITS, bad, after), "waiting.ndjson")
    read = 6
    if not isinstance(bad, bytes):
        inside = bundle("collection", plain(before), plain(bad), plain(after))
        write(tmp_path, lines(inside), "bundle.ndjson")
        write(tmp_path, json.dumps(inside, indent=1).encode(), "document.json")
        read = 10
    report = load(kept, tmp_path, provenance=False)
    assert report.changes["Patient"].total() >= read
    json.dumps(report.content())


def test_a_truncated_document_is_told_with_its_line(kept, tmp_path):
    content = json.dumps(bundle("collection", plain(patient("cut"))), indent=1)
    for end in range(1, len(content) - 1, 7):
        report = load(kept, write(tmp_path, content[:end].encode()), provenance=False)
        assert report.rejected_lines == 1, content[:end]
        assert report.faults[0].place.startswith(f"{tmp_path}/records.json:")
    assert "cut" not in current(kept, "Patient")


@pytest.mark.parametrize("pretty", [False, True])
@pytest.mark.parametrize("twice", ["type", "entry", "resourceType"])
def test_a_bundle_with_a_member_twice_is_refused_or_read_whole(kept, tmp_path, twice, pretty):
    name = f"twice-{twice}-{pretty}"
    members = [
        ("resourceType", "Bundle"),
        ("type", "collection"),
        ("entry", [plain(patient(f"{name}-1"))]),
        (twice, {"type": "nonsense", "entry": [plain(patient(f"{name}-2"))]}.get(twice, "Patient")),
    ]
    inner = (",\n" if pretty else ",").join(f'"{key}": {json.dumps(one)}' for key, one in members)
    report = load(kept, write(tmp_path, f"{{{inner}}}".encode()))
    found = {one for one in current(kept, "Patient") if one.startswith(name)}
    assert report.rejected_lines == 1 or found == {f"{name}-1", f"{name}-2"}


def test_names_of_members_may_be_escaped(kept, tmp_path):
    content = json.dumps(bundle("collection", plain(patient("escaped"))), indent=1)
    load(kept, write(tmp_path, content.replace('"entry"', '"\\u0065ntry"').encode()))
    assert "escaped" in current(kept, "Patient")


# References in circles, and very many of them.


def test_references_in_circles_and_to_oneself_are_kept(empty, tmp_path):
    contents = [
        {"resourceType": "Organization", "id": "a", "partOf": {"reference": "Organization/b"}},
        {"resourceType": "Organization", "id": "b", "partOf": {"reference": "Organization/a"}},
        {"resourceType": "Organization", "id": "c", "partOf": {"reference": "Organization/c"}},
    ]
    for one in contents:
        one["name"] = "Clinic"
    assert load(empty, write(tmp_path, lines(*contents), "x.ndjson")).complete
    assert asking(empty).read("Organization/c")["partOf"] == {"reference": "Organization/c"}
    inside = bundle(
        "collection",
        plain(recorded("x", "urn:uuid:x"), "urn:uuid:x"),
        plain(recorded("y", "urn:uuid:z"), "urn:uuid:y"),
        plain(recorded("z", "urn:uuid:y"), "urn:uuid:z"),
    )
    load(empty, write(tmp_path, lines(patient("one")), "x.ndjson"))
    assert not load(empty, write(tmp_path, inside)).kept
    found = asking(empty).read("AllergyIntolerance/y")["recorder"]
    assert found == {"reference": "AllergyIntolerance/z"}


def test_conditions_in_circles_wait_for_each_other_no_longer_than_the_import(empty, tmp_path):
    def clinic(name: str, of: str) -> dict[str, Any]:
        return {
            "resourceType": "Organization",
            "id": name,
            "name": "Clinic",
            "identifier": [{"system": "urn:x", "value": name}],
            "partOf": {"reference": f"Organization?identifier=urn:x|{of}"},
        }

    path = write(tmp_path, lines(clinic("a", "b"), clinic("b", "a"), clinic("c", "c")), "x.ndjson")
    report = load(empty, path)
    assert current(empty, "Organization") == ["a", "b", "c"]
    # Where nobody can be first, the last round knows at least those of an earlier batch.
    load(empty, path)
    assert not load(empty, path).kept
    assert report.complete
    assert asking(empty).read("Organization/c")["partOf"] == {"reference": "Organization/c"}


def test_ten_thousand_that_wait_are_published_when_the_one_comes(empty, tmp_path):
    condition = f"Practitioner?identifier={NPI}|1"
    waiting = [recorded(f"w{number}", condition) for number in range(10_000)]
    write(tmp_path, lines(*waiting), "a.ndjson")
    write(tmp_path, lines(patient("one"), DOCTOR), "b/b.ndjson")
    report = load(empty, tmp_path / "a.ndjson", tmp_path / "b", provenance=False)
    assert not report.kept
    assert report.changes["AllergyIntolerance"] == {"new": 10_000}
    found = asking(empty).read("AllergyIntolerance?recorder=Practitioner/dr&_summary=count")
    assert found["total"] == 10_000


def test_a_chain_of_conditions_is_resolved_to_its_end(empty, tmp_path):
    def clinic(number: int) -> dict[str, Any]:
        return {
            "resourceType": "Organization",
            "id": f"o{number}",
            "name": "Clinic",
            "identifier": [{"system": "urn:x", "value": str(number)}],
            "partOf": {"reference": f"Organization?identifier=urn:x|{number + 1}"},
        }

    chain = [clinic(number) for number in range(20)]
    del chain[-1]["partOf"]
    report = load(empty, write(tmp_path, lines(*chain), "x.ndjson"))
    assert not report.kept
    assert asking(empty).read("Organization/o3")["partOf"] == {"reference": "Organization/o4"}


@pytest.mark.parametrize("same", [True, False])
def test_a_condition_that_finds_two_is_kept_and_listed(empty, tmp_path, same):
    two = [patient("p1", "1"), patient("p2", "1")]
    path = write(tmp_path, lines(*two, allergy("a", of="Patient?identifier=urn:mrn|1")), "x.ndjson")
    if not same:
        load(empty, write(tmp_path, lines(*two), "first.ndjson"))
    report = load(empty, path)
    assert report.kept == {"Patient?identifier=urn:mrn|1": "Patient: more than one matches"}
    assert asking(empty).ids("AllergyIntolerance?patient=p1") == []


# Memory.


def test_a_batch_is_bounded_by_what_its_units_hold():
    """A row of a table is short; the file that it names is not."""
    large = {"resourceType": "Binary", "id": "x", "data": "A" * 4_000_000}
    found = [
        *batches(Record("x.csv:2", b"row", dict(large), table_kind="documents") for _ in range(20))
    ]
    assert len(found) > 2
