"""How an element is checked: the pieces from which datatypes.py declares FHIR's datatypes.

A check takes a JSON value and returns it as this server stores it, or raises InvalidElement, which
gathers the path on its way up. JSON here is as fhir/json.py reads it: decimals are Decimal.
Source: FHIR R4 json §2.6.2 (no empty objects, arrays or strings; null only to align primitive
extensions) and datatypes §2.24.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

Check = Callable[[Any], Any]


class InvalidElement(ValueError):
    """A value that breaks FHIR's rules; path is where, below the element that was checked."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.path = path

    def below(self, step: str) -> InvalidElement:
        """Return the same fault seen from one step further up: "coding", "[0]"."""
        joint = "." if self.path and not self.path.startswith("[") else ""
        return InvalidElement(self.message, f"{step}{joint}{self.path}")


def text_of(pattern: str, kind: str, limit: int = 1_048_576) -> Check:
    """Return the check of a primitive that JSON writes as a string and that fits the pattern."""
    matches = re.compile(pattern, re.ASCII).fullmatch

    def check(value: Any) -> Any:
        if type(value) is not str:
            raise InvalidElement(f"must be a {kind}, written as a JSON string")
        if not matches(value):
            raise InvalidElement(f"is not a valid {kind}")
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


def code_of(*codes: str) -> Check:
    """Return the check of a code with a required binding to these codes."""
    allowed = frozenset(codes)

    def check(value: Any) -> Any:
        if type(value) is not str or value not in allowed:
            raise InvalidElement(f"must be one of {', '.join(codes)}")
        return value

    return check


def many(check: Check) -> Check:
    """Return the check of a repeating element: a list, not empty."""

    def check_list(value: Any) -> Any:
        if type(value) is not list:
            raise InvalidElement("must be a list")
        if not value:
            raise InvalidElement("must not be an empty list; leave the element out")
        checked = []
        for position, item in enumerate(value):
            try:
                # null keeps the place of a primitive that has only an extension.
                checked.append(None if item is None else check(item))
            except InvalidElement as error:
                raise error.below(f"[{position}]") from None
        return checked

    return check_list


def choice(name: str, **types: Check) -> dict[str, Check]:
    """Return the elements of a choice: choice("author", String=…) is {"authorString": …}."""
    return {name + type_name: check for type_name, check in types.items()}


class Complex:
    """The check of an object: its elements by name, which are required, which exclude each other.

    Unknown elements are refused; `_name` may carry the extensions of a primitive, which sibling
    checks, and counts as the element where one is required. choices names elements of which one
    may be present.
    """

    def __init__(
        self,
        elements: Mapping[str, Check],
        *,
        required: tuple[str, ...] = (),
        choices: tuple[str, ...] = (),
        sibling: Check,
    ) -> None:
        self.elements = dict(elements)
        self.required = required
        self.sibling = sibling
        self.choices = tuple(
            tuple(name for name in elements if re.fullmatch(f"{stem}[A-Z].*", name))
            for stem in choices
        )

    def __call__(self, value: Any) -> Any:
        if type(value) is not dict:
            raise InvalidElement("must be an object")
        if not value:
            raise InvalidElement("must not be an empty object; leave the element out")
        elements = self.elements
        checked = {}
        for name, content in value.items():
            check = elements.get(name)
            if check is None:
                check = self._unnamed(name)
            try:
                checked[name] = check(content)
            except InvalidElement as error:
                raise error.below(name) from None
        for name in self.required:
            if name not in checked and f"_{name}" not in checked:
                raise InvalidElement("is required", name)
        for group in self.choices:
            present = [name for name in group if name in checked]
            if len(present) > 1:
                raise InvalidElement(f"excludes {present[0]}: only one may be given", present[1])
        return checked

    def _unnamed(self, name: str) -> Check:
        if name[:1] == "_" and name[1:] in self.elements:
            return self.sibling
        raise InvalidElement("is not an element of FHIR R4 here", name)
