"""A patient's latest visits and documents, for who starts an app from one of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from fhirapp.web.ask import read
from fhirapp.web.dates import partial
from fhirapp.web.people import SHOWN
from fhirapp.web.texts import _

VIA = "launch"


class Dated(NamedTuple):
    """An encounter or a document, and what tells it from others: its kind and its day."""

    id: str
    words: str


def encounters_of(patient_id: str) -> Sequence[Dated]:
    """Return a patient's latest visits, the latest first. Raises PageError."""
    return [Dated(one["id"], _visit(one)) for one in _latest("Encounter", patient_id)]


def documents_of(patient_id: str) -> Sequence[Dated]:
    """Return a patient's latest documents, the latest first. Raises PageError."""
    return [Dated(one["id"], _document(one)) for one in _latest("DocumentReference", patient_id)]


def _latest(type_name: str, patient_id: str) -> Sequence[dict[str, Any]]:
    asked = {"patient": f"Patient/{patient_id}", "_sort": "-date", "_count": SHOWN}
    bundle = read(f"/fhir/{type_name}?{urlencode(asked)}", via=VIA)
    found = (one["resource"] for one in bundle.get("entry", ()))
    return [one for one in found if one["resourceType"] == type_name]


def _visit(encounter: dict[str, Any]) -> str:
    day = encounter.get("period", {}).get("start", "")
    said = (_concept(one) for one in encounter.get("type", ()))
    kind = next(filter(None, said), "") or encounter.get("class", {}).get("display") or _("Visit")
    return f"{kind}, {partial(day) if day else _('day not known')}"


def _document(document: dict[str, Any]) -> str:
    day = document.get("date", "")
    kind = _concept(document.get("type", {})) or _("Document")
    return f"{kind}, {partial(day) if day else _('day not known')}"


def _concept(concept: dict[str, Any]) -> str:
    """Return how a CodeableConcept is written for people, empty where nobody wrote it so."""
    shown = (one.get("display", "") for one in concept.get("coding", ()))
    text: str = concept.get("text") or next(filter(None, shown), "")
    return text
