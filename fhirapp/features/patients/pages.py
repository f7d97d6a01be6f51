"""The administrator's pages of patients: a record is found, corrected, deleted or erased.

What cannot be brought back is asked for twice; the second page lists what it is about.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, request
from sqlalchemy import select
from werkzeug.exceptions import NotFound

from fhirapp.audit.events import LONGEST_REASON, SHORTEST_REASON
from fhirapp.config import RefusedCommand, settings
from fhirapp.db import db
from fhirapp.features.patients import deletion, merge
from fhirapp.fhir.datatypes import ID_PATTERN
from fhirapp.fhir.words import current_name, without_direction
from fhirapp.store.import_models import (
    CORRECTED,
    DELETED,
    ERASED,
    MERGED,
    PatientChange,
    PatientMerge,
)
from fhirapp.store.merge import merged_here, merged_into
from fhirapp.web.admin.audit_descriptions import VIA, patients_named
from fhirapp.web.cookies import form_fields, keeps
from fhirapp.web.internal_client import read, token_of
from fhirapp.web.labels import one_of, plural_of
from fhirapp.web.pages import (
    NOTHING_CHANGED,
    acted,
    blueprint_of,
    done_message,
    field,
    for_administrators,
    form_action,
    page,
    signed_in,
)
from fhirapp.web.people import Person, finder, number_of, person
from fhirapp.web.texts import _, reason_of

blueprint = blueprint_of("admin_patients", __name__)
_ID = re.compile(ID_PATTERN)
_LONGEST_NAME, _SHOWN = 200, 50
_DONE: Mapping[str, str] = {
    DELETED: _("Record deleted. Its history is kept."),
    ERASED: _("Record erased."),
    CORRECTED: _("Record corrected."),
    MERGED: _("The records are merged."),
    "separated": _("The merge is undone. Check which record each user should have access to."),
    "admitted": _("The record can be imported again."),
}
_KINDS: Mapping[str, str] = {
    DELETED: _("deleted"),
    ERASED: _("erased"),
    CORRECTED: _("corrected"),
    MERGED: _("merged"),
}
# What can be corrected, by the name of its field.
_FIELDS: Mapping[str, str] = {
    "family": _("Family name"),
    "given": _("Given names"),
    "birthDate": _("Date of birth"),
    "gender": _("Sex"),
    "identifier": _("Record number"),
    "active": _("Active"),
}


def _index(message: str = "", status: int = 200, **_record: str) -> Response:
    found = finder("find", via=VIA, lists_all=False)
    query = select(PatientChange).order_by(PatientChange.id.desc()).limit(_SHOWN)
    changes = db.session.scalars(query).all()
    merges = select(PatientMerge.change_id, PatientMerge.target_id)
    numbers = [change.id for change in changes]
    targets = db.session.execute(merges.where(PatientMerge.change_id.in_(numbers)))
    into = {row.change_id: row.target_id for row in targets}
    return page(
        "patients/patients.html",
        status,
        finder=found,
        changes=changes,
        named=patients_named([*(change.patient_id for change in changes), *into.values()]),
        into=into,
        kinds={kind: _(words) for kind, words in _KINDS.items()},
        deletions=(DELETED, ERASED),
        message=message,
        done=done_message(_DONE),
    )


@blueprint.get("/admin/patients")
@for_administrators
def index() -> Response:
    """Find a patient, and list what was done with records."""
    return _index()


def _record(patient_id: str) -> tuple[Person | None, deletion.Belongings]:
    """Return the patient, None if deleted, and what the record has. Raises NotFound."""
    whose = person(_check_id(patient_id))
    with db.engine.connect() as connection:
        found = deletion.belongings(connection, patient_id)
    if whose is None and "Patient" not in found.counts:
        raise NotFound
    return whose, found


def _detail(patient_id: str, message: str = "", status: int = 200) -> Response:
    whose, found = _record(patient_id)
    resource = read(f"/fhir/Patient/{patient_id}", token_of(), via=VIA) if whose else {}
    return page(
        "patients/patient.html",
        status,
        id=patient_id,
        whose=whose,
        counts=_type_counts(found.counts),
        linked=found.linked,
        longest=LONGEST_REASON,
        typed=form_fields(),
        names={name: _(words) for name, words in _FIELDS.items()},
        details=_details(resource),
        merged_into=merged_into(resource),
        merged_here=merged_here(resource),
        message=message,
    )


@blueprint.get("/admin/patients/<patient_id>")
@for_administrators
def detail(patient_id: str) -> Response:
    """Show whose record it is, and what can be done with it."""
    return _detail(patient_id)


def _deletion(patient_id: str, message: str = "", status: int = 200) -> Response:
    whose, found = _record(patient_id)
    return page(
        "patients/delete.html",
        status,
        id=patient_id,
        whose=whose,
        counts=_type_counts(found.counts),
        naming=_type_counts(found.naming),
        linked=found.linked,
        longest=LONGEST_REASON,
        typed=request.form or form_fields(),
        message=message,
    )


@blueprint.get("/admin/patients/<patient_id>/delete")
@for_administrators
def ask_to_delete(patient_id: str) -> Response:
    """Show what the deletion of a record takes away, and ask for it."""
    return _deletion(patient_id)


@blueprint.post("/admin/patients/<patient_id>/delete")
@keeps("reason", "history")
@for_administrators
@form_action(_deletion)
def delete(patient_id: str) -> Response:
    """Delete a record, or erase it, where the administrator typed whose it is."""
    kind = ERASED if field("history") == "erase" else DELETED
    if not _is_named(field("typed", _LONGEST_NAME), patient_id, person(_check_id(patient_id))):
        raise RefusedCommand(
            "This does not match the patient's record number, id or name. Nothing was deleted."
        )
    reason, who = field("reason", LONGEST_REASON), signed_in().user.username
    deletion.delete_patient(settings(), patient_id, reason, who, erase=kind == ERASED)
    return acted("/admin/patients", kind)


@blueprint.post("/admin/patients/<patient_id>/correct")
@keeps("reason", *_FIELDS)
@for_administrators
@form_action(_detail, 409)
def correct(patient_id: str) -> Response:
    """Correct whose record it is, once the administrator saw before and after side by side."""
    resource = read(f"/fhir/Patient/{_check_id(patient_id)}", token_of(), via=VIA)
    reason, before = field("reason", LONGEST_REASON), _details(resource)
    after = {name: field(name, _LONGEST_NAME) for name in _FIELDS}
    changed = [name for name in _FIELDS if after[name] != before[name]]
    if len(reason) < SHORTEST_REASON:
        raise RefusedCommand("Enter a reason. It is kept in the audit trail.")
    if not changed:
        raise RefusedCommand(NOTHING_CHANGED)
    seen = field("version", 20)
    if request.form.get("sure") == "yes":
        who = signed_in().user.username
        corrected = _corrected(resource, after, changed)
        corrected["meta"] = {**corrected["meta"], "versionId": seen}
        deletion.correct_patient(settings(), corrected, changed, reason, who)
        return acted("/admin/patients", CORRECTED)
    return page(
        "patients/correct.html",
        id=patient_id,
        names={name: _(words) for name, words in _FIELDS.items()},
        before=before,
        after=after,
        changed=changed,
        version=resource["meta"]["versionId"],
        reason=reason,
    )


def _choice_of_target(whose: Person, message: str = "") -> Response:
    """Return the page to choose the other record on: at first those with the same date of birth."""
    found = finder("find", via=VIA, lists_all=False, born=whose.born)
    return page(
        "patients/merge_target.html",
        409 if message else 200,
        whose=whose,
        finder=found,
        people=[other for other in found.people if other.id != whose.id],
        message=message,
    )


def _merging(patient_id: str, message: str = "", status: int = 200) -> Response:
    into = (request.form.get("into") or request.args.get("into", ""))[:_LONGEST_NAME]
    whose = person(_check_id(patient_id))
    target = person(into) if _ID.fullmatch(into) else None
    if whose is None:
        raise NotFound
    if target is None:
        return _choice_of_target(whose)
    try:
        with db.engine.connect() as connection:
            moved = merge.preview(connection, patient_id, into)
    except RefusedCommand as error:
        return _choice_of_target(whose, reason_of(error))
    both = [read(f"/fhir/Patient/{id_}", token_of(), via=VIA) for id_ in (patient_id, into)]
    return page(
        "patients/merge.html",
        status,
        id=patient_id,
        into=target,
        names={name: _(words) for name, words in _FIELDS.items()},
        details=[_details(patient) for patient in both],
        counts=_type_counts(moved.counts),
        linked=moved.linked,
        longest=LONGEST_REASON,
        typed=request.form or form_fields(),
        message=message,
    )


@blueprint.get("/admin/patients/<patient_id>/merge")
@for_administrators
def ask_to_merge(patient_id: str) -> Response:
    """Offer the records that may be the same person's, or compare with the one that was chosen."""
    return _merging(patient_id)


@blueprint.post("/admin/patients/<patient_id>/merge")
@keeps("into", "reason")
@for_administrators
@form_action(_merging)
def merge_with(patient_id: str) -> Response:
    """Merge a record into another, where the administrator typed whose goes."""
    into, reason = field("into", _LONGEST_NAME), field("reason", LONGEST_REASON)
    if not _is_named(field("typed", _LONGEST_NAME), patient_id, person(_check_id(patient_id))):
        raise RefusedCommand(
            "This does not match the patient's record number, id or name. Nothing was merged."
        )
    who, moves = signed_in().user.username, request.form.get("accounts") == "move"
    merge.merge_patients(settings(), patient_id, into, reason, who, move_accounts=moves)
    return acted("/admin/patients", MERGED)


@blueprint.post("/admin/patients/<patient_id>/separate")
@keeps("reason")
@for_administrators
@form_action(_detail, 409)
def separate(patient_id: str) -> Response:
    """Undo a merge."""
    merge.undo_merge(settings(), _check_id(patient_id), field("reason", LONGEST_REASON))
    return acted("/admin/patients", "separated")


@blueprint.post("/admin/patients/<patient_id>/admit")
@for_administrators
@form_action(_index, 409)
def admit(patient_id: str) -> Response:
    """Let imports bring a record again."""
    deletion.admit_again(_check_id(patient_id))
    return acted("/admin/patients", "admitted")


def _details(patient: dict[str, Any]) -> dict[str, str]:
    """Return what can be corrected of a Patient, as the form has it.

    The form has no characters that turn the direction of writing; the record keeps them until the
    detail is changed.
    """
    name, number = current_name(patient.get("name", ())) or {}, number_of(patient)
    active = patient.get("active")
    details = {
        "family": name.get("family", ""),
        "given": " ".join(filter(None, name.get("given", ()))),
        "birthDate": patient.get("birthDate", ""),
        "gender": patient.get("gender", ""),
        "identifier": number.get("value", ""),
        "active": "" if active is None else "yes" if active else "no",
    }
    return {element: without_direction(value) for element, value in details.items()}


def _corrected(
    patient: Mapping[str, Any], after: Mapping[str, str], changed: Sequence[str]
) -> dict[str, Any]:
    """Return a Patient with other details; an empty one is removed."""
    corrected = copy.deepcopy({**patient})
    # It tells the details as they were; another is made of the new ones.
    corrected.pop("text", None)
    if "family" in changed or "given" in changed:
        _rename(corrected, after)
    if "identifier" in changed:
        number = number_of(corrected)
        if not number:
            corrected["identifier"] = [*corrected.get("identifier", ()), number]
        number["value"] = after["identifier"]
    corrected |= {name: after[name] for name in ("birthDate", "gender") if name in changed}
    if "active" in changed:
        corrected["active"] = after["active"] == "yes" if after["active"] else ""
    return {name: value for name, value in corrected.items() if value not in ("", [])}


def _rename(patient: dict[str, Any], after: Mapping[str, str]) -> None:
    """Give the current name of a Patient other parts; without any it is removed."""
    name = current_name(patient.get("name", ())) or {}
    names = patient.get("name", ()) if name else (*patient.get("name", ()), name)
    for element in ("family", "given", "_family", "_given", "text"):
        name.pop(element, None)
    if after["family"]:
        name["family"] = after["family"]
    if after["given"]:
        name["given"] = after["given"].split()
    patient["name"] = [human_name for human_name in names if human_name]


def _check_id(patient_id: str) -> str:
    """Return the id of a patient. Raises NotFound where it can be none."""
    if not _ID.fullmatch(patient_id):
        raise NotFound
    return patient_id


def _type_counts(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return numbers of resources, each with what the type's are called."""
    return [
        (one_of(name) if name == "Patient" else plural_of(name), count)
        for name, count in counts.items()
    ]


def _is_named(typed: str, patient_id: str, whose: Person | None) -> bool:
    """Say whether somebody typed whose record it is: the number, the id or the name."""
    names = {patient_id, *((whose.identifier, whose.name) if whose else ())} - {""}
    return " ".join(typed.split()).casefold() in {
        " ".join(name.split()).casefold() for name in names
    }
