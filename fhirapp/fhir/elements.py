"""How an element is checked: the pieces from which datatypes.py declares FHIR's datatypes.

A check takes a JSON value and returns it as this server stores it, or raises InvalidElement, which
gathers the path on its way up. JSON here is as fhir/json.py reads it: decimals are Decimal.
Source: FHIR R4 json §2.6.2 (no empty objects, arrays or strings; null only to align primitive
extensions) and datatypes §2.24.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping, Sequence
from decimal import Decimal
from typing import Any, NamedTuple

from marshmallow import ValidationError

Check = Callable[[Any], Any]


class InvalidElement(ValidationError, ValueError):
    """A value that breaks FHIR's rules; path is where, below the element that was checked."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        if path:
            self.messages = {path: [message]}
        self.message = message
        self.path = path

    def below(self, step: str) -> InvalidElement:
        """Return the same fault seen from one step further up: "coding", "[0]"."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        return InvalidElement(self.message, f"{step}{joint}{self.path}")


def text_of(pattern: str, kind: str, limit: int = 1_048_576, rule: str = "") -> Check:
    """Return the check of a primitive that JSON writes as a string and that fits the pattern.

    rule says in words what fits.
    """
    matches = re.compile(pattern, re.ASCII).fullmatch

    def check(value: Any) -> Any:
        if type(value) is not str:
            raise InvalidElement(f"must be a {kind}, written as a JSON string")
        if not matches(value):
            raise InvalidElement(f"is not a valid {kind}{rule and ': '}{rule}")
        if len(value) > limit:
            raise InvalidElement(f"is longer than {limit} characters")
        return value

    return check


def parsed_by(parse: Callable[[str], str], kind: str) -> Check:
    """Return the check of a primitive whose own parser returns its normal form or raises."""

    def check(value: Any) -> Any:
        if type(value) is not str:
            raise InvalidElement(f"must be a {kind}, written as a JSON string")
        try:
            return parse(value)
        except ValueError as error:
            raise InvalidElement(str(error)) from None

    return check


def whole_number(least: int, greatest: int = 2_147_483_647) -> Check:
    """Return the check of an integer within these bounds."""

    def check(value: Any) -> Any:
        if type(value) is not int:
            raise InvalidElement("must be a whole number, written as a JSON number")
        if not least <= value <= greatest:
            raise InvalidElement(f"must be between {least} and {greatest}")
        return value

    return check


def boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise InvalidElement("must be true or false")
    return value


def decimal(value: Any) -> Any:
    if type(value) is not int and type(value) is not Decimal:
        raise InvalidElement("must be a decimal, written as a JSON number")
    return value


class Bound:
    """The check of a code with a required binding."""

    def __init__(self, binding: Binding) -> None:
        self.binding = binding
        self._allowed = frozenset(binding.codes)

    def __call__(self, value: Any) -> Any:
        if type(value) is not str or value not in self._allowed:
            raise InvalidElement(f"must be one of {', '.join(self.binding.codes)}")
        return value


class Repeating:
    """The check of a list, not empty; item is that of each of its members."""

    def __init__(self, item: Check) -> None:
        self.item = item

    def __call__(self, value: Any) -> Any:
        return self.beside(value, None)

    def beside(self, value: Any, siblings: Any) -> list[Any]:
        """Check a list; null keeps the place of a primitive whose extension stands in siblings."""
        if type(value) is not list:
            raise InvalidElement("must be a list")
        if not value:
            raise InvalidElement("must not be an empty list; leave the element out")
        item = self.item
        siblings = siblings if type(siblings) is list else ()
        checked: list[Any] = []
        for position, content in enumerate(value):
            try:
                if content is None and position < len(siblings) and siblings[position]:
                    checked.append(None)
                else:
                    checked.append(item(content))
            except InvalidElement as error:
                raise error.below(f"[{position}]") from None
        return checked


# As the declarations of datatypes read.
many = Repeating


def choice(name: str, **types: Check) -> dict[str, Any]:
    """Return the elements of a choice: choice("author", String=…) is {"authorString": …}."""
    return {name + type_name: check for type_name, check in types.items()}


class Complex:
    """The check of an object: its elements by name, which are required, which exclude each other.

    Unknown elements are refused. A primitive may have a sibling `_name` with its id and
    extensions, which the check sibling takes, and which counts as the element where one is
    required. choices names elements of which one may be present: "onset" for onset[x]. summary
    names those that R4 marks as part of a summary, None where it marks all.
    """

    def __init__(
        self,
        elements: Mapping[str, Check],
        *,
        required: Sequence[str] = (),
        choices: Sequence[str] = (),
        summary: Sequence[str] | None = None,
        primitives: Container[Check] = (),
        sibling: Check,
    ) -> None:
        self.elements = dict(elements)
        self.required = tuple(required)
        self._required = frozenset(required)
        self.summary = None if summary is None else frozenset(summary)
        self.choices = tuple(
            tuple(name for name in elements if re.fullmatch(f"{stem}[A-Z].*", name))
            for stem in choices
        )
        names = {name for group in self.choices for name in group}
        self._chosen = frozenset([*names, *(f"_{name}" for name in names)])
        self.siblings: dict[str, Check] = {}
        for name, check in elements.items():
            if check in primitives:
                self.siblings[f"_{name}"] = sibling
            elif isinstance(check, Repeating) and check.item in primitives:
                self.siblings[f"_{name}"] = Repeating(_or_null(sibling))

    def __call__(self, value: Any) -> Any:
        """Return the object in its normal form. Raises InvalidElement for its first fault."""
        if type(value) is not dict:
            raise InvalidElement("must be an object")
        if not value:
            raise InvalidElement("must not be an empty object; leave the element out")
        checked: dict[str, Any] = {}
        elements = self.elements
        for name, content in value.items():
            try:
                check = elements.get(name)
                if check is None:
                    checked[name] = self.sibling(name, value)
                elif type(content) is list and isinstance(check, Repeating):
                    checked[name] = check.beside(content, value.get(f"_{name}"))
                else:
                    checked[name] = check(content)
            except InvalidElement as error:
                raise error.below(name) from None
        for fault in self.missing_and_excess(value):
            raise fault
        return checked

    def sibling(self, name: str, value: Mapping[str, Any]) -> Any:
        """Return the `_name` beside a primitive, in its normal form. FHIR R4 json §2.6.2.3."""
        check = self.siblings.get(name)
        if check is None:
            raise InvalidElement("is not an element of FHIR R4 here")
        content = value[name]
        checked = check(content)
        if type(content) is list:
            if not any(content):
                raise InvalidElement("says nothing; leave it out")
            beside = value.get(name[1:])
            if type(beside) is list and len(content) > len(beside):
                raise InvalidElement("is longer than the list it stands beside")
        return checked

    def missing_and_excess(self, value: Mapping[str, Any]) -> Sequence[InvalidElement]:
        """Return a fault for each element that is required, and each second one of a choice."""
        # One of all is what most have.
        excess = self._chosen and len(self._chosen.intersection(value)) > 1
        if not excess and self._required <= value.keys():
            return ()
        faults = [
            InvalidElement("is required", name)
            for name in self.required
            if name not in value and (f"_{name}" not in value or f"_{name}" not in self.siblings)
        ]
        for group in self.choices:
            present = [
                name if name in value else f"_{name}"
                for name in group
                if name in value or f"_{name}" in value
            ]
            if len(present) > 1:
                message = f"excludes {present[0]}: only one may be given"
                faults.append(InvalidElement(message, present[1]))
        return faults


def _or_null(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


class Binding(NamedTuple):
    """A required binding: its codes, and of a concept the system that one of its codings has."""

    codes: tuple[str, ...]
    system: str = ""


def binding_at(check: Check | None, path: Sequence[str]) -> Binding | None:
    """Return the required binding of an element at a path below another, None where it has none."""
    if isinstance(check, Repeating):
        check = check.item
    if path:
        elements = check.elements if isinstance(check, Complex) else {}
        return binding_at(elements.get(path[0]), path[1:])
    if check is boolean:
        return Binding(("true", "false"))
    return check.binding if isinstance(check, Bound) else None
