"""Start an app for a patient (SMART's EHR launch): pickers and the frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import Response, jsonify, request
from sqlalchemy import select

from fhirapp import urls
from fhirapp.auth.models import Client
from fhirapp.auth.oauth import launch
from fhirapp.db import db, reader, writing
from fhirapp.fhir import words
from fhirapp.fhir.document_date import date_of
from fhirapp.store.merge import merged_target
from fhirapp.web.internal_client import cursor_of, read, token_of
from fhirapp.web.labels import returns_to
from fhirapp.web.pages import PageError, blueprint_of, field, for_staff, page, see_other, signed_in
from fhirapp.web.people import SHOWN, Person, finder, person
from fhirapp.web.texts import _
from fhirapp.web.times import partial

VIA = "launch"


class LaunchOption(NamedTuple):
    """An encounter or a document, with its kind and day in words."""

    id: str
    words: str


def encounters_of(
    patient_id: str, via: str = VIA, **narrowed: str
) -> tuple[list[LaunchOption], str]:
    """Return the latest encounters of a patient, latest first, and a cursor. Raises PageError.

    narrowed adds search parameters. Cancelled and entered-in-error encounters are excluded.
    """
    narrowed["status:not"] = "cancelled,entered-in-error"
    encounters, cursor = _latest("Encounter", patient_id, via, narrowed)
    return [
        _option(
            encounter,
            words.encounter(encounter) or _("Visit"),
            encounter.get("period", {}).get("start", ""),
        )
        for encounter in encounters
    ], cursor


def documents_of(patient_id: str) -> Sequence[LaunchOption]:
    """Return a patient's latest documents, the latest first. Raises PageError."""
    return [
        _option(document, words.concept(document.get("type")) or _("Document"), date_of(document))
        for document in _latest("DocumentReference", patient_id, VIA, {})[0]
    ]


def _latest(
    type_name: str, patient_id: str, via: str, narrowed: Mapping[str, str]
) -> tuple[list[dict[str, Any]], str]:
    query = {"patient": f"Patient/{patient_id}", "_sort": "-date", "_count": SHOWN, **narrowed}
    bundle = read(f"/fhir/{type_name}?{urlencode(query)}", token_of(patient_id), via=via)
    resources = (entry["resource"] for entry in bundle.get("entry", ()))
    found = [resource for resource in resources if resource["resourceType"] == type_name]
    return found, cursor_of(bundle)


def _option(resource: dict[str, Any], kind: str, day: str) -> LaunchOption:
    return LaunchOption(
        resource["id"], f"{kind}, {partial(day) if day else _('date not recorded')}"
    )


blueprint = blueprint_of("launch", __name__)
_STYLE_SECONDS = 3600
# SMART App Launch 2.2 §Styling: the light theme of static/style.css.
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
    """Ask for which patient to start an app; then for which encounter, and which app."""
    patient_id = request.args.get("patient", "")
    if patient_id:
        return _apps(_patient(patient_id))
    return page("apps/launch.html", finder=finder("name", via=VIA), has_apps=bool(_startable()))


@blueprint.post("/launch")
@for_staff
def start() -> Response:
    """Start an app, with the patient and the encounter in context."""
    patient = _patient(field("patient", 64))
    encounter_id, client_id = field("encounter", 64) or None, field("client", 64)
    if encounter_id and encounter_id not in {
        encounter.id for encounter in encounters_of(patient.id)[0]
    }:
        raise PageError(
            404, _("This is not one of the patient's latest visits. Choose one from the list.")
        )
    document_id = field("document", 64) or None
    if document_id and document_id not in {note.id for note in documents_of(patient.id)}:
        raise PageError(
            404, _("This is not one of the patient's latest notes. Choose one from the list.")
        )
    client = next((app for app in _startable() if app.client_id == client_id), None)
    if client is None:
        raise PageError(
            404, _("This app can't be started from here. Choose one of the apps on the page.")
        )
    with writing() as connection:
        location = launch.start(
            connection,
            client_id=client_id,
            launch_uri=str(client.launch_uri),
            user_id=signed_in().user.id,
            patient_id=patient.id,
            encounter_id=encounter_id,
            document_id=document_id,
        )
    return see_other(location)


@blueprint.get("/smart-style.json")
def style() -> Response:
    """Return the style of our pages, for apps."""
    response = jsonify(_STYLE)
    response.headers["Cache-Control"] = f"public, max-age={_STYLE_SECONDS}"
    return response


def _patient(patient_id: str) -> Person:
    """Return the patient that was chosen. Raises PageError."""
    # PostgreSQL refuses text that contains NUL.
    patient = person(patient_id) if patient_id.isprintable() else None
    if patient is None or merged_target(reader(), patient_id):
        raise PageError(404, _("There is no record of this patient. Choose a different patient."))
    return patient


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
    server = urls.base_url()
    apps = [(client, returns_to([str(client.launch_uri)], server)) for client in _startable()]
    encounters, notes = encounters_of(patient.id)[0], documents_of(patient.id)
    # A form's answer leads to the app.
    return page(
        "apps/launch_app.html",
        leaves=True,
        patient=patient,
        encounters=encounters,
        notes=notes,
        apps=apps,
    )
