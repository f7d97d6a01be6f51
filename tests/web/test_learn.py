"""The lessons as a trainee does them, from a fresh demo on: each check waits for what it names."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import Grant
from fhirapp.auth.tokens import revoke_grants
from fhirapp.db import writing
from fhirapp.exchange.bulk.run import run_next
from fhirapp.jobs.worker import WITHOUT_PAUSES
from fhirapp.web.learn.checks import Check
from fhirapp.web.learn.lesson import lessons
from tests.support.authorizing import alter
from tests.support.browsing import Browser, id_of
from tests.support.bulk import ASYNC, path_of
from tests.support.learning import Learner, backend

NOT_SHOWN = "First send the request that shows the answer."
ALLERGY, NOTE = "AllergyIntolerance", "DocumentReference"
Do = Callable[[Learner], object]


def ask(path: str, *, as_: str = "", **headers: str) -> Do:
    """Return what asks for an address below /fhir; headers are named with _ for -."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda learner: learner.ask(path, as_=as_, headers=sent)


def follow(path: str, pages: int) -> Do:
    return lambda learner: learner.follow(path, pages)


def post(path: str, **form: str) -> Do:
    return lambda learner: learner.fhir().post(path, form)


def as_backend(path: str, scope: str = "system/*.rs", **headers: str) -> Do:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda learner: backend(learner.app, scope).get(path, headers=sent)


def as_nobody(path: str) -> Do:
    return lambda learner: learner.app.test_client().get(f"/fhir/{path}")


def as_app(*paths: str) -> Do:
    """Return what lets the sample app in anew, which then asks for these."""

    def do(learner: Learner) -> None:
        fhir = learner.connect()
        for path in paths:
            fhir.read(path)

    return do


def as_launched(*paths: str, chart: str = "p3") -> Do:
    """Return what starts the sample app from a chart, which then asks for these."""

    def do(learner: Learner) -> None:
        fhir = learner.connect(chart=chart)
        for path in paths:
            fhir.read(path)

    return do


def export(path: str, steps: int = 0) -> Do:
    """Return what starts an export as the backend, and perhaps polls it, and fetches a file."""

    def do(learner: Learner) -> None:
        fhir = backend(learner.app)
        address = fhir.get(path, headers=ASYNC).headers["Content-Location"]
        with learner.app.app_context():
            while run_next(WITHOUT_PAUSES):
                pass
        if steps:
            listed = fhir.read(path_of(address))["output"]
            (file,) = [one for one in listed if one["type"] == ALLERGY]
            if steps == 2:
                assert fhir.get(path_of(file["url"])).status_code == 200

    return do


def end_access(learner: Learner) -> None:
    """End the app's access, as the page of connected apps does."""
    with learner.app.app_context(), writing() as connection:
        revoke_grants(connection, Grant.user_id == id_of(learner.app, learner.username))


def as_ended(path: str) -> Do:
    """Return what has the app ask for this before and after its access is ended."""

    def do(learner: Learner) -> None:
        fhir = learner.connect()
        fhir.read(path)
        end_access(learner)
        assert fhir.get(path).status_code == 401

    return do


class Answer(NamedTuple):
    """The answer to a question, and the request that shows it, where no check before was that."""

    typed: str
    shown: Do | None = None


SYSTEM = "http://terminology.hl7.org/CodeSystem/allergyintolerance"
SIX_OF_P1 = ",".join(
    f"al-p1-{name}"
    for name in ("latex", "sulfa", "penicillin", "ibuprofen", "metformin", "ragweed")
)
EARLIER = f"{ALLERGY}?patient=p8&_count=3"

# For each check of a lesson what a trainee does, in the order of the file.
WALK: Mapping[str, Sequence[Do | Answer]] = {
    "read-one-allergy": [ask(f"{ALLERGY}/al-p1-latex"), Answer("low")],
    "search-by-patient": [ask(f"{ALLERGY}?patient=p8"), Answer("7")],
    "tokens": [
        ask(f"{ALLERGY}?code=http://snomed.info/sct|764146007"),
        ask(f"{ALLERGY}?patient=p3&clinical-status=active"),
        ask(f"{ALLERGY}?verification-status=refuted"),
        Answer("4"),
    ],
    "dates": [
        ask(f"{ALLERGY}?date=2023-05"),
        ask(f"{ALLERGY}?date=ge2025-01-01"),
        ask(f"{NOTE}?date=ge2024-01-01&date=lt2024-02-01"),
    ],
    "and-or": [
        ask(f"{ALLERGY}?category=food&criticality=high"),
        ask(f"{ALLERGY}?patient=p8&category=food,medication"),
        Answer("3"),
    ],
    "paging": [ask(EARLIER), follow(EARLIER, 1), follow(EARLIER, 2)],
    "sort-and-count": [
        ask(f"{NOTE}?patient=p1&_sort=-date"),
        ask(f"{ALLERGY}?_summary=count"),
        Answer("39"),
    ],
    "include": [
        ask(f"{ALLERGY}?patient=p1&_revinclude=Provenance:target"),
        ask(f"{NOTE}?patient=p1&_include=DocumentReference:author"),
        Answer("northgate  family medicine"),
    ],
    "chains": [
        ask(f"{ALLERGY}?patient.identifier=LGH-100385"),
        ask(f"Patient?_has:{ALLERGY}:patient:criticality=high"),
        Answer("7"),
    ],
    "words-of-notes": [
        ask(f"{NOTE}?_content=walnut"),
        ask("Binary/bin-p3-consult-2024"),
        Answer("4", ask(f'{NOTE}?_content="chest pain"')),
    ],
    "history": [
        ask(f"{ALLERGY}/al-p12-penicillin/_history"),
        ask(f"{ALLERGY}/al-p12-penicillin/_history/2"),
        ask(f"{ALLERGY}/al-p5-codeine"),
        Answer("confirmed"),
    ],
    "no-known-allergies": [
        ask(f"{ALLERGY}?patient=p4"),
        ask(f"{ALLERGY}?patient=p6"),
        ask(f"{ALLERGY}?patient=p11"),
        ask(f"{ALLERGY}?code=409137002"),
        ask(f"{ALLERGY}/$summary?patient=p11"),
        Answer("none-known-in-part", ask(f"{ALLERGY}/$summary?patient=p4")),
        Answer("NI"),
    ],
    "what-is-ignored": [
        ask(f"{ALLERGY}?patients=p1"),
        ask(f"{ALLERGY}?patients=p1", Prefer="handling=strict"),
        ask(f"{ALLERGY}?date=2024-01&_explain=true"),
    ],
    "conditional-read": [
        ask(f"{NOTE}/doc-p1-discharge-2024"),
        ask(f"{NOTE}/doc-p1-discharge-2024", If_None_Match='W/"3"'),
    ],
    "search-by-post": [post(f"{ALLERGY}/_search", patient="p4")],
    "backend-token": [
        as_backend(f"{ALLERGY}?clinical-status=active"),
        as_backend(f"{NOTE}?patient=p1", f"system/{ALLERGY}.rs"),
        as_nobody("Patient/p1"),
    ],
    "denied": [
        ask(ALLERGY, as_="patient"),
        ask(f"{ALLERGY}?patient=p8", as_="patient"),
        ask("Patient/p8", as_="patient"),
    ],
    "smart-launch": [
        as_app(),
        as_app("Patient/p2"),
        as_app(f"{ALLERGY}/$summary?patient=p2"),
        as_app(f"{NOTE}?patient=p2&_sort=-date"),
    ],
    "launch-from-a-chart": [
        as_launched(),
        as_launched("Patient/p3"),
        as_launched(f"{ALLERGY}/$summary?patient=p3"),
    ],
    "pkce-by-hand": [as_app(), as_app(ALLERGY)],
    "revoke-access": [as_app(ALLERGY), end_access, as_ended(ALLERGY)],
    "provenance": [
        ask(f"{ALLERGY}?_id=al-p1-penicillin&_revinclude=Provenance:target"),
        ask(f"Provenance?target={ALLERGY}/al-p1-penicillin"),
        Answer("Lakeside General Hospital"),
    ],
    "everything": [
        ask("Patient/p4/$everything"),
        ask(f"Patient/p1/$everything?_type={ALLERGY}"),
        Answer("6"),
    ],
    "reading-an-error": [
        ask(f"{ALLERGY}?date=31.12.2024"),
        ask(f"{ALLERGY}?date=2024-12-31"),
        ask(f"{ALLERGY}/no-such-allergy"),
        Answer("value"),
        Answer("not-found"),
    ],
    "bulk-export": [
        export("Patient/$export?_type=AllergyIntolerance,DocumentReference"),
        export("Patient/$export", 1),
        export("$export", 2),
    ],
}
OWN = "No matching request yet. A request was sent with your own token, which does not count here."
BY_BACKEND = (
    "No matching request yet. A request was sent with the token of a backend, which does not count"
    " here. Send it with the explorer, or with your own token."
)
AS_APP = "Send it with a token that you authorized for demo-app."
# What comes near and is not it: the lesson, the number of the check, what is done, what is told.
WRONG: Sequence[tuple[str, int, Do, str]] = [
    ("read-one-allergy", 0, ask(f"{ALLERGY}/al-p1-latx"), "Almost: it has a different id."),
    ("read-one-allergy", 0, ask(f"{ALLERGY}/al-p3-peanut"), "No matching request yet."),
    ("read-one-allergy", 0, ask("Patient/p1"), "No matching request yet."),
    ("read-one-allergy", 0, ask(f"{ALLERGY}?_id=al-p1-latex"), "Almost: it is not a read."),
    (
        "read-one-allergy",
        0,
        as_backend(f"{ALLERGY}/al-p1-latex"),
        BY_BACKEND,
    ),
    (
        "launch-from-a-chart",
        0,
        as_app("Patient/p2"),
        "You allowed access, but without the scope launch.",
    ),
    ("launch-from-a-chart", 1, as_launched("Patient/p2", chart="p2"), "No matching request yet."),
    ("bulk-export", 2, export("Patient/$export", 1), "No matching request yet."),
    ("bulk-export", 0, as_backend("Patient/p1/$everything"), "No matching request yet."),
    (
        "search-by-patient",
        0,
        ask(f"{ALLERGY}?patient=p1"),
        "Almost: its parameter patient has a different value than expected.",
    ),
    (
        "search-by-patient",
        0,
        ask(f"{ALLERGY}?patient=p8&_count=3"),
        "Almost: the response has fewer resources than expected.",
    ),
    (
        "search-by-patient",
        0,
        ask(f"{ALLERGY}?patient=p8&_count=0"),
        "Almost: the response has fewer resources than expected.",
    ),
    ("search-by-patient", 0, ask(f"{NOTE}?patient=p8"), "No matching request yet."),
    ("search-by-patient", 0, ask(f"{ALLERGY}?code:text=latex"), "No matching request yet."),
    (
        "tokens",
        1,
        ask(f"{ALLERGY}?patient=p3&status=inactive"),
        "Almost: its parameter status has a different value than expected.",
    ),
    (
        "search-by-patient",
        0,
        ask(f"{ALLERGY}?patient=p8&status=active"),
        "Almost: the parameter status should not be there.",
    ),
    (
        "tokens",
        0,
        ask(f"{ALLERGY}?code:text=penicillin"),
        "Almost: it has code with a different modifier, or without one.",
    ),
    (
        "tokens",
        0,
        ask(f"{ALLERGY}?code=http://snomed.info/sct|764146007&patient=p1"),
        "Almost: the parameter patient should not be there.",
    ),
    (
        "sort-and-count",
        1,
        ask(f"{ALLERGY}?_summary=count&clinical-status=active"),
        "Almost: the parameter clinical-status should not be there.",
    ),
    (
        "what-is-ignored",
        1,
        ask(f"{ALLERGY}?patients=p1&date=never", Prefer="handling=strict"),
        "Almost: the parameter date should not be there.",
    ),
    (
        "backend-token",
        0,
        as_backend(f"{ALLERGY}?clinical-status=active&patient=p1"),
        "Almost: the parameter patient should not be there.",
    ),
    (
        "dates",
        2,
        ask(f"{NOTE}?date=ge2024-01-01&date=lt2024-02-01T12:00:00Z"),
        "Almost: its parameter date has a different value than expected.",
    ),
    (
        "tokens",
        1,
        ask(f"{ALLERGY}?patient=p3&clinical-status=active,resolved"),
        "Almost: its parameter clinical-status has a different value than expected.",
    ),
    # It was right for another check, so it was not meant for this one.
    (
        "tokens",
        2,
        ask(f"{ALLERGY}?patient=p3&clinical-status=active"),
        "No matching request yet.",
    ),
    (
        "dates",
        0,
        ask(f"{ALLERGY}?date=ge2023-05"),
        "Almost: its parameter date has a different value than expected.",
    ),
    (
        "dates",
        2,
        ask(f"{NOTE}?date=ge2024-01-01"),
        "Almost: its parameter date has a different value than expected.",
    ),
    (
        "and-or",
        1,
        ask(f"{ALLERGY}?patient=p8&category=food&category=medication"),
        "Almost: its parameter category has a different value than expected.",
    ),
    (
        "paging",
        1,
        follow(f"{ALLERGY}?patient=p8&_count=2", 1),
        "Almost: its parameter _count has a different value than expected.",
    ),
    (
        "paging",
        2,
        follow(EARLIER, 1),
        "No matching request yet.",
    ),
    ("include", 0, ask(f"{ALLERGY}?patient=p1"), "Almost: the parameter _revinclude is missing."),
    (
        "include",
        0,
        ask(f"{ALLERGY}?patient=p1&_include=Provenance:target"),
        "Almost: the parameter _revinclude is missing.",
    ),
    (
        "history",
        1,
        ask(f"{ALLERGY}/al-p12-penicillin/_history/3"),
        "Almost: it has a different version.",
    ),
    ("history", 2, ask(f"{ALLERGY}/al-p12-penicillin"), "No matching request yet."),
    (
        "history",
        0,
        ask(f"{ALLERGY}/al-p12-penicillin/_history?_count=1"),
        "Almost: an expected resource is missing in the response.",
    ),
    (
        "what-is-ignored",
        1,
        ask(f"{ALLERGY}?patients=p1"),
        "Almost: the status was 200.",
    ),
    (
        "conditional-read",
        1,
        ask(f"{NOTE}/doc-p1-discharge-2024", If_None_Match='W/"2"'),
        "Almost: the status was 200.",
    ),
    ("search-by-post", 0, ask(f"{ALLERGY}?patient=p4"), "Almost: it was sent with GET."),
    (
        "search-by-post",
        0,
        post(f"{ALLERGY}/_search?patient=p4"),
        "Almost: the search parameters are in the address instead of the body.",
    ),
    ("search-by-post", 0, post(f"{ALLERGY}/_search", code="latex"), "No matching request yet."),
    (
        "backend-token",
        0,
        ask(f"{ALLERGY}?clinical-status=active"),
        f"{OWN} Send it with the token of the backend in the lesson.",
    ),
    ("backend-token", 1, as_backend(f"{NOTE}?patient=p1"), "Almost: the status was 200."),
    ("backend-token", 2, ask("Patient/p1"), f"{OWN} Send it without a token."),
    ("denied", 0, ask(ALLERGY), f"{OWN} Send it as the patient, with the explorer."),
    (
        "denied",
        1,
        ask(f"{ALLERGY}?patient=p1", as_="patient"),
        "Almost: its parameter patient has a different value than expected.",
    ),
    ("pkce-by-hand", 1, ask(ALLERGY), f"{OWN} {AS_APP}"),
    ("revoke-access", 2, as_app(ALLERGY), "No matching request yet."),
    ("revoke-access", 1, as_app(ALLERGY), "Its access has not been revoked since you started."),
    ("revoke-access", 2, as_nobody(ALLERGY), "No matching request yet."),
    ("provenance", 1, ask("Provenance/prov-p1-penicillin"), "No matching request yet."),
    (
        "everything",
        1,
        ask("Patient/p1/$everything?_type=DocumentReference"),
        "Almost: its parameter _type has a different value than expected.",
    ),
    (
        "reading-an-error",
        0,
        ask(f"{ALLERGY}?date=2024-12"),
        "Almost: its parameter date has a different value than expected.",
    ),
    (
        "smart-launch",
        1,
        ask("Patient/p2"),
        f"{OWN} {AS_APP}",
    ),
]


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    """A demo as it starts."""
    return make_app(demo=True)


@pytest.fixture
def learner(app: Flask) -> Learner:
    return Learner(app)


def checks_of(app: Flask, name: str) -> Sequence[Check]:
    with app.app_context():
        (found,) = [one for one in lessons()[0] if one.name == name]
    return found.checks


def says_of(app: Flask, name: str) -> list[str]:
    """Return what the checks of a lesson say."""
    return [check.says for check in checks_of(app, name)]


def test_every_lesson_is_walked_and_the_list_is_in_their_order(app, learner):
    with app.app_context():
        known, faults = lessons()
    assert (faults, [one.name for one in known]) == ([], [*WALK])
    page = learner.browser.get("/learn")
    teachers = ("/learn/writing", "/learn/classes")
    links = [address for address in page.offered.values() if address not in teachers]
    assert list(dict.fromkeys(links)) == [f"/learn/{name}" for name in WALK]


@pytest.mark.parametrize("name", WALK)
def test_a_trainee_does_each_check_and_the_lesson_is_done(app, learner, name):
    says = says_of(app, name)
    steps = WALK[name]
    # Consents are dated to the second: another lesson's may be of this one.
    alter(app, update(Grant).values(created_at=Grant.created_at - 60))
    alter(app, update(Grant).values(revoked_at=Grant.revoked_at - 60))
    assert len(steps) == len(says)
    learner.begin(name)
    assert learner.met(name) == [False] * len(steps)
    for number, step in enumerate(steps):
        assert not learner.met(name)[number], says[number]
        if isinstance(step, Answer):
            if step.shown is not None:
                assert NOT_SHOWN in learner.answer(name, says[number], step.typed).words
                assert not learner.met(name)[number]
                step.shown(learner)
            assert "That is not what the server returns." in (
                learner.answer(name, says[number], "something else").words
            )
            assert not learner.met(name)[number]
            learner.answer(name, says[number], step.typed)
        else:
            step(learner)
        assert learner.met(name)[number], (says[number], learner.told(name))
    page = learner.browser.get(f"/learn/{name}")
    assert "Done. Your requests pass every check below." in page.words
    following = [*WALK, None][[*WALK].index(name) + 1]
    assert [form.action for form in page.forms if form.action.startswith("/learn")] == [
        *([f"/learn/{following}/begin"] if following else []),
        f"/learn/{name}/begin",
    ]


# Other right ways: the lesson, the number of the check, and what is done.
RIGHT: Sequence[tuple[str, int, Do]] = [
    ("read-one-allergy", 0, ask(f"{ALLERGY}/al-p1-latex?_elements=criticality")),
    ("search-by-patient", 0, ask(f"{ALLERGY}?patient:Patient=p8&_count=50")),
    ("search-by-patient", 0, ask(f"{ALLERGY}?patient=Patient/p8&_include={ALLERGY}:patient")),
    ("search-by-patient", 0, post(f"{ALLERGY}/_search", patient="p8")),
    # All of its pages.
    ("search-by-patient", 0, follow(f"{ALLERGY}?patient=p8&_count=3", 2)),
    ("tokens", 0, post(f"{ALLERGY}/_search", code="http://snomed.info/sct|764146007")),
    ("tokens", 1, ask(f"{ALLERGY}?status=active&patient=Patient/p3")),
    ("tokens", 1, ask(f"{ALLERGY}?clinical-status={SYSTEM}-clinical|active&patient=p3")),
    ("tokens", 1, ask(f"{ALLERGY}?patient=p3&clinical-status:not=resolved,inactive")),
    ("tokens", 2, ask(f"{ALLERGY}?status=refuted&_sort=date")),
    ("tokens", 2, ask(f"{ALLERGY}?verification-status={SYSTEM}-verification|refuted")),
    ("dates", 0, ask(f"{ALLERGY}?date=eq2023-05")),
    ("dates", 0, post(f"{ALLERGY}/_search", date="2023-05")),
    ("dates", 1, ask(f"{ALLERGY}?date=sa2024")),
    ("dates", 1, ask(f"{ALLERGY}?date=gt2024-12-31")),
    ("dates", 1, ask(f"{ALLERGY}?date=ge2025-01-01T00:00:00Z")),
    ("dates", 2, ask(f"{NOTE}?date=lt2024-02&date=ge2024-01")),
    ("dates", 2, ask(f"{NOTE}?date=gt2023-12-31&date=le2024-01-31")),
    ("dates", 2, ask(f"{NOTE}?date=ge2024-01-01T00:00Z&date=lt2024-02-01T00:00:00.000Z")),
    ("and-or", 0, ask(f"{ALLERGY}?criticality=high&category=food&_sort=date&_explain=true")),
    (
        "and-or",
        0,
        ask(
            f"{ALLERGY}?category=http://hl7.org/fhir/allergy-intolerance-category|food&criticality=high"
        ),
    ),
    ("and-or", 1, ask(f"{ALLERGY}?category=medication,food&patient=Patient/p8")),
    ("and-or", 1, post(f"{ALLERGY}/_search", category="food,medication", patient="p8")),
    ("paging", 0, ask(f"{ALLERGY}?_count=3&patient=Patient/p8&_sort=date")),
    ("paging", 2, follow(f"{ALLERGY}?_sort=-date&patient=p8&_count=3", 2)),
    ("sort-and-count", 0, ask(f"{NOTE}?subject=Patient/p1&_sort=-date,_id")),
    ("sort-and-count", 1, ask(f"{ALLERGY}?_count=0&_total=accurate")),
    ("include", 0, ask(f"{ALLERGY}?_id={SIX_OF_P1}&_revinclude=Provenance:target")),
    ("include", 1, ask(f"{NOTE}?subject=p1&_include=DocumentReference:author:Practitioner")),
    ("include", 1, ask(f"{NOTE}?patient=p1&_include=DocumentReference:*&_count=50")),
    ("words-of-notes", 0, ask(f"{NOTE}?_content=Walnut&patient=p3")),
    ("words-of-notes", 0, ask(f'{NOTE}?_content="walnut"')),
    ("history", 0, ask(f"{ALLERGY}/al-p12-penicillin/_history?_count=50")),
    ("no-known-allergies", 0, ask(f"{ALLERGY}?patient=p4,p6,p11")),
    ("no-known-allergies", 1, ask(f"{ALLERGY}?patient=Patient/p11,Patient/p6")),
    ("no-known-allergies", 2, ask(f"{ALLERGY}?patient=p4,p6,p11")),
    ("no-known-allergies", 3, post(f"{ALLERGY}/_search", code="http://snomed.info/sct|409137002")),
    ("no-known-allergies", 4, post(f"{ALLERGY}/$summary", patient="Patient/p11")),
    ("what-is-ignored", 0, ask(f"{ALLERGY}?patients=Patient/p1&_count=1")),
    ("what-is-ignored", 2, ask(f"{ALLERGY}?_explain=true&patient=p1&date=ge2024")),
    ("search-by-post", 0, post(f"{ALLERGY}", patient="Patient/p4")),
    ("backend-token", 0, as_backend(f"{ALLERGY}?status=active&_count=100")),
    ("denied", 1, ask(f"{ALLERGY}?patient=Patient/p8", as_="patient")),
    ("provenance", 0, ask(f"{ALLERGY}?patient=p1&_revinclude=Provenance:target")),
    ("everything", 0, ask("Patient/p4/$everything?_count=50")),
    ("bulk-export", 0, export("$export?_since=2024-01-01T00:00:00Z")),
    ("reading-an-error", 1, ask(f"{ALLERGY}?date=eq2024-12-31")),
]


@pytest.mark.parametrize(("name", "number", "do"), RIGHT)
def test_another_right_way_counts_too(learner, name, number, do):
    learner.begin(name)
    do(learner)
    assert learner.met(name)[number], learner.told(name)


@pytest.mark.parametrize(
    ("name", "typed", "do"),
    [
        ("read-one-allergy", "low", ask(f"{ALLERGY}?patient=p1")),
        ("search-by-patient", "7", ask(f"{ALLERGY}?patient=Patient/p8&_summary=count")),
        ("tokens", "4", ask(f"{ALLERGY}?patient=p3&status=active")),
        ("include", "Northgate Family Medicine", ask("Provenance/prov-p1-penicillin")),
        ("history", "confirmed", ask(f"{ALLERGY}/al-p12-penicillin/_history")),
    ],
)
def test_an_answer_counts_once_any_request_showed_it(app, learner, name, typed, do):
    (says,) = [check.says for check in checks_of(app, name) if check.question]
    learner.begin(name)
    do(Learner(app, "admin"))
    assert NOT_SHOWN in learner.answer(name, says, typed).words
    ask(f"{ALLERGY}?patient=p2")(learner)
    assert NOT_SHOWN in learner.answer(name, says, typed).words
    do(learner)
    assert NOT_SHOWN not in learner.answer(name, says, typed).words
    assert True in learner.met(name)


@pytest.mark.parametrize(("name", "number", "do", "told"), WRONG)
def test_what_comes_near_is_not_it_and_is_told(learner, name, number, do, told):
    learner.begin(name)
    do(learner)
    assert not learner.met(name)[number]
    assert learner.told(name)[number] == told


@pytest.mark.parametrize(
    ("name", "number", "address", "beside"),
    [
        ("tokens", 1, f"{ALLERGY}?patient=p3&clinical-status=active", {}),
        ("what-is-ignored", 1, f"{ALLERGY}?patients=p1", {"prefer": "handling=strict"}),
        ("conditional-read", 1, f"{NOTE}/doc-p1-discharge-2024", {"if_none_match": 'W/"3"'}),
        ("search-by-post", 0, f"{ALLERGY}?patient=p4", {"method": "POST"}),
        ("no-known-allergies", 4, f"{ALLERGY}/$summary?patient=p11", {}),
        ("denied", 1, f"{ALLERGY}?patient=p8", {"as": "patient"}),
    ],
)
def test_what_is_sent_with_the_explorer_counts(learner, name, number, address, beside):
    learner.begin(name)
    sent = {"address": f"/fhir/{address}", **beside}
    assert learner.browser.get(f"/explore?{urlencode(sent)}").status == 200
    assert learner.met(name)[number], learner.told(name)


def test_what_was_asked_before_the_beginning_or_by_others_does_not_count(app, learner):
    ask(f"{ALLERGY}/al-p1-latex")(learner)
    learner.begin("read-one-allergy")
    assert learner.met("read-one-allergy") == [False, False]
    ask(f"{ALLERGY}/al-p1-latex")(Learner(app, "admin"))
    assert learner.met("read-one-allergy") == [False, False]


def test_a_consent_counts_that_the_learner_gave_since_the_beginning(app, learner):
    learner.connect()
    alter(app, update(Grant).values(created_at=Grant.created_at - 60))
    learner.begin("smart-launch")
    Learner(app, "patient").connect()
    assert learner.met("smart-launch")[0] is False
    learner.connect()
    assert learner.met("smart-launch")[0] is True


def test_what_a_page_asks_for_the_learner_does_not_count(app, learner):
    learner.begin("read-one-allergy")
    for _ in range(2):
        page = learner.answer("read-one-allergy", says_of(app, "read-one-allergy")[1], "low")
        assert NOT_SHOWN in page.words
    assert learner.met("read-one-allergy") == [False, False]


def test_what_was_met_stays_met_and_a_lesson_can_be_begun_again(learner):
    name = "conditional-read"
    learner.begin(name)
    for step in WALK[name]:
        assert callable(step)
        step(learner)
    assert learner.met(name) == [True, True]
    page = learner.browser.get("/learn")
    assert re.search(r"Conditional read .*? 4 minutes done", page.words)
    learner.begin(name)
    assert learner.met(name) == [False, False]
    assert re.search(r"Conditional read .*? 4 minutes started", learner.browser.get("/learn").words)


def test_progress_is_each_persons_own(app, learner):
    learner.begin("search-by-post")
    WALK["search-by-post"][0](learner)
    assert learner.met("search-by-post") == [True]
    page = Learner(app, "admin").browser.get("/learn/search-by-post")
    assert "Your requests count from the moment you start" in page.words


def test_a_question_is_said_once_on_the_page(app, learner):
    name = "no-known-allergies"
    for begin in (False, True):
        if begin:
            learner.begin(name)
        text = learner.browser.get(f"/learn/{name}").words
        for says in says_of(app, name):
            assert text.count(says) == 1
    assert "Answer question 1" in text
    assert "Answer question 2" in text


def test_hints_come_one_by_one(learner):
    learner.begin("read-one-allergy")
    page = learner.browser.get("/learn/read-one-allergy")
    assert "The address is the resource type followed by the id" not in page.words
    page = page.submit("Show a hint")
    assert "The address is the resource type followed by the id" in page.words
    assert "The whole address is" not in page.words
    page = page.submit("Show another hint").submit("Show another hint")
    assert "The severity of a reaction" in page.words
    assert "No more hints." in page.words


def test_who_is_not_signed_in_may_read_and_is_asked_to_sign_in(app):
    browser = Browser(app)
    page = browser.get("/learn/tokens")
    assert page.heading == "3. Tokens: codes, systems and status"
    assert "To do this lesson, sign in as clinician with the password demo." in page.words
    assert page.offered["Sign in"] == "/sign-in?next=%2Flearn%2Ftokens"
    assert "Start" not in [one for form in page.forms for one in form.buttons]
    assert browser.get("/learn").submit("Sign in as clinician").path == "/learn"


def test_one_click_signs_in_and_leads_back_to_the_lesson(app):
    page = Browser(app).get("/learn/tokens").submit("Sign in as clinician")
    assert page.path == "/learn/tokens"
    page.form("Sign out")


@pytest.mark.parametrize("what", ["begin", "hint", "answer"])
def test_who_is_not_signed_in_can_begin_nothing(app, what):
    browser = Browser(app)
    token = browser.get("/sign-in").form("Sign in").fields["form_token"]
    page = browser.post(f"/learn/tokens/{what}", {"form_token": token})
    assert page.heading == "Sign in"


def test_a_question_is_answered_only_once_the_lesson_was_begun(app):
    learner = Learner(app, "admin")
    token = learner.browser.get("/learn/paging").form("Sign out").fields["form_token"]
    page = learner.browser.post("/learn/tokens/answer", {"form_token": token})
    assert (page.status, "Start the lesson first" in page.words) == (409, True)


def test_the_open_page_asks_again_until_it_is_done(learner):
    name = "search-by-post"
    htmx = {"headers": {"HX-Request": "true"}}
    address = f"/learn/{name}/progress"
    learner.begin(name)
    page = learner.browser.get(f"/learn/{name}")
    assert 'hx-trigger="every 3s"' in page.response.text
    shown = learner.browser.get(address, **htmx)
    (state,) = re.findall(r'name="state" value="(\w+)"', shown.response.text)
    assert f'value="{state}"' in page.response.text
    assert learner.browser.get(f"{address}?state={state}", **htmx).status == 204
    WALK[name][0](learner)
    changed = learner.browser.get(f"{address}?state={state}", **htmx)
    # htmx asks no more after 286.
    assert (changed.status, "Done." in changed.words) == (286, True)


def test_whose_session_ended_is_asked_to_sign_in_on_the_open_page(app):
    page = Browser(app).get("/learn/tokens/progress", headers={"HX-Request": "true"})
    assert (page.status, page.heading) == (286, "")
    assert "sign in as clinician" in page.words


def test_who_sees_other_records_than_the_lesson_is_about_is_told(app):
    told = "This lesson is for clinician"
    for username, is_told in (("patient", True), ("clinician", False), ("admin", False)):
        page = Learner(app, username).browser.get("/learn/history")
        assert (told in page.words) == is_told


def test_outside_the_demo_there_are_no_lessons(make_app):
    browser = Browser(make_app(seed=False))
    for path in ("/learn", "/learn/tokens", "/learn/writing", "/learn/tokens/progress"):
        page = browser.get(path)
        assert page.status == 404
        assert "Lessons are part of the demo. Start it with app.py --demo." in page.words


def test_a_lesson_that_is_not_there_is_told(learner):
    page = learner.browser.get("/learn/nonsense")
    assert page.status == 404
    assert "This lesson does not exist." in page.words
