"""What every search parameter has, and the conditions that its values become.

A parameter is declared once, in a type's params.py; what it indexes, what it searches, what
/fhir/metadata says of it and its documentation are all made from that declaration.
Conditions speak of the resource row as `r`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, ClassVar

from fhirapp.db import quoted
from fhirapp.fhir.outcome import InvalidParameter, UnsupportedParameter
from fhirapp.search.index import IndexRow, IndexTables


@dataclass(frozen=True)
class Condition:
    """A piece of WHERE on the row itself."""

    sql: str
    values: tuple[Any, ...] = ()
    # Whether it alone leaves few rows: one patient's, or those of listed ids.
    narrows: bool = False

    def where(self) -> Condition:
        return self


@dataclass(frozen=True)
class IndexCondition:
    """A piece of WHERE on an index table, `k` in the SQL: the row has, or lacks, such a value."""

    table: str
    sql: str
    values: tuple[Any, ...]
    # Whether the table's key finds one row's value; otherwise all values are gathered first.
    seekable: bool = True
    negated: bool = False

    narrows: ClassVar[bool] = False

    def where(self) -> Condition:
        """Return the condition that asks each row on its own, where the key allows that."""
        negation = "NOT " if self.negated else ""
        if not self.seekable:
            # The plus keeps SQLite from walking the gathered rows instead of the result's order.
            return Condition(f"+{self._gathered(negation)}", self.values)
        return Condition(
            f"{negation}EXISTS (SELECT 1 FROM {self.table} k WHERE k.pk = r.pk AND {self.sql})",
            self.values,
        )

    def gathered(self) -> Condition:
        """Return the condition that gathers the matching rows first: fast where they are few."""
        return Condition(self._gathered("NOT " if self.negated else ""), self.values)

    def _gathered(self, negation: str) -> str:
        return f"r.pk {negation}IN (SELECT k.pk FROM {self.table} k WHERE {self.sql})"

    def count_to(self, limit: int) -> Condition:
        """Return the SELECT that counts the index rows, up to a limit."""
        return Condition(
            f"SELECT count(*) FROM (SELECT 1 FROM {self.table} k WHERE {self.sql} LIMIT {limit}) c",
            self.values,
        )


AnyCondition = Condition | IndexCondition


def any_of(conditions: Sequence[AnyCondition]) -> AnyCondition:
    """Return the condition that one of these holds."""
    if len(conditions) == 1:
        return conditions[0]
    first = conditions[0]
    if isinstance(first, IndexCondition) and all(
        isinstance(other, IndexCondition)
        and (other.table, other.negated) == (first.table, first.negated)
        for other in conditions
    ):
        together: list[IndexCondition] = list(conditions)  # type: ignore[arg-type]
        return IndexCondition(
            first.table,
            "(" + " OR ".join(f"({one.sql})" for one in together) + ")",
            tuple(value for one in together for value in one.values),
            seekable=all(one.seekable for one in together),
            negated=first.negated,
        )
    rendered = [condition.where() for condition in conditions]
    return Condition(
        "(" + " OR ".join(one.sql for one in rendered) + ")",
        tuple(value for one in rendered for value in one.values),
        narrows=all(condition.narrows for condition in conditions),
    )


@dataclass(frozen=True)
class Context:
    """What a value needs to know to be understood: whose index tables, which address is ours."""

    tables: IndexTables
    base_url: str


@dataclass(frozen=True)
class Parameter:
    """A search parameter: its name, where in the resource its values stand, and what it means.

    paths are element paths below the resource ("reaction.manifestation"); all are indexed, or with
    first_of only the first that is there. spec is the parameter's canonical address in FHIR, empty
    where only service.md defines it.
    """

    name: str
    paths: tuple[str, ...]
    doc: str
    spec: str = ""
    # Parameters whose index rows this one searches, having none of its own: of DocumentReference
    # `code`, `type`.
    searches: tuple[str, ...] = ()
    first_of: bool = False

    kind: ClassVar[str]
    modifiers: ClassVar[frozenset[str]] = frozenset()

    def named(self) -> tuple[str, tuple[str, ...]]:
        """Return the SQL, and its values, that picks the parameter's index rows."""
        names = self.searches or (self.name,)
        if len(names) == 1:
            return "k.param = ?", names
        return f"k.param IN ({', '.join('?' * len(names))})", names

    def rows(self, resource: Mapping[str, Any]) -> list[IndexRow]:
        """Return what is to be indexed of a resource."""
        rows: list[IndexRow] = []
        for path in self.paths:
            values = values_at(resource, path)
            for value in values:
                rows += self.index(value)
            if values and self.first_of:
                break
        return rows

    def index(self, value: Any) -> list[IndexRow]:
        """Return the index rows of one value in a resource."""
        raise NotImplementedError

    def conditions(
        self, modifier: str, values: Sequence[str], context: Context
    ) -> list[AnyCondition]:
        """Return what must hold for every repetition of the parameter. Raises FhirError."""
        self.check_modifier(modifier)
        return [
            any_of(
                [self.condition(modifier, one, context) for one in dict.fromkeys(split(value, ","))]
            )
            for value in dict.fromkeys(values)
        ]

    def check_modifier(self, modifier: str) -> None:
        """Raises UnsupportedParameter for a modifier that the parameter does not take."""
        if modifier and not self.accepts(modifier):
            raise UnsupportedParameter(
                f"{self.name}:{modifier}",
                f"the modifier is not supported on a {self.kind} parameter here",
            )

    def accepts(self, modifier: str) -> bool:
        return modifier in self.modifiers

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        """Return what must hold for one value, commas already split. Raises FhirError."""
        raise NotImplementedError

    def invalid(self, message: str) -> InvalidParameter:
        return InvalidParameter(self.name, message)


@dataclass(frozen=True)
class Identity(Parameter):
    """`_id`: the resource's own id."""

    name: str = "_id"
    paths: tuple[str, ...] = ("id",)
    doc: str = "One id or a comma-separated list of ids"
    spec: str = "http://hl7.org/fhir/SearchParameter/Resource-id"

    kind = "token"

    def rows(self, resource: Mapping[str, Any]) -> list[IndexRow]:  # noqa: ARG002
        return []

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        return Condition("r.id = ?", (unescape(value),), narrows=True)

    def ids(self, values: Sequence[str]) -> list[str]:
        """Return every id that the values list, each once."""
        listed = [unescape(one) for value in values for one in split(value, ",")]
        return list(dict.fromkeys(listed))


@dataclass(frozen=True)
class Parameters:
    """The search parameters of a type, by name."""

    declared: tuple[Parameter, ...]
    by_name: Mapping[str, Parameter] = field(init=False, repr=False)
    # Those that are indexed, by the top-level elements without which they find nothing.
    _indexed: tuple[tuple[frozenset[str], Parameter], ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        named = {parameter.name: parameter for parameter in self.declared}
        object.__setattr__(self, "by_name", named)
        indexed = tuple(
            (frozenset(path.partition(".")[0] for path in parameter.paths), parameter)
            for parameter in self.declared
            if not parameter.searches
        )
        object.__setattr__(self, "_indexed", indexed)

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self.declared)

    def rows(self, resource: Mapping[str, Any]) -> set[IndexRow]:
        """Return every index row of a resource."""
        present = resource.keys()
        rows: set[IndexRow] = set()
        for needed, parameter in self._indexed:
            if not needed.isdisjoint(present):
                rows.update(parameter.rows(resource))
        return rows


def table_name(table: Any) -> str:
    return quoted(table.name)


@cache
def _steps(path: str) -> tuple[str, ...]:
    return tuple(path.split("."))


def values_at(resource: Mapping[str, Any], path: str) -> list[Any]:
    """Return the values at an element path, lists taken apart."""
    first, *rest = _steps(path)
    values = _members(resource.get(first))
    for step in rest:
        values = [
            member
            for value in values
            if isinstance(value, dict)
            for member in _members(value.get(step))
        ]
    return values


def _members(value: Any) -> list[Any]:
    """Return a list's members, or the value as the only one; null is none."""
    if isinstance(value, list):
        return [item for item in value if item is not None] if None in value else value
    return [] if value is None else [value]


def split(value: str, separator: str) -> list[str]:
    r"""Split at a separator that no backslash escapes; the escapes stay. FHIR R4 search §3.1.1.4.0.

    split(r"a\,b,c", ",") is [r"a\,b", "c"].
    """
    if "\\" not in value:
        return value.split(separator)
    pieces = re.findall(r"\\.|.", value, re.DOTALL)
    parts = [""]
    for piece in pieces:
        if piece == separator:
            parts.append("")
        else:
            parts[-1] += piece
    return parts


def unescape(value: str) -> str:
    r"""Take the backslash off `\,`, `\|`, `\$` and `\\`."""
    return re.sub(r"\\([,|$\\])", r"\1", value) if "\\" in value else value
