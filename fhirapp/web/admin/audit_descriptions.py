"""Entries of the audit trail in words: who searched or opened what, of whom, with which app.

Patients' names come over FHIR, with the administrator's own token.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple
from urllib.parse import parse_qsl, quote, urlencode

from sqlalchemy import select

from fhirapp.audit.entries import AuditEntry, patients_named_by
from fhirapp.audit.events import EVENTS
from fhirapp.auth.clients.registration import PAGES
from fhirapp.auth.models import Client, User
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.feature import Via, features
from fhirapp.rest.recorder import patients_of
from fhirapp.web.internal_client import ask, token_of
from fhirapp.web.labels import one_of, plural_of
from fhirapp.web.people import Person, person_of
from fhirapp.web.texts import _

VIA = "audit"
_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
# Of patients in one search.
_AT_ONCE = 50
_ELEMENTS = "name,birthDate,identifier"


def patients_named(ids: Iterable[str]) -> Mapping[str, Person]:
    """Return these patients by id, as far as the administrator can read them."""
    wanted = sorted({patient_id for patient_id in ids if _ID.fullmatch(patient_id)})
    found: dict[str, Person] = {}
    size = min(_AT_ONCE, settings().page_max)
    for at in range(0, len(wanted), size):
        batch = wanted[at : at + size]
        query = urlencode({"_id": ",".join(batch), "_count": len(batch), "_elements": _ELEMENTS})
        answer = ask(f"/fhir/Patient?{query}", token_of().secret, via=VIA)
        if answer.status != 200:
            continue
        for entry in answer.json().get("entry", ()):
            patient = entry["resource"]
            if patient["resourceType"] == "Patient":
                found[patient["id"]] = person_of(patient["id"], patient)
    return found


def users_named(ids: Iterable[str | None]) -> Mapping[str, str]:
    """Return the names of people who can sign in, by id."""
    wanted = {user_id for user_id in ids if user_id}
    query = select(User.id, User.name).where(User.id.in_(wanted))
    return {user_id: name for user_id, name in db.session.execute(query)}  # noqa: C416


def clients_named(ids: Iterable[str | None]) -> Mapping[str, str]:
    """Return the names of apps, by id."""
    wanted = {client_id for client_id in ids if client_id}
    query = select(Client.client_id, Client.name).where(Client.client_id.in_(wanted))
    return {client_id: name for client_id, name in db.session.execute(query)}  # noqa: C416


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
    "backups": _("took a backup"),
    "exports": _("started an export"),
    "imports": _("started an import"),
}
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


class NamedPatient(NamedTuple):
    """A patient of whom an entry is; name is the id where no record is found."""

    id: str
    name: str


class AuditDescription(NamedTuple):
    """An entry in words; patients are the first of them, more how many others there are."""

    entry: AuditEntry
    who: str
    through: str
    did: str
    patients: Sequence[NamedPatient]
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
    users = users_named([*_user_ids(found)])
    clients = clients_named([*_client_ids(found)])
    return [
        AuditDescription(
            about=_about(entry, users, clients),
            link=_link(entry),
            entry=entry,
            who=_who(entry, users, clients),
            through=_through(entry, clients),
            did=_did(entry),
            patients=[
                NamedPatient(patient_id, _called(patient_id, people))
                for patient_id in named[entry.number][:MOST_NAMED]
            ],
            more=max(0, len(named[entry.number]) - MOST_NAMED),
            result=_result(entry),
        )
        for entry in found
    ]


class AuditGroup(NamedTuple):
    """Entries of one page view, shown as one line that unfolds.

    whole describes the group; members is empty for a single entry.
    """

    whole: AuditDescription
    members: Sequence[AuditDescription] = ()


def grouped(listed: Sequence[AuditDescription]) -> list[AuditGroup]:
    """Return entries that follow one another and belong to one view of a page as one group."""
    groups = [[*members] for _key, members in groupby(listed, _view_of)]
    return [AuditGroup(members[0]) if len(members) == 1 else _group(members) for members in groups]


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


def _group(members: Sequence[AuditDescription]) -> AuditGroup:
    newest = members[0]
    patients = [*dict.fromkeys(patient for one in members for patient in one.patients)]
    result, records = _("%(count)s requests", count=len(members)), ""
    if served := {ref for one in members for ref in one.entry.served}:
        records = _records(len(served))
    whole = newest._replace(
        did=newest.did if newest.entry.event else _("viewed records"),
        patients=patients[:MOST_NAMED],
        more=max(len(patients) - MOST_NAMED, *(one.more for one in members), 0),
        result=", ".join(filter(None, (result, records))),
    )
    return AuditGroup(whole, members)


_USER, _APP = "user/", "app/"


def _user_ids(found: Sequence[AuditEntry]) -> Iterator[str | None]:
    for entry in found:
        yield entry.user_id
        if entry.about.startswith(_USER):
            yield entry.about.removeprefix(_USER)


def _client_ids(found: Sequence[AuditEntry]) -> Iterator[str | None]:
    for entry in found:
        yield entry.client_id
        if entry.about.startswith(_APP):
            yield entry.about.removeprefix(_APP)


def _about(entry: AuditEntry, users: Mapping[str, str], clients: Mapping[str, str]) -> str:
    """Return whom an event is about; empty where it is whoever did it."""
    if entry.about.startswith(_USER):
        user_id = entry.about.removeprefix(_USER)
        return "" if user_id == entry.user_id else users.get(user_id, user_id)
    client_id = entry.about.removeprefix(_APP)
    return clients.get(client_id, client_id)


def _link(entry: AuditEntry) -> str:
    kind, _sign, name = entry.about.partition("/")
    folder = {"user": "users", "app": "clients"}.get(kind)
    return f"/admin/{folder}/{quote(name, safe='')}" if folder and name else ""


def _called(patient_id: str, people: Mapping[str, Person]) -> str:
    return people[patient_id].name if patient_id in people else patient_id


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


def _did(entry: AuditEntry) -> str:
    """Return what was done, or tried: searched allergies."""
    if entry.event:
        return _(EVENTS.get(entry.event, entry.event))
    steps, parameters = _parts(entry)
    happened = entry.status < 400
    if _is_page(entry):
        return _did_on_page(entry.method, steps[1:], happened)
    steps = _within_record(steps)
    if not steps or steps[0] in ("_search", "_history", "*"):
        return _of_several(entry.method, steps, happened)
    kind, rest = steps[0], steps[1:]
    plural, singular = plural_of(kind), one_of(kind)
    if kind == "metadata":
        return _("read the CapabilityStatement")
    if operation := next((step for step in steps if step.startswith("$")), ""):
        return _operation(operation, happened)
    if entry.method not in ("GET", "HEAD") and rest != ["_search"]:
        return _("tried to change %(what)s", what=plural)
    if entry.via == VIA and kind == "Patient" and happened:
        return _("read patient names")
    if not rest or rest == ["_search"]:
        found = any(name in ("_content", "_text") for name, _value in parameters)
        what = _("%(what)s by full text", what=plural) if found else plural
        return (_("searched %(what)s") if happened else _("tried to search %(what)s")) % {
            "what": what
        }
    if "_history" in rest[-1:]:
        what = singular if len(rest) > 1 else plural
        looked = _("viewed the history of %(what)s")
        return (looked if happened else _("tried to view the history of %(what)s")) % {"what": what}
    opened = _("opened %(what)s") if happened else _("tried to open %(what)s")
    earlier = "_history" in rest
    return opened % {"what": _("one version of %(what)s", what=singular) if earlier else singular}


def _within_record(steps: list[str]) -> list[str]:
    """Return what is asked of a patient's compartment, or all of another path."""
    is_within = len(steps) > 2 and steps[0] == "Patient" and steps[2][:1] not in "_$"
    return steps[2:] if is_within else steps


def _of_several(method: str, steps: Sequence[str], happened: bool) -> str:
    if method == "POST" and not steps:
        return _("sent a batch") if happened else _("tried to send a batch")
    return _("searched several types") if happened else _("tried to search several types")


def _is_page(entry: AuditEntry) -> bool:
    return entry.path.startswith("/admin/")


def _did_on_page(method: str, steps: Sequence[str], happened: bool) -> str:
    kind = steps[0] if steps else ""
    if method == "POST":
        if steps[-1:] == ["drill"]:
            return _("tested a backup")
        if steps[-1:] == ["upload"]:
            return _("uploaded a backup")
        if steps[-1:] == ["restore"]:
            return _("prepared a restore")
        return _(_BEGUN.get(kind, "began something"))
    if not happened:
        return _("tried to download a file")
    return _(_FETCHED.get(kind, "fetched a file"))


def _operation(name: str, happened: bool) -> str:
    if name == "$everything":
        return _("read everything") if happened else _("tried to read everything")
    if name == "$export":
        return _("exported records") if happened else _("tried to export records")
    if name == "$docref":
        return _("looked up documents") if happened else _("tried to look up documents")
    shown = _("used %(name)s") if happened else _("tried to use %(name)s")
    return shown % {"name": name}


def _result(entry: AuditEntry) -> str:
    """Return what came of it: 6 records; of an event what more is known."""
    if entry.event:
        return entry.body
    if entry.status in (401, 403):
        return _("refused (%(status)s)", status=entry.status)
    if entry.status in (404, 410):
        return _("not found (%(status)s)", status=entry.status)
    if entry.status >= 500:
        return _("server error (%(status)s)", status=entry.status)
    if entry.status >= 400:
        return _("invalid request (%(status)s)", status=entry.status)
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
