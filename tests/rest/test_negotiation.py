"""What a client may ask of the answer's form: Accept, `_format`, `_pretty`, Prefer; and parameters
that nothing knows.
"""

from __future__ import annotations

import pytest

from tests.support.helpers import FHIR_JSON, FHIR_XML, FORMATS, NEITHER, assert_outcome

EGG = "AllergyIntolerance/al-p3-egg"
# One address of each interaction that answers with FHIR JSON.
PATHS = [
    EGG,
    f"{EGG}/_history/1",
    f"{EGG}/_history",
    "AllergyIntolerance/_history",
    "AllergyIntolerance",
    "metadata",
]
OURS = (
    "this server answers application/fhir+json and application/fhir+xml"
    " with fhirVersion=4.0 and charset=utf-8."
)
STRICT = {"Prefer": "handling=strict"}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("query", "accept"),
    [
        ("", None),
        ("", "application/json"),
        ("", "text/json"),
        ("_format=json", "*/*"),
        ("_format=", "application/fhir+json"),
        # it overrides Accept
        ("_format=application/json", "text/html"),
        ("_format=application/fhir%2Bjson", "application/xml"),
    ],
)
def test_every_name_of_json_is_answered_in_fhir_json(fhir, path, query, accept):
    response = fhir.get(f"{path}?{query}", headers={"Accept": accept} if accept else {})
    assert response.status_code == 200
    assert response.content_type == FHIR_JSON


@pytest.mark.parametrize(
    "accept",
    [
        "*/*",
        "application/*",
        "APPLICATION/FHIR+JSON",
        "application/fhir+json;charset=utf-8",
        'application/json; charset="UTF-8"',
        "application/fhir+json; fhirVersion=4.0",
        "application/fhir+json;FHIRVERSION=4.0;q=0.1",
        "application/fhir+json; fhirVersion=4.0.1",
        "*/*;fhirVersion=4.0",
        # others may be liked better, as long as JSON is taken
        "text/turtle, application/fhir+json;q=0.001",
        # a browser's XML is no FHIR
        "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
        # XML is liked as much, or less
        "application/fhir+xml, application/fhir+json",
        "application/xml,application/json",
        "application/fhir+xml;q=0.8, application/*;q=0.9",
        "application/fhir+xml;q=0, */*;q=0.1",
        "text/xml, application/fhir+json",
        "application/fhir+xml;fhirVersion=5.0, application/*;q=0.2",
        # a range with another version is not the only one
        "application/fhir+json;fhirVersion=5.0, application/fhir+json;fhirVersion=4.0;q=0.5",
        "application/fhir+json;fhirVersion=3.0, application/json;q=0.1",
        "application/fhir+json;fhirVersion=3.0, */*;q=0.1",
        # the most specific range decides, not the order and not the greatest quality
        "*/*;q=0, application/fhir+json",
        "application/fhir+json;q=0.1, application/*;q=0",
        "application/json;q=0, application/fhir+json",
        "application/json;q=0, */*",
        "application/fhir+json;q=0, application/fhir+json;fhirVersion=4.0",
        # parameters that say nothing of the form
        "application/fhir+json; profile=http://example.org",
        # nothing in it that can be read
        "",
        ",",
        "application/xml;q=2",
    ],
)
def test_an_accept_header_that_allows_fhir_json(fhir, accept):
    response = fhir.get(EGG, headers={"Accept": accept})
    assert response.status_code == 200
    assert response.content_type == FHIR_JSON


@pytest.mark.parametrize(
    "accept",
    [
        "application/fhir+xml",
        "APPLICATION/FHIR+XML",
        "application/xml",
        "text/xml",
        "application/fhir+xml;charset=utf-8;fhirVersion=4.0",
        "application/fhir+xml, application/fhir+json;q=0.9",
        "application/fhir+xml;q=0.2, application/fhir+json;q=0.1",
        "application/xml;q=0.9, application/json;q=0.8, */*;q=0.1",
        # what is named is liked better than what is not
        "application/fhir+xml, */*",
        "application/xml, application/*",
        "application/fhir+json;q=0, application/*",
        "application/fhir+json;fhirVersion=5.0, application/fhir+xml;q=0.1",
        # FHIR's own name is no browser's, and there is nothing else
        "text/html, application/fhir+xml, */*;q=0.8",
        "text/html, application/xml;q=0.9",
    ],
)
def test_an_accept_header_that_likes_fhir_xml_better(fhir, accept):
    response = fhir.get(EGG, headers={"Accept": accept})
    assert response.status_code == 200
    assert response.content_type == FHIR_XML


@pytest.mark.parametrize(
    ("accept", "diagnostics"),
    [
        ("text/*", NEITHER),
        ("image/*, text/turtle", NEITHER),
        ("json", NEITHER),
        ("application/json+fhir", NEITHER),
        ("application/fhir+json;q=0", NEITHER),
        ("application/fhir+json;q=0, application/json, application/fhir+xml;q=0.000", NEITHER),
        ("application/fhir+xml;q=0", NEITHER),
        ("application/xml;q=0, text/html", NEITHER),
        ("application/*;q=0, */*;q=1", NEITHER),
        ("application/fhir+json;fhirVersion=4.0;q=0, application/fhir+json", NEITHER),
        ("application/fhir+json;fhirVersion=5.0, */*;q=0", NEITHER),
        (
            "application/fhir+json; fhirVersion=3.0",
            f"The Accept header: fhirVersion=3.0 is not supported; {OURS}",
        ),
        (
            'application/json;fhirVersion="5.0", application/fhir+xml;fhirVersion=3.0',
            f"The Accept header: fhirVersion=5.0 is not supported; {OURS}",
        ),
        (
            "application/fhir+json;fhirVersion=4.0;charset=ISO-8859-1",
            f"The Accept header: charset=iso-8859-1 is not supported; {OURS}",
        ),
        (
            f"*/*;fhirVersion={'9' * 90}",
            f"The Accept header: fhirVersion={'9' * 28} is not supported; {OURS}",
        ),
    ],
)
def test_an_accept_header_that_allows_none_is_a_406(fhir, accept, diagnostics):
    response = fhir.get(EGG, headers={"Accept": accept})
    assert_outcome(response, 406, "not-supported", diagnostics)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("accept", ["text/turtle", "application/fhir+json;q=0"])
def test_every_interaction_refuses_a_client_that_takes_neither_format(fhir, path, accept):
    assert_outcome(
        fhir.get(path, headers={"Accept": accept}),
        406,
        "not-supported",
        NEITHER,
    )


@pytest.mark.parametrize(
    "value",
    [
        "json",
        "JSON",
        "text/json",
        "application/json",
        "application/fhir%2Bjson",
        # a plus sign that was not escaped
        "application/fhir+json",
        "application/fhir%2Bjson;%20fhirVersion=4.0",
        "application/fhir+json;+charset=utf-8;+fhirVersion=4.0",
        "json;charset=UTF-8",
    ],
)
def test_a_format_that_is_json(fhir, value):
    response = fhir.get(f"{EGG}?_format={value}", headers={"Accept": "text/html"})
    assert response.status_code == 200
    assert response.content_type == FHIR_JSON


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "value",
    [
        *("xml", "XML", "text/xml", "application/xml", "application/fhir%2Bxml"),
        *("application/fhir+xml", "application/fhir+xml;+fhirVersion=4.0", "xml;charset=UTF-8"),
    ],
)
def test_a_format_that_is_xml(fhir, path, value):
    separator = "&" if "?" in path else "?"
    response = fhir.get(f"{path}{separator}_format={value}", headers={"Accept": FHIR_JSON})
    assert response.status_code == 200
    assert response.content_type == FHIR_XML


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("value", ["ttl", "html", "text/turtle", "application/xml%2Bfhir"])
def test_a_format_that_is_neither_is_a_406(fhir, path, value):
    shown = value.replace("%2B", "+")
    assert_outcome(
        # whatever Accept allows
        fhir.get(f"{path}?_format={value}", headers={"Accept": FHIR_JSON}),
        406,
        "not-supported",
        f"_format: {shown!r} is not supported; use {FORMATS}",
        "_format",
    )


@pytest.mark.parametrize(
    ("value", "misfit"),
    [
        ("application/fhir%2Bjson;fhirVersion=3.0", "fhirVersion=3.0"),
        ("json;+fhirVersion=5.0", "fhirVersion=5.0"),
        ("application/fhir+json;charset=latin1", "charset=latin1"),
    ],
)
def test_a_format_of_another_version_is_a_406(fhir, value, misfit):
    assert_outcome(
        fhir.get(f"{EGG}?_format={value}"),
        406,
        "not-supported",
        f"_format: {misfit} is not supported; {OURS}",
        "_format",
    )


@pytest.mark.parametrize("path", PATHS)
def test_an_answer_is_indented_unless_pretty_is_false(fhir, path):
    pretty, compact = fhir.get(f"{path}?_pretty=true"), fhir.get(f"{path}?_pretty=false")
    assert fhir.get(path).text.startswith('{\n  "resourceType"')
    assert pretty.text.startswith('{\n  "resourceType"')
    assert "\n" not in compact.text
    assert compact.get_json(force=True)["resourceType"]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    ("query", "code", "diagnostics"),
    [
        ("_pretty=1", "value", "_pretty: '1' is not a boolean; use true or false"),
        ("_pretty=True", "value", "_pretty: 'True' is not a boolean; use true or false"),
        ("_pretty=true&_pretty=true", "invalid", "_pretty: may be given once"),
        ("_format=json&_format=json", "invalid", "_format: may be given once"),
    ],
)
def test_what_cannot_be_used_is_refused(fhir, path, query, code, diagnostics):
    parameter = diagnostics.partition(":")[0]
    assert_outcome(fhir.get(f"{path}?{query}"), 400, code, diagnostics, parameter)


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        (None, None),
        ("handling=strict", "strict"),
        ('handling="strict"', "strict"),
        ("Handling = STRICT", "strict"),
        ("return=minimal, handling=strict", "strict"),
        ("return=representation; handling=strict", "strict"),
        ("respond-async,wait=10,handling=strict", "strict"),
        ("handling=lenient", "lenient"),
        # RFC 7240 §2: of several the first counts
        ("handling=lenient, handling=strict", "lenient"),
        ("handling=strict, handling=lenient", "strict"),
        # nothing that concerns an interaction that reads
        ("return=minimal", None),
        ("return=OperationOutcome", None),
        ("respond-async", None),
        ("handling", None),
        ("handling=", None),
        ("handling=harsh", None),
        ('note="a, handling=strict"', None),
        ("strict", None),
        (", ;=,", None),
    ],
)
@pytest.mark.parametrize("path", [EGG, f"{EGG}/_history/1", "metadata"])
def test_the_handling_that_is_preferred_is_applied_and_said(fhir, path, prefer, applied):
    headers = {"Prefer": prefer} if prefer else {}
    response = fhir.get(path, headers=headers)
    assert response.status_code == 200
    assert response.headers.get("Preference-Applied") == (applied and f"handling={applied}")
    assert "Prefer" in response.headers["Vary"]
    unknown = fhir.get(f"{path}?nonsense=1", headers=headers)
    assert unknown.status_code == (400 if applied == "strict" else 200)


@pytest.mark.parametrize("path", ["AllergyIntolerance?patient=p1&", f"{EGG}/_history?"])
def test_a_bundle_says_too_which_handling_was_applied(fhir, path):
    headers = {"Prefer": "return=minimal, handling=strict"}
    response = fhir.get(f"{path}_count=1&_pretty=false&_format=json", headers=headers)
    assert response.status_code == 200
    assert response.headers["Preference-Applied"] == "handling=strict"


@pytest.mark.parametrize("path", [EGG, f"{EGG}/_history/1", "metadata"])
@pytest.mark.parametrize("name", ["nonsense", "_count", "_Format", "_pretty:exact"])
def test_an_unknown_parameter_of_a_single_resource_is_refused_under_strict_handling(
    fhir, path, name
):
    address = f"{path}?_pretty=true&{name}=1"
    assert fhir.get(address).status_code == 200
    known = "_format or _pretty" + ("" if path == "metadata" else " or _summary or _elements")
    diagnostics = f"{name}: is not a parameter here; use {known}"
    response = fhir.get(address, headers=STRICT)
    assert_outcome(response, 400, "not-supported", diagnostics, name)


@pytest.mark.parametrize(("mode", "strict"), [("full", 200), ("terminology", 400)])
def test_the_capabilities_have_one_mode(fhir, mode, strict):
    """FHIR R4 http §3.1.0.13: a server may ignore the mode."""
    assert fhir.get(f"metadata?mode={mode}").status_code == 200
    assert fhir.get(f"metadata?mode={mode}", headers=STRICT).status_code == strict
