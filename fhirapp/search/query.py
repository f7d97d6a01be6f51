"""Parses a search's query string: controls shape the answer, parameters select the resources.

Controls are `_count`, `_sort`, `_summary`, `_include` … The other parameters become conditions, and
these the WHERE of one SELECT.
Source: service.md 4, rules 3, 5; FHIR R4 search §3.1.1, §3.1.1.5; decisions 2, §3.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cached_property
from typing import NamedTuple

from fhirapp.fhir.outcome import (
    InvalidParameter,
    MissingParameter,
    RepeatedParameter,
    UnsupportedParameter,
)
from fhirapp.search.date import LastUpdated
from fhirapp.search.page import Run, Selection
from fhirapp.search.parameter import (
    Context,
    IdParameter,
    Parameter,
    Parameters,
    check_size,
    with_canonicals,
)
from fhirapp.search.string import Uri
from fhirapp.search.token import Token
from fhirapp.search.values import (
    SHOWN,
    AnyCondition,
    IndexCondition,
    all_of,
    parse_boolean,
    split,
)
from fhirapp.search.words import Words

Arguments = Sequence[tuple[str, str]]

REVINCLUDE = "Provenance:target"
MAX_IDS = 100
MAX_INCLUDES = 20
TOTALS = ("accurate", "estimate", "none")
SUMMARIES = ("true", "text", "data", "count", "false")
ITERATE = "iterate"
# `_format` and `_pretty` are known here, and read in rest/response.py.
_ONCE = frozenset(
    {
        *("_count", "_cursor", "_elements", "_explain", "_format", "_pretty"),
        *("_sort", "_summary", "_total"),
    }
)
_INCLUDES = ("_include", "_revinclude")
CONTROLS = frozenset({*_ONCE, *_INCLUDES})
# Controls of the page itself, which links to further pages state anew.
_OWN = frozenset({"_count", "_cursor"})


@dataclass(frozen=True)
class Include:
    """A value of `_include` or `_revinclude`, not parsed: `DocumentReference:author`.

    With iterate, the references of included resources are followed too.
    """

    value: str
    iterate: bool = False
    base: str = "_include"

    @property
    def name(self) -> str:
        return f"{self.base}:{ITERATE}" if self.iterate else self.base


@dataclass(frozen=True)
class Controls:
    """How the answer is shaped: count is None where every id that `_id` lists goes on one page.

    summary is one of SUMMARIES, total of TOTALS; sort and elements are not parsed.
    """

    count: int | None
    summary: str = "false"
    elements: tuple[str, ...] = ()
    total: str = "accurate"
    sort: str = ""
    explain: bool = False
    # Of both kinds.
    includes: tuple[Include, ...] = ()
    cursor: str | None = None
    # The controls as they stand in links.
    applied: tuple[tuple[str, str], ...] = ()
    # The other arguments: search parameters.
    rest: tuple[tuple[str, str], ...] = ()

    @property
    def only_total(self) -> bool:
        return self.count == 0 or self.summary == "count"

    @property
    def with_total(self) -> bool:
        return self.only_total or self.total != "none"

    @property
    def cursor_parameter(self) -> list[tuple[str, str]]:
        """The parameter that tells where the page begins, for its own link."""
        return [] if self.cursor is None else [("_cursor", self.cursor)]

    @property
    def is_part(self) -> bool:
        """Whether parts of resources are answered, not whole ones."""
        return self.summary != "false" or bool(self.elements)


def parse_controls(arguments: Arguments, *, default: int, greatest: int) -> Controls:
    """Take the controls out of a request's arguments. Raises FhirError."""
    single, includes, rest = _split_controls(arguments)
    # decisions 2.5: ignored, 0 too, when _id is given
    by_id = any(name == "_id" and value.strip() for name, value in rest)
    count = None if by_id else parse_count(single.get("_count"), default, greatest)
    applied = [(name, value) for name, value in single.items() if name not in _OWN]
    applied += [(include.name, include.value) for include in includes]
    if "_count" in single and count is not None:
        applied.append(("_count", str(count)))
    return Controls(
        count=count,
        summary=_one_of("_summary", single.get("_summary", "false"), SUMMARIES),
        elements=tuple(filter(None, single.get("_elements", "").split(","))),
        total=_one_of("_total", single.get("_total", "accurate"), TOTALS),
        sort=single.get("_sort", ""),
        explain=parse_boolean("_explain", single.get("_explain", "false")),
        includes=includes,
        cursor=single.get("_cursor"),
        applied=tuple(applied),
        rest=tuple(rest),
    )


def _split_controls(
    arguments: Arguments,
) -> tuple[dict[str, str], tuple[Include, ...], list[tuple[str, str]]]:
    """Return the controls that may be given once, the includes, and the other arguments."""
    single: dict[str, str] = {}
    includes: list[Include] = []
    rest = []
    for name, value in arguments:
        base, _, modifier = name.partition(":")
        if base in _INCLUDES:
            if modifier not in ("", ITERATE):
                raise UnsupportedParameter(name, f"the modifier is not supported; use {ITERATE}")
            if value:
                includes.append(Include(value, modifier == ITERATE, base))
        elif base not in _ONCE:
            rest.append((name, value))
        elif ":" in name:
            raise UnsupportedParameter(name, "the modifier is not supported")
        elif value and name in single:
            raise RepeatedParameter(name, "may be given once")
        elif value:
            single[name] = value
    if len(includes) > MAX_INCLUDES:
        raise InvalidParameter(includes[-1].base, f"may be given {MAX_INCLUDES} times at most")
    return single, tuple(includes), rest


_OF_FEW = {"_id", "patient", "subject", "patient.identifier", "subject.identifier"}


def require_patient_or_id(parameters: Sequence[str]) -> None:
    """Refuse a search that names no patient and no id (decisions 2.4). Raises MissingParameter."""
    naming = (name for name in parameters if name.partition(":")[2] not in ("not", "missing"))
    names = {re.sub(r":\w+", "", name) for name in naming}
    if not _OF_FEW & names:
        raise MissingParameter("patient", "is required when _id is not given")


def parse_count(value: str | None, default: int, greatest: int, name: str = "_count") -> int:
    """Parse `_count`, cut to the greatest (decisions 2.5). Raises InvalidParameter."""
    if value is None:
        return default
    if not (value.isascii() and value.isdecimal()):
        raise InvalidParameter(name, f"{value[:SHOWN]!r} is not a whole number of 0 or more")
    return min(int(value[:10]), greatest) if len(value) <= 10 else greatest


def _one_of(name: str, value: str, choices: Sequence[str]) -> str:
    if value not in choices:
        message = f"{value[:SHOWN]!r} is not supported; use {', '.join(choices)}"
        raise InvalidParameter(name, message)
    return value


# Fewer matching index rows are gathered first; otherwise rows are asked one by one, in the order of
# the results. That takes long only where many old rows match and no later one does.
GATHERED_MOST = 1_000
# Values of one search, each of a comma list counted: SQLite limits the depth of an expression.
MAX_VALUES = 200
# Conditions of one search: PostgreSQL takes four seconds to plan a hundred.
MAX_CONDITIONS = 30
# Characters of one value: to split a longer one costs too much.
MAX_LENGTH = 20_000
_LONGEST_NAME = 200
HAS = "_has"
# FHIR's parameters that are always refused: to ignore one would change the answer (decisions §3).
_CONTAINED = "contained resources come with what holds them, and are not searched"
_REFUSED = {
    "_filter": "use the parameters of the type: a comma means or, a repetition and",
    "_list": "read the list where it is kept, and name its ids by _id",
    "_query": "no queries are defined by name",
    "_contained": _CONTAINED,
    "_containedType": _CONTAINED,
}


class ChainedParameter(NamedTuple):
    """A parsed chained parameter, and the parameter that it ends in.

    resolve searches for what it leads to, and returns a condition for each value. before is the
    part before the name of that parameter, `patient.` or `_has:Provenance:target:`; types are the
    resource types that the chain searches.
    """

    resolve: Callable[[], Sequence[AnyCondition]]
    parameter: Parameter
    modifier: str
    context: Context
    before: str
    types: Sequence[str]


@dataclass(frozen=True)
class Query:
    """The parsed search parameters: parts that all hold, and what became of each parameter.

    applied are the parameters that select, as they stand in links; ignored pairs the name of each
    other one with the reason; chains has the chained ones of applied, by name.
    """

    parts: tuple[AnyCondition | ChainedParameter, ...]
    applied: tuple[tuple[str, str], ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()
    chains: Mapping[str, ChainedParameter] = field(default_factory=dict)

    def conditions(self) -> list[AnyCondition]:
        """Return the conditions. Raises FhirError.

        It looks up in the database what chains lead to, so access has to be checked before.
        """
        conditions: list[AnyCondition] = []
        for part in self.parts:
            conditions += part.resolve() if isinstance(part, ChainedParameter) else [part]
        if self.chains:
            check_size([*self.chains][-1].partition(":")[0], conditions)
        return conditions

    @cached_property
    def direct(self) -> list[tuple[str, str]]:
        """The applied parameters of the type itself, without chained ones."""
        return [pair for pair in self.applied if pair[0] not in self.chains]


def parse_query(
    parameters: Parameters,
    arguments: Arguments,
    context: Context,
    *,
    strict: bool,
    chain: Callable[[str, Sequence[str]], ChainedParameter] | None = None,
) -> Query:
    """Parse search parameters; unknown ones are ignored, if strict refused. Raises FhirError.

    chain parses chained ones, given name and values; without it they are refused.
    """
    grouped, ignored = _group(arguments)
    parts: list[AnyCondition | ChainedParameter] = []
    direct: list[AnyCondition] = []
    applied = []
    chains: dict[str, ChainedParameter] = {}
    listed = count = 0
    for name, values in grouped.items():
        base = name.partition(":")[0]
        is_chained = is_chained_name(name)
        if not is_chained and base not in parameters.by_name:
            reason = _unknown(base, parameters)
            if strict:
                raise UnsupportedParameter(base, reason)
            ignored.append((base, f"{reason}; it was ignored"))
            continue
        listed += sum(len(split(value, ",")) for value in values)
        if listed > MAX_VALUES:
            raise InvalidParameter(base, f"{MAX_VALUES} values in a search are the most")
        if is_chained:
            if chain is None:
                raise UnsupportedParameter(name, "is not supported here")
            chains[name] = chain(name, values)
            parts.append(chains[name])
            count += len({*values})
        else:
            conditions = _direct(parameters.by_name[base], name, values, context)
            parts += conditions
            direct += conditions
            count += len(conditions)
        if count > MAX_CONDITIONS:
            raise InvalidParameter(base, f"{MAX_CONDITIONS} conditions in a search are the most")
        check_size(base, direct)
        applied += [(name, value) for value in values]
    return Query(tuple(parts), tuple(applied), tuple(ignored), chains)


def is_chained_name(name: str) -> bool:
    """Return whether a parameter searches by other resources: a chain, or `_has`."""
    return "." in name or name.partition(":")[0] == HAS


def _direct(
    parameter: Parameter, name: str, values: Sequence[str], context: Context
) -> Sequence[AnyCondition]:
    """Return the conditions of a parameter of the type itself. Raises FhirError."""
    modifier = name.partition(":")[2]
    if ":" in name and not modifier:
        raise UnsupportedParameter(name, "the modifier after the colon is missing")
    if isinstance(parameter, IdParameter) and not modifier:
        ids = len(parameter.ids(values))
        if ids > MAX_IDS:
            # decisions 2.5: all of them go on one page
            raise InvalidParameter("_id", f"lists {ids} ids; {MAX_IDS} is the most")
    return parameter.conditions(modifier, values, context)


def _group(arguments: Arguments) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Return the values by parameter, and the parameters without a value. Raises FhirError."""
    grouped: dict[str, list[str]] = {}
    ignored: list[tuple[str, str]] = []
    for name, value in arguments:
        if len(name) > _LONGEST_NAME:
            raise UnsupportedParameter(name[:SHOWN], "is longer than any parameter's name")
        if not name.partition(":")[0]:
            raise UnsupportedParameter(name or "parameter", "has no name before its value")
        if hint := _REFUSED.get(name.partition(":")[0]):
            raise UnsupportedParameter(name, f"is not supported here; {hint}")
        if "\0" in value:
            raise InvalidParameter(name, "has a NUL character")
        if len(value) > MAX_LENGTH:
            raise InvalidParameter(name, f"is longer than {MAX_LENGTH} characters")
        if value.strip() == "":
            ignored.append((name, "has no value and was ignored"))
        else:
            grouped.setdefault(name, []).append(value)
    return grouped, ignored


def _unknown(name: str, parameters: Parameters) -> str:
    near = similar_name(name, parameters)
    hint = f"; did you mean {near}?" if near else ""
    return f"is not a search parameter of this type{hint}"


def similar_name(name: str, parameters: Parameters) -> str:
    """Return the known parameter that is most similar; empty if none is similar."""
    known = [*parameters.by_name, *sorted(CONTROLS)]
    return next(iter(get_close_matches(name, known, n=1)), "")


def select(table: str, conditions: Iterable[AnyCondition], run: Run) -> Selection:
    """Choose how each condition is asked, and join them.

    Where a condition narrows, the others are asked of each row that it leaves. Otherwise the
    matches of the rarest condition are gathered first, if run counts fewer than GATHERED_MOST.
    Decisions, SQL, has the measurements.
    """
    conditions = [condition.prepared(run) for condition in conditions]
    indexed = [condition for condition in conditions if isinstance(condition, IndexCondition)]
    narrows = any(condition.narrows for condition in conditions)
    rarest = None if narrows else _rarest(indexed, run)
    where = all_of(
        rarest.gathered() if rarest and rarest is condition else condition
        for condition in conditions
    )
    for_all = None
    if not narrows and not rarest:
        for_all = all_of(condition.where_all() for condition in conditions)
    return Selection(
        table,
        where.sql,
        where.values,
        is_gathered=rarest is not None,
        narrows=narrows,
        for_all=for_all,
    )


def _rarest(conditions: Iterable[IndexCondition], run: Run) -> IndexCondition | None:
    """Return the condition with the fewest index rows; None where all have many."""
    fewest, rarest = GATHERED_MOST, None
    for condition in conditions:
        count = condition.count(fewest, run)
        if count < fewest:
            fewest, rarest = count, condition
    return rarest


# Of every type.
COMMON = with_canonicals(
    "Resource",
    IdParameter(),
    LastUpdated(),
    Token("_tag", "meta.tag", "Tag of the resource"),
    Uri("_profile", "meta.profile", "Profile that the resource claims"),
    Token("_security", "meta.security", "Security label"),
    Uri("_source", "meta.source", "Where the resource comes from"),
)
# Of types whose words are indexed.
WORDS = with_canonicals(
    "Resource",
    Words("_text", "", "Text of the narrative and of the attached documents", column="narrative"),
    Words("_content", "", "Text of the resource and of its attached documents"),
    shared={"_text": "DomainResource"},
)
