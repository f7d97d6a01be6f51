"""/oauth/authorize as people see it: sign in, choose a record and an encounter, allow or refuse.

The client's request is checked and stored at once; the pages that follow name it by its handle, so
that signing in meanwhile loses nothing. Source: RFC 6749 §4.1; SMART App Launch 2.2.
"""

from __future__ import annotations

import re
from dataclasses import replace

from flask import Response, request
from werkzeug.datastructures import MultiDict

from fhirapp import urls
from fhirapp.auth.links import links_of
from fhirapp.auth.models import ParkedRequest
from fhirapp.auth.oauth import authorize
from fhirapp.auth.oauth.authorize import DURATIONS, Offer, SendBack, Unanswerable
from fhirapp.auth.scopes import LAUNCH_ENCOUNTER, OFFLINE, ONLINE
from fhirapp.auth.users.sessions import ABSOLUTE_SECONDS, Signed
from fhirapp.db import reader
from fhirapp.features.apps.launch import LaunchOption, encounters_of
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.outcome import FhirError
from fhirapp.rest.response import parse_form
from fhirapp.store.merge import merged_target
from fhirapp.web import pages
from fhirapp.web.labels import in_words, returns_to
from fhirapp.web.people import Finder, Person, finder, people, person
from fhirapp.web.texts import _
from fhirapp.web.times import moment

_ID = re.compile(ID_PATTERN)
VIA = "picker"
blueprint = pages.blueprint_of("authorize", __name__)
blueprint.register_error_handler(SendBack, lambda error: pages.see_other(error.location))
blueprint.register_error_handler(
    Unanswerable, lambda error: pages.error_page(400, english=str(error))
)


@blueprint.get("/oauth/authorize")
def begin() -> Response:
    """Take a client's request, from the address."""
    return _park(request.environ.get("QUERY_STRING", "").encode("latin-1"))


@blueprint.post("/oauth/authorize")
@pages.from_elsewhere
def begin_by_post() -> Response:
    """Take a client's request, from a form (SMART: authorize-post)."""
    if request.mimetype != "application/x-www-form-urlencoded":
        raise pages.PageError(
            400, _("Invalid request: the app must send a form (application/x-www-form-urlencoded).")
        )
    return _park(request.get_data())


@blueprint.get("/oauth/authorize/<handle>")
def ask(handle: str) -> Response:
    """Ask which record the client may use, then what it may do."""
    parked = _parked(handle)
    session = pages.current_session()
    if authorize.wants_sign_in(parked, session) or session is None:
        return pages.see_other(pages.sign_in_address(f"/oauth/authorize/{handle}"))
    offer = authorize.offer(parked, session.user)
    is_silent = parked.parameters.get("prompt") == "none"
    if is_silent:
        raise authorize.send_back(parked, "consent_required", "The user is asked each time.")
    if offer.needs_patient or request.args.get("patient") == "other":
        return _picker(handle, parked, offer, session)
    encounter = _encounter(offer)
    if offer.picks_encounter and (request.args.get("visit") == "other" or _lacks(offer, encounter)):
        return _encounter_picker(handle, offer)
    return _consent(handle, parked, offer, session, encounter)


@blueprint.post("/oauth/authorize/<handle>")
def answer(handle: str) -> Response:
    """Take the answer: a patient, an encounter, or what is allowed."""
    parked = _parked(handle)
    session = pages.current_session()
    if authorize.wants_sign_in(parked, session) or session is None:
        return pages.see_other(pages.sign_in_address(f"/oauth/authorize/{handle}"))
    offer = authorize.offer(parked, session.user)
    if "refuse" in request.form:
        return pages.see_other(authorize.refuse(parked))
    if "patient" in request.form:
        return _choose(handle, parked, offer, pages.field("patient", 64))
    if "visit" in request.form:
        return _choose_encounter(handle, offer, pages.field("visit", 64))
    # In another tab another record may have been chosen since this page was shown.
    is_other = pages.field("shown", 130) != _context(offer)
    if offer.needs_patient or is_other or _lacks(offer, _encounter(offer)):
        return pages.see_other(f"/oauth/authorize/{handle}")
    days = pages.field("days", 5)
    length = int(days) if days.isascii() and days.isdecimal() else DURATIONS[0]
    if length not in DURATIONS:
        raise pages.PageError(400, _("Choose one of the listed durations."))
    ticked = request.form.getlist("scope")
    return pages.see_other(authorize.decide(parked, offer, session, ticked, length))


def _park(form: bytes) -> Response:
    try:
        values = MultiDict(parse_form(form))
    except FhirError:
        raise pages.PageError(
            400, _("The app sent an invalid request. Go back to the app and start again.")
        ) from None
    return pages.see_other(f"/oauth/authorize/{authorize.park(values)}")


def _parked(handle: str) -> ParkedRequest:
    parked = authorize.find(handle)
    if parked is None:
        raise pages.PageError(
            404,
            _(
                "This request was already answered or has expired. Go back to the app and "
                "start again."
            ),
        )
    return parked


def _choose(handle: str, parked: ParkedRequest, offer: Offer, patient_id: str) -> Response:
    is_theirs = offer.patients is None or patient_id in offer.patients
    is_here = person(patient_id) is not None and not merged_target(reader(), patient_id)
    if parked.user_id is not None or not is_theirs or not is_here:
        raise pages.PageError(
            403,
            _("You can't choose this record for the app. Choose one of the records on the page."),
        )
    authorize.choose(parked, patient_id)
    return pages.see_other(f"/oauth/authorize/{handle}")


def _choose_encounter(handle: str, offer: Offer, encounter_id: str) -> Response:
    chosen = replace(offer, encounter_id=encounter_id or None)
    is_theirs = offer.patient_id is not None and (
        not encounter_id or _encounter(chosen) is not None
    )
    if not offer.picks_encounter or not is_theirs:
        raise pages.PageError(
            403, _("You can't choose this visit for the app. Choose one of the visits on the page.")
        )
    authorize.choose(_parked(handle), str(offer.patient_id), encounter_id)
    return pages.see_other(f"/oauth/authorize/{handle}")


def _encounter(offer: Offer) -> LaunchOption | None:
    """Return the encounter that the user chose; None where it is no encounter of the patient's."""
    encounter_id = offer.encounter_id or ""
    if not offer.picks_encounter or offer.patient_id is None or not _ID.fullmatch(encounter_id):
        return None
    return next(iter(encounters_of(offer.patient_id, VIA, _id=encounter_id)[0]), None)


def _lacks(offer: Offer, encounter: LaunchOption | None) -> bool:
    """Say whether the app asks for an encounter that is not chosen, or no longer exists."""
    return offer.picks_encounter and LAUNCH_ENCOUNTER in offer.scopes and encounter is None


def _context(offer: Offer) -> str:
    """Return what the page of consent was shown for."""
    return f"{offer.patient_id or ''}/{offer.encounter_id or ''}"


def _can_change(offer: Offer) -> bool:
    """Say whether there may be other records to choose."""
    return offer.patients is None or len(offer.patients) > 1


def _picker(handle: str, parked: ParkedRequest, offer: Offer, session: Signed) -> Response:
    if parked.user_id is not None:
        raise pages.PageError(
            403,
            _(
                "The app was started for a specific patient. To use it for a different patient, "
                "start it again."
            ),
        )
    own: dict[str, bool] = {}
    if offer.patients is None:
        found = finder("name", via=VIA)
    else:
        found = Finder("", people(offer.patients), more=False, message="")
        own = {link.patient_id: link.is_self for link in links_of(session.user.id)}
    return pages.page(
        "apps/picker.html",
        # Refusing sends the browser to the app.
        leaves=True,
        handle=handle,
        client=offer.client,
        finder=found,
        own=own,
        searches=offer.patients is None,
    )


def _encounter_picker(handle: str, offer: Offer) -> Response:
    cursor = request.args.get("cursor", "")
    narrowed = {"_cursor": cursor} if cursor else {}
    encounters, following = encounters_of(str(offer.patient_id), VIA, **narrowed)
    return pages.page(
        "apps/visit_picker.html",
        leaves=True,
        handle=handle,
        client=offer.client,
        patient=_patient(offer),
        can_change=_can_change(offer),
        encounters=encounters,
        cursor=cursor,
        following=following,
    )


def _patient(offer: Offer) -> Person | None:
    patient = None if offer.patient_id is None else person(offer.patient_id)
    if offer.patient_id is not None and patient is None:
        raise pages.PageError(404, _("The record of this patient no longer exists."))
    return patient


def _consent(
    handle: str,
    parked: ParkedRequest,
    offer: Offer,
    session: Signed,
    encounter: LaunchOption | None,
) -> Response:
    return pages.page(
        "apps/consent.html",
        leaves=True,
        handle=handle,
        client=offer.client,
        host=returns_to([parked.parameters["redirect_uri"]], urls.base_url()),
        patient=_patient(offer),
        can_change=parked.user_id is None and _can_change(offer),
        picks_encounter=offer.picks_encounter,
        encounter=encounter,
        shown=_context(offer),
        scopes=[in_words(text) for text in offer.scopes if text not in offer.follows],
        follows=offer.follows,
        tells_encounter=LAUNCH_ENCOUNTER in offer.scopes,
        keeps=OFFLINE in offer.scopes,
        until=moment(session.signed_in_at + ABSOLUTE_SECONDS) if ONLINE in offer.scopes else "",
        offline=OFFLINE,
        durations=DURATIONS,
        user=session.user,
    )
