"""Who has looked at a patient's record: the audit trail, of this record alone.

One request may be answered with resources of many patients; what is counted here are this one's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

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


class Look(NamedTuple):
    """Who looked, through what, when and at what; is_refused where nothing was shown."""

    who: str
    app: str
    at: str
    what: str
    is_refused: bool


def looks_at(patient_id: str, before: int | None) -> tuple[list[Look], int | None]:
    """Return who looked, the newest first; and what the next page begins before, if any."""
    found = entries(patient_id=patient_id, before=before, kind=None, limit=SHOWN + 1)
    shown = found[:SHOWN]
    people = _names(User.id, User.name, {entry.user_id for entry in shown})
    apps = _names(Client.client_id, Client.name, {entry.client_id for entry in shown})
    own_pages = _own_pages()
    whose = patients_of({name for entry in shown for name in entry.served})
    looks = []
    for together in _together(shown):
        last = together[0]
        seen = [
            name
            for entry in together
            if entry.status < 400
            for name in entry.served
            if whose.get(name) == patient_id
        ]
        refused = all(entry.status >= 400 for entry in together)
        looks.append(
            Look(
                _who(last, people),
                _through(last, together, apps, own_pages),
                moment_of(local(datetime.fromisoformat(last.at))),
                _("none: access denied") if refused else _what(last, seen),
                refused,
            )
        )
    more = shown[-1].number if len(found) > SHOWN else None
    return looks, more


def _together(found: Sequence[AuditEntry]) -> list[list[AuditEntry]]:
    """Return requests that follow one another, of one person through one app in one minute."""
    together: list[list[AuditEntry]] = []
    for entry in found:
        last = together[-1][-1] if together else None
        if last is not None and _key(last) == _key(entry):
            together[-1].append(entry)
        else:
            together.append([entry])
    return together


def _key(entry: AuditEntry) -> tuple[object, ...]:
    return (entry.user_id, entry.client_id, entry.at[:16], entry.status < 400, entry.event)


def _names(key: object, name: object, wanted: Iterable[str | None]) -> Mapping[str, str]:
    ids = [id_ for id_ in wanted if id_]
    if not ids:
        return {}
    rows = db.session.execute(select(key, name).where(key.in_(ids)))  # type: ignore[call-overload,attr-defined]
    return {str(row[0]): str(row[1]) for row in rows}


def _own_pages() -> set[str]:
    return set(db.session.scalars(select(Client.client_id).where(Client.kind == OF_PAGES)))


def _who(entry: AuditEntry, people: Mapping[str, str]) -> str:
    if entry.user_id is None:
        return _("System (no user)")
    return people.get(entry.user_id) or _("a deleted account")


def _through(
    last: AuditEntry,
    together: Sequence[AuditEntry],
    apps: Mapping[str, str],
    own_pages: Collection[str],
) -> str:
    if last.event and last.client_id is None:
        return _("the command line") if last.address.startswith("shell:") else _("this site")
    return _pages(together) if last.client_id in own_pages else _app(last, apps)


def _pages(together: Sequence[AuditEntry]) -> str:
    """Return which of our pages asked, in the order in which they did."""
    known = vias()
    pages = [known.get(entry.via, known["pages"]) for entry in reversed(together)]
    names = [_(via.patient_label or via.label) for via in pages]
    return _("this site: %(pages)s", pages=", ".join(dict.fromkeys(names)))


def _app(entry: AuditEntry, apps: Mapping[str, str]) -> str:
    if entry.client_id is None:
        return _("an unknown app")
    return apps.get(entry.client_id) or _("a deleted app")


def _what(entry: AuditEntry, seen: Sequence[str]) -> str:
    """Return how many of each type were shown, each resource once; of an event what happened."""
    if entry.event:
        return _(EVENTS.get(entry.event, entry.event))
    once = {name.rpartition("/")[0] for name in seen}
    counts = Counter(name.partition("/")[0] for name in once)
    parts = []
    for type_name, number in sorted(counts.items()):
        parts.append(one_of(type_name) if number == 1 else f"{number} {plural_of(type_name)}")
    return ", ".join(parts) or _("requested; no data found or returned")
