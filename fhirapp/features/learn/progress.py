"""The progress of a learner in a lesson: a row in the database, and the checks that are met.

Whether a check is met follows from the requests of the audit trail since the lesson was started.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import delete, exists, insert, select, update

from fhirapp.audit.entries import AuditEntry, entries
from fhirapp.auth.models import AccessToken, Grant, User
from fhirapp.config import settings
from fhirapp.db import db, writing
from fhirapp.features.demo.accounts import APP, BACKEND
from fhirapp.features.learn import expected as senders
from fhirapp.features.learn.checks import Check, last_of, nearest, numbers_meeting, shown_by
from fhirapp.features.learn.classes import learner_of
from fhirapp.features.learn.expected import Expected
from fhirapp.features.learn.interaction import Interaction, interaction_of, with_pages
from fhirapp.features.learn.lesson import Lesson
from fhirapp.features.learn.models import LessonProgress
from fhirapp.fhir.temporal import instant
from fhirapp.rest.internal import InternalResponse
from fhirapp.web.internal_client import ask, token_of
from fhirapp.web.texts import _


def of_person(user_id: str) -> Mapping[str, LessonProgress]:
    """Return the progress in each lesson that a person started, by name."""
    rows = db.session.scalars(select(LessonProgress).where(LessonProgress.user_id == user_id))
    return {row.lesson: row for row in rows}


def of_people(user_ids: Collection[str]) -> Mapping[str, Mapping[str, LessonProgress]]:
    """Return the progress of several people in each lesson, by user id and lesson."""
    found: dict[str, dict[str, LessonProgress]] = {}
    rows = select(LessonProgress).where(LessonProgress.user_id.in_(user_ids))
    for row in db.session.scalars(rows):
        found.setdefault(row.user_id, {})[row.lesson] = row
    return found


def begin(user_id: str, lesson: str) -> None:
    """Start a lesson, or start it again: earlier requests do not count."""
    row = {"user_id": user_id, "lesson": lesson, "began_at": _now(), "hints": 0, "met": []}
    with writing() as connection:
        connection.execute(delete(LessonProgress).where(*_is_row(user_id, lesson)))
        connection.execute(insert(LessonProgress), [row])


def one_more_hint(user_id: str, lesson: str, most: int) -> None:
    """Show one more hint, up to most."""
    shown = LessonProgress.hints
    with writing() as connection:
        connection.execute(
            update(LessonProgress)
            .where(*_is_row(user_id, lesson), shown < most)
            .values(hints=shown + 1)
        )


def note(user_id: str, lesson: str, began_at: str, met: Collection[str], *, is_done: bool) -> None:
    """Record the checks that are met, unless the lesson was started again meanwhile."""
    began = LessonProgress.began_at == began_at
    with writing() as connection:
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


def _is_row(user_id: str, lesson: str) -> Any:
    return LessonProgress.user_id == user_id, LessonProgress.lesson == lesson


def _now() -> str:
    return instant(datetime.now(UTC))


# The requests that a person sends: directly, or with the explorer; other pages send their own.
_OWN = ("", "explore")
_MOST = 500
# Among so many the last one of a learner's own is looked for.
_MOST_OF_PAGES = 20
# Which of our pages asks, for the audit trail: it is not the learner.
_VIA = "learn"
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
    spent = set[int]().union(
        *(numbers_meeting(expected, trail.of(expected), trail.answer_of) for expected in first)
    )
    states = [
        CheckState(check, True) if check.says in met else _state(check, trail, spent)
        for check in lesson.checks
    ]
    counted: dict[int, Interaction] = {}
    for check in lesson.checks:
        for expected in check.requests:
            counted |= {request.entry.number: request for request in trail.of(expected)}
    newest = sorted(counted.values(), key=lambda request: request.entry.number, reverse=True)
    return LessonState(states, newest)


def _state(check: Check, trail: _Trail, spent: Collection[int]) -> CheckState:
    if check.question:
        return CheckState(check, False)
    if check.consent:
        scopes = trail.consents_to(check.consent)
        if any(check.consent_scope in ("", *scope.split()) for scope in scopes):
            return CheckState(check, True)
        lacking = _(
            "You allowed access, but without the scope %(scope)s.", scope=check.consent_scope
        )
        none = _("You have not allowed the app any access since you started.")
        return CheckState(check, False, lacking if scopes else none)
    if check.revocation:
        if trail.has_revoked(check.revocation):
            return CheckState(check, True)
        return CheckState(check, False, _("Its access has not been revoked since you started."))
    requests = [trail.of(expected) for expected in check.requests]
    if last_of(check.requests, requests, answer_of=trail.answer_of) is not None:
        return CheckState(check, True)
    near = nearest(check.requests, requests, spent, trail.answer_of)
    if near is None:
        return CheckState(check, False, _not_yet(check.requests[0], trail))
    return CheckState(check, False, _("Almost: %(missing)s.", missing=near.missing), near.request)


# How a request was sent that does not count, and how it would have to be, by the sender.
_SENT = {
    senders.YOU: _("with your own token"),
    senders.BACKEND: _("with the token of a backend"),
}
_TO_SEND = {
    senders.YOU: _("Send it with the explorer, or with your own token."),
    senders.PATIENT: _("Send it as the patient, with the explorer."),
    senders.APP: _("Send it with a token that you authorized for demo-app."),
    senders.BACKEND: _("Send it with the token of the backend in the lesson."),
    senders.NOBODY: _("Send it without a token."),
}


def _not_yet(step: Expected, trail: _Trail) -> str:
    """Return that there is no such request, or that it was sent in a way that does not count."""
    nothing = _("No matching request yet.")
    for who, sent in _SENT.items():
        others = () if who in step.who else trail.of(Expected(who=(who,)))
        counted = {request.entry.number for request in trail.of(step)}
        if any(step.is_near(request) and request.entry.number not in counted for request in others):
            how = _("A request was sent %(how)s, which does not count here.", how=_(sent))
            return f"{nothing} {how} {_(_TO_SEND[step.who[0]])}"
    return nothing


def is_shown(lesson: Lesson, check: Check, user_id: str, began_at: str, status: int) -> bool:
    """Return whether a request that counts showed the learner what a question asks for."""
    if check.question is None:
        return False
    trail = _Trail(user_id, began_at)
    return any(
        last_of([expected], [trail.of(expected)], answer_of=trail.answer_of)
        for expected in shown_by(check.question, tuple(sorted(lesson.senders)), status)
    )


def answer_now(address: str) -> InternalResponse:
    """Return what an address answers to the learner now."""
    accept = {"Accept": "application/fhir+json"}
    return ask(address, token_of().secret, headers=accept, via=_VIA)


@lru_cache(maxsize=1000)
def _served_by(address: str, _who: tuple[Path, str, int]) -> frozenset[str] | None:
    """Return the matches that an address answers, once for newest request of a learner."""
    answer = answer_now(address)
    if answer.status != 200:
        return None
    resources = (
        entry["resource"]
        for entry in answer.json().get("entry", ())
        if entry.get("search", {}).get("mode", "match") == "match"
    )
    return frozenset(
        f"{match['resourceType']}/{match['id']}/{match['meta']['versionId']}" for match in resources
    )


def requests_for(
    lesson: Lesson, user_id: str, began_at: str, done_at: str
) -> Sequence[Interaction]:
    """Return the requests that were meant for a lesson's checks, the oldest first."""
    trail = _Trail(user_id, began_at, done_at)
    found = {
        request.entry.number: request
        for check in lesson.checks
        for step in check.requests
        for request in trail.of(step)
        if step.is_near(request)
    }
    return [found[number] for number in sorted(found)]


def last_request(user_id: str) -> AuditEntry | None:
    """Return the last request of a learner of a class: as themselves, the patient, or the backend.

    Requests of our pages in their name do not count.
    """
    own = learner_of(user_id)
    found = [*entries(user_id=user_id, limit=_MOST_OF_PAGES)]
    if own is not None:
        found += entries(user_id=own.patient_user_id, limit=1)
        found += entries(client_id=own.client_id, limit=1)
    sent = [entry for entry in found if entry.via in _OWN]
    return max(sent, key=lambda entry: entry.number, default=None)


class _Trail:
    """The requests since a lesson was started, of each sender, read when needed."""

    def __init__(self, user_id: str, since: str, until: str | None = None) -> None:
        self._user_id = user_id
        self._since, self._until = since, until
        self._read: dict[str, Sequence[Interaction]] = {}

    def of(self, expected: Expected) -> Sequence[Interaction]:
        """Return the requests of the senders that count, the oldest first."""
        found = {request.entry.number: request for who in expected.who for request in self._of(who)}
        return sorted(found.values(), key=lambda request: request.entry.number)

    def answer_of(self, address: str) -> frozenset[str] | None:
        """Return the records that an address answers to the learner now."""
        newest = max((trail[-1].entry.number for trail in self._read.values() if trail), default=0)
        return _served_by(address, (settings().instance, self._user_id, newest))

    def consents_to(self, client_id: str) -> Sequence[str]:
        """Return the scopes of each consent of the learner's to a client since then."""
        began = int(datetime.fromisoformat(self._since).timestamp())
        consents = select(Grant.scope).where(
            Grant.user_id == self._user_id,
            Grant.client_id == client_id,
            Grant.created_at >= began,
        )
        return db.session.scalars(consents).all()

    def has_revoked(self, client_id: str) -> bool:
        """Return whether the learner's consent to a client, or a token of it, ended since then."""
        began = int(datetime.fromisoformat(self._since).timestamp())
        token_ended = exists().where(
            AccessToken.grant_id == Grant.id, AccessToken.revoked, AccessToken.issued_at >= began
        )
        ended = select(Grant.id).where(
            Grant.user_id == self._user_id,
            Grant.client_id == client_id,
            (Grant.revoked_at >= began) | token_ended,
        )
        return bool(db.session.execute(select(exists(ended))).scalar())

    def _of(self, who: str) -> Sequence[Interaction]:
        if who not in self._read:
            oldest_first = sorted(self._entries(who), key=lambda entry: entry.number)
            self._read[who] = with_pages([interaction_of(entry) for entry in oldest_first])
        return self._read[who]

    def _entries(self, who: str) -> Iterable[AuditEntry]:
        own = learner_of(self._user_id)
        chosen = partial(entries, since=self._since, until=self._until, limit=_MOST)
        if who == senders.BACKEND:
            return chosen(client_id=own.client_id if own else BACKEND)
        if who == senders.NOBODY:
            return [entry for entry in chosen() if entry.client_id is None]
        if who == senders.APP:
            return chosen(user_id=self._user_id, client_id=APP)
        user_id = self._user_id
        if who == senders.PATIENT:
            named = select(User.id).where(User.username == _PATIENT_NAME)
            shared = db.session.execute(named).scalar() or user_id
            user_id = own.patient_user_id if own else shared
        return [entry for entry in chosen(user_id=user_id) if entry.via in _OWN]
