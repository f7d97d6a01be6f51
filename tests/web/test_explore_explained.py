"""How the server read a search, in words, and how many are left after each parameter."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlencode

import pytest
from flask import Flask

from fhirapp.audit.read import Entry, entries
from fhirapp.auth.models import CLINICIAN, PATIENT
from fhirapp.db.plan import PlanStep, postgresql_steps, sqlite_steps
from fhirapp.search.explain import (
    STATEMENT,
    ParameterReading,
    SoughtValue,
    explanation,
    step_part,
    text_part,
)
from fhirapp.web.explore.explanation import MOST_REQUESTS, Applied, Statement, reading_of
from fhirapp.web.explore.plan import picture_of
from tests.support.browsing import Browser, Page, add_person
from tests.support.helpers import Fhir, token_for

SEARCH = "/fhir/AllergyIntolerance?patient=p1&clinical-status=active&date=ge2010&_sort=date"


@pytest.fixture(scope="module")
def clinic(make_app: Callable[..., Flask]) -> Flask:
    """An app with people of its own, not in demo mode."""
    return make_app()


@pytest.fixture(scope="module")
def demo(make_app: Callable[..., Flask]) -> Flask:
    """An app in demo mode."""
    return make_app(demo=True)


@pytest.fixture
def clinician(clinic: Flask) -> Browser:
    return Browser(clinic).resume(add_person(clinic, CLINICIAN))


def explore(browser: Browser, address: str, **beside: str) -> Page:
    mark = "&" if "?" in address else "?"
    query = {"address": f"{address}{mark}_explain=true", **beside}
    return browser.get(f"/explore?{urlencode(query)}")


def asked(app: Flask, via: str) -> list[Entry]:
    with app.app_context():
        return list(entries(via=via, limit=500))


# The issues' values, in plain words.


@pytest.fixture
def _request(clinic: Flask) -> Iterator[None]:
    with clinic.test_request_context():
        yield


def reading_of_values(*repetitions: Sequence[SoughtValue], modifier: str = "") -> Applied:
    """Return how the page shows a parameter with these repetitions."""
    issue = ParameterReading(
        name="date",
        modifier=modifier,
        kind="date",
        paths=["recordedDate", "onsetDateTime"],
        is_first_of=True,
        doc="",
        repetitions=repetitions,
        links=["http://hl7.org/fhir/R4/search.html#date"],
    ).issue()
    (applied,) = reading_of([issue]).applied
    return applied


@pytest.mark.usefixtures("_request")
def test_a_parameter_has_its_name_place_and_phrase():
    text = "has a text that begins with 'x and finds what: a token parameter.'"
    assert reading_of_values([SoughtValue(text)], modifier="text") == Applied(
        name="date:text",
        sought=text,
        place="recordedDate, or else onsetDateTime",
        kind="date",
        links=["http://hl7.org/fhir/R4/search.html#date"],
    )


START, END = "2024-01-01", "2024-02-01T10:00:00.500+00:00"
WITHIN = f"the period from {START} up to, but not including, {END} (UTC)"


@pytest.mark.parametrize(
    ("prefix", "phrase"),
    [
        ("", f"is within {WITHIN}"),
        ("eq", f"is within {WITHIN}"),
        ("ne", f"is not within {WITHIN}"),
        ("ge", f"is within {WITHIN} or ends later"),
        ("le", f"is within {WITHIN} or starts earlier"),
        ("ap", f"overlaps {WITHIN}, which is extended by a tenth of its distance to now"),
        ("lt", "the server's own phrase"),
    ],
)
@pytest.mark.usefixtures("_request")
def test_an_interval_is_in_plain_words(prefix, phrase):
    values = [SoughtValue("the server's own phrase", prefix, START, END), SoughtValue("[1, 2) UTC")]
    applied = reading_of_values(values, [SoughtValue("is later")])
    assert applied.sought == f"{phrase} or [1, 2) UTC, and also is later"


@pytest.mark.usefixtures("_request")
def test_values_that_are_excluded_all_count():
    values = [SoughtValue("lacks a"), SoughtValue("lacks b")]
    assert reading_of_values(values, modifier="not").sought == "lacks a and lacks b"


@pytest.mark.usefixtures("_request")
def test_sql_and_its_plan_are_apart():
    steps = [PlanStep(0, "SCAN a; -- Plan: b", "scan", "a"), PlanStep(1, "LIST")]
    parts = [text_part("sql", "SELECT 1"), *map(step_part, steps)]
    issue = explanation(STATEMENT, "any sentence", parts=parts)
    assert reading_of([issue]).statements == [Statement("SELECT 1", steps)]


SQL = (
    'SELECT 1 FROM "notes" r WHERE r.pk IN (SELECT k.pk FROM "notes_date" k WHERE k.low > ? OR'
    ' k.high > ?) AND EXISTS (SELECT 1 FROM "notes_token" k) AND EXISTS (SELECT 1 FROM "words" w)'
)
STEPS = [
    (3, 0, 0, "SCAN r USING INDEX ix_notes_updated"),
    (5, 0, 0, "LIST SUBQUERY 1"),
    (7, 5, 0, "MULTI-INDEX OR"),
    (8, 7, 0, "INDEX 1"),
    (9, 8, 0, "SEARCH k USING COVERING INDEX ix_notes_date (param=? AND low>?)"),
    (10, 7, 0, "INDEX 2"),
    (11, 10, 0, "SEARCH k USING PRIMARY KEY (pk=?)"),
    (20, 0, 0, "SCAN w VIRTUAL TABLE INDEX 0:M2"),
    (21, 0, 0, "SCAN w"),
    (22, 0, 0, "SCAN y"),
    (23, 0, 0, "USE TEMP B-TREE FOR ORDER BY"),
]


@pytest.mark.usefixtures("_request")
def test_a_plan_is_a_picture_and_sentences_beside_it():
    picture = picture_of(sqlite_steps(STEPS, SQL))
    assert [(box.access, box.title, box.detail, box.sentence) for box in picture.boxes] == [
        ("scan", "Index scan", "notes",
         "Scans notes in the order of the index ix_notes_updated"),
        ("", "Subquery, run once", "", "Subquery, run once"),
        ("", "Several indexes combined (OR)", "", "Several indexes combined (OR)"),
        ("search", "Search by index", "notes_date",
         "Finds rows of notes_date by the index ix_notes_date: param=? AND low>?"),
        # Which of two tables it is, SQLite does not say.
        ("search", "Search by key", "k", "Finds rows of k by their key: pk=?"),
        ("search", "Full-text search", "words", "Finds rows by full-text search in words"),
        ("scan", "Full table scan", "words", "Reads every row of words, without an index"),
        ("", "Scan the subquery", "", "Scan the subquery"),
        ("sort", "Sort", "", "Sorts the results: no index provides this order"),
    ]  # fmt: skip
    assert [box.x for box in picture.boxes] == [16, 16, 32, 64, 64, 16, 16, 16, 16]
    assert picture.label.startswith("1 Index scan notes; 2 Subquery, run once; 3")
    assert picture.left_out == 0
    long = picture_of([PlanStep(depth, "Anything") for depth in range(100)])
    assert (len(long.boxes), long.left_out) == (12, 88)
    assert all(box.x < box.width for box in long.boxes)


@pytest.mark.usefixtures("_request")
def test_a_plan_of_postgresql_is_a_picture_too():
    plan = {
        "Node Type": "Sort", "Sort Key": ["r.id", "r.pk"],
        "Plans": [
            {"Node Type": "Index Scan", "Relation Name": "notes", "Alias": "r",
             "Index Name": "ix_notes", "Index Cond": "(patient_id = '<p1>')"},
            {"Node Type": "Seq Scan", "Relation Name": "notes_token", "Alias": "k",
             "Subplan Name": "SubPlan 1"},
        ],
    }  # fmt: skip
    steps = [*postgresql_steps(plan)]
    assert [step.depth for step in steps] == [0, 1, 1]
    assert [box.sentence for box in picture_of(steps).boxes] == [
        "Sorts the results: no index provides this order: Sort Key: r.id, r.pk",
        "Finds rows of notes by the index ix_notes: Index Cond: (patient_id = '<p1>')",
        "Reads every row of notes_token, without an index",
    ]


@pytest.mark.usefixtures("_request")
def test_no_issue_and_an_issue_without_values_explain_nothing():
    assert not reading_of([])
    sentence = "code: a token parameter that searches code and matches what has the code '1'."
    reading = reading_of([{"severity": "information", "diagnostics": sentence}])
    assert not reading.applied
    assert [note.sentence for note in reading.shaped] == [f"C{sentence[1:]}"]


# As the explorer's page has it.


def test_the_page_says_what_each_parameter_finds(clinician):
    page = explore(clinician, SEARCH)
    assert "patient reference refers to 'Patient/p1'" in page.words
    assert "clinical-status token has the code 'active' of any system" in page.words
    assert "searches recordedDate, or else onsetDateTime, or else onsetPeriod" in page.words
    assert "Order: by date upwards" in page.words
    assert "Nothing was ignored." in page.words
    assert "May see every AllergyIntolerance." in page.words
    assert "SQL" not in page.words


def test_in_the_demo_it_shows_sql_and_plan(demo):
    page = explore(Browser(demo).resume("clinician"), SEARCH)
    assert "SQL and the database's own query plan SELECT r.id, r.version_id" in page.words
    assert "Finds rows of allergy_intolerance by the index ix_allergy_" in page.words
    (picture,) = re.findall(r"<svg[^>]* role=\"img\" aria-label=\"([^\"]*)\"", page.response.text)
    assert re.search(r"\d Search by index allergy_intolerance(;|$)", picture)
    assert re.search(r"\d rows on this page", page.words)


def test_what_was_ignored_is_told_with_the_reason(clinician):
    page = explore(clinician, "/fhir/AllergyIntolerance?patients=p1&code=")
    assert "patients: is not a search parameter of this type; did you mean patient?" in page.words
    assert "code: has no value and was ignored." in page.words
    everything = "it returns everything that the token gives access to."
    assert f"No parameter filters the search: {everything}" in page.words
    assert "Nothing was ignored." not in page.words


def test_what_was_not_asked_to_be_explained_is_not_said_to_select_nothing(clinician):
    page = clinician.get("/explore?address=/fhir/AllergyIntolerance?patient=p1%26patients=p1")
    assert "patients: is not a search parameter" in page.words
    assert "No parameter filters the search" not in page.words
    assert "Add _explain=true to the address" in page.words


def test_the_token_of_a_patient_limits_what_is_found(clinic):
    browser = Browser(clinic).resume(add_person(clinic, PATIENT, "p1"))
    page = explore(browser, "/fhir/AllergyIntolerance")
    assert "May see each AllergyIntolerance of one patient." in page.words


def left(page: Page) -> list[str]:
    """Return the rows of the table: parameter, and how many are left."""
    cells = page.response.text.split('data-label="Remaining matches">')[1:]
    return [cell.partition("</td>")[0].strip() for cell in cells]


def test_how_many_are_left_after_each_parameter_is_told_when_it_is_asked(clinic, clinician):
    page = explore(clinician, SEARCH)
    assert left(page) == []
    link = page.links["Matches after each filter"]
    shown = clinician.get(link.partition("#")[0])
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    totals = [
        str(fhir.read(f"AllergyIntolerance?_summary=count{query}")["total"])
        for query in ("", "&patient=p1", "&patient=p1&clinical-status=active")
    ]
    assert len(set(totals)) == 3
    assert left(shown)[:3] == totals
    assert len(left(shown)) == 4
    assert "no parameter Everything that the token gives access to" in shown.words


def test_repetitions_of_a_parameter_count_together(clinic, clinician):
    address = "/fhir/AllergyIntolerance?date=ge1990&patient=p1&date=lt2015"
    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    both = fhir.read("AllergyIntolerance?date=ge1990&date=lt2015")["total"]
    one = fhir.read("AllergyIntolerance?date=ge1990")["total"]
    assert both != one
    of_p1 = fhir.read("AllergyIntolerance?date=ge1990&date=lt2015&patient=p1")["total"]
    shown = left(explore(clinician, address, narrow="1"))
    assert shown[1:] == [str(both), str(of_p1)]


def test_no_more_is_asked_than_is_told(clinic, clinician):
    names = ("code", "type", "category", "recorder", "asserter", "severity", "route")
    parameters = "&".join(f"{name}=x" for name in names)
    before = len(asked(clinic, "explain"))
    shown = explore(clinician, f"/fhir/AllergyIntolerance?{parameters}", narrow="1")
    assert len(asked(clinic, "explain")) - before == MOST_REQUESTS
    assert left(shown)[MOST_REQUESTS:] == ['<span class="soft">not counted</span>'] * 2


def test_a_refused_search_is_told_and_not_counted(clinician):
    page = explore(clinician, "/fhir/AllergyIntolerance?date=nonsense", narrow="1")
    assert "date" in page.words
    assert left(page) == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("AllergyIntolerance?clinical-status=activ&patient=p1", "clinical-status=active"),
        ("AllergyIntolerance?clinicalstatus=active", "clinical-status=active"),
        ("AllergyIntolerance?clinical-statu:not=Aktive", "clinical-status:not=active"),
        ("AllergyIntolerance?clinical-status=activ,resolvd,x", "clinical-status=active,resolved,x"),
        (
            "AllergyIntolerance?patients=p1&category=fod&_cuont=1",
            "patient=p1, category=food, _count=1",
        ),
        ("AlergyIntolerance?patients=p1", "AllergyIntolerance, patient=p1"),
        ("Pateint/p1", "Patient"),
    ],
)
def test_what_is_misspelled_is_answered_with_what_was_perhaps_meant(clinician, typed, meant):
    page = clinician.get(f"/explore?{urlencode({'address': f'/fhir/{typed}', 'view': 'json'})}")
    assert f"Did you mean {meant}?" in page.words
    again = clinician.get(page.offered[meant])
    assert "Did you mean" not in again.words
    assert "200 OK" in again.words
    assert 'class="json"' in again.response.text, "shown as before"


def test_of_a_refused_search_it_is_told_too(clinician):
    page = explore(clinician, "/fhir/AllergyIntolerance?patients=p1", prefer="handling=strict")
    assert "400 Bad Request" in page.words
    assert "200 OK" in clinician.get(page.offered["patient=p1"]).words


@pytest.mark.parametrize("typed", ["amelia", "Amelia Hartwell"])
def test_who_searches_by_the_name_of_a_patient_is_led_to_the_id(clinic, clinician, typed):
    typed = urlencode({"clinical-status": "active", "patient": typed})
    page = clinician.get(f"/explore?{urlencode({'address': f'/fhir/AllergyIntolerance?{typed}'})}")
    assert "Did you mean patient=p1, Amelia Rose Hartwell, born 12 April 1958?" in page.words
    found = clinician.get(page.offered["patient=p1"])
    assert "5 matches" in found.words
    assert "Did you mean" not in found.words
    patient = Browser(clinic).resume(add_person(clinic, PATIENT, "p2"))
    page = patient.get(f"/explore?{urlencode({'address': f'/fhir/AllergyIntolerance?{typed}'})}")
    assert "Response" in page.words
    assert "Did you mean" not in page.words


@pytest.mark.parametrize(
    "typed",
    [
        "AllergyIntolerance?patient=p1&clinical-status=active",
        "AllergyIntolerance?patient=p1&code=xyzzy",
        "AllergyIntolerance?patient=p1000",
        "AllergyIntolerance?patient=nobody-of-that-name",
        "AllergyIntolerance?xyzzy=1",
        "AllergyIntolerance?clinical-status=xyzzy&category=%7C",
        "AllergyIntolerance?code=activ&date=activ&=&%FF=%FF",
        "AuditEvent",
        "Patient/nobody",
        "Nonsense/1",
    ],
)
def test_what_resembles_nothing_is_not_corrected(clinician, typed):
    page = clinician.get(f"/explore?{urlencode({'address': f'/fhir/{typed}'})}")
    assert "Response" in page.words
    assert "Did you mean" not in page.words
