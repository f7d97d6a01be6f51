"""Imported records are valid R4 when they are read: FHIR's types, bindings and invariants."""

from __future__ import annotations

import json
from typing import Any

import pytest
from sqlalchemy import update

from fhirapp.auth.models import CLINICIAN, Client
from fhirapp.fhir import json as fhir_json
from fhirapp.fhir.document_date import PARTIAL_DATE
from fhirapp.fhir.periods import comparable
from tests.support.authorizing import add_program, alter
from tests.support.browsing import Browser, add_person
from tests.support.ccda_samples import of_type, only, read, sample
from tests.support.helpers import Fhir, token_for
from tests.support.importing import lines, load, write
from tests.support.us_core import all_faults, packages_in

MADE = '<effectiveTime value="20240810120000-0700"/>'
WRITTEN = '<time value="20240810120000-0700"/>'


def dated(made: str, *written: str) -> str:
    """Return a document that was made at a time, and an author for each time of writing."""
    document = sample("unstructured")
    assert MADE in document
    assert WRITTEN in document
    head, _author, rest = document.partition("<author>")
    author, _end, tail = rest.partition("</author>")
    authors = "".join(
        f"<author>{author.replace(WRITTEN, f'<time {time}/>')}</author>" for time in written
    )
    return (head + authors + tail).replace(MADE, f"<effectiveTime {made}/>")


@pytest.mark.parametrize(
    ("made", "written", "date"),
    [
        ('value="20240810120000-0700"', ['value="20240811"'], "2024-08-10T12:00:00-07:00"),
        ('value="20240810"', ['value="202408101530-0700"'], "2024-08-10T15:30:00-07:00"),
        # The last who wrote on that day.
        (
            'value="20240810"',
            ['value="202408101530-0700"', 'value="202408101630-0700"', 'value="20240810"'],
            "2024-08-10T16:30:00-07:00",
        ),
        # Without a zone a time is no instant.
        ('value="202408101200"', ['value="202408101530-0700"'], "2024-08-10T15:30:00-07:00"),
        # The day is that of the author's own clock, though it is another one in UTC.
        ('value="20240810"', ['value="202408102330-0700"'], "2024-08-10T23:30:00-07:00"),
        # In the form of ISO 8601, for one of them or for both.
        ('value="2024-08-10"', ['value="202408101530-0700"'], "2024-08-10T15:30:00-07:00"),
        ('value="20240810"', ['value="2024-08-10T15:30:00-07:00"'], "2024-08-10T15:30:00-07:00"),
        ('value="2024-08-10"', ['value="2024-08-11T01:00:00-07:00"'], "2024-08-10"),
        # Not on that day, or not known on which.
        ('value="20240810"', ['value="202408110100-0700"'], "2024-08-10"),
        ('value="20240810"', ['value="20240810"'], "2024-08-10"),
        ('value="20240810"', ['nullFlavor="UNK"'], "2024-08-10"),
        ('value="202408"', ['value="202408101530-0700"'], "2024-08"),
        ('nullFlavor="UNK"', ['value="20240810"'], "2024-08-10"),
    ],
)
def test_the_day_of_a_document_is_completed_by_who_wrote_on_it(made, written, date):
    document = only(read(dated(made, *written)), "DocumentReference")
    assert document["date"] == date
    # When the document itself was made stays as it says.
    if made == 'value="20240810"':
        assert document["content"][0]["attachment"]["creation"] == "2024-08-10"


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


NOTES = (
    note("n-instant", "2024-03-05T10:00:00+00:00"),
    note("n-day", "2024-03-06"),
    note("n-month", "2024-04"),
    note("n-year", "2023", _date={"id": "d", "extension": [{"url": "urn:x", "valueCode": "x"}]}),
)


@pytest.fixture
def dates(empty, tmp_path):
    patient = {"resourceType": "Patient", "id": "dated", "name": [{"family": "Dated"}]}
    assert not load(empty, write(tmp_path, lines(patient, *NOTES), "dated.ndjson")).faults
    return empty


def test_a_partial_date_of_a_document_is_served_in_an_extension(dates):
    fhir = Fhir(dates, token_for(dates, "system/*.rs"))
    assert fhir.read("DocumentReference/n-instant")["date"] == "2024-03-05T10:00:00+00:00"
    for name, date in (("n-day", "2024-03-06"), ("n-month", "2024-04")):
        for path in (f"DocumentReference/{name}", f"DocumentReference/{name}/_history/1"):
            document = fhir.read(path)
            assert "date" not in document
            assert document["_date"] == partial(date)
            assert f"<th>Date</th><td>{date}</td>" in document["text"]["div"]
    assert fhir.read("DocumentReference/n-year")["_date"] == {
        "id": "d",
        "extension": [{"url": "urn:x", "valueCode": "x"}, *partial("2023")["extension"]],
    }
    part = fhir.read("DocumentReference?_id=n-day&_elements=date")["entry"][0]["resource"]
    assert part["_date"] == partial("2024-03-06")
    assert fhir.read("DocumentReference?_id=n-day&_summary=true")["entry"][0]["resource"]["_date"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("date=2024-03-06", ["n-day"]),
        ("date=2024-03", ["n-day", "n-instant"]),
        ("date=2024-04", ["n-month"]),
        ("date=ge2024-03-01&date=le2024-03-31", ["n-day", "n-instant"]),
        ("date=lt2024", ["n-year"]),
        ("date:missing=true", []),
        ("_sort=date", ["n-year", "n-instant", "n-day", "n-month"]),
        ("_sort=-date", ["n-month", "n-day", "n-instant", "n-year"]),
    ],
)
def test_a_partial_date_is_searched_and_sorted_by(dates, query, found):
    ids = Fhir(dates, token_for(dates, "system/*.rs")).ids(f"DocumentReference?{query}")
    assert ids == found if "_sort" in query else sorted(ids) == found


def test_docref_finds_a_document_by_its_partial_date(dates):
    fhir = Fhir(dates, token_for(dates, "system/*.rs"))
    asked = "DocumentReference/$docref?patient=dated&start=2024-04-01&end=2024-04-30"
    assert fhir.ids(asked) == ["n-month"]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/notes/n-day", "6 Mar 2024"),
        ("/notes/n-month", "Apr 2024"),
        ("/notes?patient=dated", "6 Mar 2024"),
        ("/patients/dated", "6 Mar 2024"),
        ("/launch?patient=dated", "Visit, 6 March 2024"),
        ("/explore?address=/fhir/DocumentReference?patient=dated", "2024-03-06"),
    ],
)
def test_pages_show_a_partial_date(dates, path, words):
    add_program(dates)
    alter(dates, update(Client).values(launch_uri="https://app.example/launch"))
    browser = Browser(dates).resume(add_person(dates, CLINICIAN))
    page = browser.get(path)
    # Notes to start an app from are options of a form.
    assert words in page.words or f">{words}<" in page.response.text


def test_a_document_as_it_is_served_is_imported_with_its_date(dates, tmp_path):
    fhir = Fhir(dates, token_for(dates, "system/*.rs"))
    served = [fhir.read(f"DocumentReference/{one['id']}") for one in NOTES]
    for document in served:
        document["description"] = "Imported again"
    assert not load(dates, write(tmp_path, lines(*served), "again.ndjson")).faults
    for before in served:
        after = fhir.read(f"DocumentReference/{before['id']}")
        assert after["meta"]["versionId"] == "2"
        assert {name: after.get(name) for name in ("date", "_date")} == {
            name: before.get(name) for name in ("date", "_date")
        }
    assert fhir.ids("DocumentReference?date=2024-03-06") == ["n-day"]


def test_a_report_made_of_a_document_has_its_partial_date(empty, tmp_path):
    lab = note("lab", "2024-03-06", category=[{"coding": [{"system": LABORATORY, "code": "LAB"}]}])
    lab["type"] = {"coding": [{"system": "http://loinc.org", "code": "11502-2"}]}
    patient = {"resourceType": "Patient", "id": "dated"}
    assert not load(empty, write(tmp_path, lines(patient, lab), "lab.ndjson")).faults
    report = Fhir(empty, token_for(empty, "system/*.rs")).read("DiagnosticReport/lab")
    assert report["effectiveDateTime"] == "2024-03-06"
    assert "issued" not in report


LABORATORY = "http://terminology.hl7.org/CodeSystem/v2-0074"


@pytest.mark.parametrize(
    ("start", "end", "served"),
    [
        # Apart, or as exact as each other: as they are.
        ("2024-05-09T18:10:00-07:00", "2024-05-12", ("2024-05-09T18:10:00-07:00", "2024-05-12")),
        ("2024-05-09", "2024-05-09", ("2024-05-09", "2024-05-09")),
        ("2023", "2024-05-09", ("2023", "2024-05-09")),
        # On one day, month or year, which is as much as can be compared.
        ("2024-05-09T18:10:00-07:00", "2024-05-09", ("2024-05-09", "2024-05-09")),
        ("2024-05-09", "2024-05-09T10:00:00+00:00", ("2024-05-09", "2024-05-09")),
        ("2024-05", "2024-05-09", ("2024-05", "2024-05")),
        ("2024", "2024-05-09", ("2024", "2024")),
        # On two days that are one in UTC.
        ("2024-05-09T22:10:00-07:00", "2024-05-10", ("2024-05-09", "2024-05-10")),
    ],
)
def test_the_ends_of_a_period_can_be_compared(start, end, served):
    period = comparable({"start": start, "end": end})
    assert (period["start"], period["end"]) == served
    for name, value in (("start", start), ("end", end)):
        assert period[name] == value or period[f"_{name}"]["extension"][0]["valueString"] == value


def invalid(shared, document: str) -> list[str]:
    """Return what is wrong with the resources of a document, by FHIR and by US Core."""
    packages = packages_in(shared)
    faults = []
    for resource in read(document):
        served = json.loads(fhir_json.dumps(resource))
        served["meta"] = {"versionId": "1"}
        faults += all_faults(served, packages)
    return faults


NOBODY = "<guardian/>"
RELATION = (
    '<guardian><code code="MTH" codeSystem="2.16.840.1.113883.5.111" displayName="Mother"/>'
    "</guardian>"
)
NAMED = "<guardian><guardianPerson><name><given>Eva</given></name></guardianPerson></guardian>"


@pytest.mark.parametrize(
    ("guardian", "contacts"),
    [
        (NOBODY, 0),
        ('<guardian><telecom nullFlavor="UNK"/><addr nullFlavor="NI"/></guardian>', 0),
        (RELATION, 1),
        (NAMED, 1),
        (NOBODY + NAMED, 1),
    ],
)
def test_a_guardian_is_a_contact_if_something_is_known_of_them(shared, guardian, contacts):
    document = sample("unstructured").replace("<birthTime", f"{guardian}<birthTime", 1)
    patient = only(read(document), "Patient")
    assert len(patient.get("contact", ())) == contacts
    if guardian == RELATION:
        assert patient["contact"][0]["relationship"][1]["coding"][0]["code"] == "MTH"
    assert invalid(shared, document) == []


@pytest.mark.parametrize("use", ["HP", "H", "HV", "WP", "HP BAD"])
def test_an_organization_has_no_contact_at_home(shared, use):
    name = "<representedCustodianOrganization>"
    document = sample("unstructured")
    assert name in document
    contacts = (
        f'<telecom use="{use}" value="tel:+1-555-0100"/>'
        f'<addr use="{use}"><city>Port Alder</city></addr>'
    )
    document = document.replace(name, name + contacts)
    used = {
        contact.get("use")
        for organization in of_type(read(document), "Organization")
        for element in ("telecom", "address")
        for contact in organization.get(element, ())
    }
    assert "home" not in used
    assert invalid(shared, document) == []


RACES = 'codeSystem="2.16.840.1.113883.6.238"'


@pytest.mark.parametrize(
    ("races", "categories"),
    [
        ('<raceCode code="2106-3" {0}/><sdtc:raceCode nullFlavor="UNK"/>', ["2106-3"]),
        ('<raceCode nullFlavor="ASKU"/><sdtc:raceCode code="2106-3" {0}/>', ["2106-3"]),
        ('<raceCode nullFlavor="UNK"/><sdtc:raceCode nullFlavor="ASKU"/>', ["UNK"]),
        ('<raceCode nullFlavor="UNK"/><sdtc:raceCode nullFlavor="UNK"/>', ["UNK"]),
        (
            '<raceCode code="2106-3" {0}/><sdtc:raceCode code="2054-5" {0}/>',
            ["2106-3", "2054-5"],
        ),
    ],
)
def test_an_unknown_race_stands_alone(shared, races, categories):
    document = sample("ccd")
    head, _old, rest = document.partition("<raceCode")
    rest = rest.partition("<ethnicGroupCode")[2]
    document = head + races.format(RACES) + "<ethnicGroupCode" + rest
    extensions = only(read(document), "Patient")["extension"]
    (race,) = (one for one in extensions if one["url"].endswith("us-core-race"))
    shown = [one["valueCoding"]["code"] for one in race["extension"] if one["url"] == "ombCategory"]
    assert shown == categories
    assert invalid(shared, document) == []


@pytest.mark.parametrize(
    ("code", "gender", "kept"),
    [
        ('code="F"', "female", None),
        ('nullFlavor="UNK"', "unknown", None),
        ('nullFlavor="NI"', "unknown", None),
        ('nullFlavor="OTH"', "unknown", None),
        ("", "unknown", None),
        ('code="X"', "unknown", "X"),
    ],
)
def test_a_patient_has_a_gender_of_the_value_set(code, gender, kept):
    element = "<administrativeGenderCode "
    document = sample("unstructured").replace(f'{element}code="F"', element + code)
    patient = only(read(document), "Patient")
    assert patient["gender"] == gender
    assert patient.get("_gender", {}).get("extension", [{}])[0].get("valueString") == kept
