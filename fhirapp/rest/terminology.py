"""Terminology: the codes of the value sets and substance classes that a search names.

A value set is evaluated completely or refused, and the error says what is missing: a search by
part of a value set would not find every allergy, and one by its opposite would find too many.
Source: FHIR R4 valueset §4.9.5, §4.9.6; search §3.1.1.4.10.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from fhirapp import urls
from fhirapp.db import Reader, quoted, reader
from fhirapp.definition import Definition, types
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import TooCostly, UnknownTerminology, UnsupportedParameter, issue
from fhirapp.fhir.substance_classes import CLASSES, URL
from fhirapp.search.index import key
from fhirapp.search.parameter import ResolvedCodes
from fhirapp.search.values import split, unescape

_VALUE_SET = "ValueSet"
# Codes of a value set, and value sets that one is made of.
MAX_CODES, MAX_VALUE_SETS = 20_000, 100
_MAX_DEPTH, _MAX_INCLUDES = 20, 500
# How many value sets an error names.
_NAMED = 10
# Characters of a name that an error repeats.
_SHOWN = 200

# Pairs of system and code.
Codes = set[tuple[str, str]]


@dataclass(frozen=True)
class _ValueSet:
    """A stored ValueSet."""

    id: str
    body: bytes

    @cached_property
    def content(self) -> Mapping[str, Any]:
        content: Mapping[str, Any] = fhir_json.loads(self.body)
        return content

    @property
    def name(self) -> str:
        """The value set in an error or an explanation."""
        url, version = self.content.get("url"), self.content.get("version")
        return f"{url}|{version}" if url and version else url or f"{_VALUE_SET}/{self.id}"


class Terminology:
    """The value sets and classes of one request; read returns its snapshot."""

    def __init__(self, read: Callable[[], Reader] = reader) -> None:
        self._read = read
        self._resolved: dict[tuple[str, str], ResolvedCodes] = {}

    def resolve(self, parameter: str, modifier: str, name: str) -> ResolvedCodes:
        """Return the codes that a value of a search parameter's modifier stands for.

        name names a value set or, for `:below`, a substance class. Raises UnknownTerminology,
        UnsupportedParameter, TooCostly.
        """
        if (modifier, name) not in self._resolved:
            self._resolved[modifier, name] = self._resolve(parameter, modifier, name)
        return self._resolved[modifier, name]

    def _resolve(self, parameter: str, modifier: str, name: str) -> ResolvedCodes:
        if class_name := substance_class(name):
            codes = CLASSES[class_name].codes
            return ResolvedCodes(tuple(codes), f"the class {class_name} ({_count(codes)})")
        if modifier == "below":
            raise UnknownTerminology(
                f"{parameter}:{modifier}",
                f"{name[:_SHOWN]!r} is no substance class, and this server has no other hierarchy"
                f" of codes; use one of {', '.join(CLASSES)}, or :in with a value set that lists"
                " the codes",
            )
        expander = _Expander(self._read(), f"{parameter}:{modifier}")
        value_set = expander.find_value_set(name)
        expansion = expander.expand(value_set)
        return ResolvedCodes(
            tuple(sorted(expansion)), f"the value set {value_set.name} ({_count(expansion)})"
        )


def substance_class(name: str) -> str:
    """Return the class that a name or the address of its value set names; empty for none."""
    name = name.removeprefix(URL).casefold().replace(" ", "-")
    return name if name in CLASSES else ""


def class_warnings(applied: Sequence[tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """Yield a warning for each substance class in a search: it does not list every substance.

    Without it, an answer that lacks an allergy in words or by another code would read as "none".
    """
    for name, value in dict.fromkeys(applied):
        if name.rpartition(":")[2] not in ("below", "in", "not-in"):
            continue
        for class_name in filter(None, map(substance_class, map(unescape, split(value, ",")))):
            message = (
                f"{name}: the class {class_name} has {_count(CLASSES[class_name].codes)}; what is"
                " coded otherwise, or in words alone, does not count to it"
            )
            yield issue("warning", "informational", message, name)


class _Expander:
    """Finds and expands value sets for one search parameter, which its errors name."""

    def __init__(self, snapshot: Reader, parameter: str) -> None:
        self._snapshot, self._parameter = snapshot, parameter
        self._expanded: dict[str, Codes] = {}
        self._includes = 0

    def find_value_set(self, name: str) -> _ValueSet:
        """Return the value set that a canonical address, or one of this server, names.

        Raises UnknownTerminology where that is none, or several.
        """
        definition = types().get(_VALUE_SET)
        rows = self._find(definition, name) if definition else []
        if not rows:
            system_urls = self._urls(definition) if definition else []
            raise UnknownTerminology(
                self._parameter,
                f"no value set {name[:_SHOWN]!r} is stored here; import it, or use one of "
                + ", ".join([*(URL + class_name for class_name in CLASSES), *system_urls]),
            )
        if len(rows) > 1:
            several = ", ".join(f"{_VALUE_SET}/{row.id} ({row.name})" for row in rows[:_NAMED])
            hint = "name its version too, as url|version, or" if "|" not in name else "name"
            message = f"{name[:_SHOWN]!r} names several value sets: {several}; {hint} one of them"
            raise UnknownTerminology(self._parameter, message)
        return rows[0]

    def _find(self, definition: Definition, name: str) -> list[_ValueSet]:
        local = name.removeprefix(f"{urls.fhir_url()}/")
        if local.startswith(f"{_VALUE_SET}/"):
            rows = self._rows(definition, "r.id = ?", [local.removeprefix(f"{_VALUE_SET}/")])
            if rows:
                return rows
        url, _, version = name.partition("|")
        tokens = quoted(definition.tables.token.name)
        where = (
            f"r.url = ? AND r.pk IN (SELECT k.pk FROM {tokens} k WHERE k.param = ? AND k.code = ?)"
        )
        values = [url, "url", key(url)]
        if version:
            return self._rows(definition, f"{where} AND r.version = ?", [*values, version])
        return self._rows(definition, where, values)

    def _rows(self, definition: Definition, where: str, values: Sequence[str]) -> list[_ValueSet]:
        rows = self._snapshot.all(
            f"SELECT r.id, r.body FROM {definition.sql_table} r"
            f" WHERE r.is_current AND {where} ORDER BY r.id LIMIT {_NAMED + 1}",
            values,
        )
        return [_ValueSet(*row) for row in rows]

    def _urls(self, definition: Definition) -> list[str]:
        """Return the addresses of the first stored value sets, and … where there are more."""
        rows = self._snapshot.all(
            f"SELECT DISTINCT r.url FROM {definition.sql_table} r WHERE r.is_current"
            f" AND r.url IS NOT NULL ORDER BY r.url LIMIT {_NAMED + 1}"
        )
        system_urls = [row[0] for row in rows]
        return [*system_urls[:_NAMED], "…"] if len(system_urls) > _NAMED else system_urls

    def expand(self, value_set: _ValueSet, above: tuple[str, ...] = ()) -> Codes:
        """Return all codes of a value set; above are those that include it. Raises ParameterError.

        Its compose counts or, where that cannot be evaluated, its stored expansion.
        """
        name = value_set.name
        if value_set.id in self._expanded:
            return self._expanded[value_set.id]
        if value_set.id in above:
            raise self._error(f"the value set {name} includes itself")
        if len(above) >= _MAX_DEPTH or len(self._expanded) >= MAX_VALUE_SETS:
            raise TooCostly(self._parameter, f"{name} is made of too many value sets")
        if b'"modifierExtension"' in value_set.body:
            raise self._error(f"the value set {name} has an extension that changes its meaning")
        compose = value_set.content.get("compose")
        listed = _expansion_codes(value_set.content.get("expansion", {}))
        try:
            if compose is None:
                raise self._list_error(name, "lists no codes, or not all of them")
            codes = self._evaluate(compose, name, (*above, value_set.id))
        except (UnknownTerminology, UnsupportedParameter):
            if listed is None:
                raise
            codes = listed
        self._check_size(codes, name)
        self._expanded[value_set.id] = codes
        return codes

    def _check_size(self, codes: Codes, name: str) -> None:
        if len(codes) > MAX_CODES:
            raise TooCostly(self._parameter, f"{name} has more than {MAX_CODES} codes")

    def _error(self, reason: str) -> UnsupportedParameter:
        return UnsupportedParameter(self._parameter, reason)

    def _list_error(self, name: str, reason: str) -> UnsupportedParameter:
        return self._error(
            f"the value set {name} {reason}; import it with a list of its codes, or with a"
            " complete expansion"
        )

    def _evaluate(self, compose: Mapping[str, Any], name: str, above: tuple[str, ...]) -> Codes:
        if compose.get("inactive") is False:
            raise self._list_error(name, "leaves out inactive codes without saying which these are")
        codes: Codes = set()
        for include in compose["include"]:
            codes |= self._part_codes(include, compose, name, above)
            self._check_size(codes, name)
        for exclude in compose.get("exclude", ()):
            codes -= self._part_codes(exclude, compose, name, above)
        return codes

    def _part_codes(
        self,
        include: Mapping[str, Any],
        compose: Mapping[str, Any],
        name: str,
        above: tuple[str, ...],
    ) -> Codes:
        """Return the codes that an include or exclude of a value set names."""
        self._includes += 1
        if self._includes > _MAX_INCLUDES:
            raise TooCostly(self._parameter, f"{name} has more than {_MAX_INCLUDES} parts")
        system, concepts = include.get("system", ""), include.get("concept", ())
        value_sets = include.get("valueSet", ())
        if "filter" in include:
            raise self._list_error(name, "takes codes by a filter")
        if system and not concepts:
            raise self._list_error(name, f"takes every code of {system}")
        if not (concepts or value_sets):
            raise self._list_error(name, "has a part without codes")
        if concepts and not system:
            raise self._list_error(name, "has codes without a system")
        if len(value_sets) > 1:
            # R4's definition makes a union of them, and its algorithm an intersection.
            raise self._list_error(name, "takes several value sets in one part")
        if "lockedDate" in compose and any("|" not in url for url in value_sets):
            raise self._list_error(name, "takes a value set as it was on its lockedDate")
        codes: Codes = {(system, concept["code"]) for concept in concepts}
        for url in value_sets:
            members = self._members(url, above)
            codes = codes & members if concepts else members
        return codes

    def _members(self, url: str, above: tuple[str, ...]) -> Codes:
        """Return the codes of a value set that another one includes."""
        if class_name := substance_class(url):
            return {*CLASSES[class_name].codes}
        return self.expand(self.find_value_set(url), above)


# Parameters of an expansion that make it only part of its value set.
_NARROWING = {"filter", "activeOnly", "limitedExpansion", "excludeNotForUI", "offset"}


def _expansion_codes(expansion: Mapping[str, Any]) -> Codes | None:
    """Return the codes of an expansion that came with its value set; None if it is incomplete."""
    if "contains" not in expansion or "extension" in expansion:
        return None
    for parameter in expansion.get("parameter", ()):
        value = next((value for name, value in parameter.items() if name.startswith("value")), "")
        if parameter["name"] in _NARROWING and value not in (False, 0):
            return None
    codes: Codes = set()
    pending, count = [*expansion["contains"]], 0
    while pending:
        concept = pending.pop()
        count += 1
        pending += concept.get("contains", ())
        if "code" in concept:
            if "system" not in concept:
                return None
            codes.add((concept["system"], concept["code"]))
    if expansion.get("offset", 0) or expansion.get("total", count) > count:
        return None
    return codes


def _count(codes: Collection[Any]) -> str:
    return "1 code" if len(codes) == 1 else f"{len(codes)} codes"
