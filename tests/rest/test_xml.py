"""Answers and bodies in FHIR XML say what those in FHIR JSON say, whatever is asked for."""

from __future__ import annotations

import base64
from collections.abc import Callable
from random import Random

import pytest
from flask import Flask

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import xml, xml_reader
from fhirapp.rest.stream import PIECE
from tests.support.binaries import store
from tests.support.helpers import FHIR_JSON, FHIR_XML, Fhir, token_for
from tests.support.importing import load, patient, write

XML = {"Accept": "application/fhir+xml"}
EGG = "AllergyIntolerance/al-p3-egg"
PATHS = [
    EGG, f"{EGG}/_history/1", f"{EGG}/_history", "AllergyIntolerance/_history?_count=3",
    "AllergyIntolerance?patient=p1&_revinclude=Provenance:target",
    "DocumentReference?patient=p1&_include=*&nonsense=1", "DocumentReference?_summary=true",
    "Patient?_elements=name", "Patient?_summary=count", "Patient/p1/AllergyIntolerance",
    "?_type=Patient,AllergyIntolerance&_count=3", "_history?_count=3", "Patient?_id=nobody",
    f"{EGG}?_summary=text", "DocumentReference/$docref?patient=p1",
    "AllergyIntolerance/$summary?patient=p1", "Patient/p1/$everything", "metadata",
    "SearchParameter/AllergyIntolerance-status",
    # refusals
    "Patient/nobody", "Nothing", "AllergyIntolerance?date=x", "AllergyIntolerance/al-p5-codeine",
    "Patient/p1/$nothing",
]  # fmt: skip


@pytest.mark.parametrize("path", PATHS)
def test_xml_says_what_json_says(fhir, path):
    plain, answer = fhir.get(path), fhir.get(path, headers=XML)
    assert (answer.status_code, answer.content_type) == (plain.status_code, FHIR_XML)
    assert answer.content_length == len(answer.data)
    assert xml_reader.loads(answer.data) == fhir_json.loads(plain.data)
    without = {"Content-Type", "Content-Length", "Cache-Control", "X-Request-Id"}
    for name in {name for name, _ in (*plain.headers, *answer.headers)} - without:
        assert answer.headers.get(name) == plain.headers.get(name), name
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.data.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n<')


def test_etag_of_json_does_not_validate_xml(fhir):
    """Their entity tag is FHIR's version: of XML none is kept, and none is compared."""
    for path in [EGG, "AllergyIntolerance?patient=p1", "metadata"]:
        tag = fhir.get(path).headers["ETag"]
        for held in (tag, "*"):
            answer = fhir.get(path, headers={**XML, "If-None-Match": held})
            assert (answer.status_code, answer.content_type) == (200, FHIR_XML)
            assert answer.headers["ETag"] == tag
            assert answer.headers["Cache-Control"] == "no-store"
            assert "Accept" in answer.headers["Vary"]
        assert fhir.get(path, headers={"If-None-Match": tag}).status_code == 304


def test_without_a_token_the_refusal_is_in_xml(http):
    address = {"REMOTE_ADDR": "192.0.2.66"}
    answer = http.get(f"/fhir/{EGG}", headers=XML, environ_overrides=address)
    assert (answer.status_code, answer.content_type) == (401, FHIR_XML)
    assert xml_reader.loads(answer.data)["issue"][0]["code"] == "login"


@pytest.mark.parametrize("path", ["Patient?nonsense%01=1", "Patient?nonsense%EF%BF%BF=1"])
def test_a_refusal_that_repeats_what_xml_cannot_hold_is_in_json(fhir, path):
    answer = fhir.get(path, headers={**XML, "Prefer": "handling=strict"})
    assert (answer.status_code, answer.content_type) == (400, FHIR_JSON)
    assert fhir.get(path, headers=XML).status_code == 406


BATCH = {
    "resourceType": "Bundle",
    "type": "batch",
    "entry": [
        {"request": {"method": "GET", "url": url}}
        for url in (EGG, f"{EGG}?_format=xml&_summary=text", "Patient/nobody", "metadata")
    ],
}


def posted(fhir: Fhir, path: str, resource, **headers: str):
    body = resource if isinstance(resource, bytes) else xml.dumps(resource, pretty=False)
    media = headers.pop("Content_Type", "application/fhir+xml")
    return fhir.post(path, body, headers=headers, content_type=media)


def test_a_batch_in_xml_is_answered_in_what_is_accepted(fhir):
    for media in ["application/fhir+xml", "text/xml; charset=utf-8"]:
        for accept in ["application/fhir+xml", FHIR_JSON]:
            answer = posted(fhir, "/fhir", BATCH, Accept=accept, Content_Type=media)
            read = xml_reader.loads if accept == XML["Accept"] else fhir_json.loads
            first, second, third, fourth = read(answer.data)["entry"]
            assert first["resource"] == fhir.get(EGG).get_json(force=True)
            assert second["resource"] == fhir.get(f"{EGG}?_summary=text").get_json(force=True)
            assert third["response"]["outcome"]["resourceType"] == "OperationOutcome"
            assert fourth["resource"] == fhir_json.loads(fhir.get("metadata").data)


NO_XML = [
    (b"<", "Bundle: line 1: is not well-formed XML: unclosed token"),
    (b"{}", "Bundle: line 1: is not well-formed XML: not well-formed (invalid token)"),
    (b"<!DOCTYPE a><a/>", "Bundle: line 1: has a DOCTYPE, which FHIR never has; remove it"),
    (
        b'<Patient xmlns="http://hl7.org/fhir"/>',
        "Bundle: is asked for here; resources are imported, not posted",
    ),
]


def test_a_batch_that_is_no_xml_is_refused(fhir):
    for body, diagnostics in NO_XML:
        answer = posted(fhir, "/fhir", body)
        assert answer.status_code == 400
        assert answer.get_json(force=True)["issue"][0]["diagnostics"] == diagnostics


def test_the_parameters_of_an_operation_may_be_in_xml(fhir):
    parameters = {
        "resourceType": "Parameters",
        "parameter": [
            {"name": "patient", "valueId": "p1"},
            {"name": "start", "valueDate": "2000-01-01"},
        ],
    }
    answer = posted(fhir, "DocumentReference/$docref", parameters)
    asked = fhir.get("DocumentReference/$docref?patient=p1&start=2000-01-01")
    assert answer.get_json(force=True)["entry"] == asked.get_json(force=True)["entry"]
    wrong = posted(fhir, "DocumentReference/$docref", b"<a/>")
    message = 'request: line 1: is not FHIR: its first element needs xmlns="http://hl7.org/fhir"'
    assert wrong.get_json(force=True)["issue"][0]["diagnostics"] == message


SIZES = (0, 1, 2, 3, 100, PIECE, 2 * PIECE + 1)


@pytest.fixture(scope="module")
def binaries(make_app):
    """A client of an app with a Binary of each size."""
    app = make_app(seed=False)
    for size in SIZES:
        store(app, f"b{size}", Random(size).randbytes(size), contentType="text/xml")
    return Fhir(app, token_for(app, "system/*.rs"))


@pytest.mark.parametrize("size", SIZES)
def test_a_binary_is_the_same_resource_in_xml_whatever_its_size(binaries, size):
    name, data = f"Binary/b{size}", Random(size).randbytes(size)
    plain = fhir_json.loads(binaries.get(f"{name}?_format=json").data)
    for path in (name, f"{name}?_format=xml&_pretty=false"):
        answer = binaries.get(path, headers={} if "?" in path else XML)
        assert (answer.content_type, answer.content_length) == (FHIR_XML, len(answer.data))
        resource = xml_reader.loads(answer.data)
        assert base64.b64decode(resource.get("data", "")) == data
        assert resource == plain
        assert (b"\n" in answer.data) != ("pretty" in path)
    # A document may be XML itself.
    for accept in ("application/xml", "*/*", "application/fhir+xml;q=0.5, text/xml"):
        answer = binaries.get(name, headers={"Accept": accept})
        assert (answer.data, answer.content_type) == (data, "text/xml")


@pytest.fixture
def hostile(make_app: Callable[..., Flask], tmp_path) -> Fhir:
    """Return a client of a server that holds what XML cannot hold: nothing checks it there."""
    app = make_app(seed=False)
    contained = [{"resourceType": "Basic", "id": "b", "code": {"text": "a\x01b"}}]
    resources = [patient("bad", contained=contained), patient("good")]
    load(app, *(write(tmp_path, resource, f"{resource['id']}.json") for resource in resources))
    return Fhir(app, token_for(app, "system/*.rs"))


def test_character_that_xml_cannot_hold_is_a_406(hostile):
    character = "has the character U+0001, which XML cannot hold: this cannot be written in XML"
    for path, place in (
        ("Patient/bad", "Patient.contained[0].code.text"),
        ("Patient?_id=bad", "Bundle.entry[0].resource.contained[0].code.text"),
    ):
        answer = hostile.get(path, headers=XML)
        assert (answer.status_code, answer.content_type) == (406, FHIR_XML)
        (issue,) = xml_reader.loads(answer.data)["issue"]
        assert issue["diagnostics"] == f"{place} {character}; use application/fhir+json."
        assert hostile.get(path).status_code == 200
    assert hostile.get("Patient/good", headers=XML).status_code == 200
