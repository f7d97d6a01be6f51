"""What shapes an answer and does not select it: `_count`, `_sort`, `_summary`, `_include` …

Source: service.md 4, rules 3, 5; FHIR R4 search §3.1.1.5; decisions 2.3, 2.5, 2.6, 2.16.

The order of results: newest first, or as `_sort` says. FHIR R4 search §3.1.1.5.1; decisions §3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fhirapp.fhir.outcome import (
    InvalidParameter,
    MissingParameter,
    RepeatedParameter,
    UnsupportedParameter,
)
from fhirapp.search.parameter import Context, Key, Parameters
from fhirapp.search.values import SHOWN, Condition, parse_boolean

Arguments = Sequence[tuple[str, str]]

REVINCLUDE = "Provenance:target"
MAX_IDS = 100
MAX_INCLUDES = 20
TOTALS = ("accurate", "estimate", "none")
SUMMARIES = ("true", "text", "data", "count", "false")
ITERATE = "iterate"
# `_format` and `_pretty` are named so that they are known: rest/negotiation.py reads them.
_ONCE = frozenset(
    {
        *("_count", "_cursor", "_elements", "_explain", "_format", "_pretty"),
        *("_revinclude", "_sort", "_summary", "_total"),
    }
)
# Not part of the links to further pages: where a page begins, and how many there are on it.
_OWN = frozenset({"_count", "_cursor"})


@dataclass(frozen=True)
class Include:
    """What `_include` names, unread: `DocumentReference:author`; iterate also from includes."""

    value: str
    iterate: bool = False

    @property
    def name(self) -> str:
        return f"_include:{ITERATE}" if self.iterate else "_include"


@dataclass(frozen=True)
class Controls:
    """The answer that is wanted: count is None where every listed id goes on one page.

    summary is one of SUMMARIES, total of TOTALS; sort, and elements, are as they were given.
    """

    count: int | None
    summary: str = "false"
    elements: tuple[str, ...] = ()
    total: str = "accurate"
    sort: str = ""
    explain: bool = False
    revinclude: bool = False
    includes: tuple[Include, ...] = ()
    cursor: str | None = None
    # As they stand in the links of further pages.
    applied: tuple[tuple[str, str], ...] = ()
    # What is left of the arguments: the search parameters.
    rest: tuple[tuple[str, str], ...] = field(default=())

    @property
    def only_total(self) -> bool:
        return self.count == 0 or self.summary == "count"


def parse_controls(arguments: Arguments, *, default: int, greatest: int) -> Controls:
    """Take the controls out of a request's arguments. Raises FhirError."""
    single, includes, rest = _sorted_out(arguments)
    # decisions 2.5: ignored, 0 too, when _id is given
    by_id = any(name == "_id" and value.strip() for name, value in rest)
    count = None if by_id else parse_count(single.get("_count"), default, greatest)
    if (revinclude := single.get("_revinclude")) not in (None, REVINCLUDE):
        message = f"{revinclude[:SHOWN]!r} is not supported; use {REVINCLUDE}"
        raise InvalidParameter("_revinclude", message)
    kept = [(name, value) for name, value in single.items() if name not in _OWN]
    kept += [(one.name, one.value) for one in includes]
    if "_count" in single and count is not None:
        kept.append(("_count", str(count)))
    return Controls(
        count=count,
        summary=_one_of("_summary", single.get("_summary", "false"), SUMMARIES),
        elements=tuple(filter(None, single.get("_elements", "").split(","))),
        total=_one_of("_total", single.get("_total", "accurate"), TOTALS),
        sort=single.get("_sort", ""),
        explain=parse_boolean("_explain", single.get("_explain", "false")),
        revinclude=revinclude is not None,
        includes=includes,
        cursor=single.get("_cursor"),
        applied=tuple(kept),
        rest=tuple(rest),
    )


def _sorted_out(
    arguments: Arguments,
) -> tuple[dict[str, str], tuple[Include, ...], list[tuple[str, str]]]:
    """Return the controls that may be given once, the includes, and what is left."""
    single: dict[str, str] = {}
    includes: dict[Include, None] = {}
    rest = []
    for name, value in arguments:
        base, _, modifier = name.partition(":")
        if base == "_include":
            if modifier not in ("", ITERATE):
                raise UnsupportedParameter(name, f"the modifier is not supported; use {ITERATE}")
            if value:
                includes[Include(value, modifier == ITERATE)] = None
        elif base not in _ONCE:
            rest.append((name, value))
        elif ":" in name:
            raise UnsupportedParameter(name, "the modifier is not supported")
        elif value and name in single:
            raise RepeatedParameter(name, "may be given once")
        elif value:
            single[name] = value
    if len(includes) > MAX_INCLUDES:
        raise InvalidParameter("_include", f"may be given {MAX_INCLUDES} times at most")
    return single, tuple(includes), rest


def check_ids(ids: Sequence[str]) -> None:
    """Refuse more ids than one page takes (decisions 2.5). Raises InvalidParameter."""
    if len(ids) > MAX_IDS:
        raise InvalidParameter("_id", f"lists {len(ids)} ids; {MAX_IDS} is the most")


def require_patient_or_id(parameters: Sequence[str]) -> None:
    """Refuse a search that names no patient and no id (decisions 2.4). Raises MissingParameter."""
    if not {"_id", "patient", "subject"} & {name.partition(":")[0] for name in parameters}:
        raise MissingParameter("patient", "is required when _id is not given")


def parse_count(value: str | None, default: int, greatest: int) -> int:
    """Read `_count`: cut to the greatest, not refused (decisions 2.5). Raises InvalidParameter."""
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal()):
        raise InvalidParameter("_count", f"{value[:SHOWN]!r} is not a whole number of 0 or more")
    # A number too long to matter is cut like any other that is too large.
    return min(int(value[:10]), greatest) if len(value) <= 10 else greatest


def _one_of(name: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        message = f"{value[:SHOWN]!r} is not supported; use {', '.join(choices)}"
        raise InvalidParameter(name, message)
    return value


MAX_KEYS = 5
# The best match first, where words are searched for; it has no `-`.
BY_SCORE = "_score"

Place = tuple[Any, ...]
_NEWEST = Key("{row}.last_updated", descending=True)


@dataclass(frozen=True)
class Order:
    """The keys that results are sorted by; the last is unique."""

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
        """Sort rows that have these keys; place is their position in a row."""
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
