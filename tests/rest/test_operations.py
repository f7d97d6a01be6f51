"""How operations are asked: by GET, by POST of Parameters, by POST of a form.

Source: FHIR R4 operations §3.2.0.5. What they answer: test_docref.py, test_everything.py; what they
refuse: test_operation_errors.py.
"""

from __future__ import annotations

import json
import tarfile

import pytest

from fhirapp.definition import types
from tests.support.helpers import (
    FHIR_JSON,
    Fhir,
    assert_outcome,
    ids,
    lasting,
    link,
    token_for,
)
from tests.support.operations import DOCREF, EVERYTHING, FORM, LOINC, parameters, post

BOTH = pytest.mark.parametrize("path", [f"{DOCREF}?patient=p1", EVERYTHING])


def test_docref_takes_the_parameters_of_us_core(app, shared):
    package = shared / "data" / "us-core" / "us_core_610.tgz"
    with tarfile.open(package) as files:
        found = files.extractfile("package/OperationDefinition-docref.json")
        assert found is not None
        defined = json.load(found)
    (declared,) = types(app)["DocumentReference"].operations
    assert (declared.definition, declared.name) == (defined["url"], defined["code"])
    assert defined["resource"] == ["DocumentReference"]
    assert (defined["type"], defined["instance"]) == (True, declared.instance)
    assert [
        (parameter.name, parameter.type, int(parameter.required), "*" if parameter.repeats else "1")
        for parameter in declared.parameters
    ] == [
        (parameter["name"], parameter["type"], parameter["min"], parameter["max"])
        for parameter in defined["parameter"]
        if parameter["use"] == "in"
    ]


# The same question, whatever it is sent as: what p1 got in January 2024 of two types.
ASKED = [
    ("patient", "valueId", "p1"),
    ("start", "valueDateTime", "2024-01-01T00:00:00+00:00"),
    ("end", "valueDateTime", "2024-01-31"),
    ("type", "valueCoding", {"system": LOINC, "code": "18842-5"}),
    ("type", "valueCoding", {"code": "34117-2", "display": "History and physical note"}),
    ("on-demand", "valueBoolean", False),
    ("_count", "valueInteger", 5),
]
QUERY = (
    f"patient=p1&start=2024-01-01T00:00:00%2B00:00&end=2024-01-31&type={LOINC}|18842-5"
    "&type=34117-2&on-demand=false&_count=5"
)
FOUND = ["doc-p1-discharge-2024", "doc-p1-hp-2024"]


MEDIA_TYPES = [FHIR_JSON, "application/json", f"{FHIR_JSON}; charset=utf-8; fhirVersion=4.0"]


def test_parameters_by_post_ask_what_a_url_asks(fhir):
    for media in MEDIA_TYPES:
        by_get = fhir.read(f"{DOCREF}?{QUERY}")
        assert ids(by_get) == FOUND
        by_post = post(fhir, DOCREF, parameters(*ASKED), media)
        assert by_post.status_code == 200
        assert ids(by_post.get_json(force=True)) == FOUND


def test_a_form_by_post_asks_what_a_url_asks(fhir):
    by_get = fhir.get(f"{DOCREF}?{QUERY}")
    by_post = fhir.post(DOCREF, QUERY, content_type=FORM)
    assert by_post.data == by_get.data
    # service.md 4: an answer has an entity tag; but nothing held back by it (RFC 9110 §13.1).
    etag = by_post.headers["ETag"]
    assert etag == by_get.headers["ETag"]
    again = fhir.post(DOCREF, QUERY, content_type=FORM, headers={"If-None-Match": etag})
    assert again.data == by_get.data


BODIES = [
    (parameters(ASKED[1], ASKED[2], ASKED[3]), FHIR_JSON),
    (f"start=2024-01-01T00:00:00%2B00:00&end=2024-01-31&type={LOINC}|18842-5".encode(), FORM),
]


def test_url_and_body_are_read_together(fhir):
    for body, media in BODIES:
        response = post(fhir, f"{DOCREF}?patient=p1", body, media)
        assert ids(response.get_json(force=True)) == FOUND[:1]


NO_BODY = [FHIR_JSON, FORM, None]


def test_a_post_without_a_body_asks_what_its_url_asks(fhir):
    for media in NO_BODY:
        response = fhir.post(EVERYTHING, content_type=media)
        assert response.status_code == 200
        assert response.get_json(force=True)["total"] == fhir.read(EVERYTHING)["total"]


SAME = [
    ("patient", "valueString", "p1", "patient=p1"),
    ("type", "valueCode", "18842-5", "type=18842-5"),
    ("type", "valueCoding", {"system": "", "code": "18842-5"}, "type=18842-5"),
    ("start", "valueDate", "2024-01-30", "start=2024-01-30"),
    ("start", "valueInstant", "2024-01-30T00:00:00Z", "start=2024-01-30T00:00:00Z"),
    ("on-demand", "valueBoolean", True, "on-demand=true"),
    ("profile", "valueUri", "http://x.example/a", "profile=http://x.example/a"),
    ("profile", "valueUrl", "http://x.example/a", "profile=http://x.example/a"),
    ("_count", "valuePositiveInt", 3, "_count=3"),
    ("_count", "valueUnsignedInt", 0, "_count=0"),
]


def test_a_value_says_the_same_in_json_and_in_a_url(fhir):
    for name, kind, value, written in SAME:
        beside = [] if name == "patient" else [("patient", "valueId", "p1")]
        response = post(fhir, DOCREF, parameters((name, kind, value), *beside))
        assert response.status_code == 200
        there = "" if name == "patient" else "patient=p1&"
        by_get = fhir.read(f"{DOCREF}?{there}{written}")
        assert ids(response.get_json(force=True)) == ids(by_get)


SEPARATORS = [
    # In a URL each of these would be two values, of which one occurs.
    ("type", "valueCoding", {"code": "18842-5,34117-2"}),
    ("type", "valueCoding", {"code": f"{LOINC}|18842-5"}),
    ("type", "valueCoding", {"system": f"x,{LOINC}", "code": "18842-5"}),
    ("type", "valueCoding", {"code": "x\\,18842-5"}),
    (
        "profile",
        "valueCanonical",
        "x,http://hl7.org/fhir/us/core/StructureDefinition/us-core-documentreference",
    ),
]


def test_separators_of_urls_do_not_separate_values_in_json(fhir):
    for name, kind, value in SEPARATORS:
        response = post(fhir, DOCREF, parameters(("patient", "valueId", "p1"), (name, kind, value)))
        assert response.get_json(force=True)["total"] == 0
        # Nor in the links, which ask the same by GET.
        first = link(response.get_json(force=True), "first")
        assert fhir.read(first or "")["total"] == 0


def test_a_page_that_is_asked_for_too_large_is_cut(make_app):
    app = make_app(page_size=2, page_max=2)
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    for path in (f"{DOCREF}?patient=p1&", f"{EVERYTHING}?"):
        bundle = fhir.read(f"{path}_count=5000")
        assert len(ids(bundle)) == 2
        assert (link(bundle, "first") or "").endswith("_count=2")


@BOTH
def test_a_head_has_the_headers_of_the_get(fhir, path):
    got, head = fhir.get(path), fhir.request("HEAD", path)
    assert (head.status_code, head.data) == (200, b"")
    assert lasting(head) == lasting(got)


@BOTH
def test_operation_answer_is_not_sent_again(fhir, path):
    etag = fhir.get(path).headers["ETag"]
    assert etag.startswith('W/"')
    for method in ("GET", "HEAD"):
        again = fhir.request(method, path, headers={"If-None-Match": etag})
        assert (again.status_code, again.data, again.headers["ETag"]) == (304, b"", etag)
    assert fhir.get(path, headers={"If-None-Match": 'W/"other"'}).status_code == 200


@BOTH
def test_operation_without_a_token_is_refused(http, path):
    # Failures are counted by address.
    response = http.get(f"/fhir/{path}", environ_overrides={"REMOTE_ADDR": "192.0.2.14"})
    message = "An access token is needed: send Authorization: Bearer <token>."
    assert_outcome(response, 401, "login", message)
