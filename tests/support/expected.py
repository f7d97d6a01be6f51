"""What must come of a query, for rows of a table: a row says what it expects, and check() asks.

here is the word that README's table has for it: whether that is what FHIR's search page asks for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from tests.support.helpers import Fhir, ids

YES, NO, PARTLY, OTHERWISE = "yes", "no", "partly", "otherwise"
STRICT = {"Prefer": "handling=strict"}
FORM = "application/x-www-form-urlencoded"

Bundle = Mapping[str, Any]


class Expectation(Protocol):
    """What must come of a query."""

    @property
    def here(self) -> str: ...

    def check(self, fhir: Fhir, query: str) -> None:
        """Ask, and assert."""


class Finds:
    """These resources, in this order; and nothing of the query was ignored."""

    here = YES

    def __init__(self, *found: str) -> None:
        self._found = [*found]

    def check(self, fhir: Fhir, query: str) -> None:
        bundle = fhir.read(query)
        assert ids(bundle) == self._found
        assert warned(bundle) == []


class Doubted(Finds):
    """The same, and a warning names the parameter, whose value cannot be."""

    def check(self, fhir: Fhir, query: str) -> None:
        bundle = fhir.read(query)
        assert ids(bundle) == self._found
        assert warned(bundle) == [f"http.{query.rpartition('&')[2].partition('=')[0]}"]


class FindsOfClass(Finds):
    """The same, and warnings say that a built-in class does not list all there is of its kind."""

    def check(self, fhir: Fhir, query: str) -> None:
        bundle = fhir.read(query)
        assert ids(bundle) == self._found
        assert {*warned(bundle)} & {"http.code:in", "http.code:not-in", "http.code:below"}


class FindsByForm(Finds):
    """The same by POST: what stands behind the question mark is the form."""

    def check(self, fhir: Fhir, query: str) -> None:
        path, _, form = query.partition("?")
        bundle = fhir.post(path, form, content_type=FORM).get_json(force=True)
        assert ids(bundle) == self._found


class Shows:
    """A Bundle of which this is true; and nothing of the query was ignored."""

    def __init__(self, is_so: Callable[[Bundle], object], here: str = YES) -> None:
        self._is_so = is_so
        self.here = here

    def check(self, fhir: Fhir, query: str) -> None:
        bundle = fhir.read(query)
        assert self._is_so(bundle), bundle
        assert warned(bundle) == []


class Refused(NamedTuple):
    """An error, one issue."""

    status: int = 400
    code: str = "not-supported"
    here: str = NO

    def check(self, fhir: Fhir, query: str) -> None:
        response = fhir.get(query)
        assert response.status_code == self.status, response.text
        (issue,) = response.get_json(force=True)["issue"]
        assert (issue["severity"], issue["code"]) == ("error", self.code)


class Ignored(NamedTuple):
    """Found is what would be without it, and a warning names it; strictly handled it is refused.

    Save where is_unknown is false: an empty value asks for nothing.
    """

    here: str = NO
    is_unknown: bool = True

    def check(self, fhir: Fhir, query: str) -> None:
        path, _, asked = query.partition("?")
        expression = f"http.{asked.partition('=')[0]}"
        bundle = fhir.read(query)
        assert ids(bundle) == fhir.ids(path) != []
        assert warned(bundle) == [expression]
        if self.is_unknown:
            response = fhir.get(query, headers=STRICT)
            assert response.status_code == 400
            (issue,) = response.get_json(force=True)["issue"]
            assert (issue["code"], issue["expression"]) == ("not-supported", [expression])


def warned(bundle: Bundle) -> list[str]:
    """Return what a Bundle warns of, as expressions: http.patients."""
    return [
        expression
        for entry in bundle.get("entry", ())
        if entry["search"]["mode"] == "outcome"
        for issue in entry["resource"]["issue"]
        if issue["severity"] == "warning"
        for expression in issue["expression"]
    ]
