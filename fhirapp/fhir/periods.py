"""Periods whose ends are known to different precision. FHIR R4 Period."""

from __future__ import annotations

from typing import Any

from fhirapp.fhir.temporal import normalise_date_time
from fhirapp.fhir.terminology import ORIGINAL_TEXT


def comparable(period: dict[str, Any]) -> dict[str, Any]:
    """Return a period with both ends at one precision, where per-1 cannot compare them otherwise.

    10:00 of a day is neither before that day nor after it: the time is then cut to its day, and
    kept beside it.
    """
    if "start" not in period or "end" not in period:
        return period
    coarse, exact = sorted(("start", "end"), key=lambda name: len(period[name]))
    length = len(period[coarse])
    if length > 10 or length == len(period[exact]):
        return period
    start, end = (normalise_date_time(period[name])[:length] for name in ("start", "end"))
    if start < end and period["start"][:length] != period["end"][:length]:
        return period
    original = {"url": ORIGINAL_TEXT, "valueString": period[exact]}
    beside = period.get(f"_{exact}", {}).get("extension", ())
    return {
        **period,
        exact: period[exact][:length],
        f"_{exact}": {"extension": [*beside, original]},
    }
