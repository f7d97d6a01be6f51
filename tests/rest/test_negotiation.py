"""The form of an answer: Accept, `_format`, `_pretty` and Prefer; parameters that are unknown."""

from __future__ import annotations

import pytest

from tests.support.helpers import FHIR_JSON, FHIR_XML, FORMATS, NEITHER, assert_outcome
from tests.support.operations import EVERYTHING

EGG = "AllergyIntolerance/al-p3-egg"
# One path of each interaction that answers with FHIR JSON.
PATHS = (
    *(EGG, f"{EGG}/_history/1", f"{EGG}/_history", "AllergyIntolerance/_history"),
    *("AllergyIntolerance", EVERYTHING, "metadata"),
)
OURS = (
    "this server answers application/fhir+json and application/fhir+xml"
    " with fhirVersion=4.0 and charset=utf-8."
)
STRICT = {"Prefer": "handling=strict"}

JSON_WANTED = (
    *("*/*", "application/*", "application/json", "text/json", "APPLICATION/FHIR+JSON"),
    *("application/fhir+json;charset=utf-8", 'application/json; charset="UTF-8"'),
    *("application/fhir+json; fhirVersion=4.0", "application/fhir+json;FHIRVERSION=4.0;q=0.1"),
    *("application/fhir+json; fhirVersion=4.0.1", "*/*;fhirVersion=4.0"),
    # Others may have a higher quality, as long as JSON is accepted.
    "text/turtle, application/fhir+json;q=0.001",
    # A browser's XML is not FHIR XML.
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    # XML has the same quality, or a lower one.
    *("application/fhir+xml, application/fhir+json", "application/xml,application/json"),
    *("application/fhir+xml;q=0.8, application/*;q=0.9", "application/fhir+xml;q=0, */*;q=0.1"),
    *("text/xml, application/fhir+json", "application/fhir+xml;fhirVersion=5.0, */*;q=0.2"),
    # A range with another version is not the only one.
    "application/fhir+json;fhirVersion=5.0, application/fhir+json;fhirVersion=4.0;q=0.5",
    "application/fhir+json;fhirVersion=3.0, application/json;q=0.1",
    "application/fhir+json;fhirVersion=3.0, */*;q=0.1",
    # The most specific range decides, neither the order nor the highest quality.
    *("*/*;q=0, application/fhir+json", "application/fhir+json;q=0.1, application/*;q=0"),
    *("application/json;q=0, application/fhir+json", "application/json;q=0, */*"),
    "application/fhir+json;q=0, application/fhir+json;fhirVersion=4.0",
    # A parameter that says nothing of the form; nothing that can be read.
    *("application/fhir+json; profile=http://example.org", "", ",", "application/xml;q=2"),
)  # fmt: skip
XML_WANTED = (
    *("application/fhir+xml", "APPLICATION/FHIR+XML", "application/xml", "text/xml"),
    "application/fhir+xml;charset=utf-8;fhirVersion=4.0",
    "application/fhir+xml, application/fhir+json;q=0.9",
    "application/fhir+xml;q=0.2, application/fhir+json;q=0.1",
    "application/xml;q=0.9, application/json;q=0.8, */*;q=0.1",
    # A name wins over a range.
    *("application/fhir+xml, */*", "application/xml, application/*"),
    *("application/fhir+json;q=0, application/*",),
    "application/fhir+json;fhirVersion=5.0, application/fhir+xml;q=0.1",
    # No browser sends FHIR's own name; and here nothing else is accepted.
    *("text/html, application/fhir+xml, */*;q=0.8", "text/html, application/xml;q=0.9"),
)  # fmt: skip
REFUSED = {
    NEITHER: (
        *("text/*", "image/*, text/turtle", "json", "application/json+fhir", "text/turtle"),
        *("application/fhir+json;q=0", "application/fhir+xml;q=0", "application/xml;q=0, a/b"),
        "application/fhir+json;q=0, application/json, application/fhir+xml;q=0.000",
        "application/*;q=0, */*;q=1",
        "application/fhir+json;fhirVersion=4.0;q=0, application/fhir+json",
        "application/fhir+json;fhirVersion=5.0, */*;q=0",
    ),
    f"The Accept header: fhirVersion=3.0 is not supported; {OURS}": (
        "application/fhir+json; fhirVersion=3.0",
    ),
    f"The Accept header: fhirVersion=5.0 is not supported; {OURS}": (
        'application/json;fhirVersion="5.0", application/fhir+xml;fhirVersion=3.0',
    ),
    f"The Accept header: charset=iso-8859-1 is not supported; {OURS}": (
        "application/fhir+json;fhirVersion=4.0;charset=ISO-8859-1",
    ),
    f"The Accept header: fhirVersion={'9' * 28} is not supported; {OURS}": (
        f"*/*;fhirVersion={'9' * 90}",
    ),
}  # fmt: skip


def test_accept_header_decides_between_json_xml_and_406(fhir):
    def kind(accept: str) -> str:
        return fhir.get(EGG, headers={"Accept": accept}).content_type

    assert [accept for accept in JSON_WANTED if kind(accept) != FHIR_JSON] == []
    assert [accept for accept in XML_WANTED if kind(accept) != FHIR_XML] == []
    for diagnostics, refused in REFUSED.items():
        for accept in refused:
            response = fhir.get(EGG, headers={"Accept": accept})
            assert_outcome(response, 406, "not-supported", diagnostics)


def test_format_overrides_accept(fhir):
    """A plus sign may come without its escape."""
    kinds = {
        "text/html": (
            FHIR_JSON,
            ("json", "JSON", "text/json", "application/json", "application/fhir%2Bjson",
             "application/fhir+json", "application/fhir%2Bjson;%20fhirVersion=4.0",
             "application/fhir+json;+charset=utf-8;+fhirVersion=4.0", "json;charset=UTF-8"),
        ),
        FHIR_JSON: (
            FHIR_XML,
            ("xml", "XML", "text/xml", "application/xml", "application/fhir%2Bxml",
             "application/fhir+xml", "application/fhir+xml;+fhirVersion=4.0", "xml;charset=UTF-8"),
        ),
    }  # fmt: skip
    for accept, (expected, values) in kinds.items():
        for value in values:
            response = fhir.get(f"{EGG}?_format={value}", headers={"Accept": accept})
            assert (response.status_code, response.content_type) == (200, expected), value


def test_format_that_is_not_supported_is_a_406(fhir):
    for value in ("ttl", "html", "text/turtle", "application/xml%2Bfhir"):
        message = f"{value.replace('%2B', '+')!r} is not supported; use {FORMATS}"
        response = fhir.get(f"{EGG}?_format={value}", headers={"Accept": FHIR_JSON})
        assert_outcome(response, 406, "not-supported", f"_format: {message}", "_format")
    for value, misfit in (
        ("application/fhir%2Bjson;fhirVersion=3.0", "fhirVersion=3.0"),
        ("json;+fhirVersion=5.0", "fhirVersion=5.0"),
        ("application/fhir+json;charset=latin1", "charset=latin1"),
    ):
        message = f"_format: {misfit} is not supported; {OURS}"
        response = fhir.get(f"{EGG}?_format={value}")
        assert_outcome(response, 406, "not-supported", message, "_format")


@pytest.mark.parametrize("path", PATHS)
def test_each_interaction_negotiates_its_form(fhir, path):
    for query, accept in (("", "text/json"), ("_format=json", "*/*"), ("_format=", FHIR_JSON)):
        response = fhir.get(f"{path}?{query}", headers={"Accept": accept})
        assert (response.status_code, response.content_type) == (200, FHIR_JSON)
    assert fhir.get(f"{path}?_format=xml").content_type == FHIR_XML
    assert_outcome(fhir.get(path, headers={"Accept": "text/turtle"}), 406, "not-supported", NEITHER)
    message = f"_format: 'ttl' is not supported; use {FORMATS}"
    assert_outcome(fhir.get(f"{path}?_format=ttl"), 406, "not-supported", message, "_format")

    pretty, compact = fhir.get(f"{path}?_pretty=true"), fhir.get(f"{path}?_pretty=false")
    for response in (fhir.get(path), pretty):
        assert response.text.startswith('{\n  "resourceType"')
    assert "\n" not in compact.text
    assert compact.get_json(force=True)["resourceType"]

    for query, code, diagnostics in (
        ("_pretty=1", "value", "_pretty: '1' is not a boolean; use true or false"),
        ("_pretty=True", "value", "_pretty: 'True' is not a boolean; use true or false"),
        ("_pretty=true&_pretty=true", "invalid", "_pretty: may be given once"),
        ("_format=json&_format=json", "invalid", "_format: may be given once"),
    ):
        name = diagnostics.partition(":")[0]
        assert_outcome(fhir.get(f"{path}?{query}"), 400, code, diagnostics, name)


HANDLING = {
    None: None,
    "handling=strict": "strict",
    'handling="strict"': "strict",
    "Handling = STRICT": "strict",
    "return=minimal, handling=strict": "strict",
    "return=representation; handling=strict": "strict",
    "respond-async,wait=10,handling=strict": "strict",
    "handling=lenient": "lenient",
    # RFC 7240 §2: of several the first counts.
    "handling=lenient, handling=strict": "lenient",
    "handling=strict, handling=lenient": "strict",
    # These do not concern an interaction that reads.
    **dict.fromkeys(("return=minimal", "return=OperationOutcome", "respond-async", "handling")),
    **dict.fromkeys(("handling=", "handling=harsh", 'note="a, handling=strict"', "strict", ",")),
}  # fmt: skip


def test_preferred_handling_is_applied_and_confirmed(fhir):
    for path in (EGG, f"{EGG}/_history/1", "metadata"):
        for prefer, applied in HANDLING.items():
            headers = {"Prefer": prefer} if prefer else {}
            response = fhir.get(path, headers=headers)
            expected = applied and f"handling={applied}"
            assert response.headers.get("Preference-Applied") == expected, prefer
            assert "Prefer" in response.headers["Vary"]
            unknown = fhir.get(f"{path}?nonsense=1", headers=headers)
            assert unknown.status_code == (400 if applied == "strict" else 200), prefer
    for path in ("AllergyIntolerance?patient=p1&", f"{EGG}/_history?"):
        headers = {"Prefer": "return=minimal, handling=strict"}
        response = fhir.get(f"{path}_count=1&_pretty=false&_format=json", headers=headers)
        assert response.status_code == 200
        assert response.headers["Preference-Applied"] == "handling=strict"


def test_unknown_parameter_of_a_single_resource_is_refused_under_strict_handling(fhir):
    for path in (EGG, f"{EGG}/_history/1", "metadata"):
        known = "_format or _pretty" + ("" if path == "metadata" else " or _summary or _elements")
        for name in ("nonsense", "_count", "_Format", "_pretty:exact"):
            url = f"{path}?_pretty=true&{name}=1"
            assert fhir.get(url).status_code == 200
            message = f"{name}: is not a parameter here; use {known}"
            assert_outcome(fhir.get(url, headers=STRICT), 400, "not-supported", message, name)
