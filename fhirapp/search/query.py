"""A search's parameters become conditions, and these the WHERE of one SELECT.

Source: FHIR R4 search §3.1.1; decisions §3.

The search parameters that every type has. Source: FHIR R4 search §3.1.1.3; decisions §3.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

from fhirapp.fhir.outcome import InvalidParameter, UnsupportedParameter
from fhirapp.search.controls import Arguments, check_ids
from fhirapp.search.date import LastUpdated
from fhirapp.search.fulltext import WordsCondition
from fhirapp.search.page import Run, Selection
from fhirapp.search.parameter import Context, Identity, Parameters
from fhirapp.search.string import Uri
from fhirapp.search.token import Token
from fhirapp.search.values import SHOWN, AnyCondition, Condition, IndexCondition, split
from fhirapp.search.words import Words

# Up to so many index rows are gathered first; more are asked for row by row, in the result's order.
# That is done soon, save where many old rows have what no later one has: these are passed first.
GATHERED_MOST = 1_000
# Values of one search, commas counted: SQLite takes an expression only so deep.
MAX_VALUES = 200
# Conditions of one search: PostgreSQL takes four seconds to plan a hundred.
MAX_CONDITIONS = 30
# Characters of one value: to take a longer one apart costs too much.
MAX_LENGTH = 20_000
_LONGEST_NAME = 200
# Known to FHIR and refused always: to ignore one would widen the answer (decisions §3).
_REFUSED = frozenset({"_filter", "_has", "_list", "_query"})
# Known to FHIR and not to this server; they only shape the answer, which says that they did not.
_NOT_HERE = frozenset({"_contained", "_containedType"})


@dataclass(frozen=True)
class Query:
    """What selects resources: conditions that all hold, and what was made of the request.

    applied are the parameters that were used, as they stand in links; ignored pairs each name that
    was not with the reason.
    """

    conditions: tuple[AnyCondition, ...]
    applied: tuple[tuple[str, str], ...] = ()
    ignored: tuple[tuple[str, str], ...] = ()


def parse_query(
    parameters: Parameters, arguments: Arguments, context: Context, *, strict: bool
) -> Query:
    """Read search parameters; unknown ones are ignored, if strict refused. Raises FhirError."""
    grouped, ignored = _group(arguments)
    conditions: list[AnyCondition] = []
    applied = []
    listed = 0
    for name, values in grouped.items():
        base, _, modifier = name.partition(":")
        parameter = parameters.by_name.get(base)
        if parameter is None:
            reason = _unknown(base, parameters)
            if strict:
                raise UnsupportedParameter(base, reason)
            ignored.append((base, f"{reason}; it was ignored"))
            continue
        if ":" in name and not modifier:
            raise UnsupportedParameter(name, "the modifier after the colon is missing")
        listed += sum(len(split(value, ",")) for value in values)
        if listed > MAX_VALUES:
            raise InvalidParameter(base, f"{MAX_VALUES} values in a search are the most")
        if isinstance(parameter, Identity):
            check_ids(parameter.ids(values))
        conditions += parameter.conditions(modifier, values, context)
        if len(conditions) > MAX_CONDITIONS:
            raise InvalidParameter(base, f"{MAX_CONDITIONS} conditions in a search are the most")
        applied += [(name, value) for value in values]
    return Query(tuple(conditions), tuple(applied), tuple(ignored))


def _group(arguments: Arguments) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    """Return the values of each parameter, and those that have none. Raises FhirError."""
    grouped: dict[str, list[str]] = {}
    ignored: list[tuple[str, str]] = []
    for name, value in arguments:
        if len(name) > _LONGEST_NAME:
            raise UnsupportedParameter(name[:SHOWN], "is longer than any parameter's name")
        if not name.partition(":")[0]:
            raise UnsupportedParameter(name or "parameter", "has no name before its value")
        if name.partition(":")[0] in _REFUSED or "." in name:
            raise UnsupportedParameter(name, "is not supported here")
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
    if name in _NOT_HERE:
        return "is not supported here"
    near = get_close_matches(name, list(parameters.by_name), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"is not a search parameter of this type{hint}"


def select(table: str, conditions: Iterable[AnyCondition], run: Run) -> Selection:
    """Choose how each condition is asked, and join them.

    Where a condition leaves one patient's rows, or those of listed ids, the others are asked of
    each of these. Otherwise the rarest is gathered first if it has few rows, which run tells.
    """
    conditions = [_near(condition, run) for condition in conditions]
    narrows = any(condition.narrows for condition in conditions)
    rarest = None if narrows else _rarest(conditions, run)
    where = _all_of(
        condition.gathered()
        if condition is rarest and isinstance(condition, IndexCondition)
        else condition.where()
        for condition in conditions
    )
    throughout = None
    is_walked = rarest is None and not narrows
    if is_walked and any(isinstance(condition, WordsCondition) for condition in conditions):
        throughout = _all_of(
            condition.listed() if isinstance(condition, WordsCondition) else condition.where()
            for condition in conditions
        )
    return Selection(
        table,
        where.sql,
        where.values,
        is_gathered=rarest is not None,
        narrows=narrows,
        throughout=throughout,
    )


def _all_of(conditions: Iterable[Condition]) -> Condition:
    """Return the condition that all these hold."""
    together = list(conditions)
    return Condition(
        " AND ".join([condition.sql for condition in together] or ["1 = 1"]),
        tuple(value for condition in together for value in condition.values),
    )


def _near(condition: AnyCondition, run: Run) -> AnyCondition:
    """Return a condition as a page of the newest asks it: see fulltext."""
    if not isinstance(condition, WordsCondition):
        return condition
    latest = condition.latest()
    return condition.near(*run(latest.sql, latest.values)[0])


def _rarest(conditions: Sequence[AnyCondition], run: Run) -> IndexCondition | None:
    fewest, rarest = GATHERED_MOST, None
    for condition in conditions:
        if isinstance(condition, IndexCondition) and not condition.negated:
            count = _count(condition, fewest, run)
            if count < fewest:
                fewest, rarest = count, condition
    return rarest


def _count(condition: IndexCondition, most: int, run: Run) -> int:
    """Return how many index rows there are, up to a number."""
    if isinstance(condition, WordsCondition):
        return condition.count
    probe = condition.count_to(most)
    return int(run(probe.sql, probe.values)[0][0])


RESOURCE = "http://hl7.org/fhir/SearchParameter/Resource-"

COMMON = (
    Identity(),
    LastUpdated(),
    Token("_tag", ("meta.tag",), "Tag of the resource", RESOURCE + "tag"),
    Uri("_profile", ("meta.profile",), "Profile that the resource claims", RESOURCE + "profile"),
    Token("_security", ("meta.security",), "Security label", RESOURCE + "security"),
    Uri("_source", ("meta.source",), "Where the resource comes from", RESOURCE + "source"),
)
# Of types whose words are indexed.
WORDS = (
    Words(
        "_text",
        (),
        "Words of the narrative and of the attached documents",
        "http://hl7.org/fhir/SearchParameter/DomainResource-text",
        column="narrative",
    ),
    Words("_content", (), "Words of the whole, the attached documents too", RESOURCE + "content"),
)
