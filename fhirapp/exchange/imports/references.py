"""References, made to point here: within a Bundle, by a condition, from the server of the source.

`Practitioner?identifier=system|value` becomes `Practitioner/<id>`, `urn:uuid:…` what the entry of
that address is, `https://source.example/fhir/Patient/1` is `Patient/1`. What cannot be resolved is
kept as it is, and told. Source: FHIR R4 http §3.1.0.11.2.1, bundle §2.36.4.1, references §2.3.0.

What an import leaves that leads nowhere: references to what is not here, and what nobody reads.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

from sqlalchemy import JSON, ColumnElement, Connection, Text, and_, cast, or_
from sqlalchemy import select as sqlalchemy_select

from fhirapp.db import Reader
from fhirapp.definition import Definition, Visibility
from fhirapp.exchange.imports.bundles import server_of
from fhirapp.exchange.imports.scratch import Scratch
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import FhirError
from fhirapp.search.controls import NEWEST_FIRST
from fhirapp.search.page import find_page
from fhirapp.search.parameter import Context
from fhirapp.search.query import parse_query, select
from fhirapp.store.prepare import CARRIES

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


# In a stored body, or a column of JSON: a reference, or the address of an attachment.
_REFERENCE = re.compile(
    rf'"(?:reference|url)": ?"([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/{ID_PATTERN})?"'.encode()
)
_TARGET = "target"
# So many bodies are held, ids asked for at once, and resources that are here remembered.
_BODIES, _IDS, _DANGLING_REMEMBERED = 50, 500, 50_000
_NO_TARGET = (
    "Provenance is shown to whoever may see all its targets: import those that are not here too"
)
_NO_CARRIER = (
    "Binary is read by way of a document: import the DocumentReference that has its address too"
)

_Name = tuple[str, str]


def dangling(
    connection: Connection, definitions: Mapping[str, Definition], last_rows: Mapping[str, int]
) -> Iterator[tuple[str, str, int]]:
    """Yield (Type/id, why, how often) of what is referred to since, and is not here or deleted.

    last_rows has the last row of each type before. What is missed may come more than once.
    """
    here: set[_Name] = set()
    for name, last in sorted(last_rows.items()):
        for bodies in _bodies(connection, definitions[name], last):
            times: Counter[_Name] = Counter()
            for body in bodies:
                named = {(one[0].decode(), one[1].decode()) for one in _REFERENCE.findall(body)}
                times.update(named - here)
            if len(here) > _DANGLING_REMEMBERED:
                here.clear()
            here |= _present(connection, definitions, times)
            for target in sorted(times.keys() - here):
                served = target[0] in definitions
                why = "is not here" if served else "is not stored here"
                yield "/".join(target), f"{target[0]} {why}", times[target]


def _bodies(connection: Connection, definition: Definition, last: int) -> Iterator[list[bytes]]:
    """Yield the bodies of what was published since, some at a time; else what may be in one."""
    if definition.view:
        return
    columns = definition.table.c
    held: list[ColumnElement[Any]] = [columns.body] if definition.stores_body else []
    if not held:
        held += (cast(one, Text) for one in columns if isinstance(one.type, JSON))
    asked = (
        sqlalchemy_select(columns.pk, *held)
        .where(~columns.deleted)
        .order_by(columns.pk)
        .limit(_BODIES)
    )
    while rows := connection.execute(asked.where(columns.pk > last)).all():
        last = rows[-1].pk
        yield [
            one.encode() if isinstance(one, str) else bytes(one)
            for _, *contents in rows
            for one in contents
            if one is not None
        ]


def _present(
    connection: Connection, definitions: Mapping[str, Definition], names: Mapping[_Name, int]
) -> set[_Name]:
    """Return which of these resources are here."""
    wanted: dict[str, list[str]] = {}
    for type_name, resource_id in names:
        if type_name in definitions:
            wanted.setdefault(type_name, []).append(resource_id)
    found: set[_Name] = set()
    for type_name, ids in wanted.items():
        columns = definitions[type_name].table.c
        for at in range(0, len(ids), _IDS):
            some = columns.id.in_(ids[at : at + _IDS])
            rows = connection.execute(sqlalchemy_select(columns.id).where(columns.is_current, some))
            found.update((type_name, row.id) for row in rows)
    return found


def unreachable(
    connection: Connection, definitions: Mapping[str, Definition], last_rows: Mapping[str, int]
) -> Iterator[tuple[str, str, str]]:
    """Yield (Type/id, why, what to do) of what was published since and nobody can read."""
    carriers = [one for one in definitions.values() if one.attachments and not one.view]
    for name, last in sorted(last_rows.items()):
        definition = definitions[name]
        if definition.visibility is Visibility.TARGETS:
            for row_id, target in _without_target(connection, definitions, definition, last):
                yield f"{name}/{row_id}", f"its target {target} is not here", _NO_TARGET
        elif definition.visibility is Visibility.CARRIER:
            for row_id in _uncarried(connection, carriers, definition, last):
                yield f"{name}/{row_id}", "no document carries it", _NO_CARRIER


def _without_target(
    connection: Connection,
    definitions: Mapping[str, Definition],
    definition: Definition,
    last: int,
) -> Iterator[_Name]:
    """Yield ids, each with its first target that is not here, and was not before it was deleted."""
    columns, index = definition.table.c, definition.tables.reference.c
    known: list[ColumnElement[bool]] = []
    for one in definitions.values():
        # An alias: the table may be the definition's own.
        held = one.table.alias().c
        is_held = (
            sqlalchemy_select(held.pk).where(held.id == index.target_id, ~held.deleted).exists()
        )
        known.append(and_(index.target_type == one.name, is_held))
    asked = (
        sqlalchemy_select(columns.id, index.target_type, index.target_id)
        .where(columns.pk > last, columns.is_current, index.pk == columns.pk)
        .where(index.param == _TARGET, ~or_(*known))
        .order_by(columns.pk, index.target_type, index.target_id)
    )
    before = None
    for row in connection.execute(asked.execution_options(yield_per=_IDS)):
        if row.id != before:
            yield row.id, "/".join(filter(None, (row.target_type, row.target_id)))
        before = row.id


def _uncarried(
    connection: Connection, carriers: Sequence[Definition], definition: Definition, last: int
) -> Iterator[str]:
    """Yield the ids of Binaries that no version of a document has as its attachment."""
    columns = definition.table.c
    asked = sqlalchemy_select(columns.id).where(columns.pk > last, columns.is_current)
    for carrier in carriers:
        index = carrier.tables.reference.c
        is_carried = index.param == CARRIES, index.target_id == columns.id
        asked = asked.where(~sqlalchemy_select(index.pk).where(*is_carried).exists())
    yield from connection.execute(
        asked.order_by(columns.pk).execution_options(yield_per=_IDS)
    ).scalars()
