"""References, made to point here: within a Bundle, by a condition, from the server of the source.

`Practitioner?identifier=system|value` becomes `Practitioner/<id>`, `urn:uuid:…` becomes the entry
with that address, `https://source.example/fhir/Patient/1` becomes `Patient/1`. What cannot be
resolved is kept as it is and reported. Source: FHIR R4 http §3.1.0.11.2.1, bundle §2.36.4.1,
references §2.3.0.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from fhirapp.db import Reader
from fhirapp.definition import Definition
from fhirapp.features.imports.batches import Batch
from fhirapp.features.imports.bundles import prefixed, split_address
from fhirapp.features.imports.records import ImportRecord, Rejected
from fhirapp.features.imports.staging import Stage
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import FhirError
from fhirapp.search.page import NEWEST_FIRST, find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import parse_query, select

_CONDITIONAL = re.compile(r"([A-Z][A-Za-z]+)\?(\S+)")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_RELATIVE = re.compile(r"[A-Z][A-Za-z]+/")
_LITERAL_PATTERN = rf"([A-Z][A-Za-z]+/{ID_PATTERN})(?:/_history/{ID_PATTERN})?"
_LITERAL = re.compile(_LITERAL_PATTERN)
_LITERAL_IN_JSON = re.compile(rf'"(?:reference|url)"\s*:\s*"{_LITERAL_PATTERN}"'.encode())
# What may have to be resolved; resources without it are not walked through.
_HINT = re.compile(rb'"(?:reference|url)"\s*:\s*"(?:[A-Z][A-Za-z]+(?:\?|\\u003[fF])|urn:|https?:)')
# Conditions whose answers are remembered.
_REMEMBERED = 50_000
# So many rows of a condition are read: records that were merged into one person are several.
_FOUND = 10


class Unresolved(NamedTuple):
    """A reference that is kept as it is, and why.

    awaited is the type, or the condition, of the records that may come and resolve it.
    """

    reference: str
    reason: str
    awaited: str = ""
    # As it is, it would lead to another record here.
    is_misleading: bool = False


class Resolver:
    """Resolves references; what conditions find is remembered until its type is published again.

    bases are the addresses of the servers whose absolute references mean records here, each with
    its slash at the end. prefix is put before every id. merged has whom each patient who was merged
    was merged into, by id.
    """

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        stage: Stage,
        batch: Batch,
        bases: Collection[str],
        prefix: str,
        merged: Mapping[str, str],
    ) -> None:
        self._definitions = definitions
        self._stage = stage
        self._batch = batch
        self._bases = bases
        self._prefix = prefix
        self._merged = merged
        # By type and condition.
        self._matches: defaultdict[str, dict[str, str]] = defaultdict(dict)
        self._misses: defaultdict[str, dict[str, Unresolved]] = defaultdict(dict)
        # The number of a Bundle and the Type/id of an entry of it that was rejected.
        self._rejected: set[tuple[int, str]] = set()

    def resolve(
        self, record: ImportRecord, *, with_targets: bool
    ) -> tuple[list[Unresolved], list[str]]:
        """Resolve a resource's references in place; return what is kept, and the targets.

        The targets, only collected with_targets, are the Type/id that it names by an id of its
        source. Raises Rejected.
        """
        content = record.content
        if not (record.container or _HINT.search(content)):
            if not with_targets:
                return [], []
            # Escaped letters or slashes would hide a reference from the pattern.
            if not (b"\\u" in content or b"\\/" in content):
                return [], [name.decode() for name in _LITERAL_IN_JSON.findall(content)]
        unresolved: list[Unresolved] = []
        targets: list[str] = []
        for holder, member in _references(record.resource):
            value = holder[member]
            target = self._resolved(value, record)
            if isinstance(target, Unresolved):
                if target.is_misleading:
                    raise Rejected(f"{target.reference} {target.reason}")
                # The bytes are in `data`: nothing is missing where the address leads nowhere.
                if "data" not in holder:
                    unresolved.append(target)
                continue
            holder[member] = target
            if with_targets and not self._is_conditional(value, record.container):
                literal = _LITERAL.fullmatch(target)
                targets += [literal[1]] if literal else []
        return unresolved, targets

    def match(self, name: str, condition: str, *, own_first: bool) -> str | Unresolved:
        """Return Type/id of what a condition finds; with own_first name itself, if it is here."""
        if own_first and self.is_current(name):
            return name
        return self._look_up(condition)

    def is_current(self, name: str) -> bool:
        """Say whether a resource, Type/id, is here and not deleted."""
        type_name, _, resource_id = name.partition("/")
        definition = self._definitions.get(type_name)
        if definition is None:
            return False
        snapshot = self._batch.snapshot_with(name)
        return current(snapshot, definition, resource_id, "pk") is not None

    def reject(self, bundle: int, target: str) -> None:
        """Note that an entry of a Bundle was rejected: its address leads to no other record."""
        self._rejected.add((bundle, target))

    def forget(self, type_names: Iterable[str]) -> None:
        """Forget what conditions found of types that were published."""
        for type_name in type_names:
            self._misses.pop(type_name, None)
            self._matches.pop(type_name, None)

    def _is_conditional(self, value: str, bundle: int) -> bool:
        """Say whether what a reference means is found by a condition."""
        if bundle and (entry := self._stage.target(bundle, value.partition("/_history/")[0])):
            return bool(entry[1])
        return _CONDITIONAL.fullmatch(value) is not None

    def _resolved(self, value: str, record: ImportRecord) -> str | Unresolved:
        bare, *version = re.split("(?=/_history/)", value, maxsplit=1)
        if record.container and (entry := self._stage.target(record.container, bare)):
            target = self._entry(entry, record)
            if isinstance(target, Unresolved):
                is_misleading = target.is_misleading and _LITERAL.fullmatch(value) is not None
                return target._replace(reference=value, is_misleading=is_misleading)
            return "".join((target, *version))
        if _CONDITIONAL.fullmatch(value):
            return self._look_up(value)
        if value.startswith("urn:"):
            return Unresolved(value, "no resource of this Bundle has that address")
        if address := split_address(value):
            base, name = address
            if base not in self._bases:
                return Unresolved(value, f"leads to {base}")
            return "".join((prefixed(name, self._prefix), *version))
        if _ABSOLUTE.match(value):
            return Unresolved(value, "leads to another server")
        return value

    def _entry(self, entry: tuple[str, str], record: ImportRecord) -> str | Unresolved:
        """Return Type/id that an entry of a Bundle, (Type/id, condition), means here."""
        target, condition = entry
        if (record.container, target) in self._rejected:
            return Unresolved(target, "leads to a record that was rejected", is_misleading=True)
        if not condition:
            return target
        matched = self.match(target, condition, own_first=record.is_converted)
        if not isinstance(matched, Unresolved):
            return matched
        # Only when the turn of that entry has come is it known which one it is.
        type_name = target.partition("/")[0]
        return matched._replace(awaited=type_name) if self._batch.may_come(type_name) else target

    def _look_up(self, condition: str) -> str | Unresolved:
        """Return Type/id of the one resource that Type?query finds, or why there is none."""
        parts = _CONDITIONAL.fullmatch(condition)
        if parts is None:
            return Unresolved(condition, "is not a condition, such as Type?parameter=value")
        type_name, query = parts.groups()
        snapshot = self._batch.snapshot_with_matches(condition)
        matches, misses = self._matches[type_name], self._misses[type_name]
        if known := matches.get(condition) or misses.get(condition):
            return known
        found = self._search(type_name, query, snapshot)
        if isinstance(found, Unresolved):
            _remember(misses, condition, found)
            return found
        name = f"{type_name}/{found}"
        _remember(matches, condition, name)
        return name

    def _search(self, type_name: str, query: str, snapshot: Reader) -> str | Unresolved:
        """Return the one id that a query finds, or why there is none."""
        whole = f"{type_name}?{query}"
        definition = self._definitions.get(type_name)
        if definition is None:
            return Unresolved(whole, f"{type_name} is not served")
        try:
            parsed = parse_query(
                definition.params,
                parse_qsl(query, keep_blank_values=True),
                Context(definition.tables, ""),
                strict=True,
            )
        except FhirError as error:
            return Unresolved(whole, f"{type_name}: {error.diagnostics}")
        if parsed.ignored or not parsed.parts:
            # It would match any resource that is the only one of its type.
            return Unresolved(whole, f"{type_name}: the query has no condition")
        selection = select(definition.sql_table, parsed.conditions(), snapshot.all)
        rows = find_page(snapshot.all, selection, NEWEST_FIRST, None, _FOUND)
        found = {str(row[0]) for row in rows}
        if type_name == "Patient" and len(found) > 1:
            # Records that were merged are one person's.
            found = {self._merged.get(patient_id, patient_id) for patient_id in found}
        if len(found) == 1 and len(rows) < _FOUND:
            return found.pop()
        if rows:
            return Unresolved(whole, f"{type_name}: more than one matches")
        return Unresolved(whole, f"{type_name}: none matches", awaited=whole)


def add_prefix(resource: Any, prefix: str) -> None:
    """Put a prefix before a resource's id, and before those that it refers to."""
    if isinstance(resource.get("id"), str):
        resource["id"] = prefix + resource["id"]
    for holder, member in _references(resource):
        holder[member] = prefixed(holder[member], prefix)


def remove_prefix(resource: Any, prefix: str) -> None:
    """Restore a resource as it was without the prefix; it means the same with it again."""
    resource["id"] = str(resource.get("id", "")).removeprefix(prefix)
    for holder, member in _references(resource):
        type_name, slash, target = holder[member].partition("/")
        if not (slash and _RELATIVE.match(holder[member])):
            continue
        if target.startswith(prefix):
            holder[member] = f"{type_name}/{target.removeprefix(prefix)}"
        elif member == "reference":
            # It was found here by a condition: its id never had the prefix.
            holder[member] = f"{type_name}?_id={target.partition('/')[0]}"


def _remember(memory: dict[str, Any], condition: str, found: Any) -> None:
    if len(memory) >= _REMEMBERED:
        memory.clear()
    memory[condition] = found


def current(snapshot: Reader, definition: Definition, resource_id: str, column: str) -> Any:
    """Return a column of a resource's current version, None where there is none."""
    row = snapshot.first(
        f"SELECT {column} FROM {definition.sql_table} WHERE id = ? AND is_current", (resource_id,)
    )
    return row[0] if row else None


def targets_of(resource: Any) -> list[str]:
    """Return Type/id of what a resource refers to by an id."""
    values = (holder[member] for holder, member in _references(resource))
    return [literal[1] for literal in map(_LITERAL.fullmatch, values) if literal]


def _references(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield (holder, member) of each literal reference, and address of an attachment."""
    if isinstance(value, dict):
        if isinstance(value.get("reference"), str):
            yield value, "reference"
        attachment = value.get("attachment")
        if isinstance(attachment, dict) and isinstance(attachment.get("url"), str):
            yield attachment, "url"
        for content in value.values():
            yield from _references(content)
    elif isinstance(value, list):
        for content in value:
            yield from _references(content)
