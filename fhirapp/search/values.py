"""Values: where they stand in a resource, and how a request writes them.

The conditions that searched values become: pieces of WHERE.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from fhirapp.fhir.outcome import InvalidParameter

# So much of a value is repeated in an answer; of tokens and references nothing, they name people.
SHOWN = 40
# An explanation, which the client asked for, repeats what the client sent, these too.
_REPEATED = 200


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


def escape(text: str) -> str:
    """Return text with a backslash before what separates values. FHIR R4 search §3.1.1.4.4."""
    return re.sub(r"([\\,|$])", r"\\\1", text)


def unescape(value: str) -> str:
    r"""Take the backslash off `\,`, `\|`, `\$` and `\\`."""
    return re.sub(r"\\([,|$\\])", r"\1", value) if "\\" in value else value


def repr_value(value: str) -> str:
    """Return a value as an explanation repeats it to the client that sent it."""
    return repr(value if len(value) <= _REPEATED else f"{value[:_REPEATED]}…")


def parse_boolean(name: str, value: str) -> bool:
    """Read true or false. Raises InvalidParameter."""
    if value not in ("true", "false"):
        raise InvalidParameter(name, f"{value[:SHOWN]!r} is not a boolean; use true or false")
    return value == "true"


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
    negated: bool = False
    # The column of the index table that holds the row's number.
    number: str = "pk"

    narrows: ClassVar[bool] = False

    def where(self) -> Condition:
        """Return the condition that asks each row on its own."""
        return Condition(
            f"{'NOT ' if self.negated else ''}EXISTS (SELECT 1 FROM {self.table} k"
            f" WHERE k.{self.number} = r.pk AND {self.sql})",
            self.values,
        )

    def gathered(self) -> Condition:
        """Return the condition that gathers the matching rows first: fast where they are few."""
        return Condition(
            f"r.pk {'NOT ' if self.negated else ''}IN"
            f" (SELECT k.{self.number} FROM {self.table} k WHERE {self.sql})",
            self.values,
        )

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
            negated=first.negated,
            number=first.number,
        )
    rendered = [condition.where() for condition in conditions]
    return Condition(
        "(" + " OR ".join(one.sql for one in rendered) + ")",
        tuple(value for one in rendered for value in one.values),
        narrows=all(condition.narrows for condition in conditions),
    )
