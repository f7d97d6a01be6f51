"""Reference parameters, and the composite of a code with a reference, in the same repetition.

Source: FHIR R4 search §3.1.1.4.9, §3.1.1.4.14.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.words import worded
from fhirapp.search import values
from fhirapp.search.index import IndexRow, ReferenceRow, TokenRow, key
from fhirapp.search.parameter import Context, Parameter
from fhirapp.search.token import Identifier, Token

_RELATIVE = re.compile(rf"([A-Z][A-Za-z]+)/({ID_PATTERN})(?:/_history/{ID_PATTERN})?")
# Of an address elsewhere: FHIR R4 search §3.1.1.4.13, a search heeds no version.
_VERSION = re.compile(rf"(?<=.)/_history/{ID_PATTERN}\Z")
_ID = re.compile(ID_PATTERN)
_TYPE = re.compile(r"[A-Z][A-Za-z]+")


def relative_reference(value: str) -> tuple[str, str] | None:
    """Return (type, id) of a relative reference, without its version; None for any other."""
    match = _RELATIVE.fullmatch(value)
    return (match[1], match[2]) if match else None


@dataclass(frozen=True)
class Reference(Parameter):
    """A reference parameter; to lists the types that it may point to: "Patient | Group"."""

    to: str = ""

    kind = "reference"
    modifiers = frozenset({"identifier"})
    row = ReferenceRow
    # Whether the Patient that it points to is that of the row's own compartment.
    compartment: ClassVar[bool] = False

    @cached_property
    def targets(self) -> tuple[str, ...]:
        """The types that it may point to; empty for any."""
        return tuple(self.to.split(" | ")) if self.to else ()

    def rows_of(self, value: Any) -> Sequence[IndexRow]:
        rows = super().rows_of(value)
        if len(self.targets) != 1:
            return rows
        # A parameter for patients has no other subjects as values: subject.where(resolve() is
        # Patient).
        is_of = ("", *self.targets)
        return [
            row for row in rows if not isinstance(row, ReferenceRow) or row.target_type in is_of
        ]

    def index(self, value: Any) -> list[IndexRow]:
        if isinstance(value, str):
            value = {"reference": value}
        rows: list[IndexRow] = []
        target = value.get("reference")
        if target and not target.startswith("#"):
            relative = relative_reference(target) or (None, _VERSION.sub("", target))
            rows.append(ReferenceRow(self.name, key(relative[1]), relative[0] or ""))
        if identifier := value.get("identifier"):
            parameter = self._identifier
            rows += [row for row in parameter.index(identifier) if row.param == parameter.name]
        return rows

    @property
    def _identifier(self) -> Identifier:
        """What `:identifier` searches: the identifier within the reference."""
        return Identifier(f"{self.name}:identifier", "", "")

    def accepts(self, modifier: str) -> bool:
        # patient:Patient=p1, FHIR R4 search §3.1.1.4.9
        if modifier in self.modifiers or modifier in self.targets:
            return True
        return not self.targets and _TYPE.fullmatch(modifier) is not None

    def condition(self, modifier: str, value: str, context: Context) -> values.AnyCondition:
        if modifier == "identifier":
            return self._identifier.condition("", value, context)
        target_type, target_id = self.target(modifier, value, context.base_url)
        is_it, target = "k.target_id = ? AND k.target_type", key(target_id)
        if target_type is None:
            return self.has_row(context, f"{is_it} = ''", target)
        if not target_type:
            return self.has_row(context, f"{is_it} <> ''", target)
        return self.has_row(context, f"{is_it} = ?", target, target_type)

    def describe(self, modifier: str, value: str, context: Context) -> str:
        if modifier == "identifier":
            sought = self._identifier.describe("", value, context)
            return worded("names by identifier what %(sought)s", sought=sought)
        target_type, target_id = self.target(modifier, value, context.base_url)
        if target_type:
            target = values.repr_value(f"{target_type}/{target_id}")
            return worded("refers to %(target)s", target=target)
        target = values.repr_value(target_id)
        if target_type is None:
            return worded("refers to %(target)s, which is elsewhere", target=target)
        return worded("refers to the id %(target)s of any type", target=target)

    def target(self, modifier: str, value: str, base_url: str) -> tuple[str | None, str]:
        """Return the (type, id) that a value names: type is empty for a bare id, None elsewhere.

        "p1" is ("", "p1"), "Patient/p1" and our own absolute address ("Patient", "p1"), any other
        address (None, address). Raises InvalidParameter.
        """
        value = values.unescape(value)
        if _ID.fullmatch(value):
            return (modifier or (self.targets[0] if len(self.targets) == 1 else "")), value
        own = f"{base_url}/fhir/"
        relative = relative_reference(value.removeprefix(own))
        if relative is not None:
            if self.targets and relative[0] not in self.targets:
                raise self.invalid(f"{relative[0]} is no target; use {', '.join(self.targets)}")
            if modifier and relative[0] != modifier:
                raise self.invalid(f"{relative[0]} contradicts the modifier :{modifier}")
            return relative
        if "://" in value or value.startswith("urn:"):
            return None, _VERSION.sub("", value)
        raise self.invalid("is not a reference; use id, Type/id or an address")


@dataclass(frozen=True)
class Subject(Reference):
    """A reference parameter whose Patient is that of the row's compartment, which has a column."""

    to: str = "Patient"

    compartment = True

    def condition(self, modifier: str, value: str, context: Context) -> values.AnyCondition:
        if modifier != "identifier":
            target_type, target_id = self.target(modifier, value, context.base_url)
            if target_type == "Patient":
                return values.Condition("r.patient_id = ?", (target_id,), narrows=True)
        return super().condition(modifier, value, context)


@dataclass(frozen=True)
class TokenReference(Parameter):
    """A code together with a reference: `relationship=replaces$DocumentReference/d1`.

    path leads to the element that holds both; code and target are the parameters that read them,
    with paths below that element.
    """

    code: Token = field(kw_only=True)
    target: Reference = field(kw_only=True)

    kind = "composite"
    sortable = False
    row = TokenRow

    def index(self, value: Any) -> list[IndexRow]:
        return [
            TokenRow(self.name, _pair(code.code, target.target_type, target.target_id), code.system)
            for code in self.code.rows(value)
            if isinstance(code, TokenRow) and code.code
            for target in self.target.rows(value)
            if isinstance(target, ReferenceRow) and target.target_id
        ]

    def condition(self, modifier: str, value: str, context: Context) -> values.AnyCondition:  # noqa: ARG002
        parts = values.split(value, "$")
        if len(parts) != 2 or not all(parts):
            raise self.invalid("is not a pair; use code$reference")
        code, system = self.code.parse(parts[0])
        target_type, target_id = self.target.target("", parts[1], context.base_url)
        if not code:
            raise self.invalid("has no code; use code$reference or system|code$reference")
        # Its systems are of those where case counts.
        pair = _pair(code, target_type, target_id)
        if system is None:
            return self.has_row(context, "k.code = ?", pair)
        return self.has_row(context, "k.code = ? AND k.system = ?", pair, system)

    def describe(self, modifier: str, value: str, context: Context) -> str:
        code, target = values.split(value, "$")
        return worded(
            "%(first)s and, in the same repetition, %(second)s",
            first=self.code.describe(modifier, code, context),
            second=self.target.describe(modifier, target, context),
        )


def _pair(code: str, target_type: str | None, target_id: str) -> str:
    """Return a code and a reference as an index row holds them: replaces$DocumentReference/d1."""
    return key(f"{code}${target_type}/{target_id}" if target_type else f"{code}${target_id}")
