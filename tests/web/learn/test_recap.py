"""The recap of completed lessons, the certificate, and a lesson's request as code."""

from __future__ import annotations

import re

from sqlalchemy import insert, update

from fhirapp.rest.capability import software_version
from fhirapp.web.learn.lesson import lessons
from fhirapp.web.learn.models import LessonProgress
from tests.support.authorizing import alter
from tests.support.browsing import Browser, Page, id_of
from tests.support.learning import Learner
from tests.support.pages import elements, links, texts

ALLERGY = "AllergyIntolerance/al-p1-latex"
CRITICALITY = "What is its criticality? Answer with the code in the resource."
DAY = "2031-05-03T10:00:00.000Z"


def complete_first(learner: Learner) -> None:
    learner.begin("read-one-allergy")
    learner.ask("Patient/p1")
    learner.ask(ALLERGY)
    learner.answer("read-one-allergy", CRITICALITY, "low")
    assert learner.met("read-one-allergy") == [True, True]


def certificate(learner: Learner, name: str) -> Page:
    return learner.browser.get("/learn/certificate", query_string={"name": name})


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
    assert [line.partition(" 200, ")[0] for line in texts(page, "li")][:1] == [
        f"GET /fhir/{ALLERGY}"
    ]
    assert "Patient/p1" not in page.words


def test_certificate_has_name_lessons_and_version(learner):
    complete_first(learner)
    page = certificate(learner, "  Zoë  O'Neill ")
    assert texts(page, "p.who") == ["Zoë O'Neill"]
    assert texts(elements(page, "article.certificate")[0], "li")[0].startswith("1. Read one")
    assert "1 of 25" in page.words
    assert f"fhirapp {software_version()}." in page.words


def test_name_on_the_certificate_is_printable_and_escaped(learner):
    complete_first(learner)
    for name in ("<script>alert(1)</script>", "x" * 80):
        page = certificate(learner, name)
        assert "<script>alert" not in page.response.text
        assert texts(page, "p.who") == [name]
    for name in ("x" * 81, "a\u202eb"):
        page = certificate(learner, name)
        assert page.status == 400
        assert name not in page.words


def test_recap_follows_the_last_lesson(app, learner):
    with app.app_context():
        names = [lesson.name for lesson in lessons()[0]]
    common = {"user_id": id_of(app, "clinician"), "began_at": DAY, "done_at": DAY}
    rows = [common | {"lesson": name, "hints": 0, "met": []} for name in names]
    alter(app, insert(LessonProgress).values(rows))
    assert links(learner.browser.get("/learn/bulk-export"), "/learn/recap") == ["/learn/recap"]
    for path in ("/learn/recap", "/learn/certificate"):
        assert "25 of 25" in learner.browser.get(path).words


def test_lesson_shows_its_request_as_curl_http_and_python(app):
    page = Browser(app).get("/learn/tokens")
    programs = {
        texts(program, "h3")[0]: texts(program, "pre")[0]
        for program in elements(elements(page, "div.programs")[0], "div.prose")
    }
    assert [*programs] == ["curl", "HTTP", "Python"]
    request = r"GET /fhir/AllergyIntolerance\?code:text=milk&clinical-status=resolved HTTP/1.1 Host"
    assert re.match(request, programs["HTTP"])
    assert "clinical-status=resolved" in programs["curl"]
    assert "SyncFHIRClient" in programs["Python"]
    assert links(page, "/explore/token") == ["/explore/token"]
    assert elements(Browser(app).get("/learn/backend-token"), "div.programs") == []
