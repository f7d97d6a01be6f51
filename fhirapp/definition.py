"""What a resource type declares of itself; everything else is behaviour, written once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, NamedTuple

from flask import current_app
from flask.sansio.app import App
from sqlalchemy import Table

from fhirapp.db import quoted
from fhirapp.fhir.elements import Binding, binding_at
from fhirapp.fhir.resource import ResourceSchema
from fhirapp.search.fulltext import declare_words
from fhirapp.search.index import IndexTables, index_tables
from fhirapp.search.parameter import Parameter, Parameters
from fhirapp.search.reference import Reference
from fhirapp.search.words import Words


class Visibility(Enum):
    """What lets a token see a resource of the type (decisions §6)."""

    SCOPE = "a scope on the type"
    ANY_SCOPE = "any clinical scope"
    CARRIER = "a visible resource that carries it as an attachment"
    TARGETS = "every one of its targets is visible"


class View(NamedTuple):
    """What makes a type a view: its versions follow from those of another, source, as they come.

    make returns what a resource of the source, as it is stored, is in the view; None for nothing.
    A view takes no data of its own.
    """

    source: str
    make: Callable[[Mapping[str, Any]], Mapping[str, Any] | None]


class OperationParameter(NamedTuple):
    """What an operation takes or returns: FHIR's name, type and a sentence.

    One that has parts has no type. is_list says whether commas separate the values of one that
    repeats.
    """

    name: str
    type: str
    doc: str
    required: bool = False
    repeats: bool = False
    parts: tuple[OperationParameter, ...] = ()
    is_list: bool = True


class Operation(NamedTuple):
    """An operation, `$name` on the type or on one of its resources.

    definition is its canonical, empty for one of our own.
    answer is the type of what it answers, DocumentBundle for a document; is_paged says whether that
    comes in pages; returns are the parameters of an answer that is Parameters, of an operation of
    our own; needs_record says that it is refused where what it is about is not here.
    """

    name: str
    definition: str
    doc: str
    parameters: tuple[OperationParameter, ...] = ()
    instance: bool = False
    answer: str = "Bundle"
    is_paged: bool = True
    returns: tuple[OperationParameter, ...] = ()
    needs_record: bool = False

    @property
    def resource(self) -> str:
        """The parameter that is a resource, which goes in the body of a POST; empty for none."""
        return next((param.name for param in self.parameters if param.type == "Resource"), "")

    @property
    def takes_resource(self) -> str:
        """How one is asked that takes a resource."""
        return f"${self.name} takes a resource: POST it, by itself or in Parameters."


class TableColumn(NamedTuple):
    """A column of the explorer's tables: its heading, and the text of a missing value.

    Of its element paths the first with a value counts.
    """

    heading: str
    paths: tuple[str, ...]
    missing: str


def _nothing(_columns: Mapping[str, Any]) -> Mapping[str, Any]:
    return {}


def _no_remarks(_resource: Mapping[str, Any]) -> Iterable[str]:
    return ()


class Labels(NamedTuple):
    """What pages call a type's resources; by default its name.

    singular has its article: "an allergy". scope is what a consent opens, in words for patients;
    sensitive warns them of it.
    """

    singular: str = ""
    plural: str = ""
    scope: str = ""
    sensitive: bool = False


_BY_NAME = Labels()


@dataclass(frozen=True, kw_only=True)
class Definition:
    """A resource type.

    compartment is the path of the reference to the patient, "id" for the patient itself, empty for
    types outside it. attachments is the path of Attachments whose bytes go to Binary; a view only
    names those of its source there. rank orders an import: what others point to comes first.
    searchable types answer search-type. derive returns the columns that follow from others.
    remarks returns what an import reports of a valid resource that it takes all the same.
    """

    name: str
    schema: ResourceSchema
    table: Table
    params: Parameters = field(default_factory=Parameters)
    compartment: str = ""
    attachments: str = ""
    rank: int = 0
    searchable: bool = False
    # Whether a search names a patient or ids, where that is enforced (service.md 4, rule 2).
    patient_or_id: bool = False
    # service.md 4.2: `_revinclude` once, and only of Provenance:target.
    provenance_alone: bool = False
    # read, vread, history-instance, history-type
    interactions: tuple[str, ...] = ("read", "vread", "history-instance")
    visibility: Visibility = Visibility.SCOPE
    stores_body: bool = True
    derive: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _nothing
    remarks: Callable[[Mapping[str, Any]], Iterable[str]] = _no_remarks
    view: View | None = None
    # Canonical addresses of the profiles, as /fhir/metadata lists them.
    profiles: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    # Parameters that US Core's CapabilityStatement names together: "patient+category".
    combinations: tuple[str, ...] = ()
    # The date parameters that tell when the care was, the first that is there; empty for what is
    # no care, but stands: an allergy.
    care: tuple[str, ...] = ()
    doc: str = ""
    labels: Labels = _BY_NAME
    # Whether pages list the type before others, and count its resources.
    featured: bool = False
    # The columns of the explorer's tables; by default they show the narrative.
    table_columns: tuple[TableColumn, ...] = ()

    def __post_init__(self) -> None:
        # Declared with the type, so that creating the tables creates these too.
        index_tables(self.table)
        if self.has_words:
            declare_words(self.tables)

    @cached_property
    def sql_table(self) -> str:
        """The table's name as SQL writes it."""
        return quoted(self.table.name)

    @cached_property
    def tables(self) -> IndexTables:
        return index_tables(self.table)

    @cached_property
    def has_words(self) -> bool:
        """Whether the words of the type's resources can be searched."""
        return any(isinstance(parameter, Words) for parameter in self.params)

    @cached_property
    def references(self) -> Mapping[str, Reference]:
        """The parameters that are references, by name: chains and includes follow them."""
        return {param.name: param for param in self.params if isinstance(param, Reference)}

    @cached_property
    def columns(self) -> Mapping[str, str]:
        """The column of each element that has one, by FHIR's name of the element."""
        return {
            name: column
            for column, name in self.schema.columns().items()
            if column in self.table.columns
        }

    def bindings(self, parameter: Parameter) -> list[Binding]:
        """Return the required bindings of a parameter's elements; none unless all have one."""
        if parameter.searches:
            searched = [self.params.by_name[name] for name in parameter.searches]
            return [binding for part in searched for binding in self.bindings(part)]
        bindings = []
        for path in parameter.paths:
            name, *rest = path.split(".")
            element = self.schema.elements.get(name)
            bindings.append(binding_at(element.check if element else None, rest))
        return [binding for binding in bindings if binding] if all(bindings) else []


_TYPES = "fhirapp.types"


def register_type(app: App, definition: Definition) -> None:
    """Make a type known to the app that serves it."""
    app.extensions.setdefault(_TYPES, {})[definition.name] = definition


def types(app: App | None = None) -> Mapping[str, Definition]:
    """Return the types that the app serves, by name."""
    definitions: Mapping[str, Definition] = (app or current_app).extensions.get(_TYPES, {})
    return definitions


def featured_types() -> list[str]:
    """Return the names of the types that pages list first."""
    return sorted(name for name, definition in types().items() if definition.featured)


def views_of(definition: Definition) -> list[Definition]:
    """Return the types that are views of a type."""
    return [view for view in types().values() if view.view and view.view.source == definition.name]
