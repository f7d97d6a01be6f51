"""The administrator's page of consents: who allowed which app what, and how it is taken back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from flask import Flask
from sqlalchemy import func, insert, select, update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, OF_PAGES, PATIENT, Client, Grant, User
from tests.support.authorizing import Flow, Program, add_program, alter, rows, set_client, set_user
from tests.support.authorizing import add_person as add_user
from tests.support.browsing import Browser, Page, add_person
from tests.support.helpers import Fhir

PATH = "/admin/grants"
SCOPE = "launch/patient offline_access patient/*.rs"
_SEARCH = "AllergyIntolerance"


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    """An app in which nobody has allowed anything yet."""
    return make_app()


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def program_called(app: Flask, name: str) -> Program:
    program = add_program(app)
    set_client(app, program, name=name)
    return program


def allowed(app: Flask, program: Program, who: str, role: str = PATIENT) -> Fhir:
    """Have somebody of this name allow an app to see the record p1."""
    user_id = add_user(app, role, *(("p1",) if role == PATIENT else ()))
    set_user(app, user_id, name=who)
    patient = None if role == PATIENT else "p1"
    return Flow(app, program, user_id).fhir(SCOPE, patient=patient)


def status_of(client: Fhir) -> int:
    return client.get(_SEARCH).status_code


def buttons(page: Page) -> list[str]:
    return [label for form in page.forms for label in form.buttons]


# Names are searched for, in user names too: none is of hexadecimal digits.


def test_nobody_has_allowed_anything_yet(admin):
    page = admin.get(PATH)
    assert page.status == 200
    assert "No app has access." in page.words
    assert "Revoke" not in buttons(page)


def test_a_consent_tells_who_allowed_which_app_what_about_whose_record(app, admin):
    allowed(app, program_called(app, "Allergy Card"), "Ylva Patient")
    words = admin.get(PATH).words
    assert "1 consent active." in words
    for shown in (
        "Ylva Patient patient allowed Allergy Card",
        "Amelia Rose Hartwell born 12 April 1958",
        "See everything in the record",
        "token of",
        "until",
    ):
        assert shown in words


def test_what_is_taken_back_is_refused_at_the_next_request_and_nothing_else(app, admin):
    program = program_called(app, "Allergy Card")
    taken, stays = allowed(app, program, "Ylva Patient"), allowed(app, program, "Bo Patient")
    assert status_of(taken) == 200
    page = admin.get(f"{PATH}?person=ylva").submit("Revoke")
    assert "1 consent revoked" in page.words
    assert status_of(taken) == 401
    assert status_of(stays) == 200
    # The filter is as it was.
    assert page.form("Search").fields["person"] == "ylva"


def test_what_does_not_hold_any_more_is_shown_only_if_asked_for(app, admin):
    allowed(app, program_called(app, "Allergy Card"), "Ylva Patient")
    admin.get(PATH).submit("Revoke")
    assert "Ylva Patient" not in admin.get(PATH).words
    page = admin.get(PATH).submit("Search", ended="1")
    assert "Ylva Patient" in page.words
    assert "no longer active" in page.words
    assert "Revoke" not in buttons(page)


def test_a_consent_that_was_taken_back_cannot_be_so_twice(app, admin):
    allowed(app, program_called(app, "Allergy Card"), "Ylva Patient")
    page = admin.get(PATH)
    page.submit("Revoke")
    assert "Nothing was changed." in page.submit("Revoke").words


@pytest.mark.parametrize("key", ["0b7c2f0e-5d3a-4c55-9c6f-1f4a2f9a7b10", "nonsense"])
def test_a_consent_that_is_not_there_is_404(admin, key):
    form = {"form_token": admin.get(PATH).form("Sign out").fields["form_token"]}
    assert admin.post(f"{PATH}/{key}/take-back", form).status == 404


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"person": "ylva"}, {"Ylva"}),
        ({"person": "PATIENT"}, {"Ylva", "Bo"}),
        ({"app": "card"}, {"Ylva", "Cy"}),
        ({"app": "card", "person": "cy"}, {"Cy"}),
        ({"person": "%"}, set()),
        ({"person": "nobody"}, set()),
        ({"person": "\0"}, {"Ylva", "Bo", "Cy"}),
    ],
)
def test_consents_are_found_by_person_and_by_app(app, admin, asked, found):
    card, chart = program_called(app, "Allergy Card"), program_called(app, "Growth Chart")
    allowed(app, card, "Ylva Patient")
    allowed(app, chart, "Bo Patient")
    allowed(app, card, "Cy Clinician", CLINICIAN)
    words = admin.get(PATH, query_string=asked).words
    assert {name for name in ("Ylva", "Bo", "Cy") if name in words} == found


def test_all_of_a_filter_are_taken_back_after_asking_once_more(app, admin):
    card, chart = program_called(app, "Allergy Card"), program_called(app, "Growth Chart")
    taken = [allowed(app, card, name) for name in ("Ylva", "Bo")]
    stays = allowed(app, chart, "Ylva")
    asked = admin.get(f"{PATH}?app=card").submit("Revoke all matching consents")
    assert "Revoke 2 consents? All users, apps matching “card”." in asked.words
    assert [status_of(one) for one in (*taken, stays)] == [200] * 3
    page = asked.submit("Revoke")
    assert "2 consents revoked" in page.words
    assert [status_of(one) for one in taken] == [401, 401]
    assert status_of(stays) == 200


def test_what_is_allowed_after_the_question_is_not_taken_back(app, admin):
    card = program_called(app, "Allergy Card")
    allowed(app, card, "Ylva")
    asked = admin.get(f"{PATH}?app=card").submit("Revoke all matching consents")
    later = allowed(app, card, "Bo")
    bo = select(User.id).where(User.name == "Bo").scalar_subquery()
    soon = int(time.time()) + 60
    alter(app, update(Grant).where(Grant.user_id == bo).values(created_at=soon))
    assert "1 consent revoked" in asked.submit("Revoke").words
    assert status_of(later) == 200


def test_without_a_filter_nothing_is_taken_back(app, admin):
    client = allowed(app, program_called(app, "Allergy Card"), "Ylva")
    page = admin.get(PATH)
    assert "Revoke all matching consents" not in buttons(page)
    form = {"form_token": page.form("Revoke").fields["form_token"], "until": "99999999999"}
    for nothing in ({}, {"person": " ", "app": ""}):
        answer = admin.post(f"{PATH}/take-back", form | nothing)
        assert answer.status == 400
        assert "Enter a user or an app first." in answer.words
    assert status_of(client) == 200


def test_the_pages_own_grants_are_no_consents(app, admin):
    # To name a patient, this page reads with a token of its own.
    allowed(app, program_called(app, "Allergy Card"), "Ylva")
    admin.get(PATH)
    pages = select(Client.client_id).where(Client.kind == OF_PAGES)
    own = select(func.count()).select_from(Grant).where(Grant.client_id.in_(pages))
    ((count,),) = rows(app, own)
    assert count == 1
    assert "1 consent active." in admin.get(PATH).words
    page = admin.get(f"{PATH}?person=robin&ended=1")
    assert "The pages of this server" not in page.words
    form = {"form_token": page.form("Sign out").fields["form_token"]}
    form |= {"person": "robin", "until": str(int(time.time()) + 60)}
    assert "Nothing was changed." in admin.post(f"{PATH}/take-back", form).words


def test_hostile_names_are_text(app, admin):
    evil = "<script>alert(1)</script>\u202egnp" + "W" * 5_000
    allowed(app, program_called(app, evil), evil)
    page = admin.get(PATH)
    assert "<script>alert" not in page.response.text
    assert "<script>alert(1)</script>" in page.words
    assert len(page.response.text) < 30_000


def test_ten_thousand_consents_are_read_page_by_page(app, admin):
    program = program_called(app, "Allergy Card")
    user_id, now = add_user(app, CLINICIAN), int(time.time())
    made: list[dict[str, Any]] = [
        {
            "id": str(uuid4()),
            "user_id": user_id,
            "client_id": program.client_id,
            "scope": "user/*.rs",
            "patient_id": f"p{number % 20}",
            "signed_in_at": now,
            # Many in one second.
            "created_at": now - number // 300,
            "expires_at": now + 3600,
        }
        for number in range(10_000)
    ]
    for at in range(0, len(made), 1_000):
        alter(app, insert(Grant).values(made[at : at + 1_000]))
    page, ids = admin.get(PATH), []
    assert "10000 consents active." in page.words
    for _ in range(4):
        ids += [one.action.split("/")[3] for one in page.forms if one.action.endswith("take-back")]
        page = admin.get(page.links["Older"])
    order = sorted(made, key=lambda one: (one["created_at"], one["id"]), reverse=True)
    assert ids == [one["id"] for one in order[:200]]
    assert admin.get(page.links["Newest"]).words.count("Allergy Card") == 50


@pytest.mark.parametrize("older", ["x", "1", "1~", "~", "99999999999999999999~x", "1~é", "-1~x"])
def test_a_place_that_nobody_gave_out_is_no_failure(admin, older):
    assert admin.get(PATH, query_string={"older": older}).status == 200


@pytest.mark.parametrize("done", ["<b>", "-1", "1e9", "9" * 30, "²"])
def test_a_confirmation_is_one_of_ours(admin, done):
    page = admin.get(PATH, query_string={"done": done})
    assert page.status == 200
    assert 'role="status"' not in page.response.text
