"""The addresses of these pages. Lessons are a part of the demo."""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from flask import Response, request

from fhirapp.auth.demo import SECRET
from fhirapp.auth.models.user import STAFF
from fhirapp.config import settings
from fhirapp.web.internal_client import ask, token_of
from fhirapp.web.learn import progress
from fhirapp.web.learn.checks import is_right, right_answer
from fhirapp.web.learn.lesson import LARGEST, Lesson, lessons
from fhirapp.web.learn.models import LessonProgress
from fhirapp.web.learn.progress import CheckState, LessonState, lesson_state
from fhirapp.web.markdown import as_html, rendered
from fhirapp.web.pages import (
    PageError,
    blueprint_of,
    current_session,
    field,
    for_signed_in,
    for_staff,
    page,
    see_other,
    sign_in_address,
    signed_in,
)
from fhirapp.web.texts import _

blueprint = blueprint_of("learn", __name__)
_WRITING = Path(__file__).with_name("writing.md")
# htmx asks no more after this status.
_STOP = 286
# Which of our pages asks, for the audit trail: it is not the learner.
_VIA = "learn"


@blueprint.before_request
def _only_in_the_demo() -> None:
    if not settings().demo:
        raise PageError(404, _("The lessons are a part of the demo: app.py --demo starts it."))


@blueprint.get("/learn")
def overview() -> Response:
    """List the lessons, with what is done and what is next; to staff what cannot be read."""
    known, faults = lessons()
    found = current_session()
    complete = found if found is not None and found.complete else None
    began = progress.of_person(complete.user.id) if complete else {}
    done = {name for name, one in began.items() if one.done_at is not None}
    return page(
        "learn/overview.html",
        lessons=known,
        levels=[(level, [*some]) for level, some in groupby(known, lambda one: one.level)],
        number={one.name: number for number, one in enumerate(known, 1)},
        began=began,
        done=done,
        following=next((one for one in known if one.name not in done), None),
        count=sum(one.name in done for one in known),
        minutes=sum(one.minutes for one in known if one.name not in done),
        faults=faults if complete and complete.user.role in STAFF else [],
        sign_in=sign_in_address("/learn"),
        password=SECRET,
    )


@blueprint.get("/learn/writing")
@for_staff
def writing() -> Response:
    """Tell a teacher how a lesson is written."""
    return page(
        "learn/writing.html",
        scripts=True,
        text=as_html(_writing()),
        folder=settings().lessons,
        faults=lessons()[1],
    )


@blueprint.get("/learn/<name>")
def lesson(name: str) -> Response:
    """Show a lesson, and to who signed in how far they are."""
    return _page(_place(name))


@blueprint.get("/learn/<name>/progress")
def looked(name: str) -> Response:
    """Show how far a learner is: what htmx puts into the page; 204 where that is there already."""
    place = _place(name)
    if not request.headers.get("HX-Request"):
        return see_other(f"/learn/{name}#progress")
    values = _values(place)
    if values["state"] == request.args.get("state"):
        return Response(status=204)
    is_over = values["is_done"] or values["began"] is None
    return page("learn/progress.html", _STOP if is_over else 200, scripts=True, **values)


@blueprint.post("/learn/<name>/begin")
@for_signed_in
def begin(name: str) -> Response:
    """Begin a lesson, or begin it again."""
    progress.begin(signed_in().user.id, _place(name).lesson.name)
    return see_other(f"/learn/{name}#progress")


@blueprint.post("/learn/<name>/hint")
@for_signed_in
def hint(name: str) -> Response:
    """Show one hint more."""
    one = _place(name).lesson
    progress.one_more_hint(signed_in().user.id, one.name, len(one.hints))
    return see_other(f"/learn/{name}#hints")


@blueprint.post("/learn/<name>/answer")
@for_signed_in
def answer(name: str) -> Response:
    """Compare an answer with what the server answers the learner now."""
    place = _place(name)
    own = _own(place.lesson)
    if own is None:
        raise PageError(409, _("Start the lesson first; then answer."))
    says, typed = field("says", LARGEST), field("answer", 200)
    check = next((one for one in place.lesson.checks if one.says == says), None)
    if check is None or check.question is None:
        raise PageError(409, _("The lesson was changed meanwhile. Look at its question again."))
    began_at = own.began_at
    told = ask(
        check.question.address,
        token_of().secret,
        headers={"Accept": "application/fhir+json"},
        via=_VIA,
    )
    try:
        right = right_answer(told.json(), check.question.answer) if told.status == 200 else None
    except ValueError:
        right = None
    if right is None:
        return _page(place, says, typed, _("Your sign-in may not see what the answer is in."))
    if not is_right(typed, right):
        return _page(place, says, typed, _("That is not what the server answers. Look again."))
    progress.note(signed_in().user.id, place.lesson.name, began_at, [says], is_done=False)
    return see_other(f"/learn/{name}#progress")


class _Place(NamedTuple):
    """A lesson, and the one after it."""

    lesson: Lesson
    number: int
    following: Lesson | None


def _place(name: str) -> _Place:
    known, _faults = lessons()
    for number, one in enumerate(known, 1):
        if one.name == name:
            return _Place(one, number, known[number] if number < len(known) else None)
    raise PageError(404, _("There is no lesson of that name. Look at the list at /learn."))


def _page(place: _Place, says: str = "", typed: str = "", message: str = "") -> Response:
    return page(
        "learn/lesson.html",
        scripts=True,
        text=rendered(place.lesson.text, place.lesson.name),
        says=says,
        typed=typed,
        message=message,
        rendered=rendered,
        **_values(place),
    )


def _own(one: Lesson) -> LessonProgress | None:
    found = current_session()
    if found is None or not found.complete:
        return None
    return progress.of_person(found.user.id).get(one.name)


def _values(place: _Place) -> dict[str, Any]:
    """Return what the page shows of a learner's progress, and note what was met."""
    own = _own(place.lesson)
    values: dict[str, Any] = {
        "lesson": place.lesson,
        "number": place.number,
        "following": place.following,
        "sign_in": sign_in_address(f"/learn/{place.lesson.name}"),
        "password": SECRET,
        "began": own.began_at if own else None,
        "hints": place.lesson.hints[: own.hints] if own else (),
        "is_done": False,
        "found": LessonState([CheckState(check, False) for check in place.lesson.checks], ()),
    }
    if own is not None:
        values |= _looked(place.lesson, own)
    return values | {"state": _digest(values)}


def _looked(one: Lesson, own: LessonProgress) -> dict[str, Any]:
    user_id = signed_in().user.id
    if own.done_at is not None:
        done = LessonState([CheckState(check, True) for check in one.checks], ())
        return {"found": done, "is_done": True}
    found = lesson_state(one, user_id, own.began_at, own.met)
    if found.is_done or not set(found.met) <= set(own.met):
        progress.note(user_id, one.name, own.began_at, found.met, is_done=found.is_done)
    return {"found": found, "is_done": found.is_done}


def _digest(values: dict[str, Any]) -> str:
    """Return what changes when the progress does."""
    found: LessonState = values["found"]
    newest = found.requests[0].entry.number if found.requests else 0
    told = [(state.is_met, state.missing) for state in found.states]
    return sha256(repr((values["began"], told, newest)).encode()).hexdigest()[:16]


@cache
def _writing() -> str:
    return _WRITING.read_text(encoding="utf-8")
