"""Check a resource and take it apart into what is stored: pure, and the only place that refuses.

Source: FHIR R4; decisions 2.18, 2.21.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from fhirapp.address import own_prefix
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.resource import InvalidResource
from fhirapp.search.reference import relative_reference
from fhirapp.search.values import values_at
from fhirapp.store import attachments
from fhirapp.store.attachments import Blob
from fhirapp.store.definition import Definition


@dataclass(frozen=True)
class Prepared:
    """A valid resource, ready to be written: its columns, its attachments' bytes, its digest."""

    definition: Definition
    id: str
    columns: Mapping[str, Any]
    digest: bytes
    blobs: Sequence[Blob] = ()


def prepare(definition: Definition, resource: Any) -> Prepared:
    """Check a resource and take it apart. Raises InvalidResource with every fault found."""
    try:
        elements = definition.schema.load_resource(resource)
        faults = []
    except InvalidResource as error:
        elements, faults = {}, error.faults
    if type(resource) is dict and "id" not in resource:
        faults = [(f"{definition.name}.id", "is required"), *faults]
    if faults:
        raise InvalidResource(faults)
    resource_id = elements.pop("id")
    meta = {
        name: value
        for name, value in elements.pop("meta", {}).items()
        if name not in ("versionId", "lastUpdated")
    }
    if meta:
        elements["meta"] = meta
    blobs: list[Blob] = []
    if definition.attachments:
        blobs = attachments.extract(resource_id, elements, definition.attachments, definition.name)
    text = _canonical(definition, elements)
    own = own_prefix()
    if own and own.encode() in text:
        _make_relative(elements, own)
        text = _canonical(definition, elements)
    digest = blake2b(text, digest_size=16).digest()
    columns: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in elements.items():
        column = definition.columns.get(name)
        if column is None:
            extra[name] = value
        else:
            columns[column] = value
    columns["extra"] = extra or None
    columns["patient_id"] = _patient_id(definition, resource_id, elements)
    columns.update(definition.derive(columns))
    return Prepared(definition, resource_id, columns, digest, blobs)


def _canonical(definition: Definition, elements: Mapping[str, Any]) -> bytes:
    """Return the content's canonical JSON, bytes by their digest: they may be many.

    Raises InvalidResource where it cannot be written.
    """
    content = {
        name: blake2b(value, digest_size=16).hexdigest() if type(value) is bytes else value
        for name, value in elements.items()
    }
    try:
        return fhir_json.canonical(content)
    except TypeError:
        raise InvalidResource([(definition.name, "is nested too deeply")]) from None


def _make_relative(value: Any, own: str) -> None:
    """Make references to this server's own address relative: service.md 2.2 has `Patient/<id>`."""
    if isinstance(value, list):
        for item in value:
            _make_relative(item, own)
    elif isinstance(value, dict):
        target = value.get("reference")
        if isinstance(target, str):
            value["reference"] = target.removeprefix(own)
        for content in value.values():
            _make_relative(content, own)


def _patient_id(
    definition: Definition, resource_id: str, elements: Mapping[str, Any]
) -> str | None:
    if definition.compartment == "id":
        return resource_id
    for value in values_at(elements, f"{definition.compartment}.reference"):
        target = relative_reference(value)
        if target and target[0] == "Patient":
            return target[1]
    return None


def binary_of(binary: Definition, blob: Blob, patient_id: str | None) -> Prepared:
    """Return the Binary that holds an attachment's bytes."""
    columns: dict[str, Any] = {
        "content_type": blob.content_type,
        "data": blob.data,
        "words": blob.words,
    }
    columns.update(binary.derive(columns), patient_id=patient_id)
    # As of a Binary that comes by itself.
    elements = {"contentType": blob.content_type, "data": blob.data}
    digest = blake2b(_canonical(binary, elements), digest_size=16).digest()
    return Prepared(binary, blob.id, columns, digest)
