"""What every client is asked, whoever wrote it, and what belongs in the answer.

Worked out from the resources in memory. A row here is a row for each client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

Resource = Mapping[str, Any]


class Search(NamedTuple):
    """A search, and which of the resources belong in its answer."""

    type: str
    parameters: Mapping[str, str | Sequence[str]]
    belongs: Callable[[Resource], bool]

    def __str__(self) -> str:
        return f"{self.type}?{urlencode(self.parameters, doseq=True, safe=':,/|')}"


def codes(*concepts: Resource | None) -> set[str]:
    """Return the codes in these CodeableConcepts."""
    return {
        coding["code"]
        for concept in concepts
        for coding in (concept or {}).get("coding", ())
        if "code" in coding
    }


SEARCHES = (
    Search("AllergyIntolerance", {}, bool),
    Search(
        "AllergyIntolerance",
        {"patient": "p1"},
        lambda one: one["patient"]["reference"] == "Patient/p1",
    ),
    Search(
        "AllergyIntolerance",
        {"patient": "Patient/p3,Patient/p7"},
        lambda one: one["patient"]["reference"] in ("Patient/p3", "Patient/p7"),
    ),
    Search(
        "AllergyIntolerance",
        {"clinical-status": "active"},
        lambda one: "active" in codes(one.get("clinicalStatus")),
    ),
    Search(
        "AllergyIntolerance",
        {"code": "http://snomed.info/sct|764146007"},
        lambda one: "764146007" in codes(one["code"]),
    ),
    Search(
        "AllergyIntolerance",
        {"date": ["ge2024-01-01", "lt2025-01-01"]},
        lambda one: one.get("recordedDate", one.get("onsetDateTime", ""))[:4] == "2024",
    ),
    Search(
        "AllergyIntolerance",
        {"patient": "p1", "criticality": "high"},
        lambda one: (one["patient"]["reference"], one.get("criticality")) == ("Patient/p1", "high"),
    ),
    Search("DocumentReference", {}, bool),
    Search(
        "DocumentReference",
        {"patient": "p9"},
        lambda one: one["subject"]["reference"] == "Patient/p9",
    ),
    Search(
        "DocumentReference",
        {"type": "http://loinc.org|11506-3,http://loinc.org|18842-5"},
        lambda one: bool(codes(one["type"]) & {"11506-3", "18842-5"}),
    ),
    Search(
        "DocumentReference",
        {"category": "clinical-note", "status": "current"},
        lambda one: one["status"] == "current" and "clinical-note" in codes(*one["category"]),
    ),
    Search("DocumentReference", {"date": "2024"}, lambda one: one["date"][:4] == "2024"),
    # A chain, and its other way: p4 and p13 are the Okafors.
    Search(
        "AllergyIntolerance",
        {"patient.name": "okafor"},
        lambda one: one["patient"]["reference"] in ("Patient/p4", "Patient/p13"),
    ),
    Search(
        "DocumentReference",
        {"patient:Patient.birthdate": "1994-07-30"},
        lambda one: one["subject"]["reference"] == "Patient/p4",
    ),
    Search(
        "Patient",
        {"_has:AllergyIntolerance:patient:criticality": "high", "_id": "p1,nobody"},
        lambda one: one["id"] == "p1",
    ),
)

# What is asked beside every resource, its versions and its history: pages, inclusions, refusals.
MORE = (
    "metadata",
    "AllergyIntolerance?_count=1000&_revinclude=Provenance:target",
    "DocumentReference?_count=1000&_revinclude=Provenance:target",
    "DocumentReference?patient=p1&_count=2&nonsense=1",
    "Patient?_id=p1&_revinclude=AllergyIntolerance:patient",
    "AllergyIntolerance?patient=p4&_include=*",
    "Patient/p1/AllergyIntolerance?criticality=high",
    "Patient/p1/*?_count=3",
    "?_type=AllergyIntolerance,DocumentReference&patient=p1&_count=4",
    "_history?_count=5",
    "AllergyIntolerance?_summary=count",
    "AllergyIntolerance?patient=nobody",
    "AllergyIntolerance?date=nonsense",
    "AllergyIntolerance?nonsense:exact=1",
    "AllergyIntolerance/nonsense",
    "Nonsense",
)
