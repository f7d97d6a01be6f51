"""Times of a clinical document as FHIR writes them, no more exact than they are.

CDA R2 data types §2.24 (TS): YYYYMMDDHHMMSS.UUUU[+|-ZZzz], cut off anywhere after the year.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import absent, extended, original
from fhirapp.fhir.temporal import check_date, interval, normalise_date_time

_TS = re.compile(
    r"(\d{4})(?:(\d\d)(?:(\d\d)(?:(\d\d)(?:(\d\d)(?:(\d\d)(\.\d{1,9})?)?)?)?)?)?"
    r"([+-]\d\d(?:\d\d)?)?",
    re.ASCII,
)


def date_time(written: str) -> str:
    """Return a dateTime; "" for what is no time.

    FHIR has hours only with minutes and a zone. Where either is absent, the date is what is known:
    a zone that is guessed would be wrong for half of the year.
    """
    found = _TS.fullmatch(written)
    if not found:
        return ""
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    date = "-".join(filter(None, (year, month, day)))
    try:
        check_date(date)
        if not (minute and zone):
            return date
        # R4 datatypes §2.24.0.1: seconds that are not known may be zero.
        offset = f"{zone[:3]}:{zone[3:] or '00'}"
        whole = f"{date}T{hour}:{minute}:{second or '00'}{fraction or ''}{offset}"
        normalise_date_time(whole)
    except ValueError:
        return ""
    return whole


def is_exact(written: str, as_date_time: str) -> bool:
    """Say whether a dateTime tells all that was written."""
    # Digits before the zone: YYYYMMDD are eight.
    return len(re.split("[+-]", written)[0]) <= 8 or len(as_date_time) > 10


def put(resource: dict[str, Any], name: str, element: Element | None) -> None:
    """Set a dateTime; what FHIR cannot hold of it, or why there is none, stands beside it."""
    if element is None:
        return
    written = element.get("value")
    found = date_time(written)
    if found:
        resource[name] = found
    if written and not (found and is_exact(written, found)):
        resource[f"_{name}"] = extended(original(written))
    elif not written and element.null_flavor:
        resource[f"_{name}"] = extended(absent(element.null_flavor))


def start_of(times: Element | None) -> Element | None:
    """Return where an IVL_TS begins: its low, else its only point in time."""
    if times is None or times.get("value"):
        return times
    return times.first("low") or (times if times.null_flavor else None)


def period(times: Element | None) -> dict[str, Any] | None:
    """Return the Period of an IVL_TS, None where it says nothing of one.

    An end before the start is kept as it is written: either of the two may be wrong.
    """
    if times is None:
        return None
    found: dict[str, Any] = {}
    put(found, "start", start_of(times))
    put(found, "end", times.first("high"))
    if times.get("value") and found.get("start"):
        found["end"] = found["start"]
    if "start" in found and "end" in found and _is_before(found["end"], found["start"]):
        end = times.first("high")
        del found["end"]
        found["_end"] = extended(original(end.get("value") if end else ""))
    return found or None


def in_order(times: Iterable[Element | None]) -> list[Element]:
    """Return those that are times, the earliest first."""
    known = [one for one in times if one is not None and date_time(one.get("value"))]
    return sorted(known, key=lambda one: _moment(date_time(one.get("value"))))


def _is_before(one: str, other: str) -> bool:
    """Say whether a time is before another, as far as the less exact of them tells."""
    known = min(len(one), len(other))
    if known <= 10:
        return one[:known] < other[:known]
    return interval(one).low < interval(other).low


def _moment(as_date_time: str) -> int:
    return interval(as_date_time).low


def instant(element: Element | None) -> str:
    """Return an instant; "" where the time is not known to the second."""
    found = date_time(element.get("value")) if element is not None else ""
    return found if len(found) > 10 else ""
