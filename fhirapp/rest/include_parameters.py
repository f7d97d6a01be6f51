"""What `_include` and `_revinclude` ask for: which values a type takes, and what each follows.

Source: FHIR R4 search §3.1.1.5.4; decisions 2.16, §6.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from fhirapp.auth.scopes import Access
from fhirapp.definition import Definition, Visibility, types
from fhirapp.fhir import outcome
from fhirapp.rest.access import check_reaches, reaches
from fhirapp.search.query import REVINCLUDE, Include
from fhirapp.search.reference import Reference
from fhirapp.search.values import SHOWN

_ANY = "*"


class Join(NamedTuple):
    """An `_include` that was read: references of a type by these parameters, to one type or any.

    reverse is that of a `_revinclude`, followed from the target to the source.
    """

    source: str
    params: tuple[str, ...]
    target: str
    iterate: bool
    reverse: bool = False

    def leads(self, param: str, target_type: str) -> bool:
        return param in self.params and self.target in ("", target_type)


def included_types() -> set[str]:
    """Return the types whose resources may be included."""
    return {name for name, target in types().items() if target.visibility is not Visibility.CARRIER}


def includable(definition: Definition) -> list[str]:
    """Return the values of `_include` on a type that can bring something."""
    served = types()
    useful = [
        name
        for name, parameter in definition.references.items()
        if not parameter.targets or not served.keys().isdisjoint(parameter.targets)
    ]
    every = [f"{definition.name}:{_ANY}", _ANY] if useful else []
    return [*(f"{definition.name}:{name}" for name in useful), *every]


def referring(definition: Definition) -> list[str]:
    """Return the values of `_revinclude` on a type."""
    if definition.provenance_alone:
        return [REVINCLUDE]
    values = [
        f"{source.name}:{name}"
        for source in sorted_types()
        for name, parameter in source.references.items()
        if source.searchable and may_point(parameter, definition.name)
    ]
    return [*values, *([_ANY] if values else [])]


def sorted_types() -> list[Definition]:
    return [definition for _, definition in sorted(types().items())]


def joined_types(joins: Sequence[Join]) -> list[str]:
    """Return the types that are served and that the joins may bring, by name."""
    reached = {join.source for join in joins if join.reverse}
    for join in joins:
        if join.reverse:
            continue
        parameters = types()[join.source].references
        for name in join.params:
            reached.update([join.target] if join.target else parameters[name].targets or types())
    return sorted(reached & included_types())


def parse_includes(
    definition: Definition, access: Access, includes: Sequence[Include]
) -> tuple[Join, ...]:
    """Read `_include` and `_revinclude`; only with `:iterate` may one begin at another type.

    A target type that R4 names for a parameter is read, and brings nothing where it is not served.
    Raises ParameterError, and Forbidden where the token may search none of what would refer.
    """
    _check_provenance_alone(definition, includes)
    joins: list[Join] = []
    for include in dict.fromkeys(includes):
        reverse = include.base == "_revinclude"
        joins += (
            _revincludes(definition, access, include) if reverse else _includes(definition, include)
        )
    return tuple(joins)


def _check_provenance_alone(definition: Definition, includes: Sequence[Include]) -> None:
    """Refuse what service.md 4.2 does: any other `_revinclude`, and a second one."""
    reverse = [include for include in includes if include.base == "_revinclude"]
    if not (definition.provenance_alone and reverse):
        return
    if len(reverse) > 1:
        raise outcome.RepeatedParameter("_revinclude", "may be given once")
    if reverse[0].iterate:
        raise outcome.UnsupportedParameter(
            reverse[0].name, "the modifier is not supported on this type"
        )
    if reverse[0].value != REVINCLUDE:
        message = f"{reverse[0].value[:SHOWN]!r} is not supported; use {REVINCLUDE}"
        raise outcome.InvalidParameter("_revinclude", message)


def _includes(definition: Definition, include: Include) -> Iterable[Join]:
    """Return what one `_include` follows. Raises InvalidParameter."""
    if include.value == _ANY:
        served = included_types()
        sources = [source for source in sorted_types() if source.name in served]
        for source in sources if include.iterate else (definition,):
            if join := _join(source, [_ANY], include.iterate):
                yield join
        return
    source_name, *rest = include.value.split(":")
    holder = types().get(source_name) if include.iterate else None
    if source_name == definition.name:
        holder = definition
    join = _join(holder, rest, include.iterate) if holder else None
    if join is None:
        raise _include_error(include, includable(holder or definition), "from this type")
    yield join


def _revincludes(definition: Definition, access: Access, include: Include) -> Iterable[Join]:
    """Return what one `_revinclude` brings; of `*`, each type that the token may search."""
    if include.value == _ANY:
        for source in sorted_types():
            params = _referring_by(source, "" if include.iterate else definition.name)
            if params and source.searchable and reaches(source, access, "s"):
                yield Join(source.name, params, "", include.iterate, reverse=True)
        return
    source_name, *rest = include.value.split(":")
    holder = types().get(source_name)
    joined = _join(holder, rest, include.iterate) if holder and holder.searchable else None
    target = joined.target if joined else ""
    if holder is None or joined is None or not (include.iterate or target in ("", definition.name)):
        raise _include_error(include, referring(definition), "with this type")
    reached = _referring_by(holder, target if include.iterate else definition.name)
    params = tuple(name for name in joined.params if name in reached)
    if not params:
        raise _include_error(include, referring(definition), "with this type")
    check_reaches(holder, access, include.name)
    yield joined._replace(params=params, reverse=True)


def _referring_by(source: Definition, target: str) -> tuple[str, ...]:
    """Return the parameters of a type that may refer to another, empty for any."""
    return tuple(
        name
        for name, parameter in source.references.items()
        if not target or may_point(parameter, target)
    )


def _include_error(include: Include, choices: Sequence[str], where: str) -> outcome.ParameterError:
    hint = f"use {', '.join(choices)}" if choices else f"nothing can be, {where}"
    return outcome.InvalidParameter(
        include.name, f"{include.value[:SHOWN]!r} cannot be included; {hint}"
    )


def _join(definition: Definition, rest: Sequence[str], iterate: bool) -> Join | None:
    """Read what follows the type: `author`, `author:Practitioner`, `*`; None for what it is not."""
    param, target = (*rest, "", "")[:2]
    if not param or len(rest) > 2 or (len(rest) == 2 and not target):
        return None
    params = tuple(
        name
        for name, parameter in definition.references.items()
        if param in (_ANY, name) and (not target or may_point(parameter, target))
    )
    return Join(definition.name, params, target, iterate) if params else None


def may_point(parameter: Reference, target: str) -> bool:
    """Say whether R4 lets a parameter's references point to a type; one to any type, to each."""
    if parameter.targets:
        return target in parameter.targets
    return target not in parameter.modifiers and parameter.accepts(target)


def ignored_includes(
    joins: Sequence[Join], access: Access, includes: Sequence[Include]
) -> list[tuple[str, str]]:
    """Return, as Query.ignored has it, the types of which nothing is included, and why."""
    reasons: dict[tuple[str, str], None] = {}
    for join in joins:
        if join.target and not join.reverse and join.target not in included_types():
            reasons["_include", f"nothing of the type {join.target} is included here"] = None
    for include in includes:
        if include.value != _ANY or include.base != "_revinclude":
            continue
        for definition in sorted_types():
            if definition.searchable and not reaches(definition, access, "s"):
                why = f"no {definition.name} is included: the token's scope does not cover search"
                reasons["_revinclude", why] = None
    return [*reasons]
