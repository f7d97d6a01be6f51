"""References, made to point here: within a Bundle, by a condition, from the server of the source.

`Practitioner?identifier=system|value` becomes `Practitioner/<id>`, `urn:uuid:…` what the entry of
that address is, `https://source.example/fhir/Patient/1` is `Patient/1`. What cannot be resolved is
kept as it is, and told. Source: FHIR R4 http §3.1.0.11.2.1, bundle §2.36.4.1, references §2.3.0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from fhirapp.db import Reader
from fhirapp.exchange.importing.bundles import server_of
from fhirapp.exchange.importing.scratch import Scratch
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import FhirError
from fhirapp.search.order import NEWEST_FIRST
from fhirapp.search.page import find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import parse_query, select
from fhirapp.store.definition import Definition

_CONDITIONAL = re.compile(r"([A-Z][A-Za-z]+)\?(\S+)")
_ABSOLUTE = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
_RELATIVE = re.compile(r"[A-Z][A-Za-z]+/")
_LITERAL = re.compile(rf"([A-Z][A-Za-z]+/{ID_PATTERN})(?:/_history/{ID_PATTERN})?")
_IN_TEXT = re.compile(
    rf'"(?:reference|url)"\s*:\s*"([A-Z][A-Za-z]+/{ID_PATTERN})(?:/_history/{ID_PATTERN})?"'.encode()
)
# What may have to be resolved; other resources are not looked through.
_HINT = re.compile(rb'"(?:reference|url)"\s*:\s*"(?:[A-Z][A-Za-z]+(?:\?|\\u003[fF])|urn:|https?:)')
# So many answers are remembered.
_REMEMBERED = 50_000


class Unresolved(NamedTuple):
    """A reference that is kept as it is, and why; may_come if a later resource may help."""

    reference: str
    reason: str
    may_come: bool = False


class Resolved(NamedTuple):
    """What became of a resource's references: those that are kept as they are, and the ids.

    targets are what an id of the source's own means, as Type/id, not what a condition found.
    """

    kept: list[Unresolved]
    targets: list[str]


class Resolver:
    """Looks references up; what was found is remembered for the whole import.

    bases are the addresses of the servers that the source's absolute references mean, each with
    its slash at the end. prefix is put before every id.
    """

    def __init__(
        self,
        definitions: Mapping[str, Definition],
        scratch: Scratch,
        bases: Collection[str] = (),
        prefix: str = "",
    ) -> None:
        self._definitions = definitions
        self._scratch = scratch
        self._bases = bases
        self._prefix = prefix
        self._found: dict[str, str] = {}

    def resolve(
        self,
        text: bytes | None,
        resource: Any,
        bundle: int,
        snapshot: Reader,
        *,
        final: bool,
        with_targets: bool = False,
    ) -> Resolved:
        """Replace what can be resolved, in place.

        text is the resource's JSON as it came, None where it came in another form; bundle the
        number of its Bundle, 0 outside of one. What is final waits for nothing. The targets are
        told of all of it with with_targets alone.
        """
        if text is not None and not (bundle or _HINT.search(text)):
            if not with_targets:
                return Resolved([], [])
            # Where letters or slashes are escaped, the text does not show what is meant.
            if not (b"\\u" in text or b"\\/" in text):
                named = [one.decode() for one in _IN_TEXT.findall(text)]
                return Resolved([], [self._prefixed(one) for one in named])
        unresolved, targets = [], []
        for holder, name in _references(resource):
            value = holder[name]
            found = self._resolved(value, bundle, snapshot, final=final)
            if isinstance(found, Unresolved):
                # Bytes that came with their address are not missed where that leads nowhere.
                if "data" not in holder:
                    unresolved.append(found)
                continue
            holder[name] = found
            if not with_targets or self._by_condition(value, bundle):
                continue
            if literal := _LITERAL.fullmatch(found):
                targets.append(literal[1])
        return Resolved(unresolved, targets)

    def _by_condition(self, value: str, bundle: int) -> bool:
        """Say whether a reference finds what it means by a condition."""
        if bundle and (entry := self._scratch.target(bundle, value.partition("/_history/")[0])):
            return bool(entry[1])
        return _CONDITIONAL.fullmatch(value) is not None

    def look_up(self, condition: str, snapshot: Reader) -> str | Unresolved:
        """Return Type/id of the one resource that Type?query finds, or why there is none."""
        known = self._found.get(condition)
        if known is not None:
            return known
        parts = _CONDITIONAL.fullmatch(condition)
        if parts is None:
            return Unresolved(condition, "is no condition: Type?parameter=value is")
        found = self._look_up(parts[1], parts[2], snapshot)
        if isinstance(found, Unresolved):
            return found
        if len(self._found) >= _REMEMBERED:
            self._found.clear()
        self._found[condition] = f"{parts[1]}/{found}"
        return self._found[condition]

    def take_prefix_off(self, resource: Any) -> None:
        """Make a resource what it was without the prefix; it means the same with it again."""
        resource["id"] = str(resource.get("id", "")).removeprefix(self._prefix)
        for holder, name in _references(resource):
            type_name, slash, target = holder[name].partition("/")
            if not (slash and _RELATIVE.match(holder[name])):
                continue
            if target.startswith(self._prefix):
                holder[name] = f"{type_name}/{target.removeprefix(self._prefix)}"
            elif name == "reference":
                # It was found here: its id never had the prefix.
                holder[name] = f"{type_name}?_id={target.partition('/')[0]}"

    def meant(self, own: str, condition: str, snapshot: Reader) -> str | Unresolved:
        """Return Type/id of what comes as own, Type/id, with a condition: itself, if it is here."""
        return own if self._is_here(own, snapshot) else self.look_up(condition, snapshot)

    def _is_here(self, name: str, snapshot: Reader) -> bool:
        type_name, _, resource_id = name.partition("/")
        definition = self._definitions.get(type_name)
        if definition is None:
            return False
        asked = f"SELECT 1 FROM {definition.sql_table} WHERE id = ? AND is_current"
        return snapshot.first(asked, (resource_id,)) is not None

    def remember(self, condition: str, target: str) -> None:
        """Note which resource is meant by a condition, before it can be looked up."""
        self._found[condition] = target

    def put_prefix(self, resource: Any) -> None:
        """Put the prefix before a resource's id, and before those that it refers to."""
        if isinstance(resource.get("id"), str):
            resource["id"] = self._prefix + resource["id"]
        for holder, name in _references(resource):
            holder[name] = self._prefixed(holder[name])

    def _resolved(
        self, value: str, bundle: int, snapshot: Reader, *, final: bool
    ) -> str | Unresolved:
        bare, version, number = value.partition("/_history/")
        if bundle and (entry := self._scratch.target(bundle, bare)):
            target, condition = entry
            found = self.meant(target, condition, snapshot) if condition else target
            if isinstance(found, Unresolved):
                # Its turn has not come: only then is it clear whether it is another one.
                if not final:
                    return found._replace(reference=value)
                found = target
            return found + version + number
        if _CONDITIONAL.fullmatch(value):
            return self.look_up(value, snapshot)
        if value.startswith("urn:"):
            return Unresolved(value, "no resource of this Bundle has that address")
        server = server_of(value)
        if server is not None:
            if server[0] not in self._bases:
                return Unresolved(value, f"leads to {server[0]}")
            return self._prefixed(server[1]) + version + number
        if _ABSOLUTE.match(value):
            return Unresolved(value, "leads to another server")
        return value

    def _prefixed(self, value: str) -> str:
        if self._prefix and _RELATIVE.match(value):
            return value.replace("/", f"/{self._prefix}", 1)
        return value

    def _look_up(self, type_name: str, query: str, snapshot: Reader) -> str | Unresolved:
        """Return the one id that a query finds, or why there is none."""
        whole = f"{type_name}?{query}"
        definition = self._definitions.get(type_name)
        if definition is None:
            return Unresolved(whole, f"{type_name} is not served")
        context = Context(definition.tables, "")
        try:
            asked_for = parse_qsl(query, keep_blank_values=True)
            parsed = parse_query(definition.params, asked_for, context, strict=True)
        except FhirError as error:
            return Unresolved(whole, f"{type_name}: {error.diagnostics}")
        if parsed.ignored or not parsed.conditions:
            # It would match whoever is the only one there.
            return Unresolved(whole, f"{type_name}: the query asks for nothing")
        selection = select(definition.sql_table, parsed.conditions, snapshot.all)
        rows = find_page(snapshot.all, selection, NEWEST_FIRST, None, 2)
        if len(rows) == 1:
            return str(rows[0][0])
        if rows:
            return Unresolved(whole, f"{type_name}: more than one matches")
        return Unresolved(whole, f"{type_name}: none matches", may_come=True)


def targets_of(resource: Any) -> list[str]:
    """Return Type/id of what a resource refers to by an id."""
    values = (holder[name] for holder, name in _references(resource))
    return [found[1] for found in map(_LITERAL.fullmatch, values) if found]


def _references(value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield what holds a literal reference, or the address of an attachment, and its member."""
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
