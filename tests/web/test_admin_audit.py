"""The administrator's page of the audit trail: who looked at what, in words; found, downloaded."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from fhir.resources.R4B.auditevent import AuditEvent
from flask import Flask
from sqlalchemy import delete, select, update

from fhirapp.audit.read import entries
from fhirapp.auth.models import (
    ADMINISTRATOR,
    CLINICIAN,
    AccessToken,
    AuthorizationCode,
    Client,
    Grant,
    RefreshToken,
    Session,
    User,
)
from fhirapp.web.admin import audit
from fhirapp.web.admin.audit import guarded
from tests.support.authorizing import Flow, add_program, alter, set_client
from tests.support.browsing import Browser, add_person, id_of
from tests.support.helpers import Fhir, token_for
from tests.support.trails import forget

PATH = "/admin/audit"
SCOPE = "user/*.rs"


@pytest.fixture(scope="module")
def whole(make_app: Callable[..., Flask]) -> Flask:
    """An app with a trail of its own."""
    return make_app()


@pytest.fixture
def app(whole: Flask) -> Flask:
    """The app, its trail empty, and of those who were in it before no name is left."""
    forget(whole)
    alter(
        whole,
        update(User).values(name="Z"),
        update(Client).where(Client.kind == "public").values(name="Z"),
    )
    return whole


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR, name="Alex Admin"))


@pytest.fixture
def operator(app: Flask) -> Fhir:
    """A program that may see everything."""
    return Fhir(app, token_for(app, "system/*.rs"))


def someone(app: Flask, name: str, program: str = "Growth Chart") -> Fhir:
    """Return an app of a clinician with this name."""
    client = add_program(app)
    set_client(app, client, name=program)
    return Flow(app, client, id_of(app, add_person(app, CLINICIAN, name=name))).fhir(SCOPE)


def downloaded(admin: Browser, form: str = "ndjson", **asked: str) -> list[dict[str, Any]]:
    answer = admin.get(f"{PATH}/download/{form}", query_string=asked).response
    assert answer.status_code == 200
    if form == "ndjson":
        return [json.loads(line) for line in answer.data.splitlines()]
    return list(csv.DictReader(io.StringIO(answer.data.decode("utf-8-sig"))))


def paths(admin: Browser, **asked: str) -> list[str]:
    """Return what is found, the newest first, but for what these pages asked."""
    found = downloaded(admin, **asked)
    return [one["path"] for one in found if one["via"] != "audit" and not one["event"]]


def test_of_an_empty_trail_the_page_says_so(admin):
    page = admin.get(PATH)
    assert page.status == 200
    assert "No requests yet." in page.words


def test_an_entry_tells_who_searched_what_of_whom_by_what(app, admin):
    client = someone(app, "Dr. Adeyemi")
    answer = client.get("AllergyIntolerance?patient=p1")
    words = admin.get(PATH).words
    count = len(answer.get_json(force=True)["entry"])
    assert (
        "Dr. Adeyemi searched allergies and intolerances of Amelia Rose Hartwell via the app "
        f"Growth Chart: {count} records." in words
    )
    assert "GET /fhir/AllergyIntolerance?patient=p1" in words
    assert " ms · request " in words


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("AllergyIntolerance/al-p1-latex", "opened an allergy of Amelia Rose Hartwell: 1 record."),
        ("Patient/p1", "opened personal details of Amelia Rose Hartwell: 1 record."),
        ("Patient/p1/$everything", "read everything of Amelia Rose Hartwell: "),
        ("Patient/p1/_history", "viewed the history of personal details of Amelia Rose"),
        ("Patient/p1/_history/1", "opened one version of personal details of Amelia Rose Hartwell"),
        (
            "AllergyIntolerance?patient=nobody",
            "searched allergies and intolerances of nobody: no record.",
        ),
        ("DocumentReference?_content=x&patient=p2", "searched notes and documents by full text"),
        ("Patient/nobody", "tried to open personal details of nobody: not found (404)."),
        (
            "AllergyIntolerance?date=x",
            "tried to search allergies and intolerances: invalid request (400).",
        ),
        ("Nonsense", "Unknown user tried to search Nonsense: not found (404)."),
        ("metadata", "read the CapabilityStatement: answered."),
        ("Encounter/%00", "tried to"),
        ("?x=1", "searched several types of"),
        ("?_sort=x", "tried to search several types"),
        ("Patient/nobody/*", "searched several types of nobody"),
        ("Patient/nobody/AllergyIntolerance", "searched allergies and intolerances of nobody"),
        ("_history", "searched several types"),
    ],
)
def test_each_kind_of_request_is_told_in_words(admin, operator, path, said):
    operator.get(f"/fhir{path}" if path.startswith("?") else path)
    assert said in admin.get(PATH).words


def test_a_search_by_post_tells_of_whom_it_was(admin, operator):
    operator.post("AllergyIntolerance/_search", {"patient": "p1"})
    words = admin.get(PATH).words
    assert (
        "Operator on the shell searched allergies and intolerances of Amelia Rose Hartwell: "
        in words
    )
    assert "patient=p1" in words


def test_of_many_patients_how_many_others_there_are_is_told(admin, operator):
    found = operator.read("AllergyIntolerance?_count=1000")
    whose = {one["resource"]["patient"]["reference"] for one in found["entry"]}
    assert len(whose) > 4
    words = admin.get(PATH).words
    assert f"and {len(whose) - 3} others: {len(found['entry'])} records." in words


def test_a_refusal_is_told_and_leads_to_its_reason(app, admin):
    narrow = Fhir(app, token_for(app, "system/Patient.rs"))
    answer = narrow.get("AllergyIntolerance?patient=p1")
    page = admin.get(PATH)
    assert (
        "tried to search allergies and intolerances of Amelia Rose Hartwell: refused (403)."
        in page.words
    )
    link = page.links["See why it was refused"]
    assert link == f"/admin/refusals?id={answer.headers['X-Request-Id']}"


def test_names_are_read_with_the_administrators_own_token_and_that_is_noted(app, admin, operator):
    operator.get("Patient/p1")
    admin.get(PATH)
    with app.app_context():
        own, asked = entries()
    assert (own.via, own.client_id) == ("audit", "pages")
    assert [one.split("/")[1] for one in own.served] == ["p1"]
    assert asked.via == ""
    said = "Alex Admin read patient names of Amelia Rose Hartwell via the administration pages"
    assert said in admin.get(PATH).words


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, "dcba"),
        ({"patient": "Amelia"}, "ba"),
        ({"patient": "p1"}, "ba"),
        ({"patient": "Patient/p2"}, "c"),
        ({"patient": "not-here"}, ""),
        ({"user": "adeyemi"}, "db"),
        ({"client": "growth"}, "db"),
        ({"client": "operator"}, "ca"),
        ({"status": "404"}, "d"),
        ({"status": "200", "user": "adeyemi"}, "b"),
        ({"via": "apps"}, "dcba"),
        ({"via": "explore"}, ""),
        ({"since": "{today}"}, "dcba"),
        ({"until": "{today}"}, "dcba"),
        ({"until": "{yesterday}"}, ""),
        ({"since": "{tomorrow}"}, ""),
        ({"since": "2020", "until": "2020-05"}, ""),
    ],
)
def test_entries_are_found_by_what_is_asked(app, admin, operator, asked, found):
    client, today = someone(app, "Dr. Adeyemi"), datetime.now(UTC).date()
    looked = {
        "a": (operator, "Patient/p1"),
        "b": (client, "AllergyIntolerance?patient=p1"),
        "c": (operator, "Patient/p2"),
        "d": (client, "Patient/nobody"),
    }
    for who, path in looked.values():
        who.get(path)
    words = {
        "today": str(today),
        "yesterday": str(today - timedelta(1)),
        "tomorrow": str(today + timedelta(1)),
    }
    given = {name: value.format(**words) for name, value in asked.items()}
    assert paths(admin, **given) == [f"/fhir/{looked[one][1]}" for one in found]
    # The page finds what the download has.
    page = admin.get(PATH, query_string=given)
    assert [path for path in looked.values() if f"GET /fhir/{path[1]} " in page.words] == [
        looked[one] for one in sorted(found)
    ]


def test_a_name_that_several_have_is_asked_back(app, admin, operator):
    operator.get("Patient/p1")
    page = admin.get(f"{PATH}?patient=a")
    assert "Which patient?" in page.words
    assert "GET /fhir" not in page.words
    (link,) = [one for name, one in page.links.items() if name.startswith("Amelia Rose Hartwell")]
    assert "opened personal details of Amelia Rose Hartwell" in admin.get(link).words
    for name in ("Robin One", "Robin Two"):
        add_person(app, CLINICIAN, name=name)
    assert "Which user?" in admin.get(f"{PATH}?user=robin").words
    assert admin.get(f"{PATH}/download/csv?user=robin").status == 400


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"user": "nobody at all"}, "No matching user."),
        ({"client": "nothing"}, "No matching app."),
        ({"patient": "Zzz Nobody"}, "No matching patient."),
        ({"status": "x"}, "A status has three digits"),
        ({"since": "May"}, "Enter the date as"),
        ({"until": "2020-13"}, "Enter the date as"),
    ],
)
def test_what_means_nobody_or_nothing_is_told(admin, operator, asked, said):
    operator.get("Patient/p1")
    page = admin.get(PATH, query_string=asked)
    assert page.status == 400
    assert said in page.words
    assert "GET /fhir" not in page.words
    assert admin.get(f"{PATH}/download/ndjson", query_string=asked).status == 400


def test_older_entries_follow_page_by_page(app, admin, operator):
    for number in range(audit.SHOWN + 10):
        operator.get(f"Patient?name=n{number}x")
    page = admin.get(f"{PATH}?via=apps")
    first = [number for number in range(60) if f"name=n{number}x" in page.words]
    page = admin.get(page.links["Older"])
    second = [number for number in range(60) if f"name=n{number}x" in page.words]
    assert (first, second) == ([*range(10, 60)], [*range(10)])
    assert "Older" not in page.links
    assert "name=n59x" in admin.get(page.links["Newest"]).words


@pytest.mark.parametrize("before", ["x", "-1", "9" * 40, "²", "0"])
def test_a_place_that_nobody_gave_out_is_no_failure(admin, operator, before):
    operator.get("Patient/p1")
    assert admin.get(PATH, query_string={"before": before}).status == 200


def test_hostile_names_and_addresses_are_text(app, admin):
    evil = "<script>alert(1)</script>\u202egnp" + "W" * 5_000
    client = someone(app, evil, evil)
    client.get("Patient?name=<script>alert(2)</script>")
    page = admin.get(PATH)
    assert "<script>alert" not in page.response.text
    assert "<script>alert(1)</script>" in page.words
    assert len(page.response.text) < 30_000


def test_who_is_not_here_any_more_is_told_so(app, admin):
    client = someone(app, "Dr. Adeyemi")
    client.get("Patient/p1")
    admin.get(PATH)
    with app.app_context():
        (user_id,) = {one.user_id for one in entries(via="")}
    of = Grant.user_id == user_id
    grants = select(Grant.id).where(of).scalar_subquery()
    issued = (AccessToken, AuthorizationCode, RefreshToken)
    alter(
        app,
        *(delete(one).where(one.grant_id.in_(grants)) for one in issued),
        delete(Grant).where(of),
        delete(Session).where(Session.user_id == user_id),
        delete(User).where(User.id == user_id),
    )
    assert "Deleted user opened personal details" in admin.get(PATH).words


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_a_download_has_each_entry_whole(app, admin, kind):
    client = someone(app, "Dr. Adeyemi")
    client.get("AllergyIntolerance/al-p1-latex")
    (row,) = downloaded(admin, kind, via="apps")
    assert row["user_name"] == "Dr. Adeyemi"
    assert row["client_name"] == "Growth Chart"
    assert (row["method"], row["path"]) == ("GET", "/fhir/AllergyIntolerance/al-p1-latex")
    assert int(row["status"]) == 200
    assert int(row["records"]) == 1
    served = row["served"] if kind == "ndjson" else row["served"].split()
    assert [one.rpartition("/")[0] for one in served] == ["AllergyIntolerance/al-p1-latex"]
    assert row["at"].startswith(str(datetime.now(UTC).year))
    answer = admin.get(f"{PATH}/download/{kind}").response
    assert answer.headers["Content-Disposition"] == f'attachment; filename="audit.{kind}"'
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"


def test_a_download_as_fhir_has_an_event_for_each_entry(app, admin):
    someone(app, "Dr. Okafor").get("AllergyIntolerance/al-p1-latex")
    answer = admin.get(f"{PATH}/download/fhir").response
    assert answer.content_type == "application/fhir+ndjson"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="AuditEvent.ndjson"'
    found = [AuditEvent(**json.loads(line)) for line in answer.data.splitlines()]
    assert len(found) == len(downloaded(admin, "ndjson")) - 1
    assert len({one.id for one in found}) == len(found)


@pytest.mark.parametrize(
    "text", ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n=1"]
)
def test_no_cell_is_a_formula(app, admin, text):
    assert guarded(text) == f"'{text}"
    client = someone(app, f"={text}")
    client.post("Patient/_search", text, content_type="application/x-www-form-urlencoded")
    (row,) = [one for one in downloaded(admin, "csv", kind="records") if one["via"] == ""]
    assert row["user_name"] == f"'={text}"
    assert not any(cell.strip(" ").startswith(("=", "+", "-", "@")) for cell in row.values())


def test_a_download_that_is_cut_off_says_so(admin, operator, monkeypatch):
    monkeypatch.setattr(audit, "MOST", 3)
    monkeypatch.setattr(audit, "_AT_ONCE", 2)
    operator.get("Patient?name=n0")
    operator.get("Patient?name=n1")
    # A download is an entry too.
    assert [one["path"][-2:] for one in downloaded(admin, kind="records")] == ["on", "n1", "n0"]
    operator.get("Patient?name=n2")
    *rows, last = downloaded(admin, kind="records")
    assert [one["path"][-2:] for one in rows] == ["on", "n2", "on"]
    assert last["more"].startswith("There are more than 3 entries")
    rows = downloaded(admin, "csv", kind="records")
    assert rows[-1]["number"].startswith("There are more than 3 entries")


def test_a_download_of_another_kind_is_404(admin):
    assert admin.get(f"{PATH}/download/xlsx").status == 404


def test_until_covers_the_whole_day(app, admin, operator):
    operator.get("Patient/p1")
    with app.app_context():
        (found,) = entries()
    assert paths(admin, until=str(date.fromisoformat(found.at[:10]))) == ["/fhir/Patient/p1"]
