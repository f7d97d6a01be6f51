"""An export with history: the form of its Bundles, what they hold, and how they are read."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from fhirapp.features.exports.lines import history_of
from fhirapp.fhir.resource import InvalidResource
from tests.support.contract import allergy, delete, publish
from tests.support.exporting import binary_with, export, lines_of
from tests.support.helpers import BASE_URL, Fhir, token_for

TIMES = [f"2026-0{month}-01T00:00:00.000+00:00" for month in range(2, 9)]
DOCUMENT = {
    "resourceType": "DocumentReference",
    "id": "d",
    "status": "current",
    "content": [{"attachment": {"url": "Binary/b"}}],
}


def test_line_is_a_bundle_of_the_versions_newest_first(empty, tmp_path):
    publish(empty, allergy("a"), now=TIMES[0])
    delete(empty, "AllergyIntolerance", "a", now=TIMES[1])
    publish(empty, allergy("a", criticality="low"), now=TIMES[2])
    publish(empty, allergy("b"), now=TIMES[3])
    export(empty, tmp_path, history=True)
    bundle, other = lines_of(tmp_path, "AllergyIntolerance")
    assert {name: bundle[name] for name in ("resourceType", "type")} == {
        "resourceType": "Bundle",
        "type": "history",
    }
    address = "AllergyIntolerance/a"
    told = [
        ("PUT", "200 OK", 'W/"3"', TIMES[2]),
        ("DELETE", "204 No Content", 'W/"2"', TIMES[1]),
        ("PUT", "201 Created", 'W/"1"', TIMES[0]),
    ]
    for entry, (method, status, etag, time) in zip(bundle["entry"], told, strict=True):
        assert entry["fullUrl"] == address
        assert entry["request"] == {"method": method, "url": address}
        assert entry["response"] == {"status": status, "etag": etag, "lastModified": time}
        assert ("resource" in entry) == (method == "PUT")
    assert bundle["entry"][0]["resource"]["criticality"] == "low"
    assert other["entry"][0]["fullUrl"] == "AllergyIntolerance/b"


def test_requests_and_responses_are_those_that_the_server_answers(app, tmp_path):
    export(app, tmp_path, history=True)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    for name in ("AllergyIntolerance", "DocumentReference"):
        for bundle in lines_of(tmp_path, name):
            address = bundle["entry"][0]["fullUrl"]
            answered = fhir.read(f"{address}/_history")["entry"]
            for entry, served in zip(bundle["entry"], answered, strict=True):
                assert served["fullUrl"] == f"{BASE_URL}/fhir/{entry['fullUrl']}"
                assert (entry["request"], entry["response"]) == (
                    served["request"],
                    served["response"],
                )


def test_version_of_a_document_names_the_binaries_that_it_was_made_with(empty, tmp_path):
    publish(empty, copy.deepcopy(DOCUMENT), now=TIMES[0])
    publish(empty, binary_with(b"one"), now=TIMES[1])
    publish(empty, binary_with(b"two"), binary_with(b"three"), now=TIMES[2])
    delete(empty, "Binary", "b", now=TIMES[3])
    export(empty, tmp_path, history=True)
    (bundle,) = lines_of(tmp_path, "DocumentReference")
    links = [entry.get("link") for entry in reversed(bundle["entry"])]
    assert links == [
        None,
        [{"relation": "enclosure", "url": "Binary/b/_history/1"}],
        [{"relation": "enclosure", "url": "Binary/b/_history/3"}],
        None,
    ]
    made_with = [version.made_with for version in history_of(bundle).versions]
    assert made_with == [{}, {"b": 1}, {"b": 3}, {}]
    (binaries,) = lines_of(tmp_path, "Binary")
    versions = history_of(binaries).versions
    assert [version.version_id for version in versions] == [1, 2, 3, 4]
    assert [version.deleted for version in versions] == [False, False, False, True]


def test_history_since_an_instant_has_the_versions_from_then_on(empty, tmp_path):
    publish(empty, allergy("gone"), now=TIMES[0])
    for time, criticality in zip(TIMES, ("low", "high", "unable-to-assess"), strict=False):
        publish(empty, allergy("a", criticality=criticality), now=time)
    delete(empty, "AllergyIntolerance", "gone", now=TIMES[2])
    manifest = export(empty, tmp_path, history=True, since=TIMES[1])
    histories = [history_of(resource) for resource in lines_of(tmp_path, "AllergyIntolerance")]
    assert [(one.id, [each.version_id for each in one.versions]) for one in histories] == [
        ("a", [2, 3]),
        ("gone", [2]),
    ]
    assert [file.url for file in manifest.files] == ["AllergyIntolerance.ndjson"]
    assert not (tmp_path / "deleted.ndjson").exists()


def test_answer_of_a_server_is_read_too(app):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    answered = fhir.read("AllergyIntolerance/al-p5-codeine/_history")
    found = history_of(answered)
    numbers = [version.version_id for version in found.versions]
    assert (found.type_name, found.id) == ("AllergyIntolerance", "al-p5-codeine")
    assert numbers == [*range(1, len(numbers) + 1)]
    assert found.versions[-1].deleted


def bundle_of(*entries: Any, **members: Any) -> dict[str, Any]:
    return {"resourceType": "Bundle", "type": "history", "entry": [*entries], **members}


def entry_of(number: int = 1, **members: Any) -> dict[str, Any]:
    """Return an entry of a version; a member that is None is left out."""
    meta = {"versionId": str(number), "lastUpdated": TIMES[number]}
    whole = {
        "fullUrl": "AllergyIntolerance/a",
        "resource": {**allergy("a"), "meta": meta},
        "request": {"method": "PUT", "url": "AllergyIntolerance/a"},
        "response": {"status": "200", "etag": f'W/"{number}"', "lastModified": TIMES[number]},
        **members,
    }
    return {name: value for name, value in whole.items() if value is not None}


def deletion(number: int = 2, **members: Any) -> dict[str, Any]:
    request = {"method": "DELETE", "url": "AllergyIntolerance/a"}
    return entry_of(number, resource=None, request=request, **members)


def test_versions_are_read_oldest_first_in_any_order(subtests):
    for entries, numbers in [
        ([entry_of(1), deletion(2)], [1, 2]),
        ([deletion(2), entry_of(1)], [1, 2]),
        ([entry_of(3), entry_of(5)], [3, 5]),
        ([entry_of(1, request=None, response=None, fullUrl=None)], [1]),
        ([entry_of(4, resource=allergy("a"))], [4]),
        ([deletion(3, fullUrl="https://other.example/fhir/AllergyIntolerance/a")], [3]),
        ([deletion(3, response={"etag": "3", "lastModified": "2026-05-01T00:00:00Z"})], [3]),
    ]:
        with subtests.test(entries=entries):
            found = history_of(bundle_of(*entries))
            assert (found.type_name, found.id) == ("AllergyIntolerance", "a")
            assert [version.version_id for version in found.versions] == numbers
            assert [version.last_updated for version in found.versions] == [
                TIMES[number] for number in numbers
            ]


def test_time_is_read_as_this_server_writes_it():
    response = {"etag": 'W/"2"', "lastModified": "2026-03-01T02:00:00.0009+02:00"}
    (found,) = history_of(bundle_of(deletion(response=response))).versions
    assert found.last_updated == "2026-03-01T00:00:00.000+00:00"


def of_meta(**meta: Any) -> dict[str, Any]:
    """Return an entry whose resource has this meta."""
    return entry_of(1, resource={**allergy("a"), "meta": {"lastUpdated": TIMES[1], **meta}})


def test_invalid_history_is_refused_with_its_path(subtests):
    for bundle, path, words in [
        ([], "resourceType", "must be Bundle"),
        ({"resourceType": "Patient"}, "resourceType", "must be Bundle"),
        (bundle_of(type="batch"), "Bundle.type", "must be history"),
        (bundle_of(), "Bundle.entry", "at least one"),
        (bundle_of(entry={}), "Bundle.entry", "must be a list"),
        (bundle_of(7), "Bundle.entry[0]", "must be a JSON object"),
        (bundle_of(entry_of(resource=[])), "Bundle.entry[0].resource", "must be a JSON object"),
        (bundle_of(entry_of(resource=None)), "Bundle.entry[0].resource", "is required"),
        (bundle_of({**deletion(), "resource": allergy("a")}), "Bundle.entry[0].resource",
         "must not stand with DELETE"),
        (bundle_of(entry_of(request=7)), "Bundle.entry[0].request", "must be a JSON object"),
        (bundle_of(entry_of(), {**deletion(), "request": {"method": "DELETE", "url":
         "Patient/b"}}), "Bundle.entry[1]", "must be a version of AllergyIntolerance/a"),
        (bundle_of({**deletion(fullUrl=None), "request": {"method": "DELETE", "url": 7}}),
         "Bundle.entry[0].request.url", "must be Type/id"),
        (bundle_of(of_meta(versionId=1)), "Bundle.entry[0].resource.meta.versionId", "whole"),
        (bundle_of(of_meta(versionId="a")), "Bundle.entry[0].resource.meta.versionId", "whole"),
        (bundle_of(of_meta(versionId="0")), "Bundle.entry[0].resource.meta.versionId", "whole"),
        (bundle_of(of_meta(versionId="9" * 10)), "Bundle.entry[0].resource.meta.versionId",
         "whole"),
        (bundle_of(deletion(response=None)), "Bundle.entry[0].response.etag", 'W/"1"'),
        (bundle_of(deletion(response={"etag": 'W/"2"'})), "Bundle.entry[0].response.lastModified",
         "must be an instant"),
        (bundle_of(of_meta(versionId="1", lastUpdated="2026")),
         "Bundle.entry[0].resource.meta.lastUpdated", "must be an instant"),
        (bundle_of(of_meta(versionId="1", lastUpdated="2026-02-30T00:00:00Z")),
         "Bundle.entry[0].resource.meta.lastUpdated", "is not a date of the calendar"),
        (bundle_of(entry_of(1), entry_of(1)), "Bundle.entry", "1 stands twice"),
        (bundle_of(of_meta(versionId="4"), entry_of(3)), "Bundle.entry",
         "version 4 must not be older"),
        (bundle_of(entry_of(link=[{"relation": "enclosure", "url": "Binary/b"}])),
         "Bundle.entry[0].link", "must be Binary/id/_history/number"),
        (bundle_of(entry_of(link=[{"relation": "enclosure", "url": "Patient/b/_history/1"}])),
         "Bundle.entry[0].link", "must be Binary/id/_history/number"),
    ]:  # fmt: skip
        with subtests.test(bundle=bundle):
            with pytest.raises(InvalidResource) as raised:
                history_of(bundle)
            ((where, told),) = raised.value.faults
            assert where == path
            assert words in told


def test_links_of_other_relations_are_passed_over():
    links = [
        {"relation": "self", "url": "x"},
        7,
        {"relation": "enclosure", "url": "Binary/b/_history/2"},
    ]
    (found,) = history_of(bundle_of(entry_of(link=links))).versions
    assert found.made_with == {"b": 2}
