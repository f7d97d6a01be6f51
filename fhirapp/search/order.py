"""The order of results: newest first, or as `_sort` says. FHIR R4 search §3.1.1.5.1; decisions §3.

What has no value of a sorted parameter comes last. Of equals the id decides, in the direction of
the last parameter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fhirapp.fhir.outcome import InvalidParameter, UnsupportedParameter
from fhirapp.search.condition import Condition
from fhirapp.search.parameter import Context, Key, Parameters
from fhirapp.search.values import SHOWN

MAX_KEYS = 5
# The best match first, where words are searched for; it has no `-`.
BY_SCORE = "_score"

Place = tuple[Any, ...]
_NEWEST = Key("{row}.last_updated", descending=True)


@dataclass(frozen=True)
class Order:
    """The keys that results are sorted by; the last tells any two apart."""

    keys: tuple[Key, ...]

    def columns(self, row: str) -> Condition:
        """Return the keys of a row as columns k0, k1 … of a SELECT."""
        return Condition(
            ", ".join(f"{key.sql.format(row=row)} AS k{at}" for at, key in enumerate(self.keys)),
            tuple(value for key in self.keys for value in key.values),
        )

    def by(self, names: Sequence[str], *, backwards: bool) -> str:
        """Return the ORDER BY of keys that have these names in SQL."""
        return "ORDER BY " + ", ".join(
            f"{name} {'DESC' if key.descending != backwards else 'ASC'}"
            for name, key in zip(names, self.keys, strict=True)
        )

    def beyond(self, names: Sequence[str], place: Place, *, backwards: bool) -> Condition:
        """Return the condition that a row comes after a place, backwards before it."""
        signs = ["<" if key.descending != backwards else ">" for key in self.keys]
        if len(set(signs)) == 1:
            marks = ", ".join("?" * len(place))
            return Condition(f"({', '.join(names)}) {signs[0]} ({marks})", tuple(place))
        # Directions that differ: less in the first key, or equal in it and less in the second …
        choices: list[str] = []
        values: list[Any] = []
        for last, sign in enumerate(signs):
            equal = [f"{name} = ?" for name in names[:last]]
            choices.append(" AND ".join([*equal, f"{names[last]} {sign} ?"]))
            values += place[: last + 1]
        return Condition(f"({' OR '.join(choices)})", tuple(values))

    def sorted(
        self, rows: Sequence[Place], *, backwards: bool, place: Callable[[Place], Place]
    ) -> list[Place]:
        """Sort rows that have these keys; place tells where in a row they stand."""
        found = list(rows)
        for at, key in reversed([*enumerate(self.keys)]):
            found.sort(key=lambda row: place(row)[at], reverse=key.descending != backwards)
        return found


NEWEST_FIRST = Order((_NEWEST, Key("{row}.id", descending=True)))


def parse_sort(value: str, parameters: Parameters, context: Context) -> Order:
    """Read `_sort`: "status,-date" is by status, then the latest first. Raises FhirError."""
    names = value.split(",")
    if len(names) > MAX_KEYS:
        raise InvalidParameter("_sort", f"takes at most {MAX_KEYS} parameters")
    keys = []
    for name in names:
        parameter = parameters.by_name.get(name.removeprefix("-"))
        if parameter is None:
            raise InvalidParameter(
                "_sort", f"{name[:SHOWN]!r} is not a search parameter of this type"
            )
        if not parameter.sortable:
            raise UnsupportedParameter("_sort", f"{parameter.name} has no order")
        keys.append(parameter.sort_key(context, descending=name.startswith("-")))
    return Order((*keys, Key("{row}.id", descending=keys[-1].descending)))
