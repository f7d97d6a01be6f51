"""Patients and visits as pages show them; and labels of scopes, addresses and browsers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from flask import Flask

from fhirapp.auth.models import CLINICIAN
from fhirapp.auth.scopes import supported
from fhirapp.definition import types
from fhirapp.features.apps.launch import encounters_of
from fhirapp.web.browsers import browser
from fhirapp.web.labels import in_words, returns_to
from fhirapp.web.people import SHOWN, NoDate, Person, find_people, finder, people, person
from tests.support.browsing import Browser, add_person, cookie_name
from tests.support.helpers import BASE_URL
from tests.support.publishing import TIMES, delete, publish

NUMBER_TYPES = "http://terminology.hl7.org/CodeSystem/v2-0203"
HARTWELL = "Amelia Rose Hartwell"


@pytest.fixture(scope="module")
def store(make_app: Callable[..., Flask]) -> Flask:
    """An app into which each test puts patients of its own."""
    return make_app(seed=False)


@contextmanager
def clinician_request(app: Flask) -> Iterator[None]:
    """Be in a request of a clinician's to a page."""
    cookie = Browser(app).resume(add_person(app, CLINICIAN)).cookie()
    headers = {"Cookie": f"{cookie_name(app)}={cookie}"}
    with app.test_request_context("/patients", base_url=BASE_URL, headers=headers):
        yield


def find(app: Flask, typed: str) -> tuple[list[str], bool]:
    """Return the names of the patients that are found, and whether there are more."""
    with clinician_request(app):
        found, more = find_people(typed, via="chart")
    return [patient.name for patient in found], more


def shown(app: Flask, resource_id: str, **elements: Any) -> Person:
    """Return what a patient with these elements looks like."""
    given = {name: element for name, element in elements.items() if element}
    publish(app, TIMES[0], {"resourceType": "Patient", "id": resource_id, **given})
    with app.app_context():
        found = person(resource_id)
    assert found is not None
    return found


def test_patients_are_found_by_the_beginning_of_their_names(app):
    of_hartwell = ("hartwell", "AMELIA hart", "rose amelia 1958-04", "1958-04-12",
                   "Hartwell, Amelia", ",hartwell,rose,", "\0hart\0", " hart " * 50)  # fmt: skip
    assert [(typed, find(app, typed)[0]) for typed in of_hartwell] == [
        (typed, [HARTWELL]) for typed in of_hartwell
    ]
    assert find(app, "ekstrom 1979")[0] == ["Tobias Ekström"]
    for typed in ("hartwell 1959", "artwell", "%", "hart,ekstrom", "hart|", "hart\\", "hart soon"):
        assert find(app, typed)[0] == [], typed
    for day in ("31.4.1958", "1958-13", "30 Feb 1958"):
        with pytest.raises(NoDate):
            find(app, f"hart {day}")


@pytest.mark.parametrize(
    "typed",
    ["12.04.1958", "12.4.1958 hart", "04/12/1958", "12/04/1958", "rose 12 Apr 1958",
     "12. april 1958", "hartwell 1958-04", "1958 amelia", "1958-04-12 LGH-100237", "100237",
     "lgh100237", "LGH-100237", "Lgh 100237"],
)  # fmt: skip
def test_one_search_takes_names_dates_and_numbers(app, typed):
    assert find(app, typed)[0] == [HARTWELL]
    assert find(app, "237")[0] == []


def test_birth_date_of_a_record_is_no_name_or_number(store):
    for at, born in {"y1": "1958", "y2": "1958-04-12", "y3": "1961"}.items():
        number = [{"value": "MRN-1958"}] if at == "y3" else []
        shown(store, at, birthDate=born, identifier=number, name=[{"family": at}])
    with clinician_request(store):
        for born, names in (("1958", ["y1", "y2"]), ("1958-04-12", ["y2"])):
            found = finder("find", via="chart", lists_all=False, born=born).people
            assert {patient.name for patient in found} == {*names}
        assert finder("find", via="chart", lists_all=False).people == []


def test_number_is_found_without_its_prefix_of_letters_and_zeros_only(store):
    numbers = {"x1": "MRN-0042", "x2": "mrn 42", "x3": "MRN-142", "x4": "42-7", "x5": "999-12-0042"}
    for at, number in numbers.items():
        shown(store, at, identifier=[{"value": number}], name=[{"family": at}])
    assert sorted(find(store, "42")[0]) == ["x1", "x2"]
    assert find(store, "mrn-0042")[0] == find(store, "MRN 0042")[0] == ["x1"]
    assert find(store, "42-7")[0] == ["x4"]


@pytest.mark.parametrize(
    ("family", "typed"),
    [("Sørensen", "sorensen"), ("Łukasz", "lukasz"), ("Weiß", "weiss"), ("Æbler", "aebler")],
)
def test_names_are_found_without_accents(store, family, typed):
    shown(store, typed, name=[{"family": family, "given": ["Zoë"]}])
    assert find(store, f"zoe {typed}")[0] == find(store, f"{typed} ZOE")[0] == [f"Zoë {family}"]


def test_patients_are_listed_by_family_and_given_name(make_app):
    app = make_app(seed=False)
    names = [
        {"family": "Özdemir", "given": ["Anton"]},
        {"family": "Muster", "given": ["Beat"]},
        {"given": ["Aaron"]},
        {"family": "Muster", "given": ["Anna"]},
    ]
    patients = ({"resourceType": "Patient", "id": f"n{at}"} for at in range(4))
    publish(
        app, TIMES[0], *(patient | {"name": [names[at]]} for at, patient in enumerate(patients))
    )
    everybody = ["Anna Muster", "Beat Muster", "Anton Özdemir", "Aaron"]
    assert find(app, "")[0] == everybody
    assert find(app, "a")[0] == [name for name in everybody if name[0] == "A"]


def test_list_of_patients_is_cut_off_after_the_first_by_name(make_app):
    app = make_app(seed=False)
    patients = [
        {"resourceType": "Patient", "id": f"f{at}", "name": [{"family": f"Family{at:02}"}]}
        for at in [*range(SHOWN, 0, -1), 0]
    ]
    names = [f"Family{at:02}" for at in range(SHOWN + 1)]
    publish(app, TIMES[0], *patients[:SHOWN])
    assert find(app, "") == (names[1:], False)
    publish(app, TIMES[1], patients[SHOWN])
    assert find(app, "") == (names[:SHOWN], True)


def test_patient_is_called_by_the_current_name(store):
    without = {"_given": [{"extension": [{"url": "http://x", "valueCode": "unknown"}]}]}
    for names, called in (
        ([], "Name not recorded"),
        ([{"use": "official"}], "Name not recorded"),
        ([{"text": "Ada L."}], "Ada L."),
        ([{"family": "L", "given": ["Ada", "B"]}], "Ada B L"),
        ([{**without, "family": "L"}], "L"),
        # Of several, the one that is theirs now.
        ([{"use": "old", "text": "Old"}, {"text": "New"}], "New"),
        ([{"use": "maiden", "text": "Old"}, {"use": "usual", "text": "New"}], "New"),
        ([{"use": "nickname", "text": "Nick"}, {"use": "official", "text": "Name"}], "Name"),
        ([{"use": "official"}, {"use": "old", "text": "Old"}], "Old"),
    ):
        assert shown(store, "named", name=names).name == called, names


def identifier(value: str | None, *codes: str) -> dict[str, Any]:
    found: dict[str, Any] = {"system": "http://x"} if value is None else {"value": value}
    if codes:
        found["type"] = {"coding": [{"system": NUMBER_TYPES, "code": code} for code in codes]}
    return found


def test_record_number_is_the_clinics_own(store):
    for identifiers, number in (
        ([], ""),
        ([identifier("1")], "1"),
        ([identifier("1"), identifier("2", "MR")], "2"),
        ([identifier("tax", "TAX"), identifier("ssn", "SS"), identifier("3", "MR")], "3"),
        ([identifier("both", "SS", "MR")], "both"),
        # Not the concern of who looks for a patient.
        ([identifier("ssn", "SS"), identifier("licence", "DL")], ""),
        ([identifier("ssn", "SS"), identifier("4")], "4"),
        ([identifier(None, "MR"), identifier("5")], "5"),
    ):
        assert shown(store, "numbered", identifier=identifiers).identifier == number, identifiers


def test_deleted_patient_is_not_shown(store, app):
    shown(store, "gone", name=[{"text": "Gone"}])
    delete(store, TIMES[1], "Patient/gone")
    with store.app_context():
        assert (person("gone"), people(["gone", "unknown"])) == (None, [])
    assert find(store, "gone")[0] == []
    # Others are shown in the order asked for.
    with app.app_context():
        found = people(["p3", "unknown", "p1", "p2"])
    assert [patient.id for patient in found] == ["p3", "p1", "p2"]


def encounter(at: int, patient: str = "v", **elements: Any) -> dict[str, Any]:
    return {
        "resourceType": "Encounter",
        "id": f"{patient}{at}",
        "status": "finished",
        "class": {"system": "http://x", "code": "AMB"},
        "subject": {"reference": f"Patient/{patient}"},
        **elements,
    }


def visits(app: Flask, patient_id: str) -> list[str]:
    with clinician_request(app):
        found, cursor = encounters_of(patient_id)
    assert cursor == ""
    return [visit.words for visit in found]


def test_visits_are_those_of_the_patient_the_latest_first(store):
    for patient in ("v", "w"):
        shown(store, patient)
    starts = [{"start": "2024-05-01"}, {"start": "2026-01"}, {"start": "2025"}]
    publish(
        store,
        TIMES[0],
        *(encounter(at, period=period) for at, period in enumerate(starts)),
        encounter(3),
        encounter(0, "w", period={"start": "2026-02-01"}),
    )
    days = ["January 2026", "2025", "1 May 2024", "date not recorded"]
    assert visits(store, "v") == [f"Visit, {day}" for day in days]
    assert visits(store, "unknown") == []


def test_visit_is_named_by_its_type_or_class_and_its_day(store):
    shown(store, "told")
    for at, (elements, words) in enumerate((
        ({"type": [{"text": "Check-up"}]}, "Check-up, date not recorded"),
        ({"type": [{"coding": [{"code": "1"}, {"display": "Admission"}]}]}, "Admission, "),
        ({"type": [{"coding": [{"code": "1"}]}, {"text": "Check-up"}]}, "Check-up, "),
        ({"class": {"code": "AMB", "display": "ambulatory"}}, "ambulatory, "),
        ({"period": {"start": "2024-05-01T09:00:00+02:00"}}, "Visit, 1 May 2024"),
        ({"period": {"end": "2024-05-01"}}, "Visit, date not recorded"),
    )):  # fmt: skip
        publish(store, TIMES[at], encounter(0, "told", **elements))
        (named,) = visits(store, "told")
        assert named.startswith(words)


# Labels of scopes, addresses and browsers.


def test_scope_has_a_sentence_and_is_marked_if_sensitive(app):
    personal = "name, date of birth, address and other personal details"
    known_id = f"Read, where it knows the id, {personal} of every patient you have access to"
    filtered = "See allergies and intolerances, only where clinical status is active"
    sentences = {
        "openid": ("Recognize you when you return", False),
        "patient/AllergyIntolerance.rs": ("See allergies and intolerances", False),
        "patient/AllergyIntolerance": ("See allergies and intolerances", False),
        "patient/DocumentReference.read": ("See clinical notes and documents", True),
        "patient/DocumentReference.s": ("Search clinical notes and documents", True),
        "user/Patient.r": (known_id, False),
        "patient/AllergyIntolerance.rs?clinical-status=http://x|active": (filtered, False),
        "patient/Unknown.rs": ("See Unknown", False),
        "unknown": ("unknown", False),
    }
    with app.app_context():
        found = {scope: tuple(in_words(scope)) for scope in sentences}
    assert found == {scope: (scope, *words) for scope, words in sentences.items()}


def test_every_supported_scope_and_type_has_a_sentence_of_its_own(app):
    with app.app_context():
        sentences = {scope: in_words(scope).sentence for scope in supported()}
        names = {name: in_words(f"patient/{name}.rs").sentence for name in types()}
    assert sentences
    unworded = {
        scope: sentence
        for scope, sentence in sentences.items()
        if "/" in sentence or "_" in sentence or not sentence[0].isupper()
    }
    assert unworded == {}
    assert {name: sentence for name, sentence in names.items() if name in sentence} == {}


def test_address_of_an_app_is_its_host_or_this_device():
    places = {
        ("https://a.example/x", "https://a.example:8443/y"): "a.example, a.example:8443",
        ("http://127.0.0.1/cb", "loopback"): "this device (127.0.0.1), this device",
        ("http://localhost:3000/", "http://[::1]:1/"): (
            "this device (localhost:3000), this device ([::1]:1)"
        ),
        ("/demo/app",): "this server",
        ("/demo/app", f"{BASE_URL}/demo/app"): "this server",
        (f"{BASE_URL}.example/x", f"{BASE_URL}:1/"): "fhir.example.example, fhir.example:1",
        ("com.example.app:/cb",): "the app that opens com.example.app:",
        (): "",
    }
    assert {uris: returns_to(list(uris), BASE_URL) for uris in places} == places


def test_browser_has_its_usual_name(app):
    webkit = "AppleWebKit/537.36 (KHTML, like Gecko)"
    windows = f"Mozilla/5.0 (Windows NT 10.0; Win64; x64) {webkit} Chrome/140.0"
    iphone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_6 like Mac OS X) Version/18.6 Safari/604.1"
    firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:143.0) Gecko/20100101 Firefox/143.0"
    names = {
        f"{windows}.0.0 Safari/537.36": "Chrome on Windows",
        f"{windows} Safari/5 Edg/140.0": "Edge on Windows",
        firefox: "Firefox on Linux",
        iphone: "Safari on iPhone",
        f"Mozilla/5.0 (Linux; Android 15) {webkit} Chrome/140 Safari/5": "Chrome on Android",
        "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_7) Version/18 Safari/605": "Safari on Mac",
        "curl/8.14.1": "curl",
        **dict.fromkeys(("", None), "unknown browser"),
    }
    with app.test_request_context():
        assert {user_agent: browser(user_agent) for user_agent in names} == names
