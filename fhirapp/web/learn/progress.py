"""How far a person is with a lesson: kept in a row for each, from its beginning on.

Look at what a learner did: the requests of the audit trail that count for each check.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import delete, exists, insert, select, update

from fhirapp.audit.read import Entry, entries
from fhirapp.auth.demo import APP, BACKEND
from fhirapp.auth.models import Grant, User
from fhirapp.db import db, writing
from fhirapp.fhir.temporal import instant
from fhirapp.web.learn import checks
from fhirapp.web.learn.checks import Check, Wanted, last_of, meeting, nearest
from fhirapp.web.learn.interaction import Asked, asked
from fhirapp.web.learn.lesson import Lesson
from fhirapp.web.learn.models import LessonProgress
from fhirapp.web.texts import _


def of_person(user_id: str) -> Mapping[str, LessonProgress]:
    """Return the lessons that a person began, by name."""
    rows = db.session.scalars(select(LessonProgress).where(LessonProgress.user_id == user_id))
    return {row.lesson: row for row in rows}


def begin(user_id: str, lesson: str) -> None:
    """Begin a lesson, or begin it again: what was done before does not count."""
    row = {"user_id": user_id, "lesson": lesson, "began_at": _now(), "hints": 0, "met": []}
    with _written() as connection:
        connection.execute(delete(LessonProgress).where(*_one(user_id, lesson)))
        connection.execute(insert(LessonProgress), [row])


def one_more_hint(user_id: str, lesson: str, most: int) -> None:
    """Show a hint more, of those that there are."""
    shown = LessonProgress.hints
    with _written() as connection:
        connection.execute(
            update(LessonProgress)
            .where(*_one(user_id, lesson), shown < most)
            .values(hints=shown + 1)
        )


def note(user_id: str, lesson: str, began_at: str, met: Collection[str], *, is_done: bool) -> None:
    """Note which checks were met, by what they say, unless the lesson was begun again meanwhile."""
    began = LessonProgress.began_at == began_at
    with _written() as connection:
        found = connection.execute(
            select(LessonProgress.met, LessonProgress.done_at).where(*_one(user_id, lesson), began)
        ).one_or_none()
        if found is None:
            return
        # Another tab may have noted others.
        values: dict[str, Any] = {"met": sorted({*found.met, *met})}
        if is_done and found.done_at is None:
            values["done_at"] = _now()
        connection.execute(
            update(LessonProgress).where(*_one(user_id, lesson), began).values(**values)
        )


def _written() -> Any:
    """Open the writing transaction; what was read for the page is let go first."""
    db.session.expunge_all()
    db.session.rollback()
    return writing()


def _one(user_id: str, lesson: str) -> Any:
    return LessonProgress.user_id == user_id, LessonProgress.lesson == lesson


def _now() -> str:
    return instant(datetime.now(UTC))


# What a person asks themselves; of our other pages we ask.
_OWN = ("", "explore")
_MOST = 500
# Of the demo's people, whose token others may try (the explorer).
_PATIENT_NAME = "patient"


class State(NamedTuple):
    """How a check stands; missing says what lacks yet, empty where it is met."""

    check: Check
    is_met: bool
    missing: str = ""
    # The request that came nearest.
    nearest: Asked | None = None


class Looked(NamedTuple):
    """What was found: how each check stands, and the learner's requests that count, newest first.

    Empty parts where the lesson was not begun.
    """

    states: Sequence[State]
    requests: Sequence[Asked]

    @property
    def is_done(self) -> bool:
        return all(state.is_met for state in self.states)

    @property
    def met(self) -> list[str]:
        return [state.check.says for state in self.states if state.is_met]


def look(lesson: Lesson, user_id: str, began_at: str, met: Collection[str]) -> Looked:
    """Return how the checks of a lesson stand, of which some were met before."""
    trail = _Trail(user_id, began_at)
    first = [one.requests[0] for one in lesson.checks if one.requests]
    spent = set[int]().union(*(meeting(wanted, trail.of(wanted)) for wanted in first))
    states = [
        State(check, True) if check.says in met else _state(check, trail, spent)
        for check in lesson.checks
    ]
    counted: dict[int, Asked] = {}
    for check in lesson.checks:
        for wanted in check.requests:
            counted |= {one.noted.number: one for one in trail.of(wanted)}
    newest = sorted(counted.values(), key=lambda one: one.noted.number, reverse=True)
    return Looked(states, newest)


def _state(check: Check, trail: _Trail, spent: Collection[int]) -> State:
    if check.question:
        return State(check, False, _("The question below waits for your answer."))
    if check.consent:
        if trail.has_consented(check.consent):
            return State(check, True)
        return State(check, False, _("You have allowed it nothing since you began."))
    requests = [trail.of(wanted) for wanted in check.requests]
    if last_of(check.requests, requests) is not None:
        return State(check, True)
    near = nearest(check.requests, requests, spent)
    if near is None:
        return State(check, False, _("No such request has come yet."))
    return State(check, False, _("Nearly: %(missing)s.", missing=near.missing), near.asked)


class _Trail:
    """The requests since a lesson was begun, each kind read when it is asked for."""

    def __init__(self, user_id: str, since: str) -> None:
        self._user_id = user_id
        self._since = since
        self._read: dict[str, Sequence[Asked]] = {}

    def of(self, wanted: Wanted) -> Sequence[Asked]:
        """Return the requests of those who count, the oldest first."""
        found = {one.noted.number: one for who in wanted.who for one in self._of(who)}
        return sorted(found.values(), key=lambda one: one.noted.number)

    def has_consented(self, client_id: str) -> bool:
        """Say whether the learner allowed a client something since then."""
        began = int(datetime.fromisoformat(self._since).timestamp())
        given = select(Grant.id).where(
            Grant.user_id == self._user_id,
            Grant.client_id == client_id,
            Grant.created_at >= began,
        )
        return bool(db.session.execute(select(exists(given))).scalar())

    def _of(self, who: str) -> Sequence[Asked]:
        if who not in self._read:
            self._read[who] = [asked(entry) for entry in self._entries(who)]
        return self._read[who]

    def _entries(self, who: str) -> Iterable[Entry]:
        if who == checks.BACKEND:
            return entries(client_id=BACKEND, since=self._since, limit=_MOST)
        if who == checks.NOBODY:
            found = entries(since=self._since, limit=_MOST)
            return [one for one in found if one.client_id is None]
        if who == checks.APP:
            return entries(user_id=self._user_id, client_id=APP, since=self._since, limit=_MOST)
        user_id = self._user_id
        if who == checks.PATIENT:
            named = select(User.id).where(User.username == _PATIENT_NAME)
            user_id = db.session.execute(named).scalar() or user_id
        found = entries(user_id=user_id, since=self._since, limit=_MOST)
        return [one for one in found if one.via in _OWN]
