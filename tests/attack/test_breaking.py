"""What went wrong when somebody tried: each test is a request or a record that was answered badly.

Source of what is right: decisions §3, §4, §6; FHIR R4 search, references §2.3, extensibility §2.5.
"""

from __future__ import annotations

import base64
import json

import pytest

from fhirapp.config import settings_of
from fhirapp.definition import types
from fhirapp.exchange.imports.importer import import_paths
from tests.support.contract import publish
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, assert_outcome, ids, token_for

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

FIRST, SECOND = "2026-02-01T00:00:00.000+00:00", "2026-02-02T00:00:00.000+00:00"
PATHOLOGY = {"coding": [{"system": "http://loinc.org", "code": "11526-1"}]}
ABSENT = {
    "url": "http://hl7.org/fhir/StructureDefinition/data-absent-reason",
    "valueCode": "unknown",
}


def document(row_id, **elements):
    return {
        "resourceType": "DocumentReference",
        "id": row_id,
        "status": "current",
        "subject": {"reference": "Patient/p1"},
        **elements,
    }


def note(text):
    return {"attachment": {"contentType": "text/plain", "data": encoded(text)}}


def encoded(text):
    return base64.b64encode(text.encode()).decode()


def binary(row_id, text):
    return {
        "resourceType": "Binary",
        "id": row_id,
        "contentType": "text/plain",
        "data": encoded(text),
    }


def pointing(row_id, binary_id):
    attachment = {"contentType": "text/plain", "url": f"Binary/{binary_id}"}
    return document(row_id, content=[{"attachment": attachment}])


def bring_in(app, folder, *resources):
    path = folder / "records.ndjson"
    path.write_text("\n".join(json.dumps(one) for one in resources))
    with app.app_context():
        return import_paths([path], types(), settings_of(app))


@pytest.fixture(scope="module")
def own(make_app):
    """An app that the tests here write to."""
    return make_app()


@pytest.fixture
def everything(own):
    return Fhir(own, token_for(own, "system/*.rs"))


# An empty value between commas


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


# Words


def test_an_empty_list_of_words_is_no_failure_of_the_server(fhir):
    for name in ["_content", "_text"]:
        for value in ["pain,", ",pain", "pain,%20", ",", "%20,%20"]:
            assert fhir.get(f"DocumentReference?{name}={value}").status_code in (200, 400)


def test_one_of_several_words_is_searched_within_one_patient(fhir):
    for other in ["patient=p1", "_id=doc-p1-hp-2024", "subject=Patient/p1"]:
        one = fhir.ids(f"DocumentReference?{other}&_content=pain")
        two = fhir.ids(f"DocumentReference?{other}&_content=fever")
        both = fhir.ids(f"DocumentReference?{other}&_content=pain,fever")
        assert set(both) == {*one, *two}


def test_one_of_several_words_is_searched_with_the_token_of_a_patient(as_patient):
    patient = as_patient("p1")
    one = patient.ids("DocumentReference?_content=pain")
    two = patient.ids("DocumentReference?_content=fever")
    assert set(patient.ids("DocumentReference?_content=pain,fever")) == {*one, *two}


@pytest.mark.parametrize("length", [2_046, 2_047, 6_000])
def test_a_long_word_does_not_keep_a_document_out(own, everything, tmp_path, length):
    """On PostgreSQL a word of a text search has at most 2,046 bytes."""
    row_id = f"long-{length}"
    report = bring_in(own, tmp_path, document(row_id, content=[note("q" * length + " numbat")]))
    assert not report.rejected
    assert row_id in everything.ids("DocumentReference?_content=numbat&_count=1000")


def test_a_long_system_of_an_identifiers_type_does_not_keep_a_document_out(own, everything):
    """On PostgreSQL an entry of an index has at most 2,704 bytes."""
    system = "http://" + "".join(f"{number:x}" for number in range(7**5, 7**5 + 1_200))
    coding = {"system": system, "code": "MR"}
    identifier = {"value": "v", "type": {"coding": [coding]}}
    publish(own, document("long-system", identifier=[identifier]), now=FIRST)
    found = everything.ids(f"DocumentReference?identifier:of-type={system}|MR|v")
    assert found == ["long-system"]


@pytest.mark.parametrize("order", [("document", "binary"), ("binary", "document")])
def test_a_note_is_found_by_its_words_whichever_came_first(own, everything, tmp_path, order):
    word = f"quokka{order[0]}"
    records = {
        "document": pointing(f"late-{order[0]}", f"b-{order[0]}"),
        "binary": binary(f"b-{order[0]}", word),
    }
    for name in order:
        bring_in(own, tmp_path, records[name])
    assert everything.ids(f"DocumentReference?_content={word}") == [f"late-{order[0]}"]


def test_a_note_that_was_corrected_is_found_by_its_new_words_alone(own, everything, tmp_path):
    bring_in(own, tmp_path, binary("b-corrected", "bandicoot"))
    bring_in(own, tmp_path, pointing("corrected", "b-corrected"))
    bring_in(own, tmp_path, binary("b-corrected", "kookaburra"))
    assert everything.get("Binary/b-corrected").data == b"kookaburra"
    (content,) = everything.read("DocumentReference/corrected")["content"]
    assert base64.b64decode(content["attachment"]["data"]) == b"kookaburra"
    assert everything.ids("DocumentReference?_content=kookaburra") == ["corrected"]
    assert everything.ids("DocumentReference?_content=bandicoot") == []


# What the token may not see


def test_a_binary_goes_out_of_reach_with_the_document_that_carries_it(own):
    """The document's past is out of reach where a scope covers it no longer: so are its bytes."""
    carried = [note("seen by psychiatry")]
    for code, now in (("open", FIRST), ("closed", SECOND)):
        category = [{"coding": [{"system": "http://example.org", "code": code}]}]
        publish(own, document("closed", category=category, content=carried), now=now)
    whole = Fhir(own, token_for(own, "patient/*.rs", patient="p1"))
    (content,) = whole.read("DocumentReference/closed")["content"]
    address = content["attachment"]["url"].removeprefix(f"{BASE_URL}/fhir/")
    scope = "patient/DocumentReference.rs?category=http://example.org|open"
    narrow = Fhir(own, token_for(own, scope, patient="p1"))
    assert narrow.get("DocumentReference/closed/_history/1").status_code == 404
    assert_outcome(narrow.get(address), 404, "not-found", f"{address} is not known here.")


# The view of reports


@pytest.mark.parametrize(
    "elements",
    [
        {},
        {"_date": {"extension": [ABSENT]}},
        {"context": {"period": {"_start": {"extension": [ABSENT]}}}},
    ],
)
def test_a_report_without_a_time_is_imported(own, everything, tmp_path, elements):
    report = bring_in(own, tmp_path, document("timeless", type=PATHOLOGY, **elements))
    assert not report.rejected
    assert everything.get("DocumentReference/timeless").status_code == 200


@pytest.mark.parametrize(
    "modifying",
    [
        {"modifierExtension": [{"url": "http://example.org/wrong-patient", "valueBoolean": True}]},
        {"implicitRules": "http://example.org/rules"},
    ],
)
def test_a_report_does_not_lose_what_changes_its_meaning(own, everything, modifying):
    """FHIR R4 extensibility §2.4.1.1: it is carried over, or there is no report."""
    elements = {"type": PATHOLOGY, "date": "2026-01-02T10:00:00Z"}
    publish(own, document("modified", **elements, **modifying), now=FIRST)
    answer = everything.get("DiagnosticReport/modified")
    assert answer.status_code == 404 or modifying.items() <= answer.get_json(force=True).items()


def test_a_report_does_not_refer_to_what_it_does_not_contain(own, everything):
    publish(
        own,
        document(
            "containing",
            type=PATHOLOGY,
            date="2026-01-02T10:00:00Z",
            contained=[{"resourceType": "Organization", "id": "o", "name": "Clinic"}],
            identifier=[{"value": "1", "assigner": {"reference": "#o"}}],
        ),
        now=FIRST,
    )
    report = everything.read("DiagnosticReport/containing")
    assert '"#o"' not in json.dumps(report) or report["contained"][0]["id"] == "o"


# What is included


def test_a_version_named_by_one_reference_is_not_brought_by_another(own, everything):
    practitioner = {"resourceType": "Practitioner", "id": "twice"}
    publish(own, {**practitioner, "name": [{"family": "Old"}]}, now=FIRST)
    publish(own, {**practitioner, "name": [{"family": "New"}]}, now=SECOND)
    author = {"reference": "Practitioner/twice/_history/1"}
    elements = {"author": [author], "authenticator": {"reference": "Practitioner/twice"}}
    publish(own, document("twofold", **elements), now=FIRST)
    for name, version in (("author", "1"), ("authenticator", "2")):
        found = everything.read(f"DocumentReference?_id=twofold&_include=DocumentReference:{name}")
        included = [one["resource"] for one in found["entry"] if one["search"]["mode"] == "include"]
        assert [one["meta"]["versionId"] for one in included] == [version]
