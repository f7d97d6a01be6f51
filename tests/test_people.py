"""Patients and visits as pages show them: how they are found, what they are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask

from fhirapp.fhir.outcome import InvalidParameter
from fhirapp.web.people import SHOWN, Person, encounters_of, find_people, people, person
from tests.test_publish import TIMES, delete, publish

NUMBER = "http://terminology.hl7.org/CodeSystem/v2-0203"


@pytest.fixture(scope="module")
def store(make_app: Callable[..., Flask]) -> Flask:
    """An app into which each test puts patients of its own."""
    return make_app(seed=False)


def names(app: Flask, name: str, born: str = "") -> list[str]:
    with app.app_context():
        return [one.name for one in find_people(name, born)[0]]


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
    with app.app_context(), pytest.raises(InvalidParameter) as refused:
        find_people("hart", born)
    assert refused.value.parameter == "birthdate"


def test_the_first_are_shown_and_that_there_are_more(make_app):
    app = make_app(seed=False)
    many = [{"resourceType": "Patient", "id": f"m{at}"} for at in range(SHOWN + 1)]
    publish(app, TIMES[0], *many[:SHOWN])
    with app.app_context():
        found, more = find_people("")
    assert (len(found), more) == (SHOWN, False)
    publish(app, TIMES[1], many[SHOWN])
    with app.app_context():
        found, more = find_people("")
    assert (found[0].id, len(found), more) == (f"m{SHOWN}", SHOWN, True)


@pytest.mark.parametrize(
    ("given", "called"),
    [
        ([], "Name not known"),
        ([{"use": "official"}], "Name not known"),
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
    with store.app_context():
        visits = [visit.words for visit in encounters_of("v")]
    assert visits == [
        "Visit, January 2026",
        "Visit, 2025",
        "Visit, 1 May 2024",
        "Visit, day not known",
    ]


@pytest.mark.parametrize(
    ("elements", "words"),
    [
        ({"type": [{"text": "Check-up"}]}, "Check-up, day not known"),
        ({"type": [{"coding": [{"code": "1"}, {"display": "Admission"}]}]}, "Admission"),
        ({"type": [{"coding": [{"code": "1"}]}, {"text": "Check-up"}]}, "Check-up"),
        ({"class": {"code": "AMB", "display": "ambulatory"}}, "ambulatory"),
        ({"period": {"start": "2024-05-01T09:00:00+02:00"}}, "Visit, 1 May 2024"),
        ({"period": {"end": "2024-05-01"}}, "Visit, day not known"),
    ],
)
def test_a_visit_is_told_by_its_kind_and_day(store, elements, words):
    shown(store, "told")
    publish(store, TIMES[0], encounter(0, "told", **elements))
    with store.app_context():
        (visit,) = encounters_of("told")
    assert visit.words.startswith(words)


def test_without_visits_there_are_none(app):
    with app.app_context():
        assert list(encounters_of("unknown")) == []
