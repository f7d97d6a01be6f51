"""Trainees who do the lessons: on the pages, and with programs that have their token.

learner = Learner(app, "clinician")
learner.begin("read-one-allergy")
learner.ask("AllergyIntolerance/al-p1-latex")
learner.met("read-one-allergy")  # [True, False]
"""

from __future__ import annotations

from base64 import b64encode
from typing import Any
from xml.etree.ElementTree import Element

from flask import Flask
from sqlalchemy import select
from werkzeug.test import TestResponse

from fhirapp.auth.clients.first_party import own_token
from fhirapp.auth.links import linked_patients
from fhirapp.auth.models import User
from fhirapp.auth.users import sessions
from fhirapp.db import db
from fhirapp.features.demo.accounts import APP, BACKEND, SECRET
from tests.support.authorizing import Flow, Program
from tests.support.browsing import Browser, Page, id_of
from tests.support.helpers import BASE_URL, Fhir, link
from tests.support.pages import elements, submit_to, texts

LOOPBACK = "http://127.0.0.1:4444/callback"


class Learner:
    """A person of the demo who signed in."""

    def __init__(self, app: Flask, username: str = "clinician") -> None:
        self.app, self.username = app, username
        self.browser = Browser(app).resume(username)

    def fhir(self, username: str = "") -> Fhir:
        """Return a client with the token of the learner's page, or that of somebody they try."""
        secret = self.browser.cookie()
        assert secret is not None
        with self.app.test_request_context(base_url=BASE_URL):
            signed = sessions.find(secret)
            assert signed is not None
            named = select(User).where(User.username == (username or self.username))
            user = db.session.execute(named).scalar_one()
            patient = next(iter(linked_patients(user.id)), None)
            return Fhir(self.app, own_token(signed, user, patient).secret)

    def ask(self, path: str, *, as_: str = "", **options: Any) -> TestResponse:
        """Ask as the explorer does."""
        return self.fhir(as_).get(path, **options)

    def follow(self, path: str, pages: int) -> None:
        """Search, and follow the next link so often."""
        fhir = self.fhir()
        bundle = fhir.read(path)
        for _ in range(pages):
            address = link(bundle, "next")
            assert address is not None
            bundle = fhir.read(address)

    def begin(self, lesson: str) -> Page:
        """Start a lesson, or start it again."""
        return submit_to(self.browser.get(f"/learn/{lesson}"), f"/learn/{lesson}/begin")

    def answer(self, lesson: str, says: str, typed: str) -> Page:
        """Answer the question of a check."""
        page = self.browser.get(f"/learn/{lesson}")
        for form in page.forms:
            if form.fields.get("says") == says:
                sent = {**form.fields.to_dict(), "answer": typed}
                return self.browser.post(form.action, sent)
        raise AssertionError(f"no question {says!r}")

    def met(self, lesson: str) -> list[bool]:
        """Return which of a lesson's checks the page shows as passed."""
        return ["met" in check.get("class", "").split() for check in self._checks(lesson)]

    def missing(self, lesson: str) -> list[str]:
        """Return what the page says is missing of each check, empty for one that has passed."""
        return ["".join(texts(check, "p.soft.small")[:1]) for check in self._checks(lesson)]

    def _checks(self, lesson: str) -> list[Element]:
        page = self.browser.get(f"/learn/{lesson}")
        assert page.status == 200, page.words
        return elements(page, "li.check")

    def connect(
        self, scope: str = "openid launch/patient patient/*.rs", *, chart: str = ""
    ) -> Fhir:
        """Let the sample app in for a patient, and return the app with its token.

        With the id of a patient it is started from that chart.
        """
        flow = Flow(self.app, Program(APP), id_of(self.app, self.username))
        if chart:
            launched = {"launch": flow.launch(chart), "redirect_uri": LOOPBACK}
            return flow.fhir(f"launch {scope}", **launched)
        patient = None if self.username == "patient" else "p2"
        return flow.fhir(scope, patient=patient, redirect_uri=LOOPBACK)


def backend(app: Flask, scope: str = "system/*.rs") -> Fhir:
    """Return a client with a token that demo-backend got as the lesson's curl does."""
    secret = b64encode(f"{BACKEND}:{SECRET}".encode()).decode()
    answer = app.test_client().post(
        "/oauth/token",
        data={"grant_type": "client_credentials", "scope": scope},
        headers={"Authorization": f"Basic {secret}"},
    )
    assert answer.status_code == 200, answer.text
    return Fhir(app, answer.get_json()["access_token"])
