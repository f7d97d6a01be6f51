"""Named sources: deletion of what one lacks, the source of an id, id prefixes, base addresses."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fhirapp.features.imports.sources import ANOTHER_SOURCE
from tests.support.bundles import asked, bundle, history, plain, put
from tests.support.importing import asking, interrupted_import, lines, load, write
from tests.support.records import (
    URN,
    UUID,
    allergy,
    binary,
    document,
    inline,
    patient,
    practitioner,
)
from tests.support.stored import current, stored, versions

FOREIGN = "is known from another source, with other content"
SOURCE_BASE = "https://s.example/fhir/"


def note(resource_id: str, words: str) -> dict[str, Any]:
    """Return a document of nobody with its bytes inline."""
    return document(resource_id, inline(words), of="")


# Deletion of what a source lacks


def test_records_that_a_source_lacks_are_deleted_with_their_bytes(take, empty):
    take(allergy("unnamed"), note("unnamed-d", "unnamed"))
    take(allergy("other", "Patient/two"), note("other-d", "other"), source="other")
    take(patient("one"), allergy("a"), allergy("b"), note("d", "words"), source="s")
    report = take(patient("one"), allergy("a"), source="s", delete_missing=True)
    assert report.complete
    assert {name: counts["deleted"] for name, counts in report.changes.items()} == {
        "Patient": 0,
        "AllergyIntolerance": 1,
        "DocumentReference": 1,
        "Binary": 1,
    }
    assert current(empty, "AllergyIntolerance") == ["a", "other", "unnamed"]
    assert current(empty, "DocumentReference") == ["other-d", "unnamed-d"]
    assert len(current(empty, "Binary")) == 2
    assert asking(empty).get("AllergyIntolerance/b").status_code == 410
    before = stored(empty)
    take(patient("one"), allergy("a"), source="s", delete_missing=True)
    assert stored(empty) == before
    # A record that returns gets its next version.
    take(patient("one"), allergy("a"), allergy("b"), source="s", delete_missing=True)
    found = [row[2:] for row in versions(empty, "AllergyIntolerance") if row[1] == "b"]
    assert found == [(1, False), (2, True), (3, False)]


def test_nothing_is_deleted_if_every_record_is_present(take, empty):
    """Neither bytes of documents, nor Provenance, nor the match of a conditional creation."""

    def visit(number: int) -> dict[str, Any]:
        address, condition = f"{URN}{number:02}", "identifier=urn:mrn|1"
        created = asked("POST", "Patient", patient(mrn="1"), address, ifNoneExist=condition)
        return bundle("transaction", created, put(allergy("visit", of=address)))

    contents = [
        patient("one"),
        *(allergy(f"a{number}") for number in range(3)),
        note("d", "words"),
        bundle("collection", plain(patient("in-bundle")), plain(note("e", "more"))),
        history(note("h", "history")),
    ]
    take(*contents, visit(1), source="s")
    provenance = versions(empty, "Provenance")
    before = stored(empty)
    report = take(*contents, visit(2), source="s", delete_missing=True)
    assert report.complete
    assert not any(counts["deleted"] for counts in report.changes.values())
    assert stored(empty) == before
    assert versions(empty, "Provenance") == provenance


def test_nothing_is_deleted_where_a_record_was_rejected_or_the_input_is_empty(take, empty):
    take(allergy("a"), allergy("b"), source="s")
    # An export that failed looks like the last two.
    for contents in ([allergy("a"), b"{"], [], [{"resourceType": "Basic", "id": "x"}]):
        report = take(*contents, source="s", delete_missing=True)
        assert "Nothing was" in report.notes[0]
        assert report.complete is False or not contents
        assert current(empty, "AllergyIntolerance") == ["a", "b"]


def test_most_of_a_source_is_deleted_with_force_only(take, empty):
    many = [allergy(f"a{number:02}") for number in range(30)]
    take(*many, source="s")
    report = take(*many[:10], source="s", delete_missing=True)
    assert "20 of the 30 resources of 's' are missing" in report.notes[0]
    assert "--force" in report.notes[0]
    assert not report.complete
    assert len(current(empty, "AllergyIntolerance")) == 30
    assert take(*many[:10], source="s", delete_missing=True, force=True).complete
    assert len(current(empty, "AllergyIntolerance")) == 10
    assert take(*many[:6], source="s", delete_missing=True).complete


def test_records_that_wait_or_return_to_older_content_are_not_deleted(take, empty):
    waits = allergy("w", recorder={"reference": "Practitioner?identifier=urn:x|none"})
    for criticality in ("low", "high"):
        take(waits, allergy("a", criticality=criticality), source="s")
    take(waits, allergy("a", criticality="low"), source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["a", "w"]


# The source of an id


def test_id_of_two_sources_is_rejected_where_the_content_differs(take, empty):
    take(patient("one"), allergy("a"), source="s")
    report = take(patient("one", gender="female"), allergy("a"), source="other")
    first, second = report.faults
    assert (first.path, first.message[: len(FOREIGN)]) == ("Patient.id", FOREIGN)
    assert "--id-prefix" in first.message
    # The same allergy too: whose it is there is not known.
    assert (second.path, second.message) == ("", f"Patient/one {ANOTHER_SOURCE}")
    assert report.rejected_lines == 2
    assert len(versions(empty)) == 2
    # What both have alike stays with the first.
    take(patient("one"), source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == []


def test_older_content_of_another_source_is_rejected(take, empty):
    made = {letter: allergy("a", note=[{"text": letter}]) for letter in "ABC"}
    for letter in "ABC":
        take(patient("one"), made[letter], source="s")
    for letters in ("BA", "A", "ABA"):
        contents = [made[letter] for letter in letters]
        report = take(patient("one"), *contents, source="other")
        assert {fault.message[: len(FOREIGN)] for fault in report.faults} == {FOREIGN}
        assert report.rejected_lines == len(letters)
    assert len(versions(empty, "AllergyIntolerance")) == 3


def test_deletion_that_waited_and_is_rejected_is_kept_as_it_came(take, tmp_path):
    take(allergy("x-a", "Patient/x-one"), source="s")
    waits = allergy("a", type="allergy", recorder={"reference": "Practitioner?identifier=urn:x|1"})
    gone = asked("DELETE", "AllergyIntolerance/a")
    rejected = tmp_path / "rejected.ndjson"
    contents = bundle("transaction", put(waits), gone)
    report = take(contents, source="other", prefix="x-", rejected=rejected)
    assert report.rejected_lines == 2
    assert [json.loads(line)["entry"] for line in rejected.read_text().splitlines()] == [
        [put(waits)],
        [gone],
    ]


def test_bytes_of_a_rejected_document_are_not_stored(take, empty):
    take(note("d", "ours"), source="s")
    assert take(note("d", "theirs"), source="other").rejected_lines == 1
    assert len(current(empty, "Binary")) == 1


def test_id_that_one_source_deleted_is_free_for_another(take, empty):
    others = allergy("b", "Patient/two")
    take(allergy("a"), others, source="s")
    take(others, source="s", delete_missing=True)
    assert take(allergy("a", criticality="low"), source="other").complete
    assert current(empty, "AllergyIntolerance") == ["a", "b"]


def test_deletion_by_another_source_is_rejected(take, empty):
    take(allergy("a"), source="s")
    gone = bundle("batch", asked("DELETE", "AllergyIntolerance/a"))
    assert not take(gone, source="other").complete
    assert current(empty, "AllergyIntolerance") == ["a"]


def test_records_without_a_source_are_adopted_with_their_bytes(take, empty):
    contents = [patient("one"), allergy("a"), note("d", "words")]
    take(*contents)
    report = take(*contents, source="s")
    assert {outcome for counts in report.changes.values() for outcome in counts} == {"same"}
    assert len(versions(empty)) == 4
    take(patient("one"), source="s", delete_missing=True)
    assert current(empty, "DocumentReference") == current(empty, "Binary") == []


def test_records_keep_their_source_where_none_is_named(take, empty):
    take(allergy("a"), allergy("b"), source="s")
    take(allergy("a", criticality="low"))
    assert take(allergy("a", criticality="high"), source="other").rejected_lines == 1
    take(allergy("b"), source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["b"]


def test_records_of_an_interrupted_import_have_its_source(empty, tmp_path):
    path = write(tmp_path, lines(patient("one"), allergy("a"), allergy("b")), "x.ndjson")
    interrupted_import(empty, path, source="s")
    load(empty, path, source="s")
    write(tmp_path, lines(patient("one"), allergy("a")), "x.ndjson")
    load(empty, path, source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["a"]


# Prefixes of ids


def test_prefix_is_added_to_ids_and_references(take, empty):
    role = {"resourceType": "PractitionerRole", "id": "role"}
    contents = [
        patient("one"),
        allergy(
            "a",
            recorder={"reference": f"{SOURCE_BASE}Practitioner/dr"},
            encounter={"reference": "Encounter/e/_history/2"},
            asserter={"reference": "#inside"},
            contained=[
                {"resourceType": "Practitioner", "id": "inside"},
                {**role, "organization": {"reference": "Organization/o"}},
            ],
        ),
        document("d", {"url": "Binary/bytes"}, of=""),
        binary("bytes"),
    ]
    options = {"prefix": "n-", "bases": [SOURCE_BASE]}
    assert take(*contents, **options).complete
    found = asking(empty).read("AllergyIntolerance/n-a")
    assert found["patient"]["reference"] == "Patient/n-one"
    assert found["recorder"]["reference"] == "Practitioner/n-dr"
    assert found["encounter"]["reference"] == "Encounter/n-e/_history/2"
    assert found["asserter"]["reference"] == "#inside"
    assert found["contained"][1]["organization"]["reference"] == "Organization/n-o"
    attachment = asking(empty).read("DocumentReference/n-d")["content"][0]["attachment"]
    assert attachment["url"].endswith("/Binary/n-bytes")
    assert attachment["data"] == "QUJD"
    before = stored(empty)
    take(*contents, **options)
    assert stored(empty) == before


@pytest.mark.parametrize("of", [f"{URN}01", "Patient/own", f"{SOURCE_BASE}Patient/own"])
def test_prefix_is_added_to_ids_within_a_bundle(take, empty, of):
    own_id = "own" if "own" in of else None
    address = of if ":" in of else f"{SOURCE_BASE}Patient/own"
    contents = bundle(
        "collection", plain(allergy("a", of=of), f"{URN}02"), plain(patient(own_id), address)
    )
    assert take(contents, prefix="n-").complete
    expected = f"n-{own_id or UUID + '01'}"
    assert current(empty, "Patient") == [expected]
    assert asking(empty).ids(f"AllergyIntolerance?patient={expected}") == ["n-a"]


def test_prefix_is_added_once_to_deferred_records_and_conditional_matches(take, empty):
    recorder = {"reference": "Practitioner?identifier=urn:doctor|1"}
    known = asked("PUT", "Patient?identifier=urn:mrn|1", patient(mrn="1"), f"{URN}03")
    gone = asked("DELETE", "AllergyIntolerance/gone")
    contents = [
        allergy("w", recorder=recorder),
        bundle("transaction", known, gone),
        allergy("gone"),
        practitioner("dr"),
    ]
    for _ in range(2):
        assert take(*contents, prefix="n-").complete
        assert current(empty, "Practitioner") == ["n-dr"]
        assert current(empty, "Patient") == [f"n-{UUID}03"]
        assert current(empty, "AllergyIntolerance") == ["n-gone", "n-w"]
        found = asking(empty).read("AllergyIntolerance/n-w")["recorder"]["reference"]
        assert found == "Practitioner/n-dr"
    take(bundle("batch", gone), prefix="n-")
    assert current(empty, "AllergyIntolerance") == ["n-w"]


def test_prefix_separates_the_same_ids_of_two_sources(take, empty):
    take(patient("one"), allergy("a"), source="s")
    take(patient("one", gender="male"), allergy("a"), source="other", prefix="other-")
    assert current(empty, "Patient") == ["one", "other-one"]
    assert asking(empty).ids("AllergyIntolerance?patient=other-one") == ["other-a"]


def test_history_or_id_that_cannot_have_the_prefix_is_rejected(take, empty):
    report = take(patient("x" * 60), history(patient("p")), prefix="eight-12")
    assert report.faults[0].path == "Patient.id"
    assert report.rejected_lines == 2
    assert current(empty, "Patient") == []


# Base addresses of the source


def test_references_to_a_base_of_the_source_become_local(take, empty):
    expected = {
        f"{SOURCE_BASE}Patient/one": "Patient/one",
        f"{SOURCE_BASE}Patient/one/_history/2": "Patient/one/_history/2",
        "https://fhir.example/fhir/Patient/one": "Patient/one",
        "https://s.example/fhir-x/Patient/one": None,
        "https://s.example/Patient/one": None,
        "http://s.example/fhir/Patient/one": None,
    }
    records = [allergy(f"a{place}", of=reference) for place, reference in enumerate(expected)]
    report = take(patient("one"), *records, bases=[SOURCE_BASE])
    for place, (reference, target) in enumerate(expected.items()):
        found = asking(empty).read(f"AllergyIntolerance/a{place}")["patient"]["reference"]
        assert found == (target or reference)
    assert {*report.kept} == {of for of, target in expected.items() if target is None}


def test_attachment_at_a_base_of_the_source_has_local_bytes(take, empty):
    elsewhere = {"url": "https://x.y/z"}
    carrier = document("d", {"url": f"{SOURCE_BASE}Binary/bytes"}, elsewhere, of="")
    report = take(carrier, binary("bytes"), bases=[SOURCE_BASE])
    assert report.kept == {"https://x.y/z": "leads to another server"}
    found = asking(empty).read("DocumentReference/d")["content"]
    assert found[0]["attachment"]["data"] == "QUJD"
    assert found[1]["attachment"]["url"] == "https://x.y/z"
