"""What is wrong with a resource by the profiles of a US Core package.

From the snapshots of its StructureDefinitions: cardinalities, the types of choices, the types that
references point to, fixed values and patterns, slices, required bindings, invariants, and each
extension of US Core: what it holds and where it stands. tests/r4.py asks what R4 asks.

Not looked at: what only a terminology server could tell (OUT_OF_REACH; bindings that are not
required; displays), and whether what a reference points to is there and has the profile: where it
is served, it is asked itself. mustSupport binds servers and not resources: see UsCore.unsupported.
"""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import r4
from tests.support.r4 import Fault
from tests.support.terminology import OUT_OF_REACH, VALUE_SETS, Codes, is_coded

PROFILE = "http://hl7.org/fhir/us/core/StructureDefinition/"
# US Core's profile of each type that is served; None where it has none.
PROFILES = {
    "AllergyIntolerance": PROFILE + "us-core-allergyintolerance",
    "Binary": None,
    "DiagnosticReport": PROFILE + "us-core-diagnosticreport-note",
    "DocumentReference": PROFILE + "us-core-documentreference",
    "Encounter": PROFILE + "us-core-encounter",
    "Group": None,
    "Organization": PROFILE + "us-core-organization",
    "Patient": PROFILE + "us-core-patient",
    "Practitioner": PROFILE + "us-core-practitioner",
    "Provenance": PROFILE + "us-core-provenance",
    "RelatedPerson": PROFILE + "us-core-relatedperson",
    "ValueSet": None,
}
# tests/r4.py asks these, of every element and of what is contained.
_ASKED_BY_R4 = {"ele-1", "dom-3"}


@cache
def packages_in(shared: Path) -> tuple[UsCore, ...]:
    """Return US Core 6.1.0 and 8.0.0."""
    folder = shared / "data" / "us-core"
    return tuple(UsCore(folder / f"us_core_{version}.tgz") for version in ("610", "800"))


def all_faults(resource: dict[str, Any], packages: Sequence[UsCore]) -> list[str]:
    """Return what is wrong with a resource, as "path: who says so: what".

    R4 is asked, and each package for the profiles that the resource claims and for US Core's own.
    """
    claimed = resource["meta"].get("profile", [])
    own = PROFILES[resource["resourceType"]]
    found = [("R4", fault) for fault in r4.faults(resource)]
    for package in packages:
        profiles = dict.fromkeys([*claimed, own] if own else claimed)
        elsewhere = {url for one in packages if one is not package for url in one.addresses}
        by = f"US Core {package.version}"
        found += [(by, fault) for fault in package.faults(resource, profiles, elsewhere)]
    return [f"{fault.path}: {by}: {fault.message}" for by, fault in found]


@dataclass(frozen=True)
class Node:
    """An ElementDefinition of a snapshot, with those below it and its slices by name."""

    element: dict[str, Any]
    children: dict[str, Node] = field(default_factory=dict)
    slices: dict[str, Node] = field(default_factory=dict)


class Found(NamedTuple):
    """A value that is there; name is its name in JSON: valueCode for value[x].

    A primitive that has only extensions is the object that holds them.
    """

    path: str
    name: str
    value: Any


class UsCore:
    """A package of US Core, read whole."""

    def __init__(self, package: Path) -> None:
        self.examples: list[dict[str, Any]] = []
        self._by_url: dict[str, dict[str, Any]] = {}
        with tarfile.open(package) as archive:
            for member in archive:
                if re.fullmatch(r"package/(example/)?[A-Z]\w+-[^/]+\.json", member.name):
                    content = json.loads(archive.extractfile(member).read())
                    if "/example/" in member.name:
                        self.examples.append(content)
                    else:
                        self._by_url[content.get("url", member.name)] = content
        self._profiles = {
            url: _tree(one["snapshot"]["element"])
            for url, one in self._by_url.items()
            if one["resourceType"] == "StructureDefinition"
        }
        self.version = self._by_url[PROFILE + "us-core-patient"]["version"]

    def faults(
        self,
        resource: dict[str, Any],
        profiles: Iterable[str],
        elsewhere: Collection[str] = (),
    ) -> Iterator[Fault]:
        """Yield what is wrong with a resource by profiles, given by address, maybe with a version.

        Those of another version of US Core, and what only another package has (profiles and
        extensions, by their addresses), are left to that.
        """
        name = resource["resourceType"]
        for canonical in profiles:
            url, _, version = canonical.partition("|")
            profile = self._profiles.get(url)
            if version not in ("", self.version) or (profile is None and url in elsewhere):
                continue
            if profile is None or profile.element["path"] != name:
                yield Fault(f"{name}.meta.profile", f"{canonical} is no profile of {name}")
            else:
                yield from self._of_value(profile, Found(name, name, resource), resource)
        for element in r4.elements(resource):
            if element.type != "Extension" or not isinstance(element.value, dict):
                continue
            if (url := element.value.get("url")) in self._profiles or url not in elsewhere:
                yield from self._of_extension(element, resource)

    @property
    def addresses(self) -> Set[str]:
        """The addresses of its profiles and extensions."""
        return self._profiles.keys()

    def profiles(self) -> Iterator[tuple[str, str]]:
        """Yield the address and the type of each profile of a resource."""
        for url, node in self._profiles.items():
            if (name := node.element["path"]) != "Extension":
                yield url, name

    def unsupported(self, url: str, resources: Iterable[dict[str, Any]]) -> set[str]:
        """Return what a profile must support and none of these resources shows.

        Ids of elements and slices, and "id: type" for each type that a reference must point to, as
        Inferno's kits ask.
        """
        profile = self._profiles[url]
        name = profile.element["path"]
        wanted = {
            asked
            for element in self._by_url[url]["snapshot"]["element"]
            if element.get("mustSupport")
            for asked in (element["id"], *self._targets(element))
        }
        shown = (self._shown(profile, Found(name, name, one), one) for one in resources)
        return wanted.difference(*shown)

    def _targets(self, element: dict[str, Any]) -> Iterator[str]:
        """Yield the types that a reference must point to: those marked, or the only one."""
        for type_ in element["type"]:
            targets = type_.get("targetProfile", ())
            marks = type_.get("_targetProfile") or [None] * len(targets)
            for target, mark in zip(targets, marks, strict=True):
                is_marked = any(one["valueBoolean"] for one in (mark or {}).get("extension", ()))
                if is_marked or len(targets) == 1:
                    known = self._by_url.get(target, {"type": target.rpartition("/")[2]})
                    yield f"{element['id']}: {known['type']}"

    def _shown(self, node: Node, found: Found, resource: dict[str, Any]) -> Iterator[str]:
        if not isinstance(found.value, dict):
            return
        type_ = r4.reference_type(str(found.value.get("reference")), resource)
        yield f"{node.element['id']}: {type_}"
        for name, child in node.children.items():
            for one in _values(found, name):
                members = [
                    each
                    for each in child.slices.values()
                    if self._is_member(child, each, one.value)
                ]
                for part in (child, *members):
                    yield part.element["id"]
                    yield from self._shown(part, one, resource)

    def codes(self, value_set: str) -> Codes | None:
        """Return the codes of a value set; None where it is OUT_OF_REACH.

        Raises KeyError where nothing here knows it: a binding is never left out in silence.
        """
        url = value_set.partition("|")[0]
        name = url.rpartition("/")[2]
        if name in VALUE_SETS or name in OUT_OF_REACH:
            return VALUE_SETS.get(name)
        found: Codes = set()
        for include in self._by_url[url]["compose"]["include"]:
            system = self._by_url.get(include["system"], {})
            # What LOINC holds is not in the package: only for the system can be asked.
            concepts = include.get("concept") or system.get("concept") or [{"code": None}]
            found |= {(include["system"], concept["code"]) for concept in concepts}
        return found

    def required_bindings(self, profiles: Iterable[str]) -> set[str]:
        """Return the value sets that profiles, and all extensions of the package, require."""
        extensions = {url for url, one in self._by_url.items() if one.get("type") == "Extension"}
        return {
            element["binding"]["valueSet"]
            for url in extensions.union(profiles)
            for element in self._by_url[url]["snapshot"]["element"]
            if element.get("binding", {}).get("strength") == "required"
        }

    def _below(self, node: Node, found: Found, resource: dict[str, Any]) -> Iterator[Fault]:
        for name, child in node.children.items():
            path = f"{found.path}.{name}"
            values = list(_values(found, name))
            yield from self._of_values(child, path, values, resource)
            for slice_name, slice_ in child.slices.items():
                members = [one for one in values if self._is_member(child, slice_, one.value)]
                yield from self._of_values(slice_, f"{path}:{slice_name}", members, resource)

    def _of_values(
        self, node: Node, path: str, values: list[Found], resource: dict[str, Any]
    ) -> Iterator[Fault]:
        low, high = node.element["min"], node.element["max"]
        if len(values) < low or (high != "*" and len(values) > int(high)):
            yield Fault(path, f"{len(values)} of {low}..{high}")
        for one in values:
            yield from self._of_value(node, one, resource)

    def _of_value(self, node: Node, found: Found, resource: dict[str, Any]) -> Iterator[Fault]:
        element, (path, name, value) = node.element, found
        type_ = _type_of(element, name)
        if type_ is None:
            yield Fault(path, f"{name} is no choice of {element['id']}")
            return
        is_absent = type_[0].islower() and isinstance(value, dict)  # a primitive, for a reason
        if not is_absent and not self._fits(element, value):
            wanted = _expected(element) or element["binding"]["valueSet"]
            yield Fault(path, f"does not fit {wanted}")
        holder = element["path"] if type_ == "BackboneElement" else type_
        for key, expression in _invariants(element):
            if not r4.holds(expression, value, holder, resource):
                yield Fault(path, f"{key}: {expression}")
        if isinstance(value, dict):
            if type_ == "Reference" and not _is_target(element, value, resource):
                yield Fault(path, f"{value['reference']} is of no type that this points to")
            yield from self._below(node, found, resource)

    def _of_extension(self, element: r4.Element, resource: dict[str, Any]) -> Iterator[Fault]:
        path, definition, type_, value = element
        url = str(value.get("url"))
        if not url.startswith(PROFILE):
            return
        if url not in self._profiles:
            yield Fault(path, f"{url} is no extension of US Core {self.version}")
            return
        yield from self._of_value(self._profiles[url], Found(path, type_, value), resource)
        allowed = {context["expression"] for context in self._by_url[url]["context"]}
        place = re.sub(r"\[\d+\]", "", path)
        if not allowed & {place.rpartition(".")[0], definition.rpartition(".")[0], "Element"}:
            yield Fault(path, f"{url} may not stand here")

    def _is_member(self, sliced: Node, slice_: Node, value: Any) -> bool:
        """Tell whether a value belongs to a slice, by what its discriminators look at."""
        for discriminator in sliced.element["slicing"]["discriminator"]:
            name = discriminator["path"]
            if name == "$this":
                telling, part = slice_.element, value
            elif not isinstance(value, dict):
                return False
            else:
                telling, part = _telling(slice_, name), value.get(name)
            if not self._fits(telling, part):
                return False
        return True

    def _fits(self, element: dict[str, Any], value: Any) -> bool:
        """Tell whether a value has the fixed value or pattern, and a code of a required binding."""
        expected = _expected(element)
        if expected is not None and not _has(value, expected):
            return False
        binding = element.get("binding", {})
        codes = self.codes(binding["valueSet"]) if binding.get("strength") == "required" else None
        return codes is None or is_coded(value, codes)


def _tree(elements: list[dict[str, Any]]) -> Node:
    """Return a snapshot as a tree, by the ids of its elements: Patient.extension:race.url."""
    root = Node(elements[0])
    for element in elements[1:]:
        node = root
        for step in element["id"].split(".")[1:]:
            name, _, slice_name = step.partition(":")
            node = node.children.setdefault(name, Node(element))
            if slice_name:
                node = node.slices.setdefault(slice_name, Node(element))
    return root


def _telling(slice_: Node, name: str) -> dict[str, Any]:
    """Return the element of a slice that tells it; an extension is told by its profile."""
    if name in slice_.children:
        return slice_.children[name].element
    return {"fixedUri": slice_.element["type"][0]["profile"][0]}


def _values(found: Found, name: str) -> Iterator[Found]:
    """Yield the values of an element."""
    keys = [name]
    if name.endswith("[x]"):
        of_the_choice = re.compile(rf"_?({name.removesuffix('[x]')}[A-Z]\w*)").fullmatch
        keys = sorted({match[1] for match in map(of_the_choice, found.value) if match})
    for key in keys:
        value, sibling = found.value.get(key), found.value.get(f"_{key}")
        if value is None and sibling is None:
            continue
        repeats = isinstance(value, list) or isinstance(sibling, list)
        pairs = zip_longest(value or (), sibling or ()) if repeats else [(value, sibling)]
        for index, (one, extensions) in enumerate(pairs):
            path = f"{found.path}.{key}[{index}]" if repeats else f"{found.path}.{key}"
            yield Found(path, key, extensions if one is None else one)


def _type_of(element: dict[str, Any], name: str) -> str | None:
    """Return the type of a value by its name in JSON; None where a choice does not offer it."""
    own = element["path"].rpartition(".")[2]
    # A resource, and an element that is defined elsewhere, have only their path.
    types = [one["code"] for one in element.get("type", ())] or [element["path"]]
    if not own.endswith("[x]"):
        return str(types[0])
    offered = {own.removesuffix("[x]") + one[0].upper() + one[1:]: one for one in types}
    return offered.get(name)


def _invariants(element: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the keys and expressions of an element's invariants, save those that only advise."""
    return [
        (one["key"], one["expression"])
        for one in element.get("constraint", ())
        if one["severity"] == "error" and one["key"] not in _ASKED_BY_R4
    ]


def _is_target(element: dict[str, Any], value: Any, resource: dict[str, Any]) -> bool:
    """Tell whether a reference points to a type that it may point to, as far as it tells a type."""
    type_ = r4.reference_type(str(value.get("reference")), resource)
    targets = [
        target.rpartition("/")[2].removeprefix("us-core-").lower()
        for one in element["type"]
        for target in one.get("targetProfile", ())
    ]
    # Of US Core's profiles only some of Condition are not named for their type alone.
    may = {target.partition("-")[0] for target in targets} or {"resource"}
    return type_ is None or bool(may & {"resource", type_.lower()})


def _expected(element: dict[str, Any]) -> Any:
    """Return the fixed value, which is a primitive in these packages, or the pattern."""
    return next((element[key] for key in element if key.startswith(("fixed", "pattern"))), None)


def _has(value: Any, expected: Any) -> bool:
    """Tell whether a value has all that a pattern has. FHIR R4 ElementDefinition.pattern[x]"""
    if isinstance(expected, dict):
        return isinstance(value, dict) and all(
            _has(value.get(key), part) for key, part in expected.items()
        )
    if isinstance(expected, list):
        return isinstance(value, list) and all(
            any(_has(one, part) for one in value) for part in expected
        )
    return bool(value == expected)
