"""Classes: learners have accounts, tokens and progress of their own, which end with the class."""

from __future__ import annotations

import csv
import io
import re
import time
from base64 import b64encode

import pytest
from flask import Flask
from sqlalchemy import delete, func, select, update

from fhirapp.audit.entries import ADMINISTRATION, entries
from fhirapp.auth.models import AccessToken, Attempt, Client, Grant, Session, User
from fhirapp.auth.users import sessions
from fhirapp.features.demo.accounts import APP
from fhirapp.features.learn import classes
from fhirapp.features.learn.lesson import lessons
from fhirapp.features.learn.models import Learner, LessonClass, LessonProgress
from tests.support import learning
from tests.support.authorizing import Flow, Program, alter, rows
from tests.support.browsing import Browser, Page
from tests.support.helpers import BASE_URL, Fhir
from tests.support.pages import elements, links, submit_to, texts

ALLERGY = "AllergyIntolerance/al-p1-latex"
ACTIVE = "AllergyIntolerance?clinical-status=active"
LATEX = "read-one-allergy"
_CODES = re.compile(r"\b(?:[A-Z2-9]{4}-){1,2}[A-Z2-9]{4}\b")


@pytest.fixture(autouse=True)
def _no_classes(app: Flask) -> None:
    for class_id in [row.id for row in rows(app, select(LessonClass.id))]:
        with app.test_request_context():
            classes.end_class(class_id)
    alter(app, delete(Attempt))


def join(app: Flask, code: str, nickname: str, address: str | None = None) -> Page:
    page = Browser(app, address).get("/learn/join")
    return submit_to(page, "/learn/join", code=code, nickname=nickname)


def come_back(app: Flask, own_code: str) -> Page:
    return submit_to(Browser(app).get("/learn/join"), "/learn/come-back", own_code=own_code)


class Member(learning.Learner):
    """A learner of a class, with their personal code."""

    def __init__(self, app: Flask, code: str, nickname: str, address: str | None = None) -> None:
        page = join(app, code, nickname, address)
        assert page.path == "/learn/class", page.words
        self.app, self.browser = app, page.browser
        (self.code,) = _CODES.findall(page.words)
        secret = self.browser.cookie()
        assert secret is not None
        with app.test_request_context(base_url=BASE_URL):
            session = sessions.find(secret)
            assert session is not None
            self.user_id, self.username = session.user.id, session.user.username

    def backend(self) -> Fhir:
        """Return a client with the token that the lesson's curl gets."""
        text = self.browser.get("/learn/backend-token").words
        credentials = text.partition("curl -u ")[2].partition(" ")[0]
        answer = self.app.test_client().post(
            "/oauth/token",
            data={"grant_type": "client_credentials", "scope": "system/*.rs"},
            headers={"Authorization": f"Basic {b64encode(credentials.encode()).decode()}"},
        )
        assert answer.status_code == 200, answer.text
        return Fhir(self.app, answer.get_json()["access_token"])

    def allow(self) -> Fhir:
        """Authorize the demo's app, and return it with its token."""
        flow = Flow(self.app, Program(APP), self.user_id)
        scope = "openid launch/patient patient/*.rs"
        return flow.fhir(scope, patient="p2", redirect_uri=learning.LOOPBACK)


class Class:
    """A class, and the browser of its teacher."""

    def __init__(self, app: Flask, teacher: str = "clinician", name: str = "Nursing 2") -> None:
        self.app, self.teacher = app, Browser(app).resume(teacher)
        created = submit_to(self.teacher.get("/learn/classes"), "/learn/classes", name=name)
        assert created.heading == name, created.words
        self.path = created.path
        (self.code,) = texts(created, "p.code")

    def page(self) -> Page:
        return self.teacher.get(self.path)

    def join(self, nickname: str, address: str | None = None) -> Member:
        return Member(self.app, self.code, nickname, address)

    def change(self, member: Member, what: str) -> Page:
        """Reset or remove a learner."""
        path = f"{self.path}/learners"
        form = next(
            form for form in self.page().forms if form.fields.get("learner") == member.user_id
        )
        return self.teacher.post(path, {**form.fields.to_dict(), "what": what})

    def line(self, nickname: str) -> list[str]:
        """Return lesson, number of completed lessons and last request of a learner."""
        (table,) = elements(self.page(), "table.seats")
        lines = {texts(row, "th")[0]: texts(row, "td") for row in elements(table, "tr")}
        return lines[nickname]


def counts(app: Flask, *models: type) -> list[int]:
    return [rows(app, select(func.count()).select_from(model))[0][0] for model in models]


# Learners.


def test_learner_has_an_account_a_code_and_no_password(app):
    group = Class(app)
    first, second = group.join("Ana"), group.join("Łukasz 2")
    assert first.code != second.code
    assert len(first.code.replace("-", "")) == 12
    assert not {*"IOL01"} & {*group.code, *first.code, *second.code}
    page = first.browser.get("/learn")
    assert "Nursing 2" in page.words
    assert "/learn/classes" not in links(page, "/learn/")
    # On another device.
    back = come_back(app, f" {first.code.lower()} ")
    assert (back.path, texts(back, "strong")) == ("/learn/class", ["Ana"])
    assert {Browser(app).sign_in(first.username, word).status for word in ("", "demo")} == {403}


def test_progress_consents_and_tokens_of_learners_are_separate(app):
    group = Class(app)
    ana, ben = group.join("Ana"), group.join("Ben")
    for name in (LATEX, "backend-token", "denied", "pkce-by-hand"):
        ana.begin(name)
        ben.begin(name)
    ana.ask(ALLERGY)
    ana.backend().read(ACTIVE)
    ana.allow().read("AllergyIntolerance")
    explorer = "/explore?address=/fhir/AllergyIntolerance&as="
    assert ana.browser.get(f"{explorer}{ana.username}-patient").status == 200
    assert ana.browser.get(f"{explorer}{ben.username}-patient").status == 404
    # Requests with the demo's shared accounts count for nobody.
    learning.backend(app).read(ACTIVE)
    learning.Learner(app).ask("AllergyIntolerance", as_="patient")
    for name in (LATEX, "backend-token", "denied", "pkce-by-hand"):
        assert (name, ana.met(name)[0]) == (name, True)
        assert True not in ben.met(name), name


def test_nickname_has_letters_and_digits(app):
    group = Class(app)
    refused = ("<b>x</b>", "=1+1", "@sum", "-1", "abc\u202egnp", "", "x" * 41, 'Ana" onmouse="x')
    assert {name: join(app, group.code, name).status for name in refused} == dict.fromkeys(
        refused, 400
    )
    for name in ("O'Neill", "Zoë-Marie", "सीता", "王小明", "7b"):
        assert join(app, group.code, name).path == "/learn/class", name


def test_nickname_is_used_once_in_a_class_whose_name_is_escaped(app):
    name = "<img src=x onerror=alert(1)>"
    group = Class(app, name=name)
    ana = group.join("Ana")
    assert join(app, group.code, "ANA").status == 400
    Class(app, name="Another").join("Ana")
    for page in (group.page(), ana.browser.get("/learn")):
        assert "<img" not in page.response.text
        assert name in page.words


def test_teacher_who_makes_too_many_classes_waits(app, monkeypatch):
    monkeypatch.setattr(classes, "MADE", 1)
    group = Class(app)
    page = group.page().browser.get("/learn/classes").submit("Create class", name="Again")
    assert (page.status, page.headers["Retry-After"].isdecimal()) == (429, True)


def test_codes_cannot_be_guessed(app, monkeypatch):
    monkeypatch.setattr(classes, "WRONG_CODES", 3)
    group = Class(app)
    form = Browser(app).get("/learn/join")
    statuses = [
        submit_to(form, "/learn/join", code="ABCDEFGH", nickname="Ana").status,
        submit_to(form, "/learn/come-back", own_code="ABCDEFGHJKMN").status,
        submit_to(form, "/learn/join", code="0", nickname="Ana").status,
        submit_to(form, "/learn/join", code=group.code, nickname="Ana").status,
    ]
    assert statuses == [404, 404, 404, 429]
    # Another address may still join.
    group.join("Ana")


# Teachers.


def test_teacher_sees_each_learners_lesson_and_last_request(app):
    group = Class(app)
    ana = group.join("Ana")
    assert group.line("Ana")[1] == "0 of 25"
    ana.begin(LATEX)
    ana.ask(ALLERGY)
    assert ana.met(LATEX) == [True, False]
    lesson, done, request = group.line("Ana")
    assert (lesson, done) == ("1. Read one allergy 1 of 2 steps", "0 of 25")
    assert request.startswith(f"GET /fhir/{ALLERGY} 200, ")
    question = "What is its criticality? Answer with the code in the resource."
    ana.answer(LATEX, question, "low")
    assert ana.met(LATEX) == [True, True]
    assert group.line("Ana")[1] == "1 of 25"
    ana.backend().get("Patient/p1")
    assert group.line("Ana")[2].startswith("GET /fhir/Patient/p1 200")


def test_results_have_a_line_for_each_learner_and_lesson(app):
    group = Class(app)
    ana, _ben = group.join("Ana"), group.join("Ben")
    ana.begin("search-by-post")
    ana.fhir().post("AllergyIntolerance/_search", {"patient": "p4"})
    ana.met("search-by-post")
    answer = group.teacher.get(f"{group.path}/results.csv").response
    assert answer.mimetype == "text/csv"
    table = [*csv.DictReader(io.StringIO(answer.text))]
    assert len(table) == 2 * 25
    assert [(row["learner"], row["lesson"], row["steps met"]) for row in table if row["done"]] == [
        ("Ana", "Search by POST", "1")
    ]


def test_class_does_the_lessons_that_its_teacher_numbers(app):
    group = Class(app)
    ana = group.join("Ana")
    with app.app_context():
        none = {lesson.name: "" for lesson in lessons()[0]}
    path = f"{group.path}/lessons"
    assert submit_to(group.page(), path, **none).status == 400
    submit_to(group.page(), path, **(none | {"paging": "1", "tokens": "7"}))
    listed = elements(ana.browser.get("/learn"), "a.lesson")
    assert [link.get("href") for link in listed] == ["/learn/paging", "/learn/tokens"]
    assert ana.browser.get("/learn/paging").heading.startswith("1. ")
    assert ana.browser.get("/learn/dates").status == 200
    assert group.line("Ana")[1] == "0 of 2"
    # Others do all of them.
    assert len(elements(Browser(app).get("/learn"), "a.lesson")) == 25


def test_reset_deletes_progress_and_revokes_tokens_of_one_learner(app):
    group = Class(app)
    ana, ben = group.join("Ana"), group.join("Ben")
    tokens = [fhir for learner in (ana, ben) for fhir in (learner.backend(), learner.allow())]
    for learner in (ana, ben):
        learner.begin(LATEX)
        learner.ask(ALLERGY)
        learner.met(LATEX)
    group.change(ana, "reset")
    assert [fhir.get("AllergyIntolerance").status_code for fhir in tokens] == [401, 401, 200, 200]
    assert ben.met(LATEX) == [True, False]
    assert ana.ask(ALLERGY).status_code == 200
    ana.begin(LATEX)
    assert ana.met(LATEX) == [False, False]


def test_removed_learner_has_no_account(app):
    before = counts(app, User, Client)
    group = Class(app)
    ana, ben = group.join("Ana"), group.join("Ben")
    app_of_ana = ana.allow()
    group.change(ana, "remove")
    assert ana.browser.get("/learn/class").path.startswith("/sign-in")
    assert app_of_ana.get("AllergyIntolerance").status_code == 401
    assert ben.browser.get("/learn/class").status == 200
    assert counts(app, User, Client, Learner) == [before[0] + 2, before[1] + 1, 1]


@pytest.mark.parametrize("is_over", [True, False])
def test_end_of_a_class_deletes_all_that_was_created_for_it(app, is_over):
    tables = (User, Client, Grant, Session, AccessToken, LessonProgress, Learner, LessonClass)
    group = Class(app)
    # The pages' own client is added when it is used first.
    Browser(app).resume("clinician").get("/patients")
    before = [*counts(app, *tables)][:-1]
    ana = group.join("Ana")
    clients = [ana.backend(), ana.allow()]
    ana.begin(LATEX)
    ana.ask("AllergyIntolerance", as_=f"{ana.username}-patient")
    if is_over:
        with app.app_context():
            classes.sweep(int(time.time()))
            assert classes.class_of(ana.user_id) is not None
            classes.sweep(int(time.time()) + classes.DAYS * 86_400)
    else:
        assert submit_to(group.page(), f"{group.path}/end").path == "/learn/classes"
    assert counts(app, *tables) == [*before, 0]
    assert [fhir.get("AllergyIntolerance").status_code for fhir in clients] == [401, 401]
    assert ana.browser.get("/learn/class").path.startswith("/sign-in")
    assert come_back(app, ana.code).status == 404
    with app.app_context():
        newest = entries(kind=ADMINISTRATION, limit=20)
    assert {"class-ended", "user-removed", "app-ended"} <= {entry.event for entry in newest}


def test_changes_of_a_class_are_in_the_audit_trail(app):
    group = Class(app)
    ana = group.join("Ana")
    group.change(ana, "reset")
    submit_to(group.page(), f"{group.path}/code")
    group.change(ana, "remove")
    submit_to(group.page(), f"{group.path}/end")
    with app.app_context():
        teacher = rows(app, select(User.id).where(User.username == "clinician"))[0].id
        found = {entry.event: entry for entry in entries(kind=ADMINISTRATION, limit=12)}
    about = f"user/{ana.user_id}"
    assert (found["class-joined"].user_id, found["class-joined"].about) == (ana.user_id, about)
    assert (found["learner-reset"].user_id, found["learner-reset"].about) == (teacher, about)
    assert found["class-changed"].body == "Nursing 2: another code"
    for event in ("class-made", "class-ended"):
        assert (found[event].user_id, found[event].body) == (teacher, "Nursing 2")
    assert found["user-removed"].body.removesuffix("-patient") == ana.username
    # The address of its page is a secret.
    assert group.path.rpartition("/")[2] not in repr([*found.values()])


def test_classes_and_their_learners_are_limited(app, monkeypatch):
    def create(**filled: str) -> int:
        page = Browser(app).resume("admin").get("/learn/classes")
        return submit_to(page, "/learn/classes", **filled).status

    for name, days in (("", "30"), ("x" * 81, "30"), ("A", "0"), ("A", "91")):
        assert create(name=name, days=days) == 400
    assert counts(app, LessonClass) == [0]
    monkeypatch.setattr(classes, "MOST_CLASSES", 2)
    monkeypatch.setattr(classes, "MOST_LEARNERS", 1)
    group, _other = Class(app), Class(app)
    assert create(name="Third") == 400
    group.join("Ana")
    assert join(app, group.code, "Ben").status == 400


def test_only_teachers_manage_classes(app):
    group = Class(app)
    ana = group.join("Ana")
    for browser in (ana.browser, Browser(app).resume("patient")):
        for path in ("/learn/classes", group.path, f"{group.path}/results.csv"):
            assert browser.get(path).status == 403
    form_token = ana.browser.get("/learn/class").form("Sign out").fields["form_token"]
    sent = {"form_token": form_token, "learner": ana.user_id, "what": "remove"}
    for action in ("end", "code", "lessons", "learners"):
        assert ana.browser.post(f"{group.path}/{action}", sent).status == 403
    assert Browser(app).get(group.path).path.startswith("/sign-in")
    # A teacher reaches no learner of another class.
    other = Class(app)
    form_token = other.page().form("Save").fields["form_token"]
    for what in ("reset", "remove"):
        other.teacher.post(
            f"{other.path}/learners", sent | {"form_token": form_token, "what": what}
        )
    assert ana.browser.get("/learn/class").status == 200
    assert counts(app, LessonClass, Learner) == [2, 1]


def test_overdue_class_ends_before_somebody_joins(app):
    group = Class(app)
    alter(app, update(LessonClass).values(ends_at=int(time.time()) - 1))
    assert join(app, group.code, "Ana").status == 404
    assert group.page().status == 404


def test_shared_account_lists_no_classes_and_an_administrator_finds_all(app):
    group = Class(app)
    assert links(group.teacher.get("/learn/classes"), "/learn/classes/") == []
    admin = Browser(app).resume("admin")
    assert links(admin.get("/learn/classes"), "/learn/classes/") == [group.path]
    assert admin.get(f"{group.path[:-1]}!").status == 404
