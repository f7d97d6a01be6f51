"""Moments in a search: milliseconds are a point. decisions 2.17; fhirapp/search/date.py's table."""

from __future__ import annotations

import re

import pytest

from fhirapp.search import date
from tests.support.contract import allergy, publish
from tests.support.databases import POSTGRESQL, SQLITE

pytestmark = pytest.mark.databases(SQLITE, POSTGRESQL)

NOW = "2026-03-01T00:00:00.000+00:00"
DAY = "2024-01-30T"
# Dated, so as they are written.
DATED = {
    "second": f"{DAY}11:05:00Z",
    "half": f"{DAY}11:05:00.500Z",
    "finer": f"{DAY}11:05:00.5009Z",
    "next": f"{DAY}11:05:01+00:00",
}
RULES = {"eq": {"eq", "ge", "le"}, "gt": {"gt", "ge", "sa", "ne"}, "lt": {"lt", "le", "eb", "ne"}}


@pytest.fixture(scope="module")
def app(make_app):
    """An app with entries, a document that is a report, and its Provenance, at known moments."""
    app = make_app(seed=False)
    publish(app, *(allergy(name, recordedDate=when) for name, when in DATED.items()), now=NOW)
    publish(app, allergy("moved", onsetPeriod={"end": DATED["second"]}), now=NOW)
    document = {
        "resourceType": "DocumentReference",
        "id": "report",
        "status": "current",
        "type": {"coding": [{"system": "http://loinc.org", "code": "18748-4"}]},
        "subject": {"reference": "Patient/p1"},
        "date": DATED["second"],
        "context": {"period": {"start": DATED["second"], "end": DATED["second"]}},
        "content": [{"attachment": {"contentType": "text/plain", "data": "bm90ZQ=="}}],
    }
    publish(app, document, now="2026-03-01T00:00:00.250+00:00")
    provenance = {
        "resourceType": "Provenance",
        "id": "origin",
        "target": [{"reference": "DocumentReference/report"}],
        "recorded": DATED["second"],
        "agent": [{"who": {"display": "Nobody"}}],
    }
    publish(app, provenance, now=NOW)
    return app


def rows_of_table():
    """Return (in the resource, searched, how) as the module's own table has it."""
    title, *rows = [
        line.split()
        for line in (date.__doc__ or "").splitlines()
        if re.match(r"    (in the resource|\d)", line)
    ]
    searched = title[3:]
    return [
        (held, one, how) for held, *hows in rows for one, how in zip(searched, hows, strict=True)
    ]


def test_a_time_is_found_as_the_table_says(fhir):
    rows = rows_of_table()
    assert len(rows) == 16
    names = {when[11:].rstrip("Z+0:"): name for name, when in DATED.items()}
    for held, searched, how in rows:
        name = names[held.rstrip("0:")]
        for prefix in ("", "eq", "ne", "gt", "ge", "lt", "le", "sa", "eb"):
            found = fhir.ids(f"AllergyIntolerance?date={prefix}{DAY}{searched}Z")
            is_right = (name in found) is ((prefix or "eq") in RULES[how])
            assert is_right, (held, prefix, searched)


PATHS = ["AllergyIntolerance?date", "AllergyIntolerance?_id=second&date"]


def test_date_with_milliseconds_as_browsers_write_it_finds_the_second(fhir):
    """JavaScript's toISOString() has milliseconds always."""
    for path in PATHS:
        point = f"{DAY}11:05:00.000Z"
        assert fhir.ids(f"{path}={point}") == ["second"]
        assert "second" in fhir.ids(f"{path}=le{point}")
        assert "second" in fhir.ids(f"{path}=ge{point}")
        assert "second" not in fhir.ids(f"{path}=gt{point}")
        assert "second" not in fhir.ids(f"{path}=lt{point}")
        assert fhir.ids(f"{path}=ge{point}&date=le{point}") == ["second"]


POINTS = [
    ("Provenance?recorded", "origin"),
    ("DiagnosticReport?issued", "report"),
    ("DocumentReference?date", "report"),
    ("DocumentReference?period", "report"),
]


def test_every_date_parameter_takes_a_point(fhir):
    for search, name in POINTS:
        for prefix, found in {"": 1, "ge": 1, "le": 1, "gt": 0, "lt": 0, "ne": 0}.items():
            assert fhir.ids(f"{search}={prefix}{DAY}11:05:00.000Z") == [name] * found, prefix
        assert fhir.ids(f"{search}={DAY}11:05:00.001Z") == []
        assert fhir.ids(f"{search}={DAY}11:05:00Z") == [name]


def test_the_end_of_a_period_is_a_point_too(fhir):
    moved = "AllergyIntolerance?_id=moved&date"
    assert fhir.ids(f"{moved}=le{DAY}11:05:00.000Z") == ["moved"]
    assert fhir.ids(f"{moved}=gt{DAY}11:05:00.000Z") == []
    assert fhir.ids(f"{moved}=gt{DAY}11:04:59.999Z") == ["moved"]


def test_when_a_resource_changed_has_milliseconds(fhir):
    search = "DocumentReference?_lastUpdated"
    assert fhir.ids(f"{search}=2026-03-01T00:00:00.250Z") == ["report"]
    assert fhir.ids(f"{search}=2026-03-01T00:00:00Z") == ["report"]
    assert fhir.ids(f"{search}=2026-03-01T00:00:00.000Z") == []
    assert fhir.ids(f"{search}=gt2026-03-01T00:00:00.250Z") == []
    assert fhir.ids(f"{search}=ge2026-03-01T00:00:00.250Z") == ["report"]
    assert fhir.ids(f"{search}=le2026-03-01T00:00:00.249Z") == []


def test_every_digit_of_a_fraction_is_answered(fhir):
    entry = fhir.read("AllergyIntolerance/finer")
    assert entry["recordedDate"] == f"{DAY}11:05:00.5009+00:00"
    assert fhir.read("AllergyIntolerance/half")["recordedDate"] == f"{DAY}11:05:00.500+00:00"
