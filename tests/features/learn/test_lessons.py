"""The lessons as a trainee does them, their recap and certificate; checks count named requests."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pytest
from flask import Flask
from sqlalchemy import update

from fhirapp.auth.models import Grant
from fhirapp.auth.tokens import revoke_grants
from fhirapp.db import writing
from fhirapp.features.learn.checks import Check
from fhirapp.features.learn.lesson import lessons
from fhirapp.features.learn.models import LessonProgress
from fhirapp.rest.capability import software_version
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, id_of
from tests.support.bulk import ASYNC, path_of
from tests.support.helpers import Fhir
from tests.support.jobs import run_queued
from tests.support.learning import Learner, backend
from tests.support.pages import elements, explorer_address, links, submit_to, texts
from tests.support.shell import ROOT

ALLERGY, NOTE = "AllergyIntolerance", "DocumentReference"
LATEX = f"{ALLERGY}/al-p1-latex"
Action = Callable[[Learner], object]


def ask(path: str, *, as_: str = "", **headers: str) -> Action:
    """Send a request to /fhir with the learner's token; headers are named with _ for -."""
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda learner: learner.ask(path, as_=as_, headers=sent)


def follow(path: str, pages: int) -> Action:
    return lambda learner: learner.follow(path, pages)


def post(path: str, **form: str) -> Action:
    return lambda learner: learner.fhir().post(path, form)


def as_backend(path: str, scope: str = "system/*.rs") -> Action:
    return lambda learner: backend(learner.app, scope).get(path)


def as_nobody(path: str) -> Action:
    return lambda learner: learner.app.test_client().get(f"/fhir/{path}")


def as_app(*paths: str, chart: str = "") -> Action:
    """Authorize the sample app anew, perhaps from a chart, and read these with it."""

    def act(learner: Learner) -> None:
        fhir = learner.connect(chart=chart)
        for path in paths:
            fhir.read(path)

    return act


def export(path: str, steps: int = 0) -> Action:
    """Start an export as the backend, and perhaps poll it (1), and download a file (2)."""

    def act(learner: Learner) -> None:
        fhir = backend(learner.app)
        address = fhir.get(path, headers=ASYNC).headers["Content-Location"]
        run_queued(learner.app)
        if steps:
            listed = fhir.read(path_of(address))["output"]
            (file,) = [output for output in listed if output["type"] == ALLERGY]
            if steps == 2:
                assert fhir.get(path_of(file["url"])).status_code == 200

    return act


def revoke(learner: Learner) -> None:
    """Revoke the app's access, as the page of connected apps does."""
    with learner.app.app_context(), writing() as connection:
        revoke_grants(connection, Grant.user_id == id_of(learner.app, learner.username))


def as_revoked(path: str) -> Action:
    """Read with the app before and after its access is revoked."""

    def act(learner: Learner) -> None:
        fhir = learner.connect()
        fhir.read(path)
        revoke(learner)
        assert fhir.get(path).status_code == 401

    return act


class Answer(NamedTuple):
    """The answer to a question, and the request that shows it, where no earlier check did."""

    typed: str
    shown: Action | None = None


SNOMED_PENICILLIN = f"{ALLERGY}?code=http://snomed.info/sct|764146007"
EARLIER = f"{ALLERGY}?patient=p8&_count=3"
OF_P3 = f"{ALLERGY}?patient=p3"
DISCHARGE, TESTED = f"{NOTE}/doc-p1-discharge-2024", f"{ALLERGY}/al-p12-penicillin"
# What a trainee does for each check of a lesson.
WALK: Mapping[str, Sequence[Action | Answer]] = {
    "read-one-allergy": [ask(LATEX), Answer("low")],
    "search-by-patient": [ask(f"{ALLERGY}?patient=p8"), Answer("7")],
    "tokens": [
        ask(SNOMED_PENICILLIN),
        ask(f"{OF_P3}&clinical-status=active"),
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
        ask(f"{TESTED}/_history"),
        ask(f"{TESTED}/_history/2"),
        ask(f"{ALLERGY}/al-p5-codeine"),
        Answer("confirmed"),
    ],
    "no-known-allergies": [
        *(ask(f"{ALLERGY}?patient={patient}") for patient in ("p4", "p6", "p11")),
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
    "conditional-read": [ask(DISCHARGE), ask(DISCHARGE, If_None_Match='W/"3"')],
    "search-by-post": [post(f"{ALLERGY}/_search", patient="p4")],
    "backend-token": [
        as_backend(f"{ALLERGY}?clinical-status=active"),
        as_backend(f"{NOTE}?patient=p1", f"system/{ALLERGY}.rs"),
        as_nobody("Patient/p1"),
    ],
    "denied": [
        ask(path, as_="patient") for path in (ALLERGY, f"{ALLERGY}?patient=p8", "Patient/p8")
    ],
    "smart-launch": [
        as_app(),
        as_app("Patient/p2"),
        as_app(f"{ALLERGY}/$summary?patient=p2"),
        as_app(f"{NOTE}?patient=p2&_sort=-date"),
    ],
    "launch-from-a-chart": [
        as_app(chart="p3"),
        as_app("Patient/p3", chart="p3"),
        as_app(f"{ALLERGY}/$summary?patient=p3", chart="p3"),
    ],
    "pkce-by-hand": [as_app(), as_app(ALLERGY)],
    "revoke-access": [as_app(ALLERGY), revoke, as_revoked(ALLERGY)],
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
# Other requests that pass a check: the lesson, the number of the check, and the request.
RIGHT: Sequence[tuple[str, int, Action]] = [
    ("search-by-patient", 0, ask(f"{ALLERGY}?patient=Patient/p8&_include={ALLERGY}:patient")),
    # All of its pages.
    ("search-by-patient", 0, follow(EARLIER, 2)),
    ("tokens", 1, ask(f"{ALLERGY}?status=active&patient=Patient/p3")),
    ("dates", 2, ask(f"{NOTE}?date=ge2024-01-01T00:00Z&date=lt2024-02-01T00:00:00.000Z")),
    ("and-or", 1, post(f"{ALLERGY}/_search", category="food,medication", patient="p8")),
    ("words-of-notes", 0, ask(f"{NOTE}?_content=Walnut&patient=p3")),
    ("no-known-allergies", 0, ask(f"{ALLERGY}?patient=p4,p6,p11")),
    ("no-known-allergies", 4, post(f"{ALLERGY}/$summary", patient="Patient/p11")),
]
NONE = "No matching request yet."
# Requests that do not pass, though they are near: with key words of what the page says is missing.
WRONG: Sequence[tuple[str, int, Action, str]] = [
    ("read-one-allergy", 0, ask(f"{ALLERGY}/al-p1-latx"), "a different id"),
    ("read-one-allergy", 0, ask(f"{ALLERGY}?_id=al-p1-latex"), "not a read"),
    ("read-one-allergy", 0, as_backend(LATEX), "the token of a backend"),
    ("search-by-patient", 0, ask(f"{ALLERGY}?patient=p1"), "patient has a different value"),
    ("search-by-patient", 0, ask(EARLIER), "fewer resources"),
    ("search-by-patient", 0, ask(f"{ALLERGY}?patient=p8&status=active"), "status should not be"),
    ("tokens", 0, ask(f"{ALLERGY}?code:text=penicillin"), "code with a different modifier"),
    # A request that passed another check is not meant for this one.
    ("tokens", 2, ask(f"{OF_P3}&clinical-status=active"), NONE),
    ("include", 0, ask(f"{ALLERGY}?patient=p1&_include=Provenance:target"), "_revinclude is miss"),
    ("history", 0, ask(f"{TESTED}/_history?_count=1"), "expected resource is missing"),
    ("history", 1, ask(f"{TESTED}/_history/3"), "a different version"),
    ("conditional-read", 1, ask(DISCHARGE, If_None_Match='W/"2"'), "the status was 200"),
    ("search-by-post", 0, ask(f"{ALLERGY}?patient=p4"), "sent with GET"),
    ("search-by-post", 0, post(f"{ALLERGY}/_search?patient=p4"), "address instead of the body"),
    ("backend-token", 0, ask(f"{ALLERGY}?clinical-status=active"), "your own token"),
    ("backend-token", 2, ask("Patient/p1"), "Send it without a token."),
    ("denied", 0, ask(ALLERGY), "Send it as the patient"),
    ("pkce-by-hand", 1, ask(ALLERGY), "a token that you authorized for demo-app"),
    ("launch-from-a-chart", 0, as_app("Patient/p2"), "without the scope launch"),
    ("revoke-access", 1, as_app(ALLERGY), "has not been revoked"),
    ("bulk-export", 2, export("Patient/$export", 1), NONE),
]


def checks_of(app: Flask, name: str) -> Sequence[Check]:
    with app.app_context():
        (found,) = [lesson for lesson in lessons()[0] if lesson.name == name]
    return found.checks


def assert_refused(page) -> None:
    """Assert that the page says why an answer does not count."""
    assert len(texts(page, "p.notice", role="alert")) == 1


def test_lessons_are_listed_in_their_order(app, learner):
    with app.app_context():
        known, faults = lessons()
    assert (faults, [lesson.name for lesson in known]) == ([], [*WALK])
    listed = elements(learner.browser.get("/learn"), "a.lesson")
    assert [link.get("href") for link in listed] == [f"/learn/{name}" for name in WALK]


# The longest lesson takes more than half a second.
LONGEST = pytest.param("no-known-allergies", marks=pytest.mark.campaign)


@pytest.mark.parametrize("name", [LONGEST if name == LONGEST.values[0] else name for name in WALK])
def test_lesson_is_done_when_each_check_has_passed(app, learner, name):
    says = [check.says for check in checks_of(app, name)]
    steps = WALK[name]
    assert len(steps) == len(says)
    learner.begin(name)
    assert learner.met(name) == [False] * len(steps)
    for number, step in enumerate(steps):
        if isinstance(step, Answer):
            if step.shown is not None:
                assert_refused(learner.answer(name, says[number], step.typed))
                step.shown(learner)
            else:
                assert_refused(learner.answer(name, says[number], "something else"))
            learner.answer(name, says[number], step.typed)
        else:
            step(learner)
        # This check has passed, and none after it.
        passed = [True] * (number + 1) + [False] * (len(steps) - number - 1)
        assert learner.met(name) == passed, (says[number], learner.missing(name))
    page = learner.browser.get(f"/learn/{name}")
    assert len(elements(page, "p.done")) == 1
    following = [*WALK, None][[*WALK].index(name) + 1]
    assert [form.action for form in page.forms if form.action.startswith("/learn")] == [
        *([f"/learn/{following}/begin"] if following else []),
        f"/learn/{name}/begin",
    ]


@pytest.mark.parametrize(("name", "number", "request_"), RIGHT)
def test_another_request_with_the_same_result_passes(learner, name, number, request_):
    learner.begin(name)
    request_(learner)
    assert learner.met(name)[number], learner.missing(name)


@pytest.mark.parametrize(("name", "number", "request_", "words"), WRONG)
def test_near_request_does_not_pass_and_the_page_says_what_is_missing(
    learner, name, number, request_, words
):
    learner.begin(name)
    request_(learner)
    assert not learner.met(name)[number]
    assert words in learner.missing(name)[number]


@pytest.mark.parametrize(
    ("name", "typed", "request_"),
    [
        ("read-one-allergy", "low", ask(f"{ALLERGY}?patient=p1")),
        ("search-by-patient", "7", ask(f"{ALLERGY}?patient=Patient/p8&_summary=count")),
        ("history", "confirmed", ask(f"{TESTED}/_history")),
    ],
)
def test_answer_counts_once_a_request_of_the_learner_has_shown_it(
    app, learner, name, typed, request_
):
    (says,) = [check.says for check in checks_of(app, name) if check.question]
    learner.begin(name)
    # The page itself reads the answer too, and others do.
    request_(Learner(app, "admin"))
    for _ in range(2):
        assert_refused(learner.answer(name, says, typed))
    ask(f"{ALLERGY}?patient=p2")(learner)
    assert_refused(learner.answer(name, says, typed))
    request_(learner)
    learner.answer(name, says, typed)
    assert True in learner.met(name)


@pytest.mark.parametrize(
    ("name", "number", "address", "beside"),
    [
        ("what-is-ignored", 1, f"{ALLERGY}?patients=p1", {"prefer": "handling=strict"}),
        ("conditional-read", 1, DISCHARGE, {"if_none_match": 'W/"3"'}),
        ("search-by-post", 0, f"{ALLERGY}?patient=p4", {"method": "POST"}),
        ("no-known-allergies", 4, f"{ALLERGY}/$summary?patient=p11", {}),
        ("denied", 1, f"{ALLERGY}?patient=p8", {"as": "patient"}),
    ],
)
def test_request_from_the_explorer_counts(learner, name, number, address, beside):
    learner.begin(name)
    assert learner.browser.get(explorer_address(f"/fhir/{address}", **beside)).status == 200
    assert learner.met(name)[number], learner.missing(name)


def test_only_the_learners_requests_and_consents_since_the_start_count(app, learner):
    ask(LATEX)(learner)
    learner.connect()
    alter(app, update(Grant).values(created_at=Grant.created_at - 60))
    learner.begin("read-one-allergy")
    learner.begin("smart-launch")
    ask(LATEX)(Learner(app, "admin"))
    Learner(app, "patient").connect()
    assert learner.met("read-one-allergy") == [False, False]
    assert learner.met("smart-launch")[0] is False
    learner.connect()
    assert learner.met("smart-launch")[0] is True


def test_passed_checks_stay_passed_until_the_lesson_is_started_again(app, learner):
    name = "search-by-post"
    learner.begin(name)
    WALK[name][0](learner)
    assert learner.met(name) == [True]
    assert re.search(r"Search by POST .*? minutes done", learner.browser.get("/learn").words)
    other = Learner(app, "admin").browser.get(f"/learn/{name}")
    assert [form.action for form in other.forms if form.action.startswith("/learn")] == [
        f"/learn/{name}/begin"
    ]
    assert texts(other, "li.met") == []
    learner.begin(name)
    assert learner.met(name) == [False]
    assert re.search(r"Search by POST .*? minutes started", learner.browser.get("/learn").words)


# The page of a lesson.


def test_hints_are_shown_one_by_one(learner):
    page = learner.begin("read-one-allergy")
    shown = []
    while any(form.action.endswith("/hint") for form in page.forms):
        shown.append(len(elements(page, "li.prose")))
        page = submit_to(page, "/learn/read-one-allergy/hint")
    assert shown == [0, 1, 2]
    assert len(elements(page, "li.prose")) == 3


def test_lessons_are_read_without_a_session_and_done_with_one(app):
    browser = Browser(app)
    page = browser.get("/learn/tokens")
    assert links(page, "/sign-in") == ["/sign-in?next=%2Flearn%2Ftokens"]
    assert not any(form.action.endswith("/begin") for form in page.forms)
    form_token = browser.get("/sign-in").form("Sign in").fields["form_token"]
    for action in ("begin", "hint", "answer"):
        refused = browser.post(f"/learn/tokens/{action}", {"form_token": form_token})
        assert refused.path.startswith("/sign-in"), action
    polled = browser.get("/learn/tokens/progress", headers={"HX-Request": "true"})
    assert (polled.status, polled.heading) == (286, "")
    page = submit_to(page, "/sign-in", username="clinician")
    assert page.path == "/learn/tokens"


def test_answer_to_a_lesson_that_was_not_started_is_refused(learner):
    form_token = learner.browser.get("/learn/paging").form("Sign out").fields["form_token"]
    assert learner.browser.post("/learn/paging/answer", {"form_token": form_token}).status == 409
    assert learner.browser.get("/learn/nonsense").status == 404


def test_open_page_polls_until_the_lesson_is_done(learner):
    name, address = "search-by-post", "/learn/search-by-post/progress"
    htmx = {"headers": {"HX-Request": "true"}}
    learner.begin(name)
    page = learner.browser.get(f"/learn/{name}")
    assert len(elements(page, "div", hx_get=address)) == 1
    (state,) = [field.get("value") for field in elements(page, "input", name="state")]
    assert learner.browser.get(f"{address}?state=other", **htmx).status == 200
    assert learner.browser.get(f"{address}?state={state}", **htmx).status == 204
    WALK[name][0](learner)
    # htmx stops polling after 286.
    assert learner.browser.get(f"{address}?state={state}", **htmx).status == 286


def test_lessons_and_classes_exist_in_the_demo_alone(make_app):
    http = make_app(seed=False).test_client()
    paths = ("", "/tokens", "/writing", "/tokens/progress", "/join", "/class", "/classes")
    statuses = {path: http.get(f"/learn{path}").status_code for path in (*paths, "/classes/x")}
    assert {*statuses.values()} == {404}


# The recap and the certificate.

CRITICALITY = "What is its criticality? Answer with the code in the resource."
DAY = "2031-05-03T10:00:00.000Z"


def complete_first(learner: Learner) -> None:
    learner.begin("read-one-allergy")
    learner.ask("Patient/p1")
    learner.ask(LATEX)
    learner.answer("read-one-allergy", CRITICALITY, "low")
    assert learner.met("read-one-allergy") == [True, True]


def test_certificate_has_a_printable_name_and_the_completed_lessons(learner):
    complete_first(learner)
    expected = {
        "  Zoë  O'Neill ": "Zoë O'Neill",
        **{name: name for name in ("<script>alert(1)</script>", "x" * 80)},
        **dict.fromkeys(("x" * 81, "a\u202eb")),
    }
    for typed, name in expected.items():
        page = learner.browser.get("/learn/certificate", query_string={"name": typed})
        assert page.status == (200 if name else 400)
        assert "<script>alert" not in page.response.text
        assert name or typed not in page.words
        if name:
            assert texts(page, "p.who") == [name]
            assert texts(elements(page, "article.certificate")[0], "li")[0].startswith("1. Read")
            assert f"fhirapp {software_version()}." in page.words


def test_recap_has_completed_lessons_with_the_day_and_their_requests(app, learner):
    for path in ("/learn/recap", "/learn/certificate"):
        assert elements(learner.browser.get(path), "h2") == []
    learner.begin("tokens")
    complete_first(learner)
    done_first = LessonProgress.lesson == "read-one-allergy"
    learner.ask("AllergyIntolerance/al-p1-latx")
    assert "al-p1-latx" not in learner.browser.get("/learn/recap").words
    alter(app, update(LessonProgress).values(done_at=DAY).where(done_first))
    page = learner.browser.get("/learn/recap")
    assert texts(page, "h2") == ["1. Read one allergy"]
    assert "1 of 25" in page.words
    assert "3 May 2031" in page.words
    assert [line.partition(" 200, ")[0] for line in texts(page, "li")][:1] == [f"GET /fhir/{LATEX}"]
    assert "Patient/p1" not in page.words


def programs_of(page: Page) -> dict[str, str]:
    """Return the code of each tab of a lesson's page, by language."""
    (tabs,) = elements(page, "fieldset.tabbed")
    return dict(zip(texts(tabs, "label"), texts(tabs, "pre"), strict=True))


def test_lesson_shows_its_request_as_curl_http_and_python(app):
    page = Browser(app).get("/learn/tokens")
    programs = programs_of(page)
    assert [*programs] == ["curl", "HTTP", "Python"]
    request = "GET /fhir/AllergyIntolerance?code:text=milk&clinical-status=resolved HTTP/1.1 Host"
    assert programs["HTTP"].startswith(request)
    assert "clinical-status=resolved" in programs["curl"]
    assert "SyncFHIRClient" in programs["Python"]
    assert "export TOKEN" not in page.response.text


def test_request_with_the_token_that_the_lesson_shows_counts(app, learner):
    learner.begin("search-by-patient")
    page = learner.browser.get("/learn/search-by-patient")
    (command,) = [code for code in texts(page, "pre") if code.startswith("export TOKEN=")]
    secret = command.removeprefix("export TOKEN=")
    assert f"Authorization: Bearer {secret} " in programs_of(page)["HTTP"]
    Fhir(app, secret).read(f"{ALLERGY}?patient=p8")
    assert learner.met("search-by-patient")[0]
    # Where the own token does not count, it is not offered.
    assert secret not in learner.browser.get("/learn/denied").response.text


def test_commands_of_lessons_have_nothing_to_be_filled_in():
    for path in (ROOT / "fhirapp/features/learn/lessons").rglob("*.md"):
        for command in re.findall(
            r"^```\n(.*?)^```$", path.read_text(encoding="utf-8"), re.M | re.S
        ):
            without_variables = re.sub(r"\$TOKEN|\bTOKEN=", "", command)
            assert not re.search(r"\b(TOKEN|CODE|URL|CONTENT-LOCATION)\b", without_variables), path


def test_explorer_link_of_a_lesson_starts_it_once(app, learner):
    name = "read-one-allergy"
    page = learner.browser.get(f"/learn/{name}")
    (address,) = links(page, f"/learn/{name}/explore")
    explorer = learner.browser.get(address)
    assert links(explorer, "/learn/") == [f"/learn/{name}#progress"]
    assert learner.met(name) == [True, False]
    # Opened again, it does not start the lesson again.
    learner.browser.get(address.replace("al-p1-latex", "nobody"))
    assert learner.met(name) == [True, False]
    assert Browser(app).get(address).path.startswith("/sign-in")


def test_lesson_says_whose_requests_count(learner):
    for name, words in {"tokens": "Your requests count", "backend-token": "Requests count"}.items():
        (progress,) = elements(learner.browser.get(f"/learn/{name}"), "section", id="progress")
        assert words in texts(progress, "p")[0]


def test_groups_of_lessons_are_folded_but_for_the_next_one(learner):
    complete_first(learner)
    page = learner.browser.get("/learn")
    groups = elements(page, "details.level")
    assert [group.get("open") is not None for group in groups] == [True] + [False] * 5
    assert texts(groups[0], "span.soft")[0] == "1 of 2 done"
    assert page.offered["Next: Search by patient"] == "/learn/search-by-patient"
