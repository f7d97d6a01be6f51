"""What every resource type owes, whatever it is: the cases, found in the declarations.

test_contract.py runs them. A new type has them by being declared: its data are its rows in
seed.sql, or, while it has none there, the seeded resources of a type that its schema accepts too.
Also how a test brings in resources of its own.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Iterable, Mapping
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import select

from fhirapp import create_app
from fhirapp.config import settings_of
from fhirapp.db import db, writing
from fhirapp.definition import Definition, Visibility, types
from fhirapp.environment import load_settings
from fhirapp.fhir.resource import InvalidResource
from fhirapp.search.parameter import Parameter
from fhirapp.search.reference import Reference
from fhirapp.search.string import Phonetic
from fhirapp.search.token import ContactToken, Presence, Token
from fhirapp.search.values import values_at
from fhirapp.search.words import Words
from fhirapp.store.prepare import deletion, prepare
from fhirapp.store.publish import Publisher
from fhirapp.store.version import Change
from fhirapp.store.write import Rendering
from tests.support.complete import RESOURCES
from tests.support.helpers import BASE_URL

# A resource as the database holds it, None for a deletion; its versions, oldest first.
Versions = list[dict[str, Any] | None]
# All versions, by type and id.
Held = Mapping[str, Mapping[str, Versions]]

# R4's search parameters of every type that no type has here.
PARAMETERS_LEFT_OUT = {"_query"}
# The id of the resource of each type that the contract deletes.
DELETED = "contract-deleted"
NOW = "2026-02-01T00:00:00.000+00:00"


def _served() -> Mapping[str, Definition]:
    with TemporaryDirectory() as folder:
        return types(create_app(load_settings({}, instance_path=folder)))


SERVED = _served()
TYPES = [pytest.param(one, id=name) for name, one in SERVED.items()]
SEARCHABLE = [pytest.param(one, id=name) for name, one in SERVED.items() if one.searchable]


def publish(app: Flask, *resources: dict[str, Any], now: str) -> None:
    """Publish resources of one type at an instant: 2026-02-01T00:00:00.000+00:00."""
    with app.app_context(), writing() as connection:
        publisher = Publisher(connection, now=now, rendering=Rendering.of(settings_of(app)))
        definition = types()[resources[0]["resourceType"]]
        publisher.publish([prepare(definition, resource) for resource in resources])


def delete(app: Flask, resource_type: str, resource_id: str, *, now: str) -> None:
    """Publish a deletion at an instant."""
    with app.app_context(), writing() as connection:
        publisher = Publisher(connection, now=now, rendering=Rendering.of(settings_of(app)))
        gone = deletion(types()[resource_type], resource_id)
        assert publisher.publish([gone]) == [Change.DELETED]


def allergy(row_id: str, patient: str = "p1", **elements: Any) -> dict[str, Any]:
    """Return a small AllergyIntolerance."""
    return {
        "resourceType": "AllergyIntolerance",
        "id": row_id,
        "patient": {"reference": f"Patient/{patient}"},
        **elements,
    }


def fill(app: Flask) -> None:
    """Give every type of the app resources, and a deleted one where others do not carry it.

    Some have elements that no resource of the seed has.
    """
    for resource in RESOURCES:
        if resource["resourceType"] in SERVED:
            publish(app, resource, now=NOW)
    for definition in SERVED.values():
        held = versions_held(app)
        if not held[definition.name] and not definition.view:
            publish(app, *_borrowed(definition, held), now=NOW)
    held = versions_held(app)
    for definition in SERVED.values():
        if definition.visibility is not Visibility.CARRIER and not definition.view:
            # Where a type has a view, one that is in it.
            views = [
                one for one in SERVED.values() if one.view and one.view.source == definition.name
            ]
            row_id = example((*views, definition)[0], held)
            resource = held[definition.name][row_id][-1]
            publish(app, {**(resource or {}), "id": DELETED}, now=NOW)
            delete(app, definition.name, DELETED, now=NOW)


def _borrowed(definition: Definition, held: Held) -> list[dict[str, Any]]:
    """Return the resources of another type as this one's, where its schema accepts them all."""
    for others in held.values():
        resources = [
            {**versions[-1], "resourceType": definition.name}
            for versions in others.values()
            if versions[-1]
        ]
        try:
            for resource in resources:
                prepare(definition, resource)
        except InvalidResource:
            continue
        if resources:
            return resources
    pytest.fail(f"seed.sql has no rows of {definition.name} and no other type's fit: add some")


def versions_held(app: Flask) -> Held:
    """Return all that an app's database holds; of a type without bodies, ids alone."""
    held: dict[str, dict[str, Versions]] = {name: {} for name in SERVED}
    with app.app_context(), db.engine.connect() as connection:
        for name, definition in SERVED.items():
            table = definition.table
            found = select(table.c.id, table.c.deleted, table.c.body).order_by(table.c.version_id)
            for row_id, is_deleted, body in connection.execute(found):
                resource = json.loads(body) if body else {"resourceType": name, "id": row_id}
                held[name].setdefault(row_id, []).append(None if is_deleted else resource)
    return held


def answered(definition: Definition, resource: Mapping[str, Any]) -> dict[str, Any]:
    """Return a resource as it is answered: the addresses of its attachments are absolute."""
    resource = copy.deepcopy(dict(resource))
    if definition.attachments:
        for attachment in values_at(resource, definition.attachments):
            attachment["url"] = f"{BASE_URL}/fhir/{attachment['url']}"
    return resource


def current(definition: Definition, held: Held) -> dict[str, dict[str, Any]]:
    """Return the resources of a type that are not deleted, by id."""
    everything = held[definition.name].items()
    return {row_id: versions[-1] for row_id, versions in everything if versions[-1] is not None}


def shown(definition: Definition, held: Held) -> dict[str, dict[str, Any]]:
    """Return the resources of a type that a token for everything finds, by id.

    Where the targets decide who may see, those that are not here hide it.
    """
    return {
        row_id: resource
        for row_id, resource in current(definition, held).items()
        if definition.visibility is not Visibility.TARGETS
        or all(target in held.get(name, ()) for name, target in targets(resource))
    }


def example(definition: Definition, held: Held) -> str:
    """Return the id of the resource of a type to ask for: of those with most versions, one."""
    there = shown(definition, held)
    return max(sorted(there), key=lambda row_id: len(held[definition.name][row_id]))


def targets(resource: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the (type, id) of a Provenance's targets."""
    found = (value.split("/")[:2] for value in values_at(resource, "target.reference"))
    return [(name, row_id) for name, row_id in found]


def addresses(definition: Definition, row_id: str) -> list[str]:
    """Return every address under /fhir that answers for a resource's type, its search first."""
    instance = f"{definition.name}/{row_id}"
    found = [definition.name] if definition.searchable else []
    found.append(instance)
    if "history-instance" in definition.interactions:
        found.append(f"{instance}/_history")
    if "vread" in definition.interactions:
        found.append(f"{instance}/_history/1")
    return found


def owned(held: Held, patient: str) -> set[tuple[str, str]]:
    """Return the (type, id) of all that a token for one patient may see."""
    own = {
        (definition.name, row_id)
        for definition in SERVED.values()
        if definition.compartment
        for row_id, versions in held[definition.name].items()
        if _patient(definition, versions) == patient
    }
    carried = {
        (name, row_id)
        for definition in SERVED.values()
        if definition.attachments
        for document, versions in held[definition.name].items()
        if (definition.name, document) in own
        for resource in versions
        for url in values_at(resource or {}, f"{definition.attachments}.url")
        for name, row_id in [url.split("/")]
    }
    shared = {
        (definition.name, row_id)
        for definition in SERVED.values()
        if definition.visibility is Visibility.ANY_SCOPE
        for row_id in held[definition.name]
    }
    known = own | shared
    about = {
        (definition.name, row_id)
        for definition in SERVED.values()
        if definition.visibility is Visibility.TARGETS
        for row_id, versions in held[definition.name].items()
        if known.issuperset(targets(_newest(versions)))
    }
    return known | carried | about


def _newest(versions: Versions) -> dict[str, Any]:
    """Return the newest version that is no deletion."""
    return next(resource for resource in reversed(versions) if resource)


def _patient(definition: Definition, versions: Versions) -> str:
    resource = _newest(versions)
    if definition.compartment == "id":
        return str(resource["id"])
    (reference,) = values_at(resource, f"{definition.compartment}.reference")
    return str(reference).removeprefix("Patient/")


def spellings(parameter: Parameter, resource: Mapping[str, Any]) -> set[str]:
    """Return the values of a parameter that find a resource, as they are written in a query."""
    found: list[Any] = []
    if isinstance(parameter, Presence):
        return {str(any(resource.get(path) for path in parameter.paths)).lower()}
    if isinstance(parameter, ContactToken):
        contacts = [one for one in resource.get("telecom", ()) if "value" in one]
        return {
            value
            for one in contacts
            if one.get("system") == parameter.system
            for value in (_escaped(one["value"]), f"{parameter.system}|{_escaped(one['value'])}")
        }
    for path in parameter.paths:
        values = values_at(resource, path)
        found += values
        if values and parameter.first_of:
            break
    if isinstance(parameter, Words):
        return _words(parameter, resource)
    spell = _SPELL[parameter.kind]
    return {spelled for value in found for spelled in spell(parameter, value)}


# A value of each kind of parameter that no resource has.
NOBODYS = {
    "token": "nobodys",
    "date": "1801-02-03",
    "reference": "nobodys",
    "string": "nobodys",
    "uri": "urn:nobodys",
    "composite": "nobodys$nobodys",
    "quantity": "987654||wk",
}
# Kinds of which a value also finds what has another: a date within it, a text that begins so.
WIDER = frozenset({"date", "string"})


def _tokens(parameter: Parameter, value: Any) -> Iterable[str]:
    if isinstance(value, bool):
        value = "true" if value else "false"
    if isinstance(value, str):
        yield _escaped(value)
        if isinstance(parameter, Token):
            yield f"{parameter.system}|{_escaped(value)}"
        return
    for one in value.get("coding", [value]):
        code = one.get("code", one.get("value"))
        if code is not None:
            yield _escaped(code)
            yield f"{_escaped(one.get('system', ''))}|{_escaped(code)}"


def _dates(_parameter: Parameter, value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
        return
    if "start" in value:
        yield f"ge{value['start']}"
    if "end" in value:
        yield f"le{value['end']}"


def _references(parameter: Reference, value: Any) -> Iterable[str]:
    reference = value.get("reference", "#")
    # Of a parameter for one type, references to others are no values.
    only = parameter.targets[0] if len(parameter.targets) == 1 else ""
    if not reference.startswith("#") and reference.startswith(only):
        yield _escaped(reference)
        yield f"{BASE_URL}/fhir/{_escaped(reference)}"
        yield _escaped(reference.rpartition("/")[2])


def _strings(parameter: Parameter, value: Any) -> Iterable[str]:
    if isinstance(parameter, Phonetic):
        texts = [value] if isinstance(value, str) else [value.get("family", ""), *value["given"]]
        yield from (word for text in texts for word in re.findall(r"[^\W\d_]+", text))
        return
    parts = {"": value} if isinstance(value, str) else value
    for name, text in parts.items():
        # Of a HumanName and an Address these two are codes.
        if isinstance(text, str) and name not in ("use", "type"):
            yield _escaped(text[:200])


def _uris(_parameter: Parameter, value: Any) -> Iterable[str]:
    yield _escaped(value)
    if value.startswith("Binary/"):
        yield f"{BASE_URL}/fhir/{value}"


def _pairs(_parameter: Parameter, value: Any) -> Iterable[str]:
    reference = value["target"].get("reference")
    if reference:
        yield f"{value['code']}${_escaped(reference)}"


def _words(parameter: Words, resource: Mapping[str, Any]) -> set[str]:
    """Return words of a resource's narrative, and for `_content` of its displays too."""
    div = resource.get("text", {}).get("div", "")
    texts = [re.sub(r"<[^>]*>|&[#a-z0-9]+;", " ", div)]
    if not parameter.column:
        texts += values_at(resource, "code.coding.display") + values_at(resource, "type.text")
    found = re.findall(r"[^\W\d_]{6,}", " ".join(texts).lower())
    return {word for word in found if word.isascii()}


def _quantities(_parameter: Parameter, value: Any) -> Iterable[str]:
    number = value["value"]
    return (
        f"{number}",
        f"{number}||{value['code']}",
        f"{number}|{value['system']}|{value['code']}",
    )


_SPELL: Mapping[str, Callable[[Parameter, Any], Iterable[str]]] = {
    "token": _tokens,
    "date": _dates,
    "reference": _references,
    "string": _strings,
    "uri": _uris,
    "composite": _pairs,
    "quantity": _quantities,
}


def _escaped(value: str) -> str:
    return re.sub(r"([\\,|$])", r"\\\1", value)
