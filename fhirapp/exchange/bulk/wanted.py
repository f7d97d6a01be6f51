"""What an export is to hold, as it lies in the export's folder until the export is forgotten."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

SYSTEM, PATIENT, GROUP = "system", "patient", "group"

# A query of `_typeFilter`: the type, and its search parameters.
Filter = tuple[str, tuple[tuple[str, str], ...]]


@dataclass(frozen=True)
class Wanted:
    """What was asked for, checked.

    since and until are instants; patients are ids, None for all of the level. elements are names by
    type, of types of which less than the whole is wanted. notes pair each parameter that was not
    followed with the reason.
    """

    level: str
    # The kick-off request's address, and the one under which the server was reached.
    request: str
    base_url: str
    # What the token may export, as scopes.
    scope: str
    types: tuple[str, ...]
    group: str = ""
    since: str | None = None
    until: str | None = None
    filters: tuple[Filter, ...] = ()
    elements: tuple[tuple[str, tuple[str, ...]], ...] = ()
    patients: tuple[str, ...] | None = None
    notes: tuple[tuple[str, str], ...] = ()

    def filters_of(self, type_name: str) -> list[tuple[tuple[str, str], ...]]:
        """Return the queries of a type, of which one must hold."""
        return [arguments for name, arguments in self.filters if name == type_name]

    def elements_of(self, type_name: str) -> tuple[str, ...]:
        """Return the elements that are wanted of a type, none for the whole."""
        return dict(self.elements).get(type_name, ())

    def dumps(self) -> bytes:
        """Return it as JSON."""
        return json.dumps(asdict(self)).encode()

    @classmethod
    def loads(cls, text: bytes) -> Wanted:
        """Return what JSON holds."""
        content = {name: _frozen(value) for name, value in json.loads(text).items()}
        return cls(**content)


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value
