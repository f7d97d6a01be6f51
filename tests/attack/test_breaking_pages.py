"""What went wrong when somebody tried again: pages, and documents whose Binary comes and goes.

Source of what is right: decisions §3, §5, §6, 2.18; architecture: a version is never changed.
"""

from __future__ import annotations

import base64
import hashlib
import json

import pytest

from fhirapp.config import settings_of
from fhirapp.db import writing
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from fhirapp.store.migrate import reindex
from fhirapp.store.write import Rendering
from tests.support.contract import allergy, delete, publish
from tests.support.helpers import Fhir, ids, link, token_for

MOMENTS = [f"2026-03-0{day}T00:00:00.000+00:00" for day in range(1, 10)]


def document(row_id, *attachments, **elements):
    return {
        "resourceType": "DocumentReference",
        "id": row_id,
        "status": "current",
        "subject": {"reference": "Patient/p1"},
        "content": [{"attachment": one} for one in attachments],
        **elements,
    }


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def hash_of(text):
    return base64.b64encode(hashlib.sha1(text.encode(), usedforsecurity=False).digest()).decode()


def binary(row_id, text, content_type="text/plain"):
    return {
        "resourceType": "Binary",
        "id": row_id,
        "contentType": content_type,
        "data": encoded(text),
    }


def pointing(binary_id, **elements):
    return {"url": f"Binary/{binary_id}", **elements}


@pytest.fixture(scope="module")
def own(make_app):
    """An app that the tests here write to."""
    return make_app(seed=False)


@pytest.fixture
def everything(own):
    return Fhir(own, token_for(own, "system/*.rs"))


@pytest.fixture
def bring_in(own, tmp_path):
    """Return a function that imports resources."""

    def bring(*resources):
        path = tmp_path / "records.ndjson"
        path.write_text("\n".join(json.dumps(one) for one in resources))
        with own.app_context():
            return import_paths([path], types(), settings_of(own))

    return bring


def make_anew(app):
    with app.app_context(), writing() as connection:
        reindex(connection, types(), Rendering.of(settings_of(app)))


def attachment(fhir, path):
    (content,) = fhir.read(path)["content"]
    return content["attachment"]


# Pages


def test_a_resource_that_came_from_another_patient_is_on_no_later_page(own):
    """It came later; where it would stand tells what it was when it was another patient's."""
    for row_id, patient, year in (("m1", "pa", 2020), ("m2", "pb", 2021), ("m3", "pa", 2022)):
        moved = allergy(row_id, patient, recordedDate=f"{year}-02-02")
        publish(own, moved, now=MOMENTS[0])
    fhir = Fhir(own, token_for(own, "patient/*.rs", patient="pa"))
    first = fhir.read("AllergyIntolerance?_sort=date&_count=1")
    publish(own, allergy("m2", "pa", recordedDate="1999-01-01"), now=MOMENTS[1])
    second = fhir.read(link(first, "next") or "")
    assert (ids(first), ids(second)) == (["m1"], ["m3"])


def test_a_resource_that_a_scope_covers_only_now_is_on_no_later_page(own):
    """Its past is out of the token's reach, so is the place where it stood."""
    for row_id, category, year in (("n1", "food", 2020), ("n2", "biologic", 2021)):
        one = allergy(row_id, "pn", category=[category], recordedDate=f"{year}-02-02")
        publish(own, one, now=MOMENTS[2])
    last = allergy("n3", "pn", category=["food"], recordedDate="2022-02-02")
    publish(own, last, now=MOMENTS[2])
    scope = "patient/AllergyIntolerance.rs?category=food"
    fhir = Fhir(own, token_for(own, scope, patient="pn"))
    first = fhir.read("AllergyIntolerance?_sort=date&_count=1")
    entered = allergy("n2", "pn", category=["food"], recordedDate="1999-01-01")
    publish(own, entered, now=MOMENTS[3])
    assert fhir.get("AllergyIntolerance/n2/_history/1").status_code == 404
    second = fhir.read(link(first, "next") or "")
    assert (ids(first), ids(second)) == (["n1"], ["n3"])


def test_what_matches_only_since_paging_began_is_on_no_later_page(own, everything):
    """As what is new since then; a client meets both when it searches again."""
    for row_id, code, year in (("o1", "a", 2020), ("o2", "b", 2021), ("o3", "a", 2022)):
        coded = {"code": {"coding": [{"code": code}]}, "recordedDate": f"{year}-02-02"}
        publish(own, allergy(row_id, "po", **coded), now=MOMENTS[7])
    first = everything.read("AllergyIntolerance?patient=po&code=a&_sort=date&_count=1")
    coded = {"code": {"coding": [{"code": "a"}]}, "recordedDate": "2021-02-02"}
    publish(own, allergy("o2", "po", **coded), now=MOMENTS[8])
    second = everything.read(link(first, "next") or "")
    assert (ids(first), ids(second)) == (["o1"], ["o3"])


# Binaries that come, change and go


def test_a_version_from_before_its_binary_stays_as_it_was_when_all_is_made_anew(
    own, everything, bring_in
):
    given = pointing("late", contentType="text/plain", hash=hash_of("wombat"))
    bring_in(document("before", given))
    bring_in(binary("late", "wombat"))
    address = "DocumentReference/before/_history/1"
    published = everything.get(address).data
    make_anew(own)
    assert everything.get(address).data == published


def test_what_was_deleted_does_not_come_back_when_all_is_made_anew(own, everything, bring_in):
    bring_in(binary("gone", "thylacine"))
    given = pointing("gone", contentType="text/plain", hash=hash_of("thylacine"))
    bring_in(document("left", given))
    delete(own, "Binary", "gone", now=MOMENTS[4])
    bring_in(document("left", given, description="the file is no more"))
    assert "data" not in attachment(everything, "DocumentReference/left")
    make_anew(own)
    assert "data" not in attachment(everything, "DocumentReference/left")
    assert everything.ids("DocumentReference?_content=thylacine") == []


def test_the_media_type_is_that_of_the_binary_as_it_is_now(everything, bring_in):
    bring_in(binary("typed", "first"))
    bring_in(document("typed", pointing("typed")))
    bring_in(binary("typed", "<p>second</p>", "text/html"))
    assert attachment(everything, "DocumentReference/typed")["contentType"] == "text/html"
    assert everything.get("Binary/typed").content_type.startswith("text/html")


def test_what_a_record_says_of_its_attachment_outlives_the_binary(own, everything, bring_in):
    given = pointing("passing", contentType="text/plain", size=99, hash=hash_of("as sent"))
    bring_in(document("says", given))
    bring_in(binary("passing", "bytes"))
    delete(own, "Binary", "passing", now=MOMENTS[5])
    left = attachment(everything, "DocumentReference/says")
    assert (left.get("size"), left.get("hash")) == (99, hash_of("as sent"))


def test_a_document_sent_again_brings_back_the_bytes_that_were_deleted(own, everything, bring_in):
    given = {"contentType": "text/plain", "data": encoded("numbat")}
    bring_in(document("again", given))
    address = attachment(everything, "DocumentReference/again")["url"].partition("/fhir/")[2]
    delete(own, "Binary", address.partition("/")[2], now=MOMENTS[6])
    bring_in(document("again", given, description="sent again"))
    sent = attachment(everything, "DocumentReference/again")
    status = everything.get(address).status_code
    assert ("data" in sent, status) in ((True, 200), (False, 410))


def test_words_are_those_of_a_document_and_not_of_another_with_the_same_bytes(everything, bring_in):
    """A picture has no words, whatever its bytes are elsewhere."""
    bring_in(
        document("as-text", {"contentType": "text/plain", "data": encoded("bilby")}),
        document("as-picture", {"contentType": "image/png", "data": encoded("bilby")}),
    )
    assert everything.ids("DocumentReference?_content=bilby") == ["as-text"]
