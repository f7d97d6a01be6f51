"""The recap of what was learned, the certificate, and a lesson's request as programs send it."""

from __future__ import annotations

import re
from collections.abc import Callable
from http import HTTPStatus

import pytest
from flask import Flask
from sqlalchemy import delete, insert, update

from fhirapp.rest.capability import software_version
from fhirapp.web.learn.lesson import lessons
from fhirapp.web.learn.models import LessonProgress
from tests.support.authorizing import alter
from tests.support.browsing import Browser, id_of
from tests.support.learning import Learner

ALLERGY = "AllergyIntolerance/al-p1-latex"
CRITICALITY = "What is its criticality? Answer with the code in the resource."


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(demo=True)


@pytest.fixture
def learner(app: Flask) -> Learner:
    alter(app, delete(LessonProgress))
    return Learner(app)


def do_first(learner: Learner) -> None:
    learner.begin("read-one-allergy")
    learner.ask("Patient/p1")
    learner.ask(ALLERGY)
    learner.answer("read-one-allergy", CRITICALITY, "low")
    assert learner.met("read-one-allergy") == [True, True]


def test_the_recap_has_each_lesson_that_is_done_with_its_requests_and_day(app, learner):
    page = learner.browser.get("/learn/recap")
    assert "You have not completed a lesson yet." in page.words
    learner.begin("tokens")
    do_first(learner)
    alter(
        app,
        update(LessonProgress)
        .values(done_at="2031-05-03T10:00:00.000Z")
        .where(LessonProgress.lesson == "read-one-allergy"),
    )
    learner.ask("AllergyIntolerance/al-p1-latx")
    page = learner.browser.get("/learn/recap")
    assert "1 of 25 lessons done." in page.words
    assert "1. Read one allergy Read a resource by type and id" in page.words
    assert "Done on 3 May 2031." in page.words
    assert f"GET /fhir/{ALLERGY} 200, " in page.words
    assert "Patient/p1" not in page.words
    assert "Tokens: codes" not in page.words


def test_what_was_requested_after_a_lesson_was_done_is_not_in_its_recap(learner):
    do_first(learner)
    learner.ask("AllergyIntolerance/al-p1-latx")
    assert "al-p1-latx" not in learner.browser.get("/learn/recap").words


def test_the_certificate_has_name_lessons_day_and_version_and_says_what_it_is_worth(learner):
    assert "You have not completed a lesson yet." in learner.browser.get("/learn/certificate").words
    do_first(learner)
    page = learner.browser.get("/learn/certificate").submit(
        "Show certificate", name="  Zoë  O'Neill "
    )
    assert page.heading == "Certificate of completion"
    for words in (
        "Zoë O'Neill has completed 1 of 25 lessons",
        "1. Read one allergy",
        f"fhirapp {software_version()}.",
        "nobody verified who did the exercises, and no examining body endorses this certificate",
    ):
        assert words in page.words


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", "x" * 80])
def test_a_name_is_shown_as_text(learner, name):
    do_first(learner)
    page = learner.browser.get("/learn/certificate").submit("Show certificate", name=name)
    assert "<script>alert" not in page.response.text
    assert f"{name} has completed 1" in page.words


@pytest.mark.parametrize("name", ["x" * 81, "a\u202eb"])
def test_a_name_that_is_none_is_refused(learner, name):
    do_first(learner)
    page = learner.browser.get("/learn/certificate").submit("Show certificate", name=name)
    assert page.status == HTTPStatus.BAD_REQUEST
    assert "Enter up to 80 printable characters." in page.words
    assert name not in page.words


def test_after_the_last_lesson_comes_the_recap(app, learner):
    with app.app_context():
        known = lessons()[0]
    when = "2031-05-03T10:00:00.000Z"
    common = {"user_id": id_of(app, "clinician"), "began_at": when, "done_at": when}
    rows = [common | {"lesson": one.name, "hints": 0, "met": []} for one in known]
    alter(app, insert(LessonProgress).values(rows))
    assert learner.browser.get("/learn/bulk-export").offered["What you have learned"] == (
        "/learn/recap"
    )
    assert "25 of 25 lessons done." in learner.browser.get("/learn/recap").words
    assert "has completed 25 of 25 lessons" in learner.browser.get("/learn/certificate").words


def shown_programs(page_text: str) -> dict[str, str]:
    found = re.findall(r"<h3>(.*?)</h3>.*?<pre><code>(.*?)</code></pre>", page_text, re.DOTALL)
    return dict(found)


def test_a_lesson_shows_its_request_as_curl_http_and_python(app):
    page = Browser(app).get("/learn/tokens")
    programs = shown_programs(page.response.text.partition('id="programs"')[2])
    assert [*programs] == ["curl", "HTTP", "Python"]
    assert programs["HTTP"].startswith(
        "GET /fhir/AllergyIntolerance?code:text=milk&amp;clinical-status=resolved HTTP/1.1\nHost: "
    )
    assert "clinical-status=resolved" in programs["curl"]
    assert "SyncFHIRClient" in programs["Python"]
    assert page.offered["your own token"] == "/explore/token"
    # Of a lesson without such a request there is none.
    assert "This lesson's request as code" not in Browser(app).get("/learn/backend-token").words
