"""The times of a clinical document as FHIR's dateTimes, and remarks on how they are written.

Times are no more exact than they are in the document. Source: CDA R2 data types, TS.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fhirapp.features.imports.ccda.tree import CcdaElement
from fhirapp.fhir.temporal import check_date, normalise_date_time

_TS = re.compile(
    r"(\d{4})(?:(\d\d)(?:(\d\d)(?:(\d\d)(?:(\d\d)(?:(\d\d)(\.\d{1,9})?)?)?)?)?)?"
    r"([+-]\d\d(?:\d\d)?)?",
    re.ASCII,
)
# A time with dashes and colons, as FHIR and ISO 8601 have it and HL7 v3 has not.
_DASHED = re.compile(
    r"\d{4}-\d\d(?:-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?)?", re.ASCII
)
# Days from which systems count, or which they store where no date is known.
_DEFAULT_DAYS = frozenset(
    {
        *("1840-12-31", "1841-01-01", "1858-11-17", "1899-12-30", "1899-12-31", "1900-01-01"),
        *("1900-01", "1900"),
    }
)
_NO_YEAR = re.compile(r"(?:0000|9999)[\d:TZ.+-]*", re.ASCII)
# Elements that are times, beside those whose name says so.
_ENDS = frozenset({"low", "high", "center"})


def without_dashes(written: str) -> str:
    """Return 1980-05-10T12:30:00+01:00 as HL7 v3 writes it: 19800510123000+0100.

    What has another form is returned as it is.
    """
    if not _DASHED.fullmatch(written):
        return written
    day, _, time = written.partition("T")
    return day.replace("-", "") + time.replace(":", "").replace("Z", "+0000")


def is_placeholder(written: str) -> bool:
    """Say whether a text only holds the place of a time: 00010101, 1900-01-01, 99991231."""
    time = calendar_time(written)
    is_none = bool(time) and (_is_out_of_range(time) or time[:10] in _DEFAULT_DAYS)
    return is_none or _NO_YEAR.fullmatch(written) is not None


def _is_out_of_range(time: str) -> bool:
    """Whether the year is outside 1801 to 2998."""
    return not "1800" < time[:4] < "2999"


def date_time(written: str) -> str:
    """Return a dateTime; "" for what is no time, or a placeholder."""
    return "" if is_placeholder(written) else calendar_time(written)


def date_of_birth(written: str) -> str:
    """Return a dateTime; "" for what is no time, or a placeholder.

    Somebody may have been born on 1900-01-01.
    """
    time = calendar_time(written)
    return "" if _is_out_of_range(time) else time


def calendar_time(written: str) -> str:
    """Return a dateTime, also of a placeholder; "" for what is no time.

    FHIR has hours only with minutes and a zone. Where either is absent, the date is what is known:
    a zone that is guessed would be wrong for half of the year.
    """
    match = _TS.fullmatch(without_dashes(written))
    if not match:
        return ""
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    date = "-".join(filter(None, (year, month, day)))
    try:
        check_date(date)
        if not (minute and zone) or _is_out_of_range(date):
            return date
        # R4 datatypes §2.24.0.1: seconds that are not known may be zero.
        offset = f"{zone[:3]}:{zone[3:] or '00'}"
        whole = f"{date}T{hour}:{minute}:{second or '00'}{fraction or ''}{offset}"
        normalise_date_time(whole)
    except ValueError:
        return ""
    return whole


def is_exact(written: str, as_date_time: str) -> bool:
    """Say whether a dateTime holds all that was written."""
    # Digits before the zone: YYYYMMDD are eight.
    return len(re.split("[+-]", without_dashes(written))[0]) <= 8 or len(as_date_time) > 10


def time_remarks(root: CcdaElement) -> Iterator[str]:
    """Yield what is unusual about how the times of a document are written."""
    times = [element for element in root.descendants() if _is_time(element)]
    written = [element.get("value") for element in times]
    if dashed := next((time for time in written if time != without_dashes(time)), ""):
        yield (
            f"its dates have dashes, such as {dashed}; they are read as dates, but C-CDA requires "
            f"{without_dashes(dashed)}"
        )
    if placeholder := next((time.get("value") for time in times if _is_left_out(time)), ""):
        yield f"its dates have placeholders, such as {placeholder}; they are read as not known"


def _is_time(element: CcdaElement) -> bool:
    return element.name in _ENDS or element.name.lower().endswith("time")


def _is_left_out(time: CcdaElement) -> bool:
    """Say whether a time only holds the place of one; somebody may have been born in 1900."""
    written = time.get("value")
    return is_placeholder(written) and not (time.name == "birthTime" and date_of_birth(written))
