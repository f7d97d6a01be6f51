"""What can go wrong, as FHIR says it: one tree of errors, each an OperationOutcome.

    FhirError                      HTTP  issue.code      when
    ├── InvalidParameter           400   value           a value that cannot be read
    ├── UnsupportedParameter       400   not-supported   a modifier, a chain, unknown under strict
    ├── MissingParameter           400   required        a parameter that must be given
    ├── RepeatedParameter          400   invalid         a parameter that may be given once
    ├── UnknownTerminology         400   not-found       a value set or class that is not here
    ├── TooCostly                  400   too-costly      more codes than are looked for
    ├── LoginRequired              401   login           no token, or one that is not valid
    ├── TokenExpired               401   expired
    ├── Forbidden                  403   forbidden       the scope does not reach this far
    ├── NotFound                   404   not-found       unknown, or not visible to this token
    ├── UnknownInteraction         404   not-supported   no such type or operation
    ├── MethodNotAllowed           405   not-supported
    ├── NotAcceptable              406   not-supported   the client takes neither format
    ├── Gone                       410   deleted
    ├── PreconditionFailed         412   conflict        not the version that the client holds
    ├── BodyTooLong                413   too-long
    ├── UrlTooLong                 414   too-long
    ├── UnsupportedMediaType       415   not-supported   a POST body that is no form
    ├── RangeNotSatisfiable        416   value           a range of bytes beyond the end
    ├── Throttled                  429   throttled
    ├── HeadersTooLong             431   too-long
    ├── InternalError              500   exception       a bug
    └── Unavailable                503   transient       the database is busy

Raised low, rendered once (rest/errors.py). The table is decisions §4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar


class FhirError(Exception):
    """An error that reaches the client as an OperationOutcome.

    diagnostics names the thing and what would be right, and never holds patient data; parameter,
    where the fault lies in one, becomes expression `http.<parameter>`.
    """

    status: ClassVar[int]
    code: ClassVar[str]

    def __init_subclass__(cls, *, status: int = 0, code: str = "") -> None:
        if status:
            cls.status = status
        if code:
            cls.code = code

    def __init__(
        self,
        diagnostics: str,
        *,
        parameter: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(diagnostics)
        self.diagnostics = diagnostics
        self.parameter = parameter
        self.headers = dict(headers or {})

    def outcome(self) -> dict[str, Any]:
        """Return the OperationOutcome."""
        return operation_outcome([issue("error", self.code, self.diagnostics, self.parameter)])


class ParameterError(FhirError, status=400):
    """A fault in one parameter of the request."""

    def __init__(self, parameter: str, diagnostics: str) -> None:
        super().__init__(f"{parameter}: {diagnostics}", parameter=parameter)


class InvalidParameter(ParameterError, code="value"): ...


class UnsupportedParameter(ParameterError, code="not-supported"): ...


class MissingParameter(ParameterError, code="required"): ...


class RepeatedParameter(ParameterError, code="invalid"): ...


class UnknownTerminology(ParameterError, code="not-found"): ...


class TooCostly(ParameterError, code="too-costly"): ...


class LoginRequired(FhirError, status=401, code="login"): ...


class TokenExpired(FhirError, status=401, code="expired"): ...


class Forbidden(FhirError, status=403, code="forbidden"):
    # A scope that would reach far enough, where the token's does not.
    needed_scope: str | None = None


class NotFound(FhirError, status=404, code="not-found"): ...


class UnknownInteraction(FhirError, status=404, code="not-supported"): ...


class MethodNotAllowed(FhirError, status=405, code="not-supported"): ...


class NotAcceptable(FhirError, status=406, code="not-supported"): ...


class Gone(FhirError, status=410, code="deleted"): ...


class PreconditionFailed(FhirError, status=412, code="conflict"): ...


class BodyTooLong(FhirError, status=413, code="too-long"): ...


class UrlTooLong(FhirError, status=414, code="too-long"): ...


class UnsupportedMediaType(FhirError, status=415, code="not-supported"): ...


class RangeNotSatisfiable(FhirError, status=416, code="value"): ...


class Throttled(FhirError, status=429, code="throttled"): ...


class HeadersTooLong(FhirError, status=431, code="too-long"): ...


class InternalError(FhirError, status=500, code="exception"): ...


class Unavailable(FhirError, status=503, code="transient"): ...


def issue(
    severity: str, code: str, diagnostics: str, parameter: str | None = None
) -> dict[str, Any]:
    """Return one OperationOutcome.issue; parameter becomes its expression."""
    content: dict[str, Any] = {"severity": severity, "code": code, "diagnostics": diagnostics}
    if parameter is not None:
        content["expression"] = [f"http.{parameter}"]
    return content


def operation_outcome(issues: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return an OperationOutcome of these issues."""
    return {"resourceType": "OperationOutcome", "issue": list(issues)}
