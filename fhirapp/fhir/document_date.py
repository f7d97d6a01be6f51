"""The date of a DocumentReference that is known to the day, the month or the year.

R4's element is an instant. A partial date is stored in it all the same, and searched and sorted by;
the served resource has it in an extension of the element. decisions 2.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from fhirapp.fhir.temporal import check_date

PARTIAL_DATE = "urn:fhirapp:partial-date"

Elements = Mapping[str, Any]


def is_partial(date: Any) -> bool:
    """Say whether a dateTime is a date without a time, which is no instant."""
    if not isinstance(date, str) or "T" in date:
        return False
    try:
        check_date(date)
    except ValueError:
        return False
    return True


def date_of(document: Elements) -> str:
    """Return the date of a served DocumentReference, partial or not; "" without one."""
    return str(document.get("date") or next(_partial_dates(document), ""))


def sibling_of(date: str, sibling: Elements) -> Elements:
    """Return the sibling of a partial date as it is served: with the date in an extension."""
    partial = {"url": PARTIAL_DATE, "valueDateTime": date}
    return {**sibling, "extension": [*sibling.get("extension", ()), partial]}


def without_partial_date(elements: Elements) -> dict[str, Any]:
    """Return the elements of a served document as they are stored: a partial date in date."""
    date = date_of(elements)
    if "date" in elements or not date:
        return {**elements}
    sibling = elements["_date"]
    others = [
        extension for extension in sibling["extension"] if extension.get("url") != PARTIAL_DATE
    ]
    remaining = {name: value for name, value in sibling.items() if name != "extension"}
    remaining |= {"extension": others} if others else {}
    rest = {name: value for name, value in elements.items() if name != "_date"}
    return {**rest, "date": date, **({"_date": remaining} if remaining else {})}


def _partial_dates(document: Elements) -> Iterator[str]:
    for extension in (document.get("_date") or {}).get("extension", ()):
        if extension.get("url") == PARTIAL_DATE and extension.get("valueDateTime"):
            yield extension["valueDateTime"]
