"""How the explorer explains a search: its parameters, its plan, misspellings, missing resources."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

import pytest
from flask import Flask

from fhirapp.audit.entries import entries
from fhirapp.auth.models import PATIENT
from fhirapp.features.explore.explanation import (
    MOST_REQUESTS,
    AppliedParameter,
    SqlStatement,
    reading_of,
)
from fhirapp.search.explain import (
    STATEMENT,
    ParameterReading,
    SoughtValue,
    explanation,
    text_part,
)
from tests.support.browsing import Browser, Page
from tests.support.helpers import BASE_URL, Fhir, token_for
from tests.support.pages import browser_of, elements, explorer_address, links, texts

ALLERGIES = "/fhir/AllergyIntolerance"
SEARCH = f"{ALLERGIES}?patient=p1&clinical-status=active&date=ge2010&_sort=date"


def explained(browser: Browser, address: str, **beside: str) -> Page:
    mark = "&" if "?" in address else "?"
    return browser.get(explorer_address(f"{address}{mark}_explain=true", **beside))


def requests_to_explain(app: Flask) -> int:
    with app.app_context():
        return len(entries(via="explain", limit=500))


# The values of issues.


def reading_of_values(*repetitions: Sequence[SoughtValue], modifier: str = "") -> AppliedParameter:
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


@pytest.mark.usefixtures("in_app")
def test_parameter_has_its_name_elements_and_condition():
    text = "has a text that begins with 'x and finds what: a token parameter.'"
    assert reading_of_values([SoughtValue(text)], modifier="text") == AppliedParameter(
        name="date:text",
        sought=text,
        place="recordedDate, or else onsetDateTime",
        kind="date",
        links=["http://hl7.org/fhir/R4/search.html#date"],
    )
    values = [SoughtValue("lacks a"), SoughtValue("lacks b")]
    assert reading_of_values(values, modifier="not").sought == "lacks a and lacks b"


@pytest.mark.usefixtures("in_app")
def test_interval_is_described_by_its_prefix():
    start, end = "2024-01-01", "2024-02-01T10:00:00.500+00:00"
    within = f"the period from {start} up to, but not including, {end} (UTC)"
    phrases = {
        "": f"is within {within}",
        "eq": f"is within {within}",
        "ne": f"is not within {within}",
        "ge": f"is within {within} or ends later",
        "le": f"is within {within} or starts earlier",
        "ap": f"overlaps {within}, which is extended by a tenth of its distance to now",
        "lt": "the server's own phrase",
    }
    for prefix, phrase in phrases.items():
        own = SoughtValue("the server's own phrase", prefix, start, end)
        applied = reading_of_values([own, SoughtValue("[1, 2) UTC")], [SoughtValue("is later")])
        assert applied.sought == f"{phrase} or [1, 2) UTC, and also is later"


@pytest.mark.usefixtures("in_app")
def test_issues_without_values_have_no_parameters_and_a_statement_has_its_plan():
    assert not reading_of([])
    sentence = "code: a token parameter that searches code and matches what has the code '1'."
    reading = reading_of([{"severity": "information", "diagnostics": sentence}])
    assert not reading.applied
    assert [note.sentence for note in reading.shaped] == [f"C{sentence[1:]}"]
    plan = "SCAN a; -- Plan: b\n  LIST"
    parts = [text_part("sql", "SELECT 1"), text_part("plan", plan)]
    issue = explanation(STATEMENT, "any sentence", parts=parts)
    assert reading_of([issue]).statements == [SqlStatement("SELECT 1", plan)]


# The explanation on the explorer's page.


def conditions(page: Page) -> dict[str, str]:
    """Return what the table of parameters says, by parameter."""
    (table,) = elements(page, "table.parameters")
    rows = [texts(row, "td") for row in elements(table, "tr")[1:]]
    return {name: condition for name, condition, *_ in rows}


def remaining(page: Page) -> list[str]:
    """Return how many matches the table says are left after each parameter."""
    return [texts(row, "td")[2] for row in elements(page, "tr") if len(elements(row, "td")) == 3]


def test_page_shows_the_condition_of_each_parameter(clinician):
    page = explained(clinician, SEARCH)
    found = conditions(page)
    assert [*found] == ["patient reference", "clinical-status token", "date date"]
    assert "refers to 'Patient/p1'" in found["patient reference"]
    assert "has the code 'active' of any system" in found["clinical-status token"]
    assert "recordedDate, or else onsetDateTime, or else onsetPeriod" in found["date date"]
    assert "Order: by date upwards" in page.words
    assert "May see every AllergyIntolerance." in page.words
    assert elements(page, "pre.sql") == []


def test_conditions_are_in_the_language_of_the_page_and_the_answer_is_not(clinic, clinician):
    german = {"headers": {"Accept-Language": "de"}}
    query = "_explain=true&patient=p1&clinical-status:not=active&code=x,y&recorder:missing=true"
    address = explorer_address(f"{ALLERGIES}?{query}", view="raw")
    page = clinician.get(address, **german)
    found = {name.partition(" ")[0]: words for name, words in conditions(page).items()}
    assert found["patient"].startswith("verweist auf 'Patient/p1' ")
    not_active = "hat nicht den Code 'active' eines beliebigen Systems; was irrtümlich erfasst ist"
    assert found["clinical-status:not"].startswith(not_active)
    assert found["code"].startswith(
        "hat den Code 'x' eines beliebigen Systems oder hat den Code 'y' eines beliebigen Systems "
    )
    assert "code und reaction.substance" in found["code"]
    assert found["recorder:missing"].startswith("hat keinen Wert ")
    # As an app gets it.
    assert "matches what refers to 'Patient/p1'" in texts(page, "pre.http")[1]
    before = requests_to_explain(clinic)
    assert "refers to 'Patient/p1'" in conditions(clinician.get(address))["patient reference"]
    assert requests_to_explain(clinic) == before, "English needs no request of its own"
    reason = (
        f"/explore/why?{urlencode({'address': f'{ALLERGIES}?patient=p2'})}&reference=al-p1-latex"
    )
    (excluding, *_) = texts(clinician.get(reason, **german), "ul.findings")
    assert "verweist auf 'Patient/p2'" in excluding


def test_demo_shows_sql_and_plan_for_developers(demo):
    page = explained(Browser(demo).resume("clinician"), SEARCH)
    (developers,) = [
        details
        for details in elements(page, "details")
        if texts(details, "summary") == ["For developers"]
    ]
    sql, plan = texts(developers, "pre.sql")
    assert sql.startswith("SELECT r.id, r.version_id")
    assert "INDEX ix_allergy_intolerance_patient " in plan


def test_ignored_parameters_are_listed_with_the_reason(clinician):
    page = explained(clinician, f"{ALLERGIES}?patients=p1&code=")
    (ignored,) = [
        texts(found, "li") for found in elements(page, "ul.plain") if texts(found, "code")
    ]
    assert sorted(line.partition(": ")[0] for line in ignored) == ["code", "patients"]
    assert any("did you mean patient?" in line for line in ignored)
    assert elements(page, "table.parameters") == []
    # Without an explanation only what was ignored is known.
    page = clinician.get(explorer_address(f"{ALLERGIES}?patient=p1&patients=p1"))
    assert "_explain=true" in texts(page, "code")
    assert links(explained(clinician, ALLERGIES), "/explore/token")


def test_limits_of_the_token_are_shown(clinic):
    page = explained(browser_of(clinic, PATIENT, "p1"), ALLERGIES)
    assert "May see each AllergyIntolerance of one patient." in page.words


def test_remaining_matches_are_counted_on_request(clinic, clinician):
    def total(query: str) -> str:
        return str(fhir.read(f"AllergyIntolerance?_summary=count{query}")["total"])

    fhir = Fhir(clinic, token_for(clinic, "system/*.rs"))
    page = explained(clinician, SEARCH)
    assert remaining(page) == []
    (narrow,) = [link for link in links(page, "/explore?") if "narrow" in link]
    counts = remaining(clinician.get(narrow.partition("#")[0]))
    queries = ("", "&patient=p1", "&patient=p1&clinical-status=active")
    assert counts[:3] == [*map(total, queries)]
    assert (len({*counts[:3]}), len(counts)) == (3, 4)
    # Repetitions of a parameter count together.
    dates = "&date=ge1990&date=lt2015"
    assert total(dates) != total("&date=ge1990")
    repeated = f"{ALLERGIES}?date=ge1990&patient=p1&date=lt2015"
    assert remaining(explained(clinician, repeated, narrow="1"))[1:] == [
        *(total(dates), total(f"{dates}&patient=p1"))
    ]
    # Not more than so many requests are sent for it.
    before = requests_to_explain(clinic)
    names = ("code", "type", "category", "recorder", "asserter", "severity", "route")
    parameters = "&".join(f"{name}=x" for name in names)
    counts = remaining(explained(clinician, f"{ALLERGIES}?{parameters}", narrow="1"))
    assert requests_to_explain(clinic) - before == MOST_REQUESTS
    assert [count.isdigit() for count in counts] == [True] * MOST_REQUESTS + [False] * 2


# Misspellings.


def test_misspelling_is_corrected_by_a_link(clinician):
    meant = {
        "AllergyIntolerance?clinical-status=activ&patient=p1": "clinical-status=active",
        "AllergyIntolerance?clinicalstatus=active": "clinical-status=active",
        "AllergyIntolerance?clinical-statu:not=Aktive": "clinical-status:not=active",
        "AllergyIntolerance?clinical-status=activ,resolvd,x": "clinical-status=active,resolved,x",
        "AllergyIntolerance?patients=p1&category=fod&_cuont=1": (
            "patient=p1, category=food, _count=1"
        ),
        "AlergyIntolerance?patients=p1": "AllergyIntolerance, patient=p1",
        "Pateint/p1": "Patient",
    }
    for typed, correction in meant.items():
        page = clinician.get(explorer_address(f"/fhir/{typed}", view="json"))
        assert texts(elements(page, "p.meant")[0], "a") == [correction]
        corrected = clinician.get(page.offered[correction])
        assert elements(corrected, "p.meant") == []
        assert texts(corrected, "span.status") == ["200 OK"]
        assert len(elements(corrected, ".json")) == 1, "in the view of before"


def test_patients_name_is_corrected_to_the_id(clinic, clinician):
    patient = browser_of(clinic, PATIENT, "p2")
    for typed in ("amelia", "Amelia Hartwell"):
        query = urlencode({"clinical-status": "active", "patient": typed})
        page = clinician.get(explorer_address(f"{ALLERGIES}?{query}"))
        (correction,) = texts(page, "p.meant")
        assert "patient=p1, Amelia Rose Hartwell, born 12 April 1958" in correction
        assert "5 matches" in clinician.get(page.offered["patient=p1"]).words
        # Who may not see a patient is not told the name either.
        assert elements(patient.get(explorer_address(f"{ALLERGIES}?{query}")), "p.meant") == []


def test_text_that_resembles_nothing_is_not_corrected(clinician):
    for typed in (
        "AllergyIntolerance?patient=p1&clinical-status=active",
        "AllergyIntolerance?patient=p1&code=xyzzy",
        "AllergyIntolerance?patient=p1000",
        "AllergyIntolerance?patient=nobody-of-that-name",
        "AllergyIntolerance?xyzzy=1",
        "AllergyIntolerance?clinical-status=xyzzy&category=%7C",
        "AllergyIntolerance?code=activ&date=activ&=&%FF=%FF",
        *("AuditEvent", "Patient/nobody", "Nonsense/1"),
    ):
        page = clinician.get(explorer_address(f"/fhir/{typed}"))
        assert len(elements(page, "section", id="answer")) == 1
        assert elements(page, "p.meant") == [], typed


# Why a resource is missing.


def why(browser: Browser, address: str, reference: str) -> Page:
    return browser.get(f"/explore/why?{urlencode({'address': address, 'reference': reference})}")


def reasons(browser: Browser, query: str, reference: str = "al-p1-latex") -> list[str]:
    """Return why a search for allergies does not find a resource."""
    page = why(browser, f"{ALLERGIES}?{query}", reference)
    assert page.status == 200, page.words
    return texts(elements(page, "ul.findings")[0], "li")


def test_parameters_that_exclude_a_resource_are_shown_with_its_values(clinician):
    query = SEARCH.partition("?")[2] + "&code=%3Cb%3Ex"
    date, code, *_, matching = reasons(clinician, query, "AllergyIntolerance/al-p1-latex")
    assert date.startswith("date excludes it")
    assert "the period from 2010-01-01" in date
    assert "1996-05." in date
    assert "the code '<b>x' of any system" in code
    assert "111088007 (Latex gloves)" in code
    assert "patient, clinical-status." in matching
    assert "<b>x" not in why(clinician, f"{ALLERGIES}?{query}", "al-p1-latex").response.text
    assert reasons(clinician, "_id=al-p1-sulfa") == ["_id excludes it: it lists other ids."]
    assert "'nonsense' is not a date" in reasons(clinician, "date=nonsense&patient=p1")[0]


def test_reference_is_read_as_people_copy_it(clinician):
    for reference in (
        "al-p1-latex",
        f"{ALLERGIES}/al-p1-latex",
        f"{BASE_URL}{ALLERGIES}/al-p1-latex/_history/1",
        " AllergyIntolerance/al-p1-latex ",
    ):
        assert "code:not" in reasons(clinician, "code:not=111088007", reference)[0], reference
    for reference in ("<script>", "a/b/c", "AllergyIntolerance/", "é☃", "Patient/é"):
        page = why(clinician, f"{ALLERGIES}?patient=p1", reference)
        (reason,) = texts(page, "ul.findings")
        assert reason.startswith("This is not a reference."), reference
        assert "<script>" not in page.response.text.partition("<main")[2]


def test_resource_that_the_search_finds_is_said_to_be_found(clinician):
    for query, words in (
        ("patient=p1", "“next”"),
        ("patient=p1&_count=0", "only the total"),
        ("_summary=count&foo=1", "only the total"),
        ("_id=al-p1-latex,al-p1-sulfa", "this search finds it"),
    ):
        found = reasons(clinician, query)
        assert found[0].startswith("No parameter excludes it"), query
        assert words in " ".join(found), query


def test_hidden_resource_has_the_reason_of_one_that_does_not_exist(clinic):
    patient = browser_of(clinic, PATIENT, "p1")
    hidden, unknown = (
        reasons(patient, "clinical-status=active", name) for name in ("al-p2-morphine", "al-p2-x")
    )
    assert hidden == unknown
    assert hidden[0].startswith("This AllergyIntolerance does not exist, or the token")
    assert reasons(patient, "patient=p2")[0].startswith("patient: the token is for one patient")
    assert "AllergyIntolerance; Patient" in reasons(patient, "patient=p1", "Patient/p1")[0]


def test_address_that_is_no_search_is_not_explained(clinic, clinician):
    before = requests_to_explain(clinic)
    statuses = {
        "/fhir/Patient/p1": 400,
        "/fhir/DocumentReference/$docref?patient=p1": 400,
        "/admin/users": 400,
        "/fhir/../admin/users?x=1": 400,
        "https://evil.example/fhir/Patient?name=a": 400,
        "": 400,
        "/fhir/Patient?name=" + "x" * 9_000: 414,
    }
    assert {address: why(clinician, address, "p1").status for address in statuses} == statuses
    assert requests_to_explain(clinic) == before
