"""Token parameters: a code, perhaps of a code system. Source: FHIR R4 search §3.1.1.4.10.

Case counts in codes of systems that are known to differ by it, HL7's own and UCUM, and in
identifiers (datatypes §2.24.0.12: an identifier that is nearly another names somebody else). Of any
other system, and without one, it does not: "when in doubt, servers SHOULD treat tokens in a
case-insensitive manner". Index rows hold such codes folded.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, ClassVar

from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.outcome import UnsupportedParameter
from fhirapp.fhir.words import worded
from fhirapp.search.index import KEY_LENGTH, IndexRow, StringRow, TokenRow, key
from fhirapp.search.parameter import Context, Parameter, ResolvedCodes
from fhirapp.search.string import FURTHER, STEP, begins_with, fold, holds, string_rows
from fhirapp.search.values import (
    AnyCondition,
    Condition,
    any_of,
    any_row,
    escape,
    is_in,
    parse_boolean,
    repr_value,
    split,
    unescape,
)

# How the addresses of R4's own code systems begin.
HL7 = "http://hl7.org/fhir/"
# The code system of true and false.
SPECIAL_VALUES = "http://terminology.hl7.org/CodeSystem/special-values"

# Suffixes of the names of index rows that modifiers search.
_TEXT = ":text"
_OF_TYPE = ":of-type"
# The systems whose codes differ by case begin so, except for HL7's tables of version 2.
_CASED = (
    HL7,
    "http://terminology.hl7.org/CodeSystem/",
    "http://unitsofmeasure.org",
)
_UNCASED = "http://terminology.hl7.org/CodeSystem/v2-"
_IS_CASED = " OR ".join(["(k.system >= ? AND k.system < ?)"] * len(_CASED))
_IS_CASED = f"(({_IS_CASED}) AND NOT (k.system >= ? AND k.system < ?))"
_CASED_VALUES = tuple(end for uri in (*_CASED, _UNCASED) for end in (uri, uri + "\U0010ffff"))
# Modifiers whose values name a value set or substance class. FHIR R4 search §3.1.1.4.10.
_SETS = ("in", "not-in", "below")
# Bytes of the JSON of a concept whose index rows are cached.
_LONGEST = 1_000


@dataclass(frozen=True)
class Token(Parameter):
    """A token parameter.

    system is the code system of elements that hold a bare code, by their binding: `status` of a
    document is found as `current` and as `http://hl7.org/fhir/document-reference-status|current`.
    """

    system: str = ""

    kind = "token"
    modifiers = frozenset({"not", "text", *_SETS})
    row = TokenRow
    # What explanations call a value.
    one: ClassVar[str] = worded("the code %(value)s")
    any_one: ClassVar[str] = worded("any code")
    # Whether case counts in values whatever their system.
    cased: ClassVar[bool] = False

    def rows_of(self, value: Any) -> Sequence[IndexRow]:
        if type(value) is not dict:
            return super().rows_of(value)
        text = fhir_json.dumps(value)
        if len(text) > _LONGEST:
            return super().rows_of(value)
        return self._remembered(text)

    @cached_property
    def _remembered(self) -> Callable[[bytes], Sequence[IndexRow]]:
        # Thousands of allergies have only dozens of concepts.
        rows_of = super().rows_of
        return lru_cache(maxsize=500)(lambda text: tuple(rows_of(fhir_json.loads(text))))

    def index(self, value: Any) -> list[IndexRow]:
        name = self.name
        if isinstance(value, str):
            return [TokenRow(name, key(self._folded(value, self.system)), self.system)]
        if isinstance(value, bool):
            return [TokenRow(name, "true" if value else "false", self.system)]
        # A CodeableConcept has codings; a Coding has a code, an Identifier or ContactPoint a value.
        codings = value.get("coding", (value,))
        rows: list[IndexRow] = []
        texts = [value.get("text")]
        for coding in codings:
            code, system = coding.get("code", coding.get("value")), coding.get("system")
            # If only the system is known, the code is empty, and `system|` finds it.
            if code or system:
                folded = self._folded(code or "", system or "")
                rows.append(TokenRow(name, key(folded), key(system or "")))
            texts.append(coding.get("display"))
        return [*rows, *self.text_rows(texts)]

    def text_rows(self, texts: Iterable[str | None]) -> Iterator[IndexRow]:
        """Yield the index rows of the texts that stand beside a code."""
        for text in texts:
            if text:
                yield from string_rows(self.name + _TEXT, text)

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        if modifier == "text":
            return self._text(value, context)
        if modifier in _SETS:
            return self._one_of(modifier, value, context)
        code, system = self.parse(value)
        has_row = partial(self.has_row, context, negated=modifier == "not")
        if system is None and not self.cased and (folded := code.casefold()) != code:
            # A row that has capitals is of a system where case counts. Each choice has the
            # parameter, so that the index leads to its rows.
            uncased = f"k.code = ? AND NOT {_IS_CASED}"
            return any_row(
                has_row("k.code = ?", key(code)), has_row(uncased, key(folded), *_CASED_VALUES)
            )
        if system is None:
            return has_row("k.code = ?", key(self._folded(code, "")))
        if not code:
            return has_row("k.system = ?", key(system))
        return has_row("k.code = ? AND k.system = ?", key(self._folded(code, system)), key(system))

    def _folded(self, code: str, system: str) -> str:
        """Return a code as index rows hold it: without case where that does not count."""
        if self.cased or (system.startswith(_CASED) and not system.startswith(_UNCASED)):
            return code
        return code.casefold()

    def describe(self, modifier: str, value: str, context: Context) -> str:
        if modifier == "text":
            return worded(
                "has a text in which a word, or the whole, begins with %(text)s",
                text=repr_value(unescape(value)),
            )
        if modifier in _SETS:
            codes = self._resolve(modifier, value, context).doc
            if modifier == "not-in":
                return worded("lacks every code of %(codes)s", codes=codes)
            return worded("has a code of %(codes)s", codes=codes)
        code, system = self.parse(value)
        sought = worded(self.one, value=repr_value(code)) if code else worded(self.any_one)
        if system:
            sought = worded(
                "%(sought)s of the system %(system)s", sought=sought, system=repr_value(system)
            )
        elif system is None:
            sought = worded("%(sought)s of any system", sought=sought)
        else:
            sought = worded("%(sought)s without a system", sought=sought)
        if modifier == "not":
            return worded("lacks %(sought)s", sought=sought)
        return worded("has %(sought)s", sought=sought)

    def parse(self, value: str) -> tuple[str, str | None]:
        """Return the code and the system that a value names.

        "a" is ("a", None), "s|a" is ("a", "s"), "|a" is ("a", ""), "s|" is ("", "s"). Raises
        InvalidParameter.
        """
        parts = [unescape(part) for part in split(value, "|")]
        if len(parts) == 1 and parts[0]:
            return parts[0], None
        if len(parts) == 2 and any(parts):
            return parts[1], parts[0]
        raise self.invalid("is not a token; use code, system|code, |code or system|")

    def _resolve(self, modifier: str, value: str, context: Context) -> ResolvedCodes:
        """Return the codes that a value of a modifier stands for. Raises ParameterError."""
        if context.terminology is None:
            raise UnsupportedParameter(f"{self.name}:{modifier}", "is not supported here")
        return context.terminology(self.name, modifier, unescape(value))

    def _one_of(self, modifier: str, value: str, context: Context) -> AnyCondition:
        """Return the condition that a code is one of those that a value stands for."""
        by_system: dict[str, dict[str, None]] = {}
        for system, code in self._resolve(modifier, value, context).codes:
            by_system.setdefault(system, {})[key(self._folded(code, system))] = None
        has_row = partial(self.has_row, context, negated=modifier == "not-in")
        if not by_system:
            return has_row("1 = 0")
        # Each choice has the parameter, so that the index leads to its rows.
        choices = [
            has_row(f"k.system = ? AND {listed.sql}", key(system), *listed.values)
            for system, codes in by_system.items()
            for listed in [is_in("k.code", codes)]
        ]
        # Of one row, || '' keeps the database from looking up each code in the index.
        of_row = any_of(
            [
                Condition(f"k.system = ? AND {listed.sql}", (key(system), *listed.values))
                for system, codes in by_system.items()
                for listed in [is_in("k.code || ''", codes)]
            ]
        )
        per_row = has_row(of_row.sql, *of_row.values)
        return replace(any_row(*choices), per_row=Condition(per_row.sql, per_row.values))

    def _text(self, value: str, context: Context) -> AnyCondition:
        """Return the condition that a text beside the code, or a word of it, begins like this."""
        folded = fold(unescape(value))
        if not folded or len(folded) > STEP:
            raise self.invalid(f":text takes 1 to {STEP} characters")
        has_row = partial(self.has_row, context, row=StringRow)
        return any_row(
            has_row(*begins_with(folded), suffixes=(_TEXT,)),
            has_row(*holds(" " + folded), suffixes=(_TEXT, _TEXT + FURTHER)),
        )


@dataclass(frozen=True)
class Identifier(Token):
    """A token parameter of Identifiers, which can be searched by their type too."""

    modifiers = frozenset({"not", "text", "of-type"})
    one = worded("the identifier %(value)s")
    any_one = worded("any identifier")
    cased = True

    # Not cached: few identifiers are repeated.
    rows_of = Parameter.rows_of

    def index(self, value: Any) -> list[IndexRow]:
        kind = value.get("type", {})
        of_type = [
            TokenRow(
                self.name + _OF_TYPE, key(f"{type_['code']}|{value['value']}"), key(type_["system"])
            )
            for type_ in kind.get("coding", ())
            if "code" in type_ and "system" in type_ and "value" in value
        ]
        return [*super().index(value), *of_type, *self.text_rows([kind.get("text")])]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        """Return what must hold for one value; `:of-type` is system|code|value."""
        if modifier != "of-type":
            return super().condition(modifier, value, context)
        parts = [unescape(part) for part in split(value, "|")]
        if len(parts) != 3 or not all(parts):
            raise self.invalid("is not an identifier of a type; use system|code|value")
        system, code, identifier = parts
        sql = "k.code = ? AND k.system = ?"
        values = (key(f"{code}|{identifier}"), key(system))
        return self.has_row(context, sql, *values, suffixes=(_OF_TYPE,))

    def describe(self, modifier: str, value: str, context: Context) -> str:
        if modifier != "of-type":
            return super().describe(modifier, value, context)
        system, code, identifier = (repr_value(unescape(part)) for part in split(value, "|"))
        return worded(
            "has the identifier %(identifier)s of the type %(code)s of the system %(system)s",
            identifier=identifier,
            code=code,
            system=system,
        )


@dataclass(frozen=True)
class ContactToken(Token):
    """A token parameter of the ContactPoints of one system, `phone` or `email`.

    It searches the index rows of `telecom`, which are of every system.
    """

    searches: tuple[str, ...] = ("telecom",)

    modifiers = frozenset({"not"})
    # The rows are in the order of all systems' values.
    sortable = False

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        code, system = self.parse(value)
        if system not in (None, self.system):
            return Condition("1 = 1" if modifier == "not" else "1 = 0")
        return super().condition(modifier, f"{self.system}|{escape(code)}", context)

    def missing(self, value: str, context: Context) -> AnyCondition:
        negated = parse_boolean(f"{self.name}:missing", value)
        return self.has_row(context, "k.system = ?", self.system, negated=negated)


@dataclass(frozen=True)
class Presence(Token):
    """A token parameter that is true where one of its elements is there and is not false."""

    first_of: bool = True
    system: str = SPECIAL_VALUES

    modifiers = frozenset({"not"})

    def rows(self, resource: Mapping[str, Any]) -> list[IndexRow]:
        is_present = any(resource.get(path) not in (None, False) for path in self.paths)
        return self.index(is_present)


@dataclass(frozen=True)
class MediaType(Token):
    """A token parameter of media types: `text/plain` is also found with any parameters.

    `:below` takes the beginning of one: `text`, or `text/plain`. Source: FHIR R4 search
    §3.1.1.4.10; RFC 2045 §5.1: case and white space do not count, nor quotes around a value.
    """

    system: str = "urn:ietf:bcp:13"

    modifiers = frozenset({"not", "text", "below"})

    def index(self, value: Any) -> list[IndexRow]:
        whole = _media_type(value)
        forms = dict.fromkeys((whole, whole.partition(";")[0]))
        return [TokenRow(self.name, key(form), self.system) for form in forms]

    def parse(self, value: str) -> tuple[str, str | None]:
        code, system = super().parse(value)
        return _media_type(code), system

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        if modifier != "below":
            return super().condition(modifier, value, context)
        code, system = self.parse(value)
        code = code.removesuffix("/*")
        if not code or len(code) >= KEY_LENGTH:
            raise self.invalid(":below takes a media type, or what stands before its slash")
        if system not in (None, self.system):
            return Condition("1 = 0")
        # Of a type what follows its slash, of a media type its parameters.
        beginning = code + (";" if "/" in code else "/")
        return any_row(
            self.has_row(context, "k.code = ?", code),
            self.has_row(context, *begins_with(beginning, "k.code")),
        )

    def describe(self, modifier: str, value: str, context: Context) -> str:
        if modifier != "below":
            return super().describe(modifier, value, context)
        media_type = repr_value(self.parse(value)[0])
        return worded("has the media type %(type)s, or one below it", type=media_type)


def _media_type(value: str) -> str:
    """Return a media type in the form that is compared: text/plain;charset=utf-8."""
    return re.sub(r"[\s\"]+", "", value).casefold()
