"""What comes with the matches of a page: `_include`, and `_revinclude=Provenance:target`.

What is included is searched for as the matches are: it takes the permission to search its type, and
what the token may not see is left out as if it were not here. Bytes (Binary) are never included.
Source: FHIR R4 search §3.1.1.5.4, versions §3.1.1.4.13; decisions 2.16, §6.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import orjson

from fhirapp.auth.scopes import Access
from fhirapp.db import Reader, quoted
from fhirapp.definition import Definition, Visibility, types
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.rest.access import visible
from fhirapp.rest.paging import Match
from fhirapp.rest.read import visible_versions
from fhirapp.search.query import REVINCLUDE, Controls, Include
from fhirapp.search.reference import Reference
from fhirapp.search.values import SHOWN, Condition, all_of, is_in, values_at

# How often `_include:iterate` goes on from what it brought, and how much a page brings in all.
MAX_STEPS = 5
MAX_INCLUDED = 1_000
_VERSIONED = re.compile(
    rf"([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/([1-9][0-9]{{0,8}}))?", re.ASCII
)


class PageResource(NamedTuple):
    """A resource on the page: a match, or what comes with one."""

    type: str
    id: str
    version_id: int
    pk: int
    body: bytes

    @property
    def name(self) -> Target:
        """What a reference to this very version points to."""
        return Target(self.type, self.id, self.version_id)


class Target(NamedTuple):
    """What a reference points to; version_id is 0 where it names none."""

    type: str
    id: str
    version_id: int = 0


class Join(NamedTuple):
    """An `_include` that was read: references of a type by these parameters, to one type or any."""

    source: str
    params: tuple[str, ...]
    target: str
    iterate: bool

    def leads(self, param: str, target_type: str) -> bool:
        return param in self.params and self.target in ("", target_type)


class Inclusion(NamedTuple):
    """What comes with a page; is_cut says that there is more than this server brings."""

    resources: Sequence[PageResource] = ()
    is_cut: bool = False


def references(definition: Definition) -> dict[str, Reference]:
    """Return the parameters of a type that can be included by."""
    return {one.name: one for one in definition.params if isinstance(one, Reference)}


def included_types() -> set[str]:
    """Return the types whose resources may be included."""
    return {name for name, one in types().items() if one.visibility is not Visibility.CARRIER}


def includable(definition: Definition) -> list[str]:
    """Return the values of `_include` on a type that can bring something."""
    served = types()
    useful = [
        name
        for name, parameter in references(definition).items()
        if not parameter.targets or not served.keys().isdisjoint(parameter.targets)
    ]
    return [f"{definition.name}:{name}" for name in (*useful, *(["*"] if useful else []))]


def target_types(joins: Sequence[Join]) -> list[str]:
    """Return the types that are served and that the joins may bring, by name."""
    reached: set[str] = set()
    for join in joins:
        parameters = references(types()[join.source])
        for name in join.params:
            reached.update([join.target] if join.target else parameters[name].targets or types())
    return sorted(reached & included_types())


def parse_includes(definition: Definition, includes: Sequence[Include]) -> tuple[Join, ...]:
    """Read `_include`; only `_include:iterate` may begin at another type. Raises InvalidParameter.

    A target type that R4 names for a parameter is read, and brings nothing where it is not served.
    """
    joins = []
    for one in includes:
        source, *rest = one.value.split(":")
        holder = types().get(source) if one.iterate else None
        if source == definition.name:
            holder = definition
        join = _join(holder, rest, one.iterate) if holder else None
        if join is None:
            choices = includable(holder or definition)
            wanted = f"use {', '.join(choices)}" if choices else "nothing can be, from this type"
            raise InvalidParameter(one.name, f"{one.value[:SHOWN]!r} cannot be included; {wanted}")
        joins.append(join)
    return tuple(joins)


def _join(definition: Definition, rest: Sequence[str], iterate: bool) -> Join | None:
    """Read what follows the type: `author`, `author:Practitioner`, `*`; None for what it is not."""
    param, target = (*rest, "", "")[:2]
    if not param or len(rest) > 2 or (len(rest) == 2 and not target):
        return None
    named = tuple(
        name
        for name, parameter in references(definition).items()
        if param in ("*", name) and (not target or _may_point(parameter, target))
    )
    return Join(definition.name, named, target, iterate) if named else None


def _may_point(parameter: Reference, target: str) -> bool:
    """Say whether R4 lets a parameter's references point to a type; one to any type, to each."""
    if parameter.targets:
        return target in parameter.targets
    return target not in parameter.modifiers and parameter.accepts(target)


def not_served(joins: Sequence[Join]) -> list[tuple[str, str]]:
    """Return, as Query.ignored has it, the target types of which nothing can be included here."""
    missing = {join.target for join in joins if join.target} - included_types()
    return [("_include", f"nothing of the type {one} is included here") for one in sorted(missing)]


def included_with(
    snapshot: Reader,
    definition: Definition,
    access: Access,
    joins: Sequence[Join],
    controls: Controls,
    matches: Sequence[Match],
) -> Inclusion:
    """Return what comes with the matches of a page. Raises InvalidParameter."""
    if not joins and not controls.revinclude:
        return Inclusion()
    page = [
        PageResource(definition.name, one.id, one.version_id, one.pk, one.body) for one in matches
    ]
    origins = provenance_of(snapshot, definition, access, page) if controls.revinclude else []
    brought = _brought(snapshot, access, joins, page, origins)
    return Inclusion([*origins, *brought.resources], brought.is_cut)


def _brought(
    snapshot: Reader,
    access: Access,
    joins: Sequence[Join],
    matches: Sequence[PageResource],
    origins: Sequence[PageResource],
) -> Inclusion:
    """Return what the joins bring to a page, each resource once and none that is on it already.

    origins are what `_revinclude` brought: `_include:iterate` goes on from them too.
    """
    here = {one.name for one in (*matches, *origins)}
    requested = {Target(one.type, one.id) for one in (*matches, *origins)}
    found: list[PageResource] = []
    fresh = matches
    for step in range(MAX_STEPS + 1):
        wanted = sorted(_targets(snapshot, joins, fresh) - requested)
        room = MAX_INCLUDED - len(found) if step < MAX_STEPS else 0
        new = [one for one in _resources(snapshot, access, wanted[:room]) if one.name not in here]
        found += new
        if len(wanted) > room:
            return Inclusion(found, is_cut=True)
        requested.update(wanted)
        here.update(one.name for one in new)
        fresh, origins = [*new, *origins], ()
        joins = [join for join in joins if join.iterate]
        if not fresh or not joins:
            break
    return Inclusion(found)


def provenance_of(
    snapshot: Reader, definition: Definition, access: Access, matches: Sequence[PageResource]
) -> list[PageResource]:
    """Return the Provenances that have a match among their targets, newest first.

    Only those whose every target the token may see.
    """
    provenance = types().get("Provenance")
    if provenance is None:
        raise InvalidParameter("_revinclude", f"{REVINCLUDE} is not served here")
    if not matches:
        return []
    of_matches = is_in("t.target_id", [match.id for match in matches])
    conditions = [
        Condition("r.is_current"),
        Condition(
            f"r.pk IN (SELECT t.pk FROM {quoted(provenance.tables.reference.name)} t"
            f" WHERE t.param = 'target' AND {of_matches.sql} AND t.target_type = ?)",
            (*of_matches.values, definition.name),
        ),
        *_limit(provenance, access),
    ]
    order = "r.last_updated DESC, r.id DESC"
    here = {match.name for match in matches}
    found = _rows(snapshot, provenance, "r", conditions, order)
    return [resource for resource in found if resource.name not in here]


def _targets(
    snapshot: Reader, joins: Sequence[Join], sources: Iterable[PageResource]
) -> set[Target]:
    """Return what the sources refer to by the joins: one SELECT for each type of source."""
    by_type: dict[str, list[PageResource]] = {}
    for one in sources:
        by_type.setdefault(one.type, []).append(one)
    wanted: set[Target] = set()
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
                named = versions.get(pk, {}).get((param, target_type, target_id), {0})
                wanted.update(Target(target_type, target_id, version) for version in named)
    return wanted


def _versions(
    definition: Definition, params: Sequence[str], body: bytes
) -> Mapping[tuple[str, str, str], set[int]]:
    """Return the versions that references name, which index rows do not hold; 0 where none is.

    By the parameter, and the type and the id of the target.
    """
    resource = orjson.loads(body)
    named: dict[tuple[str, str, str], set[int]] = {}
    for name in params:
        for path in definition.params.by_name[name].paths:
            for value in values_at(resource, f"{path}.reference"):
                if found := _VERSIONED.fullmatch(value):
                    target = (name, found[1], found[2])
                    named.setdefault(target, set()).add(int(found[3] or 0))
    return named


def _resources(snapshot: Reader, access: Access, wanted: Sequence[Target]) -> list[PageResource]:
    """Return what is wanted, is current and may be seen; or its version, where one is named.

    One SELECT for each type, and one more where a version is named that is not the current one.
    """
    found: list[PageResource] = []
    by_type: dict[str, set[Target]] = {}
    for target in wanted:
        by_type.setdefault(target.type, set()).add(target)
    for name, targets in by_type.items():
        definition = types()[name]
        limit = [Condition("r.is_current"), *_limit(definition, access)]
        current = _rows(snapshot, definition, "r", [_among("r", targets), *limit], "r.id")
        found += [
            one for one in current if not targets.isdisjoint((Target(name, one.id), one.name))
        ]
        known = {one.id for one in current}
        past = {one for one in targets if one.version_id and one.id in known}
        past -= {one.name for one in current}
        if past:
            limit = [Condition("NOT h.deleted"), *visible_versions(definition, access)]
            order = "h.id, h.version_id"
            versions = _rows(snapshot, definition, "h", [_among("h", past), *limit], order)
            found += [one for one in versions if one.name in past]
    return found


def _limit(definition: Definition, access: Access) -> list[Condition]:
    """Return what must hold of a row `r` that the token may find."""
    limit = visible(definition, access, "s")
    return [] if limit is None else [limit.where()]


def _among(row: str, targets: Collection[Target]) -> Condition:
    return is_in(f"{row}.id", sorted({target.id for target in targets}))


def _rows(
    snapshot: Reader,
    definition: Definition,
    row: str,
    conditions: Sequence[Condition],
    order: str,
) -> list[PageResource]:
    where = all_of(conditions)
    rows = snapshot.all(
        f"SELECT {row}.id, {row}.version_id, {row}.pk, {row}.body"
        f" FROM {definition.sql_table} {row} WHERE {where.sql} ORDER BY {order}",
        where.values,
    )
    return [PageResource(definition.name, *values) for values in rows]
