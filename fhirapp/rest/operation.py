"""The declared parameters of operations and histories.

Those of an operation are in the URL by GET, in a Parameters resource or a form by POST.
Source: FHIR R4 operations §3.2.0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from flask import request

from fhirapp.config import settings
from fhirapp.definition import Operation, OperationParameter
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import (
    InvalidParameter,
    MissingParameter,
    RepeatedParameter,
    UnsupportedMediaType,
    UnsupportedParameter,
)
from fhirapp.fhir.temporal import EARLIEST, LATEST, Interval, interval
from fhirapp.rest import response
from fhirapp.rest.paging import fingerprint
from fhirapp.search.query import MAX_LENGTH, MAX_VALUES, Arguments, parse_count
from fhirapp.search.values import SHOWN, escape, split

# By the name of a value[x]: its type in JSON, and how it is written in a URL.
ValueTypes = Mapping[str, tuple[type, Callable[[Any], str | None]]]

# What shapes any operation's answer, beside its own parameters.
SHAPING = (*response.FORM_PARAMETERS, "_count")
_CURSOR = "_cursor"


@dataclass(frozen=True)
class RequestParameters:
    """The parameters of a request that were declared.

    values holds the text of each parameter, a Coding as `system|code`, a resource as JSON, and each
    value of one that repeats. applied are the parameters as links carry them, without the cursor.
    """

    values: Mapping[str, list[str]]
    applied: Arguments
    count: int

    @property
    def cursor(self) -> str | None:
        return self.value(_CURSOR)

    @property
    def parameters(self) -> Arguments:
        """All parameters: applied, and the cursor."""
        return [*self.applied, *([(_CURSOR, self.cursor)] if self.cursor else [])]

    def value(self, name: str) -> str | None:
        """Return the value of a parameter that does not repeat."""
        values = self.values.get(name)
        return values[0] if values else None

    def time(self, name: str) -> Interval | None:
        """Return the time that a parameter covers. Raises InvalidParameter."""
        value = self.value(name)
        if value is None:
            return None
        try:
            # A plus sign that the client did not escape arrives as a space.
            return interval(value.replace(" ", "+"))
        except ValueError as error:
            raise InvalidParameter(name, f"{value[:SHOWN]!r} {error}") from None

    def care(self) -> Interval | None:
        """Return the time from `start` to `end`; None without either. Raises InvalidParameter."""
        start, end = self.time("start"), self.time("end")
        if start is None and end is None:
            return None
        care = Interval(start.low if start else EARLIEST, end.high if end else LATEST)
        if care.low >= care.high:
            raise InvalidParameter("end", "lies before start")
        return care

    def fingerprint(self, path: str) -> str:
        """Return what binds a cursor to this request; page size and format do not matter."""
        selecting = [(name, value) for name, value in self.applied if name not in SHAPING]
        return fingerprint(path, selecting)


def parse_operation(operation: Operation) -> RequestParameters:
    """Read the request's parameters; an unknown one is refused. Raises FhirError."""
    name = f"${operation.name}"
    return read_parameters(
        operation.parameters, _arguments(operation), name, is_paged=operation.is_paged
    )


def read_parameters(
    declared: Iterable[OperationParameter], sent: Arguments, what: str, *, is_paged: bool
) -> RequestParameters:
    """Read the parameters of an operation or a history; an unknown one is refused.

    what they are of is named in errors. Raises ParameterError.
    """
    known = {parameter.name: parameter for parameter in declared}
    values: dict[str, list[str]] = {}
    common = (*SHAPING, _CURSOR) if is_paged else response.FORM_PARAMETERS
    for name, value in sent:
        if name not in known and name not in common:
            raise UnsupportedParameter(name[:SHOWN], f"is not a parameter of {what}")
        if not value:
            continue
        parameter = known.get(name)
        _check_text(name, value, parameter)
        if parameter and parameter.repeats:
            listed = _listed(name, value) if parameter.is_list else [value]
            values.setdefault(name, []).extend(listed)
        elif name in values:
            raise RepeatedParameter(name, "may be given once")
        else:
            values[name] = [value]
    for name, parameter in known.items():
        if parameter.required and name not in values:
            raise MissingParameter(name, f"is required by {what}")
        if parameter.is_list and len(values.get(name, ())) > MAX_VALUES:
            raise InvalidParameter(name, f"{MAX_VALUES} values are the most")
    config = settings()
    sizes = values.get("_count")
    count = parse_count(sizes[0] if sizes else None, config.page_size, config.page_max)
    applied = [
        (name, str(count) if name == "_count" else value)
        for name, value in sent
        if name != _CURSOR and value
    ]
    return RequestParameters(values, applied, count)


def _check_text(name: str, value: str, parameter: OperationParameter | None) -> None:
    """Raises InvalidParameter for a NUL character, or a long value that is no resource."""
    if "\0" in value:
        raise InvalidParameter(name, "has a NUL character")
    if len(value) > MAX_LENGTH and (parameter is None or parameter.type != "Resource"):
        raise InvalidParameter(name, f"is longer than {MAX_LENGTH} characters")


def _listed(name: str, value: str) -> list[str]:
    """Return the values that commas separate, nothing empty. Raises InvalidParameter."""
    listed = [part for part in split(value, ",") if part.strip()]
    if not listed:
        # To ignore it would widen the answer.
        raise InvalidParameter(name, "lists no value")
    return listed


def _arguments(operation: Operation) -> list[tuple[str, str]]:
    """Return the request's parameters that have a value. Raises FhirError."""
    parameters = response.arguments()
    if operation.resource:
        if request.mimetype == response.FORM:
            raise UnsupportedMediaType(operation.takes_resource)
        if any(name == operation.resource for name, _ in parameters):
            # What is in an address is logged.
            raise InvalidParameter(operation.resource, "has to be in the body")
        return parameters + parse_body(resource=operation.resource)
    if request.method == "POST":
        parameters += parse_body()
    return [(name, value) for name, value in parameters if value.strip()]


def parse_body(
    values: ValueTypes | None = None, most: int = response.MAX_PARAMETERS, resource: str = ""
) -> list[tuple[str, str]]:
    """Return the parameters of the body; an empty body has none. Raises FhirError.

    values are the types of value[x] that a Parameters resource may have, and most the members.
    resource is the name of the parameter that any other resource in its place is.
    """
    body, media = request.get_data(), request.mimetype
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise UnsupportedMediaType("An operation by POST takes a body without Content-Encoding.")
    if media == response.FORM:
        return response.parse_form(body)
    if media in response.JSON_NAMES | response.XML_NAMES or not (media or body):
        members = _members(most, resource) if body else []
        return [_pair(member, values or VALUES, resource) for member in members]
    raise UnsupportedMediaType("An operation by POST takes a Parameters resource, or a form.")


def _members(most: int, resource: str) -> list[Mapping[str, Any]]:
    """Return the members of a Parameters resource. Raises InvalidParameter."""
    try:
        content = response.parse_resource("request")
    except ValueError:
        raise InvalidParameter("request", "the body is not JSON") from None
    kind = content.get("resourceType") if type(content) is dict else None
    if resource and kind not in (None, "Parameters"):
        return [{"name": resource, "resource": content}]
    if kind != "Parameters":
        raise InvalidParameter("request", "the body is not a Parameters resource")
    members = content.get("parameter", [])
    if type(members) is not list or not all(type(member) is dict for member in members):
        raise InvalidParameter("request", "the member parameter must be a list of objects")
    if len(members) > most:
        raise InvalidParameter("request", f"has more than {most} parameters; that is the most")
    return members


def _pair(member: Mapping[str, Any], values: ValueTypes, resource: str) -> tuple[str, str]:
    """Return the name and the value, as text, of a member of Parameters; a resource as its JSON."""
    name = member.get("name")
    if resource and type(name) is str and type(member.get("resource")) is dict and len(member) == 2:
        try:
            return name, fhir_json.text(member["resource"])
        except TypeError:
            raise InvalidParameter(name[:SHOWN], "has text that is not Unicode") from None
    choices = [key for key in member if key.startswith("value")]
    if type(name) is not str or len(choices) != 1 or not _is_text(name):
        raise InvalidParameter("request", "each member of parameter has a name and one value[x]")
    kind, read = values.get(choices[0], (None, None))
    value = member[choices[0]]
    text = read(value) if read and type(value) is kind else None
    if not text or not _is_text(text):
        raise InvalidParameter(name[:SHOWN], f"has a {choices[0][:SHOWN]} that is not understood")
    return name, text


def _is_text(text: str) -> bool:
    """Say whether this is Unicode: JSON can write half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _coding(value: Mapping[str, Any]) -> str | None:
    system, code = value.get("system", ""), value.get("code")
    if type(system) is not str or type(code) is not str or not code:
        return None
    return f"{escape(system)}|{escape(code)}" if system else escape(code)


VALUES: ValueTypes = {
    "valueId": (str, str),
    "valueCode": (str, str),
    "valueString": (str, str),
    "valueDate": (str, str),
    "valueDateTime": (str, str),
    "valueInstant": (str, str),
    "valueUri": (str, escape),
    "valueUrl": (str, escape),
    "valueCanonical": (str, escape),
    "valueInteger": (int, str),
    "valueUnsignedInt": (int, str),
    "valuePositiveInt": (int, str),
    "valueBoolean": (bool, lambda value: "true" if value else "false"),
    "valueCoding": (dict, _coding),
}
