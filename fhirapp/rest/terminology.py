"""Terminology: which codes a value set has, and what a search by one stands for.

Of what an operator imported, and the classes of fhir/substance_classes.py. A value set is worked
out whole or refused, with what is missing: a part of one, or an unknown one as an empty one, would
make a search for those without it tell that what is there is not. Source: FHIR R4 valueset §4.9.5,
§4.9.6; search §3.1.1.4.10.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from fhirapp.config import fhir_url
from fhirapp.db import Reader, quoted, reader
from fhirapp.definition import Definition, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import TooCostly, UnknownTerminology, UnsupportedParameter, issue
from fhirapp.fhir.substance_classes import CLASSES, URL
from fhirapp.rest.code_systems import (
    CODE_SYSTEM,
    VALUE_SET,
    Code,
    Concepts,
    Held,
    concepts_of,
    value_of,
)
from fhirapp.search.index import key
from fhirapp.search.parameter import Resolved
from fhirapp.search.values import SHOWN, split, unescape

# Codes of a value set, and value sets that one is made of.
MAX_CODES, MAX_VALUE_SETS = 20_000, 100
_MAX_DEPTH, _MAX_STEPS = 20, 500
# So many of what is here are named where something is not.
_NAMED = 10

# By system and code, in the order in which they are listed.
Codes = dict[tuple[str, str], Code]


class Terminology:
    """What is here of terminology, for one request; read gives its snapshot."""

    def __init__(self, read: Callable[[], Reader] = reader) -> None:
        self._read = read
        self._resolved: dict[tuple[str, str, str | None], Resolved] = {}

    def resolve(self, parameter: str, modifier: str, code: str, system: str | None) -> Resolved:
        """Return the codes that a value of a search parameter's modifier stands for.

        code is the address of a value set for `:in` and `:not-in`. Raises UnknownTerminology,
        UnsupportedParameter, TooCostly.
        """
        known = (modifier, code, system)
        if known not in self._resolved:
            look = Look(self._read(), f"{parameter}:{modifier}")
            is_member = modifier in ("in", "not-in")
            self._resolved[known] = (
                look.members(code) if is_member else look.related(modifier, code, system)
            )
        return self._resolved[known]


def built_in(name: str) -> str:
    """Return the class that a name or the address of its value set names; empty for none."""
    name = name.removeprefix(URL).casefold().replace(" ", "-")
    return name if name in CLASSES else ""


def class_warnings(applied: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield a warning for each built-in class that is searched for: it is no list of all there is.

    Without it an answer that lacks an allergy told in words, or by another code, reads as "none".
    """
    for name, value in dict.fromkeys(applied):
        if name.rpartition(":")[2] not in ("below", "in", "not-in"):
            continue
        for one in filter(None, map(built_in, map(unescape, split(value, ",")))):
            message = (
                f"{name}: the class {one} has {_count(CLASSES[one].codes)}; what is coded"
                " otherwise, or in words alone, does not count to it"
            )
            yield issue("warning", "informational", message, name)


class Look:
    """A look into what is here, for one parameter, which errors name."""

    def __init__(self, snapshot: Reader, parameter: str) -> None:
        self._snapshot, self._parameter = snapshot, parameter
        self._expanded: dict[str, Codes] = {}
        self._steps = 0

    def members(self, name: str) -> Resolved:
        """Return the codes of a value set."""
        value_set = self.value_set(name)
        codes = self.expand(value_set)
        return Resolved(tuple(codes), f"the value set {value_set.name} ({_count(codes)})")

    def related(self, modifier: str, code: str, system: str | None) -> Resolved:
        """Return a code and those below it, or above it; or the codes of a built-in class."""
        if not system:
            name = built_in(code) if modifier == "below" and system is None else ""
            if not name:
                what = "class of substances" if modifier == "below" else "code with its system"
                raise self._unknown(code, what, CLASSES, "or use system|code")
            found = CLASSES[name].codes
            return Resolved(tuple(found), f"the class {name} ({_count(found)})")
        concepts = self.concepts(system)
        if code not in concepts.by_code:
            raise UnknownTerminology(self._parameter, f"{system} has no code {code[:SHOWN]!r}")
        if reason := concepts.disorder:
            raise self._refused(reason)
        is_below = modifier == "below"
        reached = concepts.reach(code, concepts.children if is_below else concepts.parents)
        if len(reached) > MAX_CODES:
            raise self._costly(code[:SHOWN])
        doc = f"{code} of {system} and what is {modifier} it ({_count(reached)})"
        return Resolved(tuple((system, one) for one in sorted(reached)), doc)

    def value_set(self, name: str) -> Held:
        """Return the value set of an address, a relative one, or a built-in class's name."""
        if found := built_in(name):
            return Held("", 0, fhir_json.dumps(CLASSES[found].value_set(found)))
        return self._held(VALUE_SET, name, [URL + one for one in CLASSES])

    def _held(self, type_name: str, name: str, also: Sequence[str] = ()) -> Held:
        """Return what an address names. Raises UnknownTerminology."""
        held = self.find(type_name, name)
        if held is None:
            kind = "value set" if type_name == VALUE_SET else "code system"
            raise self._unknown(name, kind, [*also, *self._urls(type_name)])
        return held

    def held(self, type_name: str, name: str) -> Held:
        """Return the value set or code system of an address. Raises UnknownTerminology."""
        return self.value_set(name) if type_name == VALUE_SET else self._held(type_name, name)

    def concepts(self, system: str, version: str = "") -> Concepts:
        """Return a code system that is here whole."""
        held = self._held(CODE_SYSTEM, f"{system}|{version}" if version else system)
        found = concepts_of(held)
        if found.fault:
            raise UnsupportedParameter(self._parameter, found.fault)
        return found

    def find(self, type_name: str, name: str) -> Held | None:
        """Return what an address names: a canonical one with or without version, or one of ours.

        Raises UnknownTerminology where it names several.
        """
        definition = types().get(type_name)
        if definition is None:
            return None
        local = name.removeprefix(f"{fhir_url()}/")
        if local.startswith(f"{type_name}/"):
            found = self._rows(definition, "r.id = ?", (local.removeprefix(f"{type_name}/"),))
            if found:
                return found[0]
        url, _, version = name.partition("|")
        table = quoted(definition.tables.token.name)
        where = (
            f"r.url = ? AND r.pk IN (SELECT k.pk FROM {table} k WHERE k.param = ? AND k.code = ?)"
        )
        found = self._rows(
            definition,
            f"{where} AND r.version = ?" if version else where,
            (url, "url", key(url), *([version] if version else ())),
        )
        if len(found) > 1:
            several = ", ".join(f"{type_name}/{one.id} ({one.name})" for one in found[:_NAMED])
            hint = "name one of them" if version else "name its version too, as url|version"
            message = f"{url} is the address of several here: {several}; {hint}"
            raise UnknownTerminology(self._parameter, message)
        return found[0] if found else None

    def _rows(self, definition: Definition, where: str, values: Sequence[Any]) -> list[Held]:
        rows = self._snapshot.all(
            f"SELECT r.id, r.version_id, r.body FROM {definition.sql_table} r"
            f" WHERE r.is_current AND {where} ORDER BY r.id LIMIT {_NAMED + 1}",
            values,
        )
        return [Held(*row) for row in rows]

    def _urls(self, type_name: str) -> list[str]:
        """Return the first addresses of what is here of a type."""
        definition = types().get(type_name)
        if definition is None:
            return []
        rows = self._snapshot.all(
            f"SELECT DISTINCT r.url FROM {definition.sql_table} r WHERE r.is_current"
            f" AND r.url IS NOT NULL ORDER BY r.url LIMIT {_NAMED + 1}"
        )
        return [row[0] for row in rows]

    def _unknown(
        self, name: str, kind: str, here: Sequence[str] | Mapping[str, Any], hint: str = ""
    ) -> UnknownTerminology:
        named = [*here][: _NAMED + len(CLASSES)]
        listed = f"here are {', '.join(named)}" + (" …" if len(here) > len(named) else "")
        parts = (f"{name[:200]!r} is no {kind} here", listed if named else "none is here", hint)
        return UnknownTerminology(self._parameter, "; ".join(filter(None, parts)))

    def _costly(self, what: str) -> TooCostly:
        return TooCostly(self._parameter, f"{what} has more than {MAX_CODES} codes")

    def expand(self, held: Held, above: tuple[str, ...] = ()) -> Codes:
        """Return the codes of a value set, all of them. Raises ParameterError."""
        name, known = held.name, held.id or held.name
        if known in self._expanded:
            return self._expanded[known]
        if known in above:
            raise self._refused(f"the value set {name} includes itself")
        if len(above) >= _MAX_DEPTH or len(self._expanded) >= MAX_VALUE_SETS:
            raise TooCostly(self._parameter, f"{name} is made of too many value sets")
        compose, expansion = held.content.get("compose"), held.content.get("expansion")
        if "modifierExtension" in held.content:
            raise self._refused(f"{name} has an extension that changes its meaning")
        if compose is None and expansion is None:
            raise self._refused(f"the value set {name} tells neither compose nor expansion")
        try:
            found = self._composed(compose or {}, name, (*above, known))
        except (UnknownTerminology, UnsupportedParameter):
            # The publisher may have worked it out.
            if (listed := _listed(expansion or {})) is None:
                raise
            found = listed
        if len(found) > MAX_CODES:
            raise self._costly(name)
        self._expanded[known] = found
        return found

    def _refused(self, reason: str) -> UnsupportedParameter:
        return UnsupportedParameter(self._parameter, reason)

    def _composed(self, compose: Mapping[str, Any], name: str, above: tuple[str, ...]) -> Codes:
        if not compose or "modifierExtension" in compose:
            raise self._refused(f"the compose of {name} cannot be read")
        found: Codes = {}
        for include in compose["include"]:
            found |= self._included(include, compose, name, above)
            if len(found) > MAX_CODES:
                raise self._costly(name)
        for exclude in compose.get("exclude", ()):
            for one in self._included(exclude, compose, name, above):
                found.pop(one, None)
        if compose.get("inactive") is False:
            found = {one: code for one, code in found.items() if not code.is_inactive}
        return found

    def _included(
        self,
        include: Mapping[str, Any],
        compose: Mapping[str, Any],
        name: str,
        above: tuple[str, ...],
    ) -> Codes:
        """Return what an include or exclude of a value set names."""
        self._steps += 1 + len(include.get("filter", ()))
        if self._steps > _MAX_STEPS:
            raise TooCostly(self._parameter, f"{name} has more than {_MAX_STEPS} parts and filters")
        if "modifierExtension" in include:
            raise self._refused(f"the compose of {name} has an extension that changes its meaning")
        system, concepts = include.get("system"), include.get("concept")
        filters, value_sets = include.get("filter"), include.get("valueSet", ())
        if ((concepts or filters) and (not system or (concepts and filters))) or len(
            value_sets
        ) > 1:
            # Of several in one, R4's definition makes a union and its algorithm an intersection.
            reason = "codes without a system, codes beside filters, or several value sets in one"
            raise self._refused(f"the compose of {name} has {reason}; that is not supported")
        found: Codes | None = None
        if system and concepts:
            found = self._told(system, concepts)
        elif system:
            if "lockedDate" in compose and "version" not in include:
                raise self._refused(f"the lockedDate of {name} is not supported")
            found = self._filtered(self.concepts(system, include.get("version", "")), filters or ())
            if len(found) > MAX_CODES and not value_sets:
                raise self._costly(f"{system} in {name}")
        for url in value_sets:
            others = self.expand(self.value_set(url), above)
            found = others if found is None else {k: v for k, v in found.items() if k in others}
        if found is None:
            raise self._refused(f"an include of {name} names nothing")
        return found

    def _told(self, system: str, concepts: Sequence[Mapping[str, Any]]) -> Codes:
        """Return codes that are listed one by one; which are inactive, where the system is here."""
        try:
            held = self.find(CODE_SYSTEM, system)
        except UnknownTerminology:
            held = None
        known = concepts_of(held) if held else None
        found: Codes = {}
        for one in concepts:
            there = known.code(one["code"]) if known and one["code"] in known.by_code else Code()
            found[system, one["code"]] = there._replace(display=one.get("display", there.display))
        return found

    def _filtered(self, concepts: Concepts, filters: Sequence[Mapping[str, Any]]) -> Codes:
        """Return the codes of a code system that all of these filters leave."""
        left = {*concepts.by_code}
        for one in filters:
            chosen = concepts.chosen(one["property"], one["op"], one["value"])
            if isinstance(chosen, str):
                raise self._refused(chosen)
            left &= chosen
        return {
            (concepts.url, code): concepts.code(code) for code in concepts.by_code if code in left
        }


# What narrows an expansion, so that it is not the whole value set.
_NARROWING = {"filter", "activeOnly", "limitedExpansion", "excludeNotForUI", "offset"}


def _listed(expansion: Mapping[str, Any]) -> Codes | None:
    """Return the codes of an expansion that its publisher made; None where it is not whole."""
    if "contains" not in expansion or "extension" in expansion:
        return None
    for one in expansion.get("parameter", ()):
        if one["name"] in _NARROWING and value_of(one) not in (False, 0):
            return None
    found: Codes = {}
    left, count = [*expansion["contains"]], 0
    while left:
        one = left.pop(0)
        count += 1
        left += one.get("contains", ())
        if "code" in one:
            found[one.get("system", ""), one["code"]] = Code(
                one.get("display", ""), one.get("inactive", False), one.get("abstract", False)
            )
    if expansion.get("offset", 0) or expansion.get("total", count) > count:
        return None
    return found


def _count(codes: Collection[Any]) -> str:
    return "1 code" if len(codes) == 1 else f"{len(codes)} codes"
