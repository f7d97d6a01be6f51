"""The administrator's overview: whether all is well, what is in the server, and its plots."""

from __future__ import annotations

import base64
import hashlib
import platform
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from flask import Flask
from sqlalchemy import delete, insert, select, text, update

import fhirapp
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN, Client, User
from fhirapp.config import settings_of
from fhirapp.db import db
from fhirapp.definition import types
from fhirapp.exchange.models import ImportRun
from fhirapp.ops.backups.archive import GZIP
from fhirapp.ops.backups.backup import why_no_backup
from fhirapp.ops.backups.rotation import FOLDER
from fhirapp.ops.proxies import NO_ADDRESS, PLAIN, THIS_MACHINE
from fhirapp.store.migrate import HEAD
from fhirapp.web.admin import growth, storage
from fhirapp.web.admin.growth import PLOTS, STYLE
from fhirapp.web.admin.overview import Backup, State, troubles
from tests.support.app_pages import register
from tests.support.authorizing import add_program, alter, rows
from tests.support.browsing import Browser, Page, add_person
from tests.support.helpers import BASE_URL, Fhir, token_for

SVG = "{http://www.w3.org/2000/svg}"
NOW = 1_800_000_000
MB = 1_000_000


@pytest.fixture
def app(make_app: Callable[..., Flask], monkeypatch: pytest.MonkeyPatch) -> Flask:
    """An app of its own, on a disk with room."""
    room = SimpleNamespace(free=900_000 * MB)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: room)
    return make_app(checklist=False)


@pytest.fixture
def admin(app: Flask) -> Browser:
    return Browser(app).resume(add_person(app, ADMINISTRATOR))


def backed_up(app: Flask) -> Path:
    folder = settings_of(app).instance / FOLDER
    folder.mkdir(exist_ok=True)
    path = folder / "clinic.backup"
    path.write_bytes(GZIP + b" and more")
    return path


def run_of(**values: Any) -> Any:
    row = {"inputs": ["x.ndjson"], "who": "ann", "source_id": None, "last_rows": {}}
    row |= {"began_at": "2026-05-03T14:05:00.000+00:00"}
    row |= {"ended_at": None, "outcome": None}
    return insert(ImportRun).values(row | values)


def test_that_all_is_well_is_said_first(app, admin):
    backed_up(app)
    page = admin.get("/admin")
    assert page.heading == "No problems found"
    assert "and nothing needs your attention." in page.words


def test_what_waits_for_the_administrator_is_said_first(app, admin):
    register(app, "public", name="Waits")
    page = admin.get("/admin")
    is_file = "sqlite" in settings_of(app).database_uri
    if is_file:
        assert page.heading == "Server is running: 2 items need attention"
        assert "There is no backup in the server's backup folder" in page.words
    else:
        assert page.heading == "Server is running: 1 item needs attention"
    assert page.links["1 app is waiting for approval."] == "/admin/clients"
    assert page.links["1"] == "/admin/clients"


def state(**changes: Any) -> State:
    """Return a state in which all is well, but for changes."""
    fine: dict[str, Any] = {
        "schema": HEAD,
        "waiting": 0,
        "unfinished": 0,
        "backup": Backup("x", 1, NOW - 86_400, False),
        "has_backups": True,
        "size": 100 * MB,
        "free": 90_000 * MB,
        "now": NOW,
    }
    return State(**(fine | changes))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, []),
        (
            {"schema": "0000"},
            [f"The database has schema version 0000, but this server needs {HEAD}"],
        ),
        ({"schema": None}, ["The database has schema version none"]),
        ({"free": 599 * MB}, ["The disk is almost full: 599 MB free"]),
        ({"free": 601 * MB}, []),
        # A copy of it does not fit, but much is free.
        ({"free": 9_000 * MB, "size": 90_000 * MB}, []),
        ({"free": 5_400 * MB, "size": 90_000 * MB}, ["The disk is almost full"]),
        ({"free": None}, []),
        ({"backup": None}, ["There is no backup in the server's backup folder"]),
        ({"backup": None, "has_backups": False}, []),
        ({"backup": Backup("x", 1, NOW - 9 * 86_400, False)}, ["The last backup is 9 days old."]),
        (
            {"backup": Backup("x", 1, NOW - 8 * 86_400 - 1, False)},
            ["The last backup is 8 days old."],
        ),
        ({"backup": Backup("x", 1, NOW - 8 * 86_400, False)}, []),
        ({"unnamed_proxy": "192.0.2.1"}, ["192.0.2.1 sends X-Forwarded-For and seems to be"]),
        (
            {"reach": PLAIN},
            [f"{BASE_URL} is not encrypted: others on the network can read passwords"],
        ),
        (
            {"reach": PLAIN, "scheme": "https"},
            ["You are connected through TLS, but FHIRAPP_BASE_URL is"],
        ),
        ({"reach": NO_ADDRESS}, ["The server accepts connections from other machines but has no"]),
        ({"reach": THIS_MACHINE}, []),
        ({"is_empty": True, "has_steps": True}, []),
        ({"backup": None, "has_steps": True}, []),
        ({"is_empty": True}, ["There are no records yet. Import some."]),
        ({"unfinished": 1}, ["The last import has not finished"]),
        ({"waiting": 1}, ["1 app is waiting for approval."]),
        ({"waiting": 3}, ["3 apps are waiting for approval."]),
        ({"waiting": 1, "unfinished": 1}, ["The last import", "1 app is waiting"]),
    ],
)
def test_what_is_not_well_is_a_sentence_each(app, changes, said):
    with app.test_request_context():
        found = [one.sentence for one in troubles(state(**changes))]
    assert len(found) == len(said)
    for sentence, begins in zip(found, said, strict=True):
        assert sentence.startswith(begins)


@pytest.mark.parametrize(
    ("base_url", "heading", "tls"),
    [
        ("https://clinic.example", "No problems found", "TLS yes, by base URL"),
        ("http://localhost:8000", "No problems found", "TLS not needed: local access only"),
        (
            "http://clinic.example",
            "Server is running: 1 item needs attention",
            "TLS no: the base URL is http",
        ),
    ],
)
def test_over_plain_http_all_is_not_well_unless_it_is_this_machine(
    make_app, base_url, heading, tls
):
    app = make_app(base_url=base_url, checklist=False)
    backed_up(app)
    page = Browser(app).resume(add_person(app, ADMINISTRATOR)).get("/admin")
    assert page.heading == heading
    assert tls in page.words
    is_told = (
        "http://clinic.example is not encrypted: others on the network can read passwords"
        in page.words
    )
    assert is_told == (base_url == "http://clinic.example")


def unfinished(page: Page) -> dict[str, str]:
    """Return what is still to be set up, with where that is done."""
    found = re.findall(
        r'<a class="choice" href="([^"]+)"><strong>([^<]+)</strong>', page.response.text
    )
    return {name: path for path, name in found}


def test_a_new_server_lists_what_is_to_be_set_up_until_it_is(make_app):
    app = make_app(seed=False, base_url="")
    # Without the demo's people and apps.
    alter(app, update(User).values(disabled=True))
    alter(app, delete(Client))
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    page = admin.get("/admin")
    assert page.heading == "Server is running: finish the setup"
    expected = {
        "Add users": "/admin/users/new",
        "Register an app": "/apps/register",
        "Import the first records": "/admin/imports",
        "Take a backup": "/admin/backups",
        "Set the address and TLS": "/docs/deploy",
        "Protect administrators with a second factor": "/account/second-factor",
    }
    with app.app_context():
        if why_no_backup(settings_of(app)):
            del expected["Take a backup"]
    assert unfinished(page) == expected
    assert f"0 of {len(expected)} done" in page.words
    assert "There are no records yet" not in page.words
    for path in expected.values():
        assert admin.get(path).status == 200
    add_person(app, CLINICIAN)
    add_program(app)
    backed_up(app)
    alter(app, update(User).where(User.role == ADMINISTRATOR).values(totp_secret=b"x"))
    left = unfinished(admin.get("/admin"))
    assert [*left] == ["Import the first records", "Set the address and TLS"]


def test_the_list_goes_away_when_all_is_done(make_app):
    app = make_app()
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    backed_up(app)
    assert [*unfinished(admin.get("/admin"))] == ["Protect administrators with a second factor"]
    alter(app, update(User).where(User.role == ADMINISTRATOR).values(totp_secret=b"x"))
    page = admin.get("/admin")
    assert (page.heading, "Setup checklist" in page.words) == ("No problems found", False)


def test_the_list_is_hidden_for_all_and_shown_again_by_a_setting(make_app):
    app = make_app(seed=False)
    admin = Browser(app).resume(add_person(app, ADMINISTRATOR))
    other = Browser(app).resume(add_person(app, ADMINISTRATOR))
    page = admin.get("/admin").submit("Hide this list")
    assert "The list is hidden. To show it again" in page.words
    for one in (admin, other):
        assert "Setup checklist" not in one.get("/admin").words
    assert "checklist 'True' to 'False'" in admin.get("/admin/audit?kind=administration").words
    clinician = Browser(app).resume(add_person(app, CLINICIAN))
    token = clinician.get("/account").forms[0].fields["form_token"]
    assert clinician.post("/admin/checklist", {"form_token": token}).status == 403


def test_the_demo_has_nothing_to_set_up(make_app):
    app = make_app(demo=True)
    admin = Browser(app)
    admin.sign_in("admin")
    assert "Setup checklist" not in admin.get("/admin").words


def test_what_runs_is_told(app, admin):
    words = admin.get("/admin").words
    for shown in (
        "Version fhirapp 0.1.0",
        "Running since",
        f"FHIR endpoint {BASE_URL}/fhir",
        f"Schema {HEAD} current",
        "with 4 threads each",
        "/health/ready",
    ):
        assert shown in words


def test_versions_are_told_and_where_a_newer_one_would_be(app, admin):
    page = admin.get(admin.get("/admin").offered["About this server"])
    with app.app_context():
        sql = "SELECT version()" if settings_of(app).is_postgresql else "SELECT sqlite_version()"
        version = db.session.execute(text(sql)).scalar_one()
    told = page.words.split("Versions ")[1]
    assert told.startswith("Version fhirapp 0.1.0 installed ")
    assert f"Python {platform.python_version()}" in told
    assert re.search(r"(SQLite|PostgreSQL) ([0-9.]+)", told)[2] in version
    assert "CHANGELOG.md" in told
    assert page.offered["How to upgrade (manual)"] == "/docs/clinic#upgrade"
    assert 'id="upgrade"' in admin.get("/docs/clinic").response.text
    reader = Browser(app).resume(add_person(app, CLINICIAN))
    assert reader.get("/admin/about").status == 403


def test_the_last_import_is_told_with_what_came_of_it(app, admin):
    outcome = {"Patient": {"new": 2, "same": 1}, "Encounter": {"new": 5}}
    alter(app, run_of(ended_at="2026-05-03T14:06:00.000+00:00", outcome=outcome))
    words = admin.get("/admin").words
    assert "Last import 3 May 2026, 14:06 UTC, by ann 7 new, 1 same" in words
    alter(app, run_of(who="<b>bo</b>"))
    words = admin.get("/admin").words
    assert "Last import started 3 May 2026, 14:05 UTC by <b>bo</b>, not finished" in words
    assert "The last import has not finished: it is still running or was interrupted." in words


def test_the_last_backup_and_refusals_of_the_day_are_told(app, admin):
    backed_up(app)
    (settings_of(app).instance / FOLDER / "notes.txt").write_text("no backup")
    narrow = Fhir(app, token_for(app, "system/Patient.rs"))
    narrow.get("AllergyIntolerance?patient=p1")
    page = admin.get("/admin")
    assert f"clinic.backup, {len(GZIP) + 9} bytes" in page.words
    assert page.links["1 request"] == "/admin/refusals"


def test_the_numbers_of_records_are_those_that_a_search_counts(app, admin):
    fhir = Fhir(app, token_for(app, "system/*.rs"))
    words = admin.get("/admin").words
    with app.app_context():
        searched = [name for name, one in types().items() if one.searchable and not one.view]
    assert len(searched) > 5
    for name in searched:
        total = fhir.read(f"{name}?_summary=count&_id:missing=false")["total"]
        assert f" {name} {total} " in words


def test_new_versions_are_counted_by_the_month_of_their_update(app):
    with app.app_context():
        models = [one.model for one in types().values() if not one.view]
    updated = [one for model in models for (one,) in rows(app, select(model.last_updated))]
    by_month = Counter(one[:7] for one in updated)
    last = max(by_month)
    with app.app_context():
        found = growth.growth(date.fromisoformat(f"{last}-28"))
    assert len(found.months) == growth.MONTHS
    assert f"{found.months[-1].first:%Y-%m}" == last
    for one in found.months:
        assert one.versions == by_month[f"{one.first:%Y-%m}"]
    assert sum(one.versions for one in found.months) > 20
    assert found.before == len(updated) - sum(one.versions for one in found.months)
    # Each month follows the one before it.
    places = [one.first.year * 12 + one.first.month for one in found.months]
    assert places == [*range(places[0], places[0] + growth.MONTHS)]


def test_counting_ends_when_its_time_is_over(app):
    with app.app_context():
        found = growth.growth(budget=0)
        assert (found.months, found.before, found.is_whole) == ([], None, False)
        assert {one.records for one in growth.numbers(budget=0)} == {None}


def test_storage_is_told_by_what_it_is_for(app, admin):
    with app.app_context():
        found = storage.storage()
    assert [*found.groups] == [one for one in storage.GROUPS if one in found.groups]
    for name in (storage.RECORDS, storage.INDEXES, storage.FULL_TEXT, storage.ACCOUNTS):
        assert found.groups[name] > 0
    assert sum(found.groups.values()) == found.total
    words = admin.get("/admin").words
    assert f"records current versions {storage.sized(found.groups[storage.RECORDS])}" in words
    assert "attachments the content of documents" in words


def test_earlier_versions_and_free_pages_are_told_apart(app):
    is_file = "sqlite" in settings_of(app).database_uri
    with app.app_context():
        before = storage.storage().groups
    with app.app_context(), db.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE encounter SET is_current = FALSE")
        connection.exec_driver_sql("CREATE TABLE setting_old (value TEXT)")
        connection.execute(text("INSERT INTO setting_old VALUES (:value)"), {"value": "x" * MB})
        connection.exec_driver_sql("DROP TABLE setting_old")
    with app.app_context():
        found = storage.storage().groups
    assert found[storage.VERSIONS] > before.get(storage.VERSIONS, 0)
    assert found[storage.RECORDS] < before[storage.RECORDS]
    assert (found.get(storage.FREE, 0) > MB // 2) == is_file


def test_counting_versions_ends_when_its_time_is_over(app):
    with app.app_context():
        assert storage._earlier_shares(budget=0) == {}


def test_what_lies_in_a_table_counts_for_what_the_table_is_for(app):
    with app.app_context():
        grouped = storage._grouped(
            {
                "patient": 1,
                "document_reference": 10,
                "patient_token": 100,
                "ix_patient_newest": 1_000,
                "sqlite_autoindex_patient_1": 10_000,
                "patient_pkey": 100_000,
                "document_reference_words_data": 1_000_000,
                "ix_document_reference_words_content": 10_000_000,
                "oauth_grant": 100_000_000,
                "ix_oauth_grant_user_id": 1_000_000_000,
                "binary": 2,
                "job": 3,
                "sqlite_schema": 4,
                "lesson_progress": 5,
                storage.FREE: 6,
            },
            {"document_reference": 0.4, "binary": 0.5},
        )
    assert grouped == {
        storage.RECORDS: 7,
        storage.VERSIONS: 4,
        storage.ATTACHMENTS: 2,
        storage.INDEXES: 111_100,
        storage.FULL_TEXT: 11_000_000,
        storage.ACCOUNTS: 1_100_000_000,
        storage.JOBS: 3,
        storage.OWN: 4,
        storage.OTHER: 5,
        storage.FREE: 6,
    }


def test_a_file_that_is_too_large_is_not_looked_through(app, admin, monkeypatch):
    monkeypatch.setattr(storage, "MOST_BYTES", 1)
    page = admin.get("/admin")
    assert "so its content is not broken down here" in page.words
    assert "/admin/plots/storage.svg" not in page.response.text
    assert "Database size:" in page.words


def test_the_size_of_a_day_is_noted_once_and_a_plot_stands_from_the_second_on(app, admin):
    with app.app_context():
        storage.note_day(100, date(2026, 5, 3))
        storage.note_day(200, date(2026, 5, 3))
        path = storage._days_path()
        assert path.read_text().count("2026-05-03") == 1
        with path.open("a") as file:
            file.write("cut o\n[]\n{}\n")
        storage.note_day(300, date(2026, 5, 4))
        noted = [(str(one.day), one.total) for one in storage.days()]
    assert noted == [("2026-05-03", 100), ("2026-05-04", 300)]
    assert path.stat().st_mode & 0o77 == 0
    page = admin.get("/admin")
    assert "By day, since 3 May 2026" in page.words
    assert "4 May 2026 300 bytes" in page.words
    assert "/admin/plots/disk.svg" in page.response.text


def test_on_the_first_day_there_is_no_plot_of_days_yet(admin):
    page = admin.get("/admin")
    assert "The chart appears from the second day on" in page.words
    assert "/admin/plots/disk.svg" not in page.response.text


@pytest.mark.parametrize("name", PLOTS)
@pytest.mark.parametrize("seed", [True, False])
def test_a_plot_is_an_image_with_its_own_style_and_nothing_else(make_app, name, seed):
    app = make_app(seed=seed)
    answer = Browser(app).resume(add_person(app, ADMINISTRATOR)).get(f"/admin/plots/{name}.svg")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "image/svg+xml; charset=utf-8"
    image = ET.fromstring(answer.response.data)
    (style,) = image.iter(f"{SVG}style")
    assert style.text is not None
    digest = base64.b64encode(hashlib.sha256(style.text.encode()).digest()).decode()
    assert answer.headers["Content-Security-Policy"] == (
        f"default-src 'none'; style-src 'sha256-{digest}'; frame-ancestors 'none'"
    )
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    tags = {one.tag.removeprefix(SVG) for one in image.iter()}
    assert tags <= {"svg", "defs", "style", "title", "g", "rect", "path", "text", "line", "circle"}
    names = {attribute for one in image.iter() for attribute in one.attrib}
    assert not names & {"style", "onload", "href", "{http://www.w3.org/1999/xlink}href"}
    assert image.find(f"{SVG}title") is not None


def test_a_plot_has_a_bar_for_each_number(app, admin):
    with app.app_context():
        counted = growth.growth()
        measured = storage.storage()
    for name, count in (("versions", len(counted.months)), ("storage", len(measured.groups))):
        image = ET.fromstring(admin.get(f"/admin/plots/{name}.svg").response.data)
        bars = [one for one in image.iter(f"{SVG}rect") if "rect" in (one.get("class") or "")]
        assert len(bars) == count


@pytest.mark.parametrize("count", [0, 1, 3, 5, 8])
def test_no_number_stands_twice_on_an_axis(app, admin, monkeypatch, count):
    months = [growth.Month(date(2026, month, 1), count * (month == 2)) for month in (1, 2)]
    monkeypatch.setattr(growth, "growth", lambda: growth.Growth(months, 0, True, 1))
    image = ET.fromstring(admin.get("/admin/plots/versions.svg").response.data)
    said = [one.text for one in image.iter(f"{SVG}text") if (one.text or "").isdigit()]
    assert said
    assert len(said) == len(set(said))


def test_the_plots_have_the_pages_colours(app):
    sheet = (Path(fhirapp.__file__).parent / "web" / "static" / "style.css").read_text()
    light, dark = re.findall(r"svg \{ (.*?) \}", STYLE)
    for one, other in zip(light.split("; "), dark.split("; "), strict=True):
        name, colour = one.strip(" ;").split(": ")
        pair = f"{name}: light-dark({colour}, {other.strip(' ;').split(': ')[1]})"
        assert pair in sheet


def test_what_draws_them_leaves_later_imports_alone(admin):
    assert admin.get("/admin/plots/storage.svg").status == 200
    assert all(hasattr(one, "find_spec") for one in sys.meta_path)


def test_a_plot_that_is_not_there_is_404(admin):
    assert admin.get("/admin/plots/nonsense.svg").status == 404


def test_a_plot_is_for_administrators(app):
    other = Browser(app).resume(add_person(app, CLINICIAN))
    assert other.get("/admin/plots/storage.svg").status == 403
    assert Browser(app).get("/admin/plots/storage.svg").heading == "Sign in"


def test_the_library_of_the_plots_is_read_only_when_one_is_drawn():
    code = "import sys, fhirapp; sys.exit('pygal' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_of_an_empty_server_everything_is_told(make_app):
    app = make_app(seed=False)
    page = Browser(app).resume(add_person(app, ADMINISTRATOR)).get("/admin")
    assert page.status == 200
    for shown in ("Last import none yet", " Patient 0 ", " AllergyIntolerance 0 "):
        assert shown in page.words


def test_a_figure_that_takes_long_is_kept_the_longer(app, monkeypatch):
    now = [1_000.0]
    monkeypatch.setattr(growth.time, "monotonic", lambda: now[0])

    def made(seconds: float) -> Callable[[], float]:
        def make() -> float:
            now[0] += seconds
            return now[0]

        return make

    with app.app_context():
        first = growth.kept("slow", made(1.0))
        now[0] += 199
        assert growth.kept("slow", made(1.0)) == first
        now[0] += 2
        assert growth.kept("slow", made(1.0)) > first
        longest = growth.kept("longest", made(100.0))
        now[0] += 3_599
        assert growth.kept("longest", made(100.0)) == longest
        now[0] += 2
        assert growth.kept("longest", made(100.0)) > longest
        fast = growth.kept("fast", made(0.01))
        assert growth.kept("fast", made(0.01)) > fast
