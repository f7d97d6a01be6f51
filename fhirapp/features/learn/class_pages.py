"""The pages of classes: to join one and come back, and a teacher's, with who is where."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from flask import Response, request

from fhirapp import config, urls
from fhirapp.audit.entries import AuditEntry
from fhirapp.auth.models import User
from fhirapp.db import db
from fhirapp.features.learn import classes, progress
from fhirapp.features.learn.lesson import Lesson, lessons
from fhirapp.features.learn.models import Learner, LessonClass, LessonProgress
from fhirapp.features.learn.routes import only_in_the_demo
from fhirapp.jobs import worker
from fhirapp.web import pages
from fhirapp.web.cookies import set_session
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("classes", __name__)
blueprint.before_request(only_in_the_demo)
_COLUMNS = ("learner", "number", "lesson", "started", "done", "steps met", "steps", "hints")


@blueprint.record_once
def _sweep(state: object) -> None:
    """End classes in time, where the server's worker sweeps up."""
    app = state.app  # type: ignore[attr-defined]
    if config.settings_of(app).demo:
        worker.register(app, sweep=classes.sweep)


@blueprint.get("/learn/join")
def join_form(message: str = "", status: int = 200) -> Response:
    """Ask for the code of a class and a nickname, or for the own code."""
    return pages.page(
        "learn/join.html",
        status,
        message=message,
        code=pages.field("code", 40) or request.args.get("code", "")[:20],
        nickname=pages.field("nickname", 200),
        most=classes.LONGEST_NICKNAME,
    )


@blueprint.post("/learn/join")
@pages.form_action(join_form)
def join() -> Response:
    """Join a class."""
    code, nickname = pages.field("code", 40), pages.field("nickname", 200)
    secret = classes.join(code, nickname, request.remote_addr or "", _session_id())
    if secret is None:
        return join_form(_("No class has this code. Ask your teacher for it."), 404)
    return _entered(secret)


@blueprint.post("/learn/come-back")
@pages.form_action(join_form)
def come_back() -> Response:
    """Come back to a class with the own code, on this or another device."""
    code = pages.field("own_code", 40)
    secret = classes.come_back(code, request.remote_addr or "", _session_id())
    if secret is None:
        message = _("This code is not valid, or the class has ended. Ask your teacher.")
        return join_form(message, 404)
    return _entered(secret)


def _session_id() -> str | None:
    session = pages.current_session()
    return session.session_id if session else None


def _entered(secret: str) -> Response:
    if pages.current_session() is None:
        pages.end_session_of_browser()
    set_session(secret)
    return pages.see_other("/learn/class")


@blueprint.get("/learn/class")
@pages.for_signed_in
def own_class() -> Response:
    """Show a learner their class, and the code to come back with."""
    user = pages.signed_in().user
    found = classes.class_of(user.id)
    if found is None:
        return pages.see_other("/learn/join")
    return pages.page("learn/own_class.html", found=found, code=classes.own_code(user.id))


@blueprint.get("/learn/classes")
@pages.for_staff
def list_classes(message: str = "", status: int = 200) -> Response:
    """List a teacher's classes, and offer to make one."""
    teacher = _teacher()
    return pages.page(
        "learn/classes.html",
        status,
        classes=classes.classes_of(teacher),
        is_shared=classes.is_shared(teacher),
        message=message,
        name=pages.field("name", 200),
        days=classes.DAYS,
        most_days=classes.MOST_DAYS,
        grouped=classes.grouped,
    )


@blueprint.post("/learn/classes")
@pages.for_staff
@pages.form_action(list_classes)
def make() -> Response:
    """Make a class."""
    teacher, address = _teacher(), request.remote_addr or ""
    name, days = pages.field("name", 200), pages.field("days", 3)
    days_number = int(days) if days.isdecimal() else 0
    class_id = classes.make_class(teacher.id, name, days_number, address)
    return pages.see_other(f"/learn/classes/{class_id}")


@blueprint.get("/learn/classes/<class_id>")
@pages.for_staff
def show(class_id: str) -> Response:
    """Show a teacher who is where, and what can be changed."""
    found = _class(class_id)
    known = lessons()[0]
    own = classes.chosen(known, found.lessons)
    return pages.page(
        "learn/class.html",
        scripts=True,
        found=found,
        code=classes.grouped(found.code),
        join_address=f"{urls.base_url()}/learn/join?code={found.code}",
        seats=_seats(classes.learners_of(class_id), own),
        lessons=own,
        # Those of the class first, in its order.
        listed=[*own, *(lesson for lesson in known if lesson not in own)],
        most=classes.MOST_LEARNERS,
        own_code=classes.own_code,
    )


@blueprint.post("/learn/classes/<class_id>/lessons")
@pages.for_staff
def set_lessons(class_id: str) -> Response:
    """Set which lessons the class does: by the number that each has in the form."""
    _class(class_id)
    places = {lesson.name: pages.field(lesson.name, 3) for lesson in lessons()[0]}
    numbered = {name: int(place) for name, place in places.items() if place.isdecimal()}
    if not numbered or len(numbered) < sum(map(bool, places.values())):
        message = _("Number at least one lesson, and leave the others empty.")
        raise pages.PageError(400, message, form=f"/learn/classes/{class_id}")
    names = sorted(numbered, key=lambda name: numbered[name])
    classes.change_class(class_id, "other lessons", lessons=names)
    return pages.see_other(f"/learn/classes/{class_id}")


@blueprint.post("/learn/classes/<class_id>/code")
@pages.for_staff
def renew_code(class_id: str) -> Response:
    """Give the class another code to join with."""
    _class(class_id)
    classes.renew_code(class_id)
    return pages.see_other(f"/learn/classes/{class_id}")


@blueprint.post("/learn/classes/<class_id>/end")
@pages.for_staff
def end(class_id: str) -> Response:
    """End the class, with its learners' accounts."""
    _class(class_id)
    classes.end_class(class_id)
    return pages.see_other("/learn/classes")


@blueprint.post("/learn/classes/<class_id>/learners")
@pages.for_staff
def change_learner(class_id: str) -> Response:
    """Put a learner back to the beginning, or remove them."""
    _class(class_id)
    changes = {"reset": classes.reset_learner, "remove": classes.remove_learner}
    user_id, what = pages.field("learner", 64), pages.field("what", 10)
    if what not in changes:
        raise pages.PageError(404, _("A learner can be reset or removed."))
    changes[what](class_id, user_id)
    return pages.see_other(f"/learn/classes/{class_id}")


@blueprint.get("/learn/classes/<class_id>/results.csv")
@pages.for_staff
def results(class_id: str) -> Response:
    """Send who did what, a line for each learner and lesson of the class."""
    found = _class(class_id)
    text = io.StringIO()
    writer = csv.writer(text, quoting=csv.QUOTE_ALL)
    writer.writerow(_COLUMNS)
    writer.writerows(
        _lines(classes.learners_of(class_id), classes.chosen(lessons()[0], found.lessons))
    )
    response = Response(text.getvalue(), content_type="text/csv; charset=utf-8")
    response.headers["Content-Disposition"] = 'attachment; filename="class.csv"'
    response.headers["Cache-Control"] = "no-store"
    return response


def _lines(
    learners: Sequence[tuple[Learner, User]], own: Sequence[Lesson]
) -> Iterator[Sequence[object]]:
    began = progress.of_people([user.id for _learner, user in learners])
    for _learner, user in learners:
        for number, lesson in enumerate(own, 1):
            row = began.get(user.id, {}).get(lesson.name)
            times = (row.began_at, row.done_at or "") if row else ("", "")
            met, hints = (_met(row, lesson), row.hints) if row else (0, 0)
            yield user.name, number, lesson.title, *times, met, len(lesson.checks), hints


class Seat(NamedTuple):
    """Where a learner is: a lesson under way and its steps, lessons done, the last request."""

    user: User
    joined_at: int
    number: int
    lesson: Lesson | None
    met: int
    done: int
    last: AuditEntry | None


def _seats(learners: Sequence[tuple[Learner, User]], own: Sequence[Lesson]) -> Sequence[Seat]:
    began = progress.of_people([user.id for _learner, user in learners])
    return [_seat(learner, user, began.get(user.id, {}), own) for learner, user in learners]


def _seat(
    learner: Learner, user: User, began: Mapping[str, LessonProgress], own: Sequence[Lesson]
) -> Seat:
    rows = [
        (n, lesson, began[lesson.name]) for n, lesson in enumerate(own, 1) if lesson.name in began
    ]
    open_rows = [row for row in rows if row[2].done_at is None]
    last = progress.last_request(user.id)
    done = len(rows) - len(open_rows)
    if not open_rows:
        return Seat(user, learner.joined_at, 0, None, 0, done, last)
    number, lesson, row = max(open_rows, key=lambda row: row[2].began_at)
    return Seat(user, learner.joined_at, number, lesson, _met(row, lesson), done, last)


def _met(row: LessonProgress, lesson: Lesson) -> int:
    return sum(check.says in row.met for check in lesson.checks)


def _teacher() -> User:
    """Return who is signed in, if they may have classes. Raises PageError."""
    user = pages.signed_in().user
    if not classes.is_teacher(user):
        raise pages.PageError(403, _("This page is for teachers. You are signed in as a learner."))
    return user


def _class(class_id: str) -> LessonClass:
    """Return a class, for a teacher. Raises PageError."""
    _teacher()
    found = db.session.get(LessonClass, class_id)
    if found is None:
        raise pages.PageError(404, _("This class does not exist, or has ended."))
    return found
