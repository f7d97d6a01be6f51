"""Entries of the audit trail in words: who searched or opened what, of whom, with which app.

Patients' names come over FHIR, with the administrator's own token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from sqlalchemy import select
from sqlalchemy.orm import InstrumentedAttribute

from fhirapp.audit.entries import AuditEntry, patients_named_by
from fhirapp.audit.events import EVENTS
from fhirapp.auth.clients.registration import PAGES
from fhirapp.auth.models import Client, User
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.feature import N_, Via, features
from fhirapp.rest.recorder import patients_of
from fhirapp.web.internal_client import ask, token_of
from fhirapp.web.labels import one_of, plural_of
from fhirapp.web.people import Person, person_of
from fhirapp.web.texts import _

VIA = "audit"
_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
# Of patients in one search.
_AT_ONCE = 50


def find_patients(criteria: Sequence[tuple[str, str]]) -> list[Person]:
    """Return the patients whom a search finds, as far as the administrator can read them."""
    query = urlencode([*criteria, ("_elements", "name,birthDate,identifier")])
    answer = ask(f"/fhir/Patient?{query}", token_of().secret, via=VIA)
    entries = answer.json().get("entry", ()) if answer.status == 200 else ()
    found = [entry["resource"] for entry in entries]
    return [person_of(one["id"], one) for one in found if one["resourceType"] == "Patient"]


def patients_named(ids: Iterable[str]) -> Mapping[str, Person]:
    """Return these patients by id, as far as the administrator can read them."""
    wanted = sorted({patient_id for patient_id in ids if _ID.fullmatch(patient_id)})
    size = min(_AT_ONCE, settings().page_max)
    batches = (wanted[at : at + size] for at in range(0, len(wanted), size))
    return {
        person.id: person
        for batch in batches
        for person in find_patients([("_id", ",".join(batch)), ("_count", str(len(batch)))])
    }


def names_of(
    id_column: InstrumentedAttribute[str],
    name: InstrumentedAttribute[str],
    ids: Iterable[str | None],
) -> Mapping[str, str]:
    """Return the names of users or apps by id."""
    query = select(id_column, name).where(id_column.in_({id_ for id_ in ids if id_}))
    return dict(db.session.execute(query).all())


# Of one entry, so many patients are named.
MOST_NAMED = 3
_ROOT = re.compile(r"/(?:fhir|api)(?=/|$)")
_PATIENT = re.compile(r"(?:.*/)?(?:Patient/)?([A-Za-z0-9.-]{1,64})")
_WHOSE = ("patient", "subject", "patient:Patient", "subject:Patient")
# What is done on the pages of administration: fetched with GET, begun with POST.
_FETCHED: Mapping[str, str] = {
    "audit": _("downloaded the audit trail"),
    "backups": _("downloaded a backup"),
    "exports": _("downloaded a file of an export"),
    "imports": _("downloaded a file of an import"),
}
_BEGUN: Mapping[str, str] = {
    "drill": _("tested a backup"),
    "upload": _("uploaded a backup"),
    "restore": _("prepared a restore"),
    "backups": _("took a backup"),
    "exports": _("started an export"),
    "imports": _("started an import"),
}
# By operation: the words for an answered request, and for a refused one.
_OPERATIONS: Mapping[str, tuple[str, str]] = {
    "$everything": (_("read everything"), _("tried to read everything")),
    "$export": (_("exported records"), _("tried to export records")),
    "$docref": (_("looked up documents"), _("tried to look up documents")),
}
_OTHER_OPERATION = _("used %(name)s"), _("tried to use %(name)s")
_REFUSED, _NOT_FOUND = _("refused (%(status)s)"), _("not found (%(status)s)")
_FAULTS = {401: _REFUSED, 403: _REFUSED, 404: _NOT_FOUND, 410: _NOT_FOUND}
# Of the pages that are no feature's.
_CORE_VIAS = (
    Via("home", _("the home page")),
    Via("pages", _("the pages"), _("its other pages")),
    Via(VIA, _("the administration pages")),
)


def vias() -> Mapping[str, Via]:
    """Return the pages that ask for records, by their code; the page translates their labels."""
    declared = [via for feature in features() for via in feature.vias]
    return {via.code: via for via in (*declared, *_CORE_VIAS)}


class AuditDescription(NamedTuple):
    """An entry in words; patients are the first of them, more how many others there are.

    The name of a patient is the id where no record is found.
    """

    entry: AuditEntry
    who: str
    through: str
    did: str
    patients: Sequence[Person]
    more: int
    result: str
    # Of an event: whom or what it is about, and the address of their page.
    about: str = ""
    link: str = ""


def described(found: Sequence[AuditEntry]) -> list[AuditDescription]:
    """Return entries in words; names of patients are read with the administrator's own token."""
    of = patients_of({ref for entry in found for ref in entry.served})
    named = {entry.number: _patient_ids(entry, of) for entry in found if not entry.event}
    named |= patients_named_by([entry.number for entry in found if entry.event])
    named = {entry.number: named.get(entry.number, []) for entry in found}
    people = patients_named(
        patient_id for whose in named.values() for patient_id in whose[:MOST_NAMED]
    )
    abouts = [entry.about.partition("/") for entry in found]
    about_users = [name for kind, _slash, name in abouts if kind == "user"]
    users = names_of(User.id, User.name, [*(entry.user_id for entry in found), *about_users])
    about_apps = [name for kind, _slash, name in abouts if kind == "app"]
    client_ids = [*(entry.client_id for entry in found), *about_apps]
    clients = names_of(Client.client_id, Client.name, client_ids)
    return [
        AuditDescription(
            about=_about(entry, users, clients),
            link=_link(entry),
            entry=entry,
            who=_who(entry, users, clients),
            through=_through(entry, clients),
            did=_did(entry),
            patients=[
                people.get(patient_id) or Person(patient_id, patient_id, born="", identifier="")
                for patient_id in named[entry.number][:MOST_NAMED]
            ],
            more=max(0, len(named[entry.number]) - MOST_NAMED),
            result=_result(entry),
        )
        for entry in found
    ]


def grouped(
    listed: Sequence[AuditDescription],
) -> list[tuple[AuditDescription, Sequence[AuditDescription]]]:
    """Return the groups of entries that follow one another and belong to one page view.

    A group is a description of all of it, and its members; a single entry has none.
    """
    groups = [[*members] for _key, members in groupby(listed, _view_of)]
    return [(_whole(members), members) if members[1:] else (members[0], ()) for members in groups]


def _view_of(one: AuditDescription) -> tuple[object, ...]:
    """Return the key of the page view that an entry belongs to; its own number if to none."""
    entry = one.entry
    if entry.event == "patients-found":
        return entry.user_id, entry.event, entry.body, entry.at[:13]
    if entry.via and not _is_page(entry) and entry.status < 400:
        # Names that the pages of administration read are one line an hour, a view one a minute.
        length = len("2026-01-05T09") if entry.via == VIA else len("2026-01-05T09:30")
        return entry.user_id, entry.client_id, entry.via, entry.at[:length]
    return (entry.number,)


def _whole(members: Sequence[AuditDescription]) -> AuditDescription:
    newest = members[0]
    patients = [*dict.fromkeys(patient for one in members for patient in one.patients)]
    result, records = _("%(count)s requests", count=len(members)), ""
    if served := {ref for one in members for ref in one.entry.served}:
        records = _records(len(served))
    return newest._replace(
        did=newest.did if newest.entry.event else _("viewed records"),
        patients=patients[:MOST_NAMED],
        more=max(len(patients) - MOST_NAMED, *(one.more for one in members), 0),
        result=", ".join(filter(None, (result, records))),
    )


def _about(entry: AuditEntry, users: Mapping[str, str], clients: Mapping[str, str]) -> str:
    """Return whom an event is about; empty where it is whoever did it."""
    kind, _slash, name = entry.about.partition("/")
    if kind == "user":
        return "" if name == entry.user_id else users.get(name, name)
    client_id = entry.about.removeprefix("app/")
    return clients.get(client_id, client_id)


def _link(entry: AuditEntry) -> str:
    kind, _slash, name = entry.about.partition("/")
    folder = {"user": "users", "app": "clients"}.get(kind)
    return f"/admin/{folder}/{quote(name, safe='')}" if folder and name else ""


def _who(entry: AuditEntry, users: Mapping[str, str], clients: Mapping[str, str]) -> str:
    if entry.user_id is not None:
        return users.get(entry.user_id) or _("Deleted user")
    if entry.client_id is not None:
        return clients.get(entry.client_id, entry.client_id)
    if entry.address.startswith("shell:"):
        return _("The command line")
    return _("Unknown user")


def _through(entry: AuditEntry, clients: Mapping[str, str]) -> str:
    """Return by which page or app the request came, empty where the app itself sent it."""
    if entry.via or entry.client_id == PAGES:
        known = vias()
        return _(known.get(entry.via, known["pages"]).label)
    if entry.user_id is None or entry.client_id is None:
        return ""
    return _("the app %(name)s", name=clients.get(entry.client_id, entry.client_id))


def _parts(entry: AuditEntry) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the steps of a path after /fhir, and the parameters of its query and its form."""
    path, _sign, query = entry.path.partition("?")
    steps = [step for step in _ROOT.sub("", path, count=1).split("/") if step]
    return steps, [*parse_qsl(query), *parse_qsl(entry.body)]


def _told(entry: AuditEntry, done: str, tried: str, **values: str) -> str:
    return _(done if entry.status < 400 else tried, **values)


def _did(entry: AuditEntry) -> str:
    """Return what was done, or tried: searched allergies."""
    if entry.event:
        return _(EVENTS.get(entry.event, entry.event))
    steps, parameters = _parts(entry)
    if _is_page(entry):
        return _did_on_page(entry, steps[1:])
    steps = _within_record(steps)
    if not steps and entry.method == "POST":
        return _told(entry, N_("sent a batch"), N_("tried to send a batch"))
    if not steps or steps[0] in ("_search", "_history", "*"):
        return _told(entry, N_("searched several types"), N_("tried to search several types"))
    if steps[0] == "metadata":
        return _("read the CapabilityStatement")
    if operation := next((step for step in steps if step.startswith("$")), ""):
        return _told(entry, *_OPERATIONS.get(operation, _OTHER_OPERATION), name=operation)
    return _did_with_type(entry, steps[0], steps[1:], dict(parameters))


def _did_with_type(
    entry: AuditEntry, kind: str, rest: Sequence[str], parameters: Mapping[str, str]
) -> str:
    plural, singular = plural_of(kind), one_of(kind)
    if entry.method not in ("GET", "HEAD") and rest != ["_search"]:
        return _("tried to change %(what)s", what=plural)
    if entry.via == VIA and kind == "Patient" and entry.status < 400:
        return _("read patient names")
    if not rest or rest == ["_search"]:
        by_text = not parameters.keys().isdisjoint(("_content", "_text"))
        what = _("%(what)s by full text", what=plural) if by_text else plural
        return _told(entry, N_("searched %(what)s"), N_("tried to search %(what)s"), what=what)
    if rest[-1] == "_history":
        what = singular if len(rest) > 1 else plural
        tried = N_("tried to view the history of %(what)s")
        return _told(entry, N_("viewed the history of %(what)s"), tried, what=what)
    what = _("one version of %(what)s", what=singular) if "_history" in rest else singular
    return _told(entry, N_("opened %(what)s"), N_("tried to open %(what)s"), what=what)


def _within_record(steps: list[str]) -> list[str]:
    """Return what is asked of a patient's compartment, or all of another path."""
    is_within = len(steps) > 2 and steps[0] == "Patient" and steps[2][:1] not in "_$"
    return steps[2:] if is_within else steps


def _is_page(entry: AuditEntry) -> bool:
    return entry.path.startswith("/admin/")


def _did_on_page(entry: AuditEntry, steps: Sequence[str]) -> str:
    kind, action = (steps[0], steps[-1]) if steps else ("", "")
    begun = _BEGUN.get(kind, N_("began something"))
    if entry.method == "POST":
        return _(_BEGUN.get(action, begun))
    fetched = _FETCHED.get(kind, N_("fetched a file"))
    return _told(entry, fetched, N_("tried to download a file"))


def _result(entry: AuditEntry) -> str:
    """Return what came of it: 6 records; of an event what more is known."""
    if entry.event:
        return entry.body
    if entry.status >= 400:
        other = N_("invalid request (%(status)s)")
        other = N_("server error (%(status)s)") if entry.status >= 500 else other
        return _(_FAULTS.get(entry.status, other), status=entry.status)
    if entry.status == 304:
        return _("not modified")
    if _is_page(entry):
        return _("done")
    if _parts(entry)[0][:1] == ["metadata"]:
        return _("answered")
    return _records(len(entry.served))


def _records(count: int) -> str:
    if count == 1:
        return _("1 record")
    return _("%(count)s records", count=count) if count else _("no record")


def _patient_ids(entry: AuditEntry, of: Mapping[str, str | None]) -> list[str]:
    """Return the ids of the patients in a request and its answer; of maps resources to patients."""
    steps, parameters = _parts(entry)
    is_patient = len(steps) > 1 and steps[0] == "Patient" and steps[1][0] not in "$_"
    found = [steps[1]] if is_patient else []
    for name, value in parameters:
        if name in _WHOSE:
            found += [match[1] for ref in value.split(",") if (match := _PATIENT.fullmatch(ref))]
    found += [patient_id for ref in entry.served if (patient_id := of.get(ref))]
    return list(dict.fromkeys(found))
