"""Dates of documents without a time are valid R4 when served, and are searched, shown and imported.

DocumentReference.date is an instant: a day, month or year is served in an extension.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import CLINICIAN, Client
from fhirapp.fhir.document_date import PARTIAL_DATE
from fhirapp.fhir.temporal import comparable_period
from tests.support.authorizing import add_program, alter
from tests.support.browsing import Browser, add_person
from tests.support.importing import asking, lines, load, write

pytestmark = pytest.mark.usefixtures("_unread_documents")


def partial(date: str) -> dict[str, Any]:
    """Return how a partial date is served."""
    return {"extension": [{"url": PARTIAL_DATE, "valueDateTime": date}]}


def note(note_id: str, date: str, **elements: Any) -> dict[str, Any]:
    return {
        "resourceType": "DocumentReference",
        "id": note_id,
        "status": "current",
        "type": {"text": "Visit"},
        "subject": {"reference": "Patient/dated"},
        "content": [{"attachment": {"contentType": "text/plain", "data": "eA=="}}],
        "date": date,
        **elements,
    }


PATIENT = {"resourceType": "Patient", "id": "dated", "name": [{"family": "Dated"}]}
NOTES = (
    note("n-instant", "2024-03-05T10:00:00+00:00"),
    note("n-day", "2024-03-06"),
    note("n-month", "2024-04"),
    note("n-year", "2023", _date={"id": "d", "extension": [{"url": "urn:x", "valueCode": "x"}]}),
)
LABORATORY = {
    "category": [
        {"coding": [{"system": "http://terminology.hl7.org/CodeSystem/v2-0074", "code": "LAB"}]}
    ],
    "type": {"coding": [{"system": "http://loinc.org", "code": "11502-2"}]},
}


@pytest.fixture(scope="module")
def dates(make_app: Callable[..., Flask], tmp_path_factory: pytest.TempPathFactory) -> Flask:
    """An app with a patient's notes, dated by an instant, a day, a month and a year."""
    app = make_app(seed=False)
    lab = note("lab", "2022-03-06", **LABORATORY)
    path = write(tmp_path_factory.mktemp("dates"), lines(PATIENT, *NOTES, lab), "dated.ndjson")
    assert not load(app, path).faults
    return app


def test_a_partial_date_of_a_document_is_served_in_an_extension(dates):
    fhir = asking(dates)
    assert fhir.read("DocumentReference/n-instant")["date"] == "2024-03-05T10:00:00+00:00"
    for name, date in (("n-day", "2024-03-06"), ("n-month", "2024-04")):
        for path in (f"DocumentReference/{name}", f"DocumentReference/{name}/_history/1"):
            document = fhir.read(path)
            assert "date" not in document
            assert document["_date"] == partial(date)
            assert f"<td>{date}</td>" in document["text"]["div"]
    assert fhir.read("DocumentReference/n-year")["_date"] == {
        "id": "d",
        "extension": [{"url": "urn:x", "valueCode": "x"}, *partial("2023")["extension"]],
    }
    part = fhir.read("DocumentReference?_id=n-day&_elements=date")["entry"][0]["resource"]
    assert part["_date"] == partial("2024-03-06")
    assert fhir.read("DocumentReference?_id=n-day&_summary=true")["entry"][0]["resource"]["_date"]


SEARCHES = {
    "date=2024-03-06": ["n-day"],
    "date=2024-03": ["n-day", "n-instant"],
    "date=2024-04": ["n-month"],
    "date=ge2024-03-01&date=le2024-03-31": ["n-day", "n-instant"],
    "date=lt2024&date=ge2023": ["n-year"],
    "date:missing=true": [],
    "_sort=date": ["lab", "n-year", "n-instant", "n-day", "n-month"],
    "_sort=-date": ["n-month", "n-day", "n-instant", "n-year", "lab"],
}


def test_a_partial_date_is_searched_and_sorted_by(dates):
    ids = {query: asking(dates).ids(f"DocumentReference?{query}") for query in SEARCHES}
    found = {query: ids[query] if "_sort" in query else sorted(ids[query]) for query in ids}
    assert found == SEARCHES
    docref = "DocumentReference/$docref?patient=dated&start=2024-04-01&end=2024-04-30"
    assert asking(dates).ids(docref) == ["n-month"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/notes/n-day", "6 Mar 2024"),
        ("/notes/n-month", "Apr 2024"),
        ("/patients/dated", "6 Mar 2024"),
        ("/launch?patient=dated", "Visit, 6 March 2024"),
    ],
)
def test_pages_show_a_partial_date(dates, path, words):
    add_program(dates)
    alter(dates, update(Client).values(launch_uri="https://app.example/launch"))
    page = Browser(dates).resume(add_person(dates, CLINICIAN)).get(path)
    # Notes to start an app from are options of a form.
    assert words in page.words or f">{words}<" in page.response.text


def test_a_report_made_of_a_document_has_its_partial_date(dates):
    report = asking(dates).read("DiagnosticReport/lab")
    assert report["effectiveDateTime"] == "2022-03-06"
    assert "issued" not in report


def test_a_document_as_it_is_served_is_imported_with_its_date(empty, tmp_path: Path):
    load(empty, write(tmp_path, lines(PATIENT, *NOTES), "dated.ndjson"))
    fhir = asking(empty)
    served = [fhir.read(f"DocumentReference/{sent['id']}") for sent in NOTES]
    for document in served:
        document["description"] = "Imported again"
    assert not load(empty, write(tmp_path, lines(*served), "again.ndjson")).faults
    for before in served:
        after = fhir.read(f"DocumentReference/{before['id']}")
        assert after["meta"]["versionId"] == "2"
        assert [after.get(name) for name in ("date", "_date")] == [
            before.get(name) for name in ("date", "_date")
        ]
    assert fhir.ids("DocumentReference?date=2024-03-06") == ["n-day"]


# Start, end, and how they are served.
PERIODS = (
    # Apart, or as exact as each other: as they are.
    ("2024-05-09T18:10:00-07:00", "2024-05-12", "2024-05-09T18:10:00-07:00", "2024-05-12"),
    ("2024-05-09", "2024-05-09", "2024-05-09", "2024-05-09"),
    ("2023", "2024-05-09", "2023", "2024-05-09"),
    # On one day, month or year, which is as much as can be compared.
    ("2024-05-09T18:10:00-07:00", "2024-05-09", "2024-05-09", "2024-05-09"),
    ("2024-05-09", "2024-05-09T10:00:00+00:00", "2024-05-09", "2024-05-09"),
    ("2024-05", "2024-05-09", "2024-05", "2024-05"),
    ("2024", "2024-05-09", "2024", "2024"),
    # On two days that are one in UTC.
    ("2024-05-09T22:10:00-07:00", "2024-05-10", "2024-05-09", "2024-05-10"),
)


def test_the_ends_of_a_period_can_be_compared():
    for start, end, *served in PERIODS:
        period = comparable_period({"start": start, "end": end})
        assert [period["start"], period["end"]] == served
        for name, value in (("start", start), ("end", end)):
            kept = period.get(f"_{name}", {}).get("extension", [{}])[0].get("valueString")
            assert value in (period[name], kept)
