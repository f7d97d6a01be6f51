"""Input that is made to break an import: each fault is reported, and the rest is imported."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fhirapp.definition import types
from fhirapp.features.imports.batches import Admitted, Batch
from fhirapp.features.imports.records import ImportRecord
from fhirapp.store.prepare import deletion
from tests.support.bundles import bundle, plain
from tests.support.importing import asking, lines, load, write
from tests.support.records import allergy, nested, organization, patient, practitioner
from tests.support.stored import current

SURROGATE = "\ud800"
BY_NUMBER = "Practitioner?identifier=urn:doctor|"


def recorded(resource_id: str, reference: Any) -> dict[str, Any]:
    """Return an allergy with a recorder."""
    return allergy(resource_id, recorder={"reference": reference})


BAD: list[Any] = [
    patient(SURROGATE),
    {"resourceType": SURROGATE, "id": "x"},
    recorded("bad", f"Practitioner/{SURROGATE}"),
    recorded("bad", f"Practitioner?identifier={SURROGATE}"),
    recorded("bad", f"urn:uuid:{SURROGATE}"),
    recorded("bad", f"https://{SURROGATE}/fhir/Practitioner/1"),
    {**patient("bad"), SURROGATE: 1},
    recorded("bad", "Practitioner?identifier=a\0b"),
    recorded("bad", "Practitioner/a\0b"),
    recorded("bad", "Practitioner?identifier=" + ",".join(map(str, range(40_000)))),
    recorded("bad", "Practitioner?" + "&".join(["identifier=1"] * 2_000)),
    recorded("bad", "Practitioner?identifier=%ff%fe%00%zz"),
    patient("deep", contained=[nested(300)]),
    b'{"resourceType":"Patient","id":"deep","contained":' + b"[" * 100_000,
    {"resourceType": "Patient", "id": 5},
    {"resourceType": "Patient", "id": {"a": 1}},
    {"resourceType": ["Patient"], "id": "x"},
    allergy("bad", recorder={"reference": 7}, asserter={"reference": ["x"]}),
    bundle("history"),
    bundle("history", "text"),
    bundle("history", None),
    bundle("history", {"fullUrl": 7}),
    {"resourceType": "Bundle", "type": "history", "entry": {}},
    {"resourceType": "Bundle", "type": "collection", "entry": ["text", None, 7]},
    bundle("collection", plain(bundle("collection", plain({})))),
    b'{"resourceType":"Patient","id":"n","multipleBirthInteger":1e999999999}',
    b'{"resourceType":"Patient","id":"k","gender":"male","gender":"female"}',
    b'{"resourceType":"Patient","id":"u","language":"\xc3\x28"}',
    b"null",
    b'{"resourceType":"Patient","id":"c","language":"\x01"}',
]


@pytest.mark.parametrize("bad", BAD, ids=range(len(BAD)))
def test_bad_record_does_not_stop_the_records_around_it(module_app, tmp_path, bad):
    before, after = patient("before"), patient("after")
    write(tmp_path, lines(bad, before, after), "first.ndjson")
    write(tmp_path, lines(before, after, bad), "last.ndjson")
    write(
        tmp_path, lines(before, recorded("waits", f"{BY_NUMBER}none"), bad, after), "waits.ndjson"
    )
    read = 6
    if not isinstance(bad, bytes):
        inside = bundle("collection", plain(before), plain(bad), plain(after))
        write(tmp_path, lines(inside), "bundle.ndjson")
        write(tmp_path, json.dumps(inside, indent=1).encode(), "document.json")
        read = 10
    report = load(module_app, tmp_path, provenance=False)
    assert report.changes["Patient"].total() >= read
    json.dumps(report.content())


def test_truncated_document_is_rejected_with_its_line(empty, tmp_path):
    content = json.dumps(bundle("collection", plain(patient("cut"))), indent=1)
    ends = range(1, len(content) - 1, 7)
    for end in ends:
        write(tmp_path, content[:end].encode(), f"{end}.json")
    report = load(empty, tmp_path)
    assert report.rejected_lines == len(ends)
    assert {fault.place.rpartition(":")[0] for fault in report.faults} == {
        f"{tmp_path}/{end}.json" for end in ends
    }
    assert current(empty, "Patient") == []


def test_bundle_with_a_member_twice_is_rejected_or_imported_whole(module_app, import_file):
    for name in ("type", "entry", "resourceType"):
        for separator in (",", ",\n"):
            start = f"twice-{name}-{len(separator)}"
            other = {"type": "nonsense", "entry": [plain(patient(f"{start}-2"))]}
            members = [
                ("resourceType", "Bundle"),
                ("type", "collection"),
                ("entry", [plain(patient(f"{start}-1"))]),
                (name, other.get(name, "Patient")),
            ]
            content = separator.join(f'"{key}": {json.dumps(value)}' for key, value in members)
            report = import_file(f"{{{content}}}".encode())
            found = {own_id for own_id in current(module_app, "Patient") if start in own_id}
            assert report.rejected_lines == 1 or found == {f"{start}-1", f"{start}-2"}


# References in circles and chains, and very many of them


def part_of(resource_id: str, reference: str) -> dict[str, Any]:
    return organization(resource_id, resource_id, partOf={"reference": reference})


def test_references_in_circles_and_to_oneself_are_kept(take, empty):
    a, b, c = (part_of(of, f"Organization/{to}") for of, to in ("ab", "ba", "cc"))
    assert take(a, b, c).complete
    assert asking(empty).read("Organization/c")["partOf"] == {"reference": "Organization/c"}
    inside = bundle(
        "collection",
        *(plain(recorded(of, f"urn:uuid:{to}"), f"urn:uuid:{of}") for of, to in ("xx", "yz", "zy")),
    )
    take(patient("one"))
    assert not take(inside).kept
    found = asking(empty).read("AllergyIntolerance/y")["recorder"]
    assert found == {"reference": "AllergyIntolerance/z"}


def test_conditional_references_in_circles_are_resolved_by_the_second_import(take, empty):
    by_number = "Organization?identifier=urn:clinic|"
    clinics = [part_of(of, f"{by_number}{to}") for of, to in ("ab", "ba", "cc")]
    report = take(*clinics)
    assert report.complete
    assert current(empty, "Organization") == ["a", "b", "c"]
    take(*clinics)
    assert not take(*clinics).kept
    assert asking(empty).read("Organization/c")["partOf"] == {"reference": "Organization/c"}


def test_chain_of_conditional_references_is_resolved_to_its_end(take, empty):
    by_number = "Organization?identifier=urn:clinic|o"
    chain = [part_of(f"o{number}", f"{by_number}{number + 1}") for number in range(20)]
    del chain[-1]["partOf"]
    assert not take(*chain).kept
    assert asking(empty).read("Organization/o3")["partOf"] == {"reference": "Organization/o4"}


@pytest.mark.parametrize("count", [600, pytest.param(10_000, marks=pytest.mark.campaign)])
def test_records_that_wait_for_one_are_published_when_it_comes(
    empty, tmp_path, count, small_batches
):
    small_batches(count // 6)
    waiting = [recorded(f"w{number}", f"{BY_NUMBER}1") for number in range(count)]
    first = write(tmp_path, lines(*waiting), "a.ndjson")
    write(tmp_path, lines(patient("one"), practitioner("dr")), "b/b.ndjson")
    report = load(empty, first, tmp_path / "b", provenance=False)
    assert not report.kept
    assert report.changes["AllergyIntolerance"] == {"new": count}
    found = asking(empty).read("AllergyIntolerance?recorder=Practitioner/dr&_summary=count")
    assert found["total"] == count


def test_batch_is_bounded_by_the_bytes_of_its_records(empty):
    """A row of a table is short; the file that it names is not."""
    sizes: list[int] = []
    batch = Batch(lambda admitted, _snapshot: sizes.append(len(admitted)))
    record = ImportRecord("x.csv:2", b"row", table_kind="documents", content=b"A" * 500_000)
    with empty.app_context():
        for number in range(20):
            batch.add(Admitted(record, deletion(types()["Binary"], f"b{number}")))
    assert sizes == [4] * 5
