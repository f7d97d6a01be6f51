"""/fhir/metadata: the CapabilityStatement, made from the declarations. FHIR R4 http §3.1.0.13."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.metadata import version
from typing import Any

from flask import Blueprint, Flask, Response, current_app

from fhirapp import urls
from fhirapp.auth.oauth.discovery import endpoints
from fhirapp.definition import Definition, Operation, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import terminology
from fhirapp.fhir.temporal import check_date
from fhirapp.rest import definitions, response
from fhirapp.rest.endpoints import DEFINITIONS, SYSTEM, declared, endpoints_of, interactions_of
from fhirapp.rest.include_parameters import includable, referring
from fhirapp.search.parameter import Parameter
from fhirapp.search.query import COMMON

blueprint = Blueprint("capability", __name__)

# When what this statement says last changed: the release.
RELEASED = check_date("2026-11-20")


@blueprint.get("/fhir/metadata")
def capabilities() -> Response:
    """Return the CapabilityStatement; no token is needed. Of its modes there is `full` alone."""
    parameters = [argument for argument in response.arguments() if argument != ("mode", "full")]
    response.check_known(parameters, response.FORM_PARAMETERS)
    layout = response.negotiate(parameters)
    body, etag = current_app.extensions[_EXTENSION](urls.base_url())
    return response.respond(body, layout, etag=etag)


def init_app(app: Flask) -> None:
    """Serve /fhir/metadata, which is made once for each of the addresses that this server has."""
    app.register_blueprint(blueprint)
    app.extensions[_EXTENSION] = lru_cache(maxsize=4)(_made)


def _made(_base_url: str) -> tuple[bytes, str]:
    """Return the statement as it is sent, and its entity tag."""
    body = fhir_json.dumps_indented(capability_statement())
    return body, response.document_etag(body)


_EXTENSION = "fhirapp.capability"
_COMBINATION = (
    "http://hl7.org/fhir/StructureDefinition/capabilitystatement-search-parameter-combination"
)


@cache
def software_version() -> str:
    """Return the version of fhirapp."""
    return version("fhirapp")


def capability_statement() -> dict[str, Any]:
    """Return the CapabilityStatement of the types that the app serves."""
    guides = [guide for declaration in declared() for guide in declaration.guides]
    return {
        "resourceType": "CapabilityStatement",
        "id": "fhirapp",
        "url": f"{urls.base_url()}/fhir/metadata",
        "version": software_version(),
        "name": "Fhirapp",
        "title": "fhirapp: clinical notes and allergies",
        "status": "active",
        "date": RELEASED,
        "description": "Serves clinical notes and allergies to read and search; "
        "data comes in by import, not over REST.",
        "kind": "instance",
        "instantiates": [terminology.US_CORE_SERVER, *(statement for _, statement in guides)],
        "software": {"name": "fhirapp", "version": software_version()},
        "implementation": {"description": "fhirapp", "url": f"{urls.base_url()}/fhir"},
        "fhirVersion": "4.0.1",
        "format": [response.FHIR_JSON, "json", response.FHIR_XML, "xml"],
        "implementationGuide": [
            terminology.US_CORE + "ImplementationGuide/hl7.fhir.us.core",
            *(guide for guide, _ in guides),
        ],
        "rest": [
            {
                "mode": "server",
                "security": _security(),
                "resource": [
                    *(_resource(definition) for _, definition in sorted(types().items())),
                    *(content for declaration in declared() for content in declaration.resources),
                    *map(_definitions, definitions.SERVED),
                ],
                "interaction": interactions_of(SYSTEM),
                "searchParam": [_parameter(parameter, parameter.spec) for parameter in COMMON],
                **_operations(),
            }
        ],
    }


# The extension's names for the addresses.
_OAUTH_URIS = {
    "authorize": "authorization_endpoint",
    "token": "token_endpoint",
    "introspect": "introspection_endpoint",
    "revoke": "revocation_endpoint",
    "register": "registration_endpoint",
}


def _security() -> dict[str, Any]:
    coding = {
        "system": terminology.RESTFUL_SECURITY,
        "code": "SMART-on-FHIR",
        "display": "SMART-on-FHIR",
    }
    addresses = endpoints()
    return {
        "extension": [
            {
                "url": terminology.SMART_OAUTH_URIS,
                "extension": [
                    {"url": name, "valueUri": addresses[endpoint]}
                    for name, endpoint in _OAUTH_URIS.items()
                    if endpoint in addresses
                ],
            }
        ],
        "cors": True,
        "service": [{"coding": [coding], "text": "OAuth 2.0 with SMART on FHIR scopes"}],
        "description": "A bearer token in the Authorization header; "
        "see /fhir/.well-known/smart-configuration.",
    }


def _resource(definition: Definition) -> dict[str, Any]:
    interactions = interactions_of(endpoints_of(definition.name))
    content: dict[str, Any] = {"type": definition.name}
    if definition.profiles:
        content["supportedProfile"] = list(definition.profiles)
    content["documentation"] = definition.doc
    if definition.combinations:
        content["extension"] = [
            {
                "url": _COMBINATION,
                "extension": [
                    {"url": "required", "valueString": name} for name in combination.split("+")
                ],
            }
            for combination in definition.combinations
        ]
    content["interaction"] = interactions
    content["versioning"] = "versioned"
    content["readHistory"] = "vread" in definition.interactions
    content["updateCreate"] = False
    content["conditionalRead"] = "full-support"
    if definition.searchable:
        if included := includable(definition):
            content["searchInclude"] = included
        if reverse := referring(definition):
            content["searchRevInclude"] = reverse
        content["searchParam"] = [
            _parameter(param, definitions.search_parameter_canonical(definition, param))
            for param in definition.params
        ]
    return content | _operations(definition.name, definition.operations)


def _operations(type_name: str = "", own: Sequence[Operation] = ()) -> dict[str, Any]:
    """Return the operations of a type, its own and those that are declared; or of the server."""
    further = [
        declaration.operations[type_name]
        for declaration in declared()
        if type_name in declaration.operations
    ]
    listed = [
        {
            "name": operation.name,
            "definition": definitions.operation_canonical(type_name, operation),
            "documentation": operation.doc,
        }
        for operation in (*own, *further)
    ]
    # One of the type and of its resources is listed once.
    once = list({operation["name"]: operation for operation in listed}.values())
    return {"operation": once} if once else {}


def _definitions(own: definitions.Definitions) -> dict[str, Any]:
    """Return what there is of definitions of a type, which are no clinical data."""
    return {
        "type": own.type,
        "documentation": own.doc,
        "interaction": interactions_of([DEFINITIONS[own.type]]),
        "versioning": "no-version",
        # By If-None-Match: what is made of declarations has no date.
        "conditionalRead": "not-match",
    }


def _parameter(parameter: Parameter, canonical: str) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "definition": canonical,
        "type": parameter.kind,
        "documentation": definitions.documentation(parameter),
    }
