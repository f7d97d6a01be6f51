"""Operations: what they are asked with, by GET in the URL, by POST in a Parameters resource.

A form by POST is read as the URL is. Source: FHIR R4 operations §3.2.0.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flask import request

from fhirapp.config import settings
from fhirapp.definition import Operation
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import (
    InvalidParameter,
    MissingParameter,
    RepeatedParameter,
    UnsupportedMediaType,
    UnsupportedParameter,
)
from fhirapp.fhir.temporal import EARLIEST, LATEST, Interval, interval
from fhirapp.rest.negotiation import FORMING, MAX_PARAMETERS, arguments, parse_form
from fhirapp.search.controls import parse_count
from fhirapp.search.page import fingerprint
from fhirapp.search.query import MAX_LENGTH, MAX_VALUES
from fhirapp.search.values import SHOWN, escape, split

JSON_TYPES = ("application/fhir+json", "application/json")
FORM_TYPE = "application/x-www-form-urlencoded"
# What shapes any operation's answer, beside its own parameters.
SHAPING = (*FORMING, "_count")
_CURSOR = "_cursor"

Given = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Asked:
    """What an operation is asked with.

    values are the texts of its parameters, a Coding as `system|code`; of one that repeats each of
    them alone. applied are the parameters as they stand in links, without where a page begins.
    """

    values: Mapping[str, list[str]]
    applied: Given
    count: int

    @property
    def cursor(self) -> str | None:
        return self.one(_CURSOR)

    @property
    def given(self) -> Given:
        """All parameters: applied, and where the page begins."""
        return [*self.applied, *([(_CURSOR, self.cursor)] if self.cursor else [])]

    def one(self, name: str) -> str | None:
        """Return the value of a parameter that may be given once."""
        values = self.values.get(name)
        return values[0] if values else None

    def time(self, name: str) -> Interval | None:
        """Return the time that a parameter covers. Raises InvalidParameter."""
        value = self.one(name)
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
        """Return what tells these pages from others: not how long they are, nor their form."""
        return fingerprint(path, [one for one in self.applied if one[0] not in SHAPING])


def read_asked(operation: Operation) -> Asked:
    """Read what an operation is asked with; what is unknown is refused. Raises FhirError."""
    given = _given()
    known = {one.name: one for one in operation.parameters}
    values: dict[str, list[str]] = {}
    common = (*SHAPING, _CURSOR) if operation.is_paged else FORMING
    for name, value in given:
        if name not in known and name not in common:
            raise UnsupportedParameter(name[:SHOWN], f"is not a parameter of ${operation.name}")
        if "\0" in value:
            raise InvalidParameter(name, "has a NUL character")
        if len(value) > MAX_LENGTH:
            raise InvalidParameter(name, f"is longer than {MAX_LENGTH} characters")
        if name in known and known[name].repeats:
            values.setdefault(name, []).extend(_listed(name, value))
        elif name in values:
            raise RepeatedParameter(name, "may be given once")
        else:
            values[name] = [value]
    for one in operation.parameters:
        if one.required and one.name not in values:
            raise MissingParameter(one.name, f"is required by ${operation.name}")
        if len(values.get(one.name, ())) > MAX_VALUES:
            raise InvalidParameter(one.name, f"{MAX_VALUES} values are the most")
    config = settings()
    listed = values.get("_count")
    count = parse_count(listed[0] if listed else None, config.page_size, config.page_max)
    applied = [
        (name, str(count) if name == "_count" else value)
        for name, value in given
        if name != _CURSOR
    ]
    return Asked(values, applied, count)


def _listed(name: str, value: str) -> list[str]:
    """Return the values that commas separate, nothing empty. Raises InvalidParameter."""
    listed = [part for part in split(value, ",") if part.strip()]
    if not listed:
        # To ignore it would widen the answer.
        raise InvalidParameter(name, "lists no value")
    return listed


def _given() -> list[tuple[str, str]]:
    """Return the request's parameters that have a value. Raises FhirError."""
    given = arguments()
    if request.method == "POST":
        given += posted(_pair, MAX_PARAMETERS)
    return [(name, value) for name, value in given if value.strip()]


def posted(
    pair: Callable[[Mapping[str, Any]], tuple[str, str]], most: int
) -> list[tuple[str, str]]:
    """Return the parameters of the body; nothing is a body without parameters.

    pair reads one member of a Parameters resource, which has so many at the most. Raises FhirError.
    """
    body, media = request.get_data(), request.mimetype
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise UnsupportedMediaType("An operation by POST takes a body without Content-Encoding.")
    if media == FORM_TYPE:
        return parse_form(body)
    if media in JSON_TYPES or not (media or body):
        return [pair(one) for one in _members(body, most)] if body else []
    raise UnsupportedMediaType("An operation by POST takes a Parameters resource, or a form.")


def _members(body: bytes, most: int) -> list[Mapping[str, Any]]:
    """Return the members of a Parameters resource. Raises InvalidParameter."""
    try:
        content = fhir_json.loads(body)
    except ValueError:
        raise InvalidParameter("request", "the body is not JSON") from None
    if type(content) is not dict or content.get("resourceType") != "Parameters":
        raise InvalidParameter("request", "the body is not a Parameters resource")
    members = content.get("parameter", [])
    if type(members) is not list or not all(type(one) is dict for one in members):
        raise InvalidParameter("request", "the member parameter must be a list of objects")
    if len(members) > most:
        raise InvalidParameter("request", f"has more than {most} parameters; that is the most")
    return members


def _pair(member: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the value, as text, of a member of Parameters."""
    name = member.get("name")
    held = [one for one in member if one.startswith("value")]
    if type(name) is not str or len(held) != 1 or not is_text(name):
        raise InvalidParameter("request", "each member of parameter has a name and one value[x]")
    kind, read = _VALUES.get(held[0], (None, None))
    value = member[held[0]]
    text = read(value) if read and type(value) is kind else None
    if not text or not is_text(text):
        raise InvalidParameter(name[:SHOWN], f"has a {held[0][:SHOWN]} that is not understood")
    return name, text


def is_text(text: str) -> bool:
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


# The type of each value[x] in JSON, and how it is written in a URL.
_VALUES: Mapping[str, tuple[type, Callable[[Any], str | None]]] = {
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
