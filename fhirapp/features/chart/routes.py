"""The addresses of the chart.

Records are read over FHIR with the viewer's own token. The list of viewers comes from the audit
trail, for whoever may read the record itself.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from flask import Response, abort, request
from markupsafe import Markup

from fhirapp.auth.clients.first_party import OwnToken
from fhirapp.auth.links import links_of
from fhirapp.auth.models import PATIENT
from fhirapp.features.chart.allergies import VIA, allergies_of
from fhirapp.features.chart.details import details_of, origins, read_allergy
from fhirapp.features.chart.directives import directives_of
from fhirapp.features.chart.elements import born, died
from fhirapp.features.chart.versions import versions_of
from fhirapp.features.chart.viewers import looks_at
from fhirapp.features.notes.of_patient import of_patient
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir import temporal
from fhirapp.fhir.narrative import sanitise
from fhirapp.rest.response import FHIR_JSON, POLICY
from fhirapp.store.merge import merged_here, merged_into
from fhirapp.web import pages
from fhirapp.web.internal_client import read, token_of
from fhirapp.web.labels import sex
from fhirapp.web.marks import allergies_in_brief, duplicates_of
from fhirapp.web.pages import PageError, for_signed_in, in_words, page, see_other, signed_in
from fhirapp.web.people import finder, linked_records, person_of, record
from fhirapp.web.texts import _
from fhirapp.web.times import moment_of

blueprint = pages.blueprint_of("chart", __name__)
# The page that asks where it shows no record as a whole.
_LIST = "patients"
# An entry's number has as many digits at most.
_LONGEST = 15


@blueprint.get("/patients")
@for_signed_in
def patients() -> Response:
    """Find a patient; a patient user sees the records that are linked to them."""
    if signed_in().user.role == PATIENT:
        own = linked_records()
        if len(own) == 1:
            return see_other(f"/patients/{own[0].id}")
        return page("chart/linked.html", people=own)
    found = finder("name", via=_LIST)
    ids, secret = [patient.id for patient in found.people], token_of().secret
    return page(
        "chart/patients.html",
        finder=found,
        allergies=allergies_in_brief(ids, secret, via=_LIST),
        duplicates=duplicates_of(ids, secret, via=_LIST),
    )


@blueprint.get("/patients/<patient_id>")
@for_signed_in
@in_words
def chart(patient_id: str) -> Response:
    """Show a patient's allergies and notes. Aborts with 404."""
    patient, token = _record(patient_id)
    allergies = allergies_of(patient_id, token)
    duplicates = duplicates_of([patient_id], token.secret, via=VIA).get(patient_id, ())
    ids = [one.id for one in duplicates]
    # Allergies are shown also where notes cannot be read; the page says so.
    notes = directives = None
    with suppress(PageError):
        chosen = {name: request.args.get(name, "")[:300] for name in ("type", "status", "author")}
        notes = of_patient(patient_id, token, chosen)
    with suppress(PageError):
        directives = directives_of(patient_id, token, notes["resources"] if notes else ())
    return page(
        "chart/chart.html",
        scripts=True,
        **_whose(patient_id, patient),
        allergies=allergies,
        duplicates=duplicates,
        of_duplicates=allergies_in_brief(ids, token.secret, via=VIA),
        notes=notes,
        directives=directives,
    )


def _record(patient_id: str, tail: str = "") -> tuple[dict[str, Any], OwnToken]:
    """Return a Patient and a token for it; redirect to the record that it was merged into."""
    patient, token = record(patient_id)
    if target := merged_into(patient):
        abort(see_other(f"/patients/{target}{tail}"))
    return patient, token


def _whose(patient_id: str, patient: dict[str, Any]) -> dict[str, Any]:
    """Return whose record a page is of, and when it was made."""
    now = temporal.now()
    facts = {
        "born": born(patient, now.date()),
        "died": died(patient),
        "sex": sex(patient),
        "is_unused": patient.get("active") is False,
        "merged": merged_here(patient),
        "reader": _reader_for(patient_id),
    }
    return {"who": person_of(patient_id, patient), "facts": facts, "printed": moment_of(now)}


def _reader_for(patient_id: str) -> str:
    """Return the name of a person who reads another's record, such as a parent; "" of others."""
    user = signed_in().user
    is_other = any(link.patient_id == patient_id and not link.is_self for link in links_of(user.id))
    return user.name if user.role == PATIENT and is_other else ""


@blueprint.get("/patients/<patient_id>/summary")
@for_signed_in
@in_words
def summary(patient_id: str) -> Response:
    """Show the International Patient Summary, as its document has it. Aborts with 404."""
    patient, token = _record(patient_id, "/summary")
    composition = _document(patient_id, token)["entry"][0]["resource"]
    sections = [
        {"title": section["title"], "text": Markup(sanitise(section["text"]["div"]))}
        for section in composition["section"]
    ]
    return page(
        "chart/summary.html",
        scripts=True,
        title=composition["title"],
        sections=sections,
        **_whose(patient_id, patient),
    )


@blueprint.get("/patients/<patient_id>/summary/document")
@for_signed_in
@in_words
def summary_document(patient_id: str) -> Response:
    """Send the document of the International Patient Summary. Aborts with 404."""
    _patient, token = _record(patient_id, "/summary/document")
    body = fhir_json.dumps_indented(_document(patient_id, token))
    headers = {
        "Cache-Control": "no-store",
        "Content-Security-Policy": POLICY,
        "Content-Disposition": f'attachment; filename="patient-summary-{patient_id}.json"',
    }
    return Response(body, headers=headers, content_type=FHIR_JSON)


def _document(patient_id: str, token: OwnToken) -> dict[str, Any]:
    return read(f"/fhir/Patient/{patient_id}/$summary", token, via=VIA)


@blueprint.get("/patients/<patient_id>/allergies/<allergy_id>")
@for_signed_in
@in_words
def allergy(patient_id: str, allergy_id: str) -> Response:
    """Show an allergy: what it tells, where it comes from, its versions. Aborts with 404."""
    patient, token = _record(patient_id, f"/allergies/{allergy_id}")
    found, provenances = read_allergy(patient_id, allergy_id, token)
    versions, more = versions_of(allergy_id, token)
    return page(
        "chart/allergy.html",
        who=person_of(patient_id, patient),
        details=details_of(found),
        origins=origins(provenances),
        versions=versions,
        more=more,
    )


@blueprint.get("/patients/<patient_id>/viewers")
@for_signed_in
def viewers(patient_id: str) -> Response:
    """Tell who has looked at a record. Aborts with 404."""
    patient, _token = record(patient_id)
    before = request.args.get("before", "")
    if before and (not before.isascii() or not before.isdecimal() or len(before) > _LONGEST):
        raise PageError(400, _("This page of the list does not exist. Start at the first page."))
    looks, older = looks_at(patient_id, int(before) if before else None)
    return page("chart/viewers.html", who=person_of(patient_id, patient), looks=looks, older=older)
