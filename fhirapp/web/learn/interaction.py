"""What a request of the audit trail asked for, in FHIR's words: read, search, history-instance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol
from urllib.parse import parse_qsl, unquote

CURSOR = "_cursor"


class Noted(Protocol):
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
class Asked:
    """A request: what was asked for, and what the answer was."""

    noted: Noted
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
        return any(one.name == CURSOR for one in self.parameters)

    @property
    def selecting(self) -> list[Parameter]:
        """The parameters of a search that are the same on each of its pages."""
        return [one for one in self.parameters if one.name != CURSOR]


def asked(noted: Noted) -> Asked:
    """Return what a request asked for."""
    path, _, query = noted.path.partition("?")
    steps = [unquote(step) for step in path.split("/")[2:] if step]
    form = noted.body if noted.method == "POST" else ""
    given = [*_pairs(query), *_pairs(form)]
    interaction, found = _interaction(steps)
    return Asked(
        noted=noted,
        interaction=interaction,
        parameters=tuple(_parameter(name, value) for name, value in given),
        **found,
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
        case [kind, one]:
            return "read", {"type": kind, "id": one}
        case [kind, one, "_history"]:
            return "history-instance", {"type": kind, "id": one}
        case [kind, one, name] if name.startswith("$"):
            return "operation", {"type": kind, "id": one, "operation": name}
        case [kind, one, "_history", version]:
            return "vread", {"type": kind, "id": one, "version": version}
    return "other", {}


def _pairs(text: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(text, keep_blank_values=True)
    except ValueError:
        return []


def _parameter(name: str, value: str) -> Parameter:
    name, _, modifier = name.partition(":")
    return Parameter(name, modifier, value)
