"""Records that depend on others of the same import, whatever is published of these by then."""

from __future__ import annotations

import gc
import tracemalloc

import pytest

from fhirapp.config import ConfigurationError
from fhirapp.features.imports import staging
from tests.support.bundles import asked, bundle, history, plain
from tests.support.importing import asking, interrupted_import, lines, load, write
from tests.support.records import allergy, document, inline, organization, patient
from tests.support.stored import current, stored, versions

CSV = "id,patient_id,patient_family,patient_birth_date,substance,criticality,note\n"
MRN1 = "Patient?identifier=urn:mrn|1"


def body(app, name):
    return asking(app).get(name).get_json()


def patient_of(app, name):
    return body(app, name)["patient"]["reference"]


def test_condition_finds_the_patient_of_a_history(take, empty):
    report = take(history(patient("p", mrn="1")), allergy("a", MRN1))
    assert not report.kept
    assert patient_of(empty, "AllergyIntolerance/a") == "Patient/p"


def test_reference_to_the_patient_of_a_history_makes_no_version_when_repeated(take, empty):
    contents = [history(patient("p", mrn="1")), allergy("a", MRN1)]
    take(*contents)
    before = versions(empty)
    take(*contents)
    assert versions(empty) == before


def test_row_of_a_table_finds_the_patient_of_a_history(empty, tmp_path):
    number = {"system": "http://c.example/mrn", "value": "1"}
    known = patient("p", name=[{"family": "M"}], birthDate="1984-07-19", identifier=[number])
    one = write(tmp_path, lines(history(known)), "1/h.ndjson")
    rows = (
        b"patient_id,patient_identifier,patient_family,patient_birth_date,substance\n"
        b"x1,http://c.example/mrn|1,M,1984-07-19,Penicillin\n"
    )
    load(empty, one.parent, write(tmp_path, rows, "2/a.csv").parent)
    assert current(empty, "Patient") == ["p"]


def history_and_row(tmp_path):
    worst = [{"manifestation": [{"text": "Anaphylaxis"}], "severity": "severe"}]
    made = allergy("a", criticality="high", code={"text": "Penicillin"}, reaction=worst)
    write(tmp_path, lines(patient("one"), history(made)), "i/1.ndjson")
    write(tmp_path, (CSV + "a,one,,,Penicillin,,seen\n").encode(), "i/2.csv")
    return tmp_path / "i"


def test_row_after_a_history_keeps_criticality_and_reaction(empty, tmp_path):
    load(empty, history_and_row(tmp_path))
    found = body(empty, "AllergyIntolerance/a")
    assert found["criticality"] == "high"
    assert found["reaction"][0]["severity"] == "severe"


def test_row_after_a_history_is_the_same_after_a_kill(make_app, tmp_path, small_batches):
    path = history_and_row(tmp_path)
    small_batches(1)
    whole, killed = make_app(seed=False), make_app(seed=False)
    load(whole, path)
    interrupted_import(killed, path, batches=2)
    load(killed, path)
    assert stored(whole) == stored(killed)


def test_number_that_an_import_takes_from_a_patient_finds_nobody(take, empty):
    take(patient("p1", mrn="1"))
    take(patient("p1", mrn="2"), allergy("a", MRN1))
    assert patient_of(empty, "AllergyIntolerance/a") != "Patient/p1"


def test_match_of_a_condition_is_forgotten_when_its_patient_changes(take, empty):
    take(patient("p1", mrn="1"))
    created = asked("POST", "Patient", patient("q", mrn="1"), ifNoneExist="identifier=urn:mrn|1")
    take(bundle("transaction", created), patient("p1", mrn="2"), allergy("a", MRN1))
    assert patient_of(empty, "AllergyIntolerance/a") != "Patient/p1"


LAB = "http://lab/fhir/"


def visit(address=LAB, **elements):
    person = patient("7", mrn="1", birthDate="1990-01-01")
    return bundle(
        "transaction",
        asked("PUT", MRN1, person, f"{address}Patient/7"),
        asked(
            "PUT", "AllergyIntolerance/a", allergy("a", "Patient/7"), f"{LAB}AllergyIntolerance/a"
        ),
    )


def test_relative_reference_means_the_entry_of_its_bundle(take, empty):
    take(patient("7", birthDate="1950-01-01"), patient("p9", mrn="1", birthDate="1990-01-01"))
    take(visit())
    assert patient_of(empty, "AllergyIntolerance/a") == "Patient/p9"


def test_relative_reference_to_a_rejected_entry_leads_to_no_other_person(take, empty):
    take(patient("7", birthDate="1950-01-01"))
    assert take(visit()).rejected
    assert stored(empty).get(("AllergyIntolerance", "a", 1), [None] * 4)[3] != "7"


def test_relative_reference_to_a_rejected_entry_leads_to_no_other_source(take, empty):
    take(patient("7", birthDate="1950-01-01"), source="ehr")
    assert take(visit(""), source="lab").rejected
    assert stored(empty).get(("AllergyIntolerance", "a", 1), [None] * 4)[3] != "7"


def test_document_of_a_merged_row_keeps_its_bytes(empty, tmp_path):
    head = "id,patient_id,patient_family,patient_birth_date,type,title,description,text\n"
    for number, description in enumerate(("About", "")):
        row = f"d,one,M,1980-01-01,11506-3,T,{description},Words\n"
        path = write(tmp_path, (head + row).encode(), f"{number}/d.csv")
        load(empty, path, source="s", delete_missing=number == 1)
    assert len(current(empty, "Binary")) == 1


def test_document_that_a_condition_finds_keeps_its_bytes(take, empty):
    made = document("d", inline("words"), identifier=[{"system": "urn:doc", "value": "9"}])
    created = asked("POST", "DocumentReference", made, ifNoneExist="identifier=urn:doc|9")
    contents = [patient("one"), bundle("transaction", created)]
    take(*contents, source="s")
    take(*contents, source="s", delete_missing=True)
    assert len(current(empty, "Binary")) == 1


def test_history_that_is_an_entry_of_another_bundle_is_imported(take, empty):
    take(bundle("collection", plain(history(patient("p")))), patient("q"))
    assert current(empty, "Patient") == ["p", "q"]


@pytest.mark.parametrize("query", ["identifier=urn:doc|9"])
def test_master_identifier_is_found_by_a_condition(take, empty, query):
    number = {"masterIdentifier": {"system": "urn:doc", "value": "9"}}
    created = [
        asked("POST", "DocumentReference", document(own, inline("x"), **number), ifNoneExist=query)
        for own in ("d1", "d2")
    ]
    take(patient("one"), bundle("transaction", *created))
    assert current(empty, "DocumentReference") == ["d1"]


@pytest.mark.parametrize("number", ["10,017", "a|b"])
def test_number_with_a_comma_or_a_bar_is_one_patient(empty, tmp_path, number):
    rows = "patient_id,patient_identifier,patient_family,patient_birth_date,substance\n" + "".join(
        f'{own},"http://c.example/mrn|{number}",M,1984-07-19,{substance}\n'
        for own, substance in (("p1", "Penicillin"), ("p2", "Latex"))
    )
    load(empty, write(tmp_path, rows.encode(), "a.csv"))
    assert current(empty, "Patient") == ["p1"]


def test_condition_on_a_system_alone_finds_a_patient_of_the_same_import(take, empty):
    created = [
        asked("POST", "Patient", patient(f"p{n}", mrn=str(n)), ifNoneExist="identifier=urn:mrn|")
        for n in (1, 2)
    ]
    take(bundle("transaction", *created))
    assert current(empty, "Patient") == ["p1"]


@pytest.mark.parametrize("form", ["create", "update"])
def test_record_that_is_put_by_a_condition_and_then_deleted_is_deleted(take, empty, form):
    person = patient("x", mrn="1")
    if form == "create":
        entry = asked("POST", "Patient", person, ifNoneExist="identifier=urn:mrn|1")
    else:
        entry = asked("PUT", MRN1, person)
    take(bundle("batch", entry), bundle("batch", asked("DELETE", "Patient/x")))
    assert current(empty, "Patient") == []


def test_row_after_a_deletion_restores_nothing(empty, tmp_path):
    made = allergy("a", criticality="high", code={"text": "Penicillin"})
    load(empty, write(tmp_path, lines(patient("one"), made), "0.ndjson"))
    gone = bundle("batch", asked("DELETE", "AllergyIntolerance/a"))
    one = write(tmp_path, lines(gone), "1/h.ndjson")
    two = write(tmp_path, (CSV + "a,one,,,Penicillin,,seen\n").encode(), "2/a.csv")
    load(empty, one.parent, two.parent)
    assert "criticality" not in body(empty, "AllergyIntolerance/a")


@pytest.mark.parametrize("kind", ["without ids", "of one id"])
def test_memory_does_not_grow_with_records_of_one_id_or_of_none(
    make_app, tmp_path, small_batches, kind
):
    peaks = []
    small_batches(50)
    # Else the objects of the tests before delay the collection of what an import leaves.
    gc.freeze()
    for count in (200, 1_000):
        text = "x" * 3000
        made = (
            allergy(note=[{"text": text}])
            if kind == "without ids"
            else organization("o", name=text)
        )
        path = tmp_path / f"{count}.ndjson"
        path.write_bytes(lines(made) * count)
        app = make_app(seed=False)
        tracemalloc.start()
        load(app, path)
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    gc.unfreeze()
    assert peaks[1] < peaks[0] + 1, peaks


def test_record_waits_for_shared_content_that_comes_by_a_condition(empty, take):
    b = organization("B", "2")
    take(b, source="ehr")
    take(patient("zz"), source="lab")
    a = organization("A", "1", partOf={"reference": "Organization/B"})
    update = bundle("transaction", asked("PUT", "Organization?identifier=urn:clinic|2", b))
    assert not take(a, update, source="lab").rejected


def test_stage_without_room_for_what_was_seen_is_refused(tmp_path, monkeypatch):
    class Usage:
        free = 64_000_000 + 400_000

    monkeypatch.setattr(staging.shutil, "disk_usage", lambda _folder: Usage)

    def fill(stage: staging.Stage) -> None:
        for number in range(10_000):
            stage.add_present(f"Patient/{number:064}")

    with staging.Stage(tmp_path) as stage, pytest.raises(ConfigurationError):
        fill(stage)


def test_bytes_that_only_a_superseded_content_had_are_deleted(take, empty):
    first, second = document("d", inline("A")), document("d", inline("B"))
    take(patient("one"), first, source="s")
    take(patient("one"), first, second, source="s", delete_missing=True)
    assert len(current(empty, "Binary")) == 1


# Manual, Tables: rows of one derived id: "the others are its earlier versions".


def test_chain_of_conditions_is_resolved_where_its_last_finds_nothing(take, empty):
    chain = [
        organization(f"o{n}", str(n), partOf={"reference": f"Organization?identifier={n + 1}"})
        for n in range(1, 5)
    ]
    take(*chain)
    assert body(empty, "Organization/o1")["partOf"] == {"reference": "Organization/o2"}
    assert body(empty, "Organization/o3")["partOf"] == {"reference": "Organization/o4"}
    assert body(empty, "Organization/o4")["partOf"] == {"reference": "Organization?identifier=5"}
    before = versions(empty)
    take(*chain)
    assert versions(empty) == before


def test_record_waits_for_one_that_waits_for_nothing_that_comes(take, empty):
    b = organization("B", partOf={"reference": "Organization?identifier=unknown"})
    take(b, source="ehr")
    take(patient("zz"), source="lab")
    a = organization("A", partOf={"reference": "Organization/B"})
    assert not take(a, b, source="lab").rejected


def test_patients_who_refer_to_each_other_are_shared_by_two_sources(take):
    def linked(own, other):
        link = {"other": {"reference": f"Patient/{other}"}, "type": "seealso"}
        return patient(own, link=[link])

    both = [linked("p1", "p2"), linked("p2", "p1")]
    take(*both, source="ehr")
    take(patient("zz"), source="lab")
    assert not take(*both, source="lab").rejected
