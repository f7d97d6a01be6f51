"""The pages of the lessons, which are a part of the demo."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from flask import Response, request
from markupsafe import Markup

from fhirapp import config, urls
from fhirapp.auth.models import STAFF, User
from fhirapp.features.demo.accounts import BACKEND, SECRET
from fhirapp.features.explore.address import explorer_link
from fhirapp.features.explore.routes import OWN_PATIENT
from fhirapp.features.explore.snippets import Snippet, encoded, snippets
from fhirapp.features.learn import classes, progress
from fhirapp.features.learn.checks import is_right, right_answer
from fhirapp.features.learn.expected import YOU
from fhirapp.features.learn.lesson import LARGEST, Lesson, lessons
from fhirapp.features.learn.markdown import as_html, lesson_html
from fhirapp.features.learn.models import LessonProgress
from fhirapp.features.learn.progress import CheckState, LessonState, lesson_state
from fhirapp.web import pages
from fhirapp.web.internal_client import token_of
from fhirapp.web.texts import _

blueprint = pages.blueprint_of("learn", __name__)
blueprint.record_once(
    lambda state: state.app.extensions.update({OWN_PATIENT: classes.own_patient_of})
)
_WRITING = Path(__file__).with_name("writing.md")
# What stands in a text for id and secret of the backend that a learner may use.
_BACKEND = "{backend}"
# The first block of code that is marked fhir.
_REQUEST = re.compile(r"^```fhir\nGET (\S+)$", re.MULTILINE)
# htmx asks no more after this status.
_STOP = 286


@blueprint.before_request
def only_in_the_demo() -> None:
    """Refuse every page of the lessons elsewhere. Raises PageError."""
    if not config.settings().demo:
        raise pages.PageError(404, _("Lessons are part of the demo. Start it with app.py --demo."))


@blueprint.get("/learn")
def overview() -> Response:
    """List the lessons, with what is done and what is next; to staff what cannot be read."""
    faults, user = lessons()[1], _user()
    found = classes.class_of(user.id) if user else None
    known = own_lessons()
    began = progress.of_person(user.id) if user else {}
    done = {name for name, row in began.items() if row.done_at is not None}
    return pages.page(
        "learn/overview.html",
        lessons=known,
        levels=[(level, [*group]) for level, group in groupby(known, lambda lesson: lesson.level)],
        number={lesson.name: number for number, lesson in enumerate(known, 1)},
        began=began,
        done=done,
        following=next((lesson for lesson in known if lesson.name not in done), None),
        count=sum(lesson.name in done for lesson in known),
        found=found,
        is_teacher=user is not None and classes.is_teacher(user),
        minutes=sum(lesson.minutes for lesson in known if lesson.name not in done),
        faults=faults if user and user.role in STAFF else [],
        sign_in=pages.sign_in_address("/learn"),
        password=SECRET,
    )


@blueprint.get("/learn/writing")
@pages.for_staff
def writing() -> Response:
    """Tell a teacher how a lesson is written."""
    return pages.page(
        "learn/writing.html",
        scripts=True,
        text=as_html(_WRITING.read_text(encoding="utf-8")),
        folder=config.settings().lessons,
        faults=lessons()[1],
    )


@blueprint.get("/learn/<name>")
def lesson(name: str) -> Response:
    """Show a lesson, and the progress of the signed-in person."""
    return _page(_place(name))


@blueprint.get("/learn/<name>/progress")
def show_progress(name: str) -> Response:
    """Return the progress for htmx to put into the page; 204 where it has not changed."""
    place = _place(name)
    if not request.headers.get("HX-Request"):
        return pages.see_other(f"/learn/{name}#progress")
    values = _values(place)
    if values["state"] == request.args.get("state"):
        return Response(status=204)
    is_over = values["is_done"] or values["began"] is None
    return pages.page("learn/progress.html", _STOP if is_over else 200, scripts=True, **values)


@blueprint.post("/learn/<name>/begin")
@pages.for_signed_in
def begin(name: str) -> Response:
    """Start a lesson, or start it again."""
    progress.begin(pages.signed_in().user.id, _place(name).lesson.name)
    return pages.see_other(f"/learn/{name}#progress")


@blueprint.get("/learn/<name>/explore")
@pages.for_signed_in
def open_explorer(name: str) -> Response:
    """Open a request of a lesson in the explorer, and start the lesson where it is not started."""
    found = _place(name).lesson
    if _row(found) is None:
        progress.begin(pages.signed_in().user.id, found.name)
    return pages.see_other(explorer_link(request.args.get("address", ""), lesson=found.name))


@blueprint.post("/learn/<name>/hint")
@pages.for_signed_in
def hint(name: str) -> Response:
    """Show one more hint."""
    lesson = _place(name).lesson
    progress.one_more_hint(pages.signed_in().user.id, lesson.name, len(lesson.hints))
    return pages.see_other(f"/learn/{name}#hints")


@blueprint.post("/learn/<name>/answer")
@pages.for_signed_in
def take_answer(name: str) -> Response:
    """Compare an answer with what the server answers the learner now."""
    place = _place(name)
    row = _row(place.lesson)
    if row is None:
        raise pages.PageError(409, _("Start the lesson first, then answer."))
    says, typed = pages.field("says", LARGEST), pages.field("answer", 200)
    check = next((check for check in place.lesson.checks if check.says == says), None)
    if check is None or check.question is None:
        raise pages.PageError(
            409, _("The lesson has changed in the meantime. Read its question again.")
        )
    began_at, user_id = row.began_at, pages.signed_in().user.id
    answer = progress.answer_now(check.question.address)
    if not progress.is_shown(place.lesson, check, user_id, began_at, answer.status):
        return _page(place, says, typed, _("First send the request that shows the answer."))
    try:
        right = right_answer(answer.json(), check.question.answer)
    except ValueError:
        right = None
    if right is None:
        message = _("Your account does not have access to the resource that contains the answer.")
        return _page(place, says, typed, message)
    if not is_right(typed, right):
        message = _("That is not what the server returns. Check the response and try again.")
        return _page(place, says, typed, message)
    progress.note(user_id, place.lesson.name, began_at, [says], is_done=False)
    return pages.see_other(f"/learn/{name}#progress")


def own_lessons() -> Sequence[Lesson]:
    """Return the lessons in the order of the learner's class, by default all."""
    user, known = _user(), lessons()[0]
    found = classes.class_of(user.id) if user else None
    return classes.chosen(known, found.lessons) if found else known


class _Place(NamedTuple):
    """A lesson, and the one after it."""

    lesson: Lesson
    number: int
    following: Lesson | None


def _place(name: str) -> _Place:
    # A lesson may lead to one that is not of the class.
    for known in (own_lessons(), lessons()[0]):
        for number, lesson in enumerate(known, 1):
            if lesson.name == name:
                return _Place(lesson, number, known[number] if number < len(known) else None)
    raise pages.PageError(404, _("This lesson does not exist. See the list at /learn."))


def _page(place: _Place, says: str = "", typed: str = "", message: str = "") -> Response:
    secret = _own_secret(place.lesson)
    return pages.page(
        "learn/lesson.html",
        scripts=True,
        text=_rendered(place.lesson.text, place.lesson.name),
        secret=secret,
        says=says,
        typed=typed,
        message=message,
        rendered=_rendered,
        programs=_programs(place.lesson.text, secret),
        **_values(place),
    )


def _own_secret(found: Lesson) -> str:
    """Return the learner's own token; empty where requests with it do not count."""
    if _user() is None or YOU not in found.senders:
        return ""
    try:
        return token_of().secret
    except pages.PageError:
        # A patient without a record has none.
        return ""


def _programs(text: str, secret: str) -> Sequence[Snippet]:
    """Return the first request of a lesson's text as curl, over HTTP and as Python sends it."""
    found = _REQUEST.search(text)
    if found is None:
        return ()
    sent = {snippet.label: snippet for snippet in snippets(found[1])}
    server = urlsplit(urls.base_url())
    lines = (
        f"GET {server.path}{encoded(found[1])} HTTP/1.1",
        f"Host: {server.netloc}",
        f"Authorization: Bearer {secret or 'TOKEN'}",
        "Accept: application/fhir+json",
    )
    return sent["curl"], Snippet("HTTP", "\n".join(lines), ""), sent["Python"]


def _rendered(text: str, lesson: str) -> Markup:
    """Return the Markdown of a lesson as HTML, with the backend of the learner filled in."""
    user = _user()
    learner = classes.learner_of(user.id) if user else None
    own = f"{learner.client_id}:{classes.own_secret(learner.user_id)}" if learner else ""
    return lesson_html(text.replace(_BACKEND, own or f"{BACKEND}:{SECRET}"), lesson)


def _user() -> User | None:
    session = pages.current_session()
    return session.user if session is not None and session.complete else None


def _row(lesson: Lesson) -> LessonProgress | None:
    user = _user()
    return progress.of_person(user.id).get(lesson.name) if user else None


def _values(place: _Place) -> dict[str, Any]:
    """Return what the page shows of a learner's progress, and record what is met."""
    lesson, row = place.lesson, _row(place.lesson)
    values: dict[str, Any] = {
        "lesson": lesson,
        "number": place.number,
        "following": place.following,
        "sign_in": pages.sign_in_address(f"/learn/{lesson.name}"),
        "password": SECRET,
        "began": row.began_at if row else None,
        "hints": lesson.hints[: row.hints] if row else (),
        "is_done": row is not None and row.done_at is not None,
    }
    if row is None or row.done_at is not None:
        is_met = row is not None
        state = LessonState([CheckState(check, is_met) for check in lesson.checks], ())
    else:
        user_id = pages.signed_in().user.id
        state = lesson_state(lesson, user_id, row.began_at, row.met)
        values["is_done"] = state.is_done
        if state.is_done or not set(state.met) <= set(row.met):
            progress.note(user_id, lesson.name, row.began_at, state.met, is_done=state.is_done)
    newest = state.requests[0].entry.number if state.requests else 0
    states = [(check.is_met, check.missing) for check in state.states]
    # Changes when the progress does.
    digest = sha256(repr((values["began"], states, newest)).encode()).hexdigest()[:16]
    return values | {"found": state, "state": digest}
