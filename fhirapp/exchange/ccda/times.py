"""Remarks on the times of a clinical document that an import's report lists."""

from __future__ import annotations

from collections.abc import Iterator

from fhirapp.exchange.ccda.tree import Element
from fhirapp.exchange.ccda.values import without_dashes

_ENDS = frozenset({"low", "high", "center"})


def time_remarks(root: Element) -> Iterator[str]:
    """Yield what is unusual about how the times of a document are written."""
    written = [element.get("value") for element in root.descendants() if _is_time(element)]
    if dashed := next((time for time in written if time != without_dashes(time)), ""):
        yield (
            f"its dates have dashes, such as {dashed}; they are read as dates, but C-CDA writes "
            f"{without_dashes(dashed)}"
        )


def _is_time(element: Element) -> bool:
    return element.name in _ENDS or element.name.lower().endswith("time")
