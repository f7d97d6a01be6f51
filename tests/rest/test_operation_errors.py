"""What operations refuse: wrong questions in a URL, in a form and in a Parameters resource.

Source: FHIR R4 operations §3.2.0.5; decisions §4.
"""

from __future__ import annotations

from tests.support.helpers import FHIR_JSON, assert_outcome
from tests.support.operations import DOCREF, EVERYTHING, FORM, LOINC, parameters, post

NO_BODY = "An operation by POST takes a Parameters resource, or a form."
NO_PATIENT = "is not the id of one patient"
NO_DATE = "is not a date; use YYYY, YYYY-MM or YYYY-MM-DD"
NO_COUNT = "is not a whole number of 0 or more"
NO_CURSOR = "is not one of this server's; start again from the first page"
NOT_A_PAIR = "each member of parameter has a name and one value[x]"
NOT_HERE = "There is no such resource type or operation here."
# A question, the code, the parameter at fault and what is said of it.
WRONG = [
    *(
        (DOCREF, query, "required", "patient", "is required by $docref")
        for query in ("", "?patient=", "?patient=%20")
    ),
    *(
        (DOCREF, f"?patient={value}", "value", "patient", NO_PATIENT)
        for value in ("p1,p2", r"p1\,p2", "Practitioner/p1", "https://a.example/Patient/p1", "p/1")
    ),
    *(
        (DOCREF, f"?patient=p1&{name}=1", "not-supported", name[:40],
         "is not a parameter of $docref")
        for name in ("patient:Patient", "date", "_type", "_elements", "x" * 90)
    ),
    *(
        (EVERYTHING, f"?{name}=p1", "not-supported", name, "is not a parameter of $everything")
        for name in ("patient", "_elements", "_id")
    ),
    *(
        (path, f"{query}{name}=1&{name}=1", "invalid", name, "may be given once")
        for path, query, name in (
            (DOCREF, "?", "patient"),
            (DOCREF, "?patient=p1&", "start"),
            (DOCREF, "?patient=p1&", "_count"),
            (EVERYTHING, "?", "end"),
            (EVERYTHING, "?", "_since"),
        )
    ),
    *(
        (path, f"{query}{name}=nonsense", "value", name, f"'nonsense' {NO_DATE}")
        for path, query, names in (
            (DOCREF, "?patient=p1&", ("start", "end")),
            (EVERYTHING, "?", ("start", "end", "_since")),
        )
        for name in names
    ),
    (DOCREF, "?patient=p1&start=2024-02-30", "value", "start",
     "'2024-02-30' is not a date of the calendar"),
    # A prefix is a search's: here it would ask for the contrary.
    (DOCREF, "?patient=p1&end=ge2024", "value", "end", f"'ge2024' {NO_DATE}"),
    (DOCREF, "?patient=p1&start=2024&end=2023", "value", "end", "lies before start"),
    (EVERYTHING, "?start=2024-01-02&end=2024-01-01", "value", "end", "lies before start"),
    (EVERYTHING, "?start=2024&end=2023&_type=Patient", "value", "end", "lies before start"),
    (DOCREF, "?patient=p1&on-demand=yes", "value", "on-demand",
     "'yes' is not a boolean; use true or false"),
    (DOCREF, "?patient=p1&type=a|b|c", "value", "type",
     "is not a token; use code, system|code, |code or system|"),
    (DOCREF, "?patient=p1&type=,", "value", "type", "lists no value"),
    (DOCREF, "?patient=p1&type=18842-5&type=,%20,", "value", "type", "lists no value"),
    (DOCREF, "?patient=p1&profile=,", "value", "profile", "lists no value"),
    (DOCREF, f"?patient=p1&type={','.join('abc' * 67)}", "value", "type",
     "200 values are the most"),
    (DOCREF, "?patient=p1&type=a%00", "value", "type", "has a NUL character"),
    (DOCREF, "?patient=%00", "value", "patient", "has a NUL character"),
    (EVERYTHING, "?_type=Observation", "value", "_type", "'Observation' is not served here"),
    (EVERYTHING, "?_type=,", "value", "_type", "lists no value"),
    (EVERYTHING, "?_type=patient", "value", "_type", "'patient' is not served here"),
    (EVERYTHING, "?_type=Practitioner,Provenance", "value", "_type",
     "Practitioner comes with what refers to it; name that too"),
    *(
        (path, f"{query}{name}={value}", "value", name, message)
        for path, query in ((DOCREF, "?patient=p1&"), (EVERYTHING, "?"))
        for name, value, message in (
            *(("_count", value, f"'{value}' {NO_COUNT}") for value in ("-1", "1.5", "x", "²")),
            ("_cursor", "nonsense", NO_CURSOR),
            ("_pretty", "maybe", "'maybe' is not a boolean; use true or false"),
        )
    ),
    (EVERYTHING, "?_since=%FF", "value", "request", "the parameters are not UTF-8"),
]  # fmt: skip


def test_a_wrong_question_is_a_400_by_get_and_by_form(fhir):
    for path, query, code, parameter, message in WRONG:
        wrong = (400, code, f"{parameter}: {message}", parameter)
        assert_outcome(fhir.get(f"{path}{query}"), *wrong)
        by_form = fhir.post(path, query.removeprefix("?").encode(), content_type=FORM)
        assert_outcome(by_form, *wrong)


MISMATCHES = [
    (("patient", "valueId", "p1,p2"), "is not the id of one patient", "patient"),
    (("patient", "valueReference", {"reference": "Patient/p1"}), None, "patient"),
    (("patient", "valueId", ""), None, "patient"),
    (("patient", "valueId", None), None, "patient"),
    (("patient", "valueId", 1), None, "patient"),
    (("patient", "valueId", ["p1"]), None, "patient"),
    (("patient", "valueId", {"code": "p1"}), None, "patient"),
    (("patient", "valueX", "p1"), None, "patient"),
    (("patient", "value", "p1"), None, "patient"),
    (("patient", "valueId", "p1\0"), "has a NUL character", "patient"),
    (("patient", "valueString", "\ud800"), None, "patient"),
    (("type", "valueCoding", {"system": LOINC}), None, "type"),
    (("type", "valueCoding", {"system": LOINC, "code": ""}), None, "type"),
    (("type", "valueCoding", {"system": 1, "code": "x"}), None, "type"),
    (("type", "valueCoding", {"system": LOINC, "code": ["18842-5"]}), None, "type"),
    (("type", "valueCoding", "18842-5"), None, "type"),
    (("type", "valueCoding", {"code": "\udfff"}), None, "type"),
    (("type", "valueCodeableConcept", {"coding": [{"code": "18842-5"}]}), None, "type"),
    (("_count", "valueInteger", "5"), None, "_count"),
    (("_count", "valueInteger", True), None, "_count"),
    (("_count", "valueInteger", 10**30), None, "_count"),
    (("_count", "valueDecimal", 5.0), None, "_count"),
    (("_count", "valueInteger", -1), "'-1' is not a whole number of 0 or more", "_count"),
    (("on-demand", "valueBoolean", "true"), None, "on-demand"),
    (("on-demand", "valueBoolean", 1), None, "on-demand"),
    (
        ("start", "valueBoolean", True),
        "'true' is not a date; use YYYY, YYYY-MM or YYYY-MM-DD",
        "start",
    ),
]


def test_a_value_that_is_not_what_its_name_says_is_a_400(fhir):
    for given, diagnostics, parameter in MISMATCHES:
        beside = [] if given[0] == "patient" else [("patient", "valueId", "p1")]
        response = post(fhir, DOCREF, parameters(given, *beside))
        wrong = diagnostics or f"has a {given[1]} that is not understood"
        assert_outcome(response, 400, "value", f"{parameter}: {wrong}", parameter)


NO_PARAMETERS = [
    (b"patient=p1", "the body is not JSON"),
    (b"{", "the body is not JSON"),
    (b"\xff{}", "the body is not JSON"),
    (b"\xef\xbb\xbf{}", "the body is not JSON"),
    (b"[" * 100_000, "the body is not JSON"),
    (b'{"a":' * 100_000, "the body is not JSON"),
    (b'{"resourceType": "Parameters", "resourceType": "Parameters"}', "the body is not JSON"),
    (b'{"resourceType": "Parameters", "parameter": NaN}', "the body is not JSON"),
    (b'{"resourceType": "Parameters", "id": 1e9999999999999999999}', "the body is not JSON"),
    ([], "the body is not a Parameters resource"),
    ("Parameters", "the body is not a Parameters resource"),
    ({}, "the body is not a Parameters resource"),
    ({"resourceType": ["Parameters"]}, "the body is not a Parameters resource"),
    ({"resourceType": "Patient"}, "the body is not a Parameters resource"),
    *(
        (
            {"resourceType": "Parameters", "parameter": wrong},
            "the member parameter must be a list of objects",
        )
        for wrong in (None, {}, "x", 1, [None], [[]], ["patient"], [{"name": "x"}, 1])
    ),
    *(
        ({"resourceType": "Parameters", "parameter": [wrong]}, NOT_A_PAIR)
        for wrong in (
            {},
            {"name": "patient"},
            {"valueId": "p1"},
            {"name": None, "valueId": "p1"},
            {"name": 1, "valueId": "p1"},
            {"name": "\ud800", "valueId": "p1"},
            {"name": "patient", "_valueId": {"id": "p1"}},
            {"name": "patient", "resource": {"resourceType": "Patient"}},
            {"name": "patient", "part": [{"name": "patient", "valueId": "p1"}]},
            {"name": "patient", "valueId": "p1", "valueString": "p2"},
        )
    ),
    (
        parameters(*[("type", "valueCoding", {"code": "x"})] * 201),
        "has more than 200 parameters; that is the most",
    ),
]


def test_a_body_that_is_no_parameters_is_a_400(fhir):
    for body, diagnostics in NO_PARAMETERS:
        response = post(fhir, DOCREF, body)
        assert_outcome(response, 400, "value", f"request: {diagnostics}", "request")


def test_a_name_that_is_given_twice_is_a_400(fhir):
    twice = parameters(("patient", "valueId", "p1"), ("patient", "valueId", "p1"))
    message = "patient: may be given once"
    assert_outcome(post(fhir, DOCREF, twice), 400, "invalid", message, "patient")
    once = post(fhir, f"{DOCREF}?patient=p1", parameters(("patient", "valueId", "p1")))
    assert_outcome(once, 400, "invalid", message, "patient")


def test_a_name_that_is_unknown_is_a_400_whatever_its_length(fhir):
    response = post(fhir, DOCREF, parameters(("n" * 900_000, "valueId", "p1")))
    message = f"{'n' * 40}: is not a parameter of $docref"
    assert_outcome(response, 400, "not-supported", message, "n" * 40)


def test_a_body_of_another_type_or_compressed_is_a_415(fhir):
    bodies = {
        "text/plain": b"patient=p1",
        "application/xhtml+xml": b"<Parameters/>",
        "multipart/form-data; boundary=x": b"--x--",
        "application/json-patch+json": b"[]",
        None: b"patient=p1",
    }
    for path in (DOCREF, EVERYTHING):
        for media, body in bodies.items():
            response = fhir.post(path, body, content_type=media)
            assert_outcome(response, 415, "not-supported", NO_BODY)
    message = "An operation by POST takes a body without Content-Encoding."
    for media in (FHIR_JSON, FORM):
        response = fhir.post(
            EVERYTHING, b"\x1f\x8b", content_type=media, headers={"Content-Encoding": "gzip"}
        )
        assert_outcome(response, 415, "not-supported", message)


def test_an_operation_elsewhere_is_a_404(fhir):
    for path in (
        *("DocumentReference/doc-p1-hp-2024/$docref", "AllergyIntolerance/$docref"),
        *("Patient/$everything", "Patient/$docref?patient=p1", "$docref"),
        *("/api/DocumentReference/$docref", f"{EVERYTHING}/", f"{EVERYTHING}x"),
    ):
        assert_outcome(fhir.get(path), 404, "not-supported", NOT_HERE)
