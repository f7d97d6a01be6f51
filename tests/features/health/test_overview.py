"""The administrator's overview: what needs attention, and what the server holds."""

from __future__ import annotations

import os
import platform
import re
import shutil
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import delete, insert, text, update

from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, Client, User
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.features.backups.archive import GZIP
from fhirapp.features.backups.backup import why_no_backup
from fhirapp.features.backups.rotation import FOLDER
from fhirapp.features.health import figures
from fhirapp.features.health.examine import examine
from fhirapp.probe import Cost
from fhirapp.store.import_models import ImportRun
from fhirapp.store.migrate import HEAD
from tests.support.app_pages import register
from tests.support.authorizing import add_program, alter
from tests.support.browsing import Browser, Page, add_person
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import BASE_URL, Fhir, token_for

MB = 1_000_000


@pytest.fixture(autouse=True)
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have room on the disk."""
    usage = SimpleNamespace(free=900_000 * MB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: usage)


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app that these tests only read."""
    return make_app(checklist=False, trusted_proxy="127.0.0.1")


@pytest.fixture
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(checklist=False, trusted_proxy="127.0.0.1")


def admin_of(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def back_up(app: Flask, *names: str) -> None:
    folder = settings_of(app).instance / FOLDER
    folder.mkdir(exist_ok=True)
    for number, name in enumerate(names or ["clinic"]):
        path = folder / f"{name}.backup"
        path.write_bytes(GZIP + b" and more")
        # Each a day older than the one before.
        taken_at = time.time() - number * 86_400
        os.utime(path, (taken_at, taken_at))


def run_of(**values: Any) -> Any:
    row = {"inputs": ["x.ndjson"], "who": "ann", "source_id": None, "last_rows": {}}
    row |= {"began_at": "2026-05-03T14:05:00.000+00:00", "ended_at": None, "outcome": None}
    return insert(ImportRun).values(row | values)


def test_overview_says_first_whether_something_needs_attention(app, monkeypatch):
    admin = admin_of(app)
    assert admin.get("/admin").heading == "No problems found"
    register(app, "public", name="Waits")
    page = admin.get("/admin")
    assert page.links["1 app is waiting for approval."] == "/admin/clients"
    assert "second factor" in page.words
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=100 * MB))
    page = admin.get("/admin")
    assert page.heading == "Server is running: 1 item needs attention"
    assert "100 MB free" in page.words


def test_overview_shows_the_findings_of_the_server_check(app):
    back_up(app)
    admin = admin_of(app)
    check = admin.get("/admin/check").words
    with app.app_context():
        findings = examine(Cost.FAST, Cost.REMOTE).findings
    overview = admin.get("/admin").words
    assert {"Disk", "Database", "Audit trail", "Backups", "Accounts"} <= findings.keys()
    for title in ("Audit trail", "Accounts", "Readiness", "Schedules"):
        for finding in findings[title]:
            text, advice = finding.in_english()
            assert text in overview
            assert text in check
            assert advice in overview


def test_findings_are_in_the_language_of_the_page(app):
    back_up(app)
    page = admin_of(app).get("/admin", headers={"Accept-Language": "de"})
    assert re.search(
        r"Die neueste Sicherung ist 0 Tage alt: clinic\.backup, \d+\. \w+ \d{4}", page.words
    )


def test_plain_http_is_a_problem_unless_it_is_this_machine(make_app):
    for base_url, is_problem in (
        ("https://clinic.example", False),
        ("http://localhost:8000", False),
        ("http://clinic.example", True),
    ):
        app = make_app(base_url=base_url, checklist=False, trusted_proxy="127.0.0.1")
        page = admin_of(app).get("/admin")
        assert (page.heading != "No problems found") == is_problem
        assert (f"{base_url} is not encrypted" in page.words) == is_problem


def setup_steps(page: Page) -> dict[str, str]:
    """Return what is still to be set up, with where that is done."""
    found = r'<li><a class="choice" href="([^"]+)"><span><strong>([^<]+)</strong>'
    return {name: path for path, name in re.findall(found, page.response.text)}


def test_setup_checklist_lists_what_is_left_to_do(make_app):
    app = make_app(seed=False, base_url="")
    # Without the users and apps of the demo.
    alter(app, update(User).values(disabled=True), delete(Client))
    admin = admin_of(app)
    page = admin.get("/admin")
    required = {"/admin/users/new", "/admin/users/new?role=administrator", "/admin/imports"}
    required |= {"/admin/backups", "/account/second-factor", "/admin/settings#timezone"}
    optional = {"/docs/deploy", "/apps/register", "/admin/settings#clinic_name"}
    with app.app_context():
        if why_no_backup(settings_of(app)):
            required.remove("/admin/backups")
    assert {*setup_steps(page).values()} == required | optional
    assert f"0 of {len(required)} done" in page.words
    # Links for new users have the address.
    assert next(iter(setup_steps(page).values())) == "/docs/deploy"
    add_person(app, CLINICIAN)
    add_program(app)
    back_up(app)
    alter(app, update(User).where(User.role == ADMINISTRATOR).values(totp_secret=b"x"))
    # One backup is not one each night, and nobody can let the only administrator in again.
    left = {*setup_steps(admin.get("/admin")).values()}
    assert left == required - {"/admin/users/new", "/account/second-factor"} | (
        optional - {"/apps/register"}
    )


def test_setup_checklist_ends_when_all_is_done(make_app):
    app = make_app(trusted_proxy="127.0.0.1", timezone="UTC")
    admin = admin_of(app)
    back_up(app, "monday", "tuesday")
    add_person(app, ADMINISTRATOR)
    left = setup_steps(admin.get("/admin")).values()
    assert {*left} - {"/docs/deploy", "/admin/settings#clinic_name"} == {"/account/second-factor"}
    alter(app, update(User).where(User.role == ADMINISTRATOR).values(totp_secret=b"x"))
    page = admin.get("/admin")
    assert (page.heading, setup_steps(page)) == ("No problems found", {})
    # The demo has nothing to set up.
    assert setup_steps(Browser(make_app(demo=True)).resume("admin").get("/admin")) == {}


def test_note_on_the_only_administrator_links_to_its_remedy(make_app):
    app = make_app(seed=False, checklist=False)
    # Without those of the demo.
    alter(app, update(User).values(disabled=True))
    page = admin_of(app).get("/admin")
    assert page.links["There is only one administrator."] == "/admin/users/new?role=administrator"
    without = next(words for words in page.links if "without a second factor" in words)
    assert page.links[without] == "/admin/users?role=administrator"


def test_setup_checklist_is_hidden_for_all_administrators(make_app):
    app = make_app(seed=False)
    admin, other = admin_of(app), admin_of(app)
    assert admin.get("/admin").send("/checklist").path == "/admin?done=hidden"
    assert [setup_steps(browser.get("/admin")) for browser in (admin, other)] == [{}, {}]
    assert "checklist 'True' to 'False'" in admin.get("/admin/audit?kind=administration").words


def test_overview_and_about_page_name_versions(clinic):
    admin = admin_of(clinic)
    page = admin.get("/admin")
    for shown in ("Version fhirapp 0.2.0", f"FHIR endpoint {BASE_URL}/fhir"):
        assert shown in page.words
    assert "/admin/about" in page.offered.values()
    words = admin.get("/admin/about").words.split("Versions ")[1]
    assert words.startswith("Version fhirapp 0.2.0 installed ")
    assert f"Python {platform.python_version()}" in words
    assert f"Schema {HEAD}" in words
    with clinic.app_context():
        sql = "version()" if settings_of(clinic).is_postgresql else "sqlite_version()"
        version = db.session.execute(text(f"SELECT {sql}")).scalar_one()
    assert re.search(r"(SQLite|PostgreSQL) ([0-9.]+)", words)[2] in version


def test_last_import_backup_and_refusals_are_shown(app):
    admin = admin_of(app)
    outcome = {"Patient": {"new": 2, "same": 1}, "Encounter": {"new": 5}}
    alter(app, run_of(ended_at="2026-05-03T14:06:00.000+00:00", outcome=outcome))
    text = "The last import ended 3 May 2026, 14:06 UTC, by ann: 7 new, 1 unchanged."
    assert admin.get("/admin").links[text] == "/admin/imports"
    alter(app, run_of(who="<b>bo</b>"))
    back_up(app)
    (settings_of(app).instance / FOLDER / "notes.txt").write_text("no backup")
    Fhir(app, token_for(app, "system/Patient.rs")).get("AllergyIntolerance?patient=p1")
    page = admin.get("/admin")
    assert "of 3 May 2026, 14:05 UTC by <b>bo</b>, has not finished" in page.words
    assert re.search(rf"0 days old: clinic\.backup, .+, {len(GZIP) + 9} bytes", page.words)
    text = "Refused requests of known apps in the last 24 hours: 1"
    assert page.links[text] == "/admin/refusals"


def test_numbers_of_records_are_those_of_a_search(clinic):
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    words = admin_of(clinic).get("/admin").words
    with clinic.app_context():
        searched = [
            name
            for name, definition in types().items()
            if definition.searchable and not definition.view
        ]
    assert len(searched) > 5
    for name in searched:
        total = fhir.read(f"{name}?_summary=count&_id:missing=false")["total"]
        assert f" {name} {total} " in words


def test_counting_ends_when_its_time_is_over(clinic):
    with clinic.app_context():
        assert {count.records for count in figures.count_records(budget=0)} == {None}


@pytest.mark.databases(SQLITE, POSTGRESQL)
def test_size_of_the_database_and_free_space_are_shown(clinic):
    words = admin_of(clinic).get("/admin").words
    assert re.search(r"Database (SQLite|PostgreSQL) [0-9.]+.*; its size is [0-9.]+ MB", words)
    assert re.search(r"The disk of \S+: 900\.0 GB free", words)


def test_sizes_are_in_one_line_for_each_kind_and_types_without_records_are_left_out(make_app):
    page = admin_of(make_app(seed=False)).get("/admin")
    size = r"[\d.,]+ (?:bytes|kB|MB|GB|TB)"
    lines = rf"Storage Database {size} Audit trail {size} Backups 0 bytes Free disk space {size} "
    assert re.search(lines, page.words)
    assert "AllergyIntolerance" not in page.words.partition("Records")[2]


def test_record_counts_that_take_long_are_cached_the_longer(clinic, monkeypatch):
    now, step = [1_000.0], [0.0]

    def monotonic() -> float:
        """Advance the clock by a step each time that it is read."""
        now[0] += step[0]
        return now[0]

    monkeypatch.setattr(figures.time, "monotonic", monotonic)
    with clinic.app_context():
        assert figures.record_counts() is not figures.record_counts()
        for seconds, longest in ((0.2, 3_000), (20.0, 3_600)):
            began, step[0] = now[0] + seconds, seconds
            counts = figures.record_counts()
            took, step[0] = now[0] - began, 0.0
            now[0] += min(longest, 200 * took) - 1
            assert figures.record_counts() is counts
            now[0] += 2
            assert figures.record_counts() is not counts
