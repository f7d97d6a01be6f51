"""The tree of errors: each is in the table of decisions §4, and in the module's drawing of it."""

from __future__ import annotations

from fhirapp.fhir import outcome
from fhirapp.fhir.outcome import FhirError, ParameterError, issue, operation_outcome

# decisions §4
TABLE = {
    "InvalidParameter": (400, "value"),
    "UnsupportedParameter": (400, "not-supported"),
    "MissingParameter": (400, "required"),
    "RepeatedParameter": (400, "invalid"),
    "UnknownTerminology": (400, "not-found"),
    "TooCostly": (400, "too-costly"),
    "LoginRequired": (401, "login"),
    "TokenExpired": (401, "expired"),
    "Forbidden": (403, "forbidden"),
    "NotFound": (404, "not-found"),
    "UnknownInteraction": (404, "not-supported"),
    "MethodNotAllowed": (405, "not-supported"),
    "NotAcceptable": (406, "not-supported"),
    "Gone": (410, "deleted"),
    "PreconditionFailed": (412, "conflict"),
    "BodyTooLong": (413, "too-long"),
    "UrlTooLong": (414, "too-long"),
    "UnsupportedMediaType": (415, "not-supported"),
    "RangeNotSatisfiable": (416, "value"),
    "Throttled": (429, "throttled"),
    "HeadersTooLong": (431, "too-long"),
    "InternalError": (500, "exception"),
    "Unavailable": (503, "transient"),
}


def leaves(tree: type[FhirError]) -> dict[str, type[FhirError]]:
    """Return the errors of a tree that have no kinds of their own, by name."""
    kinds = tree.__subclasses__()
    if not kinds:
        return {tree.__name__: tree}
    return {name: leaf for kind in kinds for name, leaf in leaves(kind).items()}


ERRORS = leaves(FhirError)


def test_tree_holds_the_errors_of_the_table_and_no_other():
    assert {name: (error.status, error.code) for name, error in ERRORS.items()} == TABLE


def test_error_is_an_outcome(subtests):
    for name in [name for name in TABLE if name not in leaves(ParameterError)]:
        with subtests.test(name=name):
            error = ERRORS[name]("Say what would be right.")
            assert str(error) == "Say what would be right."
            assert error.headers == {}
            assert error.outcome() == {
                "resourceType": "OperationOutcome",
                "issue": [
                    {
                        "severity": "error",
                        "code": TABLE[name][1],
                        "diagnostics": "Say what would be right.",
                    }
                ],
            }


def test_error_in_a_parameter_names_it_twice(subtests):
    for name in leaves(ParameterError):
        with subtests.test(name=name):
            assert ERRORS[name]("_count", "is not a number").outcome()["issue"] == [
                {
                    "severity": "error",
                    "code": TABLE[name][1],
                    "diagnostics": "_count: is not a number",
                    "expression": ["http._count"],
                }
            ]


def test_error_carries_the_headers_of_its_answer():
    error = outcome.Throttled("Too many.", headers={"Retry-After": "7"}, parameter="client_id")
    assert error.headers == {"Retry-After": "7"}
    assert error.outcome()["issue"][0]["expression"] == ["http.client_id"]


def test_outcome_of_several_issues_keeps_their_order():
    issues = [issue("warning", "not-supported", "b", "x"), issue("information", "value", "a")]
    assert operation_outcome(issues) == {
        "resourceType": "OperationOutcome",
        "issue": [
            {
                "severity": "warning",
                "code": "not-supported",
                "diagnostics": "b",
                "expression": ["http.x"],
            },
            {"severity": "information", "code": "value", "diagnostics": "a"},
        ],
    }
