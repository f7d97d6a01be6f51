"""Which entries of the audit trail somebody asks for: the form's fields, and whom they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import urlencode

from flask import request
from sqlalchemy import ColumnElement, func, or_, select

from fhirapp.audit.index import Entry, entries
from fhirapp.auth.models import Client, User
from fhirapp.db import db
from fhirapp.fhir.local_time import interval
from fhirapp.fhir.temporal import instant_of
from fhirapp.search.values import escape
from fhirapp.web.admin.names import VIA
from fhirapp.web.ask import ask, token_of
from fhirapp.web.people import person_of
from fhirapp.web.texts import _

_LONGEST = 200
_MOST_WORDS = 8
# Of those whom a name could mean, so many are offered.
_CHOICES = 8
_ID = re.compile(r"(?:Patient/)?([A-Za-z0-9.-]{1,64})")
FIELDS = ("user", "client", "patient", "status", "via", "since", "until")
# What stands in the form for entries of no page of ours.
BY_APPS = "apps"


class Choice(NamedTuple):
    """One of those whom a text could mean: what to ask for instead, and how it is called."""

    value: str
    name: str
    note: str


@dataclass
class Asked:
    """What was typed, what entries() is asked with, and what of it nobody can tell.

    choices are by the field; told is whom each field means.
    """

    typed: Mapping[str, str]
    filters: dict[str, Any] = field(default_factory=dict)
    choices: dict[str, Sequence[Choice]] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    @property
    def is_clear(self) -> bool:
        return not (self.choices or self.faults)

    @property
    def is_empty(self) -> bool:
        return not any(self.typed.values())

    def found(self, before: int | None, limit: int) -> Sequence[Entry]:
        """Return the newest entries; none where it is not clear which."""
        return entries(**self.filters, before=before, limit=limit) if self.is_clear else ()

    def query(self, **more: object) -> str:
        """Return the query of an address that asks for the same."""
        return urlencode({name: one for name, one in {**self.typed, **more}.items() if one})


def asked() -> Asked:
    """Return what this request asks for."""
    typed = {name: _text(request.args.get(name, "")) for name in FIELDS}
    found = Asked(typed)
    _add_user(found, typed["user"])
    _add_client(found, typed["client"])
    _add_patient(found, typed["patient"])
    if typed["via"]:
        found.filters["via"] = "" if typed["via"] == BY_APPS else typed["via"]
    if typed["status"]:
        _add_status(found, typed["status"])
    _add_times(found, typed)
    return found


def before() -> int | None:
    """Return the number that the page begins before."""
    text = request.args.get("before", "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None


def _text(text: str) -> str:
    text = text[:_LONGEST].strip()
    return text if text.isprintable() else ""


def _add_user(found: Asked, text: str) -> None:
    if not text:
        return
    exact = select(User.id, User.username, User.name).where(
        or_(User.username == text.lower(), User.id == text)
    )
    like = select(User.id, User.username, User.name).where(*_words(text, User.name, User.username))
    rows = db.session.execute(exact).all()
    rows = rows or db.session.execute(like.order_by(User.username).limit(_CHOICES + 1)).all()
    choices = [Choice(username, name, username) for _id, username, name in rows]
    if _one_of(found, "user", choices, _("Nobody is called that.")):
        found.filters["user_id"] = rows[0][0]


def _add_client(found: Asked, text: str) -> None:
    if not text:
        return
    columns = (Client.client_id, Client.name)
    rows = db.session.execute(select(*columns).where(Client.client_id == text)).all()
    if not rows:
        like = select(*columns).where(*_words(text, Client.name, Client.client_id))
        rows = db.session.execute(like.order_by(Client.client_id).limit(_CHOICES + 1)).all()
    choices = [Choice(client_id, name, client_id) for client_id, name in rows]
    if _one_of(found, "client", choices, _("No app is called that.")):
        found.filters["client_id"] = rows[0][0]


def _add_patient(found: Asked, text: str) -> None:
    """Take a patient's id, also one of a record that is not here; or else a name."""
    if not text:
        return
    match = _ID.fullmatch(text)
    choices = _patients(_id=match[1]) if match else []
    if not choices and not text.startswith("Patient/"):
        choices = _patients(name=" ".join(text.split()[:_MOST_WORDS]))
    if not choices and match:
        found.filters["patient_id"] = match[1]
        found.told["patient"] = _("%(id)s, of whom no record is here", id=match[1])
    elif _one_of(found, "patient", choices, _("No patient is found by that.")):
        found.filters["patient_id"] = choices[0].value.removeprefix("Patient/")


def _patients(**searched: str) -> list[Choice]:
    """Return the patients whom a search over FHIR finds."""
    elements = "name,birthDate,identifier"
    words = searched.pop("name", "").replace(",", " ").split()
    pairs = [*searched.items(), *(("name", escape(word)) for word in words)]
    query = urlencode([*pairs, ("_count", _CHOICES + 1), ("_elements", elements)])
    answer = ask(f"/fhir/Patient?{query}", token_of().secret, via=VIA)
    if answer.status != 200 or not pairs:
        return []
    people = [
        person_of(entry["resource"]["id"], entry["resource"])
        for entry in answer.json().get("entry", ())
        if entry["resource"]["resourceType"] == "Patient"
    ]
    return [Choice(f"Patient/{one.id}", one.name, one.born or one.id) for one in people]


def _one_of(found: Asked, name: str, choices: Sequence[Choice], nobody: str) -> bool:
    """Say whether it is one; else note that there are several, or nobody."""
    if len(choices) == 1:
        found.told[name] = choices[0].name
        return True
    if choices:
        found.choices[name] = choices[:_CHOICES]
    else:
        found.faults.append(nobody)
    return False


def _add_status(found: Asked, text: str) -> None:
    if text.isascii() and text.isdecimal() and len(text) == 3:
        found.filters["status"] = int(text)
    else:
        found.faults.append(_("An answer's status has three digits, as 403."))


def _add_times(found: Asked, typed: Mapping[str, str]) -> None:
    for name in ("since", "until"):
        if not typed[name]:
            continue
        try:
            covered = interval(typed[name])
        except ValueError:
            found.faults.append(_("That is no date: write 2026-05-03, 2026-05 or 2026."))
            continue
        # The whole of a day that is named last.
        found.filters[name] = instant_of(covered.low if name == "since" else covered.high)


def _words(text: str, *columns: Any) -> list[ColumnElement[bool]]:
    return [
        or_(*(func.lower(column).contains(word, autoescape=True) for column in columns))
        for word in text.lower().replace(",", " ").split()[:_MOST_WORDS]
    ]
