"""A request of the audit trail as a FHIR interaction: read, search, history-instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote

CURSOR = "_cursor"


class AuditEntry(Protocol):
    """A request as the audit trail has it (fhirapp/audit/index.py)."""

    @property
    def number(self) -> int: ...
    @property
    def user_id(self) -> str | None: ...
    @property
    def client_id(self) -> str | None: ...
    @property
    def via(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def body(self) -> str: ...
    @property
    def status(self) -> int: ...
    @property
    def served(self) -> tuple[str, ...]: ...


class Parameter(NamedTuple):
    """A parameter as it was sent: code:text=penicillin."""

    name: str
    modifier: str
    value: str

    @property
    def text(self) -> str:
        """The parameter without encoding, as a lesson writes it."""
        return f"{self.name}{':' if self.modifier else ''}{self.modifier}={self.value}"


@dataclass(frozen=True, kw_only=True)
class Interaction:
    """A request as an interaction; entry has its answer's status and resources."""

    entry: AuditEntry
    # read, vread, search, history-instance, history-type, operation; other for anything else.
    interaction: str = "other"
    type: str = ""
    id: str = ""
    version: str = ""
    # $everything
    operation: str = ""
    parameters: tuple[Parameter, ...] = ()

    @property
    def continues(self) -> bool:
        """Whether it is a further page of a search: the address of a next link."""
        return any(parameter.name == CURSOR for parameter in self.parameters)

    @property
    def selecting(self) -> list[Parameter]:
        """The parameters of a search that are the same on each of its pages."""
        return [parameter for parameter in self.parameters if parameter.name != CURSOR]


def interaction_of(entry: AuditEntry) -> Interaction:
    """Return the interaction of a request."""
    path, _, query = entry.path.partition("?")
    steps = [unquote(step) for step in path.split("/")[2:] if step]
    form = entry.body if entry.method == "POST" else ""
    pairs = [*_pairs(query), *_pairs(form)]
    interaction, names = _interaction(steps)
    return Interaction(
        entry=entry,
        interaction=interaction,
        parameters=tuple(_parameter(name, value) for name, value in pairs),
        **names,
    )


def _interaction(steps: list[str]) -> tuple[str, dict[str, str]]:
    """Return which interaction an address below /fhir is, and what it names."""
    if not steps or not steps[0][:1].isupper():
        return "other", {}
    match steps:
        case [kind] | [kind, "_search"]:
            return "search", {"type": kind}
        case [kind, "_history"]:
            return "history-type", {"type": kind}
        case [kind, name] if name.startswith("$"):
            return "operation", {"type": kind, "operation": name}
        case [kind, resource_id]:
            return "read", {"type": kind, "id": resource_id}
        case [kind, resource_id, "_history"]:
            return "history-instance", {"type": kind, "id": resource_id}
        case [kind, resource_id, name] if name.startswith("$"):
            return "operation", {"type": kind, "id": resource_id, "operation": name}
        case [kind, resource_id, "_history", version]:
            return "vread", {"type": kind, "id": resource_id, "version": version}
    return "other", {}


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True)
    except ValueError:
        return []


def _parameter(name: str, value: str) -> Parameter:
    name, _, modifier = name.partition(":")
    return Parameter(name, modifier, value)
