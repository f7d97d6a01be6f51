"""Times for people: in the clinic's zone, with its name; records and answers keep UTC."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from flask import Flask

from fhirapp.audit.entries import entries
from fhirapp.auth.models import ADMINISTRATOR, CLINICIAN
from fhirapp.features.chart.elements import born, died
from fhirapp.features.notes.elements import day_of, moment_of
from fhirapp.fhir import temporal
from fhirapp.fhir.temporal import exact_at, instant_of
from fhirapp.fhir.words import onset, when
from fhirapp.web import times
from tests.support.allergies import allergy, patient_with
from tests.support.browsing import Browser, add_person
from tests.support.helpers import Fhir, token_for
from tests.support.noted import add, attached, note

# 20:15 -06:00 on 1 March.
EVENING = "2024-03-02T02:15:09+00:00"
SECONDS = int(datetime.fromisoformat(EVENING).timestamp())
ZONES = ["America/Chicago", "Asia/Kolkata", "UTC"]
# The evening in each zone: the day, the hour, what the zone is called.
SHOWN = {
    "America/Chicago": ("1 March 2024", "20:15", "CST"),
    "Asia/Kolkata": ("2 March 2024", "07:45", "IST"),
    "UTC": ("2 March 2024", "02:15", "UTC"),
}


@pytest.fixture
def at(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return what sets the clinic's zone."""
    return lambda name: monkeypatch.setattr(temporal, "_find", lambda: ZoneInfo(name))


def test_instant_has_the_day_of_the_zone_and_names_it(at, subtests):
    for zone in ZONES:
        with subtests.test(zone=zone):
            at(zone)
            day, hour, name = SHOWN[zone]
            assert when(EVENING) == f"{day} {name}"
            assert when("2024-03-01T20:15:09.123456789-06:00") == f"{day} {name}"
            assert times.day(SECONDS) == day
            assert times.moment(SECONDS) == f"{day}, {hour} {name}"
            assert times.exact(EVENING) == exact_at(SECONDS) == f"{day}, {hour}:09 {name}"
            assert times.partial(EVENING) == day
            brief = day.replace("March", "Mar")
            assert day_of(EVENING) == brief
            assert moment_of(EVENING) == f"{brief}, {hour} {name}"
            assert died({"deceasedDateTime": EVENING}) == f"died {day} {name}"
            period = {"start": EVENING, "end": "2024-05"}
            assert onset({"onsetPeriod": period}) == f"from {day} {name} to May 2024"


def test_date_alone_stays_as_it_is_in_every_zone(at, subtests):
    for zone in ZONES:
        for value, words in [
            ("2024-03-02", "2 March 2024"),
            ("2024-03", "March 2024"),
            ("2024", "2024"),
        ]:
            with subtests.test(zone=zone):
                at(zone)
                assert when(value) == words
                assert times.partial(value) == words
                assert day_of(value) == moment_of(value) == words.replace("March", "Mar")


def test_name_tells_hours_apart_that_come_twice(at, subtests):
    for zone, instant, words in [
        ("America/Chicago", "2024-03-10T07:59:59Z", "10 March 2024, 01:59:59 CST"),
        ("America/Chicago", "2024-03-10T08:00:00Z", "10 March 2024, 03:00:00 CDT"),
        # The hour that comes twice.
        ("America/Chicago", "2024-11-03T06:30:00Z", "3 November 2024, 01:30:00 CDT"),
        ("America/Chicago", "2024-11-03T07:30:00Z", "3 November 2024, 01:30:00 CST"),
        ("Europe/Berlin", "2024-10-27T00:30:00Z", "27 October 2024, 02:30:00 CEST"),
        ("Europe/Berlin", "2024-10-27T01:30:00Z", "27 October 2024, 02:30:00 CET"),
        # Zones without letters.
        ("America/Sao_Paulo", EVENING, "1 March 2024, 23:15:09 UTC-03:00"),
        ("Asia/Kathmandu", EVENING, "2 March 2024, 08:00:09 UTC+05:45"),
        # The ends of the calendar.
        ("America/Chicago", "0001-01-01T00:00:00Z", "1 January 0001, 00:00:00 UTC"),
        ("Asia/Kolkata", "9999-12-31T23:59:59Z", "31 December 9999, 23:59:59 UTC"),
    ]:
        with subtests.test(zone=zone):
            at(zone)
            assert times.exact(instant) == words
            assert times.exact(instant.replace("Z", "+00:00")) == words


def test_leap_second_is_shown(at):
    at("America/Chicago")
    assert when("2016-12-31T23:59:60Z") == "31 December 2016 CST"


def test_age_at_death_depends_on_the_zone(at, subtests):
    for zone, years in [("America/Chicago", "65"), ("Asia/Kolkata", "66"), ("UTC", "66")]:
        with subtests.test(zone=zone):
            at(zone)
            patient = {"birthDate": "1958-03-02", "deceasedDateTime": EVENING}
            assert born(patient, date(2026, 1, 1)) == f"born 2 March 1958 ({years})"


def test_day_that_a_person_types_is_one_of_the_clinics(at, subtests):
    for zone, typed, low, high in [
        ("America/Chicago", "2024-03-01", "2024-03-01T06:00", "2024-03-02T06:00"),
        # A day of 23 hours, and one of 25.
        ("America/Chicago", "2024-03-10", "2024-03-10T06:00", "2024-03-11T05:00"),
        ("America/Chicago", "2024-11-03", "2024-11-03T05:00", "2024-11-04T06:00"),
        ("America/Chicago", "2024", "2024-01-01T06:00", "2025-01-01T06:00"),
        ("Asia/Kolkata", "2024-03-02", "2024-03-01T18:30", "2024-03-02T18:30"),
        ("Asia/Kolkata", "2024-03-02T10:00", "2024-03-02T04:30", "2024-03-02T04:31"),
        ("Asia/Kolkata", "2024-03-02T10:00Z", "2024-03-02T10:00", "2024-03-02T10:01"),
        ("Asia/Kolkata", "2024-03-02T10:00-05:00", "2024-03-02T15:00", "2024-03-02T15:01"),
        ("UTC", "2024-03", "2024-03-01T00:00", "2024-04-01T00:00"),
    ]:
        with subtests.test(zone=zone):
            at(zone)
            found = temporal.local_interval(typed)
            assert (instant_of(found.low)[:16], instant_of(found.high)[:16]) == (low, high)


@pytest.fixture(scope="module", params=ZONES)
def zone(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask], zone: str) -> Flask:
    return make_app(timezone=zone)


def test_chart_and_the_summary_tell_the_day_with_its_zone(clinic, zone):
    day, _hour, name = SHOWN[zone]
    one = allergy("Nuts", recordedDate=EVENING, lastOccurrence="2024-03-02")
    patient = patient_with(clinic, one)
    clinician = Browser(clinic).resume(add_person(clinic, CLINICIAN))
    words = clinician.get(f"/patients/{patient}").words
    assert f"last occurred 2 March 2024 recorded {day} {name} " in words
    assert words.endswith(f"Dates and times are in {zone}, unless another time zone is shown.")
    assert f"Recorded {day} {name} " in clinician.get(
        f"/patients/{patient}/allergies/{one['id']}"
    ).words.replace(" recordedDate ", " ")
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    summary = fhir.get(f"AllergyIntolerance/$summary?patient={patient}").text
    assert f'"{day} {name}"' in summary
    assert '"2 March 2024"' in summary
    # What was recorded is what programs read.
    resource = fhir.read(f"AllergyIntolerance/{one['id']}")
    assert resource["recordedDate"] == EVENING


def test_notes_are_dated_and_found_by_the_day_of_the_zone(clinic, zone, tmp_path):
    day, hour, name = SHOWN[zone]
    brief = day.replace("March", "Mar")
    add(clinic, tmp_path, note("zoned", attached("walrus"), date=EVENING))
    browser = Browser(clinic).resume(add_person(clinic, CLINICIAN))
    assert f"{brief}, {hour} {name}" in browser.get("/notes/zoned").words
    assert f"{brief} " in browser.get("/notes?q=walrus").words
    days = {"1 Mar 2024": "2024-03-01", "2 Mar 2024": "2024-03-02"}
    for one, typed in days.items():
        for q in ("", "&q=walrus"):
            page = browser.get(f"/notes?patient=p1&from={typed}&to={typed}{q}")
            is_found = any("/notes/zoned" in address for address in page.offered.values())
            assert is_found is (one == brief), (one, q)


def test_pages_of_administration_tell_the_hour_with_its_zone(clinic, zone):
    administrator = Browser(clinic).resume(add_person(clinic, ADMINISTRATOR))
    administrator.get("/patients/p1")
    with clinic.app_context():
        (newest,) = entries(patient_id="p1", limit=1)
    then = datetime.fromisoformat(newest.at).astimezone(ZoneInfo(zone))
    hour, name = f"{then.day} {then:%B %Y, %H:%M}", then.tzname()
    assert f"{hour} {name}" in administrator.get("/patients/p1/viewers").words
    exact = f"{hour}:{then:%S} {name}"
    assert exact in administrator.get("/admin/audit").words
    # The day that is shown is the day that finds it.
    for day, is_found in ((then, True), (then - timedelta(days=2), False)):
        typed = f"since={day:%Y-%m-%d}&until={day:%Y-%m-%d}"
        assert (exact in administrator.get(f"/admin/audit?{typed}").words) is is_found
    assert zone in administrator.get("/admin/settings").words.partition("FHIRAPP_TIMEZONE")[2]
