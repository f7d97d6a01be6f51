"""Token parameters: a code, perhaps of a code system. Source: FHIR R4 search §3.1.1.4.10."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fhirapp.search.condition import AnyCondition, IndexCondition
from fhirapp.search.index import IndexRow, StringRow, TokenRow, key
from fhirapp.search.parameter import Context, Parameter
from fhirapp.search.string import FURTHER, STEP, begins_with, fold, holds, string_rows
from fhirapp.search.values import split, told, unescape

# Of which modifier an index row is, beside those that the parameter itself searches.
_TEXT = ":text"
_OF_TYPE = ":of-type"


@dataclass(frozen=True)
class Token(Parameter):
    """A token parameter.

    system is the code system of elements that hold a bare code, by their binding: `status` of a
    document is found as `current` and as `http://hl7.org/fhir/document-reference-status|current`.
    of_identifier marks one of Identifiers, which can be searched by their type.
    """

    system: str = ""
    of_identifier: bool = False

    kind = "token"
    modifiers = frozenset({"not", "text"})
    row = TokenRow

    def accepts(self, modifier: str) -> bool:
        return modifier in self.modifiers or (modifier == "of-type" and self.of_identifier)

    def index(self, value: Any) -> list[IndexRow]:
        name = self.name
        if isinstance(value, str):
            return [TokenRow(name, key(value), self.system)]
        if isinstance(value, bool):
            return [TokenRow(name, "true" if value else "false", self.system)]
        # A CodeableConcept has codings; a Coding has a code, an Identifier or ContactPoint a value.
        codings = value.get("coding", (value,))
        rows: list[IndexRow] = []
        texts = [value.get("text")]
        for one in codings:
            code, system = one.get("code", one.get("value")), one.get("system")
            # Where only the system is known, the code is empty, and `system|` finds it.
            if code or system:
                rows.append(TokenRow(name, key(code or ""), key(system or "")))
            texts.append(one.get("display"))
        if self.of_identifier and "type" in value:
            kind = value["type"]
            texts.append(kind.get("text"))
            rows += [
                TokenRow(
                    name + _OF_TYPE, key(f"{one['code']}|{value['value']}"), key(one["system"])
                )
                for one in kind.get("coding", ())
                if "code" in one and "system" in one and "value" in value
            ]
        for text in texts:
            if text:
                rows += string_rows(name + _TEXT, text)
        return rows

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        if modifier == "text":
            return self._text(value, context)
        if modifier == "of-type":
            return self._of_type(value, context)
        code, system = self.parse(value)
        sql, names = self.named()
        found = names
        if code:
            sql, found = f"{sql} AND k.code = ?", (*found, code)
        if system is not None:
            sql, found = f"{sql} AND k.system = ?", (*found, system)
        return IndexCondition(self.table(context), sql, found, negated=modifier == "not")

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        if modifier == "text":
            return f"has a text in which a word, or the whole, begins with {told(unescape(value))}"
        if modifier == "of-type":
            system, code, identifier = (told(unescape(part)) for part in split(value, "|"))
            return f"has the identifier {identifier} of the type {code} of the system {system}"
        verb = "lacks" if modifier == "not" else "has"
        code, system_of = self.parse(value)
        noun = "identifier" if self.of_identifier else "code"
        sought = f"the {noun} {told(code)}" if code else f"any {noun}"
        if system_of is None:
            return f"{verb} {sought} of any system"
        return f"{verb} {sought} " + (
            f"of the system {told(system_of)}" if system_of else "without a system"
        )

    def parse(self, value: str) -> tuple[str, str | None]:
        """Return the code and the system that a value names, as index rows hold them.

        "a" is ("a", None), "s|a" is ("a", "s"), "|a" is ("a", ""), "s|" is ("", "s"). Raises
        InvalidParameter.
        """
        parts = [key(unescape(part)) for part in split(value, "|")]
        if len(parts) == 1 and parts[0]:
            return parts[0], None
        if len(parts) == 2 and any(parts):
            return parts[1], parts[0]
        raise self.invalid("is not a token; use code, system|code, |code or system|")

    def _text(self, value: str, context: Context) -> AnyCondition:
        """Return the condition that a text beside the code, or a word in it, begins so."""
        folded = fold(unescape(value))
        if not folded or len(folded) > STEP:
            raise self.invalid(f":text takes 1 to {STEP} characters")
        _, names = self.named(_TEXT)
        _, further = self.named(_TEXT + FURTHER)
        begins, bounds = begins_with(folded)
        held, pattern = holds(" " + folded)
        marks = ", ".join("?" * len(names))
        return IndexCondition(
            context.table(StringRow),
            f"(k.param IN ({marks}) AND {begins} OR k.param IN ({marks}, {marks}) AND {held})",
            (*names, *bounds, *names, *further, *pattern),
        )

    def _of_type(self, value: str, context: Context) -> AnyCondition:
        """Return the condition that an identifier is of a type. FHIR R4 search §3.1.1.4.10."""
        parts = [unescape(part) for part in split(value, "|")]
        if len(parts) != 3 or not all(parts):
            raise self.invalid("is not an identifier of a type; use system|code|value")
        system, code, identifier = parts
        sql, names = self.named(_OF_TYPE)
        return IndexCondition(
            self.table(context),
            f"{sql} AND k.code = ? AND k.system = ?",
            (*names, key(f"{code}|{identifier}"), key(system)),
        )
