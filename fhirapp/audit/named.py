"""Which patients a request names: who asks after somebody and finds nothing learns something too.

Of a search only the parameters that its type has count, of which the server takes some hundreds of
values: so nobody hides a name behind many that are ignored, and there is an end to them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote_plus, unquote_plus

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.search.reference import Reference
from fhirapp.store.definition import Definition, types

# As many as $export takes.
_MOST = 10_000
_OF_PATIENT = re.compile(rf"/(?:fhir|api)/Patient/({ID_PATTERN})(?:/|$)")
_SEARCH = re.compile(r"/(?:fhir|api)/([A-Z][A-Za-z]+)(?:/|/_search)?")
_OPERATION = re.compile(r"/fhir/(?:.*/)?\$[^/]+")
_REFERENCE = re.compile(rf"((?:.*/)?Patient/)?({ID_PATTERN})(?:/_history/{ID_PATTERN})?")
# Parameters of which an id without a type is a patient's.
_WHOSE = frozenset({"patient", "subject"})


def patients_named(path: str, query: str, body: str | bytes) -> list[str]:
    """Return the ids of the patients whom a request that was answered names, whole as it came.

    body is that of a POST: a form, or of an operation a Parameters resource.
    """
    found: dict[str, None] = {}
    if match := _OF_PATIENT.match(path):
        found[match[1]] = None
    if query or body:
        for patient_id in _asked_for(path, query, body):
            found[patient_id] = None
            if len(found) == _MOST:
                break
    return [*found]


def _asked_for(path: str, query: str, body: str | bytes) -> Iterator[str]:
    if match := _SEARCH.fullmatch(path):
        definition = types().get(match[1])
        if definition is not None:
            for text in (query, _text(body)):
                yield from _searched(definition, text)
    elif _OPERATION.fullmatch(path):
        is_json = body.lstrip()[:1] in ("{", b"{")
        given = _parameters(body) if is_json else _pairs(_text(body))
        for name, value in (*_pairs(query), *given):
            if name == "patient":
                yield from _patients(value, of_patients=True)


def _text(body: str | bytes) -> str:
    return body if isinstance(body, str) else body.decode("utf-8", "replace")


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    """Yield the names, and the values as they are written, of a form."""
    # Not parse_qsl: of most parameters nobody asks for the value, and each request comes here.
    for one in text.split("&") if text else ():
        name, _, value = one.partition("=")
        yield (unquote_plus(name) if "%" in name else name), value


def _searched(definition: Definition, text: str) -> Iterator[str]:
    for name, value in _pairs(text):
        base, _, modifier = name.partition(":")
        if base == "_id" and definition.name == "Patient":
            yield from _patients(value, of_patients=True)
        elif modifier in ("", "Patient") and isinstance(
            definition.params.by_name.get(base), Reference
        ):
            yield from _patients(value, of_patients=base in _WHOSE or bool(modifier))


def _patients(value: str, *, of_patients: bool) -> Iterator[str]:
    """Yield the ids of a value's patients; with of_patients an id without a type is one."""
    for one in unquote_plus(value).split(","):
        match = _REFERENCE.fullmatch(one)
        if match and (match[1] or of_patients):
            yield match[2]


def _parameters(body: str | bytes) -> Iterator[tuple[str, str]]:
    """Yield the names, and the texts and references as a form has them, of a Parameters."""
    try:
        for member in fhir_json.loads(body)["parameter"]:
            for name, value in member.items():
                text = value.get("reference") if isinstance(value, dict) else value
                if name.startswith("value") and isinstance(text, str):
                    yield member["name"], quote_plus(text)
    except (ValueError, LookupError, TypeError, AttributeError):
        # What was cut off, in a line that is read again.
        return
