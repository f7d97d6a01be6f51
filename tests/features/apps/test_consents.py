"""The administrator's page of consents: who allowed which app what, and how it is revoked."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import delete, func, insert, select, update

from fhirapp.auth.models import CLINICIAN, OF_PAGES, PATIENT, Client, Grant, User
from fhirapp.features.apps import consents
from tests.support.authorizing import Flow, add_program, alter, rows, set_client, set_user
from tests.support.authorizing import add_person as add_user
from tests.support.browsing import Page
from tests.support.helpers import Fhir

PATH = "/admin/grants"
SCOPE = "launch/patient offline_access patient/*.rs"


@pytest.fixture
def app(clinic: Flask) -> Iterator[Flask]:
    """An app in which nobody has allowed anything yet."""
    yield clinic
    alter(clinic, update(Grant).values(revoked_at=1), update(User).values(name="Z"))
    alter(clinic, update(Client).where(Client.kind != OF_PAGES).values(name="Z"))


# Names are searched for in user names too, which are of hexadecimal digits: none is one here.
def allowed(app: Flask, name: str, who: str, role: str = PATIENT) -> Fhir:
    """Have somebody allow an app of this name to see the record p1."""
    user_id = add_user(app, role, *(("p1",) if role == PATIENT else ()))
    set_user(app, user_id, name=who)
    program = add_program(app)
    set_client(app, program, name=name)
    patient = None if role == PATIENT else "p1"
    return Flow(app, program, user_id).fhir(SCOPE, patient=patient)


def statuses(*clients: Fhir) -> list[int]:
    return [client.get("AllergyIntolerance").status_code for client in clients]


def can_revoke(page: Page) -> bool:
    return any(action.endswith("/take-back") for action in page.actions)


def test_consent_shows_who_allowed_which_app_what_about_whom(app, admin):
    page = admin.get(PATH)
    assert ("No app has access." in page.words, can_revoke(page)) == (True, False)
    allowed(app, "Allergy Card", "Ylva Patient")
    words = admin.get(PATH).words
    for shown in (
        "1 consent active.",
        "Ylva Patient patient allowed Allergy Card",
        "Amelia Rose Hartwell born 12 April 1958",
        "See everything in the record",
    ):
        assert shown in words


def test_revoked_consent_ends_at_once_and_is_shown_only_on_request(app, admin):
    revoked, other = (allowed(app, "Allergy Card", who) for who in ("Ylva", "Bo"))
    assert statuses(revoked, other) == [200, 200]
    before = admin.get(f"{PATH}?person=ylva")
    page = before.submit("Revoke")
    assert statuses(revoked, other) == [401, 200]
    assert "1 consent revoked" in page.words
    # The filter is as it was, and nothing is revoked twice.
    assert page.form("Search").fields["person"] == "ylva"
    assert "Nothing was changed." in before.submit("Revoke").words
    assert "Ylva" not in admin.get(PATH).words
    page = admin.get(f"{PATH}?person=ylva&ended=1")
    assert ("no longer active" in page.words, can_revoke(page)) == (True, False)
    for key in ("0b7c2f0e-5d3a-4c55-9c6f-1f4a2f9a7b10", "nonsense"):
        assert admin.post_with_token(f"{PATH}/{key}/take-back").status == 404


def test_consents_are_found_by_user_and_by_app(app, admin):
    allowed(app, "Allergy Card", "Ylva Patient")
    allowed(app, "Growth Chart", "Bo Patient")
    allowed(app, "Allergy Card", "Cy Clinician", CLINICIAN)
    for filters, found in (
        ({"person": "ylva"}, {"Ylva"}),
        ({"person": "PATIENT"}, {"Ylva", "Bo"}),
        ({"app": "card"}, {"Ylva", "Cy"}),
        ({"app": "card", "person": "cy"}, {"Cy"}),
        ({"person": "%"}, set()),
        ({"person": "nobody"}, set()),
        ({"person": "\0"}, {"Ylva", "Bo", "Cy"}),
    ):
        words = admin.get(PATH, query_string=filters).words
        assert {name for name in ("Ylva", "Bo", "Cy") if name in words} == found, filters


def test_all_consents_of_a_filter_are_revoked_after_a_question(app, admin):
    revoked = [allowed(app, "Allergy Card", name) for name in ("Ylva", "Bo")]
    other = allowed(app, "Growth Chart", "Ylva")
    question = admin.get(f"{PATH}?app=card").submit("Revoke all matching consents")
    assert "Revoke 2 consents? All users, apps matching “card”." in question.words
    # What is allowed after the question is not revoked.
    later = allowed(app, "Allergy Card", "Cy")
    cy = select(User.id).where(User.name == "Cy").scalar_subquery()
    soon = int(time.time()) + 60
    alter(app, update(Grant).where(Grant.user_id == cy).values(created_at=soon))
    assert statuses(*revoked, other, later) == [200] * 4
    assert "2 consents revoked" in question.submit("Revoke").words
    assert statuses(*revoked, other, later) == [401, 401, 200, 200]


def test_nothing_is_revoked_without_a_filter(app, admin):
    client = allowed(app, "Allergy Card", "Ylva")
    assert "Revoke all matching consents" not in admin.get(PATH).buttons
    for nothing in ({}, {"person": " ", "app": ""}):
        page = admin.post_with_token(f"{PATH}/take-back", until="99999999999", **nothing)
        assert page.status == 400
    assert statuses(client) == [200]


def test_tokens_of_the_pages_are_no_consents(app, admin):
    # To name a patient, this page reads with a token of its own.
    alter(app, delete(Grant).where(Grant.user_id.is_(None)))
    allowed(app, "Allergy Card", "Ylva")
    admin.get(PATH)
    pages = select(Client.client_id).where(Client.kind == OF_PAGES)
    own = select(func.count()).select_from(Grant)
    own = own.where(Grant.client_id.in_(pages), Grant.revoked_at.is_(None))
    ((count,),) = rows(app, own)
    assert count == 1
    assert "1 consent active." in admin.get(PATH).words
    assert "The pages of this server" not in admin.get(f"{PATH}?person=robin&ended=1").words
    form = {"person": "robin", "until": str(int(time.time()) + 60)}
    page = admin.post_with_token(f"{PATH}/take-back", **form)
    assert "Nothing was changed." in page.words


def test_many_consents_are_read_page_by_page(app, admin, monkeypatch):
    monkeypatch.setattr(consents, "SHOWN", 5)
    program, user_id, now = add_program(app), add_user(app, CLINICIAN), int(time.time())
    row = {"user_id": user_id, "client_id": program.client_id, "scope": "user/*.rs"}
    row |= {"signed_in_at": now, "expires_at": now + 3600}
    made: list[dict[str, Any]] = [
        # Many in one second.
        {**row, "id": str(uuid4()), "patient_id": f"p{n % 20}", "created_at": now - n // 6}
        for n in range(24)
    ]
    alter(app, insert(Grant).values(made))
    page, ids = admin.get(PATH), []
    for _ in range(4):
        own = [action for action in page.actions if action.endswith("/take-back")]
        ids += [action.split("/")[3] for action in own]
        page = admin.get(page.links["Older"])
    order = sorted(made, key=lambda grant: (grant["created_at"], grant["id"]), reverse=True)
    assert ids == [grant["id"] for grant in order[:20]]
    for older in ("x", "1~", "99999999999999999999~x", "-1~x"):
        assert admin.get(PATH, query_string={"older": older}).status == 200
