"""What comes with the matches of a page: `_include`, and the other way `_revinclude`.

What is included in a search takes the permission to search its type, what comes with a record that
is read (`$everything`) that to read it. What the token may not see is left out as if it were not
here. Bytes (Binary) are never included.
What refers to the matches comes whole, or is refused: a list of allergies that was cut reads as
one that is complete.
Source: FHIR R4 search §3.1.1.5.4, versions §3.1.1.4.13; decisions 2.16, §6.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson

from fhirapp.auth.scopes import Access
from fhirapp.db import Reader, quoted
from fhirapp.definition import Definition, types
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.access import reach_of
from fhirapp.rest.include_parameters import Join, included_types, may_point
from fhirapp.rest.paging import Match
from fhirapp.search.page import COLUMNS
from fhirapp.search.values import AnyCondition, Condition, all_of, any_of, is_in, values_at

# How often `:iterate` goes on from what was brought, and how much a page brings in all.
MAX_STEPS = 5
MAX_INCLUDED = 1_000
# So much may refer to what is on a page; each match may have some Provenances beside.
MAX_REFERRING = 2_000
_VERSIONED = re.compile(
    rf"([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/([1-9][0-9]{{0,8}}))?", re.ASCII
)


class Target(NamedTuple):
    """What a reference points to; version_id is 0 where it names none."""

    type: str
    id: str
    version_id: int = 0


def _target_of(resource: Match) -> Target:
    """Return what a reference to this very version points to."""
    return Target(resource.type, resource.id, resource.version_id)


class Inclusion(NamedTuple):
    """What comes with a page; is_cut says that there is more than this server brings."""

    resources: Sequence[Match] = ()
    is_cut: bool = False


def included_with(
    snapshot: Reader,
    access: Access,
    joins: Sequence[Join],
    matches: Sequence[Match],
    permission: str = "s",
) -> Inclusion:
    """Return what comes with the matches of a page, each once and none that is on it already.

    permission is what it takes to see them: that of the request. Raises InvalidParameter.
    """
    if not joins or not matches:
        return Inclusion()
    fresh = [*matches]
    here = {_target_of(resource) for resource in fresh}
    requested = {Target(resource.type, resource.id) for resource in fresh}
    included: list[Match] = []
    followed = referring_count = 0
    is_cut = False
    for step in range(MAX_STEPS + 1):
        new = []
        for resource in _referring(snapshot, access, joins, fresh, permission):
            if _target_of(resource) not in here:
                here.add(_target_of(resource))
                requested.add(Target(resource.type, resource.id))
                new.append(resource)
                # A match may have any number of origins.
                referring_count += resource.type != "Provenance"
        if referring_count > MAX_REFERRING:
            raise InvalidParameter(
                "_revinclude",
                f"more than {MAX_REFERRING:,} resources refer to this page; ask for fewer at once"
                " by _count, or search for them by themselves",
            )
        followed_by = [join for join in joins if not join.reverse]
        pointed = _targets(snapshot, followed_by, fresh) if followed_by else set()
        targets = sorted(pointed - requested)
        room = MAX_INCLUDED - followed if step < MAX_STEPS else 0
        for resource in _resources(snapshot, access, targets[:room], permission) if targets else ():
            if _target_of(resource) not in here:
                here.add(_target_of(resource))
                new.append(resource)
                followed += 1
        is_cut = is_cut or len(targets) > room
        if step == MAX_STEPS:
            is_cut = is_cut or bool(new)
            break
        included += new
        requested.update(targets)
        fresh = new
        joins = [join for join in joins if join.iterate]
        if is_cut or not fresh or not joins:
            break
    return Inclusion(included, is_cut)


def _referring(
    snapshot: Reader,
    access: Access,
    joins: Sequence[Join],
    targets: Sequence[Match],
    permission: str,
) -> list[Match]:
    """Return what refers to these by the reverse joins, newest first: a SELECT for each type.

    Only what the token may see: of Provenance that every target may be seen.
    """
    resources: list[Match] = []
    by_type: dict[str, list[str]] = {}
    for resource in targets:
        by_type.setdefault(resource.type, []).append(resource.id)
    sources = dict.fromkeys(join.source for join in joins if join.reverse)
    for source in sources:
        definition = types()[source]
        choices: list[AnyCondition] = []
        for target, ids in by_type.items():
            params = {
                name
                for join in joins
                if join.reverse and join.source == source and join.target in ("", target)
                for name in join.params
                if may_point(definition.references[name], target)
            }
            if params:
                of_targets = all_of([is_in("t.param", sorted(params)), is_in("t.target_id", ids)])
                values = (*of_targets.values, target)
                choices.append(Condition(f"({of_targets.sql} AND t.target_type = ?)", values))
        if not choices:
            continue
        refers = any_of(choices).where()
        table = quoted(definition.tables.reference.name)
        conditions: list[AnyCondition] = [
            Condition("r.is_current"),
            Condition(f"r.pk IN (SELECT t.pk FROM {table} t WHERE {refers.sql})", refers.values),
        ]
        conditions = reach_of(definition, access, permission).limit(conditions)
        order = "r.last_updated DESC, r.id DESC"
        if source != "Provenance":
            order += f" LIMIT {MAX_REFERRING + 1}"
        resources += _rows(snapshot, definition, "r", conditions, order)
    return resources


def _targets(snapshot: Reader, joins: Sequence[Join], sources: Iterable[Match]) -> set[Target]:
    """Return what the sources refer to by the joins: one SELECT for each type of source."""
    by_type: dict[str, list[Match]] = {}
    for resource in sources:
        by_type.setdefault(resource.type, []).append(resource)
    targets: set[Target] = set()
    served = included_types()
    for source, rows in by_type.items():
        from_source = [join for join in joins if join.source == source]
        params = sorted({param for join in from_source for param in join.params})
        if not params:
            continue
        definition = types()[source]
        of_rows = all_of([is_in("k.pk", [row.pk for row in rows]), is_in("k.param", params)])
        pointed = snapshot.all(
            "SELECT k.pk, k.param, k.target_type, k.target_id"
            f" FROM {quoted(definition.tables.reference.name)} k WHERE {of_rows.sql}",
            of_rows.values,
        )
        versions = {
            row.pk: _versions(definition, params, row.body)
            for row in rows
            if b"/_history/" in row.body
        }
        for pk, param, target_type, target_id in pointed:
            # Of an address elsewhere the index has no type.
            if target_type in served and any(
                join.leads(param, target_type) for join in from_source
            ):
                numbers = versions.get(pk, {}).get((param, target_type, target_id), {0})
                targets.update(Target(target_type, target_id, version) for version in numbers)
    return targets


def _versions(
    definition: Definition, params: Sequence[str], body: bytes
) -> Mapping[tuple[str, str, str], set[int]]:
    """Return the versions that references name, which index rows do not hold; 0 where none is.

    By the parameter, and the type and the id of the target.
    """
    resource = orjson.loads(body)
    versions: dict[tuple[str, str, str], set[int]] = {}
    for name in params:
        for path in definition.params.by_name[name].paths:
            for value in values_at(resource, f"{path}.reference"):
                if match := _VERSIONED.fullmatch(value):
                    target = (name, match[1], match[2])
                    versions.setdefault(target, set()).add(int(match[3] or 0))
    return versions


def _resources(
    snapshot: Reader, access: Access, wanted: Sequence[Target], permission: str
) -> list[Match]:
    """Return what is wanted, is current and may be seen; or its version, where one is named.

    One SELECT for each type, and one more where a version is named that is not the current one.
    """
    resources: list[Match] = []
    by_type: dict[str, set[Target]] = {}
    for target in wanted:
        by_type.setdefault(target.type, set()).add(target)
    for name, targets in by_type.items():
        definition = types()[name]
        wanted_here = [_among("r", targets), Condition("r.is_current")]
        limited = reach_of(definition, access, permission).limit(wanted_here)
        current = _rows(snapshot, definition, "r", limited, "r.id")
        resources += [
            row
            for row in current
            if not targets.isdisjoint((Target(name, row.id), _target_of(row)))
        ]
        known = {row.id for row in current}
        past = {target for target in targets if target.version_id and target.id in known}
        past -= {_target_of(row) for row in current}
        if past:
            seen = reach_of(definition, access, "r").versions()
            judged = [_among("h", past), Condition("NOT h.deleted"), *seen]
            versions = _rows(snapshot, definition, "h", judged, "h.id, h.version_id")
            resources += [row for row in versions if _target_of(row) in past]
    return resources


def _among(row: str, targets: Collection[Target]) -> Condition:
    return is_in(f"{row}.id", sorted({target.id for target in targets}))


def _rows(
    snapshot: Reader,
    definition: Definition,
    row: str,
    conditions: Sequence[AnyCondition],
    order: str,
) -> list[Match]:
    where = all_of(conditions)
    rows = snapshot.all(
        f"SELECT {', '.join(f'{row}.{column}' for column in COLUMNS)}"
        f" FROM {definition.sql_table} {row} WHERE {where.sql} ORDER BY {order}",
        where.values,
    )
    return [Match(definition.name, *values) for values in rows]
