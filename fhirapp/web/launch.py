"""Start an app for a patient (SMART's EHR launch): the picker, visits and documents, the frame."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Response, jsonify, request
from sqlalchemy import select

from fhirapp.address import base_url
from fhirapp.auth.models import Client
from fhirapp.auth.oauth import authorization_request
from fhirapp.db import db, writing
from fhirapp.web.internal_client import read
from fhirapp.web.labels import partial, returns_to
from fhirapp.web.pages import PageError, blueprint_of, field, for_staff, page, see_other, signed_in
from fhirapp.web.people import SHOWN, NoDate, Person, find_people, person
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


blueprint = blueprint_of("launch", __name__)
_STYLE_SECONDS = 3600
# SMART App Launch 2.2 §Styling. Of static/style.css, as it is in the light.
_STYLE = {
    "color_background": "#faf8f5",
    "color_error": "#a3231b",
    "color_highlight": "#0b6b67",
    "color_modal_backdrop": "#1d2329",
    "color_success": "#0b6b67",
    "color_text": "#1d2329",
    "dim_border_radius": "10px",
    "dim_font_size": "16px",
    "dim_spacing_size": "8px",
    "font_family_body": 'system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif',
    "font_family_heading": 'system-ui, "Segoe UI", Roboto, "Noto Sans", sans-serif',
}


@blueprint.get("/launch")
@for_staff
def choose() -> Response:
    """Ask for whom to start an app; then for which visit, and which app."""
    patient_id = request.args.get("patient", "")
    if patient_id:
        return _apps(_patient(patient_id))
    name, born = request.args.get("name", "")[:200], request.args.get("born", "")[:10]
    message = ""
    try:
        found, more = find_people(name, born, via=VIA)
    except NoDate:
        found, more = [], False
        message = _("That is no date: write 1958-04-12, 1958-04 or 1958.")
    return page(
        "launch.html",
        people=found,
        more=more,
        name=name,
        born=born,
        message=message,
        has_apps=bool(_startable()),
    )


@blueprint.post("/launch")
@for_staff
def start() -> Response:
    """Start an app, with the patient and the visit in context."""
    patient = _patient(field("patient", 64))
    encounter_id, client_id = field("encounter", 64) or None, field("client", 64)
    theirs = {visit.id for visit in encounters_of(patient.id)}
    if encounter_id is not None and encounter_id not in theirs:
        raise PageError(404, _("There is no such visit among this patient's latest ones."))
    document_id = field("document", 64) or None
    if document_id is not None and document_id not in {one.id for one in documents_of(patient.id)}:
        raise PageError(404, _("There is no such note among this patient's latest ones."))
    client = next((one for one in _startable() if one.client_id == client_id), None)
    if client is None:
        raise PageError(404, _("There is no such app to start. Choose one of those on the page."))
    user_id, launch_uri = signed_in().user.id, str(client.launch_uri)
    db.session.rollback()
    with writing() as connection:
        location = authorization_request.start(
            connection,
            client_id=client_id,
            launch_uri=launch_uri,
            user_id=user_id,
            patient_id=patient.id,
            encounter_id=encounter_id,
            document_id=document_id,
        )
    return see_other(location)


@blueprint.get("/smart-style.json")
def style() -> Response:
    """Tell apps what our pages look like."""
    response = jsonify(_STYLE)
    response.headers["Cache-Control"] = f"public, max-age={_STYLE_SECONDS}"
    return response


def _patient(patient_id: str) -> Person:
    """Return the patient that was chosen. Raises PageError."""
    # PostgreSQL refuses a text with NUL in it, instead of not finding it.
    found = person(patient_id) if patient_id.isprintable() else None
    if found is None:
        raise PageError(404, _("There is no record of this patient. Choose another."))
    return found


def _startable() -> Sequence[Client]:
    """Return the apps that can be started, by name."""
    return db.session.scalars(
        select(Client)
        .where(
            Client.launch_uri.is_not(None),
            Client.approved_at.is_not(None),
            Client.disabled.is_(False),
        )
        .order_by(Client.name, Client.client_id)
    ).all()


def _apps(patient: Person) -> Response:
    here = base_url()
    apps = [(client, returns_to([str(client.launch_uri)], here)) for client in _startable()]
    visits, notes = encounters_of(patient.id), documents_of(patient.id)
    # A form's answer leads to the app.
    return page(
        "launch_app.html", leaves=True, patient=patient, visits=visits, notes=notes, apps=apps
    )
