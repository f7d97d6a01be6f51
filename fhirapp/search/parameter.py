"""What every search parameter has.

A parameter is declared once, in its type's table of search parameters, which reads like that of the
FHIR specification. What it indexes, what it searches, how it sorts, what /fhir/metadata says of it
and its documentation are all made from that declaration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, TypeVar

from fhirapp.db import quoted
from fhirapp.fhir.outcome import InvalidParameter, TooCostly, UnsupportedParameter
from fhirapp.fhir.words import worded
from fhirapp.search.index import IndexRow, IndexTables, TokenRow
from fhirapp.search.values import (
    AnyCondition,
    Condition,
    IndexCondition,
    any_of,
    is_in,
    parse_boolean,
    repr_value,
    split,
    unescape,
    values_at,
)


class ResolvedCodes(NamedTuple):
    """The (system, code) pairs that a value stands for, and a phrase that describes them."""

    codes: Sequence[tuple[str, str]]
    doc: str


# Returns the codes that a value stands for, given the parameter's name, its modifier and the value.
Resolve = Callable[[str, str, str], ResolvedCodes]


@dataclass(frozen=True)
class Context:
    """What conditions are made with: the type's index tables, and the server's base address.

    terminology returns the codes of a value set; without it, values that name one are refused.
    """

    tables: IndexTables
    base_url: str
    terminology: Resolve | None = None

    def table(self, row: type[IndexRow]) -> str:
        """Return the table of a kind of index row, as SQL names it."""
        return quoted(self.tables.of(row).name)


def is_named(names: Sequence[str]) -> str:
    """Return the SQL that an index row has one of these names; its values are the names."""
    if len(names) == 1:
        return "k.param = ?"
    return f"k.param IN ({', '.join('?' * len(names))})"


_R4 = "http://hl7.org/fhir/SearchParameter/"
# R4's parameters of clinical types, for Parameters(shared=…).
CLINICAL = dict.fromkeys(("code", "date", "encounter", "identifier", "patient", "type"), "clinical")
_NONE: Mapping[str, str] = {}

# SQLite takes 32,766 values in a statement; chains need some of them.
_MOST_SOUGHT = 21_000


def check_size(parameter: str, conditions: Sequence[AnyCondition]) -> None:
    """Raises TooCostly for conditions with more values than the databases take in a statement."""
    if sum(len(condition.values) for condition in conditions) > _MOST_SOUGHT:
        raise TooCostly(parameter, "the search is for more codes than can be looked for at once")


class Walk(NamedTuple):
    """How an index table is read in the order of a parameter's values, one name after another."""

    table: str
    names: tuple[str, ...]
    # The columns that sort: of the value, and of what tells equal values apart.
    value: str
    second: str
    # What stands in the first column for an element without a value.
    absent: Any
    # Whether of several values the greatest counts, not the least.
    descending: bool


@dataclass(frozen=True)
class SortKey:
    """What results are sorted by: an SQL expression, with {row} for the name of the row.

    missing is the value of a row that has none, which comes last. walk reads the index table that
    is in the key's order, if there is one.
    """

    sql: str
    values: tuple[Any, ...] = ()
    descending: bool = False
    missing: Any = None
    walk: Walk | None = None


@dataclass(frozen=True)
class Parameter:
    """A search parameter: its name, where in the resource its values stand, and what it means.

    path is an element path below the resource, or several: "code | reaction.substance"; all are
    indexed, or with first_of only the first that is there. spec is the canonical address of the
    parameter's definition; Parameters adds that of FHIR R4, save where is_in_fhir says that only
    service.md defines the parameter.
    """

    name: str
    path: str
    doc: str
    _: KW_ONLY
    spec: str = ""
    is_in_fhir: bool = True
    # Parameters whose index rows this one searches, having none of its own: of DocumentReference
    # `code`, `type`.
    searches: tuple[str, ...] = ()
    first_of: bool = False

    kind: ClassVar[str]
    # Whether it has index rows; other parameters search a column of the row, or its words.
    indexed: ClassVar[bool] = True
    # Those of the kind; every parameter takes `:missing` too.
    modifiers: ClassVar[frozenset[str]] = frozenset()
    # The kind of index row, and the values in it of an element that is there without a value: it
    # is not missing.
    row: ClassVar[type[IndexRow]]
    absent: ClassVar[tuple[Any, Any]] = ("", "")
    sortable: ClassVar[bool] = True
    # The value that sorts last, ascending and descending: that of a resource without one.
    sorts_last: ClassVar[tuple[Any, Any]] = ("\U0010ffff", "")

    @cached_property
    def paths(self) -> tuple[str, ...]:
        """The element paths, in order."""
        return tuple(self.path.split(" | ")) if self.path else ()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the parameter's index rows."""
        return self.searches or (self.name,)

    @property
    def sorted_names(self) -> tuple[str, ...]:
        """The names of the index rows that the parameter sorts by."""
        return self.names

    def has_row(
        self,
        context: Context,
        sql: str = "",
        *values: Any,
        suffixes: Sequence[str] = ("",),
        row: type[IndexRow] | None = None,
        negated: bool = False,
    ) -> IndexCondition:
        """Return the condition that a resource has an index row of the parameter like this.

        sql is what must hold of the row `k`, and values are its own. suffixes name the rows of a
        modifier: `:text` those of `code:text`. row is their kind, that of the parameter by default.
        """
        names = [name + suffix for suffix in suffixes for name in self.names]
        return IndexCondition(
            context.table(row or self.row),
            " AND ".join(filter(None, (is_named(names), sql))),
            (*names, *values),
            negated,
        )

    def rows(self, resource: Mapping[str, Any]) -> list[IndexRow]:
        """Return what is to be indexed of a resource."""
        rows: list[IndexRow] = []
        for path in self.paths:
            values = values_at(resource, path)
            for value in values:
                rows += self.rows_of(value)
            if values and self.first_of:
                break
        return rows

    def rows_of(self, value: Any) -> Sequence[IndexRow]:
        """Return the index rows of one value in a resource; at least one, of self.row."""
        rows = self.index(value)
        if not rows or type(rows[0]) is not self.row:
            return [self.row(self.name, *self.absent), *rows]
        return rows

    def index(self, value: Any) -> list[IndexRow]:
        """Return the index rows of one value in a resource, those of self.row first."""
        raise NotImplementedError

    def conditions(
        self, modifier: str, values: Sequence[str], context: Context
    ) -> list[AnyCondition]:
        """Return a condition for each repetition of the parameter. Raises FhirError."""
        self.check_modifier(modifier)
        make = self.missing if modifier == "missing" else partial(self.condition, modifier)
        conditions = [
            any_of([make(choice, context) for choice in self.choices(value)])
            for value in dict.fromkeys(values)
        ]
        check_size(self.name, conditions)
        return conditions

    def choices(self, value: str) -> list[str]:
        """Return the values that commas separate, each once and none empty.

        Raises InvalidParameter where none is left: to ignore the parameter would widen the answer.
        """
        return self.distinct_values(split(value, ","))

    def distinct_values(self, values: Sequence[str]) -> list[str]:
        """Return values each once and none empty. Raises InvalidParameter where none is left."""
        choices = [value for value in dict.fromkeys(values) if value.strip()]
        if not choices:
            raise self.invalid("lists no value")
        return choices

    def check_modifier(self, modifier: str) -> None:
        """Raises UnsupportedParameter for a modifier that the parameter does not take."""
        if modifier and modifier != "missing" and not self.accepts(modifier):
            raise UnsupportedParameter(
                f"{self.name}:{modifier}",
                f"the modifier is not supported on a {self.kind} parameter here",
            )

    def accepts(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def missing(self, value: str, context: Context) -> AnyCondition:
        """Return the condition that a resource has no value, or with "false" that it has one."""
        negated = parse_boolean(f"{self.name}:missing", value)
        return self.has_row(context, negated=negated)

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        """Return the condition of one value, already split at commas. Raises FhirError."""
        raise NotImplementedError

    def describe(self, modifier: str, value: str, context: Context) -> str:
        """Return a phrase for what one value looks for, after "matches what …"."""
        raise NotImplementedError

    def interval(self, value: str) -> tuple[str, str, str] | None:  # noqa: ARG002
        """Return the prefix, start and end of a date's interval; None for other values."""
        return None

    def sort_key(self, context: Context, *, descending: bool) -> SortKey:
        """Return the key that sorts by the least value, descending by the greatest."""
        table, names = context.table(self.row), self.sorted_names
        value, second = self.row._fields[1:]
        least = "max" if descending else "min"
        missing = self.sorts_last[descending]
        return SortKey(
            f"coalesce((SELECT {least}(k.{value}) FROM {table} k"
            f" WHERE k.pk = {{row}}.pk AND {is_named(names)} AND k.{value} <> ?), ?)",
            (*names, self.absent[0], missing),
            descending,
            missing,
            Walk(table, names, value, second, self.absent[0], descending),
        )

    def invalid(self, message: str) -> InvalidParameter:
        return InvalidParameter(self.name, message)


@dataclass(frozen=True)
class ColumnParameter(Parameter):
    """A parameter that searches a column of the row, which has a value in all rows."""

    column: ClassVar[str]
    indexed = False

    def missing(self, value: str, context: Context) -> Condition:  # noqa: ARG002
        if parse_boolean(f"{self.name}:missing", value):
            return Condition("1 = 0", narrows=True)
        return Condition("1 = 1")

    def sort_key(self, context: Context, *, descending: bool) -> SortKey:  # noqa: ARG002
        return SortKey(f"{{row}}.{self.column}", descending=descending)


@dataclass(frozen=True)
class IdParameter(ColumnParameter):
    """`_id`: the resource's own id."""

    name: str = "_id"
    path: str = "id"
    doc: str = "One id or a comma-separated list of ids"

    kind = "token"
    column = "id"
    row = TokenRow
    modifiers = frozenset({"not"})

    def conditions(
        self, modifier: str, values: Sequence[str], context: Context
    ) -> list[AnyCondition]:
        if modifier != "not":
            return super().conditions(modifier, values, context)
        # As with every token, a resource has none of the listed values.
        return [
            Condition(f"NOT {among.sql}", among.values)
            for value in dict.fromkeys(values)
            for among in [is_in("r.id", [unescape(choice) for choice in self.choices(value)])]
        ]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        return Condition("r.id = ?", (unescape(value),), narrows=True)

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        resource_id = repr_value(unescape(value))
        if modifier == "not":
            return worded("lacks the id %(id)s", id=resource_id)
        return worded("has the id %(id)s", id=resource_id)

    def ids(self, values: Sequence[str]) -> list[str]:
        """Return the ids that the values list, each once."""
        listed = [unescape(choice) for value in values for choice in split(value, ",")]
        return list(dict.fromkeys(listed))


AnyParameter = TypeVar("AnyParameter", bound=Parameter)


class Parameters:
    """The search parameters of a type, by name; shared is that of with_canonicals()."""

    def __init__(
        self, type_name: str = "", *declared: Parameter, shared: Mapping[str, str] = _NONE
    ) -> None:
        self.declared = with_canonicals(type_name, *declared, shared=shared)
        self.by_name: Mapping[str, Parameter] = {param.name: param for param in self.declared}
        self._indexed = [param for param in self.declared if param.indexed and not param.searches]

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.declared)

    def rows(self, resource: Mapping[str, Any]) -> set[IndexRow]:
        """Return every index row of a resource."""
        return {row for parameter in self._indexed for row in parameter.rows(resource)}


def with_canonicals(
    type_name: str, *declared: AnyParameter, shared: Mapping[str, str] = _NONE
) -> tuple[AnyParameter, ...]:
    """Return parameters of a type with the canonical addresses that FHIR R4 gives them.

    shared has the names that R4 defines once for several types, and what stands there in the
    address in place of the type: `clinical` of clinical-patient.
    """

    def with_canonical(parameter: AnyParameter) -> AnyParameter:
        if parameter.spec or not parameter.is_in_fhir:
            return parameter
        defined_for = shared.get(parameter.name, type_name)
        return replace(parameter, spec=f"{_R4}{defined_for}-{parameter.name.lstrip('_')}")

    return tuple(map(with_canonical, declared))
