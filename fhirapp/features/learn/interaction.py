"""A request of the audit trail, read as a FHIR interaction, and whether its parameters fit.

A parameter fits where it means the same: a token with or without its system, a reference with or
without its type, alternatives in any order, a date that covers the same time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from urllib.parse import parse_qsl, unquote

from fhirapp.audit.entries import AuditEntry
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import EARLIEST, LATEST, interval

INTERACTIONS = (
    *("read", "vread", "search", "history-instance", "history-type", "operation"),
    *("export-status", "export-file"),
)
_CURSOR = "_cursor"
# Parameters that shape an answer and exclude no match.
SHAPING = frozenset(
    {
        *("_count", _CURSOR, "_elements", "_explain", "_format", "_include", "_pretty"),
        *("_revinclude", "_sort", "_summary", "_total"),
    }
)


class QueryParameter(NamedTuple):
    """A parameter as it was sent: code:text=penicillin."""

    name: str
    modifier: str
    value: str

    @property
    def name_and_modifier(self) -> str:
        return f"{self.name}:{self.modifier}" if self.modifier else self.name

    @property
    def text(self) -> str:
        """The parameter without encoding, as a lesson writes it."""
        return f"{self.name_and_modifier}={self.value}"


class RequestTarget(NamedTuple):
    """What an address names; interaction is one of INTERACTIONS, or other."""

    interaction: str = "other"
    type: str = ""
    id: str = ""
    version: str = ""
    # $everything
    operation: str = ""


_EXPORT_STATUS = RequestTarget("export-status")


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """A request as an interaction; entry has its answer's status and resources."""

    entry: AuditEntry
    named: RequestTarget
    parameters: tuple[QueryParameter, ...] = ()
    # What it and the pages after it served.
    gathered: tuple[str, ...] = ()

    def is_next_of(self, before: Interaction) -> bool:
        """Return whether this is a further page of the search before, by a next link."""
        # The server's own link leaves out what it ignored.
        selecting = {parameter for parameter in self.parameters if parameter.name != _CURSOR}
        served, served_before = set(self.entry.served), set(before.entry.served)
        return (
            self._has_cursor
            and before.named.type == self.named.type
            and selecting <= set(before.parameters)
            and bool(served)
            and not served & served_before
        )

    @property
    def _has_cursor(self) -> bool:
        return any(parameter.name == _CURSOR for parameter in self.parameters)


def interaction_of(entry: AuditEntry) -> Interaction:
    """Return the interaction of a request."""
    path, _mark, query = entry.path.partition("?")
    parameters = [*parameters_of(query)]
    if entry.method == "POST":
        parameters += parameters_of(entry.body)
    return Interaction(
        entry=entry, named=named_by(path), parameters=tuple(parameters), gathered=entry.served
    )


def with_pages(requests: Sequence[Interaction]) -> Sequence[Interaction]:
    """Return requests, the oldest first, each with what the pages that followed it served too."""
    pages = [request for request in requests if request._has_cursor]
    return [_gathered(request, pages) for request in requests]


def _gathered(request: Interaction, pages: Iterable[Interaction]) -> Interaction:
    last, served = request, [*request.entry.served]
    for page in pages:
        if page.entry.number > last.entry.number and page.is_next_of(last):
            last = page
            served += page.entry.served
    return request if last is request else replace(request, gathered=tuple(served))


def parameters_of(text: str) -> Iterator[QueryParameter]:
    """Yield the parameters of a query or a form, or of an operation's Parameters resource."""
    if text.lstrip().startswith("{"):
        pairs = _pairs_of_resource(text)
    else:
        try:
            pairs = parse_qsl(text, keep_blank_values=True)
        except ValueError:
            return
    for name, value in pairs:
        name, _colon, modifier = name.partition(":")
        yield QueryParameter(name, modifier, value)


def _pairs_of_resource(text: str) -> list[tuple[str, str]]:
    try:
        return [
            (part["name"], str(value.get("reference", "") if isinstance(value, dict) else value))
            for part in fhir_json.loads(text)["parameter"]
            for element, value in part.items()
            if element.startswith("value")
        ]
    except (ValueError, LookupError, TypeError, AttributeError):
        return []


def named_by(path: str) -> RequestTarget:
    """Return what an address below /fhir names."""
    steps = [unquote(step) for step in path.split("/")[2:] if step]
    match steps:
        case ["$export", _export, *name]:
            # AllergyIntolerance.1.ndjson
            return (
                RequestTarget("export-file", name[0].partition(".")[0]) if name else _EXPORT_STATUS
            )
        case [*about, name] if name.startswith("$") and len(about) < 3:
            return RequestTarget(
                "operation", "".join(about[:1]), "".join(about[1:]), operation=name
            )
        case [kind, *_rest] if not kind[:1].isupper():
            return RequestTarget()
        case [kind] | [kind, "_search"]:
            return RequestTarget("search", kind)
        case [kind, "_history"]:
            return RequestTarget("history-type", kind)
        case [kind, resource_id]:
            return RequestTarget("read", kind, resource_id)
        case [kind, resource_id, "_history"]:
            return RequestTarget("history-instance", kind, resource_id)
        case [kind, resource_id, "_history", version]:
            return RequestTarget("vread", kind, resource_id, version)
    return RequestTarget()


def matches(pattern: str, parameter: QueryParameter) -> bool:
    """Return whether a parameter means what a pattern does; one without = fits any value."""
    name, equals, value = pattern.partition("=")
    if not equals:
        return fits(name, parameter.name_and_modifier) and parameter.value != ""
    if fits(name, parameter.name_and_modifier):
        # The order of what is sorted by matters.
        is_same = name != "_sort" and _is_same(value, parameter.value)
        return is_same or fits(value, parameter.value)
    # patient:Patient=p1
    is_typed = name == parameter.name and parameter.modifier[:1].isupper()
    return is_typed and _is_same(value, f"{parameter.modifier}/{parameter.value}")


def fits(pattern: str, text: str) -> bool:
    """Return whether a text fits a pattern, in which * stands for anything."""
    parts = (re.escape(part) for part in pattern.split("*"))
    return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None


def _is_same(pattern: str, value: str) -> bool:
    """Return whether alternatives, joined with commas, are the same ones in whatever order."""
    patterns, values = pattern.split(","), value.split(",")
    if len(values) != len(patterns) and not ("*" in patterns and len(values) > len(patterns)):
        return False
    for alternative in sorted(patterns, key=lambda item: item == "*"):
        match = next((item for item in values if _is_same_alternative(alternative, item)), None)
        if match is None:
            return False
        values.remove(match)
    return True


def _is_same_alternative(pattern: str, value: str) -> bool:
    if "|" in value and "|" not in pattern:
        value = value.rpartition("|")[2]
    if fits(pattern.casefold(), value.casefold()):
        return True
    time = _time_of(pattern)
    if time is not None and time == _time_of(value):
        return True
    kind, resource_id = _reference(pattern)
    sent_kind, sent_id = _reference(value)
    # One of them may leave its type out.
    return resource_id == sent_id and (kind == sent_kind or "" in (kind, sent_kind))


def _reference(value: str) -> tuple[str, str]:
    """Return type and id of a reference; an id alone has no type."""
    match = re.fullmatch(r"(?:.*/)?([A-Z][A-Za-z]+)/([A-Za-z0-9.-]{1,64})", value)
    return (match[1], match[2]) if match else ("", value)


def _time_of(value: str) -> tuple[int, int] | None:
    """Return the stretch of time that a date with its prefix covers; None where it is no date."""
    prefix, date = (value[:2], value[2:]) if value[:1].isalpha() else ("eq", value)
    try:
        low, high = interval(date)
    except ValueError:
        return None
    return {
        "eq": (low, high),
        "ge": (low, LATEST),
        **dict.fromkeys(("gt", "sa"), (high, LATEST)),
        "le": (EARLIEST, high),
        **dict.fromkeys(("lt", "eb"), (EARLIEST, low)),
    }.get(prefix)
