"""Uri parameters: an address, as a whole. Source: FHIR R4 search §3.1.1.4.13."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fhirapp.search.condition import AnyCondition, IndexCondition
from fhirapp.search.index import KEY_LENGTH, IndexRow, TokenRow, key
from fhirapp.search.parameter import Context, Parameter
from fhirapp.search.values import unescape


@dataclass(frozen=True)
class Uri(Parameter):
    """A uri parameter.

    With local, values that point below this server's own /fhir are indexed relative, as they are
    stored; they are searched by the address that clients see.
    """

    local: bool = False

    kind = "uri"
    modifiers = frozenset({"above", "below"})
    row = TokenRow

    def index(self, value: Any) -> list[IndexRow]:
        # A canonical is found with its version and without.
        found = dict.fromkeys((value, value.partition("|")[0]))
        return [TokenRow(self.name, key(one), "") for one in found if one]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        table = self.table(context)
        sql, names = self.named()
        value = unescape(value)
        if self.local:
            value = value.removeprefix(f"{context.base_url}/fhir/")
        if modifier == "":
            return IndexCondition(table, f"{sql} AND k.code = ?", (*names, key(value)))
        # FHIR R4 §3.1.1.4.13: above and below hold of URLs only
        if "://" not in value or len(value) > KEY_LENGTH // 2:
            raise self.invalid(
                f":{modifier} takes a URL with a scheme, of at most {KEY_LENGTH // 2} characters"
            )
        if modifier == "above":
            above = _above(value)
            marks = ", ".join("?" * len(above))
            return IndexCondition(table, f"{sql} AND k.code IN ({marks})", (*names, *above))
        folder = value.rstrip("/") + "/"
        sql = f"{sql} AND (k.code = ? OR k.code >= ? AND k.code < ?)"
        return IndexCondition(table, sql, (*names, value, folder, folder + "\U0010ffff"))


def _above(url: str) -> list[str]:
    """Return a URL and those that it is below, each with and without its last slash."""
    scheme, _, path = url.partition("://")
    segments = path.rstrip("/").split("/")
    above = [
        f"{scheme}://{'/'.join(segments[:count])}{end}"
        for count in range(1, len(segments) + 1)
        for end in ("", "/")
    ]
    return list(dict.fromkeys((url, *above)))
