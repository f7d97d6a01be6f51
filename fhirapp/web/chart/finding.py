"""A patient's record, and the records that are linked to a patient user."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote

from fhirapp.auth.clients.overview import links_of
from fhirapp.auth.clients.pages import OwnToken
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.web.ask import read, token_of
from fhirapp.web.chart.allergies import VIA
from fhirapp.web.pages import PageError, somebody
from fhirapp.web.people import Person, person_of
from fhirapp.web.texts import _

_ID = re.compile(ID_PATTERN)


def linked() -> list[Person]:
    """Return the records that are linked to who signed in, as far as they are here."""
    found = []
    for link in links_of(somebody().user.id):
        try:
            patient, _token = record(link.patient_id)
        except PageError:
            continue
        found.append(person_of(link.patient_id, patient))
    return found


def record(patient_id: str) -> tuple[dict[str, Any], OwnToken]:
    """Return a Patient, and the token that reads it.

    Raises PageError, which is the same for who is not here and for who may not be seen.
    """
    if not _ID.fullmatch(patient_id):
        raise unknown()
    try:
        token = token_of(patient_id)
        return read(f"/fhir/Patient/{quote(patient_id)}", token, via=VIA), token
    except PageError as error:
        if error.status in (403, 404, 410):
            raise unknown() from None
        raise


def unknown() -> PageError:
    """Return the error for what is not here, or may not be seen."""
    message = _("There is no such record, or you may not see it.")
    return PageError(404, message, _("No such record"))
