"""The audit trail: who asked for what, which resources were answered, and whose they are."""

from __future__ import annotations

import json
import logging
import stat
from collections.abc import Sequence
from threading import Thread
from typing import Any

import pytest
from flask import Flask

from fhirapp.audit import store_of
from fhirapp.audit.entries import AuditEntry, entries
from fhirapp.audit.store import NAME
from fhirapp.cli.common import ready_app
from fhirapp.config import settings_of
from fhirapp.rest.recorder import _Throttled
from tests.support.helpers import FHIR_JSON, Fhir, token_for
from tests.support.shell import assert_not_done, run_command
from tests.support.trails import ON_BOTH, ON_SQLITE, noted, raw_lines

ALLERGY = "AllergyIntolerance"
# More than is kept of a form or an address, within what a search takes.
_CODES = ",".join(f"{number:030}" for number in range(150))
_REASON = "r" * 4_100
SEARCH = "AllergyIntolerance/_search"


def trail(app: Flask, **asked: Any) -> Sequence[AuditEntry]:
    with app.app_context():
        return entries(**asked)


PATIENTS = ("p1", "p2", "p3", "nobody", "other")


def patients_of_the_newest(app: Flask) -> set[str]:
    """Return whose records the newest entry is found by."""
    (newest,) = trail(app, limit=1)
    return {
        patient
        for patient in PATIENTS
        if newest.number in [entry.number for entry in trail(app, patient_id=patient)]
    }


def request_lines(app: Flask) -> list[str]:
    """Return the lines of requests, without those of events."""
    return [line for line in raw_lines(app) if '"event":' not in line]


def requests_of(app: Flask) -> list[dict[str, Any]]:
    return [json.loads(line) for line in request_lines(app)]


ANSWERED = {
    f"{ALLERGY}?patient=p1&_count=2": 2,
    f"{ALLERGY}?_id=al-p1-penicillin&_revinclude=Provenance:target": 2,
    f"{ALLERGY}?_id=al-p1-penicillin&_include=AllergyIntolerance:patient": 2,
    f"{ALLERGY}?patient=p1&_summary=count": 0,
    "DocumentReference/doc-p1-discharge-2024/_history": 3,
    "DocumentReference/doc-p1-discharge-2024/_history/2": 1,
    "DocumentReference/$docref?patient=p1&_count=1": 1,
    "Binary/bin-p1-discharge-2024-v3": 1,
    "Patient/p1/$everything?_count=5&_type=Patient": 1,
    # The patient, five allergies, and who recorded them.
    "Patient/p1/$summary": 9,
    "Patient/$summary?identifier=LGH-100237": 9,
    f"{ALLERGY}/unknown": 0,
    f"{ALLERGY}?colour=red&_count=0": 0,
    "metadata": 0,
}


LOOKED_AT = {
    f"{ALLERGY}/al-p1-penicillin": {"p1"},
    "Patient/p2": {"p2"},
    "Binary/bin-p1-discharge-2024-v3": {"p1"},
    # Who finds nothing learns something too.
    f"{ALLERGY}?patient=p2&code=none": {"p2"},
    f"{ALLERGY}?patient=Patient/p2&_summary=count": {"p2"},
    f"{ALLERGY}?patient=p1,p2&_count=0": {"p1", "p2"},
    f"{ALLERGY}/unknown": set(),
    "Organization?_count=1": set(),
    "Patient?_id=nobody": {"nobody"},
    "Patient?_id=p2&_summary=count": {"p2"},
}


LONG_REQUESTS: list[tuple[str, Any, set[str]]] = [
    (f"{ALLERGY}/_search", {"code": _CODES, "patient": "p2"}, {"p2"}),
    (f"{ALLERGY}/_search", {"code": _CODES, "patient:Patient": "p2", "_count": "0"}, {"p2"}),
    (f"{ALLERGY}/_search?patient=nobody", {"code": _CODES, "patient": "p2"}, {"p2", "nobody"}),
    (f"{ALLERGY}?code={_CODES}&patient=Patient/p2,p3", None, {"p2", "p3"}),
    (f"{ALLERGY}?code={_CODES}&patient=https://fhir.example/fhir/Patient/p2", None, {"p2"}),
    (f"DocumentReference?type={_CODES}&author=Patient/p2", None, {"p2"}),
    ("DocumentReference/$docref", {"profile": _REASON, "patient": "p2"}, {"p2"}),
    # What is ignored names nobody, however much of it there is.
    (f"{ALLERGY}/_search", {"subject": "x," * 4_000, "patient": "p2"}, {"p2"}),
    (f"{ALLERGY}/_search?subject=nobody", {"code": _CODES}, set()),
    (f"{ALLERGY}/al-p1-latex?patient=nobody", None, {"p1"}),
    # Nor what is refused.
    (f"{ALLERGY}/_search", {"code": f"{_CODES},{_CODES}", "patient": "p2"}, set()),
    # Nor what is of another type.
    ("Provenance?target=Organization/other", None, set()),
]


UNKNOWN_REQUESTS = [
    ("GET", f"AllergyIntolerance?code={'a' * 8_000}", None),
    ("GET", f"Patient/{'%01' * 2_000}", None),
    ("GET", f"Patient/{'%F0%9F%A9%BA' * 1_900}", None),
    ("GET", f"metadata?x={'a' * 8_000}", None),
    ("GET", f"unknown/{'a' * 60_000}", None),
    ("POST", SEARCH, "\x01" * 3_900),
    ("POST", SEARCH, "\x01" * 2_000_000),
    ("X" * 60_000, "Patient", None),
]


@ON_BOTH
def test_read_is_recorded_with_the_version_that_was_answered(watched, own_app):
    watched.get(f"{ALLERGY}/al-p1-penicillin")
    # Requests outside of /fhir have no entry.
    watched.get("/health/live")
    (entry,) = trail(own_app)
    assert (entry.method, entry.path, entry.status) == (
        *("GET", "/fhir/AllergyIntolerance/al-p1-penicillin", 200),
    )
    assert [name.rpartition("/")[0] for name in entry.served] == [f"{ALLERGY}/al-p1-penicillin"]
    assert entry.via == ""
    assert entry.milliseconds > 0


def test_each_interaction_records_what_it_answered(watched, own_app):
    found = {}
    for path in ANSWERED:
        answer = watched.get(path)
        (entry,) = trail(own_app, limit=1)
        assert (entry.status, entry.path) == (answer.status_code, f"/fhir/{path}")
        assert len(entry.served) == len(set(entry.served))
        found[path] = len(entry.served)
    assert found == ANSWERED


def test_entry_is_found_by_each_patient_of_the_answer_or_the_question(watched, own_app):
    found = {}
    for path in LOOKED_AT:
        watched.get(path)
        found[path] = patients_of_the_newest(own_app)
    assert found == LOOKED_AT


def test_form_of_a_search_by_post_is_recorded(watched, own_app):
    watched.post(f"{ALLERGY}/_search", {"patient": "p2", "_count": "1"})
    (entry,) = trail(own_app)
    assert (entry.method, entry.body) == ("POST", "patient=p2&_count=1")
    assert len(trail(own_app, patient_id="p2")) == 1


def test_client_is_recorded_or_that_it_is_unknown(watched, own_app):
    watched.get(ALLERGY)
    Fhir(own_app, "nobody's").get(ALLERGY)
    unknown, known = trail(own_app)
    assert (unknown.client_id, unknown.user_id, unknown.status) == (None, None, 401)
    assert known.client_id is not None
    assert [entry.number for entry in trail(own_app, client_id=known.client_id)] == [known.number]


@ON_BOTH
def test_entries_are_narrowed_and_paged(watched, own_app):
    for count in range(5):
        watched.get(f"{ALLERGY}?_count={count}")
    watched.get(f"{ALLERGY}/unknown")
    found = trail(own_app)
    numbers = [entry.number for entry in found]
    assert numbers == sorted(set(numbers), reverse=True)
    assert len(numbers) == 6
    assert [entry.number for entry in trail(own_app, limit=2)] == numbers[:2]
    assert [entry.number for entry in trail(own_app, before=numbers[1], limit=2)] == numbers[2:4]
    assert [entry.number for entry in trail(own_app, status=404)] == numbers[:1]
    assert trail(own_app, since=found[1].at, status=200)[0].number == numbers[1]
    assert [entry.event for entry in trail(own_app, kind="administration")] == ["token-issued"]
    assert trail(own_app, until=found[-1].at) == []
    assert trail(own_app, via="explore") == []


def test_files_of_the_trail_are_private(watched, own_app):
    watched.get(ALLERGY)
    trail(own_app)
    files = [*settings_of(own_app).instance.glob(f"{NAME}*")]
    assert len(files) == 3
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_trail_holds_no_token(watched, own_app):
    watched.get(ALLERGY)
    assert len(raw_lines(own_app)) > 1
    assert not any(watched.token in line for line in raw_lines(own_app))


@ON_BOTH
def test_concurrent_requests_have_a_line_each(watched, own_app):
    def ask() -> None:
        for _ in range(10):
            Fhir(own_app, watched.token).get(f"{ALLERGY}?_count=1")

    threads = [Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([line for line in noted(own_app) if "event" not in line]) == 40
    assert len(trail(own_app, limit=100)) == 40


@ON_SQLITE
@pytest.mark.parametrize(("audit", "status"), [("required", 503), ("best-effort", 200)])
def test_setting_decides_whether_an_unwritable_trail_refuses_requests(
    make_app, caplog, audit, status
):
    app = make_app(audit=audit)
    client = Fhir(app, token_for(app, "system/*.rs"))
    with app.app_context():
        store_of(app).close()
    file = settings_of(app).instance / NAME
    file.unlink()
    file.mkdir()
    with caplog.at_level(logging.ERROR):
        answer = client.get(f"{ALLERGY}/al-p1-penicillin")
        # Of a record nothing was asked.
        assert Fhir(app, "").get("metadata").status_code == 200
    assert answer.status_code == status
    assert "the audit trail cannot be written" in caplog.text
    if status == 503:
        assert b"penicillin" not in answer.data.lower()
        (issue,) = answer.get_json(force=True)["issue"]
        assert (
            "The audit trail cannot be written (unable to open database file)"
            in issue["diagnostics"]
        )


def test_patients_of_long_requests_are_recorded(watched, own_app):
    for path, form, patients in LONG_REQUESTS:
        answer = watched.get(path) if form is None else watched.post(path, form)
        assert answer.status_code in (200, 400), answer.text
        assert patients_of_the_newest(own_app) == patients, path
    for value in ({"valueId": "nobody"}, {"valueString": "Patient/nobody"}):
        members = [{"name": "profile", "valueCanonical": _REASON}, {"name": "patient", **value}]
        content = {"resourceType": "Parameters", "parameter": members}
        answer = watched.post(
            "DocumentReference/$docref", f"\n {json.dumps(content)}", content_type=FHIR_JSON
        )
        assert answer.status_code == 200, answer.text
        assert patients_of_the_newest(own_app) == {"nobody"}
    members = [
        {"name": "patient", "valueReference": {"reference": f"Patient/{patient}"}}
        for patient in ("p2", "p3")
    ]
    answer = watched.post(
        "Patient/$export",
        None,
        json={"resourceType": "Parameters", "parameter": members},
        headers={"Prefer": "respond-async"},
    )
    assert answer.status_code == 202, answer.text
    assert patients_of_the_newest(own_app) == {"p2", "p3"}


def test_line_is_bounded_however_long_the_form_is(watched, own_app):
    for form in (
        {"code": _CODES, "patient": "p2"},
        {"subject": "x," * 9_000, "code": "none"},
        "&".join(f"subject={'x,' * 1_000}" for _ in range(190)),
        "\x01" * 900_000,
        "ü" * 400_000,
    ):
        watched.post(f"{ALLERGY}/_search", form, content_type="application/x-www-form-urlencoded")
        assert len(request_lines(own_app)[-1]) < 9_000
        # As long as what is kept: who shows it knows that it may be cut off.
        assert len(trail(own_app, limit=1)[0].body) == 4_000


def test_control_characters_are_recorded_percent_encoded(watched, own_app):
    watched.get("Patient/a%00b%0Ac?name=%01")
    with own_app.app_context():
        (entry,) = entries()
    assert entry.path == "/fhir/Patient/a%00b%0Ac?name=%01"


@pytest.fixture
def stranger(own_app: Flask) -> Fhir:
    return Fhir(own_app, "nobody's")


def test_little_is_recorded_of_a_request_without_a_known_token(own_app, stranger):
    for method, path, body in UNKNOWN_REQUESTS:
        stranger.request(method, path, data=body)
        assert len(request_lines(own_app)[-1]) < 1_200
        entry = requests_of(own_app)[-1]
        assert len(entry["path"]) <= 200
        assert entry["path"].startswith(f"/fhir/{path[:5]}")
        assert "?" not in entry["path"]
        assert (entry["user"], entry["client"], entry["body"]) == (None, None, "")
    assert len(requests_of(own_app)) == len(UNKNOWN_REQUESTS)


def test_one_of_too_many_requests_a_minute_is_recorded(own_app, stranger):
    statuses = [stranger.get("Patient/p1").status_code for _ in range(70)]
    assert statuses.count(429) == 10
    assert [entry["status"] for entry in requests_of(own_app)] == [401] * 60 + [429]
    # Who is known has theirs meanwhile.
    Fhir(own_app, token_for(own_app, "system/*.rs")).get("Patient/p1")
    assert requests_of(own_app)[-1]["status"] == 200


def test_omitted_requests_are_counted_for_each_client():
    file = _Throttled()
    told = [file.count(None, float(at)) for at in (100, 101, 159, 160, 161, 300)]
    assert told == [0, None, None, 2, None, 1]
    assert file.count("a", 101.0) == 0


def test_count_of_omitted_requests_is_in_the_next_line(own_app, stranger):
    file: _Throttled = own_app.extensions["fhirapp.recorder"]
    # Of a minute long ago, by whatever clock.
    for _ in range(8):
        file.count(None, -60.0)
    for _ in range(62):
        stranger.get("Patient/p1")
    last = requests_of(own_app)[-1]
    assert (last["status"], last["body"]) == (429, "and 7 more since the last line of this kind")


def test_audit_list_command_filters_entries_and_says_who_asked_for_what(tmp_path):
    app = ready_app(serving=True, demo=True, instance_path=str(tmp_path))
    known = Fhir(app, token_for(app, "system/*.rs"))
    known.get(f"{ALLERGY}/al-p1-latex")
    known.get("Patient?name=%0Anobody")
    Fhir(app, "unknown").get("Patient/p2")

    def listed(*options: str) -> list[str]:
        command = ("audit", "list", "--kind", "records", "--demo", *options)
        return run_command(tmp_path, *command).stdout.splitlines()

    assert [line.partition("  ")[2] for line in listed()] == [
        "unknown  GET /fhir/Patient/p2  401  0 returned",
        "operator  GET /fhir/Patient?name=%0Anobody  200  0 returned",
        "operator  GET /fhir/AllergyIntolerance/al-p1-latex  200  1 returned",
    ]
    for options, count in (
        (("--patient", "p1"), 1),
        (("--client", "operator"), 2),
        (("--client", "none"), 0),
        (("--limit", "1"), 1),
        (("--since", "2999-01-01T00:00:00.000+00:00"), 0),
    ):
        assert len(listed(*options)) == count
        assert len([json.loads(line)["path"] for line in listed("--json", *options)]) == count
    done = run_command(tmp_path, "audit", "list", "--demo", "--user", "nobody")
    assert_not_done(done, "Unknown user: nobody")
