"""Who has looked at a patient's record: the audit trail, of this record alone.

One request may be answered with resources of many patients; what is counted here are this one's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Any

from sqlalchemy import select

from fhirapp.audit.entries import AuditEntry, entries
from fhirapp.audit.events import EVENTS
from fhirapp.auth.models import OF_PAGES, Client, User
from fhirapp.db import db
from fhirapp.fhir.temporal import local
from fhirapp.rest.recorder import patients_of
from fhirapp.web.admin.audit_descriptions import vias
from fhirapp.web.labels import one_of, plural_of
from fhirapp.web.texts import _
from fhirapp.web.times import moment_of

# Requests on a page; those of one person in one minute are one line.
SHOWN = 100


def looks_at(patient_id: str, before: int | None) -> tuple[list[dict[str, Any]], int | None]:
    """Return the views of a record, newest first, and the entry before which the next page begins.

    A view has who, app, at, what and is_refused: whether nothing was shown.
    """
    found = entries(patient_id=patient_id, before=before, kind=None, limit=SHOWN + 1)
    shown = found[:SHOWN]
    users = select(User.id, User.name).where(User.id.in_({entry.user_id for entry in shown}))
    people = {row.id: row.name for row in db.session.execute(users)}
    clients = select(Client).where(Client.client_id.in_({entry.client_id for entry in shown}))
    apps = {client.client_id: client for client in db.session.scalars(clients)}
    whose = patients_of({name for entry in shown for name in entry.served})
    looks = []
    for _key, group in groupby(shown, key=_minute):
        together = list(group)
        last = together[0]
        is_refused = last.status >= 400
        seen = [
            name
            for entry in together
            for name in entry.served
            if not is_refused and whose.get(name) == patient_id
        ]
        deleted = _("a deleted account") if last.user_id else _("System (no user)")
        looks.append(
            {
                "who": people.get(last.user_id) or deleted,
                "app": _through(together, apps.get(last.client_id or "")),
                "at": moment_of(local(datetime.fromisoformat(last.at))),
                "what": _("none: access denied") if is_refused else _what(last, seen),
                "is_refused": is_refused,
            }
        )
    more = shown[-1].number if len(found) > SHOWN else None
    return looks, more


def _minute(entry: AuditEntry) -> tuple[object, ...]:
    """Return what requests of one line share: person, app, minute, whether refused, event."""
    return entry.user_id, entry.client_id, entry.at[:16], entry.status < 400, entry.event


def _through(together: Sequence[AuditEntry], client: Client | None) -> str:
    """Return which app or which of our pages sent requests of one person, newest first."""
    last = together[0]
    if last.event and last.client_id is None:
        return _("the command line") if last.address.startswith("shell:") else _("this site")
    if client is not None and client.kind == OF_PAGES:
        return _pages(together)
    if last.client_id is None:
        return _("an unknown app")
    return client.name if client is not None and client.name else _("a deleted app")


def _pages(together: Sequence[AuditEntry]) -> str:
    """Return which of our pages asked, in the order in which they did."""
    known = vias()
    pages = [known.get(entry.via, known["pages"]) for entry in reversed(together)]
    names = [_(via.patient_label or via.label) for via in pages]
    return _("this site: %(pages)s", pages=", ".join(dict.fromkeys(names)))


def _what(entry: AuditEntry, seen: Sequence[str]) -> str:
    """Return how many of each type were shown, each resource once; of an event what happened."""
    if entry.event:
        return _(EVENTS.get(entry.event, entry.event))
    once = {name.rpartition("/")[0] for name in seen}
    counts = Counter(name.partition("/")[0] for name in once)
    parts = [
        one_of(type_name) if number == 1 else f"{number} {plural_of(type_name)}"
        for type_name, number in sorted(counts.items())
    ]
    return ", ".join(parts) or _("requested; no data found or returned")
