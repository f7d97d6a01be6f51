"""The stage of an import: groups of one resource, addresses, rejections, and a full disk."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.features.imports import staging
from fhirapp.features.imports.bundles import OnMatch
from fhirapp.features.imports.records import ImportRecord, Rejection
from fhirapp.features.imports.staging import Stage

Add = Callable[..., None]


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """The stage of one import."""
    with Stage(tmp_path) as made:
        yield made


@pytest.fixture
def add(stage: Stage) -> Add:
    """Return a function that stages a record of a patient, or the deletion of one."""

    def stage_one(own_id: str, place: str, kind: str = staging.RESOURCE, **details: object) -> None:
        text = json.dumps({"resourceType": "Patient", "id": own_id}).encode()
        record = ImportRecord(place, text, **details)  # type: ignore[arg-type]
        content = None if kind == staging.DELETION else text
        stage.add(kind, f"Patient/{own_id}", record, content)

    return stage_one


def places(groups: Iterator[staging.Group]) -> list[str]:
    """Return the places of the records of each group."""
    return ["".join(record.place for record in group) for group in groups]


def test_records_of_one_resource_form_a_group_in_their_order(stage, add):
    for own_id, place in ("b1", "a2", "b3", "c4", "a5"):
        add(own_id, place)
    stage.arrange()
    assert places(stage.groups("Patient")) == ["13", "25", "4"]
    assert stage.types() == {"Patient"}
    assert stage.has("Patient/c")
    assert not stage.has("Patient/d")


def test_group_that_ends_in_a_deletion_is_a_deletion(stage, add):
    add("a", "1")
    add("a", "2", staging.DELETION)
    add("b", "3", staging.DELETION)
    add("b", "4")
    # What a history holds comes before the deletion.
    add("c", "5", staging.HISTORY)
    add("c", "6", staging.DELETION)
    stage.arrange()
    assert places(stage.deletions("Patient")) == ["12"]
    assert places(stage.groups("Patient")) == ["34", "56"]


def test_conditional_updates_form_a_group_and_conditional_creations_none(stage, add):
    add("a", "1")
    for own_id, place in (("b", "2"), ("c", "3")):
        add(own_id, place, condition="Patient?identifier=1")
    for place in ("4", "5"):
        add("a", place, condition="Patient?identifier=1", on_match=OnMatch.SKIP)
    add("a", "6", condition="Patient?identifier=1", on_match=OnMatch.SKIP, is_converted=True)
    stage.arrange()
    assert places(stage.groups("Patient")) == ["16", "23", "4", "5"]


def test_staged_record_is_returned_as_it_was(stage):
    text = b'{"resourceType":"Patient","id":"a"}'
    record = ImportRecord(
        "x.ndjson:1",
        text,
        container=3,
        condition="Patient?identifier=1",
        on_match=OnMatch.SKIP_OTHER,
        table_kind="allergies",
        heading=b"id",
        defaults=frozenset({"code", "type"}),
    )
    stage.add(staging.RESOURCE, "Patient/a", record, b'{"resourceType":"Patient","id":"b"}')
    stage.arrange()
    ((found,),) = [[*group] for group in stage.groups("Patient")]
    assert found == record._replace(
        number=1, group_number=1, content=found.content, resource=json.loads(found.content)
    )
    assert found.resource["id"] == "b"
    assert [*stage.group("Patient", found.group_number)] == [found]


def test_rejections_are_returned_in_the_order_of_their_records(stage, add):
    add("a", "1")
    for number, line in ((0, b"second"), (1, b"first"), (0, b"third")):
        stage.reject(number, Rejection("x", "Patient", [("id", "x")], False, line, "", b""))
    found = [*stage.rejections()]
    assert [rejection.line for rejection in found] == [b"first", b"second", b"third"]
    assert found[0].faults == [("id", "x")]


def test_address_leads_to_its_first_entry_in_its_own_bundle(stage):
    first, second = stage.new_container(), stage.new_container()
    stage.add_address(first, "urn:a", "Patient/1", "")
    stage.add_address(first, "urn:a", "Patient/2", "")
    stage.add_address(second, "urn:a", "Patient/3", "Patient?_id=3")
    assert stage.target(first, "urn:a") == ("Patient/1", "")
    assert stage.target(second, "urn:a") == ("Patient/3", "Patient?_id=3")
    assert stage.target(first, "urn:b") is None


def test_records_and_what_was_seen_are_not_missing(stage, add):
    add("a", "1")
    for name in ("Patient/b", "Binary/c"):
        stage.add_present(name)
    assert stage.absent("Patient", ["c", "b", "a", "d"]) == ["c", "d"]


def test_stage_that_the_disk_has_no_room_for_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(staging, "_SPARE_BYTES", 10**18)
    text = b"x" * 1_000_000
    with Stage(tmp_path) as stage:
        with pytest.raises(ConfigurationError, match="There is no room on the disk"):
            stage.need_room(1)
        with pytest.raises(ConfigurationError, match=r"There is no room .* Nothing was imported"):
            stage.add(staging.RESOURCE, "Patient/a", ImportRecord("x", text), text)
