"""Remarks on the times of a clinical document that an import's report lists."""

from __future__ import annotations

from collections.abc import Iterator

from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import date_of_birth, is_placeholder, without_dashes

_ENDS = frozenset({"low", "high", "center"})


def time_remarks(root: Element) -> Iterator[str]:
    """Yield what is unusual about how the times of a document are written."""
    times = [element for element in root.descendants() if _is_time(element)]
    written = [element.get("value") for element in times]
    if dashed := next((time for time in written if time != without_dashes(time)), ""):
        yield (
            f"its dates have dashes, such as {dashed}; they are read as dates, but C-CDA writes "
            f"{without_dashes(dashed)}"
        )
    if placeholder := next((time.get("value") for time in times if _is_left_out(time)), ""):
        yield f"its dates have placeholders, such as {placeholder}; they are read as not known"


def _is_time(element: Element) -> bool:
    return element.name in _ENDS or element.name.lower().endswith("time")


def _is_left_out(time: Element) -> bool:
    """Say whether a time only holds the place of one; somebody may have been born in 1900."""
    written = time.get("value")
    return is_placeholder(written) and not (time.name == "birthTime" and date_of_birth(written))
