"""Imports of histories: restored as they were, continued, and rejected where they do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.bundles import history
from tests.support.contract import delete, publish
from tests.support.exporting import export
from tests.support.importing import asking, load, write
from tests.support.records import allergy, binary, document, patient
from tests.support.stored import bodies, current

ALLERGY = "AllergyIntolerance"
TIMES = [f"2026-0{month}-01T00:00:00.000+00:00" for month in range(1, 10)]


def made(number: int, content: Any = None, of: str = "Patient/one") -> dict[str, Any]:
    """Return a version of the allergy."""
    return allergy("a", of=of, note=[{"text": str(content or number)}])


def part(*numbers: int) -> dict[str, Any]:
    """Return the history of these versions of the allergy."""
    return history(*map(made, numbers), numbers=numbers)


def test_history_is_restored_as_it_was(take, empty):
    report = take(history(made(1), f"{ALLERGY}/a", made(3)))
    assert report.changes == {ALLERGY: {"new": 1}}
    entries = asking(empty).read(f"{ALLERGY}/a/_history")["entry"]
    assert [entry["response"]["etag"] for entry in entries] == ['W/"3"', 'W/"2"', 'W/"1"']
    assert [entry["response"]["lastModified"] for entry in entries] == TIMES[2::-1]
    assert asking(empty).get(f"{ALLERGY}/a/_history/2").status_code == 410
    assert asking(empty).ids(f"{ALLERGY}?patient=one") == ["a"]


def test_history_that_is_imported_again_is_continued(take, empty):
    take(part(1, 2))
    before = bodies(empty)
    assert take(part(1, 2)).changes == {ALLERGY: {"same": 1}}
    assert bodies(empty) == before
    # An earlier part, one that overlaps, and one that follows.
    assert take(part(1)).changes == {ALLERGY: {"same": 1}}
    assert take(part(2, 3)).changes == {ALLERGY: {"changed": 1}}
    assert take(part(4)).changes == {ALLERGY: {"changed": 1}}
    after = bodies(empty)
    assert {key for key in before if before[key] != after[key]} == {(ALLERGY, "a", 2)}
    assert asking(empty).read(f"{ALLERGY}/a")["note"] == [{"text": "4"}]


def test_history_that_ends_in_a_deletion_leaves_the_resource_deleted(take, empty):
    take(history(made(1)))
    take(history(f"{ALLERGY}/a", numbers=(2,)))
    assert asking(empty).get(f"{ALLERGY}/a").status_code == 410
    # The deletion belongs to the patient of the version before it.
    assert bodies(empty)[ALLERGY, "a", 2][-1] == "one"
    take(part(3))
    assert current(empty, ALLERGY) == ["a"]


@pytest.mark.parametrize(
    ("present", "coming", "message"),
    [
        ((), (2,), "continues with version 2, but 1 would be next"),
        ((1,), (1, 3), "continues with version 3, but 2 would be next"),
        ((1, 2), (4,), "continues with version 4, but 3 would be next"),
    ],
)
def test_history_with_a_gap_is_rejected(take, empty, present, coming, message):
    if present:
        take(part(*present))
    before = bodies(empty)
    (fault,) = take(part(*coming), patient("beside")).faults
    assert (fault.path, fault.message.partition(";")[0]) == (ALLERGY, message)
    after = bodies(empty)
    after.pop(("Patient", "beside", 1))
    assert after == before


def test_another_history_of_the_same_resource_is_rejected(take, empty):
    take(part(1, 2))
    before = bodies(empty)
    second, third = (
        {"meta": {"versionId": number, "lastUpdated": TIMES[int(number) + 4]}} for number in "23"
    )
    for versions in (
        # Another time, and another content at the same time: two servers may load the same demo.
        (made(1), {**made(2, "other"), **second}, {**made(3), **third}),
        (made(1), made(2, "other"), made(3)),
        (made(1, "other"), made(2)),
    ):
        report = take(history(*versions))
        assert report.rejected_lines == 1
        assert "so these are two histories" in report.rejected[0]
        assert bodies(empty) == before


def test_history_does_not_replace_a_record_without_one(take, empty):
    take(allergy("a"))
    assert take(part(1, 2)).rejected_lines == 1
    assert [key for key in bodies(empty) if key[0] == ALLERGY] == [(ALLERGY, "a", 1)]


def test_version_of_another_patient_closes_the_earlier_ones(take, empty):
    take(history(made(1), made(2, of="Patient/two")))
    rows = bodies(empty)
    assert [rows[ALLERGY, "a", number][-1] for number in (1, 2)] == [None, "two"]


def test_import_after_which_an_export_since_a_time_lacks_versions_has_a_remark(take):
    came = history(made(1))
    # An empty database has nobody who exports from it at intervals.
    assert not take(patient("one"), came).remarks
    (remark,) = take(history(allergy("b"))).remarks
    assert "an export --since the last one lacks them" in remark
    assert not take(came).remarks


# Documents whose bytes changed


@pytest.fixture(scope="module")
def exported(make_app, tmp_path_factory):
    """A folder of histories of a document and its bytes, and the versions' bodies."""
    app = make_app(seed=False)

    def carrier(number: int) -> dict[str, Any]:
        return document("d", {"url": "Binary/b"}, of="", description=str(number))

    publish(app, binary("b", "first"), now=TIMES[0])
    publish(app, carrier(1), now=TIMES[1])
    publish(app, binary("b", "second, longer"), now=TIMES[2])
    publish(app, carrier(2), now=TIMES[3])
    delete(app, "Binary", "b", now=TIMES[4])
    publish(app, binary("b", "third"), now=TIMES[5])
    publish(app, patient("one"), now=TIMES[6])
    folder = tmp_path_factory.mktemp("exported")
    export(app, folder, history=True)
    return folder, bodies(app)


def test_versions_of_a_document_have_the_bytes_of_their_time(exported, empty):
    folder, expected = exported
    for _ in range(2):
        assert load(empty, folder, provenance=False).complete
        assert bodies(empty) == expected


def test_histories_of_documents_may_come_before_those_of_their_bytes(
    exported, empty, tmp_path, small_batches
):
    small_batches(1)
    folder, expected = exported
    names = ("DocumentReference", "Patient", "Binary")
    together = b"".join((folder / f"{name}.ndjson").read_bytes() for name in names)
    load(empty, write(tmp_path, together, "together.ndjson"))
    assert bodies(empty) == expected
