"""The audit trail: who asked for what, which resources were answered, and whose they are."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Sequence
from pathlib import Path
from shutil import rmtree
from threading import Thread
from typing import Any

import pytest
from flask import Flask

from fhirapp import trail as trail_module
from fhirapp.audit.read import Entry, entries
from fhirapp.cli.common import ready_app
from fhirapp.config import settings_of
from fhirapp.trail import FOLDER
from tests.support.databases import POSTGRESQL, SQLITE
from tests.support.helpers import Fhir, token_for
from tests.support.shell import assert_not_done, fhirapp
from tests.support.trails import IN_FILES, noted, raw_lines

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

ALLERGY = "AllergyIntolerance"


def trail(app: Flask, **asked: Any) -> Sequence[Entry]:
    with app.app_context():
        return entries(**asked)


# What a shell lists of the demo's requests.
LIST = ("audit", "list", "--kind", "records", "--demo")


def folder_of(app: Flask) -> Path:
    return settings_of(app).instance / FOLDER


def test_a_read_is_noted_with_the_version_that_was_answered(watched, own_app):
    watched.get(f"{ALLERGY}/al-p1-penicillin")
    (entry,) = trail(own_app)
    assert (entry.method, entry.path, entry.status) == (
        *("GET", "/fhir/AllergyIntolerance/al-p1-penicillin", 200),
    )
    assert [name.rpartition("/")[0] for name in entry.served] == [f"{ALLERGY}/al-p1-penicillin"]
    assert entry.via == ""
    assert entry.milliseconds > 0


@pytest.mark.parametrize(
    ("path", "served"),
    [
        (f"{ALLERGY}?patient=p1&_count=2", 2),
        (f"{ALLERGY}?_id=al-p1-penicillin&_revinclude=Provenance:target", 2),
        (f"{ALLERGY}?_id=al-p1-penicillin&_include=AllergyIntolerance:patient", 2),
        (f"{ALLERGY}?patient=p1&_summary=count", 0),
        ("DocumentReference/doc-p1-discharge-2024/_history", 3),
        ("DocumentReference/doc-p1-discharge-2024/_history/2", 1),
        ("DocumentReference/$docref?patient=p1&_count=1", 1),
        ("Binary/bin-p1-discharge-2024-v3", 1),
        ("Patient/p1/$everything?_count=5&_type=Patient", 1),
        # The patient, five allergies, and who recorded them.
        ("Patient/p1/$summary", 9),
        ("Patient/$summary?identifier=LGH-100237", 9),
        (f"{ALLERGY}/unknown", 0),
        (f"{ALLERGY}?colour=red&_count=0", 0),
        ("metadata", 0),
    ],
)
def test_each_interaction_names_what_it_answered(watched, own_app, path, served):
    answer = watched.get(path)
    (entry,) = trail(own_app)
    assert entry.status == answer.status_code
    assert entry.path == f"/fhir/{path}"
    assert len(entry.served) == len(set(entry.served)) == served


@pytest.mark.parametrize(
    ("path", "patients"),
    [
        (f"{ALLERGY}/al-p1-penicillin", {"p1"}),
        ("Patient/p2", {"p2"}),
        ("Binary/bin-p1-discharge-2024-v3", {"p1"}),
        # Who finds nothing learns something too.
        (f"{ALLERGY}?patient=p2&code=none", {"p2"}),
        (f"{ALLERGY}?patient=Patient/p2&_summary=count", {"p2"}),
        (f"{ALLERGY}?patient=p1,p2&_count=0", {"p1", "p2"}),
        (f"{ALLERGY}/unknown", set()),
        ("Organization?_count=1", set()),
    ],
)
def test_it_is_known_whose_records_were_looked_at(watched, own_app, path, patients):
    watched.get(path)
    found = {one for one in ("p1", "p2", "p3") if trail(own_app, patient_id=one)}
    assert found == patients


def test_a_search_by_post_keeps_its_form(watched, own_app):
    watched.post(f"{ALLERGY}/_search", {"patient": "p2", "_count": "1"})
    (entry,) = trail(own_app)
    assert (entry.method, entry.body) == ("POST", "patient=p2&_count=1")
    assert len(trail(own_app, patient_id="p2")) == 1


def test_who_asked_is_told_and_who_is_not_known_too(watched, own_app):
    watched.get(ALLERGY)
    Fhir(own_app, "nobody's").get(ALLERGY)
    unknown, known = trail(own_app)
    assert (unknown.client_id, unknown.user_id, unknown.status) == (None, None, 401)
    assert known.client_id is not None
    assert [one.number for one in trail(own_app, client_id=known.client_id)] == [known.number]


def test_entries_are_narrowed_and_paged(watched, own_app):
    for count in range(5):
        watched.get(f"{ALLERGY}?_count={count}")
    watched.get(f"{ALLERGY}/unknown")
    found = trail(own_app)
    numbers = [one.number for one in found]
    assert numbers == sorted(set(numbers), reverse=True)
    assert len(numbers) == 6
    assert [one.number for one in trail(own_app, limit=2)] == numbers[:2]
    assert [one.number for one in trail(own_app, before=numbers[1], limit=2)] == numbers[2:4]
    assert [one.number for one in trail(own_app, status=404)] == numbers[:1]
    assert trail(own_app, since=found[1].at, status=200)[0].number == numbers[1]
    assert [one.event for one in trail(own_app, kind="administration")] == ["token-issued"]
    assert trail(own_app, until=found[-1].at) == []
    assert trail(own_app, via="explore") == []


def test_lines_that_were_brought_in_are_not_brought_in_again(watched, own_app):
    watched.get(ALLERGY)
    trail(own_app)
    watched.get(ALLERGY)
    assert len(trail(own_app)) == len(trail(own_app)) == 2


@IN_FILES
def test_the_index_is_made_anew_from_the_lines(watched, own_app):
    watched.get(f"{ALLERGY}/al-p1-penicillin")
    before = trail(own_app)
    for file in folder_of(own_app).glob("index.db*"):
        file.unlink()
    assert trail(own_app) == before


@IN_FILES
def test_a_line_that_is_cut_off_or_being_written_spoils_nothing(watched, own_app):
    watched.get(ALLERGY)
    (file,) = folder_of(own_app).glob("*.ndjson")
    whole = file.read_bytes()
    with file.open("ab") as lines:
        lines.write(b'{"at": "2026-\n')
        lines.write(whole[:40])
    assert len(trail(own_app)) == 1
    with file.open("ab") as lines:
        lines.write(whole[40:])
    assert len(trail(own_app)) == 2


@IN_FILES
def test_the_trail_is_nobody_elses_to_read(watched, own_app):
    watched.get(ALLERGY)
    trail(own_app)
    folder = folder_of(own_app)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_no_token_is_in_it(watched, own_app):
    watched.get(ALLERGY)
    assert len(raw_lines(own_app)) > 1
    assert not any(watched.token.encode() in line for line in raw_lines(own_app))


def test_requests_at_once_have_a_line_each(watched, own_app):

    def ask() -> None:
        for _ in range(20):
            Fhir(own_app, watched.token).get(f"{ALLERGY}?_count=50")

    threads = [Thread(target=ask) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len([line for line in noted(own_app) if "event" not in line]) == 80
    assert len(trail(own_app, limit=100)) == 80


@IN_FILES
@pytest.mark.parametrize(("audit", "status"), [("required", 503), ("best-effort", 200)])
def test_where_no_line_can_be_written_the_setting_decides(make_app, caplog, audit, status):
    app = make_app(audit=audit)
    client = Fhir(app, token_for(app, "system/*.rs"))
    # As when the server is started anew.
    trail_module.init_app(app)
    rmtree(folder_of(app))
    folder_of(app).write_text("in the way")
    with caplog.at_level(logging.ERROR):
        answer = client.get(f"{ALLERGY}/al-p1-penicillin")
        # Of a record nothing was asked.
        assert Fhir(app, "").get("metadata").status_code == 200
    assert answer.status_code == status
    assert "the audit trail cannot be written" in caplog.text
    if status == 503:
        assert b"penicillin" not in answer.data.lower()
        (issue,) = answer.get_json(force=True)["issue"]
        assert "The audit trail cannot be written (Not a directory)" in issue["diagnostics"]


def test_what_is_not_fhir_is_not_in_it(watched, own_app):
    watched.get("/health/live")
    assert trail(own_app) == []


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ((), 3),
        (("--patient", "p1"), 1),
        (("--client", "operator"), 2),
        (("--client", "none"), 0),
        (("--limit", "1"), 1),
        (("--since", "2999-01-01T00:00:00.000+00:00"), 0),
    ],
)
def test_the_shell_lists_it(tmp_path, options, count):
    _in_the_demo(tmp_path)
    listed = fhirapp(tmp_path, *LIST, *options).stdout.splitlines()
    assert len(listed) == count
    told = fhirapp(tmp_path, *LIST, "--json", *options).stdout.splitlines()
    assert len([json.loads(line)["path"] for line in told]) == count


def test_a_line_of_the_shell_says_who_what_and_how_much(tmp_path):
    _in_the_demo(tmp_path)
    listed = fhirapp(tmp_path, *LIST).stdout.splitlines()
    assert [line.partition("  ")[2] for line in listed] == [
        "unknown  GET /fhir/Patient/p2  401  0 returned",
        "operator  GET /fhir/Patient?name=%0Anobody  200  0 returned",
        "operator  GET /fhir/AllergyIntolerance/al-p1-latex  200  1 returned",
    ]


def test_a_user_that_is_not_there_is_told(tmp_path):
    _in_the_demo(tmp_path)
    done = fhirapp(tmp_path, "audit", "list", "--demo", "--user", "nobody")
    assert_not_done(done, "Unknown user: nobody")


def _in_the_demo(folder: Path) -> None:
    """Have three requests asked of a demo."""
    app = ready_app(serving=True, demo=True, instance_path=str(folder))
    known = Fhir(app, token_for(app, "system/*.rs"))
    known.get(f"{ALLERGY}/al-p1-latex")
    known.get("Patient?name=%0Anobody")
    Fhir(app, "unknown").get("Patient/p2")
