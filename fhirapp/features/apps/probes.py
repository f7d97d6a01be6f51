"""Probes of apps, and the step that registers the first one."""

from __future__ import annotations

import time
from collections.abc import Iterator

from sqlalchemy import func, select

from fhirapp.auth.models import OF_PAGES, OF_SHELL, Client, Refusal
from fhirapp.db import db
from fhirapp.feature import N_
from fhirapp.probe import GOOD, NOTE, Finding, Probe, SetupStep

_DAY = 86_400


def _approvals() -> Iterator[Finding]:
    count = db.session.execute(
        select(func.count(Client.client_id)).where(Client.approved_at.is_(None))
    ).scalar_one()
    if count:
        text = (
            N_("1 app is waiting for approval.")
            if count == 1
            else N_("%(count)s apps are waiting for approval.")
        )
        yield Finding(NOTE, text, path="/admin/clients", values={"count": count})


def _refusals() -> Iterator[Finding]:
    since = int(time.time()) - _DAY
    count = db.session.execute(
        select(func.count(Refusal.request_id)).where(Refusal.at >= since)
    ).scalar_one()
    text = N_("Refused requests of known apps in the last 24 hours: %(count)s")
    yield Finding(GOOD, text, path="/admin/refusals", values={"count": count})


def register_app() -> SetupStep:
    """Return the step that registers an app."""
    apps = (Client.approved_at.is_not(None), Client.kind.not_in((OF_PAGES, OF_SHELL)))
    found = db.session.execute(select(Client.client_id).where(*apps).limit(1)).first()
    return SetupStep(
        55,
        N_("Register an app"),
        N_(
            "Decide what apps and systems can read. Apps that developers register wait "
            "for your approval."
        ),
        "/apps/register",
        found is not None,
        is_optional=True,
    )


PROBES = (Probe(N_("Apps"), _approvals), Probe(N_("Apps"), _refusals))
