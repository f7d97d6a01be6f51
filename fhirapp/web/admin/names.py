"""Names for administrators: of patients over FHIR with their own token, of people and apps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlencode

from sqlalchemy import select

from fhirapp.auth.models import Client, User
from fhirapp.config import settings
from fhirapp.db import db
from fhirapp.web.ask import ask, token_of
from fhirapp.web.people import Person, person_of

VIA = "audit"
_ID = re.compile(r"[A-Za-z0-9.-]{1,64}")
# Of patients in one search.
_AT_ONCE = 50
_ELEMENTS = "name,birthDate,identifier"


def patients_named(ids: Iterable[str]) -> Mapping[str, Person]:
    """Return these patients by id, as far as the administrator can read them."""
    wanted = sorted({one for one in ids if _ID.fullmatch(one)})
    found: dict[str, Person] = {}
    size = min(_AT_ONCE, settings().page_max)
    for at in range(0, len(wanted), size):
        some = wanted[at : at + size]
        query = urlencode({"_id": ",".join(some), "_count": len(some), "_elements": _ELEMENTS})
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
    wanted = {one for one in ids if one}
    asked = select(User.id, User.name).where(User.id.in_(wanted))
    return {one: name for one, name in db.session.execute(asked)}  # noqa: C416


def clients_named(ids: Iterable[str | None]) -> Mapping[str, str]:
    """Return the names of apps, by id."""
    wanted = {one for one in ids if one}
    asked = select(Client.client_id, Client.name).where(Client.client_id.in_(wanted))
    return {one: name for one, name in db.session.execute(asked)}  # noqa: C416
