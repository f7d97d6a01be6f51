"""A resource type's blueprint: the routes of its interactions, from its declaration.

Source: decisions §1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any

from flask import Blueprint, Response
from flask.sansio.app import App

from fhirapp.auth.protector import require_oauth
from fhirapp.definition import Definition, register_type, types
from fhirapp.fhir.outcome import MethodNotAllowed, UnknownInteraction
from fhirapp.rest.history import history_instance, history_type
from fhirapp.rest.read import read, vread
from fhirapp.rest.search import search_compartment, search_type

# service.md 2.1: the self link of a search is under /api, so /api answers as /fhir does.
ROOTS = ("/fhir", "/api")
View = Callable[..., Response]
_INSTANCE = "/<resource_id>"


def compartment_types() -> list[Definition]:
    """Return the types that a patient's compartment is searched for, by name."""
    return [definition for _, definition in sorted(types().items()) if is_of_patients(definition)]


def is_of_patients(definition: Definition) -> bool:
    """Say whether a type can be searched in a patient's compartment."""
    return definition.searchable and "patient" in definition.references


def id_of(type_name: str) -> Callable[[View], View]:
    """Return the decorator of views whose route has the id of a resource of a type, `resource_id`.

    `$…` or `_…` in its place is an operation or interaction that does not exist. It is refused
    before a token is needed: as UnknownInteraction, or as MethodNotAllowed where POST reaches it.
    """

    def decorator(view: View) -> View:
        @wraps(view)
        def checked(*args: Any, **ids: str) -> Response:
            if (name := ids.get("resource_id", "")).startswith(("$", "_")):
                for operation in types()[type_name].operations:
                    if operation.resource and name == f"${operation.name}":
                        raise MethodNotAllowed(operation.takes_resource, headers={"Allow": "POST"})
                raise UnknownInteraction("There is no such resource type or operation here.")
            return view(*args, **ids)

        return checked

    return decorator


class ResourceBlueprint(Blueprint):
    """The blueprint of a type: read, vread and history; search where the type is searchable.

    Views take the definition and the ids in the address; all need a token. operations: their
    views, by name.
    """

    def __init__(
        self,
        import_name: str,
        definition: Definition,
        operations: Mapping[str, View] | None = None,
        read: View = read,
    ) -> None:
        super().__init__(definition.name, import_name)
        self.definition = definition
        if definition.searchable:
            paths = [(root, tail) for root in ROOTS for tail in ("", "/", "/_search")]
            self._route("search_type", search_type, paths, ["GET", "POST"])
            if is_of_patients(definition):
                protected = id_of("Patient")(require_oauth()(search_compartment))
                bound = partial(protected, definition)
                for tail in ("", "/_search"):
                    rule = f"/fhir/Patient/<resource_id>/{definition.name}{tail}"
                    methods = ["GET", "POST"] if tail else ["GET"]
                    self.add_url_rule(rule, f"compartment{tail[1:]}", bound, methods=methods)
        self._route("read", read, [("/fhir", _INSTANCE)])
        for interaction, view, path in (
            ("history-type", history_type, "/_history"),
            ("history-instance", history_instance, f"{_INSTANCE}/_history"),
            ("vread", vread, f"{_INSTANCE}/_history/<version_id>"),
        ):
            if interaction in definition.interactions:
                self._route(view.__name__, view, [("/fhir", path)])
        for name, view in (operations or {}).items():
            # One may be of the type and of its resources.
            named = [match for match in definition.operations if match.name == name]
            paths = [("/fhir", f"{_INSTANCE if match.instance else ''}/${name}") for match in named]
            methods = ["POST"] if named[0].resource else ["GET", "POST"]
            self._route(name, view, paths, methods)

    def _route(
        self,
        endpoint: str,
        view: View,
        paths: list[tuple[str, str]],
        methods: list[str] | None = None,
    ) -> None:
        """Serve a view of the type at these paths: of each the root and what follows the name."""
        protected = id_of(self.definition.name)(require_oauth()(view))
        bound = partial(protected, self.definition)
        for root, tail in paths:
            rule = f"{root}/{self.definition.name}{tail}"
            self.add_url_rule(rule, endpoint, bound, methods=methods)

    def register(self, app: App, options: dict[str, Any]) -> None:
        super().register(app, options)
        register_type(app, self.definition)
