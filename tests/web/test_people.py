"""Patients and visits as pages show them: how they are found, what they are called."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from fhirapp.web.launch import visits_of
from fhirapp.web.people import SHOWN, NoDate, Person, find_people, people, person
from tests.support.browsing import Browser, add_person, cookie_name
from tests.support.helpers import BASE_URL
from tests.support.publishing import TIMES, delete, publish

NUMBER = "http://terminology.hl7.org/CodeSystem/v2-0203"


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """The seeded app, in which a clinician asks."""
    return make_app()


@pytest.fixture(scope="module")
def store(make_app: Callable[..., Flask]) -> Flask:
    """An app into which each test puts patients of its own."""
    return make_app(seed=False)


@contextmanager
def asking(app: Flask) -> Iterator[None]:
    """Be in a request of a clinician's to a page."""
    cookie = Browser(app).resume(add_person(app, CLINICIAN)).cookie()
    headers = {"Cookie": f"{cookie_name(app)}={cookie}"}
    with app.test_request_context("/patients", base_url=BASE_URL, headers=headers):
        yield


def find(app: Flask, name: str, born: str = "") -> tuple[list[Person], bool]:
    with asking(app):
        return find_people(name, born, via="chart")


def names(app: Flask, name: str, born: str = "") -> list[str]:
    return [one.name for one in find(app, name, born)[0]]


def shown(app: Flask, resource_id: str, **elements: Any) -> Person:
    """Return what a patient with these elements looks like."""
    given = {name: element for name, element in elements.items() if element}
    publish(app, TIMES[0], {"resourceType": "Patient", "id": resource_id, **given})
    with app.app_context():
        found = person(resource_id)
    assert found is not None
    return found


def identifier(value: str | None, *codes: str) -> dict[str, Any]:
    one: dict[str, Any] = {"system": "http://x"} if value is None else {"value": value}
    if codes:
        one["type"] = {"coding": [{"system": NUMBER, "code": code} for code in codes]}
    return one


@pytest.mark.parametrize(
    ("name", "born", "found"),
    [
        ("hartwell", "", ["Amelia Rose Hartwell"]),
        ("AMELIA hart", "", ["Amelia Rose Hartwell"]),
        ("rose amelia", "1958-04", ["Amelia Rose Hartwell"]),
        ("", "1958-04-12", ["Amelia Rose Hartwell"]),
        ("Hartwell, Amelia", "", ["Amelia Rose Hartwell"]),
        ("hartwell,rose", "", ["Amelia Rose Hartwell"]),
        (",hartwell,", "", ["Amelia Rose Hartwell"]),
        ("ekstrom", "1979", ["Tobias Ekström"]),
        ("hartwell", "1959", []),
        ("artwell", "", []),
        ("%", "", []),
        ("hart,ekstrom", "", []),
        ("hart|", "", []),
        ("hart\\", "", []),
        ("\0hart\0", "", ["Amelia Rose Hartwell"]),
        (" hart " * 50, "", ["Amelia Rose Hartwell"]),
    ],
)
def test_people_are_found_by_the_beginning_of_their_names(app, name, born, found):
    assert names(app, name, born) == found


@pytest.mark.parametrize("born", ["soon", "12.4.1958", "1958-13", "\0", "--", "1958-04-12,soon"])
def test_what_is_no_date_is_said(app, born):
    with pytest.raises(NoDate):
        find(app, "hart", born)


def test_the_first_are_shown_and_that_there_are_more(make_app):
    app = make_app(seed=False)
    many = [{"resourceType": "Patient", "id": f"m{at}"} for at in range(SHOWN + 1)]
    publish(app, TIMES[0], *many[:SHOWN])
    found, more = find(app, "")
    assert (len(found), more) == (SHOWN, False)
    publish(app, TIMES[1], many[SHOWN])
    found, more = find(app, "")
    assert (len(found), more) == (SHOWN, True)


@pytest.mark.parametrize("name", ["", "a"])
def test_people_stand_by_family_name_and_then_given_name(make_app, name):
    app = make_app(seed=False)
    called = [("Özdemir", "Anton"), ("Muster", "Beat"), (None, "Aaron"), ("Muster", "Anna")]
    patients = [
        {"resourceType": "Patient", "id": f"n{at}", "name": [{"family": family, "given": [given]}]}
        for at, (family, given) in enumerate(called)
    ]
    del patients[2]["name"][0]["family"]
    publish(app, TIMES[0], *patients)
    everybody = ["Anna Muster", "Beat Muster", "Anton Özdemir", "Aaron"]
    assert names(app, name) == [one for one in everybody if name == "" or one[0] == "A"]


def test_of_many_the_first_by_family_name_are_shown(make_app):
    app = make_app(seed=False)
    order = [*range(SHOWN, 0, -1), 0, SHOWN + 1]
    publish(
        app,
        TIMES[0],
        *(
            {"resourceType": "Patient", "id": f"f{at}", "name": [{"family": f"Family{at:02}"}]}
            for at in order
        ),
    )
    assert names(app, "") == [f"Family{at:02}" for at in range(SHOWN)]


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ([], "Name not recorded"),
        ([{"use": "official"}], "Name not recorded"),
        ([{"text": "Ada L."}], "Ada L."),
        ([{"family": "L", "given": ["Ada", "B"]}], "Ada B L"),
        ([{"given": ["Ada"]}], "Ada"),
        # Of several, the one that is theirs now.
        ([{"use": "old", "text": "Old"}, {"text": "New"}], "New"),
        ([{"use": "maiden", "text": "Old"}, {"use": "usual", "text": "New"}], "New"),
        ([{"use": "nickname", "text": "Nick"}, {"use": "official", "text": "Name"}], "Name"),
        ([{"use": "official"}, {"use": "old", "text": "Old"}], "Old"),
    ],
)
def test_people_are_called_by_the_name_they_have_now(store, given, called):
    assert shown(store, "named", name=given).name == called


def test_a_name_without_a_value_is_no_mistake(store):
    name = {"_given": [{"extension": [{"url": "http://x", "valueCode": "unknown"}]}], "family": "L"}
    assert shown(store, "no-given", name=[name]).name == "L"


@pytest.mark.parametrize(
    ("given", "number"),
    [
        ([], ""),
        ([identifier("1")], "1"),
        ([identifier("1"), identifier("2", "MR")], "2"),
        ([identifier("tax", "TAX"), identifier("ssn", "SS"), identifier("3", "MR")], "3"),
        ([identifier("both", "SS", "MR")], "both"),
        # Nobody's matter who looks for a patient.
        ([identifier("ssn", "SS"), identifier("licence", "DL")], ""),
        ([identifier("ssn", "SS"), identifier("4")], "4"),
        ([identifier(None, "MR"), identifier("5")], "5"),
    ],
)
def test_the_number_that_is_shown_is_the_clinics_own(store, given, number):
    assert shown(store, "numbered", identifier=given).identifier == number


def test_who_was_deleted_is_not_shown(store):
    shown(store, "gone", name=[{"text": "Gone"}])
    delete(store, TIMES[1], "Patient/gone")
    with store.app_context():
        assert person("gone") is None
        assert people(["gone", "unknown"]) == []
    assert names(store, "gone") == []


def test_people_stand_in_the_order_asked_for(app):
    with app.app_context():
        assert [one.id for one in people(["p3", "unknown", "p1", "p2"])] == ["p3", "p1", "p2"]


def encounter(at: int, patient: str = "v", **elements: Any) -> dict[str, Any]:
    return {
        "resourceType": "Encounter",
        "id": f"{patient}{at}",
        "status": "finished",
        "class": {"system": "http://x", "code": "AMB"},
        "subject": {"reference": f"Patient/{patient}"},
        **elements,
    }


def test_visits_are_those_of_the_patient_the_latest_first(store):
    for patient in ("v", "w"):
        shown(store, patient)
    days = ["2024-05-01", "2026-01", "2025", None]
    publish(
        store,
        TIMES[0],
        *(
            encounter(at, **({"period": {"start": day}} if day else {}))
            for at, day in enumerate(days)
        ),
        encounter(0, "w", period={"start": "2026-02-01"}),
    )
    with asking(store):
        visits = [visit.words for visit in visits_of("v")[0]]
    assert visits == [
        "Visit, January 2026",
        "Visit, 2025",
        "Visit, 1 May 2024",
        "Visit, date not recorded",
    ]


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ({"type": [{"text": "Check-up"}]}, "Check-up, date not recorded"),
        ({"type": [{"coding": [{"code": "1"}, {"display": "Admission"}]}]}, "Admission"),
        ({"type": [{"coding": [{"code": "1"}]}, {"text": "Check-up"}]}, "Check-up"),
        ({"class": {"code": "AMB", "display": "ambulatory"}}, "ambulatory"),
        ({"period": {"start": "2024-05-01T09:00:00+02:00"}}, "Visit, 1 May 2024"),
        ({"period": {"end": "2024-05-01"}}, "Visit, date not recorded"),
    ],
)
def test_a_visit_is_told_by_its_kind_and_day(store, elements, words):
    shown(store, "told")
    publish(store, TIMES[0], encounter(0, "told", **elements))
    with asking(store):
        ((visit,), _more) = visits_of("told")
    assert visit.words.startswith(words)


def test_without_visits_there_are_none(app):
    with asking(app):
        assert visits_of("unknown") == ([], "")
