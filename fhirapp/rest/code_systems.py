"""Code systems: their codes, and which of them are kinds of which.

Source: FHIR R4 codesystem §4.8.12; the filters of value sets, valueset §4.9.5.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from flask import Flask

from fhirapp.current import this_app
from fhirapp.fhir import json as fhir_json
from fhirapp.rest.cache import LruCache
from fhirapp.search.values import SHOWN

VALUE_SET, CODE_SYSTEM = "ValueSet", "CodeSystem"
_CACHE = "fhirapp.code_systems"
_CACHED = 4
_PROPERTIES = "http://hl7.org/fhir/concept-properties#"


class Code(NamedTuple):
    """A code of a value set."""

    display: str = ""
    is_inactive: bool = False
    is_abstract: bool = False


@dataclass(frozen=True)
class Held:
    """A resource as it is here; id is empty for one that is built in."""

    id: str
    version_id: int
    body: bytes

    @cached_property
    def content(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = fhir_json.loads(self.body)
        return found

    @property
    def name(self) -> str:
        """The resource in an error or an explanation."""
        url, version = self.content.get("url"), self.content.get("version")
        return f"{url}|{version}" if url and version else url or f"{VALUE_SET}/{self.id}"


class Concepts:
    """The codes of a code system and their order: each with its parents and its children."""

    def __init__(self, content: Mapping[str, Any]) -> None:
        self.content = content
        self.url = str(content.get("url", ""))
        self.by_code: dict[str, Mapping[str, Any]] = {}
        self.parents: dict[str, set[str]] = {}
        self.children: dict[str, set[str]] = {}
        declared = {one["code"]: one.get("uri") for one in content.get("property", ())}
        self._properties = {*declared}
        up = {"parent", "subsumedBy"} | _meaning(declared, "parent")
        down = {"child"} | _meaning(declared, "child")
        for code, parent, concept in _flat(content.get("concept", ()), ""):
            self.by_code.setdefault(code, concept)
            if parent:
                self._link(code, parent)
            for one in concept.get("property", ()):
                self._properties.add(one["code"])
                if one["code"] in up:
                    self._link(code, str(value_of(one)))
                elif one["code"] in down:
                    self._link(str(value_of(one)), code)

    def _link(self, code: str, parent: str) -> None:
        self.parents.setdefault(code, set()).add(parent)
        self.children.setdefault(parent, set()).add(code)

    @property
    def fault(self) -> str:
        """Why the code system is not whole here; empty where it is."""
        if (content := self.content["content"]) != "complete":
            return f"of the code system {self.url} only content {content} is here"
        return ""

    @property
    def disorder(self) -> str:
        """Why it cannot be said which codes are kinds of which; empty where it can."""
        meaning = self.content.get("hierarchyMeaning", "is-a")
        if meaning not in ("is-a", "classified-with"):
            return f"the hierarchy of {self.url} is {meaning}, and not is-a"
        if lacking := sorted((self.parents.keys() | self.children.keys()) - self.by_code.keys()):
            return f"{self.url} names {lacking[0][:SHOWN]} in its hierarchy and lacks that code"
        return ""

    def reach(self, code: str, links: Mapping[str, set[str]]) -> set[str]:
        """Return a code and all that links lead to from it."""
        found, left = {code}, [code]
        while left:
            further = links.get(left.pop(), set()) - found
            found |= further
            left += further
        return found

    def is_inactive(self, code: str) -> bool:
        return any(
            (one["code"] == "inactive" and one.get("valueBoolean"))
            or (one["code"] == "status" and value_of(one) in ("retired", "inactive"))
            for one in self.by_code[code].get("property", ())
        )

    def code(self, code: str) -> Code:
        concept = self.by_code[code]
        is_abstract = any(
            one["code"] in ("notSelectable", "abstract") and one.get("valueBoolean")
            for one in concept.get("property", ())
        )
        return Code(concept.get("display", ""), self.is_inactive(code), is_abstract)

    def chosen(self, name: str, op: str, value: str) -> set[str] | str:
        """Return the codes that a filter of a value set leaves, or why that cannot be said."""
        if name in ("concept", "code") and op in ("is-a", "descendent-of", "is-not-a"):
            if self.disorder or value not in self.by_code:
                return self.disorder or f"{self.url} has no code {value[:SHOWN]}"
            below = self.reach(value, self.children)
            if op == "is-not-a":
                return self.by_code.keys() - below
            return below if op == "is-a" else below - {value}
        wanted = {value} if op == "=" else {one.strip() for one in value.split(",")}
        if op in ("=", "in") and name in ("concept", "code"):
            if lacking := sorted(wanted - self.by_code.keys()):
                return f"{self.url} has no code {lacking[0][:SHOWN]}"
            return wanted
        if op == "=" and name in ("parent", "child"):
            if self.disorder or value not in self.by_code:
                return self.disorder or f"{self.url} has no code {value[:SHOWN]}"
            return set((self.children if name == "parent" else self.parents).get(value, ()))
        if op in ("=", "in") and name in self._properties:
            return self._having(name, wanted)
        return f"the filter {name} {op} on {self.url} is not supported"

    def _having(self, name: str, wanted: set[str]) -> set[str] | str:
        """Return the codes with one of these values of a property."""
        found = set()
        for code, concept in self.by_code.items():
            values = [value_of(one) for one in concept.get("property", ()) if one["code"] == name]
            if not values and wanted & {"true", "false"}:
                # What a boolean that is not told means, only the code system's author knows.
                return f"{code[:SHOWN]} of {self.url} does not tell its {name}"
            if any(_text(value) in wanted for value in values):
                found.add(code)
        return found


def _flat(
    concepts: Sequence[Mapping[str, Any]], parent: str
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield each concept's code, that of the concept it stands in, and the concept."""
    for one in concepts:
        yield one["code"], parent, one
        yield from _flat(one.get("concept", ()), one["code"])


def _meaning(declared: Mapping[str, str | None], name: str) -> set[str]:
    """Return the properties that are declared to be one of FHIR's."""
    return {code for code, uri in declared.items() if uri == _PROPERTIES + name}


def value_of(holder: Mapping[str, Any]) -> Any:
    """Return the value[x], of a Coding its code."""
    value = next((one for name, one in holder.items() if name.startswith("value")), "")
    return value.get("code", "") if isinstance(value, dict) else value


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def concepts_of(held: Held) -> Concepts:
    """Return a code system's codes; those of the last few that were read are remembered."""
    cache: LruCache[bytes, Concepts] = this_app().extensions[_CACHE]
    known = blake2b(held.body, digest_size=32).digest()
    found = cache.get(known)
    if found is None:
        found = Concepts(held.content)
        cache.put(known, found)
    return found


def init_app(app: Flask) -> None:
    """Give the app its memory of code systems: to read a large one takes longer than a search."""
    app.extensions[_CACHE] = LruCache[bytes, Concepts](_CACHED)
