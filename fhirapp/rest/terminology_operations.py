"""What $expand, $validate-code and $subsumes have in common.

Source: FHIR R4 ValueSet and CodeSystem operations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Response

from fhirapp.audit.write import served
from fhirapp.definition import Definition, Operation, OperationParameter
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import InvalidParameter, MissingParameter, NotFound, UnknownTerminology
from fhirapp.rest.code_systems import Code, Held
from fhirapp.rest.operation import OperationRequest
from fhirapp.rest.response import Layout, document_etag, respond
from fhirapp.rest.terminology import Look
from fhirapp.search.string import fold
from fhirapp.search.values import split, unescape

_CODES = ("code", "coding", "codeableConcept")


def validate_code_operation(type_name: str, whole: str, *own: OperationParameter) -> Operation:
    """Return the $validate-code of a type, with parameters of its own; whole is "a value set"."""
    return Operation(
        "validate-code",
        f"http://hl7.org/fhir/OperationDefinition/{type_name}-validate-code",
        f"Whether a code is in {whole}.",
        (
            *own,
            OperationParameter("code", "code", "The code"),
            OperationParameter("coding", "Coding", "The code with its system: system|code"),
            OperationParameter(
                "codeableConcept",
                "CodeableConcept",
                "Codes of which one is enough: system|code,system|code",
            ),
            OperationParameter("display", "string", "What the code is called, to be checked"),
        ),
        answer="Parameters",
        is_paged=False,
        needs_record=True,
    )


def of_resource(operation: Operation) -> Operation:
    """Return an operation of a type, which names a resource by url, as one of a resource."""
    named = ("url", "version", "valueSetVersion")
    others = tuple(one for one in operation.parameters if one.name not in named)
    return operation._replace(instance=True, parameters=others)


def asked(
    look: Look, definition: Definition, resource_id: str | None, operation: OperationRequest
) -> Held:
    """Return what an operation is about: the resource of an id, or the one of `url`.

    Raises NotFound.
    """
    if resource_id is not None:
        name = f"{definition.name}/{resource_id}"
    else:
        version = operation.value("version") or operation.value("valueSetVersion")
        url = unescape(operation.values["url"][0])
        name = f"{url}|{version}" if version else url
    try:
        held = look.held(definition.name, name)
    except UnknownTerminology as error:
        raise NotFound(error.diagnostics, parameter="url") from None
    if held.id:
        served(definition.name, held.id, held.version_id)
    return held


def codes_of(operation: OperationRequest, system: str = "") -> list[tuple[str, str]]:
    """Return the systems and codes that $validate-code is asked about: of one of them is enough.

    system is that of the code system. Raises ParameterError.
    """
    sent = [(name, value) for name in _CODES if (value := operation.value(name)) is not None]
    if len(sent) != 1:
        raise MissingParameter("code", "is required, or coding or codeableConcept; one of them")
    name, value = sent[0]
    if name == "codeableConcept":
        found = [_parts(part) for part in split(value, ",")]
        # A coding without a system may be of any.
        return [one for one in found if one[0] and system in ("", one[0])]
    stated = unescape(operation.value("system") or "")
    stated, code = (stated, unescape(value)) if name == "code" else _parts(value)
    if not (stated or system):
        raise MissingParameter("system", "is required: a code alone may be of any system")
    if stated and system and stated != system:
        raise InvalidParameter("coding", f"is not of the code system {system}")
    return [(stated or system, code)]


def _parts(coding: str) -> tuple[str, str]:
    """Return the system, where it is stated, and the code of system|code."""
    *system, code = (unescape(part) for part in split(coding, "|"))
    return system[0] if system else "", code


def validation(found: Code | None, display: str | None, name: str, layout: Layout) -> Response:
    """Return whether a code is in what has this name, and whether a display is the code's."""
    message = "" if found else f"The code is not in {name}."
    if found and display and found.display and fold(display) != fold(found.display):
        message = f"The code is in {name}, and its display is another."
    parts: list[dict[str, Any]] = [{"name": "result", "valueBoolean": not message}]
    if message:
        parts.append({"name": "message", "valueString": message})
    if found and found.display:
        parts.append({"name": "display", "valueString": found.display})
    return answer({"resourceType": "Parameters", "parameter": parts}, layout)


def answer(content: Mapping[str, Any], layout: Layout, etag: str = "") -> Response:
    """Return an operation's answer."""
    body = fhir_json.dumps_indented(content)
    return respond(body, layout, etag=etag or document_etag(body))
