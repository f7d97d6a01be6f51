"""Composite parameters: two values of the same repetition. Source: FHIR R4 search §3.1.1.4.14."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fhirapp.search.index import IndexRow, ReferenceRow, TokenRow, key
from fhirapp.search.parameter import Context, Parameter
from fhirapp.search.reference import Reference
from fhirapp.search.token import Token
from fhirapp.search.values import AnyCondition, IndexCondition, split


@dataclass(frozen=True)
class TokenReference(Parameter):
    """A code together with a reference: `relationship=replaces$DocumentReference/d1`.

    paths leads to what holds both; code and target are the parameters that say how each is read,
    their own paths below that.
    """

    code: Token = field(kw_only=True)
    target: Reference = field(kw_only=True)

    kind = "composite"
    sortable = False
    row = TokenRow

    def index(self, value: Any) -> list[IndexRow]:
        return [
            TokenRow(self.name, key(f"{code.code}${_address(target)}"), code.system)
            for code in self.code.rows(value)
            if isinstance(code, TokenRow) and code.code
            for target in self.target.rows(value)
            if isinstance(target, ReferenceRow) and target.target_id
        ]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:  # noqa: ARG002
        parts = split(value, "$")
        if len(parts) != 2 or not all(parts):
            raise self.invalid("is not a pair; use code$reference")
        code, system = self.code.parse(parts[0])
        target_type, target_id = self.target.target("", parts[1], context.base_url)
        if not code:
            raise self.invalid("has no code; use code$reference or system|code$reference")
        address = f"{target_type}/{target_id}" if target_type else target_id
        sql, names = self.named()
        # Its systems are of those where case counts.
        found = (*names, key(f"{code}${address}"))
        if system is None:
            return IndexCondition(self.table(context), f"{sql} AND k.code = ?", found)
        sql = f"{sql} AND k.code = ? AND k.system = ?"
        return IndexCondition(self.table(context), sql, (*found, system))

    def describe(self, modifier: str, value: str, context: Context) -> str:
        code, target = split(value, "$")
        return (
            f"{self.code.describe(modifier, code, context)} and, in the same repetition,"
            f" {self.target.describe(modifier, target, context)}"
        )


def _address(row: ReferenceRow) -> str:
    return f"{row.target_type}/{row.target_id}" if row.target_type else row.target_id
