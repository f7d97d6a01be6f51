"""A resource type's blueprint: what the type offers, and the routes of it.

Source: decisions §1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial, wraps
from typing import Any

from flask import Blueprint, Response
from flask.sansio.app import App

from fhirapp.auth.protector import require_oauth
from fhirapp.definition import Definition, Operation, register_type, types
from fhirapp.fhir.outcome import MethodNotAllowed, UnknownInteraction
from fhirapp.rest import openapi_parts as parts
from fhirapp.rest.endpoints import Endpoint, declare_type
from fhirapp.rest.history import history_instance, history_type
from fhirapp.rest.openapi_parts import HISTORY, ID, VERSION
from fhirapp.rest.read import read, vread
from fhirapp.rest.search import search_compartment, search_type

# service.md 2.1: the self link of a search is under /api, so /api answers as /fhir does.
ROOTS = ("/fhir", "/api")
View = Callable[..., Response]


def compartment_types() -> list[Definition]:
    """Return the types that a patient's compartment is searched for, by name."""
    return [definition for _, definition in sorted(types().items()) if is_of_patients(definition)]


def is_of_patients(definition: Definition) -> bool:
    """Say whether a type can be searched in a patient's compartment."""
    return definition.searchable and "patient" in definition.references


def reject_reserved_ids(type_name: str) -> Callable[[View], View]:
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


def _interactions(definition: Definition) -> Iterator[Endpoint]:
    """Yield the endpoints of a type's reads and histories, in the order of its interactions."""
    name, gone = definition.name, (404, 410)
    a, reading = parts.with_article(name), ID | parts.SHAPING
    possible: Mapping[str, tuple[str, str, str, parts.Node, tuple[int, ...]]] = {
        "read": ("/{id}", f"Read {a}", name, reading, gone),
        "vread": ("/{id}/_history/{vid}", f"Read a version of {a}", name, VERSION | reading, gone),
        "history-instance": (
            "/{id}/_history",
            f"List the versions of {a}",
            "Bundle",
            ID | HISTORY,
            (404,),
        ),
        "history-type": ("/_history", f"List versions of every {name}", "Bundle", HISTORY, ()),
    }
    for interaction in definition.interactions:
        path, summary, answer, parameters, statuses = possible[interaction]
        request, view = f"GET /fhir/{name}{path}", interaction.replace("-", "_")
        endpoint = Endpoint(request, name, summary, answer, parameters, statuses, (interaction,))
        if interaction == "read" and not definition.stores_body:
            # Bytes, unless FHIR JSON or XML is asked for by name.
            content = {**parts.content(name), "*/*": {}}
            responses = {
                **parts.responses(content, 304, *parts.GUARDED, *statuses),
                "206": {"description": "The range of bytes", "content": {"*/*": {}}},
                **parts.error_responses(412, 416),
            }
            endpoint = endpoint._replace(parameters=reading | parts.RANGES, responses=responses)
        yield endpoint._replace(view=view)


def _searches(definition: Definition) -> Iterator[Endpoint]:
    """Yield the endpoints of a type's searches: of all, and of a patient's compartment."""
    name, body = definition.name, parts.ref("requestBodies", definition.name)

    # Not before all types are known: chains lead to them.
    def parameters() -> parts.Node:
        return parts.search(definition) | parts.CONDITIONS | parts.PREFERENCES

    for root in ROOTS:
        for path in (f"{root}/{name}", f"{root}/{name}/_search"):
            for request, how in ((f"GET {path}", ""), (f"POST {path}", " by a form")):
                yield Endpoint(
                    request,
                    name,
                    f"Search {name}{how}",
                    parameters=parameters,
                    interactions=("search-type",),
                    body=body,
                    is_form=True,
                    view="search_type",
                )
    if is_of_patients(definition):
        for methods, tail in (("GET", ""), ("GET POST", "/_search")):
            yield Endpoint(
                f"{methods} /fhir/Patient/{{id}}/{name}{tail}",
                name,
                f"Search {name} of a patient",
                parameters=lambda: ID | parameters(),
                statuses=(404,),
                body=body,
                is_form=True,
                view=f"compartment{tail[1:]}",
            )


def _operation(definition: Definition, operation: Operation) -> Endpoint:
    """Return the endpoint of an operation."""
    name = definition.name
    own = parts.operation_parameters(f"{name}-{operation.name}", operation.parameters)
    if operation.is_paged:
        names = {node["name"] for node in own.values()}
        own |= {key: node for key, node in parts.PAGES.items() if node["name"] not in names}
    own |= parts.FORM_PARAMETERS
    form = {**parts.form(own.values()), **parts.content("Parameters")}
    endpoint = Endpoint(
        f"GET POST /fhir/{name}{'/{id}' if operation.instance else ''}/${operation.name}",
        name,
        operation.doc,
        operation.answer,
        (ID if operation.instance else {}) | own | parts.CONDITIONS,
        (404, 410) if operation.instance or operation.needs_record else (),
        body={"content": form},
        is_form=True,
        view=operation.name,
    )
    if not operation.resource:
        return endpoint
    # Nothing of a resource is in an address.
    body = {"required": True, "content": parts.content("Parameters")}
    request = endpoint.request.removeprefix("GET ")
    return endpoint._replace(request=request, parameters=own, body=body, is_form=False)


class ResourceBlueprint(Blueprint):
    """The blueprint of a type: read, vread, history, searches and operations as it declares them.

    Each view takes the definition and the ids in the path, and needs a token. operations: their
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
        self.endpoints = [*_interactions(definition)]
        if definition.searchable:
            self.endpoints += _searches(definition)
        self.endpoints += [_operation(definition, operation) for operation in definition.operations]
        of_type: dict[str, View] = {
            "read": read,
            "vread": vread,
            "history_instance": history_instance,
            "history_type": history_type,
            "search_type": search_type,
            **(operations or {}),
        }
        views = {name: self._protected(view, definition.name) for name, view in of_type.items()}
        for name in ("compartment", "compartment_search"):
            views[name] = self._protected(search_compartment, "Patient")
        for endpoint in self.endpoints:
            view, methods = views[endpoint.view], endpoint.methods
            rule = endpoint.path.replace("{id}", "<resource_id>").replace("{vid}", "<version_id>")
            self.add_url_rule(rule, endpoint.view, view, methods=methods)
            if endpoint.view == "search_type" and rule.endswith(definition.name):
                self.add_url_rule(f"{rule}/", endpoint.view, view, methods=methods)

    def _protected(self, view: View, type_name: str) -> View:
        return partial(reject_reserved_ids(type_name)(require_oauth()(view)), self.definition)

    def register(self, app: App, options: dict[str, Any]) -> None:
        super().register(app, options)
        register_type(app, self.definition)
        declare_type(app, self.definition.name, self.endpoints)
