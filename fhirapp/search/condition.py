"""The conditions that searched values become: pieces of WHERE.

They speak of the resource row as `r` and of a row of an index table as `k`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar


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
