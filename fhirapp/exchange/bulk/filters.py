"""`_typeFilter`: searches, of which a resource of their type must meet one.

Each is a query as it follows a type's address, `AllergyIntolerance?clinical-status=active`, read by
the search itself. To ignore a part of one would widen the export, so nothing is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from fhirapp.address import base_url
from fhirapp.exchange.bulk.wanted import Filter
from fhirapp.fhir.outcome import FhirError, InvalidParameter, UnsupportedParameter
from fhirapp.rest.negotiation import parse_form
from fhirapp.search.condition import AnyCondition
from fhirapp.search.controls import parse_controls
from fhirapp.search.parameter import Context
from fhirapp.search.query import parse_query
from fhirapp.search.values import SHOWN
from fhirapp.store.definition import Definition, types

NAME = "_typeFilter"
MOST = 30
# A comma before the next query; others stand between values.
_BETWEEN = re.compile(r",(?=\s*[A-Z][A-Za-z]*\?)")
_QUERY = re.compile(r"\s*([A-Z][A-Za-z]*)\?(.+)", re.DOTALL)


def parse_filters(values: Sequence[str], exported: Sequence[str]) -> tuple[Filter, ...]:
    """Return the queries, each checked, of the types that are exported. Raises ParameterError."""
    texts = [one for value in values for one in _BETWEEN.split(value) if one.strip()]
    if len(texts) > MOST:
        raise InvalidParameter(NAME, f"lists more than {MOST} queries; that is the most")
    return tuple(_parse(text, exported) for text in texts)


def _parse(text: str, exported: Sequence[str]) -> Filter:
    found = _QUERY.fullmatch(text)
    if found is None:
        raise InvalidParameter(NAME, f"{text[:SHOWN]!r} is not a query; use Type?parameter=value")
    name, query = found.groups()
    if name not in exported:
        raise InvalidParameter(NAME, f"{name[:SHOWN]} is not among the types that are exported")
    arguments = tuple(parse_form(query.encode()))
    try:
        conditions_of(types()[name], arguments)
    except FhirError as error:
        raise InvalidParameter(NAME, f"{name}: {error.diagnostics}") from None
    return name, arguments


def conditions_of(
    definition: Definition, arguments: Sequence[tuple[str, str]]
) -> tuple[AnyCondition, ...]:
    """Return the conditions that a row `r` meets a query, which all hold. Raises FhirError."""
    controls = parse_controls(arguments, default=1, greatest=1)
    shaping = [name for name, value in arguments if (name, value) not in controls.rest]
    if shaping:
        raise UnsupportedParameter(shaping[0][:SHOWN], "shapes an answer, and selects nothing")
    context = Context(definition.tables, base_url())
    query = parse_query(definition.params, arguments, context, strict=True)
    if query.ignored:
        name, reason = query.ignored[0]
        raise InvalidParameter(name[:SHOWN], reason)
    return query.conditions
