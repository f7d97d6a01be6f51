"""Uri parameters: an address, as a whole. Source: FHIR R4 search §3.1.1.4.13."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fhirapp.search.condition import AnyCondition, IndexCondition
from fhirapp.search.index import KEY_LENGTH, IndexRow, TokenRow, key
from fhirapp.search.parameter import Context, Parameter
from fhirapp.search.values import told, unescape


@dataclass(frozen=True)
class Uri(Parameter):
    """A uri parameter.

    local is how values begin that are stored relative to this server's own /fhir: "Binary/". They
    are searched by the address that clients see.
    """

    local: str = ""

    kind = "uri"
    modifiers = frozenset({"above", "below"})
    row = TokenRow

    def index(self, value: Any) -> list[IndexRow]:
        # A canonical is found with its version and without.
        found = dict.fromkeys((value, value.partition("|")[0]))
        return [TokenRow(self.name, key(one), "") for one in found if one]

    def condition(self, modifier: str, value: str, context: Context) -> AnyCondition:
        value, own = unescape(value), f"{context.base_url}/fhir/"
        sql, names = self.named()
        # FHIR R4 §3.1.1.4.13: above and below hold of URLs only
        if modifier and ("://" not in value or len(value) > KEY_LENGTH // 2):
            raise self.invalid(
                f":{modifier} takes a URL with a scheme, of at most {KEY_LENGTH // 2} characters"
            )
        found: list[str]
        if modifier == "below":
            folder = value.rstrip("/") + "/"
            if self.local and f"{own}{self.local}".startswith(folder):
                # Every local one is below it, and perhaps others.
                ranges = [folder, self.local]
            else:
                ranges = [self._stored(folder, own)]
            # With the parameter in each choice, so that an index leads to the rows of each.
            within = [
                f"{sql} AND k.code = ?",
                *[f"{sql} AND k.code >= ? AND k.code < ?"] * len(ranges),
            ]
            sql, found = f"({' OR '.join(within)})", [self._stored(value, own)]
            for one in ranges:
                found += [*names, one, one + "\U0010ffff"]
        elif modifier == "above":
            found = [self._stored(one, own) for one in _above(value)]
            sql = f"{sql} AND k.code IN ({', '.join('?' * len(found))})"
        else:
            sql, found = f"{sql} AND k.code = ?", [key(self._stored(value, own))]
        return IndexCondition(self.table(context), sql, (*names, *found))

    def describe(self, modifier: str, value: str, context: Context) -> str:  # noqa: ARG002
        also = f" or {modifier} it" if modifier else ""
        return f"is {told(unescape(value))}{also}"

    def _stored(self, url: str, own: str) -> str:
        """Return an address as it is indexed."""
        return url.removeprefix(own) if self.local else url


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
