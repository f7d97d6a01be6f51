"""Whether an allergy of a document is over: its end.

An end after the day on which the document was made has not come, and ends nothing. Source: C-CDA
R2.1, Allergy - Intolerance Observation, effectiveTime.
"""

from __future__ import annotations

from typing import NamedTuple

from fhirapp.exchange.ccda.tree import NOTHING, Element
from fhirapp.exchange.ccda.values import calendar_time, is_ahead, is_placeholder


class End(NamedTuple):
    """The end of an allergy in words, "" where it has none, and whether it has come.

    is_doubtful: it may have come, and may not.
    """

    words: str = ""
    is_over: bool = False
    is_doubtful: bool = False


def end_of(observation: Element, made: str) -> End:
    """Return the end of an allergy; made is when its document was."""
    high = observation.first("effectiveTime/high") or NOTHING
    written = high.get("value")
    if not written:
        return End("ended", is_over=True) if high.null_flavor == "UNK" else End()
    # A date that the calendar does not have still has a year.
    day, year = calendar_time(written), calendar_time(written[:4])
    words = f"end given as {day or written}"
    if (day or year) and is_ahead(day or year, made):
        return End(f"{words}, after the date of the document")
    if not year or is_placeholder(written):
        return End(words, is_doubtful=True)
    return End(f"ended {day}" if day else words, is_over=True)
