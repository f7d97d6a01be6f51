"""Requests and records that were once answered badly: searches, pages, and documents with a Binary.

Source of what is right: decisions §3 to §6; FHIR R4 search, references §2.3, extensibility §2.5.
"""

from __future__ import annotations

import base64
import hashlib

import pytest

from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.store.migrate import reindex
from fhirapp.store.write import Rendering
from tests.support.contract import allergy, delete, publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, ids, link, token_for
from tests.support.importing import lines, load, write

BOTH = pytest.mark.databases(SQLITE, POSTGRESQL)
FIRST, SECOND, THIRD = (f"2026-02-0{day}T00:00:00.000+00:00" for day in (1, 2, 3))


def document(row_id, *attachments, **elements):
    resource = {
        "resourceType": "DocumentReference",
        "id": row_id,
        "status": "current",
        "subject": {"reference": "Patient/p1"},
        **elements,
    }
    if attachments:
        resource["content"] = [{"attachment": attachment} for attachment in attachments]
    return resource


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def hash_of(text):
    return base64.b64encode(hashlib.sha1(text.encode(), usedforsecurity=False).digest()).decode()


def inline(text, content_type="text/plain"):
    return {"contentType": content_type, "data": encoded(text)}


def pointing(binary_id, **elements):
    return {"url": f"Binary/{binary_id}", **elements}


def binary(row_id, text, content_type="text/plain"):
    return {"resourceType": "Binary", "id": row_id, **inline(text, content_type)}


@pytest.fixture(scope="module")
def own(make_app):
    """An app that the tests here write to."""
    return make_app()


@pytest.fixture
def everything(own):
    return Fhir(own, token_for(own, "system/*.rs"))


@pytest.fixture
def import_all(own, tmp_path):
    """Return a function that imports resources, and returns the report."""
    return lambda *resources: load(own, write(tmp_path, lines(*resources), "records.ndjson"))


def attachment(fhir, path):
    (content,) = fhir.read(path)["content"]
    return content["attachment"]


# Each list with an empty value, and the search that it must equal.
EMPTY = [
    ("AllergyIntolerance?code=no-such-code,", "AllergyIntolerance?code=no-such-code"),
    ("AllergyIntolerance?code=,no-such-code", "AllergyIntolerance?code=no-such-code"),
    (
        "AllergyIntolerance?clinical-status=resolved,",
        "AllergyIntolerance?clinical-status=resolved",
    ),
    ("AllergyIntolerance?status:not=resolved,", "AllergyIntolerance?status:not=resolved"),
    ("DocumentReference?type=no-such-code,%20", "DocumentReference?type=no-such-code"),
]


def test_an_empty_token_in_a_list_finds_nothing_more_and_hides_nothing(fhir):
    """Refused, as an empty reference or string is, or ignored: but not any code there is."""
    for query, same_as in EMPTY:
        answer = fhir.get(query)
        if answer.status_code != 400:
            assert ids(answer.get_json(force=True)) == fhir.ids(same_as)


def test_a_scope_whose_filter_ends_in_a_comma_does_not_cover_every_value(own):
    publish(own, document("comma", category=[{"text": "x", "coding": [{"code": "B"}]}]), now=FIRST)
    token = token_for(own, "patient/DocumentReference.rs?category=A,", patient="p1")
    assert Fhir(own, token).get("DocumentReference/comma").status_code in (403, 404)


@BOTH
def test_empty_words_in_a_list_are_no_server_error(fhir):
    for name in ["_content", "_text"]:
        for value in ["pain,", ",pain", "pain,%20", ",", "%20,%20"]:
            assert fhir.get(f"DocumentReference?{name}={value}").status_code in (200, 400)


@BOTH
def test_one_of_several_words_is_searched_within_one_patient(fhir, as_patient):
    searches = [(fhir, f"{other}&") for other in ("patient=p1", "_id=doc-p1-hp-2024")]
    for client, other in [*searches, (as_patient("p1"), "")]:
        pain, fever, either = (
            client.ids(f"DocumentReference?{other}_content={words}")
            for words in ("pain", "fever", "pain,fever")
        )
        assert set(either) == {*pain, *fever}


@BOTH
@pytest.mark.parametrize("length", [2_046, 2_047, 6_000])
def test_a_long_word_does_not_keep_a_document_out(everything, import_all, length):
    """On PostgreSQL a word of a text search has at most 2,046 bytes."""
    row_id = f"long-{length}"
    report = import_all(document(row_id, inline("q" * length + " numbat")))
    assert not report.rejected
    assert row_id in everything.ids("DocumentReference?_content=numbat&_count=1000")


@BOTH
def test_a_long_system_of_an_identifiers_type_does_not_keep_a_document_out(own, everything):
    """On PostgreSQL an entry of an index has at most 2,704 bytes."""
    system = "http://" + "".join(f"{number:x}" for number in range(7**5, 7**5 + 1_200))
    coding = {"system": system, "code": "MR"}
    identifier = {"value": "v", "type": {"coding": [coding]}}
    publish(own, document("long-system", identifier=[identifier]), now=FIRST)
    found = everything.ids(f"DocumentReference?identifier:of-type={system}|MR|v")
    assert found == ["long-system"]


@pytest.mark.parametrize("order", [("document", "binary"), ("binary", "document")])
def test_a_note_is_found_by_its_words_whichever_came_first(everything, import_all, order):
    word = f"quokka{order[0]}"
    records = {
        "document": document(f"late-{order[0]}", pointing(f"b-{order[0]}")),
        "binary": binary(f"b-{order[0]}", word),
    }
    for name in order:
        import_all(records[name])
    assert everything.ids(f"DocumentReference?_content={word}") == [f"late-{order[0]}"]


def test_a_note_that_was_corrected_is_found_by_its_new_words_alone(everything, import_all):
    import_all(binary("b-corrected", "bandicoot"))
    import_all(document("corrected", pointing("b-corrected")))
    import_all(binary("b-corrected", "<p>kookaburra</p>", "text/html"))
    assert everything.get("Binary/b-corrected").content_type.startswith("text/html")
    now = attachment(everything, "DocumentReference/corrected")
    assert base64.b64decode(now["data"]) == b"<p>kookaburra</p>"
    assert now["contentType"] == "text/html"
    assert everything.ids("DocumentReference?_content=kookaburra") == ["corrected"]
    assert everything.ids("DocumentReference?_content=bandicoot") == []


def test_a_binary_goes_out_of_reach_with_the_document_that_carries_it(own):
    """The document's past is out of reach where a scope covers it no longer: so are its bytes."""
    for code, now in (("open", FIRST), ("closed", SECOND)):
        category = [{"coding": [{"system": "http://example.org", "code": code}]}]
        publish(own, document("closed", inline("seen by psychiatry"), category=category), now=now)
    whole = Fhir(own, token_for(own, "patient/*.rs", patient="p1"))
    address = attachment(whole, "DocumentReference/closed")["url"].removeprefix(f"{BASE_URL}/fhir/")
    scope = "patient/DocumentReference.rs?category=http://example.org|open"
    narrow = Fhir(own, token_for(own, scope, patient="p1"))
    assert narrow.get("DocumentReference/closed/_history/1").status_code == 404
    assert_outcome(narrow.get(address), 404, "not-found", f"{address} is not known here.")


ABSENT = {
    "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason",
    "valueCode": "unknown",
}


def test_a_report_without_a_time_is_imported(everything, import_all):
    pathology = {"coding": [{"system": "http://loinc.org", "code": "11526-1"}]}
    without = {"extension": [ABSENT]}
    for elements in ({}, {"_date": without}, {"context": {"period": {"_start": without}}}):
        report = import_all(document("timeless", type=pathology, **elements))
        assert not report.rejected
        assert everything.get("DocumentReference/timeless").status_code == 200


def test_a_version_named_by_one_reference_is_not_brought_by_another(own, everything):
    practitioner = {"resourceType": "Practitioner", "id": "twice"}
    for family, now in (("Old", FIRST), ("New", SECOND)):
        publish(own, {**practitioner, "name": [{"family": family}]}, now=now)
    author = {"reference": "Practitioner/twice/_history/1"}
    elements = {"author": [author], "authenticator": {"reference": "Practitioner/twice"}}
    publish(own, document("twofold", **elements), now=FIRST)
    for name, version in (("author", "1"), ("authenticator", "2")):
        found = everything.read(f"DocumentReference?_id=twofold&_include=DocumentReference:{name}")
        included = [
            entry["resource"] for entry in found["entry"] if entry["search"]["mode"] == "include"
        ]
        assert [resource["meta"]["versionId"] for resource in included] == [version]


# Pages: a resource that is changed between two pages.
def second_page(own, fhir, query, changed):
    """Return the ids on two pages of one resource each, between which a resource is changed."""
    first = fhir.read(f"AllergyIntolerance?{query}_sort=date&_count=1")
    publish(own, changed, now=THIRD)
    return ids(first), ids(fhir.read(link(first, "next") or ""))


def test_a_resource_that_came_from_another_patient_is_on_no_later_page(own):
    """Its place in the order would tell what it was when it was another patient's."""
    for row_id, patient, year in (("m1", "pa", 2020), ("m2", "pb", 2021), ("m3", "pa", 2022)):
        publish(own, allergy(row_id, patient, recordedDate=f"{year}-02-02"), now=FIRST)
    fhir = Fhir(own, token_for(own, "patient/*.rs", patient="pa"))
    moved = allergy("m2", "pa", recordedDate="1999-01-01")
    assert second_page(own, fhir, "", moved) == (["m1"], ["m3"])


def test_a_resource_that_a_scope_covers_only_now_is_on_no_later_page(own):
    """The token sees nothing of its past, so not of its former place in the order either."""
    for number, category in ((1, "food"), (2, "biologic"), (3, "food")):
        date = f"202{number}-02-02"
        resource = allergy(f"n{number}", "pn", category=[category], recordedDate=date)
        publish(own, resource, now=FIRST)
    scope = "patient/AllergyIntolerance.rs?category=food"
    fhir = Fhir(own, token_for(own, scope, patient="pn"))
    entered = allergy("n2", "pn", category=["food"], recordedDate="1999-01-01")
    assert second_page(own, fhir, "", entered) == (["n1"], ["n3"])
    assert fhir.get("AllergyIntolerance/n2/_history/1").status_code == 404


def test_resource_that_matches_only_since_paging_began_is_on_no_later_page(own, everything):
    """As with a new resource, a client meets it when it searches again."""
    codes = {code: {"coding": [{"code": code}]} for code in "ab"}
    resources = [
        allergy(f"o{number}", "po", code=codes[code], recordedDate=f"202{number}-02-02")
        for number, code in ((1, "a"), (2, "b"), (3, "a"))
    ]
    publish(own, *resources, now=FIRST)
    matching = {**resources[1], "code": codes["a"]}
    assert second_page(own, everything, "patient=po&code=a&", matching) == (["o1"], ["o3"])


# Binaries that come, change and go.
def reindex_all(app):
    with app.app_context(), writing() as connection:
        reindex(connection, types(), Rendering.of(settings_of(app)))


def test_version_from_before_its_binary_is_unchanged_by_a_reindex(own, everything, import_all):
    given = pointing("late", contentType="text/plain", hash=hash_of("wombat"))
    import_all(document("before", given))
    import_all(binary("late", "wombat"))
    address = "DocumentReference/before/_history/1"
    published = everything.get(address).data
    reindex_all(own)
    assert everything.get(address).data == published


def test_reindex_does_not_restore_deleted_content(own, everything, import_all):
    import_all(binary("gone", "thylacine"))
    given = pointing("gone", contentType="text/plain", hash=hash_of("thylacine"))
    import_all(document("left", given))
    delete(own, "Binary", "gone", now=THIRD)
    import_all(document("left", given, description="the file is no more"))
    assert "data" not in attachment(everything, "DocumentReference/left")
    reindex_all(own)
    assert "data" not in attachment(everything, "DocumentReference/left")
    assert everything.ids("DocumentReference?_content=thylacine") == []


def test_size_and_hash_of_an_attachment_outlive_its_binary(own, everything, import_all):
    given = pointing("passing", contentType="text/plain", size=99, hash=hash_of("as sent"))
    import_all(document("says", given))
    import_all(binary("passing", "bytes"))
    delete(own, "Binary", "passing", now=THIRD)
    left = attachment(everything, "DocumentReference/says")
    assert (left.get("size"), left.get("hash")) == (99, hash_of("as sent"))


def test_document_sent_again_restores_its_deleted_bytes(own, everything, import_all):
    given = inline("wallaby")
    import_all(document("again", given))
    address = attachment(everything, "DocumentReference/again")["url"].partition("/fhir/")[2]
    delete(own, "Binary", address.partition("/")[2], now=THIRD)
    import_all(document("again", given, description="sent again"))
    sent = attachment(everything, "DocumentReference/again")
    status = everything.get(address).status_code
    assert ("data" in sent, status) in ((True, 200), (False, 410))


def test_words_of_equal_bytes_are_indexed_by_media_type(everything, import_all):
    """A picture has no words, whatever its bytes are elsewhere."""
    import_all(
        document("as-text", inline("bilby")),
        document("as-picture", inline("bilby", "image/png")),
    )
    assert everything.ids("DocumentReference?_content=bilby") == ["as-text"]
