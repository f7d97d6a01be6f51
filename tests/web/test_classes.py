"""Classes: learners have what is theirs alone, a teacher sees who is where, all ends together."""

from __future__ import annotations

import csv
import io
import re
import time
from base64 import b64encode
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest
from flask import Flask
from sqlalchemy import delete, func, select, update

from fhirapp.audit.read import ADMINISTRATION, entries
from fhirapp.auth.demo import APP
from fhirapp.auth.models import AccessToken, Attempt, Client, Grant, Session, User
from fhirapp.auth.users import sessions
from fhirapp.web.learn import classes
from fhirapp.web.learn.lesson import lessons
from fhirapp.web.learn.models import Learner, LessonClass, LessonProgress
from tests.support import learning
from tests.support.authorizing import Flow, Program, alter, rows
from tests.support.browsing import Browser, Page
from tests.support.helpers import BASE_URL, Fhir

ALLERGY = "AllergyIntolerance/al-p1-latex"
_CODES = re.compile(r"\b(?:[A-Z2-9]{4}-){1,2}[A-Z2-9]{4}\b")


@pytest.fixture(scope="module")
def app(make_app: Callable[..., Flask]) -> Flask:
    return make_app(demo=True)


@pytest.fixture(autouse=True)
def _anew(app: Flask) -> None:
    """Begin each test without classes, and without what was counted."""
    for class_id in [row.id for row in rows(app, select(LessonClass.id))]:
        with app.test_request_context():
            classes.end_class(class_id)
    alter(app, delete(Attempt))


class Member(learning.Learner):
    """A learner of a class: what they are given when they join."""

    def __init__(self, app: Flask, code: str, nickname: str, address: str | None = None) -> None:
        self.app, self.browser = app, Browser(app, address)
        page = self.browser.get("/learn/join").submit("Join", code=code, nickname=nickname)
        assert page.path == "/learn/class", page.words
        (self.code,) = _CODES.findall(page.words)
        secret = self.browser.cookie()
        assert secret is not None
        with app.test_request_context(base_url=BASE_URL):
            found = sessions.find(secret)
            assert found is not None
            self.user_id, self.username = found.user.id, found.user.username

    def backend(self) -> Fhir:
        """Return a client with the token that the lesson's curl gets."""
        text = self.browser.get("/learn/backend-token").words
        proof = text.partition("curl -u ")[2].partition(" ")[0]
        answer = self.app.test_client().post(
            "/oauth/token",
            data={"grant_type": "client_credentials", "scope": "system/*.rs"},
            headers={"Authorization": f"Basic {b64encode(proof.encode()).decode()}"},
        )
        assert answer.status_code == 200, answer.text
        return Fhir(self.app, answer.get_json()["access_token"])

    def allow(self) -> Fhir:
        """Let the demo's app in, and return it with its token."""
        flow = Flow(self.app, Program(APP), self.user_id)
        scope = "openid launch/patient patient/*.rs"
        return flow.fhir(scope, patient="p2", redirect_uri=learning.LOOPBACK)


class Class:
    """A class, and the browser of its teacher."""

    def __init__(self, app: Flask, teacher: str = "clinician", name: str = "Nursing 2") -> None:
        self.app, self.teacher = app, Browser(app).resume(teacher)
        made = self.teacher.get("/learn/classes").submit("Create class", name=name)
        assert made.heading == name, made.words
        self.path = made.path
        self.code = _CODES.findall(made.words)[0]

    def page(self) -> Page:
        return self.teacher.get(self.path)

    def join(self, nickname: str, address: str | None = None) -> Member:
        return Member(self.app, self.code, nickname, address)

    def line(self, nickname: str) -> str:
        """Return what the page says of a learner: lesson, steps, done and last request."""
        text = self.page().response.text.partition("<tbody>")[2].partition("</tbody>")[0]
        for row in text.split("<tr>"):
            if f">{nickname}</a>" in row:
                return " ".join(re.sub(r"<[^>]+>", " ", row).split())
        raise AssertionError(f"nobody is called {nickname}")


def counted(app: Flask, *models: type) -> list[int]:
    return [rows(app, select(func.count()).select_from(model))[0][0] for model in models]


def test_who_joins_has_an_account_and_a_code_of_their_own(app):
    group = Class(app)
    first, second = group.join("Ana"), group.join("Łukasz 2")
    assert first.code != second.code
    assert len(first.code.replace("-", "")) == 12
    assert not {*"IOL01"} & {*group.code, *first.code, *second.code}
    page = first.browser.get("/learn")
    assert "Your class: Nursing 2." in page.words
    assert "Are you teaching?" not in page.words
    # Another device.
    back = (
        Browser(app)
        .get("/learn/join")
        .submit("Return to class", own_code=f" {first.code.lower()} ")
    )
    assert (back.path, "as Ana" in back.words) == ("/learn/class", True)


def test_nobody_signs_in_as_a_learner_with_a_password(app):
    username = Class(app).join("Ana").username
    assert Browser(app).sign_in(username, "").status == 403
    assert Browser(app).sign_in(username).status == 403


def test_progress_requests_consents_and_tokens_of_learners_are_apart(app):
    group = Class(app)
    ana, ben = group.join("Ana"), group.join("Ben")
    for name in ("read-one-allergy", "backend-token", "denied", "pkce-by-hand"):
        ana.begin(name)
        ben.begin(name)
    ana.ask(ALLERGY)
    ana.backend().read("AllergyIntolerance?clinical-status=active")
    ana.allow().read("AllergyIntolerance")
    sent = "/explore?address=/fhir/AllergyIntolerance&as="
    assert ana.browser.get(f"{sent}{ana.username}-patient").status == 200
    assert ana.browser.get(f"{sent}{ben.username}-patient").status == 404
    for name in ("read-one-allergy", "backend-token", "denied"):
        assert (name, ana.met(name)[0]) == (name, True)
        assert True not in ben.met(name)
    assert (ana.met("pkce-by-hand"), ben.met("pkce-by-hand")) == ([True, True], [False, False])
    # What all of the demo use counts for none of them.
    learning.backend(app).read("AllergyIntolerance?clinical-status=active")
    learning.Learner(app).ask("AllergyIntolerance", as_="patient")
    assert True not in ben.met("backend-token") + ben.met("denied")


def test_the_teacher_sees_who_is_where_and_what_they_requested_last(app):
    group = Class(app)
    ana = group.join("Ana")
    assert "none in progress 0 of 25 none yet" in group.line("Ana")
    ana.begin("read-one-allergy")
    ana.ask(ALLERGY)
    assert ana.met("read-one-allergy") == [True, False]
    line = group.line("Ana")
    assert "1. Read one allergy 1 of 2 steps 0 of 25" in line
    assert f"GET /fhir/{ALLERGY} 200, " in line
    ana.answer(
        "read-one-allergy", "What is its criticality? Answer with the code in the resource.", "low"
    )
    assert ana.met("read-one-allergy") == [True, True]
    assert "none in progress 1 of 25" in group.line("Ana")
    ana.backend().get("Patient/p1")
    assert "GET /fhir/Patient/p1 200" in group.line("Ana")


def test_the_results_are_a_line_for_each_learner_and_lesson(app):
    group = Class(app)
    ana, _ben = group.join("Ana"), group.join("Ben")
    ana.begin("search-by-post")
    ana.fhir().post("AllergyIntolerance/_search", {"patient": "p4"})
    ana.met("search-by-post")
    answer = group.teacher.get(f"{group.path}/results.csv").response
    assert answer.mimetype == "text/csv"
    table = [*csv.DictReader(io.StringIO(answer.text))]
    assert len(table) == 2 * 25
    done = [row for row in table if row["done"]]
    assert [(row["learner"], row["lesson"], row["steps met"]) for row in done] == [
        ("Ana", "Search by POST", "1")
    ]


def test_a_class_does_the_lessons_that_its_teacher_numbers(app):
    group = Class(app)
    ana = group.join("Ana")
    with app.app_context():
        none = {lesson.name: "" for lesson in lessons()[0]}
    assert group.page().submit("Save", **none).status == 400
    group.page().submit("Save", **(none | {"paging": "1", "tokens": "7"}))
    page = ana.browser.get("/learn")
    own = [one for one in page.offered.values() if one in ("/learn/paging", "/learn/tokens")]
    assert list(dict.fromkeys(own)) == ["/learn/paging", "/learn/tokens"]
    assert "/learn/dates" not in page.offered.values()
    assert ana.browser.get("/learn/paging").heading.startswith("1. ")
    assert ana.browser.get("/learn/dates").status == 200
    assert "of 2" in group.line("Ana")
    # Others do all of them.
    assert "/learn/dates" in Browser(app).get("/learn").offered.values()


def test_a_reset_deletes_progress_and_revokes_tokens_and_keeps_the_learner(app):
    group = Class(app)
    ana, ben = group.join("Ana"), group.join("Ben")
    tokens = [fhir for one in (ana, ben) for fhir in (one.backend(), one.allow())]
    for one in (ana, ben):
        one.begin("read-one-allergy")
        one.ask(ALLERGY)
        one.met("read-one-allergy")
    group.page().submit("Reset Ana")
    assert [fhir.get("AllergyIntolerance").status_code for fhir in tokens] == [401, 401, 200, 200]
    assert "none in progress" in group.line("Ana")
    assert ben.met("read-one-allergy") == [True, False]
    assert ana.ask(ALLERGY).status_code == 200
    ana.begin("read-one-allergy")
    assert ana.met("read-one-allergy") == [False, False]


def test_a_removed_learner_is_gone_and_the_others_stay(app):
    before = counted(app, User, Client)
    group = Class(app)
    ana, ben = group.join("Ana"), group.join("Ben")
    app_of_ana = ana.allow()
    group.page().submit("Remove Ana")
    assert ana.browser.get("/learn/class").heading == "Sign in"
    assert app_of_ana.get("AllergyIntolerance").status_code == 401
    assert ben.browser.get("/learn/class").status == 200
    assert counted(app, User, Client, Learner) == [before[0] + 2, before[1] + 1, 1]


@pytest.mark.parametrize("is_over", [True, False])
def test_a_class_ends_with_all_that_was_made_for_it(app, is_over):
    tables = (User, Client, Grant, Session, AccessToken, LessonProgress, Learner, LessonClass)
    group = Class(app)
    before = [*counted(app, *tables)][:-1]
    ana = group.join("Ana")
    own = [ana.backend(), ana.allow()]
    ana.begin("read-one-allergy")
    ana.ask(ALLERGY)
    ana.ask("AllergyIntolerance", as_=f"{ana.username}-patient")
    if is_over:
        with app.app_context():
            classes.sweep(int(time.time()))
            assert classes.class_of(ana.user_id) is not None
            classes.sweep(int(time.time()) + classes.DAYS * 86_400)
    else:
        assert group.page().submit("End class now").path == "/learn/classes"
    assert counted(app, *tables) == [*before, 0]
    assert [fhir.get("AllergyIntolerance").status_code for fhir in own] == [401, 401]
    assert ana.browser.get("/learn/class").heading == "Sign in"
    page = Browser(app).get("/learn/join").submit("Return to class", own_code=ana.code)
    assert "This code is not valid, or the class has ended." in page.words
    with app.app_context():
        newest = entries(kind=ADMINISTRATION, limit=20)
        assert {"class-ended", "user-removed", "app-ended"} <= {one.event for one in newest}
        assert newest[0].body == "Nursing 2"


def test_a_class_whose_time_has_come_ends_with_the_next_who_joins(app):
    group = Class(app)
    alter(app, update(LessonClass).values(ends_at=int(time.time()) - 1))
    page = Browser(app).get("/learn/join").submit("Join", code=group.code, nickname="Ana")
    assert (page.status, "No class has this code." in page.words) == (404, True)
    assert group.page().status == 404


def test_what_is_done_with_a_class_is_in_the_trail(app):
    group = Class(app)
    ana = group.join("Ana")
    group.page().submit("Reset Ana")
    group.page().submit("Create a new class code")
    group.page().submit("Remove Ana")
    group.page().submit("End class now")
    with app.app_context():
        teacher = rows(app, select(User.id).where(User.username == "clinician"))[0].id
        found = {one.event: one for one in entries(kind=ADMINISTRATION, limit=12)}
    about = f"user/{ana.user_id}"
    assert (found["class-joined"].user_id, found["class-joined"].about) == (ana.user_id, about)
    assert (found["learner-reset"].user_id, found["learner-reset"].about) == (teacher, about)
    assert found["class-changed"].body == "Nursing 2: another code"
    for event in ("class-made", "class-ended"):
        assert (found[event].user_id, found[event].body) == (teacher, "Nursing 2")
    assert found["user-removed"].body.removesuffix("-patient") == ana.username
    # The address of its page is a secret.
    assert group.path.rpartition("/")[2] not in repr([*found.values()])


NICKNAMES = [
    ("<script>alert(1)</script>", False),
    ("=1+1", False),
    ("@sum", False),
    ("-1", False),
    ("abc\u202egnp", False),
    ("", False),
    ("   ", False),
    ("x" * 41, False),
    ('Ana" onmouseover="x', False),
    ("O'Neill", True),
    ("Zoë-Marie", True),
    ("सीता", True),
    ("王小明", True),
    ("7b", True),
]


@pytest.mark.parametrize(("nickname", "is_taken"), NICKNAMES)
def test_a_nickname_is_letters_and_digits(app, nickname, is_taken):
    group = Class(app)
    page = Browser(app).get("/learn/join").submit("Join", code=group.code, nickname=nickname)
    assert (page.path == "/learn/class") == is_taken
    if not is_taken:
        assert page.status == 400
        assert "Enter 1 to 40 letters and digits" in page.words


def test_nobody_in_a_class_has_the_name_of_another(app):
    group = Class(app)
    group.join("Ana")
    page = Browser(app).get("/learn/join").submit("Join", code=group.code, nickname="ANA")
    assert (page.status, "This nickname is taken" in page.words) == (400, True)
    Class(app, name="Another").join("Ana")


def test_hostile_names_are_shown_as_text(app):
    name = "<img src=x onerror=alert(1)>"
    group = Class(app, name=name)
    ana = group.join("Ana")
    for page in (group.page(), ana.browser.get("/learn"), ana.browser.get("/learn/class")):
        assert "<img" not in page.response.text
        assert name in page.words
    assert "<img" not in group.teacher.get("/learn/classes").response.text


def test_codes_are_not_guessed(app, monkeypatch):
    monkeypatch.setattr(classes, "WRONG_CODES", 3)
    group = Class(app)
    browser = Browser(app)
    form = browser.get("/learn/join")
    for button, filled in (
        ("Join", {"code": "ABCDEFGH", "nickname": "Ana"}),
        ("Return to class", {"own_code": "ABCDEFGHJKMN"}),
        ("Join", {"code": "0", "nickname": "Ana"}),
    ):
        assert form.submit(button, **filled).status == 404
    page = form.submit("Join", code=group.code, nickname="Ana")
    assert (page.status, "Too many attempts." in page.words) == (429, True)
    # From another network.
    group.join("Ana")


def test_classes_and_their_learners_are_limited(app, monkeypatch):
    monkeypatch.setattr(classes, "MOST_CLASSES", 2)
    monkeypatch.setattr(classes, "MOST_LEARNERS", 1)
    group, _other = Class(app), Class(app)
    page = group.teacher.get("/learn/classes").submit("Create class", name="Third")
    assert (page.status, "There are already 2 classes" in page.words) == (400, True)
    group.join("Ana")
    page = Browser(app).get("/learn/join").submit("Join", code=group.code, nickname="Ben")
    assert (page.status, "This class is full: 1 learners." in page.words) == (400, True)


@pytest.mark.parametrize(("name", "days"), [("", "30"), ("x" * 81, "30"), ("A", "0"), ("A", "91")])
def test_a_class_has_a_name_and_an_end(app, name, days):
    page = Browser(app).resume("admin").get("/learn/classes")
    assert page.submit("Create class", name=name, days=days).status == 400
    assert counted(app, LessonClass) == [0]


def test_with_another_code_nobody_joins_by_the_one_before(app):
    group = Class(app)
    page = group.page().submit("Create a new class code")
    (code, *_more) = _CODES.findall(page.words)
    assert code != group.code
    again = Browser(app).get("/learn/join").submit("Join", code=group.code, nickname="Ana")
    assert again.status == 404
    Member(app, code, "Ana")


def test_only_teachers_have_classes(app):
    group = Class(app)
    ana = group.join("Ana")
    for browser in (ana.browser, Browser(app).resume("patient")):
        for path in ("/learn/classes", group.path, f"{group.path}/results.csv"):
            assert browser.get(path).status == 403
    token = ana.browser.get("/learn/class").form("Sign out").fields["form_token"]
    sent = {"form_token": token, "learner": ana.user_id, "what": "remove"}
    for action in ("end", "code", "lessons", "learners"):
        page = ana.browser.post(f"{group.path}/{action}", sent)
        assert page.status == 403
    assert Browser(app).get(group.path).heading == "Sign in"
    assert counted(app, LessonClass, Learner) == [1, 1]


def test_the_shared_account_lists_no_classes_and_an_administrator_finds_all(app):
    group = Class(app)
    assert group.path not in group.teacher.get("/learn/classes").offered.values()
    admin = Browser(app).resume("admin")
    assert group.path in admin.get("/learn/classes").offered.values()
    assert admin.get(group.path).heading == "Nursing 2"
    assert admin.get(f"{group.path[:-1]}!").status == 404


def test_a_learner_of_another_class_is_not_reached(app):
    ours, theirs = Class(app), Class(app)
    ana = theirs.join("Ana")
    token = ours.page().form("Save").fields["form_token"]
    for what in ("reset", "remove"):
        sent = {"form_token": token, "learner": ana.user_id, "what": what}
        ours.teacher.post(f"{ours.path}/learners", sent)
    assert ana.browser.get("/learn/class").status == 200


def test_in_a_clinic_there_are_no_classes(make_app):
    browser = Browser(make_app(seed=False))
    for path in ("/learn/join", "/learn/class", "/learn/classes", "/learn/classes/x"):
        assert browser.get(path).status == 404


def test_forty_learners_at_once_do_each_other_no_harm(app, unhurried):
    """All from one address, as a school's network has it."""
    group = Class(app)

    def learn(number: int) -> tuple[list[bool], list[bool]]:
        one = group.join(f"Learner {number}", "203.0.113.7")
        one.begin("read-one-allergy")
        one.begin("backend-token")
        if number % 2:
            assert one.ask(ALLERGY).status_code == 200
        else:
            one.backend().read("AllergyIntolerance?clinical-status=active")
        return one.met("read-one-allergy"), one.met("backend-token")

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(learn, range(40)))
    asked = ([True, False], [False, False, False])
    as_backend = ([False, False], [True, False, False])
    assert found == [as_backend, asked] * 20
    assert "40 of at most 60." in group.page().words
    own = {row.code_digest for row in rows(app, select(Learner.code_digest))}
    assert len(own) == 40
