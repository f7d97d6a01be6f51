"""The administrator's page of the audit trail: who did what with whose records, and downloads."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fhir.resources.R4B.auditevent import AuditEvent
from flask import Flask
from sqlalchemy import delete, select, update

from fhirapp.audit.entries import entries
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
from tests.support.importing import lines, load, write
from tests.support.pages import browser_of, texts
from tests.support.records import patient
from tests.support.trails import forget

PATH = "/admin/audit"
HARTWELL = "Amelia Rose Hartwell"


@pytest.fixture(scope="module")
def whole(make_app: Callable[..., Flask]) -> Flask:
    """An app with a trail of its own."""
    return make_app()


@pytest.fixture
def app(whole: Flask) -> Flask:
    """The app, its trail empty, and without a name of those who were in it before."""
    forget(whole)
    of_public = update(Client).where(Client.kind == "public")
    alter(whole, update(User).values(name="Z"), of_public.values(name="Z"))
    return whole


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR, name="Alex Admin"))


@pytest.fixture
def operator(app: Flask) -> Fhir:
    """A client that may see everything."""
    return Fhir(app, token_for(app, "system/*.rs"))


def app_of(app: Flask, name: str, program: str = "Growth Chart") -> Fhir:
    """Return an app of a clinician with this name."""
    client = add_program(app)
    set_client(app, client, name=program)
    user_id = id_of(app, add_person(app, CLINICIAN, name=name))
    return Flow(app, client, user_id).fhir("user/*.rs")


def downloaded(admin: Browser, form: str = "ndjson", **filters: str) -> list[dict[str, Any]]:
    answer = admin.get(f"{PATH}/download/{form}", query_string=filters).response
    assert answer.status_code == 200
    if form == "ndjson":
        return [json.loads(line) for line in answer.data.splitlines()]
    return list(csv.DictReader(io.StringIO(answer.data.decode("utf-8-sig"))))


def test_entry_says_who_searched_what_of_whom_through_which_app(app, admin):
    assert "No requests yet." in admin.get(PATH).words
    answer = app_of(app, "Dr. Adeyemi").get("AllergyIntolerance?patient=p1")
    words = admin.get(PATH).words
    count = len(answer.get_json(force=True)["entry"])
    assert (
        f"Dr. Adeyemi searched allergies and intolerances of {HARTWELL} via the app "
        f"Growth Chart: {count} records." in words
    )
    assert "GET /fhir/AllergyIntolerance?patient=p1" in words
    # Names are read with the administrator's own token, and that is noted.
    with app.app_context():
        own, search = entries()
    assert (own.via, own.client_id, search.via) == ("audit", "pages", "")
    assert [row.split("/")[1] for row in own.served] == ["p1"]
    said = f"Alex Admin read patient names of {HARTWELL} via the administration pages"
    assert said in admin.get(PATH).words


# Requests, and how the page describes them.
DESCRIBED = {
    "AllergyIntolerance/al-p1-latex": f"opened an allergy of {HARTWELL}: 1 record.",
    "Patient/p1": f"opened personal details of {HARTWELL}: 1 record.",
    "Patient/p1/$everything": f"read everything of {HARTWELL}: ",
    "Patient/p1/_history": f"viewed the history of personal details of {HARTWELL}",
    "Patient/p1/_history/1": f"opened one version of personal details of {HARTWELL}",
    "AllergyIntolerance?patient=no": "searched allergies and intolerances of no: no record.",
    "DocumentReference?_content=x&patient=p2": "searched notes and documents by full text",
    "Patient/nobody": "tried to open personal details of nobody: not found (404).",
    "AllergyIntolerance?date=x": "search allergies and intolerances: invalid request (400).",
    "Nonsense": "Unknown user tried to search Nonsense: not found (404).",
    "metadata": "read the CapabilityStatement: answered.",
    "Encounter/%00": "tried to",
    "/fhir?x=1": "searched several types of",
    "/fhir?_sort=x": "tried to search several types",
    "Patient/nobody/*": "searched several types of nobody",
    "Patient/nobody/AllergyIntolerance": "searched allergies and intolerances of nobody",
    "_history": "searched several types",
}


@pytest.mark.parametrize("half", [0, 1])
def test_each_kind_of_request_is_described(admin, operator, half):
    described = dict([*DESCRIBED.items()][half::2])
    for path in described:
        operator.get(path)
    # Each entry says what was done, and then with which method and address.
    entry = r"(.*?) · request \w+ Request details Request GET (\S+)"
    shown = re.findall(entry, admin.get(PATH).words)
    said = {path.removeprefix("/fhir/"): words for words, path in shown}
    found = {path: words if words in said.get(path, "") else said.get(path)
             for path, words in described.items()}  # fmt: skip
    assert found == described


def test_search_by_post_is_described_with_its_form(admin, operator):
    operator.post("AllergyIntolerance/_search", {"patient": "p1"})
    words = admin.get(PATH).words
    assert f"shell searched allergies and intolerances of {HARTWELL}: " in words
    assert "patient=p1" in words


def test_number_of_other_patients_is_told(admin, operator):
    found = operator.read("AllergyIntolerance?_count=1000")["entry"]
    patients = {entry["resource"]["patient"]["reference"] for entry in found}
    assert len(patients) > 4
    told = f"and {len(patients) - 3} others: {len(found)} records."
    assert told in admin.get(PATH).words


def test_refusal_links_to_its_reason(app, admin):
    answer = Fhir(app, token_for(app, "system/Patient.rs")).get("AllergyIntolerance?patient=p1")
    page = admin.get(PATH)
    assert f"allergies and intolerances of {HARTWELL}: refused (403)." in page.words
    path = f"/admin/refusals?id={answer.headers['X-Request-Id']}"
    assert path in page.offered.values()


def test_entries_are_found_by_user_app_patient_status_and_day(app, admin, operator):
    client, today = app_of(app, "Dr. Adeyemi"), datetime.now(UTC).date()
    requests = {
        "a": (operator, "Patient/p1"),
        "b": (client, "AllergyIntolerance?patient=p1"),
        "c": (operator, "Patient/p2"),
        "d": (client, "Patient/nobody"),
    }
    for asking, path in requests.values():
        asking.get(path)
    yesterday, tomorrow = str(today - timedelta(1)), str(today + timedelta(1))
    for filters, found in (
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
        ({"since": str(today)}, "dcba"),
        ({"until": str(today)}, "dcba"),
        ({"until": yesterday}, ""),
        ({"since": tomorrow}, ""),
        ({"since": "2020", "until": "2020-05"}, ""),
    ):
        rows = downloaded(admin, **filters)
        paths = [row["path"] for row in rows if row["via"] != "audit" and not row["event"]]
        assert paths == [f"/fhir/{requests[key][1]}" for key in found], filters
        if len(filters) > 1 or "via" in filters or "since" in filters or "until" in filters:
            continue
        # The page finds what the download has.
        words = admin.get(PATH, query_string=filters).words
        shown = [key for key, (_, path) in requests.items() if f"GET /fhir/{path} " in words]
        assert shown == sorted(found), filters


def test_ambiguous_or_unknown_filter_finds_nothing_and_says_so(app, admin, operator):
    operator.get("Patient/p1")
    page = admin.get(f"{PATH}?patient=a")
    assert "GET /fhir" not in page.words
    (path,) = [path for name, path in page.links.items() if name.startswith(HARTWELL)]
    assert f"opened personal details of {HARTWELL}" in admin.get(path).words
    for name in ("Robin One", "Robin Two"):
        add_person(app, CLINICIAN, name=name)
    assert "Which user?" in admin.get(f"{PATH}?user=robin").words
    assert admin.get(f"{PATH}/download/csv?user=robin").status == 400
    for filters in (
        {"user": "nobody at all"},
        {"client": "nothing"},
        {"patient": "Zzz Nobody"},
        {"status": "x"},
        {"since": "May"},
        {"until": "2020-13"},
    ):
        page = admin.get(PATH, query_string=filters)
        assert (page.status, len(page.alerts)) == (400, 1), filters
        assert "GET /fhir" not in page.words
        assert admin.get(f"{PATH}/download/ndjson", query_string=filters).status == 400


@pytest.mark.parametrize("field", ["patient", "user", "client"])
def test_filter_without_a_word_reads_nobodys_name(app, admin, field):
    page = admin.get(PATH, query_string={field: ","})
    assert (page.status, "No matching" in page.words, "Which" in page.words) == (400, True, False)
    with app.app_context():
        assert entries() == []


def test_view_of_a_chart_is_one_line_that_unfolds(app, admin):
    browser_of(app, CLINICIAN).get("/patients/p1")
    page = admin.get(f"{PATH}?via=chart")
    (summary,) = [text for text in texts(page, "summary") if "viewed records" in text]
    assert f"viewed records of {HARTWELL} via the chart: " in summary
    assert "requests, " in summary
    assert f"searched notes and documents of {HARTWELL}" in page.words
    # However often the trail is read, the names that it shows are one line.
    for _time in range(3):
        page = admin.get(f"{PATH}?via=audit")
    (summary,) = [text for text in texts(page, "summary") if "administration pages" in text]
    assert summary.startswith("Alex Admin viewed records")


def test_import_is_shown_with_its_result(app, admin, tmp_path):
    load(app, write(tmp_path, lines(patient("new")), "lab.ndjson"), source="lab", who="operator")
    words = admin.get(PATH, query_string={"kind": "administration"}).words
    assert "imported records: run 1; source lab; by operator; 1 read, 1 new." in words


def test_older_entries_follow_page_by_page(admin, operator, monkeypatch):
    monkeypatch.setattr(audit, "SHOWN", 5)
    for number in range(7):
        operator.get(f"Patient?name=n{number}x")
    page = admin.get(f"{PATH}?via=apps")
    older = admin.get(page.links["Older"])
    newest = admin.get(older.links["Newest"])
    shown = [[n for n in range(7) if f"name=n{n}x" in p.words] for p in (page, older, newest)]
    assert shown == [[2, 3, 4, 5, 6], [0, 1], [2, 3, 4, 5, 6]]
    assert "Older" not in older.links
    for before in ("x", "-1", "9" * 40, "²", "0"):
        assert admin.get(PATH, query_string={"before": before}).status == 200


def test_deleted_user_is_shown_as_such(app, admin):
    app_of(app, "Dr. Adeyemi").get("Patient/p1")
    admin.get(PATH)
    with app.app_context():
        (user_id,) = {entry.user_id for entry in entries(via="")}
    grants = select(Grant.id).where(Grant.user_id == user_id).scalar_subquery()
    issued = (AccessToken, AuthorizationCode, RefreshToken)
    alter(
        app,
        *(delete(table).where(table.grant_id.in_(grants)) for table in issued),
        *(delete(table).where(table.user_id == user_id) for table in (Grant, Session)),
        delete(User).where(User.id == user_id),
    )
    assert "Deleted user opened personal details" in admin.get(PATH).words


@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_download_has_each_entry_whole(app, admin, kind):
    app_of(app, "Dr. Adeyemi").get("AllergyIntolerance/al-p1-latex")
    (row,) = downloaded(admin, kind, via="apps")
    served = row["served"] if kind == "ndjson" else row["served"].split()
    assert [name.rpartition("/")[0] for name in served] == ["AllergyIntolerance/al-p1-latex"]
    expected = {
        "user_name": "Dr. Adeyemi",
        "client_name": "Growth Chart",
        "method": "GET",
        "path": "/fhir/AllergyIntolerance/al-p1-latex",
        "status": "200",
        "records": "1",
    }
    assert {name: str(row[name]) for name in expected} == expected
    assert row["at"].startswith(str(datetime.now(UTC).year))
    headers = admin.get(f"{PATH}/download/{kind}").headers
    assert headers["Content-Disposition"] == f'attachment; filename="audit.{kind}"'
    assert headers["Cache-Control"] == "no-store"
    assert headers["X-Content-Type-Options"] == "nosniff"


def test_download_as_fhir_has_an_event_for_each_entry(app, admin):
    app_of(app, "Dr. Okafor").get("AllergyIntolerance/al-p1-latex")
    answer = admin.get(f"{PATH}/download/fhir").response
    assert answer.content_type == "application/fhir+ndjson"
    assert answer.headers["Content-Disposition"] == 'attachment; filename="AuditEvent.ndjson"'
    found = [AuditEvent(**json.loads(line)) for line in answer.data.splitlines()]
    assert len(found) == len(downloaded(admin, "ndjson")) - 1
    assert len({event.id for event in found}) == len(found)
    assert admin.get(f"{PATH}/download/xlsx").status == 404


def test_no_cell_of_a_download_is_a_formula(app, admin):
    texts = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "  =1", "\n=1"]
    assert [guarded(text) for text in texts] == [f"'{text}" for text in texts]
    client = app_of(app, texts[0])
    client.post("Patient/_search", texts[3], content_type="application/x-www-form-urlencoded")
    (row,) = [row for row in downloaded(admin, "csv", kind="records") if row["via"] == ""]
    assert row["user_name"] == f"'{texts[0]}"
    assert not any(cell.strip(" ").startswith(("=", "+", "-", "@")) for cell in row.values())


def test_download_that_is_cut_off_says_so(admin, operator, monkeypatch):
    monkeypatch.setattr(audit, "MOST", 3)
    monkeypatch.setattr(audit, "_AT_ONCE", 2)
    operator.get("Patient?name=n0")
    operator.get("Patient?name=n1")
    # A download is an entry too.
    rows = downloaded(admin, kind="records")
    assert [row["path"][-2:] for row in rows] == ["on", "n1", "n0"]
    operator.get("Patient?name=n2")
    *rows, last = downloaded(admin, kind="records")
    assert [row["path"][-2:] for row in rows] == ["on", "n2", "on"]
    assert last["more"].startswith("There are more than 3 entries")
    last = downloaded(admin, "csv", kind="records")[-1]
    assert last["number"].startswith("There are more than 3 entries")
