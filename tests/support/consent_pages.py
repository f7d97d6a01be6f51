"""A user in front of the page that asks for consent."""

from __future__ import annotations

from flask import Flask
from sqlalchemy import select

from fhirapp.auth.models import Grant
from tests.support.authorizing import Flow, add_program, rows
from tests.support.browsing import Browser, Page, add_person, id_of


class Consent:
    """A user in front of the page, and the app that asks."""

    def __init__(self, app: Flask, role: str, *patients: str) -> None:
        self.username = add_person(app, role, *patients)
        self.browser = Browser(app).resume(self.username)
        self.flow = Flow(app, add_program(app), id_of(app, self.username))

    def page(self, scope: str, **changes: str) -> Page:
        """Return the first page that an authorization request leads to."""
        asked = self.flow.parameters(scope, **changes)
        return self.browser.get("/oauth/authorize", query_string=asked)

    def choose(self, page: Page, visit_id: str) -> Page:
        """Send a form in which somebody wrote another visit."""
        return self.browser.post(page.path, {"form_token": page.token, "visit": visit_id})

    def granted(self) -> tuple[str, str | None, str | None]:
        """Return scope, patient and visit of the one consent."""
        mine = select(Grant).where(Grant.client_id == self.flow.program.client_id)
        ((grant,),) = rows(self.flow.app, mine)
        return grant.scope, grant.patient_id, grant.encounter_id
