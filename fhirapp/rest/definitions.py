"""/fhir/OperationDefinition, /fhir/SearchParameter: what defines what FHIR does not.

They are read one by one, under the addresses that /fhir/metadata names. No token is needed, as
there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from flask import Blueprint, Flask, Response

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import NotFound
from fhirapp.rest import operation_definitions, search_parameters
from fhirapp.rest.negotiation import FORMING, arguments, check_known, wanted_form
from fhirapp.rest.response import document_etag, respond

blueprint = Blueprint("definitions", __name__)


class Definitions(NamedTuple):
    """The definitions of one type, and a sentence about them."""

    type: str
    doc: str
    all: Callable[[], Iterable[dict[str, Any]]]

    def read(self, definition_id: str) -> Response:
        """Return a definition of this server's own. Raises NotFound."""
        given = arguments()
        check_known(given, FORMING)
        form = wanted_form(given)
        for content in self.all():
            if content["id"] == definition_id:
                body = fhir_json.dumps_indented(content)
                return respond(body, form, etag=document_etag(body))
        raise NotFound(f"{self.type}/{definition_id} is not known here.")


SERVED = (
    Definitions(
        operation_definitions.TYPE,
        "Definitions of the operations that FHIR does not define.",
        operation_definitions.definitions,
    ),
    Definitions(
        search_parameters.TYPE,
        "Definitions of the search parameters that FHIR does not define.",
        search_parameters.definitions,
    ),
)

for _one in SERVED:
    blueprint.add_url_rule(f"/fhir/{_one.type}/<definition_id>", _one.type, _one.read)


def init_app(app: Flask) -> None:
    """Serve the definitions."""
    app.register_blueprint(blueprint)
