"""Token parameters: a code, perhaps of a code system. Source: FHIR R4 search §3.1.1.4.10."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fhirapp.search.index import IndexRow, TokenRow
from fhirapp.search.parameter import (
    AnyCondition,
    Context,
    IndexCondition,
    Parameter,
    split,
    table_name,
    unescape,
)


@dataclass(frozen=True)
class Token(Parameter):
    """A token parameter.

    system is the code system of elements that hold a bare code, by their binding: `status` of a
    document is found as `current` and as `http://hl7.org/fhir/document-reference-status|current`.
    """

    system: str = ""

    kind = "token"
    modifiers = frozenset({"not"})

    def index(self, value: Any) -> list[IndexRow]:
        name = self.name
        if isinstance(value, bool):
            return [TokenRow(name, "true" if value else "false", self.system)]
        if isinstance(value, str):
            return [TokenRow(name, value, self.system)]
        # A CodeableConcept has codings; a Coding has a code, an Identifier or ContactPoint a value.
        # Where only the system is known, the code is empty, and `system|` finds it.
        return [
            TokenRow(name, code or "", system or "")
            for one in value.get("coding", (value,))
            for code, system in ((one.get("code", one.get("value")), one.get("system")),)
            if code or system
        ]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        table = table_name(context.tables.token)
        parts = [unescape(part) for part in split(value, "|")]
        negated = modifier == "not"
        sql, names = self.named()
        if len(parts) == 1:
            return IndexCondition(
                table, f"{sql} AND k.code = ?", (*names, parts[0]), negated=negated
            )
        if len(parts) == 2 and parts[1]:
            system, code = parts
            sql = f"{sql} AND k.code = ? AND k.system = ?"
            return IndexCondition(table, sql, (*names, code, system), negated=negated)
        if len(parts) == 2 and parts[0]:
            sql = f"{sql} AND k.system = ?"
            found = (*names, parts[0])
            return IndexCondition(table, sql, found, seekable=False, negated=negated)
        raise self.invalid("is not a token; use code, system|code, |code or system|")
