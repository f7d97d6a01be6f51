"""Prefixes before ids, and the addresses of the source that mean this server."""

from __future__ import annotations

import pytest

from tests.support.importing import (
    URN,
    UUID,
    allergy,
    asked,
    asking,
    bundle,
    current,
    patient,
    plain,
    stored,
)

FOREIGN = (
    "is known from another source, with other content; give the ids of one of them a prefix "
    "(--id-prefix), or import both under one name (--source)"
)


# Prefixes.


def test_a_prefix_stands_before_ids_and_what_refers_to_them(take, empty):
    contents = [
        patient("one"),
        allergy(
            "a",
            recorder={"reference": "https://s.example/fhir/Practitioner/dr"},
            encounter={"reference": "Encounter/e/_history/2"},
            asserter={"reference": "#inside"},
            contained=[
                {"resourceType": "Practitioner", "id": "inside"},
                {
                    "resourceType": "PractitionerRole",
                    "id": "role",
                    "organization": {"reference": "Organization/o"},
                },
            ],
        ),
        {
            "resourceType": "DocumentReference",
            "id": "d",
            "status": "current",
            "content": [{"attachment": {"url": "Binary/bytes"}}],
        },
        {"resourceType": "Binary", "id": "bytes", "contentType": "text/plain", "data": "QUJD"},
    ]
    options = {"prefix": "n-", "bases": ["https://s.example/fhir/"]}
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


@pytest.mark.parametrize("of", [f"{URN}01", "Patient/own", "https://s.example/fhir/Patient/own"])
def test_a_prefix_stands_before_ids_within_a_bundle(take, empty, of):
    whose = "own" if "own" in of else None
    address = of if ":" in of else "https://s.example/fhir/Patient/own"
    contents = bundle(
        "collection", plain(allergy("a", of=of), f"{URN}02"), plain(patient(whose), address)
    )
    assert take(contents, prefix="n-").complete
    wanted = f"n-{whose or UUID + '01'}"
    assert current(empty, "Patient") == [wanted]
    assert asking(empty).ids(f"AllergyIntolerance?patient={wanted}") == ["n-a"]


def test_a_prefix_is_put_once_before_what_waits_and_what_a_condition_finds(take, empty):
    doctor = {
        "resourceType": "Practitioner",
        "id": "dr",
        "identifier": [{"system": "urn:x", "value": "1"}],
    }
    recorder = {"reference": "Practitioner?identifier=urn:x|1"}
    known = asked("PUT", "Patient?identifier=urn:mrn|1", patient(mrn="1"), f"{URN}03")
    contents = [
        allergy("w", recorder=recorder),
        bundle("transaction", known, asked("DELETE", "AllergyIntolerance/gone")),
        allergy("gone"),
        doctor,
    ]
    for _ in range(2):
        assert take(*contents, prefix="n-").complete
        assert current(empty, "Practitioner") == ["n-dr"]
        assert current(empty, "Patient") == [f"n-{UUID}03"]
        assert current(empty, "AllergyIntolerance") == ["n-gone", "n-w"]
        found = asking(empty).read("AllergyIntolerance/n-w")["recorder"]["reference"]
        assert found == "Practitioner/n-dr"
    take(bundle("batch", asked("DELETE", "AllergyIntolerance/gone")), prefix="n-")
    assert current(empty, "AllergyIntolerance") == ["n-w"]


def test_a_prefix_keeps_the_same_ids_of_two_sources_apart(take, empty):
    take(patient("one"), allergy("a"), source="s")
    take(patient("one", gender="male"), allergy("a"), source="other", prefix="other-")
    assert current(empty, "Patient") == ["one", "other-one"]
    assert asking(empty).ids("AllergyIntolerance?patient=other-one") == ["other-a"]


def test_an_id_that_a_prefix_makes_too_long_is_refused(take):
    report = take(patient("x" * 60), prefix="eight-12")
    assert report.faults[0].path == "Patient.id"


def test_histories_get_the_prefix_or_are_refused(take, empty):
    moment = "2026-01-01T00:00:00.000+00:00"
    resource = patient("p", meta={"versionId": "1", "lastUpdated": moment})
    report = take(bundle("history", asked("PUT", "Patient/p", resource)), prefix="n-")
    assert current(empty, "Patient") == (["n-p"] if report.complete else [])


# Addresses.


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("https://s.example/fhir/Patient/one", "Patient/one"),
        ("https://s.example/fhir/Patient/one/_history/2", "Patient/one/_history/2"),
        ("https://fhir.example/fhir/Patient/one", "Patient/one"),
        ("https://s.example/fhir-x/Patient/one", None),
        ("https://s.example/Patient/one", None),
        ("http://s.example/fhir/Patient/one", None),
    ],
)
def test_the_address_of_the_source_means_this_server(take, empty, reference, found):
    report = take(patient("one"), allergy("a", of=reference), bases=["https://s.example/fhir/"])
    held = asking(empty).read("AllergyIntolerance/a")["patient"]["reference"]
    assert held == (found or reference)
    assert [*report.kept] == ([] if found else [reference])


def test_an_attachment_at_the_address_of_the_source_is_found_here(take, empty):
    url = "https://s.example/fhir/Binary/bytes"
    contents = [
        {
            "resourceType": "DocumentReference",
            "id": "d",
            "status": "current",
            "content": [{"attachment": {"url": url}}, {"attachment": {"url": "https://x.y/z"}}],
        },
        {"resourceType": "Binary", "id": "bytes", "contentType": "text/plain", "data": "QUJD"},
    ]
    report = take(*contents, bases=["https://s.example/fhir/"])
    assert report.kept == {"https://x.y/z": "leads to another server"}
    found = asking(empty).read("DocumentReference/d")["content"]
    assert found[0]["attachment"]["data"] == "QUJD"
    assert found[1]["attachment"]["url"] == "https://x.y/z"
