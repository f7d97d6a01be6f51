"""Records of named sources: what is missing, whose an id is, prefixes and addresses."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from fhirapp.exchange.imports.references import ANOTHER_SOURCE
from tests.support.importing import (
    URN,
    UUID,
    allergy,
    asked,
    asking,
    bundle,
    current,
    lines,
    load,
    patient,
    plain,
    put,
    stored,
    versions,
    write,
)
from tests.support.repeated_imports import begin

NOTHING = "Nothing was deleted"
FOREIGN = (
    "is known from another source, with other content; give the ids of one of them a prefix "
    "(--id-prefix), or import both under one name (--source)"
)


def document(resource_id: str, words: bytes) -> dict[str, Any]:
    """Return a document with its bytes inline."""
    data = base64.b64encode(words).decode()
    return {
        "resourceType": "DocumentReference",
        "id": resource_id,
        "status": "current",
        "content": [{"attachment": {"contentType": "text/plain", "data": data}}],
    }


# What is missing.


def test_what_a_source_holds_no_more_is_deleted_with_its_bytes(take, empty):
    take(allergy("unnamed"), document("unnamed-d", b"unnamed"))
    take(allergy("other", "Patient/two"), document("other-d", b"other"), source="other")
    take(patient("one"), allergy("a"), allergy("b"), document("d", b"words"), source="s")
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


def test_what_comes_again_after_it_was_missing_is_there_again(take, empty):
    take(allergy("a"), allergy("b"), source="s")
    take(allergy("a"), source="s", delete_missing=True)
    take(allergy("a"), allergy("b"), source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["a", "b"]
    assert [one[2:] for one in versions(empty, "AllergyIntolerance") if one[1] == "b"] == [
        (1, False),
        (2, True),
        (3, False),
    ]


def test_nothing_else_is_missing_where_all_of_it_came(take, empty):
    """Neither the bytes of documents, nor what tells of the import itself."""
    contents = [
        patient("one"),
        *(allergy(f"a{number}") for number in range(3)),
        document("d", b"words"),
        bundle("collection", plain(patient("in-bundle")), plain(document("e", b"more"))),
    ]
    take(*contents, source="s")
    provenance = versions(empty, "Provenance")
    before = stored(empty)
    report = take(*contents, source="s", delete_missing=True)
    assert report.complete
    assert not any(counts["deleted"] for counts in report.changes.values())
    assert stored(empty) == before
    assert versions(empty, "Provenance") == provenance


def test_the_one_that_a_creation_finds_is_not_missing(take, empty):
    def visit(number: int) -> dict[str, Any]:
        """Return what is sent of the same patient each time, with an address of its own."""
        condition = "identifier=urn:mrn|1"
        address = f"{URN}{number:02}"
        created = asked("POST", "Patient", patient(mrn="1"), address, ifNoneExist=condition)
        return bundle("transaction", created, put(allergy("a", of=address)))

    take(visit(1), source="s")
    report = take(visit(2), source="s", delete_missing=True)
    assert report.complete
    assert current(empty, "Patient") == [f"{UUID}01"]
    assert current(empty, "AllergyIntolerance") == ["a"]


def test_the_bytes_of_a_history_are_not_missing(take, empty):
    moment = "2026-01-01T00:00:00.000+00:00"
    resource = {**document("d", b"words"), "meta": {"versionId": "1", "lastUpdated": moment}}
    entry = asked("PUT", "DocumentReference/d", resource)
    report = take(bundle("history", entry), source="s", delete_missing=True)
    assert report.complete
    assert len(current(empty, "Binary")) == 1


def test_nothing_is_deleted_where_something_was_refused(take, empty):
    take(allergy("a"), allergy("b"), source="s")
    report = take(allergy("a"), b"{", source="s", delete_missing=True)
    (note,) = report.notes
    assert note == (
        f"{NOTHING}: the rejected records may be those that are missing. Correct them, and import "
        "everything again."
    )
    assert not report.complete
    assert current(empty, "AllergyIntolerance") == ["a", "b"]


def test_most_of_a_source_is_deleted_by_force_alone(take, empty):
    many = [allergy(f"a{number:02}") for number in range(30)]
    take(*many, source="s")
    report = take(*many[:10], source="s", delete_missing=True)
    assert report.notes == [
        f"{NOTHING}: 20 of the 30 resources of 's' are missing. With --force they are deleted."
    ]
    assert not report.complete
    assert len(current(empty, "AllergyIntolerance")) == 30
    assert take(*many[:10], source="s", delete_missing=True, force=True).complete
    assert len(current(empty, "AllergyIntolerance")) == 10
    assert take(*many[:6], source="s", delete_missing=True).complete


@pytest.mark.parametrize("contents", [[], [{"resourceType": "Basic", "id": "x"}]])
def test_an_input_that_holds_nothing_deletes_nothing(take, empty, contents):
    """An export that failed looks like this."""
    take(allergy("a"), allergy("b"), source="s")
    report = take(*contents, source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["a", "b"]
    assert report.notes


def test_what_waits_or_came_earlier_is_not_missing(take, empty):
    waits = allergy("w", recorder={"reference": "Practitioner?identifier=urn:x|none"})
    take(waits, allergy("a", criticality="low"), source="s")
    take(waits, allergy("a", criticality="high"), source="s")
    take(waits, allergy("a", criticality="low"), source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["a", "w"]


# Whose an id is.


def test_an_id_of_two_sources_is_refused_where_the_content_differs(take, empty):
    take(patient("one"), allergy("a"), source="s")
    report = take(patient("one", gender="female"), allergy("a"), source="other")
    # The same allergy too: whose it is there is not known.
    assert [(one.path, one.message) for one in report.faults] == [
        ("Patient.id", FOREIGN),
        ("", f"Patient/one {ANOTHER_SOURCE}"),
    ]
    assert report.rejected_lines == 2
    assert len(versions(empty)) == 2
    # What both have alike stays with the first.
    take(patient("one"), source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == []


@pytest.mark.parametrize("contents", [["B", "A"], ["A"], ["A", "B", "A"]])
def test_older_content_of_another_source_is_refused_too(take, empty, contents):
    made = {name: allergy("a", note=[{"text": name}]) for name in "ABC"}
    for name in "ABC":
        take(made[name], source="s")
    report = take(*(made[name] for name in contents), source="other")
    assert {one.message for one in report.faults} == {FOREIGN}
    assert report.rejected_lines == len(contents)
    assert not report.complete
    assert len(versions(empty, "AllergyIntolerance")) == 3


def test_the_bytes_of_a_document_that_is_refused_are_not_kept(take, empty):
    take(document("d", b"ours"), source="s")
    report = take(document("d", b"theirs"), source="other")
    assert {one.message for one in report.faults} == {FOREIGN}
    assert len(current(empty, "Binary")) == 1


def test_what_one_source_deleted_another_may_have(take, empty):
    others = allergy("b", "Patient/two")
    take(allergy("a"), others, source="s")
    take(others, source="s", delete_missing=True)
    assert take(allergy("a", criticality="low"), source="other").complete
    assert current(empty, "AllergyIntolerance") == ["a", "b"]


def test_a_deletion_by_another_source_is_refused(take, empty):
    take(allergy("a"), source="s")
    report = take(bundle("batch", asked("DELETE", "AllergyIntolerance/a")), source="other")
    assert not report.complete
    assert current(empty, "AllergyIntolerance") == ["a"]


def test_unnamed_records_are_adopted_with_their_bytes(take, empty):
    contents = [patient("one"), allergy("a"), document("d", b"words")]
    take(*contents)
    assert {name: {*counts} for name, counts in take(*contents, source="s").changes.items()} == {
        "Patient": {"same"},
        "AllergyIntolerance": {"same"},
        "DocumentReference": {"same"},
    }
    assert len(versions(empty)) == 4
    take(patient("one"), source="s", delete_missing=True)
    assert [*map(len, (current(empty, "DocumentReference"), current(empty, "Binary")))] == [0, 0]


def test_records_keep_their_source_where_none_is_named(take, empty):
    take(allergy("a"), allergy("b"), source="s")
    take(allergy("a", criticality="low"))
    assert take(allergy("a", criticality="high"), source="other").rejected_lines == 1
    take(allergy("b"), source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["b"]


def test_a_killed_run_is_completed_with_its_source(empty, tmp_path):
    path = write(tmp_path, lines(patient("one"), allergy("a"), allergy("b")), "x.ndjson")
    begin(empty, path, source="s")
    load(empty, path, source="s")
    write(tmp_path, lines(patient("one"), allergy("a")), "x.ndjson")
    load(empty, path, source="s", delete_missing=True)
    assert current(empty, "AllergyIntolerance") == ["a"]
