"""How tests ask operations, and what one that is asked for a time of care should find."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from werkzeug.test import TestResponse

from tests.support.evaluator import FIRST, LAST, Date, Resource, covered, dates
from tests.support.helpers import FHIR_JSON, Fhir, link

DOCREF = "DocumentReference/$docref"
EVERYTHING = "Patient/p1/$everything"
FORM = "application/x-www-form-urlencoded"
LOINC = "http://loinc.org"

# When the care was: not known, a time, a stay, one that goes on, one without a start, one unknown.
PERIODS: list[dict[str, Any]] = [
    {},
    *(
        {"context": {"period": period}}
        for period in (
            {"start": "2024-03-01T09:00:00+00:00", "end": "2024-03-01T09:30:00+00:00"},
            {"start": "2024-02-28", "end": "2024-03"},
            {"start": "2023-12-31T23:00:00-05:00", "end": "2024-01-01"},
            {"start": "2024-03-02"},
            {"end": "2023"},
            {"extension": [{"url": "http://x.example/e", "valueString": "unknown"}]},
        )
    ),
]
# Times that are asked for.
ASKED = (
    *(None, "2023", "2024", "2024-03", "2024-02-28", "2024-03-01", "2024-03-02", "2025-01-01"),
    *("2024-03-01T09:29:59+00:00", "2024-03-01T09:30:00Z", "2024-03-01T09:30:01+00:00"),
    *("2023-12-31T23:59:59+00:00", "2024-01-01T05:00:00+01:00"),
)
# Of each type that is care, the elements that tell when it was.
CARE = {
    "DocumentReference": ("context.period", "date"),
    "DiagnosticReport": ("effectivePeriod", "effectiveDateTime"),
    "Encounter": ("period",),
}


def parameters(*given: tuple[str, str, Any]) -> dict[str, Any]:
    """Return a Parameters resource of (name, value[x], value)."""
    members = [{"name": name, kind: value} for name, kind, value in given]
    return {"resourceType": "Parameters", "parameter": members}


def post(fhir: Fhir, path: str, body: Any, content_type: str = FHIR_JSON) -> TestResponse:
    """Ask by POST; what is no bytes is sent as JSON."""
    text = body if isinstance(body, bytes) else json.dumps(body).encode()
    return fhir.post(path, text, content_type=content_type)


def care_of(resource: Resource) -> list[tuple[datetime, datetime]]:
    """Return when the care was: what the first element tells that tells anything."""
    for path in CARE.get(resource["resourceType"], ()):
        found = [one for one in dates(Date((path,)), resource) if one != (FIRST, LAST)]
        if found:
            return found
    return []


def is_cared_for(resource: Resource, start: str | None, end: str | None, *, undated: bool) -> bool:
    """Say whether the care of a resource overlaps the time from start to end, both as written."""
    low = covered(start)[0] if start else FIRST
    high = covered(end)[1] if end else LAST
    found = care_of(resource)
    if not found:
        return undated or not (start or end)
    return any(begin < high and low < until for begin, until in found)


Name = tuple[str, str]


def names(bundle: Mapping[str, Any], mode: str = "match") -> list[Name]:
    """Return the (type, id) of a Bundle's entries of a mode, in order."""
    return [
        (entry["resource"]["resourceType"], entry["resource"]["id"])
        for entry in bundle.get("entry", ())
        if entry["search"]["mode"] == mode
    ]


def pages(fhir: Fhir, path: str) -> list[dict[str, Any]]:
    """Return the pages of a record."""
    found = [fhir.read(path)]
    while asked := link(found[-1], "next"):
        found.append(fhir.read(asked))
    return found


def document(row_id: str, patient: str = "p1", **elements: Any) -> dict[str, Any]:
    """Return a small DocumentReference."""
    return {
        "resourceType": "DocumentReference",
        "id": row_id,
        "status": "current",
        "subject": {"reference": f"Patient/{patient}"},
        **elements,
    }


def coded(code: str, system: str = LOINC) -> dict[str, Any]:
    return {"type": {"coding": [{"system": system, "code": code}]}}


def encounter(row_id: str, patient: str = "p1", **elements: Any) -> dict[str, Any]:
    """Return a small Encounter."""
    return {
        "resourceType": "Encounter",
        "id": row_id,
        "status": "finished",
        "class": {"code": "AMB"},
        "subject": {"reference": f"Patient/{patient}"},
        **elements,
    }


def patient_named(row_id: str) -> dict[str, Any]:
    return {"resourceType": "Patient", "id": row_id}
