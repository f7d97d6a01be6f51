"""A resource type's blueprint: the routes of its interactions, from its declaration.

Source: decisions §1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from flask import Blueprint, Response
from flask.sansio.app import App

from fhirapp.definition import Definition, register_type
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import NotFound, UnknownInteraction
from fhirapp.rest.access import access_to
from fhirapp.rest.history import history_instance, history_type
from fhirapp.rest.read import read, vread
from fhirapp.rest.search import search_type

# service.md 2.1: the self link of a search is under /api, so /api answers as /fhir does.
ROOTS = ("/fhir", "/api")
_ID = re.compile(ID_PATTERN)


class ResourceBlueprint(Blueprint):
    """The blueprint of a type: read, vread and history; search where the type is searchable.

    operations are the functions of the definition's operations, by name.
    """

    def __init__(
        self,
        import_name: str,
        definition: Definition,
        operations: Mapping[str, Callable[..., Response]] | None = None,
    ) -> None:
        super().__init__(definition.name, import_name)
        self.definition = definition
        self._operations = operations or {}
        name = definition.name
        if definition.searchable:
            for root in ROOTS:
                for tail in ("", "/", "/_search"):
                    self.add_url_rule(
                        f"{root}/{name}{tail}",
                        endpoint="search_type",
                        view_func=self.search_type,
                        methods=["GET", "POST"],
                    )
        if "history-type" in definition.interactions:
            self.add_url_rule(f"/fhir/{name}/_history", view_func=self.history_type)
        instance = f"/fhir/{name}/<resource_id>"
        self.add_url_rule(instance, view_func=self.read)
        if "history-instance" in definition.interactions:
            self.add_url_rule(f"{instance}/_history", view_func=self.history_instance)
        if "vread" in definition.interactions:
            self.add_url_rule(f"{instance}/_history/<version_id>", view_func=self.vread)

        for operation in definition.operations:
            place = "/<resource_id>" if operation.instance else ""
            self.add_url_rule(
                f"/fhir/{name}{place}/${operation.name}",
                endpoint=operation.name,
                view_func=self._operation(operation.name),
                methods=["GET", "POST"],
            )

    def _operation(self, name: str) -> Callable[..., Response]:
        """Return the view of an operation, of the type or of the resource with an id."""

        def view(resource_id: str | None = None) -> Response:
            if resource_id is None:
                return self._operations[name](self.definition)
            check_id(self.definition, resource_id)
            return self._operations[name](self.definition, resource_id)

        return view

    def register(self, app: App, options: dict[str, Any]) -> None:
        super().register(app, options)
        register_type(app, self.definition)

    def search_type(self) -> Response:
        """Search the type."""
        return search_type(self.definition)

    def read(self, resource_id: str) -> Response:
        """Return the current version."""
        check_id(self.definition, resource_id)
        return read(self.definition, resource_id)

    def vread(self, resource_id: str, version_id: str) -> Response:
        """Return one version."""
        check_id(self.definition, resource_id)
        return vread(self.definition, resource_id, version_id)

    def history_type(self) -> Response:
        """Return the versions of all resources, newest first."""
        return history_type(self.definition)

    def history_instance(self, resource_id: str) -> Response:
        """Return the versions, newest first."""
        check_id(self.definition, resource_id)
        return history_instance(self.definition, resource_id)


def check_id(definition: Definition, resource_id: str) -> None:
    """Tell an operation (`$…`) or interaction (`_…`) that is not here from an unknown resource.

    Raises UnknownInteraction; what can be no id at all is NotFound, once there is a token.
    """
    if resource_id[:1] in ("$", "_"):
        raise UnknownInteraction("There is no such resource type or operation here.")
    if not _ID.fullmatch(resource_id):
        access_to(definition, "r")
        raise NotFound(f"{definition.name}: this can be no id.")
