"""The progress of a learner in a lesson: a row in the database, and the checks that are met.

Whether a check is met follows from the requests of the audit trail since the lesson was started.
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
from fhirapp.web.learn.checks import (
    Check,
    Expected,
    Interaction,
    interaction_of,
    last_of,
    meeting,
    nearest,
)
from fhirapp.web.learn.lesson import Lesson
from fhirapp.web.learn.models import LessonProgress
from fhirapp.web.texts import _


def of_person(user_id: str) -> Mapping[str, LessonProgress]:
    """Return the progress in each lesson that a person started, by name."""
    rows = db.session.scalars(select(LessonProgress).where(LessonProgress.user_id == user_id))
    return {row.lesson: row for row in rows}


def begin(user_id: str, lesson: str) -> None:
    """Start a lesson, or start it again: earlier requests do not count."""
    row = {"user_id": user_id, "lesson": lesson, "began_at": _now(), "hints": 0, "met": []}
    with _written() as connection:
        connection.execute(delete(LessonProgress).where(*_is_row(user_id, lesson)))
        connection.execute(insert(LessonProgress), [row])


def one_more_hint(user_id: str, lesson: str, most: int) -> None:
    """Show one more hint, up to most."""
    shown = LessonProgress.hints
    with _written() as connection:
        connection.execute(
            update(LessonProgress)
            .where(*_is_row(user_id, lesson), shown < most)
            .values(hints=shown + 1)
        )


def note(user_id: str, lesson: str, began_at: str, met: Collection[str], *, is_done: bool) -> None:
    """Record the checks that are met, unless the lesson was started again meanwhile."""
    began = LessonProgress.began_at == began_at
    with _written() as connection:
        found = connection.execute(
            select(LessonProgress.met, LessonProgress.done_at).where(
                *_is_row(user_id, lesson), began
            )
        ).one_or_none()
        if found is None:
            return
        # Another tab may have recorded others.
        values: dict[str, Any] = {"met": sorted({*found.met, *met})}
        if is_done and found.done_at is None:
            values["done_at"] = _now()
        connection.execute(
            update(LessonProgress).where(*_is_row(user_id, lesson), began).values(**values)
        )


def _written() -> Any:
    """Open the writing transaction, after the reading one of the page ends."""
    db.session.expunge_all()
    db.session.rollback()
    return writing()


def _is_row(user_id: str, lesson: str) -> Any:
    return LessonProgress.user_id == user_id, LessonProgress.lesson == lesson


def _now() -> str:
    return instant(datetime.now(UTC))


# The requests that a person sends: directly, or with the explorer; other pages send their own.
_OWN = ("", "explore")
_MOST = 500
# The demo account as which the explorer may send requests.
_PATIENT_NAME = "patient"


class CheckState(NamedTuple):
    """Whether a check is met, and what is missing, empty where it is met."""

    check: Check
    is_met: bool
    missing: str = ""
    # The request that comes nearest.
    nearest: Interaction | None = None


class LessonState(NamedTuple):
    """The state of each check, and the requests that count, the newest first."""

    states: Sequence[CheckState]
    requests: Sequence[Interaction]

    @property
    def is_done(self) -> bool:
        return all(state.is_met for state in self.states)

    @property
    def met(self) -> list[str]:
        return [state.check.says for state in self.states if state.is_met]


def lesson_state(lesson: Lesson, user_id: str, began_at: str, met: Collection[str]) -> LessonState:
    """Return the state of a lesson's checks, of which those in met were met before."""
    trail = _Trail(user_id, began_at)
    first = [check.requests[0] for check in lesson.checks if check.requests]
    spent = set[int]().union(*(meeting(expected, trail.of(expected)) for expected in first))
    states = [
        CheckState(check, True) if check.says in met else _state(check, trail, spent)
        for check in lesson.checks
    ]
    counted: dict[int, Interaction] = {}
    for check in lesson.checks:
        for expected in check.requests:
            counted |= {each.entry.number: each for each in trail.of(expected)}
    newest = sorted(counted.values(), key=lambda each: each.entry.number, reverse=True)
    return LessonState(states, newest)


def _state(check: Check, trail: _Trail, spent: Collection[int]) -> CheckState:
    if check.question:
        return CheckState(check, False, _("The question below waits for your answer."))
    if check.consent:
        if trail.has_consented(check.consent):
            return CheckState(check, True)
        return CheckState(check, False, _("You have not allowed it anything since you started."))
    requests = [trail.of(expected) for expected in check.requests]
    if last_of(check.requests, requests) is not None:
        return CheckState(check, True)
    near = nearest(check.requests, requests, spent)
    if near is None:
        return CheckState(check, False, _("No such request yet."))
    return CheckState(check, False, _("Nearly: %(missing)s.", missing=near.missing), near.request)


class _Trail:
    """The requests since a lesson was started, of each sender, read when needed."""

    def __init__(self, user_id: str, since: str) -> None:
        self._user_id = user_id
        self._since = since
        self._read: dict[str, Sequence[Interaction]] = {}

    def of(self, expected: Expected) -> Sequence[Interaction]:
        """Return the requests of the senders that count, the oldest first."""
        requests = {each.entry.number: each for who in expected.who for each in self._of(who)}
        return sorted(requests.values(), key=lambda each: each.entry.number)

    def has_consented(self, client_id: str) -> bool:
        """Return whether the learner consented to a client since then."""
        began = int(datetime.fromisoformat(self._since).timestamp())
        consents = select(Grant.id).where(
            Grant.user_id == self._user_id,
            Grant.client_id == client_id,
            Grant.created_at >= began,
        )
        return bool(db.session.execute(select(exists(consents))).scalar())

    def _of(self, who: str) -> Sequence[Interaction]:
        if who not in self._read:
            self._read[who] = [interaction_of(entry) for entry in self._entries(who)]
        return self._read[who]

    def _entries(self, who: str) -> Iterable[Entry]:
        if who == checks.BACKEND:
            return entries(client_id=BACKEND, since=self._since, limit=_MOST)
        if who == checks.NOBODY:
            all_entries = entries(since=self._since, limit=_MOST)
            return [entry for entry in all_entries if entry.client_id is None]
        if who == checks.APP:
            return entries(user_id=self._user_id, client_id=APP, since=self._since, limit=_MOST)
        user_id = self._user_id
        if who == checks.PATIENT:
            named = select(User.id).where(User.username == _PATIENT_NAME)
            user_id = db.session.execute(named).scalar() or user_id
        own = entries(user_id=user_id, since=self._since, limit=_MOST)
        return [entry for entry in own if entry.via in _OWN]
