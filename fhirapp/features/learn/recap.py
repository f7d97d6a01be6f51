"""What a learner has done: a recap with the requests of each lesson, and a certificate to print."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from flask import Response, request

from fhirapp import urls
from fhirapp.features.learn import progress
from fhirapp.features.learn.classes import learner_of
from fhirapp.features.learn.lesson import Lesson
from fhirapp.features.learn.routes import only_in_the_demo, own_lessons
from fhirapp.rest.capability import software_version
from fhirapp.web.pages import blueprint_of, for_signed_in, page, signed_in
from fhirapp.web.texts import _

blueprint = blueprint_of("recap", __name__)
blueprint.before_request(only_in_the_demo)
LONGEST_NAME = 80
# So many requests of a lesson are shown, the last ones.
_SHOWN = 5


class Done(NamedTuple):
    """A lesson that is done, its number in the list, and when: an instant."""

    number: int
    lesson: Lesson
    began_at: str
    done_at: str


@blueprint.get("/learn/recap")
@for_signed_in
def recap() -> Response:
    """Show what was learned, lesson by lesson, with the requests that were sent for it."""
    user_id = signed_in().user.id
    return page(
        "learn/recap.html",
        done=[
            (one, progress.requests_for(one.lesson, user_id, one.began_at, one.done_at)[-_SHOWN:])
            for one in _done(user_id)
        ],
        all=len(own_lessons()),
    )


@blueprint.get("/learn/certificate")
@for_signed_in
def certificate() -> Response:
    """Show a certificate to print, with the name that the learner typed, which is kept nowhere."""
    user = signed_in().user
    name = " ".join(request.args.get("name", "").split())
    message = ""
    if len(name) > LONGEST_NAME or not name.isprintable():
        message = _("Enter up to %(most)s printable characters.", most=LONGEST_NAME)
        name = ""
    elif not name and learner_of(user.id) is not None:
        name = user.name
    return page(
        "learn/certificate.html",
        400 if message else 200,
        scripts=True,
        name=name,
        message=message,
        longest=LONGEST_NAME,
        done=_done(user.id),
        all=len(own_lessons()),
        version=software_version(),
        server=urls.base_url(),
    )


def _done(user_id: str) -> Sequence[Done]:
    began = progress.of_person(user_id)
    return [
        Done(number, lesson, row.began_at, row.done_at)
        for number, lesson in enumerate(own_lessons(), 1)
        if (row := began.get(lesson.name)) is not None and row.done_at is not None
    ]
