"""The records that a user with the role patient may see now, and who the user is to each patient.

    an own record         the user is that Patient
    linked as proxy       another patient's record, as long as the link is there
    by a RelatedPerson    another patient's, while that RelatedPerson, as it is now, says who the
                          user is to the patient: it names the patient, is not inactive, its period
                          runs, and no modifier changes what it says

Source: FHIR R4 RelatedPerson; SMART App Launch 2.2, fhirUser.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from fhirapp.config import Marked
from fhirapp.db import reader
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.temporal import period_interval

_LINKS = (
    "SELECT l.patient_id, l.is_self, l.related_person, r.patient_id, r.body"
    " FROM auth_user_patient l"
    " LEFT JOIN related_person r ON r.id = l.related_person AND r.is_current"
    " WHERE l.user_id = ? ORDER BY l.is_self DESC, l.patient_id"
)
_OF_PATIENT = "SELECT id, body FROM related_person WHERE patient_id = ? AND is_current ORDER BY id"
_ONE = "SELECT patient_id, body FROM related_person WHERE id = ? AND is_current"

UNKNOWN = Marked("This RelatedPerson is not on this server.")
ANOTHER = Marked("This RelatedPerson is not related to this patient.")
INACTIVE = Marked("This RelatedPerson is not active.")
NOT_BEGUN = Marked("The period of this RelatedPerson has not begun.")
ENDED = Marked("The period of this RelatedPerson has ended.")
MODIFIED = Marked(
    "This RelatedPerson has a modifier extension or implicit rules, which may change its meaning."
)


class RecordLink(NamedTuple):
    """A link between a user and a record, with the id of the RelatedPerson that it depends on."""

    patient_id: str
    is_self: bool
    related_person: str | None
    # Why it does not hold now, a text to translate; empty where it holds.
    lapse: str

    @property
    def fhir_user(self) -> str | None:
        """Who the user is by this link, as <type>/<id>; None where it does not say that."""
        if self.related_person is not None:
            return f"RelatedPerson/{self.related_person}"
        return f"Patient/{self.patient_id}" if self.is_self else None


def all_links(user_id: str) -> list[RecordLink]:
    """Return every link of a user, the own record first, also those that do not hold now."""
    return [
        RecordLink(
            patient_id,
            bool(is_self),
            related,
            "" if related is None else _lapse(patient_id, named, body),
        )
        for patient_id, is_self, related, named, body in reader().all(_LINKS, (user_id,))
    ]


def links_of(user_id: str) -> list[RecordLink]:
    """Return the links of a user that hold now, the own record first."""
    return [link for link in all_links(user_id) if not link.lapse]


def linked_patients(user_id: str) -> list[str]:
    """Return the ids of the records that a user may see now, the own one first."""
    return [link.patient_id for link in links_of(user_id)]


def link_of_user(links: Sequence[RecordLink], patient_id: str | None) -> RecordLink | None:
    """Return the link that says who a user is in the records; None where none does.

    It is who they are to the patient in context, else their own record: an app for one child learns
    nothing of another.
    """
    of_patient = [link for link in links if link.patient_id == patient_id]
    own = [link for link in links if link.is_self]
    return next((link for link in (*of_patient, *own) if link.fhir_user), None)


def lapse_of(patient_id: str, related_person: str) -> str:
    """Return why a link by a RelatedPerson would not hold now; empty where it would."""
    return _lapse(patient_id, *(reader().first(_ONE, (related_person,)) or (None, None)))


def related_to(patient_id: str) -> list[Mapping[str, Any]]:
    """Return the RelatedPersons by whom a link to a patient would hold now."""
    return [
        fhir_json.loads(body) | {"id": id_}
        for id_, body in reader().all(_OF_PATIENT, (patient_id,))
        if not _lapse(patient_id, patient_id, body)
    ]


def _lapse(patient_id: str, named: str | None, body: bytes | None) -> str:
    """Return why a link does not hold; named is the patient of its RelatedPerson."""
    if body is None:
        return UNKNOWN
    if named != patient_id:
        return ANOTHER
    related = fhir_json.loads(body)
    if "modifierExtension" in related or "implicitRules" in related:
        return MODIFIED
    if related.get("active") is False:
        return INACTIVE
    runs = period_interval(related.get("period") or {})
    now = int(time.time() * 1000)
    if now < runs.low:
        return NOT_BEGUN
    return "" if now < runs.high else ENDED
