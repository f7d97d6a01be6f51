"""A kick-off's parameters: in the URL, and by POST in a Parameters resource or a form."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import request

from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.negotiation import arguments
from fhirapp.rest.operation import is_text, posted
from fhirapp.search.query import MAX_LENGTH
from fhirapp.search.values import SHOWN

# The parameter of which one resource lists many: each names a patient.
PATIENT = "patient"
# Members of a Parameters resource.
MOST = 10_000
_TEXTS = frozenset(
    {
        *("valueString", "valueCode", "valueId", "valueUri", "valueUrl", "valueCanonical"),
        *("valueInstant", "valueDateTime", "valueDate"),
    }
)

Given = list[tuple[str, str]]


def read_given() -> Given:
    """Return the request's parameters that have a value, in their order. Raises FhirError.

    Of a Reference the value is what it refers to. One by GET names no patients: an address is kept
    in logs.
    """
    given = arguments()
    if any(name == PATIENT for name, _ in given):
        raise InvalidParameter(PATIENT, "is taken by POST alone, in a Parameters resource")
    if request.method == "POST":
        given += posted(_pair, MOST)
    for name, value in given:
        if "\0" in value:
            raise InvalidParameter(name[:SHOWN], "has a NUL character")
        if len(value) > MAX_LENGTH:
            raise InvalidParameter(name[:SHOWN], f"is longer than {MAX_LENGTH} characters")
    return [(name, value) for name, value in given if value.strip()]


def _pair(member: Mapping[str, Any]) -> tuple[str, str]:
    """Return the name and the value, as text, of a member of Parameters."""
    name = member.get("name")
    held = [one for one in member if one.startswith("value")]
    if type(name) is not str or len(held) != 1 or not is_text(name):
        raise InvalidParameter("request", "each member of parameter has a name and one value[x]")
    value = member[held[0]]
    if held[0] == "valueReference" and type(value) is dict:
        text = value.get("reference")
    elif held[0] == "valueBoolean" and type(value) is bool:
        text = "true" if value else "false"
    else:
        text = value if held[0] in _TEXTS else None
    if type(text) is not str or not text or not is_text(text):
        raise InvalidParameter(name[:SHOWN], f"has a {held[0][:SHOWN]} that is not understood")
    return name, text
