"""A resource's schema: what FHIR JSON may hold, and marshmallow's way from a row to it.

A schema declares every R4 element of its type in the specification's order, in snake_case:
`clinical_status = fields.CodeableConcept()` is FHIR's clinicalStatus. `load`, `validate` and `dump`
are marshmallow's own, and the hooks of ResourceSchema add what FHIR JSON has beside fields:
resourceType, choices and the `_name` of primitives. `load` checks a resource and returns its
elements; `dump` turns a row (a mapping with a column for most elements, the rest in `extra` under
FHIR's names) into the resource as it is served, save the base address.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, ClassVar, cast

from marshmallow import (
    EXCLUDE,
    Schema,
    ValidationError,
    post_dump,
    post_load,
    pre_dump,
    pre_load,
    validates_schema,
)
from marshmallow.exceptions import SCHEMA
from marshmallow.fields import Field

from fhirapp.fhir import datatypes, fields, narrative
from fhirapp.fhir.elements import Complex, InvalidElement


class InvalidResource(ValidationError, ValueError):
    """A resource that breaks FHIR's rules; faults are (element path, what is wrong)."""

    def __init__(self, faults: list[tuple[str, str]]) -> None:
        messages: dict[str, list[str]] = {}
        for path, message in faults:
            messages.setdefault(path, []).append(message)
        super().__init__(messages)
        self.faults = faults

    def __str__(self) -> str:
        return "; ".join(f"{path}: {message}" for path, message in self.faults)


class ResourceSchema(Schema):
    """What every resource has. Source: FHIR R4 resource §2.1."""

    resource_type: ClassVar[str]
    narrative: ClassVar[tuple[narrative.Row, ...]] = ()

    id = fields.Id(datatypes.identity, summary=True)
    meta = fields.Meta(datatypes.Meta, summary=True)
    implicit_rules = fields.Uri(summary=True, modifier=True, column=False)
    language = fields.Element(datatypes.code, column=False)

    class Meta:
        # What is no field may be the sibling of one: check_others looks at it.
        unknown = EXCLUDE

    def on_bind_field(self, field_name: str, field_obj: Field[Any]) -> None:
        field_obj.data_key = field_obj.attribute = fhir_name(field_name)

    def __init__(self) -> None:
        # What is required may have nothing but extensions: check_others looks for it.
        super().__init__(partial=True)
        elements = {
            fhir_name(name): field
            for name, field in self.fields.items()
            if isinstance(field, fields.Element)
        }
        # By FHIR's names.
        self.elements: Mapping[str, fields.Element] = elements
        self._order = {name: place for place, name in enumerate(elements)}
        # FHIR's name of each column: `class` also where Python had to write `class_`.
        self._by_column = {name.rstrip("_"): fhir_name(name) for name in self.fields}
        self.checks = Complex(
            {name: element.check for name, element in elements.items()},
            required=[name for name, element in elements.items() if element.required],
            choices=sorted({element.choice for element in elements.values() if element.choice}),
            primitives=datatypes.PRIMITIVES,
            sibling=datatypes.primitive_extension,
        )

    def load(self, data: Any, **options: Any) -> dict[str, Any]:
        """Check a resource and return its elements by FHIR name, in their normal form.

        With `_name` siblings, without resourceType. Raises InvalidResource with every fault.
        """
        try:
            loaded: dict[str, Any] = super().load(data, **options)
        except RecursionError:
            raise InvalidResource([(self.resource_type, "is nested too deeply")]) from None
        return loaded

    @pre_load
    def check_type(self, data: Any, **_options: Any) -> Any:
        """Raise ValidationError for what is no resource of this type."""
        if type(data) is not dict:
            raise ValidationError("must be a JSON object", "")
        if data.get("resourceType") != self.resource_type:
            raise ValidationError(f"must be {self.resource_type}", "resourceType")
        return data

    @validates_schema(pass_original=True, skip_on_field_errors=False)
    def check_others(self, elements: Mapping[str, Any], data: Any, **_options: Any) -> None:
        """Check what is no field, and what elements require and exclude of each other."""
        faults: defaultdict[str, dict[str, list[str]]] = defaultdict(dict)
        if len(elements) < len(data) - 1:
            for name in data.keys() - self.elements.keys() - {"resourceType"}:
                try:
                    self.checks.sibling(name, data)
                except InvalidElement as error:
                    faults[name][error.path] = [error.message]
        for fault in self.checks.missing_and_excess(data):
            faults[fault.path].setdefault("", []).append(fault.message)
        if faults:
            raise ValidationError(dict(faults))

    @post_load(pass_original=True)
    def with_siblings(
        self, elements: Mapping[str, Any], data: Mapping[str, Any], **_options: Any
    ) -> dict[str, Any]:
        """Return the elements with the siblings of primitives, in the order of the resource."""
        return {
            name: elements[name] if name in elements else self.checks.sibling(name, data)
            for name in data
            if name != "resourceType"
        }

    def handle_error(self, error: ValidationError, data: Any, **_options: Any) -> None:
        """Raise the faults as InvalidResource, in the order of the resource."""
        places = {name: place for place, name in enumerate(data)} if type(data) is dict else {}
        messages = cast("dict[str, Any]", error.messages)
        faults = []
        for name in sorted(messages, key=lambda name: places.get(name, len(places))):
            top = name if name == "resourceType" else f"{self.resource_type}.{name}".rstrip(".")
            found = messages[name]
            for path, texts in found.items() if isinstance(found, dict) else [(SCHEMA, found)]:
                inside = "" if path == SCHEMA else path
                where = InvalidElement("", inside).below(top).path if inside else top
                faults += [(where, text) for text in texts]
        raise InvalidResource(faults)

    def columns(self) -> Mapping[str, str]:
        """Return FHIR's name of each element by the column that it would have."""
        return self._by_column

    @classmethod
    def columns_of_elements(cls) -> Mapping[str, type]:
        """Return the column of each element but id that has one, and the type of its values."""
        return {
            name.rstrip("_"): datatypes.PRIMITIVES.get(field.check, dict)
            for name, field in cls._declared_fields.items()
            if isinstance(field, fields.Element) and field.column and name != "id"
        }

    @pre_dump
    def source(self, row: Mapping[str, Any], **_options: Any) -> fields.Source:
        """Return what a row holds: a column for most elements, the others in `extra`.

        The row may also name `blobs` and `empty_content`.
        """
        elements = {
            name: value
            for column, name in self._by_column.items()
            if (value := row.get(column)) is not None
        }
        return fields.Source(
            {**elements, **(row.get("extra") or {})},
            row["id"],
            row["version_id"],
            row["last_updated"],
            row.get("blobs") or {},
            row.get("empty_content") or "omit",
        )

    def searched(self, resource: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a served resource as search parameters read it."""
        return resource

    @post_dump(pass_original=True)
    def in_order(
        self, elements: Mapping[str, Any], row: Mapping[str, Any], **_options: Any
    ) -> dict[str, Any]:
        """Return the resource, with the siblings of primitives, in the specification's order."""
        resource = {"resourceType": self.resource_type, **elements}
        if siblings := self.siblings(row):
            resource.update(siblings)
            order = self._order
            ranked = sorted(resource, key=lambda name: (order.get(name.lstrip("_"), -1), name))
            resource = {name: resource[name] for name in ranked}
        return resource

    def siblings(self, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the siblings of primitives that a row holds, as clients see them."""
        return {name: value for name, value in (row.get("extra") or {}).items() if name[0] == "_"}


class DomainResourceSchema(ResourceSchema):
    """What every resource has that may carry a narrative. Source: FHIR R4 domainresource §2.27."""

    text = fields.NarrativeElement(datatypes.Narrative)
    contained = fields.List(datatypes.contained_resource, column=False)
    extension = fields.Element(datatypes.EXTENSIONS, column=False)
    modifier_extension = fields.Element(datatypes.EXTENSIONS, modifier=True, column=False)


def fhir_name(attribute: str) -> str:
    """Return FHIR's name of an attribute: `clinical_status` is clinicalStatus."""
    head, *rest = attribute.rstrip("_").split("_")
    return head + "".join(part.capitalize() for part in rest)
